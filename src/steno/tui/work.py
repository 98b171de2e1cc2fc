"""Work at a desk on a full screen: what is typed becomes requests, what happens becomes blocks.

Loaded when the screen has been painted; see `app` for the screen itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Final, final

from steno.agent.events import Asked, CallEnded, CallStarted, Recorded, RunEnded, TurnStarted
from steno.entry import Mode
from steno.errors import StenoError
from steno.event import TextDelta, ThinkingDelta, ToolCallBegin
from steno.printable import on_one_line
from steno.tui.app import Early, Terminal
from steno.tui.block import Block, Kind
from steno.tui.chronicle import Chronicle
from steno.tui.commands import Typed, read_command
from steno.tui.desk import (
    Candidate,
    Decided,
    Desk,
    DeskEvent,
    Moved,
    Reply,
    ShellEnded,
    ShellStarted,
    Trouble,
    Words,
)
from steno.tui.screens.approvals import ApprovalPanel
from steno.tui.screens.help import KEYS, help_text
from steno.tui.screens.pager import PagerScreen
from steno.tui.screens.picking import PickScreen
from steno.tui.screens.sessions import SessionsScreen
from steno.tui.screens.tree import TreeScreen
from steno.tui.themes import all_theme_names, theme_named

_MOST_LINES: Final = 15
"""A longer reply gets a screen of its own."""
_UNFINISHED: Final = "this session stopped in the middle; /retry goes on there"


@final
class Working:
    """A person at a desk."""

    def __init__(self, app: Terminal, desk: Desk) -> None:
        """Take the screen and the desk."""
        self._app = app
        self._desk = desk
        self._chronicle = Chronicle(app.transcript, desk.image)
        self._panel = ApprovalPanel(desk, idle_s=self._idle_s, now=app.clock)
        self._left = asyncio.Event()

    async def live(self, typed: Sequence[Early]) -> None:
        """Show what is there, do what was typed before, and work until the person leaves."""
        await self._app.screen_stack[0].mount(self._panel, before=self._app.prompt)
        self._desk.watch(self._watch)
        self._show_anew()
        for text, images in typed:
            self.submit(text, images)
        await self._left.wait()
        self._app.status_line.doing("leaving")
        await self._desk.close()

    def leave(self) -> None:
        """Stop working; what runs is stopped, and on record."""
        self._left.set()

    # -- what happens ------------------------------------------------------------------------

    def _watch(self, event: DeskEvent) -> None:
        self._chronicle.tell(event)
        match event:
            case TextDelta():
                self._app.status_line.doing("answering")
            case ThinkingDelta():
                self._app.status_line.doing("thinking")
            case ToolCallBegin(_, _, name):
                self._app.status_line.doing(f"calling {on_one_line(name or 'a tool')}")
            case TurnStarted():
                self._app.status_line.doing(f"waiting for {on_one_line(self._desk.standing.model)}")
            case CallStarted(call):
                self._app.status_line.doing(f"running {on_one_line(call.name)}")
            case CallEnded():
                self._app.status_line.doing("working")
            case Asked() | Decided():
                self._show_pending()
            case ShellStarted(command):
                self._app.status_line.doing(f"running {on_one_line(command)}")
            case Recorded():
                self._show_standing()
            case RunEnded() | ShellEnded() | Trouble():
                if not self._desk.is_running:
                    self._app.status_line.doing(None)
                self._show_pending()
                self._show_standing()
            case Moved():
                self._show_anew()
            case _:
                pass

    def _show_anew(self) -> None:
        self._chronicle.open(self._desk.entries())
        if self._desk.is_unfinished and not self._desk.is_running:
            self._chronicle.add(Kind.NOTICE, _UNFINISHED)
        self._show_pending()
        self._show_standing()

    def _show_standing(self) -> None:
        self._app.status_line.show(self._desk.standing)

    def _show_pending(self) -> None:
        pending = self._desk.pending
        self._panel.refresh_pending(pending)
        if any(one.question is not None for one in pending):
            self._app.status_line.doing("asks you")

    def _idle_s(self) -> float:
        """Return for how long the prompt, blank and with the focus, was left alone."""
        prompt = self._app.prompt
        is_left_alone = prompt.is_blank and prompt.has_focus_within
        return time.monotonic() - prompt.last_key_at if is_left_alone else 0.0

    # -- what is typed -----------------------------------------------------------------------

    def submit(self, text: str, images: tuple[str | bytes, ...]) -> None:
        """Do what was typed."""
        if not text.strip() and not images:
            return
        if text.startswith("!"):
            self._do(self._run_shell(text))
        elif (typed := read_command(text)) is not None and not images:
            self._do(self._command(text, typed))
        else:
            self._do(self._say(Words(text, images)))

    async def _run_shell(self, text: str) -> None:
        with _Kept(self, text):
            await self._desk.shell(text[1:].strip())

    async def _say(self, words: Words) -> None:
        steers = self._desk.is_running
        with _Kept(self, words.text, words.images):
            await self._desk.say(words)
            if steers:
                self._chronicle.queue(words.text)

    async def _command(self, text: str, typed: Typed) -> None:
        with _Kept(self, text):
            match typed:
                case Typed("quit" | "exit", _):
                    self.leave()
                case Typed("help", _):
                    await self._app.push_screen_wait(PagerScreen(Reply(help_text(KEYS), "help")))
                case Typed("theme", name):
                    await self._change_theme(name)
                case Typed("tree", ""):
                    await self._walk_tree()
                case Typed("resume", ""):
                    await self._app.push_screen_wait(SessionsScreen(self._desk))
                case Typed("model", ""):
                    await self._pick_model()
                case Typed(name, argument):
                    self._show_reply(await self._desk.command(name, argument))
        self._show_standing()

    def _show_reply(self, reply: Reply) -> None:
        if reply.text.count("\n") < _MOST_LINES:
            self._chronicle.reply(reply)
        else:
            self._app.push_screen(PagerScreen(reply))

    async def _change_theme(self, name: str) -> None:
        names = all_theme_names()
        if not name:
            choices = [Candidate(one) for one in names]
            picked = await self._app.push_screen_wait(PickScreen("theme", choices, self._app.theme))
            name = picked or ""
        if not name:
            return
        theme = theme_named(name)
        if theme is None:
            raise StenoError(f"theme: there is none of this name; there are {', '.join(names)}")
        self._app.theme = theme
        told = f'theme {theme}; `theme = "{theme}"` in your settings keeps it'
        self._chronicle.add(Kind.NOTICE, told)

    async def _pick_model(self) -> None:
        current = self._desk.standing.model
        choices = await self._desk.models()
        name = await self._app.push_screen_wait(PickScreen("model", choices, current))
        if name and name != current:
            self._show_reply(await self._desk.change_model(name))

    # -- keys --------------------------------------------------------------------------------

    def complete(self, typed: str) -> None:
        """Offer what may be meant."""
        self._do(self._complete(typed))

    async def _complete(self, typed: str) -> None:
        self._app.prompt.offer(typed, await self._desk.complete(typed))

    def interrupt(self) -> bool:
        """Stop what is being done; tell whether there was anything."""
        is_running = self._desk.is_running
        self._desk.interrupt()
        return is_running

    def change_mode(self) -> None:
        """Go from plan to act, or back."""
        other = Mode.ACT if self._desk.standing.mode is Mode.PLAN else Mode.PLAN
        with _Kept(self):
            self._desk.change_mode(other)
        self._show_standing()

    def open_tree(self) -> None:
        """Show the branches."""
        self._do(self._command("", Typed("tree", "")))

    async def _walk_tree(self) -> None:
        words = (await self._app.push_screen_wait(TreeScreen(self._desk))).words
        if words is not None:
            self._app.prompt.load(words.text, words.images)
            self._app.prompt.focus()

    def edit(self, block: Block) -> None:
        """Say again in a new branch, and otherwise, what a block says."""
        if block.kind is not Kind.USER or block.entry is None:
            self._app.status_line.say("only your own words can be edited")
            return
        with _Kept(self):
            words = self._desk.branches.fork_before(block.entry)
            self._app.prompt.load(words.text, words.images)
            self._app.prompt.focus()

    def decide(self) -> None:
        """Go to what awaits a decision."""
        if self._desk.pending:
            self._panel.focus()

    # -- what goes wrong ---------------------------------------------------------------------

    def _do(self, job: Coroutine[Any, Any, None]) -> None:
        self._app.run_worker(self._told(job), exit_on_error=False)

    async def _told(self, job: Coroutine[Any, Any, None]) -> None:
        try:
            await job
        except Exception as exc:  # noqa: BLE001 - a fault of ours must not take the session with it
            kind = type(exc).__name__
            told = f"a fault in steno: {kind}: {exc}; the session is as it was, please report this"
            self._chronicle.add(Kind.TROUBLE, told)

    def tell_trouble(
        self, trouble: Exception, text: str, images: Sequence[str | bytes] = ()
    ) -> None:
        """Tell what went wrong; what was typed goes back, so that it need not be typed again."""
        self._chronicle.add(Kind.TROUBLE, str(trouble))
        if text and self._app.prompt.is_blank:
            self._app.prompt.load(text, tuple(images))


@final
class _Kept:
    """Keeps what was typed, where what it asks for is refused."""

    def __init__(self, work: Working, text: str = "", images: Sequence[str | bytes] = ()) -> None:
        self._work = work
        self._text = text
        self._images = images

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, exc: BaseException | None, where: object) -> bool:
        if not isinstance(exc, (StenoError, OSError)):
            return False
        self._work.tell_trouble(exc, self._text, self._images)
        return True
