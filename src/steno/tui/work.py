"""Work at a desk on a full screen: what is typed becomes requests, what happens becomes blocks.

Loaded when the screen has been painted; see `app` for the screen itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, final

from steno.agent.events import Asked, CallEnded, CallStarted, Recorded, RunEnded, TurnStarted
from steno.entry import Mode
from steno.errors import StenoError
from steno.event import TextDelta, ThinkingDelta, ToolCallBegin
from steno.printable import on_one_line
from steno.tui.app import Terminal
from steno.tui.block import Block, Kind
from steno.tui.chronicle import Chronicle
from steno.tui.commands import COMMAND_NAMES, HOW_TO_LEAVE, WORDS_TO_LEAVE, Typed, read_command
from steno.tui.desk import (
    Candidate,
    Decided,
    Desk,
    DeskEvent,
    Moved,
    Reply,
    Returned,
    ShellEnded,
    ShellStarted,
    Trouble,
    Words,
)
from steno.tui.prompt.prompt import Prompt
from steno.tui.screens.approvals import ApprovalPanel
from steno.tui.screens.help import KEYS, help_text
from steno.tui.screens.pager import PagerScreen
from steno.tui.screens.picking import PickScreen
from steno.tui.screens.sessions import SessionsScreen
from steno.tui.screens.tree import TreeScreen
from steno.tui.themes import all_theme_names, theme_named

_LOG: Final = logging.getLogger("steno.tui")
_MOST_LINES: Final = 15
"""A longer reply gets a screen of its own."""
_NOTHING: Final = Words("")
_LONG_S: Final = 0.3
"""What takes longer is told while it lasts."""
_CAN_STOP: Final = ("compact", "model")
"""Commands that take long, and that an interruption ends."""
_UNFINISHED: Final = "this session stopped in the middle; /retry goes on there"


@final
class Working:
    """A person at a desk."""

    def __init__(self, app: Terminal, desk: Desk) -> None:
        """Take the screen and the desk."""
        self._app = app
        self._session = desk
        self._prompt = app.prompt
        self._status = app.status_line
        app.transcript.set_image_source(desk.find_image)
        self._transcript_state = Chronicle(app.transcript)
        self._panel = ApprovalPanel(
            desk,
            idle_s=self._idle_s,
            now=app.clock,
            tell=lambda text: self._transcript_state.add_text(Kind.NOTICE, text),
        )
        self._interruptible_count = 0
        """How much is being asked of the desk that can be stopped before it runs."""
        self._shown_session: str | None = ""
        """The session that was shown last."""
        self._leaving = asyncio.Event()

    async def run(self, early: Sequence[Prompt.Submitted]) -> None:
        """Show what is there, do what was typed before, and work until the person leaves."""
        await self._app.screen_stack[0].mount(self._panel, before=self._prompt)
        self._session.subscribe(self._on_event)
        self._reload()
        for sent in early:
            self.submit(sent)
        await self._leaving.wait()
        self._status.show_activity("leaving")
        await self._session.close()

    def leave(self) -> None:
        """Stop working; what runs is stopped, and on record."""
        self._leaving.set()

    # -- what happens ------------------------------------------------------------------------

    def _on_event(self, event: DeskEvent) -> None:
        self._transcript_state.apply(event)
        match event:
            case TextDelta():
                self._show_running("answering")
            case ThinkingDelta():
                self._show_running("thinking")
            case ToolCallBegin(_, _, name):
                self._show_running(f"calling {on_one_line(name or 'a tool')}")
            case TurnStarted():
                self._show_running(f"waiting for {on_one_line(self._session.status.model)}")
            case CallStarted(call):
                self._show_running(f"running {on_one_line(call.name)}")
            case CallEnded():
                self._show_running("working")
            case Asked() | Decided():
                self._show_pending()
            case ShellStarted(command):
                self._show_running(f"running {on_one_line(command)}")
            case Recorded():
                self._show_status()
            case RunEnded() | ShellEnded():
                self._show_running("working")  # the other of the two, perhaps
                self._update_idle()
            case Trouble():
                self._update_idle()
            case Returned(words):
                self._return_to_prompt(words)
            case Moved():
                self._reload()
            case _:
                pass

    def _show_running(self, doing: str) -> None:
        """Show what a run does; Esc ends it."""
        self._status.show_activity(doing, can_stop=True)

    def _update_idle(self) -> None:
        """Show that nothing is being done any more, if that is so: then nobody hears what waits."""
        if not self._session.is_running:
            self._status.show_activity(None)
            self._return_to_prompt(self._transcript_state.abandon_pending())
        self._show_pending()
        self._show_status()

    def _reload(self) -> None:
        self._transcript_state.load(self._session.entries())
        # Who moves about in a session knows where it stopped.
        is_opened = self._session.status.session != self._shown_session
        if is_opened and self._session.is_unfinished and not self._session.is_running:
            self._transcript_state.add_text(Kind.NOTICE, _UNFINISHED)
        self._show_pending()
        self._show_status()

    def _show_status(self) -> None:
        standing = self._session.status
        self._shown_session = standing.session
        self._status.show_status(standing)
        self._app.transcript.show_greeting(on_one_line(f"{standing.folder} · {standing.model}"))

    def _show_pending(self) -> None:
        pending = self._session.pending_calls
        self._panel.show_pending(pending)
        if any(one.request is not None for one in pending):
            self._status.show_activity("asks you")

    def _idle_s(self) -> float:
        """Return for how long the prompt, blank and with the focus, was left alone."""
        prompt = self._prompt
        is_left_alone = prompt.is_blank and prompt.has_focus_within
        return time.monotonic() - prompt.last_key_at if is_left_alone else 0.0

    # -- what is typed -----------------------------------------------------------------------

    def submit(self, sent: Prompt.Submitted) -> None:
        """Do what was typed; only what was typed is a command, and never what was pasted."""
        if not sent.text.strip() and not sent.images:
            return
        if sent.text.strip() in WORDS_TO_LEAVE and not sent.images:
            self._transcript_state.add_text(Kind.NOTICE, HOW_TO_LEAVE)
            return
        command = read_command(sent.text) if sent.typed.startswith("/") else None
        if sent.typed.startswith("!"):
            self._start(self._run_shell(sent.text))
        elif command is not None and not sent.images:
            self._start(self._run_command(sent.text, command))
        else:
            self._start(self._send(Words(sent.text, sent.images)))

    async def _run_shell(self, text: str) -> None:
        with self._reporting_errors(Words(text)):
            await self._session.run_shell(text[1:].strip())

    async def _send(self, words: Words) -> None:
        unheard = self._transcript_state.pending_input
        block = unheard.add(words, steers=self._session.is_running)
        with self._reporting_errors(words):
            try:
                with self._showing_activity("reading what you said", can_stop=True):
                    await self._session.send(words)
            except BaseException:
                unheard.reject(block)
                raise
            unheard.accept(block)

    async def _run_command(self, text: str, typed: Typed) -> None:
        # Where there is nothing to mend, it would only be in the way of what is typed next.
        can_mend = bool(typed.argument) or typed.name not in COMMAND_NAMES
        with self._reporting_errors(Words(text) if can_mend else _NOTHING):
            match typed:
                case Typed("quit", _):
                    self.leave()
                case Typed("help", _):
                    self.open_help()
                case Typed("theme", name):
                    await self._change_theme(name)
                case Typed("tree", _):
                    await self._open_tree_screen()
                case Typed("resume", ""):
                    await self._app.push_screen_wait(SessionsScreen(self._session))
                case Typed("model", ""):
                    await self._pick_model()
                case Typed(name, argument):
                    with self._showing_activity(f"/{name}", can_stop=name in _CAN_STOP):
                        self._show_reply(await self._session.run_command(name, argument))
        self._show_status()

    def _show_reply(self, reply: Reply) -> None:
        if reply.text.count("\n") < _MOST_LINES:
            self._transcript_state.add_reply(reply)
        else:
            self._app.push_screen(PagerScreen(reply))

    @contextmanager
    def _showing_activity(self, text: str, *, can_stop: bool = False) -> Generator[None]:
        """Show what is being done, if it takes long and nothing else is, and that it is over."""
        tell = partial(self._status.show_activity, text, can_stop=can_stop)
        soon = asyncio.get_running_loop().call_later(_LONG_S, tell)
        if self._session.is_running:
            soon.cancel()
        self._interruptible_count += can_stop
        try:
            yield
        finally:
            self._interruptible_count -= can_stop
            soon.cancel()
            self._update_idle()

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
        how_to_keep = await self._session.run_command("theme", theme)
        self._transcript_state.add_text(Kind.NOTICE, f"theme {theme}; {how_to_keep.text}")

    async def _pick_model(self) -> None:
        current = self._session.status.model
        with self._showing_activity("looking for models", can_stop=True):
            choices = await self._session.list_models()
        name = await self._app.push_screen_wait(PickScreen("model", choices, current))
        if not name:  # what is wanted is perhaps not there yet
            self._show_reply(await self._session.run_command("model"))
        elif name != current:
            with self._showing_activity(f"/model {name}", can_stop=True):
                self._show_reply(await self._session.change_model(name))

    # -- keys --------------------------------------------------------------------------------

    def complete(self, typed: str) -> None:
        """Offer what may be meant."""
        self._start(self._complete(typed))

    async def _complete(self, typed: str) -> None:
        self._prompt.show_suggestions(typed, await self._session.complete(typed))

    def interrupt(self) -> bool:
        """Stop what is being done; tell whether there was anything."""
        can_stop = self._session.is_running or self._interruptible_count > 0
        self._session.interrupt()
        return can_stop

    def change_mode(self) -> None:
        """Go from plan to act, or back."""
        other = Mode.ACT if self._session.status.mode is Mode.PLAN else Mode.PLAN
        with self._reporting_errors():
            self._session.change_mode(other)
        self._show_status()

    def open_help(self) -> None:
        """Show what can be typed."""
        self._app.push_screen(PagerScreen(Reply(help_text(KEYS), "help")))

    def open_tree(self) -> None:
        """Show the branches."""
        self._start(self._run_command("", Typed("tree", "")))

    async def _open_tree_screen(self) -> None:
        words = (await self._app.push_screen_wait(TreeScreen(self._session))).prompt
        if words is not None:
            self._load_prompt(words)

    def edit_item(self, block: Block) -> None:
        """Say again in a new branch, and otherwise, what a block says."""
        words = self._transcript_state.pending_input.take_back(block)
        if words is not None:
            self._load_prompt(words)
        elif block.kind is not Kind.USER or block.entry is None:
            self._status.show_message("only your own words can be edited")
        else:
            with self._reporting_errors():
                self._load_prompt(self._session.branches.fork_before(block.entry))

    def _load_prompt(self, words: Words) -> None:
        self._prompt.load(words.text, words.images)
        self._prompt.focus()

    def focus_approvals(self) -> None:
        """Go to what awaits a decision."""
        if self._session.pending_calls:
            self._panel.focus()

    # -- what goes wrong ---------------------------------------------------------------------

    def _start(self, job: Coroutine[Any, Any, None]) -> None:
        self._app.run_worker(self._report_failure(job), exit_on_error=False)

    async def _report_failure(self, job: Coroutine[Any, Any, None]) -> None:
        try:
            await job
        except Exception as exc:  # noqa: BLE001 - a fault of ours must not take the session with it
            _LOG.exception("a fault in steno")
            told = f"a fault in steno: {type(exc).__name__}: {exc}; what is on record is safe"
            self._transcript_state.add_text(Kind.ERROR, told)

    @contextmanager
    def _reporting_errors(self, words: Words = _NOTHING) -> Generator[None]:
        """Tell what is refused; what was typed goes back, so that it need not be typed again."""
        try:
            yield
        except (StenoError, OSError) as exc:
            self._transcript_state.add_text(Kind.ERROR, str(exc))
            self._return_to_prompt([words])
        except Exception:
            self._return_to_prompt([words])
            raise

    def _return_to_prompt(self, words: Sequence[Words]) -> None:
        """Put what was not said into the prompt; where somebody types, keep it beside that."""
        unsaid = [one for one in words if one.text or one.images]
        if unsaid and self._prompt.is_blank:
            images = [image for one in unsaid for image in one.images]
            # An empty line between them: it is seen where one ends, and can be taken apart.
            self._prompt.load("\n\n".join([one.text for one in unsaid]), images)
        else:
            for one in unsaid:
                self._transcript_state.pending_input.keep_returned(one)
