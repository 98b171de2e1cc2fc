"""Tell what an agent does: the answer as text, one JSON object, or a line of JSON for each event.

Stdout holds the answer or JSON and nothing else; what else a person may want to know while they
wait goes to stderr. What models and tools say is made harmless where a terminal reads it.
"""

from __future__ import annotations

import sys
from typing import Any, Final, NamedTuple, Protocol, final

import msgspec

from steno.agent import (
    Asked,
    CallEnded,
    CallOutput,
    CallStarted,
    LoopEvent,
    Notice,
    Recorded,
    RunResult,
    TurnStarted,
)
from steno.cli.output import writing
from steno.cli.printable import cut, on_one_line, printable
from steno.codec import encode_entry
from steno.event import TextDelta, ThinkingDelta
from steno.outcome import Outcome

FORMATS: Final = ("text", "json", "stream-json")
_WIDTH: Final = 100


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

    def begin(self, about: About) -> None:
        """Tell what is about to begin."""
        ...

    def watch(self, event: LoopEvent) -> None:
        """Tell what happened."""
        ...

    def end(self, result: RunResult) -> None:
        """Tell what came of it."""
        ...


def new_teller(format: str, *, quiet: bool = False) -> Teller:
    """Return a teller of one of the formats."""
    if format == "stream-json":
        return StreamTeller()
    return JsonTeller(quiet=quiet) if format == "json" else TextTeller(quiet=quiet)


# -- for people ------------------------------------------------------------------------------


class TextTeller:
    """Prints the last words of the model, and on stderr what is done meanwhile."""

    def __init__(self, *, quiet: bool = False) -> None:
        """Take whether only the answer counts."""
        self._is_quiet = quiet
        self._is_open = False

    def begin(self, about: About) -> None:
        """Say who answers."""
        self._aside(f"{about.model} · {about.mode} mode · {about.folder}")

    def watch(self, event: LoopEvent) -> None:
        """Show calls and notices, a line each."""
        match event:
            case CallStarted(call):
                self._aside(f"→ {call.name} {call.arguments}")
            case CallEnded(call, result) if result.outcome is not Outcome.OK:
                self._aside(f"✗ {call.name}: {result.outcome}: {result.text}")
            case Notice():
                self._aside(f"! {event.text}")
            case _:
                pass

    def end(self, result: RunResult) -> None:
        """Print the answer."""
        if result.text:
            with writing("stdout"):
                print(printable(result.text) if sys.stdout.isatty() else result.text)

    def _aside(self, text: str) -> None:
        if not self._is_quiet:
            print(cut(on_one_line(text), _WIDTH), file=sys.stderr)


# -- for programs ----------------------------------------------------------------------------


@final
class JsonTeller:
    """Prints one JSON object at the end."""

    def __init__(self, *, quiet: bool = False) -> None:
        """Take whether stderr stays silent."""
        self._people = TextTeller(quiet=quiet)
        self._about: About | None = None
        self._denied: list[dict[str, Any]] = []

    def begin(self, about: About) -> None:
        """Remember what it is about."""
        self._about = about
        self._people.begin(about)

    def watch(self, event: LoopEvent) -> None:
        """Remember what was denied."""
        self._people.watch(event)
        if isinstance(event, CallEnded) and event.result.outcome is Outcome.DENIED:
            self._denied.append(_denial(event))

    def end(self, result: RunResult) -> None:
        """Print what came of it."""
        assert self._about is not None
        _print_line({**result_object(result, self._about), "denied": self._denied})


@final
class StreamTeller:
    """Prints a line of JSON for everything that happens."""

    def __init__(self) -> None:
        """Start."""
        self._about: About | None = None
        self._denied: list[dict[str, Any]] = []

    def begin(self, about: About) -> None:
        """Print what is about to begin."""
        self._about = about
        _print_line({"type": "session", **about._asdict()})

    def watch(self, event: LoopEvent) -> None:
        """Print an event."""
        if isinstance(event, CallEnded) and event.result.outcome is Outcome.DENIED:
            self._denied.append(_denial(event))
        told = event_object(event)
        if told is not None:
            _print_line(told)

    def end(self, result: RunResult) -> None:
        """Print what came of it."""
        assert self._about is not None
        _print_line({**result_object(result, self._about), "denied": self._denied})


def event_object(event: LoopEvent) -> dict[str, Any] | None:
    """Return an event as JSON has it; None for what another event tells as well."""
    match event:
        case TurnStarted(number):
            return {"type": "turn", "number": number}
        case TextDelta() | ThinkingDelta():
            return {
                "type": "text" if isinstance(event, TextDelta) else "thinking",
                "text": event.text,
            }
        case Recorded(entry):
            return {"type": "entry", "entry": msgspec.Raw(encode_entry(entry))}
        case Asked(question):
            return {"type": "asked", "call": _raw(question.call), "preview": question.preview}
        case CallStarted(call):
            return {"type": "call", "call": _raw(call)}
        case CallOutput(call_id, text):
            return {"type": "output", "call_id": call_id, "text": text}
        case Notice():
            return {"type": "notice", "code": event.code, "text": event.text}
        case _:
            return None


def result_object(result: RunResult, about: About) -> dict[str, Any]:
    """Return what came of a run as JSON has it."""
    usage = {
        name: getattr(result.usage, name)
        for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    }
    return {
        "type": "result",
        "ending": result.ending,
        "text": result.text,
        "stop_reason": None if result.message is None else result.message.stop_reason,
        "reason": result.reason or None,
        "session": about.session,
        "branch": about.branch,
        "model": about.model,
        "turns": result.turns,
        "usage": usage,
        "cost": None if result.cost is None else str(result.cost),
    }


def _denial(event: CallEnded) -> dict[str, Any]:
    return {"call_id": event.call.id, "tool": event.call.name, "reason": event.result.text}


def _raw(call: Any) -> dict[str, str]:
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


def _print_line(value: dict[str, Any]) -> None:
    with writing("stdout"):
        sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
        sys.stdout.buffer.flush()
