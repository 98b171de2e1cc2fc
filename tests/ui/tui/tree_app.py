"""An app that shows one screen, and conversations with branches to show in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, overload

from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

from steno import ChatMessage
from steno.agent import PromptInput
from steno.app.session_log import BranchTreeRow
from steno.errors import Conflict
from steno.messages.call import ToolCall
from steno.messages.message import Message
from tests.ui.fake_session import FakeBranches, FakeSession

UNSET = object()


class TreeApp(App[None]):
    """An app that shows a screen, and keeps its result."""

    def __init__(self, screen: Screen[Any]) -> None:
        super().__init__()
        self._shown = screen
        self.result: Any = UNSET

    def on_mount(self) -> None:
        self.push_screen(self._shown, self.take)

    def take(self, result: Any) -> None:
        self.result = result


class TreeUser:
    """Presses keys, and reads the screen."""

    def __init__(self, app: TreeApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            await self.pilot.pause()

    async def type(self, text: str) -> None:
        await self.press(*text)

    @property
    def lines(self) -> list[str]:
        """The lines of the topmost screen."""
        return [strip.text.rstrip() for strip in self.app.screen._compositor.render_strips()]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def line(self, part: str) -> str:
        """Return the only line that contains a text."""
        (found,) = [line for line in self.lines if part in line]
        return found


def run_steps(
    screen: Screen[Any],
    steps: Callable[[TreeUser], Awaitable[None]],
    *,
    size: tuple[int, int] = (80, 30),
) -> Any:
    """Run steps, and return the result of the screen."""

    async def main() -> Any:
        app = TreeApp(screen)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await steps(TreeUser(app, pilot))
            await pilot.pause()
        return app.result

    return asyncio.run(main())


def alternating_messages(*texts: str) -> list[Message]:
    """Return user and assistant messages in turn."""
    makers: tuple[Callable[[str], Message], ...] = (ChatMessage.user, ChatMessage.assistant)
    return [makers[number % 2](text) for number, text in enumerate(texts)]


def calls_and_results(count: int) -> Iterator[Message]:
    """Return calls and their results, which a tree folds."""
    for number in range(count):
        call = ToolCall(id=f"call-{number}", name="bash", arguments=f'{{"command": "ls {number}"}}')
        yield ChatMessage.assistant(None, [call])
        yield ChatMessage.tool_result(call.id, f"file {number}")


def two_branches() -> FakeSession:
    """Return `main` (active), and `other`, which diverges after #2."""
    session = FakeSession(
        alternating_messages("how do I list files", "use ls", "and hidden ones", "use ls -a")
    )
    branch_off(session, "other", 1, alternating_messages("and by age", "use ls -t"))
    return session


def three_branches() -> FakeSession:
    """Return `main` (active), and `other` and `third`, which diverge after #2."""
    session = two_branches()
    branch_off(session, "third", 1, alternating_messages("and by size", "use ls -S"))
    return session


def branch_off(session: FakeSession, name: str, behind: int, messages: Iterable[Message]) -> None:
    """Add a message to a new branch after an entry of the active one, and switch back."""
    conversation = session.conversation
    active = conversation.branch
    conversation.fork(name, at=conversation.entries()[behind].id)
    for message in messages:
        conversation.append(message, branch=name)
    assert conversation.branch == active


class BusyBranches(FakeBranches):
    """Branches that cannot be changed now."""

    def fork(self, name: str = "", *, at: str | None = None) -> str:
        raise Conflict("branches: the agent is at work; wait for it, or press Esc")

    def fork_before(self, entry: str, name: str = "") -> PromptInput:
        raise Conflict("branches: the agent is at work; wait for it, or press Esc")

    def switch(self, name: str) -> None:
        raise Conflict("branches: the agent is at work; wait for it, or press Esc")

    def label(self, entry: str, text: str) -> None:
        raise Conflict("branches: the agent is at work; wait for it, or press Esc")


class CountedTree(Sequence[BranchTreeRow]):
    """Rows of a tree that count how often one of them is read."""

    def __init__(self, rows: Sequence[BranchTreeRow]) -> None:
        self._rows = rows
        self.looks = 0

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> BranchTreeRow: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[BranchTreeRow]: ...
    def __getitem__(self, index: int | slice) -> BranchTreeRow | Sequence[BranchTreeRow]:
        self.looks += 1
        return self._rows[index]


class ScriptedBranches(FakeBranches):
    """Branches whose rows a test sets."""

    def __init__(self, session: FakeSession, rows: Sequence[BranchTreeRow]) -> None:
        super().__init__(session)
        self._rows = rows

    async def rows(self) -> Sequence[BranchTreeRow]:
        return self._rows
