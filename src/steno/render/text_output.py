"""Report a run to people: the response on stdout, everything else on stderr.

A terminal shows the text of the model as it arrives; a pipe gets only the last message. Text of
models and tools is made printable where a terminal shows it.
"""

from __future__ import annotations

import sys
from typing import Final, NamedTuple, final

from steno.agent import (
    ApprovalRequested,
    CallEnded,
    CallOutput,
    CallStarted,
    ContextChanged,
    EntryRecorded,
    LoopEvent,
    Notice,
    RunEnded,
    RunResult,
    TurnStarted,
)
from steno.agent.session_events import SessionEvent
from steno.messages.event import TextDelta
from steno.messages.outcome import Outcome
from steno.render.describe import describe_result
from steno.render.describe_run import ChangeSummarizer, describe_run_end
from steno.render.items import ItemHint, ItemKind
from steno.render.output import STDOUT, escape_unencodable_output, report_write_errors
from steno.render.terminal_text import TerminalTextStream, terminal_line, truncate_to_width
from steno.render.wait_indicator import WaitIndicator

_MAX_LINE_LENGTH: Final = 100
_MAX_NOTICE_LENGTH: Final = 400


class RunDescription(NamedTuple):
    """The facts about a run before it begins."""

    session: str | None
    """None where the session is not stored."""
    branch: str
    model: str
    mode: str
    folder: str


class RunReporter:
    """Prints a line on stderr for each event that the user may want to know.

    Subclasses print the response on stdout.
    """

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        """Take whether nothing is printed on stderr, or everything."""
        self._is_quiet = quiet
        self._summarizer = ChangeSummarizer(self._print_event, is_verbose=verbose)
        self._wait_indicator = WaitIndicator(is_shown=not quiet)
        self._run: RunDescription | None = None

    def prepare(self, step: str) -> None:
        """Show a step before the run, if it takes long."""
        self._wait_indicator.start(step)

    def begin(self, run: RunDescription) -> None:
        """Print the model, the mode and the session."""
        self._wait_indicator.stop()
        self._run = run
        session = "no session" if run.session is None else f"session {run.session}"
        self._print_line(f"{run.model} · {run.mode} mode · {session}")

    def on_event(self, event: LoopEvent) -> None:
        """Print calls and notices, and show what the run waits for."""
        self._summarizer(event)

    def _print_event(self, event: SessionEvent) -> None:
        match event:
            case TurnStarted():
                model = "the model" if self._run is None else self._run.model
                self._wait_indicator.start(f"waiting for {model}")
            case CallStarted(call):
                self._print_line(f"→ {call.name} {call.arguments}")
                self._wait_indicator.start(call.name)
            case CallEnded(call, result):
                self._wait_indicator.stop()
                if result.outcome is not Outcome.OK:
                    summary, lines = describe_result(result)
                    self._print_line("\n".join([f"✗ {call.name}: {summary}", *lines]))
            case Notice(_, text):
                self._print_line(f"! {text}", max_length=_MAX_NOTICE_LENGTH)
            case ApprovalRequested() | RunEnded():
                self._wait_indicator.stop()
            case _:
                pass

    def end(self, result: RunResult) -> None:
        """Print a line if the run was interrupted, or ended with a reason."""
        self.close()
        item = describe_run_end(result)
        if item is None or item.kind is ItemKind.ERROR:  # the exit status and stderr report it
            return
        is_stored = self._run is not None and self._run.session is not None
        if item.hint is not ItemHint.CONTINUE:
            self._print_line(f"! {item.body}")
        elif is_stored:
            self._print_line(f"! {item.body}; -c goes on")

    def close(self) -> None:
        """Clear unfinished lines on the terminal."""
        self._wait_indicator.stop()

    def _print_line(self, text: str, *, max_length: int = _MAX_LINE_LENGTH) -> None:
        if not self._is_quiet:
            self._wait_indicator.clear()
            print(truncate_to_width(terminal_line(text), max_length), file=sys.stderr)


@final
class TextReporter(RunReporter):
    """Prints the text of the model: as it arrives on a terminal, else the last message."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        super().__init__(quiet=quiet, verbose=verbose)
        self._text = TerminalTextStream() if sys.stdout.isatty() else None
        self._is_within_line = False
        if self._text is not None:
            escape_unencodable_output()

    def on_event(self, event: LoopEvent) -> None:
        """Print text on a terminal, and report the rest on stderr."""
        if self._text is not None and isinstance(event, TextDelta):
            self._wait_indicator.stop()
            self._print_text(self._text.feed(event.text))
        elif isinstance(
            event,
            EntryRecorded | CallStarted | CallEnded | CallOutput | Notice | ContextChanged,
        ):
            self._end_line()
        super().on_event(event)

    def end(self, result: RunResult) -> None:
        """Print the response, unless the terminal shows it already."""
        super().end(result)
        if self._text is None and result.text:
            end = "" if result.text.endswith("\n") else "\n"
            with report_write_errors(STDOUT):
                sys.stdout.buffer.write((result.text + end).encode())
                sys.stdout.buffer.flush()

    def close(self) -> None:
        """Leave the cursor at the start of a line."""
        super().close()
        self._end_line()

    def _end_line(self) -> None:
        """Begin a new line of a terminal, unless the cursor is at the start of one."""
        if self._text is not None:
            self._print_text(self._text.close())
            self._print_text("\n" if self._is_within_line else "")

    def _print_text(self, text: str) -> None:
        if text:
            with report_write_errors(STDOUT):
                print(text, end="", flush=True)
            self._is_within_line = not text.endswith("\n")
