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
        self._desk = desk
        self._prompt = app.prompt
        self._status = app.status_line
        app.transcript.fetch_images_from(desk.image)
        self._chronicle = Chronicle(app.transcript)
        self._panel = ApprovalPanel(
            desk,
            idle_s=self._idle_s,
            now=app.clock,
            tell=lambda text: self._chronicle.add(Kind.NOTICE, text),
        )
        self._stoppable = 0
        """How much is being asked of the desk that can be stopped before it runs."""
        self._at_hand: str | None = ""
        """The session that was shown last."""
        self._left = asyncio.Event()

    async def live(self, early: Sequence[Prompt.Submitted]) -> None:
        """Show what is there, do what was typed before, and work until the person leaves."""
        await self._app.screen_stack[0].mount(self._panel, before=self._prompt)
        self._desk.watch(self._watch)
        self._show_anew()
        for sent in early:
            self.submit(sent)
        await self._left.wait()
        self._status.doing("leaving")
        await self._desk.close()

    def leave(self) -> None:
        """Stop working; what runs is stopped, and on record."""
        self._left.set()

    # -- what happens ------------------------------------------------------------------------

    def _watch(self, event: DeskEvent) -> None:
        self._chronicle.tell(event)
        match event:
            case TextDelta():
                self._run("answering")
            case ThinkingDelta():
                self._run("thinking")
            case ToolCallBegin(_, _, name):
                self._run(f"calling {on_one_line(name or 'a tool')}")
            case TurnStarted():
                self._run(f"waiting for {on_one_line(self._desk.standing.model)}")
            case CallStarted(call):
                self._run(f"running {on_one_line(call.name)}")
            case CallEnded():
                self._run("working")
            case Asked() | Decided():
                self._show_pending()
            case ShellStarted(command):
                self._run(f"running {on_one_line(command)}")
            case Recorded():
                self._show_standing()
            case RunEnded() | ShellEnded():
                self._run("working")  # the other of the two, perhaps
                self._rest()
            case Trouble():
                self._rest()
            case Returned(words):
                self._give_back(words)
            case Moved():
                self._show_anew()
            case _:
                pass

    def _run(self, doing: str) -> None:
        """Show what a run does; Esc ends it."""
        self._status.doing(doing, can_stop=True)

    def _rest(self) -> None:
        """Show that nothing is being done any more, if that is so: then nobody hears what waits."""
        if not self._desk.is_running:
            self._status.doing(None)
            self._give_back(self._chronicle.abandon())
        self._show_pending()
        self._show_standing()

    def _show_anew(self) -> None:
        self._chronicle.open(self._desk.entries())
        # Who moves about in a session knows where it stopped.
        is_opened = self._desk.standing.session != self._at_hand
        if is_opened and self._desk.is_unfinished and not self._desk.is_running:
            self._chronicle.add(Kind.NOTICE, _UNFINISHED)
        self._show_pending()
        self._show_standing()

    def _show_standing(self) -> None:
        standing = self._desk.standing
        self._at_hand = standing.session
        self._status.show(standing)
        self._app.transcript.greet(on_one_line(f"{standing.folder} · {standing.model}"))

    def _show_pending(self) -> None:
        pending = self._desk.pending
        self._panel.refresh_pending(pending)
        if any(one.question is not None for one in pending):
            self._status.doing("asks you")

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
            self._chronicle.add(Kind.NOTICE, HOW_TO_LEAVE)
            return
        command = read_command(sent.text) if sent.typed.startswith("/") else None
        if sent.typed.startswith("!"):
            self._do(self._run_shell(sent.text))
        elif command is not None and not sent.images:
            self._do(self._command(sent.text, command))
        else:
            self._do(self._say(Words(sent.text, sent.images)))

    async def _run_shell(self, text: str) -> None:
        with self._kept(Words(text)):
            await self._desk.shell(text[1:].strip())

    async def _say(self, words: Words) -> None:
        unheard = self._chronicle.unheard
        block = unheard.wait(words, steers=self._desk.is_running)
        with self._kept(words):
            try:
                with self._telling("reading what you said", can_stop=True):
                    await self._desk.say(words)
            except BaseException:
                unheard.refuse(block)
                raise
            unheard.take(block)

    async def _command(self, text: str, typed: Typed) -> None:
        # Where there is nothing to mend, it would only be in the way of what is typed next.
        can_mend = bool(typed.argument) or typed.name not in COMMAND_NAMES
        with self._kept(Words(text) if can_mend else _NOTHING):
            match typed:
                case Typed("quit", _):
                    self.leave()
                case Typed("help", _):
                    self.open_help()
                case Typed("theme", name):
                    await self._change_theme(name)
                case Typed("tree", _):
                    await self._walk_tree()
                case Typed("resume", ""):
                    await self._app.push_screen_wait(SessionsScreen(self._desk))
                case Typed("model", ""):
                    await self._pick_model()
                case Typed(name, argument):
                    with self._telling(f"/{name}", can_stop=name in _CAN_STOP):
                        self._show_reply(await self._desk.command(name, argument))
        self._show_standing()

    def _show_reply(self, reply: Reply) -> None:
        if reply.text.count("\n") < _MOST_LINES:
            self._chronicle.reply(reply)
        else:
            self._app.push_screen(PagerScreen(reply))

    @contextmanager
    def _telling(self, text: str, *, can_stop: bool = False) -> Generator[None]:
        """Show what is being done, if it takes long and nothing else is, and that it is over."""
        tell = partial(self._status.doing, text, can_stop=can_stop)
        soon = asyncio.get_running_loop().call_later(_LONG_S, tell)
        if self._desk.is_running:
            soon.cancel()
        self._stoppable += can_stop
        try:
            yield
        finally:
            self._stoppable -= can_stop
            soon.cancel()
            self._rest()

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
        how_to_keep = await self._desk.command("theme", theme)
        self._chronicle.add(Kind.NOTICE, f"theme {theme}; {how_to_keep.text}")

    async def _pick_model(self) -> None:
        current = self._desk.standing.model
        with self._telling("looking for models", can_stop=True):
            choices = await self._desk.models()
        name = await self._app.push_screen_wait(PickScreen("model", choices, current))
        if not name:  # what is wanted is perhaps not there yet
            self._show_reply(await self._desk.command("model"))
        elif name != current:
            with self._telling(f"/model {name}", can_stop=True):
                self._show_reply(await self._desk.change_model(name))

    # -- keys --------------------------------------------------------------------------------

    def complete(self, typed: str) -> None:
        """Offer what may be meant."""
        self._do(self._complete(typed))

    async def _complete(self, typed: str) -> None:
        self._prompt.offer(typed, await self._desk.complete(typed))

    def interrupt(self) -> bool:
        """Stop what is being done; tell whether there was anything."""
        can_stop = self._desk.is_running or self._stoppable > 0
        self._desk.interrupt()
        return can_stop

    def change_mode(self) -> None:
        """Go from plan to act, or back."""
        other = Mode.ACT if self._desk.standing.mode is Mode.PLAN else Mode.PLAN
        with self._kept():
            self._desk.change_mode(other)
        self._show_standing()

    def open_help(self) -> None:
        """Show what can be typed."""
        self._app.push_screen(PagerScreen(Reply(help_text(KEYS), "help")))

    def open_tree(self) -> None:
        """Show the branches."""
        self._do(self._command("", Typed("tree", "")))

    async def _walk_tree(self) -> None:
        words = (await self._app.push_screen_wait(TreeScreen(self._desk))).words
        if words is not None:
            self._take_to_prompt(words)

    def edit(self, block: Block) -> None:
        """Say again in a new branch, and otherwise, what a block says."""
        words = self._chronicle.unheard.reclaim(block)
        if words is not None:
            self._take_to_prompt(words)
        elif block.kind is not Kind.USER or block.entry is None:
            self._status.say("only your own words can be edited")
        else:
            with self._kept():
                self._take_to_prompt(self._desk.branches.fork_before(block.entry))

    def _take_to_prompt(self, words: Words) -> None:
        self._prompt.load(words.text, words.images)
        self._prompt.focus()

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
            _LOG.exception("a fault in steno")
            told = f"a fault in steno: {type(exc).__name__}: {exc}; what is on record is safe"
            self._chronicle.add(Kind.TROUBLE, told)

    @contextmanager
    def _kept(self, words: Words = _NOTHING) -> Generator[None]:
        """Tell what is refused; what was typed goes back, so that it need not be typed again."""
        try:
            yield
        except (StenoError, OSError) as exc:
            self._chronicle.add(Kind.TROUBLE, str(exc))
            self._give_back([words])
        except Exception:
            self._give_back([words])
            raise

    def _give_back(self, words: Sequence[Words]) -> None:
        """Put what was not said into the prompt; where somebody types, keep it beside that."""
        unsaid = [one for one in words if one.text or one.images]
        if unsaid and self._prompt.is_blank:
            images = [image for one in unsaid for image in one.images]
            # An empty line between them: it is seen where one ends, and can be taken apart.
            self._prompt.load("\n\n".join([one.text for one in unsaid]), images)
        else:
            for one in unsaid:
                self._chronicle.unheard.keep(one)
