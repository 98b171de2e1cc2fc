"""Tell people what an agent does: the answer on stdout, and on stderr what is done meanwhile.

On a terminal everything that the model says appears as it comes; a pipe gets its last words, and
nothing else. What models and tools say is made harmless where a terminal reads it.
"""

from __future__ import annotations

import sys
from typing import Final, NamedTuple, Protocol, final

from steno.agent import (
    Asked,
    CallEnded,
    CallOutput,
    CallStarted,
    Ending,
    LoopEvent,
    Notice,
    Recorded,
    RunEnded,
    RunResult,
    TurnStarted,
)
from steno.cli.flowing import Screen
from steno.cli.folding import Folding
from steno.cli.output import writing
from steno.cli.waiting import Waiting
from steno.event import TextDelta
from steno.outcome import Outcome
from steno.printable import cut, on_one_line

_WIDTH: Final = 100
_LONGEST_NOTICE: Final = 400


class About(NamedTuple):
    """What there is to know about a run before it begins."""

    session: str | None
    """None where nothing is kept."""
    branch: str
    model: str
    mode: str
    folder: str


class Teller(Protocol):
    """Watches a run and tells of it."""

    def prepare(self, what: str) -> None:
        """Tell what is done before anything can begin."""
        ...

    def begin(self, about: About) -> None:
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
class Aside:
    """What people may want to know while they wait, a line each; on stderr."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        """Take whether nobody wants to know, or somebody wants to know everything."""
        self._is_quiet = quiet
        self._ignored_fields = None if verbose else Folding()
        self._wait_indicator = Waiting(is_shown=not quiet)
        self._run: About | None = None

    def prepare(self, what: str) -> None:
        """Say what is done, if it takes long."""
        self._wait_indicator.start(what)

    def begin(self, about: About) -> None:
        """Say who answers, and what to ask for to go on."""
        self._wait_indicator.stop()
        self._run = about
        kept = "no session" if about.session is None else f"session {about.session}"
        self._line(f"{about.model} · {about.mode} mode · {kept}")

    def on_event(self, event: LoopEvent) -> None:
        """Show calls and notices, and what is being waited for."""
        if self._ignored_fields is not None:
            if isinstance(event, Notice) and self._ignored_fields.absorb(event):
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
                self._line(f"! {event.text}", most=_LONGEST_NOTICE)
            case Asked() | RunEnded():
                self._wait_indicator.stop()
            case _:
                pass

    def end(self, result: RunResult) -> None:
        """Say so if it did not come to its end."""
        is_kept = self._run is not None and self._run.session is not None
        if result.ending is Ending.INTERRUPTED and is_kept:
            self._line("! interrupted; -c goes on")
        elif result.ending is Ending.DONE and result.reason:
            self._line(f"! {result.reason}")

    def close(self) -> None:
        """Wait for nothing any more."""
        self._wait_indicator.stop()

    def _line(self, text: str, *, most: int = _WIDTH) -> None:
        if not self._is_quiet:
            self._wait_indicator.clear()
            print(cut(on_one_line(text), most), file=sys.stderr)


@final
class TextTeller:
    """Prints what the model says: as it comes on a terminal, else its last words."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        """Take whether only the answer counts, or everything."""
        self._stderr = Aside(quiet=quiet, verbose=verbose)
        self._stdout = Screen() if sys.stdout.isatty() else None

    def prepare(self, what: str) -> None:
        """Say what is done, if it takes long."""
        self._stderr.prepare(what)

    def begin(self, about: About) -> None:
        """Say who answers."""
        self._stderr.begin(about)

    def on_event(self, event: LoopEvent) -> None:
        """Print what is said on a terminal, and tell about the rest."""
        if self._stdout is not None:
            if isinstance(event, TextDelta):
                self._stderr.close()
                self._stdout.write(event.text)
            elif isinstance(event, Recorded | CallStarted | CallEnded | CallOutput | Notice):
                self._stdout.end_line()
        self._stderr.on_event(event)

    def end(self, result: RunResult) -> None:
        """Print the answer, unless it was read already."""
        self.close()
        self._stderr.end(result)
        if self._stdout is None and result.text:
            end = "" if result.text.endswith("\n") else "\n"
            with writing("stdout"):
                sys.stdout.buffer.write((result.text + end).encode())
                sys.stdout.buffer.flush()

    def close(self) -> None:
        """Leave the cursor at the beginning of a line."""
        self._stderr.close()
        if self._stdout is not None:
            self._stdout.end_line()
