"""A user of the plain mode, at a pseudo-terminal or with a pipe."""

from __future__ import annotations

import asyncio
import io
import os
import pty
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

from steno.agent.events import EndReason, RunEnded, RunResult
from steno.agent.session_events import PendingCallsChanged
from steno.app.approval_queue import PendingCall
from steno.errors import StenoError
from steno.messages.usage import Usage
from steno.ports import ApprovalDecision
from steno.ui.plain.session import run_plain
from tests.ui.fake_session import FakeSession

PATIENCE_S = 60


class LineUser:
    """Types lines, and reads the output."""

    def __init__(self, task: FakeSession, keys: int) -> None:
        self.session = task
        self.out = io.StringIO()
        self._keys = keys
        self._seen = 0

    def type(self, text: str) -> None:
        os.write(self._keys, text.encode())

    @property
    def said(self) -> str:
        """The whole output."""
        return self.out.getvalue()

    async def see(self, text: str) -> None:
        """Wait until a text is printed after the last awaited one."""
        try:
            await self.until(lambda: text in self.said[self._seen :])
        except TimeoutError:
            raise AssertionError(f"waited for {text!r}, and saw:\n{self.said}") from None
        self._seen = self.said.index(text, self._seen) + len(text)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110 - whoever changes it tells nobody
                await asyncio.sleep(0.005)

    async def answer(self, *lines: str) -> None:
        """Answer one prompt after the other."""
        for line in lines:
            await self.see("? ")
            self.type(f"{line}\n")

    # -- what the desk does ------------------------------------------------------------------

    def ask(self, *pending: PendingCall) -> None:
        """Set the pending calls of the agent."""
        self.session.is_running = True
        self.session.pending_calls = list(pending)
        self.session.happen(PendingCallsChanged())

    def end(self, ending: EndReason = EndReason.DONE, reason: str = "", **more: Any) -> None:
        """End the run."""
        self.session.is_running = False
        self.session.happen(RunEnded(result(ending, reason, **more)))

    @property
    def decisions(self) -> list[tuple[str, ApprovalDecision]]:
        return [(asked[1], asked[2]) for asked in self.session.asked if asked[0] == "decide"]


def result(
    ending: EndReason = EndReason.DONE,
    reason: str = "",
    error: StenoError | None = None,
    cost: Decimal | None = Decimal("0.014"),
) -> RunResult:
    usage = Usage(input_tokens=1_000, output_tokens=234)
    return RunResult(ending, None, 1, usage, cost, reason, error)


def at_terminal(
    act: Callable[[LineUser], Awaitable[None]],
    session: FakeSession | None = None,
    *,
    status: int = 0,
    **settings: Any,
) -> LineUser:
    """Run steps at a terminal without line editing, and quit with Ctrl+D."""

    async def run() -> LineUser:
        end, other_end = pty.openpty()
        try:
            user = LineUser(session or FakeSession(), end)
            task = asyncio.create_task(
                run_plain(user.session, stdin=other_end, stdout=user.out, environ={}, **settings)
            )
            await user.see("act> ")
            await act(user)
            if not task.done():
                user.session.is_running = False
                user.session.pending_calls = []
                user.session.happen(PendingCallsChanged())
                user.type("\x04")
            assert await asyncio.wait_for(task, PATIENCE_S) == status
            return user
        finally:
            os.close(end)
            os.close(other_end)

    return asyncio.run(run())


def through_a_pipe(text: str, session: FakeSession | None = None, **settings: Any) -> LineUser:
    """Send all lines through a pipe, and wait for the end."""

    async def run() -> LineUser:
        end, other_end = os.pipe()
        try:
            user = LineUser(session or FakeSession(), other_end)
            user.type(text)
            os.close(other_end)
            task = run_plain(user.session, stdin=end, stdout=user.out, environ={}, **settings)
            assert await asyncio.wait_for(task, PATIENCE_S) == 0
            return user
        finally:
            os.close(end)

    return asyncio.run(run())
