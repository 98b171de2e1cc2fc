"""A session line by line: what is typed becomes requests, what happens becomes lines.

For screen readers, terminals that can do nothing, and pipes. It knows only the desk; and it does
not know Textual.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO, final

from steno.agent.events import Recorded
from steno.errors import InvalidValue, StenoError
from steno.tui.block import Form
from steno.tui.commands import HOW_TO_LEAVE, WORDS_TO_LEAVE, Typed, read_command
from steno.tui.desk import Desk, DeskEvent, Moved, Reply, Returned, Words
from steno.tui.plain.asking import Asking, Stale
from steno.tui.plain.editing import Editor, Interrupted, has_readline
from steno.tui.plain.gathering import Gathering
from steno.tui.plain.lines import Lines
from steno.tui.plain.lists import HINTS, Lists
from steno.tui.plain.recalling import recall
from steno.tui.plain.tables import in_lines
from steno.tui.plain.telling import Teller
from steno.tui.plain.voice import Voice
from steno.tui.prompt.history import History
from steno.tui.prompt.pasting import harmless
from steno.tui.screens.help import help_text

_KEYS: Final = (
    ("Enter", "send; while a turn runs, steer it"),
    ("\\ at the end of a line", "the next line belongs to it"),
    ('""" before and behind', "a text of several lines"),
    ("Ctrl+C", "interrupt, or clear the line; twice leaves"),
    ("Ctrl+D", "leave"),
    ("Tab, arrow up", "complete, and what was typed before; where the terminal can"),
)
_MORE: Final = "... "
_UNFINISHED: Final = "this session stopped in the middle; /retry goes on there"
_NEAR: Final = 5
"""Who goes on within so many entries of what was said last need not hear it again."""
_YES: Final = "yes"


async def run_plain(
    desk: Desk,
    *,
    history: Path | None = None,
    stdin: int = 0,
    stdout: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
    is_verbose: bool = False,
    first: str = "",
) -> int:
    """Let a person work line by line until they leave, and return the exit status.

    `history` is the file that keeps what was typed, `stdin` a descriptor, `first` what is said
    before anything is typed. The desk is left open.
    """
    lines, typed_before = Lines(stdin), History(history)
    voice = Voice(sys.stdout if stdout is None else stdout, environ)
    editor: Editor | None = None
    if stdin == 0 and stdout is None and has_readline(environ):
        editor = Editor(desk.complete, typed_before.entries())
    session = _Session(desk, voice, lines, Teller(voice, is_verbose=is_verbose))
    session.edit_with(editor, typed_before)
    try:
        with _hearing_ctrl_c(session.interrupt, is_wanted=lines.is_terminal):
            await session.live(first)
        kept = desk.standing.session
        if kept and lines.is_terminal:
            voice.say("Session", f"{kept}: steno -c goes on with it")
    finally:
        voice.type_over(None)
        if editor is not None:
            editor.close()
    return 1 if voice.is_gone else 0


@contextmanager
def _hearing_ctrl_c(act: Callable[[], None], *, is_wanted: bool) -> Generator[None]:
    """Do something about Ctrl+C as long as the block lasts."""
    is_main = threading.current_thread() is threading.main_thread()
    # Who is started in the background is to overhear it.
    if not (is_wanted and is_main) or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield
        return
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, act)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


