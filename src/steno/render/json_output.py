"""Report a run to programs: one JSON object, or a line of JSON for each event.

Stdout holds JSON and nothing else. Every line is complete and flushed before the next event.
"""

from __future__ import annotations

import sys
from typing import Any, Final, final

import msgspec

from steno.agent import (
    ApprovalRequested,
    CallEnded,
    CallOutput,
    CallStarted,
    ContextChanged,
    EntryRecorded,
    LoopEvent,
    Notice,
    NoticeKind,
    RunResult,
    TurnStarted,
)
from steno.codec import encode_entry
from steno.messages.call import AnyToolCall
from steno.messages.event import TextDelta, ThinkingDelta
from steno.messages.outcome import Outcome
from steno.render.changes import format_change
from steno.render.output import STDOUT, report_write_errors
from steno.render.terminal_text import terminal_json
from steno.render.text_output import RunDescription, RunReporter
from steno.values import replace_lone_surrogates

_TOKEN_FIELDS: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


@final
class JsonReporter(RunReporter):
    """Prints the result of a run, and before that, if `streams`, every event."""

    def __init__(self, *, streams: bool, quiet: bool = False, verbose: bool = False) -> None:
        """Take how much is printed. With events on stdout, stderr stays empty."""
        super().__init__(quiet=quiet or streams, verbose=verbose)
        self._streams = streams
        self._denied: list[dict[str, Any]] = []

    def begin(self, run: RunDescription) -> None:
        """Print the facts about the run."""
        super().begin(run)
        if self._streams:
            _print_line({"type": "session", **run._asdict()})

    def on_event(self, event: LoopEvent) -> None:
        """Print an event, and collect denied calls."""
        super().on_event(event)
        if isinstance(event, CallEnded) and event.result.outcome is Outcome.DENIED:
            denial = {"call_id": event.call.id, "tool": event.call.name}
            self._denied.append({**denial, "reason": event.result.text})
        line = event_as_json(event) if self._streams else None
        if line is not None:
            _print_line(line)

    def end(self, result: RunResult) -> None:
        """Print the result."""
        super().end(result)
        assert self._run is not None
        _print_line({**result_as_json(result, self._run), "denied": self._denied})


def event_as_json(event: LoopEvent) -> dict[str, Any] | None:
    """Return an event as JSON; None for one that repeats another."""
    match event:
        case TurnStarted(number):
            return {"type": "turn", "number": number}
        case TextDelta():
            return {"type": "text", "text": event.text}
        case ThinkingDelta():
            return {"type": "thinking", "text": event.text}
        case EntryRecorded(entry):
            return {"type": "entry", "entry": msgspec.Raw(encode_entry(entry))}
        case ApprovalRequested(request):
            return {
                "type": "asked",
                "call": _call_as_json(request.call),
                "preview": request.preview.text,
            }
        case CallStarted(call):
            return {"type": "call", "call": _call_as_json(call)}
        case CallOutput(call_id, text):
            return {"type": "output", "call_id": call_id, "text": text}
        case Notice():
            return {"type": "notice", "code": event.kind, "text": event.text}
        case ContextChanged(change):
            return {"type": "notice", "code": NoticeKind.CONTEXT, "text": format_change(change)}
        case _:
            return None


def result_as_json(result: RunResult, run: RunDescription) -> dict[str, Any]:
    """Return the result of a run as JSON."""
    return {
        "type": "result",
        "ending": result.end_reason,
        "text": result.text,
        "stop_reason": None if result.message is None else result.message.stop_reason,
        "reason": replace_lone_surrogates(result.reason) or None,
        "error": None if result.error is None else type(result.error).__name__,
        "session": run.session,
        "branch": run.branch,
        "model": run.model,
        "turns": result.turns,
        "usage": {name: getattr(result.usage, name) for name in _TOKEN_FIELDS},
        "cost_usd": None if result.cost is None else str(result.cost),
    }


def _call_as_json(call: AnyToolCall) -> dict[str, str]:
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


def _print_line(value: dict[str, Any]) -> None:
    with report_write_errors(STDOUT):
        sys.stdout.buffer.write(terminal_json(msgspec.json.encode(value)) + b"\n")
        sys.stdout.buffer.flush()
