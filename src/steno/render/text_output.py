"""Tell people what an agent does: the answer on stdout, and on stderr what is done meanwhile.

On a terminal everything that the model says appears as it comes; a pipe gets its last words, and
nothing else. What models and tools say is made harmless where a terminal reads it.
"""

from __future__ import annotations

import io
import re
import sys
from typing import Final, NamedTuple, Protocol, final

from steno.agent import (
    ApprovalRequested,
    CallEnded,
    CallOutput,
    CallStarted,
    ContextChanged,
    EndReason,
    EntryRecorded,
    LoopEvent,
    Notice,
    RunEnded,
    RunResult,
    TurnStarted,
)
from steno.messages.event import TextDelta
from steno.messages.outcome import Outcome
from steno.render.changes import format_change
from steno.render.notices import IgnoredFieldCounter
from steno.render.output import report_write_errors
from steno.render.progress import WaitIndicator
from steno.render.terminal_text import terminal_line, terminal_text, truncate_to_width

# -- flowing ---------------------------------------------------------------------------------------
#
# Print words on a terminal as they come, harmless whatever they are and wherever they are cut.
#
# What comes in pieces looks like what `printable` makes of the whole: a piece may end within an
# escape, so that its end waits for the next one.


_COLOR_SEQUENCE: Final = r"(?:\x1b\[|\x9b)[0-9;:]*"


_INCOMPLETE_END: Final = re.compile(
    rf"(?:\r(?:{_COLOR_SEQUENCE}m)*)?"  # a line break in two characters, perhaps
    rf"(?:\x1b|{_COLOR_SEQUENCE})?\Z"
)


_MAX_HELD: Final = 200
"""No colour is as long as this."""


@final
class TerminalTextStream:
    """Makes pieces of a text printable, one after the other."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return what may be printed by now."""
        text = self._held + piece
        found = _INCOMPLETE_END.search(text, max(len(text) - _MAX_HELD, 0))
        end = len(text) if found is None else found.start()
        self._held = text[end:]
        return terminal_text(text[:end])

    def close(self) -> str:
        """Return what was held back: nothing comes behind it."""
        held, self._held = self._held, ""
        return terminal_text(held)