@final
class _Session:
    """A person at a desk."""

    def __init__(self, desk: Desk, voice: Voice, lines: Lines, teller: Teller) -> None:
        self._desk = desk
        self._voice = voice
        self._lines = lines
        self._teller = teller
        self._editor: Editor | None = None
        self._history = History()
        self._asking = Asking(desk, voice, self._answer)
        self._lists = Lists(desk, voice, self._confirm)
        self._gathering = Gathering()
        self._wake = asyncio.Event()
        self._doing: asyncio.Task[None] | None = None
        self._is_leaving = False
        self._stops = 0
        """How often Ctrl+C came since a line did."""
        self._is_stopped = False
        self._last: str | None = None
        """The last entry that was told."""
        self._at_hand: str | None = ""
        """The session that was shown last."""

    def edit_with(self, editor: Editor | None, history: History) -> None:
        """Take what edits lines, where there is something, and what keeps them."""
        self._editor, self._history = editor, history

    async def live(self, first: str = "") -> None:
        """Work until the person leaves."""
        self._desk.watch(self._watch)
        self._show()
        if first:
            await self._enter(first, is_typed=False)
        while not self._is_leaving and not self._voice.is_gone:
            if self._desk.is_running:
                await self._follow()
            else:
                await self._prompt()

    # -- what happens ------------------------------------------------------------------------

    def _watch(self, event: DeskEvent) -> None:
        self._wake.set()
        if isinstance(event, Recorded):
            self._last, self._at_hand = event.entry.id, self._desk.standing.session
        if isinstance(event, Moved):
            self._show()
        else:
            self._teller.tell(event)
        if isinstance(event, Returned) and self._editor is not None:
            self._editor.draft(" ".join([one.text for one in event.words]))

    def _show(self) -> None:
        """Say where things stand, and what was said last unless that is known."""
        standing, entries = self._desk.standing, self._desk.entries()
        title = standing.title or "a new session"
        where = f"branch {standing.branch}, {standing.model}, {standing.mode} mode; /help helps"
        self._voice.say("Session", f"{title}, {where}")
        if self._last is None or self._last not in [one.id for one in entries[-_NEAR:]]:
            recall(self._voice, entries)
        self._last = entries[-1].id if entries else None
        # Who moves about in a session knows where it stopped.
        is_opened, self._at_hand = standing.session != self._at_hand, standing.session
        if is_opened and self._desk.is_unfinished and not self._desk.is_running:
            self._voice.say("Notice", _UNFINISHED)

    # -- what is typed -----------------------------------------------------------------------

    async def _follow(self) -> None:
        """Let the agent work: what is typed meanwhile steers it, and what it asks is asked.

        A pipe is not read before the turn is over: its next line was meant for then.
        """
        if self._asking.is_due:
            is_over = await self._asking.ask()
            if is_over and self._lines.is_terminal:
                self._is_leaving = True  # what was asked is on record, and asked again
            elif is_over:
                self._asking.deny_all()
                await self._event(lambda: self._asking.is_due)
        elif self._lines.is_terminal:
            try:
                line = await self._line(lambda: self._desk.is_running and not self._asking.is_due)
            except Stale:
                return
            await self._take(line)
        else:
            await self._event(lambda: self._desk.is_running and not self._asking.is_due)

    async def _event(self, is_worth_it: Callable[[], bool]) -> None:
        """Wait for something to happen, if it is worth it."""
        self._wake.clear()
        if is_worth_it():
            await self._wake.wait()

    async def _prompt(self) -> None:
        prompt = _MORE if self._gathering.is_open else f"{self._desk.standing.mode}> "
        try:
            await self._take(await self._typed(prompt))
        except Stale:
            self._voice.end_line()
            if self._is_stopped:
                self._give_up()
        except Interrupted:
            self.interrupt()
            self._give_up()

    def _give_up(self) -> None:
        """Begin a line anew: nothing counts of what was typed so far."""
        self._is_stopped = False
        self._gathering.end()
        if not self._is_leaving:
            self._voice.say("Notice", "Ctrl+C again leaves")

    async def _typed(self, prompt: str) -> str | None:
        """Return what is typed at the prompt. Raises Interrupted or Stale for Ctrl+C."""
        editor = self._editor
        try:
            if editor is not None:
                self._voice.type_over(lambda: prompt + editor.typed)
                line = await editor.line(prompt)
            else:
                if self._lines.is_terminal:
                    self._voice.ask(prompt)
                    self._voice.type_over(lambda: prompt)
                line = await self._line(lambda: not (self._is_stopped or self._desk.is_running))
        finally:
            self._voice.type_over(None)
        if line is None and self._lines.is_terminal:
            self._voice.end_line()  # the terminal has not
        return line

    async def _line(self, is_wanted: Callable[[], bool]) -> str | None:
        """Return the next line; None at the end of the input. Raises Stale."""
        with self._lines.listening(self._wake.set):
            while True:
                self._wake.clear()
                if not is_wanted():
                    raise Stale
                if (line := self._lines.take()) is not None:
                    return line
                if self._lines.is_over or self._voice.is_gone or self._is_leaving:
                    return None
                await self._wake.wait()

    async def _answer(self, prompt: str, is_wanted: Callable[[], bool]) -> str | None:
        """Return a line that was typed after it was asked for. Raises Stale."""
        self._lines.forget()
        self._voice.ask(prompt)
        self._voice.type_over(lambda: prompt)
        line: str | None = None
        try:
            line = await self._line(is_wanted)
        finally:
            self._voice.type_over(None)
            if line is None or not self._lines.is_terminal:  # nobody has ended the line
                self._voice.end_line()
        return line

    async def _confirm(self, question: str) -> bool:
        try:
            typed = await self._answer(f"{question} {_YES}: ", lambda: not self._is_stopped)
        except Stale:
            typed = None
        is_meant = (typed or "").strip().lower() == _YES
        if not is_meant:
            self._voice.say("Notice", "nothing was done")
        return is_meant

    async def _take(self, line: str | None) -> None:
        """Do what was typed, as soon as it is whole."""
        if line is not None:
            self._stops, self._is_stopped = 0, False
            text = self._gathering.feed(line)
        elif self._gathering.is_open and not self._lines.is_terminal:
            text = self._gathering.end()  # nothing more comes, so it is whole
        else:
            self._is_leaving = True
            return
        if text is not None and text.strip():
            await self._enter(text)

    async def _enter(self, text: str, *, is_typed: bool = True) -> None:
        if (told := self._history.add(text)) is not None:
            self._voice.say("Notice", told)
        if self._editor is not None:
            self._editor.remember(text)
        self._doing = asyncio.create_task(self._do(harmless(text).text, is_typed=is_typed))
        try:
            await self._doing
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # it is the session that was cancelled, and not what was asked for
        finally:
            self._doing = None

    def interrupt(self) -> None:
        """Stop what is done; at the prompt, give up the line, and leave if it comes twice."""
        self._wake.set()
        if self._desk.is_running:
            self._voice.end_line()  # there is a ^C on it
            self._desk.interrupt()
            return
        if self._doing is not None:
            self._desk.interrupt()  # what was said is perhaps still being read
        self._stops += 1
        self._is_stopped = True
        if self._stops > 1:
            self._is_leaving = True
            if self._doing is not None:
                self._doing.cancel()

    # -- what is asked for -------------------------------------------------------------------

    async def _do(self, text: str, *, is_typed: bool) -> None:
        """Do what a line asks for; what was not typed here is words, whatever it begins with."""
        if not self._lines.is_terminal:
            self._voice.say("You", text)
        try:
            is_shell = is_typed and text.startswith("!")
            if is_shell and "\n" in text.strip():
                raise InvalidValue("shell: a command is one line; type it without the others")
            if is_shell:
                await self._desk.shell(text[1:].strip())
            elif text.strip() in WORDS_TO_LEAVE:
                self._voice.say("Notice", HOW_TO_LEAVE)
            elif is_typed and (typed := read_command(text)) is not None:
                await self._command(typed)
            else:
                await self._say(text)
        except (StenoError, OSError) as exc:
            self._voice.say("Trouble", str(exc))
        except Exception as exc:  # noqa: BLE001 - a fault of ours must not take the session with it
            kind = type(exc).__name__
            told = f"a fault in steno: {kind}: {exc}; what is on record is safe"
            self._voice.say("Trouble", told)

    async def _say(self, text: str) -> None:
        """Say words; if they are refused, they need not be typed again."""
        steers = self._desk.is_running
        try:
            await self._desk.say(Words(text))
        except (StenoError, OSError):
            if self._editor is not None:
                self._editor.draft(text)
            elif self._lines.is_terminal:  # what came through a pipe was printed when it came
                self._voice.say("Not said", text)
            raise
        if steers:
            self._teller.queue(text)

    async def _command(self, typed: Typed) -> None:
        match typed:
            case Typed("quit", _):
                self._is_leaving = True
            case Typed("help", _):
                self._reply(Reply(help_text((*_KEYS, *HINTS)), "help"))
            case Typed("theme", _):
                self._voice.say("Notice", "there are no themes here: lines have no colours")
            case Typed("tree", argument):
                self._say_again(await self._lists.tree(argument))
            case Typed("resume", argument):
                await self._lists.sessions(argument)
            case Typed("model", ""):
                await self._lists.list_models()
                self._reply(await self._desk.command("model"))
            case Typed("model", name):
                self._reply(await self._desk.change_model(self._lists.model_named(name)))
            case Typed(name, argument):
                self._reply(await self._desk.command(name, argument))

    def _say_again(self, words: Words | None) -> None:
        if words is None:
            return
        if self._editor is not None:
            self._editor.draft(words.text)
        else:
            self._voice.say("You said", words.text)
            self._voice.say("Notice", "say it otherwise, and it goes on here")

    def _reply(self, reply: Reply) -> None:
        if reply.text.strip():
            text = in_lines(reply.text) if reply.form is Form.MARKDOWN else reply.text
            self._voice.say(reply.title.capitalize() or "Reply", text)