@final
class StreamingStdout:
    """Stdout where it is a terminal, and somebody reads along."""

    def __init__(self) -> None:
        """Begin on a new line."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # where it is not UTF-8
        self._text = TerminalTextStream()
        self._is_within_line = False

    def write(self, piece: str) -> None:
        """Print a piece of a text."""
        self._print(self._text.feed(piece))

    def end_line(self) -> None:
        """Let whatever comes next begin on a new line."""
        self._print(self._text.close())
        if self._is_within_line:
            self._print("\n")

    def _print(self, text: str) -> None:
        if not text:
            return
        with report_write_errors("stdout"):
            print(text, end="", flush=True)
        self._is_within_line = not text.endswith("\n")


_MAX_LINE_LENGTH: Final = 100


_MAX_NOTICE_LENGTH: Final = 400


class RunDescription(NamedTuple):
    """What there is to know about a run before it begins."""

    session: str | None
    """None where nothing is kept."""
    branch: str
    model: str
    mode: str
    folder: str


class RunReporter(Protocol):
    """Watches a run and tells of it."""

    def prepare(self, what: str) -> None:
        """Tell what is done before anything can begin."""
        ...

    def begin(self, about: RunDescription) -> None:
        """Tell what is about to begin."""
        ...

    def on_event(self, event: LoopEvent) -> None:
        """Tell what happened."""
        ...

    def end(self, result: RunResult) -> None:
        """Tell what came of it."""
        ...

    def close(self) -> None:
        """Leave nothing unfinished on the terminal, whatever has happened."""
        ...


@final
class StderrReporter:
    """What people may want to know while they wait, a line each; on stderr."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        """Take whether nobody wants to know, or somebody wants to know everything."""
        self._is_quiet = quiet
        self._ignored_fields = None if verbose else IgnoredFieldCounter()
        self._wait_indicator = WaitIndicator(is_shown=not quiet)
        self._run: RunDescription | None = None

    def prepare(self, what: str) -> None:
        """Say what is done, if it takes long."""
        self._wait_indicator.start(what)

    def begin(self, about: RunDescription) -> None:
        """Say who answers, and what to ask for to go on."""
        self._wait_indicator.stop()
        self._run = about
        kept = "no session" if about.session is None else f"session {about.session}"
        self._line(f"{about.model} · {about.mode} mode · {kept}")

    def on_event(self, event: LoopEvent) -> None:
        """Show calls and notices, and what is being waited for."""
        if self._ignored_fields is not None:
            if isinstance(event, ContextChanged) and self._ignored_fields.absorb(event.change):
                return
            if told := self._ignored_fields.summary():
                self._line(f"! {told}")
        match event:
            case TurnStarted():
                model = "the model" if self._run is None else self._run.model
                self._wait_indicator.start(f"waiting for {model}")
            case CallStarted(call):
                self._line(f"→ {call.name} {call.arguments}")
                self._wait_indicator.start(call.name)
            case CallEnded(call, result):
                self._wait_indicator.stop()
                if result.outcome is not Outcome.OK:
                    self._line(f"✗ {call.name}: {result.outcome}: {result.text}")
            case Notice():
                self._line(f"! {event.text}", most=_MAX_NOTICE_LENGTH)
            case ContextChanged(change):
                self._line(f"! {format_change(change)}", most=_MAX_NOTICE_LENGTH)
            case ApprovalRequested() | RunEnded():
                self._wait_indicator.stop()
            case _:
                pass

    def end(self, result: RunResult) -> None:
        """Say so if it did not come to its end."""
        is_kept = self._run is not None and self._run.session is not None
        if result.ending is EndReason.INTERRUPTED and is_kept:
            self._line("! interrupted; -c goes on")
        elif result.ending is EndReason.DONE and result.reason:
            self._line(f"! {result.reason}")

    def close(self) -> None:
        """Wait for nothing any more."""
        self._wait_indicator.stop()

    def _line(self, text: str, *, most: int = _MAX_LINE_LENGTH) -> None:
        if not self._is_quiet:
            self._wait_indicator.clear()
            print(truncate_to_width(terminal_line(text), most), file=sys.stderr)


@final
class TextReporter:
    """Prints what the model says: as it comes on a terminal, else its last words."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        """Take whether only the answer counts, or everything."""
        self._stderr = StderrReporter(quiet=quiet, verbose=verbose)
        self._stdout = StreamingStdout() if sys.stdout.isatty() else None

    def prepare(self, what: str) -> None:
        """Say what is done, if it takes long."""
        self._stderr.prepare(what)

    def begin(self, about: RunDescription) -> None:
        """Say who answers."""
        self._stderr.begin(about)

    def on_event(self, event: LoopEvent) -> None:
        """Print what is said on a terminal, and tell about the rest."""
        if self._stdout is not None:
            if isinstance(event, TextDelta):
                self._stderr.close()
                self._stdout.write(event.text)
            elif isinstance(
                event,
                EntryRecorded | CallStarted | CallEnded | CallOutput | Notice | ContextChanged,
            ):
                self._stdout.end_line()
        self._stderr.on_event(event)

    def end(self, result: RunResult) -> None:
        """Print the answer, unless it was read already."""
        self.close()
        self._stderr.end(result)
        if self._stdout is None and result.text:
            end = "" if result.text.endswith("\n") else "\n"
            with report_write_errors("stdout"):
                sys.stdout.buffer.write((result.text + end).encode())
                sys.stdout.buffer.flush()

    def close(self) -> None:
        """Leave the cursor at the beginning of a line."""
        self._stderr.close()
        if self._stdout is not None:
            self._stdout.end_line()
