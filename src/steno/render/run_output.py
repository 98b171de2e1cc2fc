"""Output of a run, with the response on stdout and everything else on stderr.

In text output, a terminal displays the text of the model as it arrives, and a pipe receives only
the last message. Text of models and tools is made printable for a terminal.

JSON output is one JSON object, or one line of JSON per event. Stdout then contains only JSON, and
every line is complete and flushed before the next event.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, final

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
    RunEnded,
    RunResult,
    TurnStarted,
)
from steno.agent.session_events import SessionEvent
from steno.codec import encode_entry
from steno.messages.call import AnyToolCall, original_tool_name
from steno.messages.event import TextDelta, ThinkingDelta
from steno.messages.outcome import Outcome
from steno.render.changes import format_change
from steno.render.describe import describe_result
from steno.render.items import ItemHint, ItemKind, TranscriptItem
from steno.render.output import STDOUT, escape_unencodable_output, report_write_errors
from steno.render.session_items import ChangeSummarizer, describe_run_end, notice_item
from steno.render.terminal_text import (
    TerminalTextStream,
    terminal_json,
    terminal_line,
    truncate_to_width,
)
from steno.render.wait_indicator import WaitIndicator
from steno.values import replace_lone_surrogates

_MAX_LINE_LENGTH: Final = 100
_MAX_NOTICE_LENGTH: Final = 400
HintTexts: TypeAlias = Mapping[ItemHint | None, str]
"""The text to print after an item, by its hint; the text may name a command-line option."""
_NO_HINTS: Final[HintTexts] = MappingProxyType({})
_TOKEN_FIELDS: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class RunDescription(NamedTuple):
    """The properties of a run that are known before it begins."""

    session: str | None
    """The id of the session; None if it is not stored."""
    branch: str
    model: str
    mode: str
    folder: str


class RunReporter:
    """Prints the calls, failures and notices of a run on stderr, one per line.

    Subclasses print the response on stdout.
    """

    def __init__(
        self, *, quiet: bool = False, verbose: bool = False, hints: HintTexts = _NO_HINTS
    ) -> None:
        """Create a reporter.

        If `quiet` is true, it prints nothing on stderr. If `verbose` is true, it reports every
        change to a request. `hints` contains the texts to print after items.
        """
        self._is_quiet = quiet
        self._hints = hints
        self._summarizer = ChangeSummarizer(self._print_event, is_verbose=verbose)
        self._wait_indicator = WaitIndicator(is_shown=not quiet)
        self._run: RunDescription | None = None

    def prepare(self, step: str) -> None:
        """Display a step of the preparation if it takes long."""
        self._wait_indicator.start(step)

    def begin(self, run: RunDescription) -> None:
        """Print the model, the mode and the session."""
        self._wait_indicator.stop()
        self._run = run
        session = "no session" if run.session is None else f"session {run.session}"
        self._print_line(f"{run.model} · {run.mode} mode · {session}")

    def on_event(self, event: LoopEvent) -> None:
        """Print calls, failures and notices, and display what the run is waiting for."""
        self._summarizer(event)

    def _print_event(self, event: SessionEvent) -> None:
        match event:
            case TurnStarted():
                model = "the model" if self._run is None else self._run.model
                self._wait_indicator.start(f"waiting for {model}")
            case CallStarted(call):
                name = original_tool_name(call)
                self._print_line(f"→ {name} {call.arguments}")
                self._wait_indicator.start(name)
            case CallEnded(call, result):
                self._wait_indicator.stop()
                if result.outcome is not Outcome.OK:
                    summary, lines = describe_result(result)
                    self._print_line(
                        "\n".join([f"✗ {original_tool_name(call)}: {summary}", *lines])
                    )
            case Notice():
                self._print_item(notice_item(event), max_length=_MAX_NOTICE_LENGTH)
            case ApprovalRequested() | RunEnded():
                self._wait_indicator.stop()
            case _:
                pass

    def end(self, result: RunResult) -> None:
        """Print a line if the run was interrupted, or if its response is incomplete.

        An interruption is not reported if the session is not stored.
        """
        self.close()
        item = describe_run_end(result)
        if item is None or item.kind is ItemKind.ERROR:  # the caller reports errors
            return
        if self._is_stored or item.hint is not ItemHint.CONTINUE:
            self._print_item(item)

    def close(self) -> None:
        """Clear the temporary line on the terminal."""
        self._wait_indicator.stop()

    @property
    def _is_stored(self) -> bool:
        return self._run is not None and self._run.session is not None

    def _print_item(self, item: TranscriptItem, *, max_length: int = _MAX_LINE_LENGTH) -> None:
        # A session that is not stored cannot be continued.
        is_shown = self._is_stored or item.hint is not ItemHint.CONTINUE
        hint = self._hints.get(item.hint, "") if is_shown else ""
        self._print_line(f"! {item.body}{hint}", max_length=max_length)

    def _print_line(self, text: str, *, max_length: int = _MAX_LINE_LENGTH) -> None:
        if not self._is_quiet:
            self._wait_indicator.clear()
            print(truncate_to_width(terminal_line(text), max_length), file=sys.stderr)


# -- text ------------------------------------------------------------------------------------


@final
class TextReporter(RunReporter):
    """Prints the text of the model as it arrives on a terminal, otherwise the last message."""

    def __init__(
        self, *, quiet: bool = False, verbose: bool = False, hints: HintTexts = _NO_HINTS
    ) -> None:
        super().__init__(quiet=quiet, verbose=verbose, hints=hints)
        self._text = TerminalTextStream() if sys.stdout.isatty() else None
        self._is_within_line = False
        if self._text is not None:
            escape_unencodable_output()

    def on_event(self, event: LoopEvent) -> None:
        """Print streamed text on a terminal, and report other events on stderr."""
        if self._text is not None and isinstance(event, TextDelta):
            self._wait_indicator.stop()
            self._print_text(self._text.feed(event.text))
        elif isinstance(
            event, EntryRecorded | CallStarted | CallEnded | CallOutput | Notice | ContextChanged
        ):
            self._end_line()
        super().on_event(event)

    def end(self, result: RunResult) -> None:
        """Print the response, unless it was streamed to a terminal."""
        super().end(result)
        if self._text is None and result.text:
            end = "" if result.text.endswith("\n") else "\n"
            with report_write_errors(STDOUT):
                sys.stdout.buffer.write((result.text + end).encode())
                sys.stdout.buffer.flush()

    def close(self) -> None:
        """Clear the temporary line, and move the cursor to the start of a line."""
        super().close()
        self._end_line()

    def _end_line(self) -> None:
        """Begin a new line on a terminal, unless the cursor is at the start of a line."""
        if self._text is not None:
            self._print_text(self._text.close())
            self._print_text("\n" if self._is_within_line else "")

    def _print_text(self, text: str) -> None:
        if text:
            with report_write_errors(STDOUT):
                print(text, end="", flush=True)
            self._is_within_line = not text.endswith("\n")


# -- JSON ------------------------------------------------------------------------------------


@final
class JsonReporter(RunReporter):
    """Prints the result of a run as JSON, preceded by the events if `streams` is true."""

    def __init__(
        self,
        *,
        streams: bool,
        quiet: bool = False,
        verbose: bool = False,
        hints: HintTexts = _NO_HINTS,
    ) -> None:
        """Create a reporter.

        If `streams` is true, it prints the events on stdout as JSON, and nothing on stderr.
        """
        super().__init__(quiet=quiet or streams, verbose=verbose, hints=hints)
        self._streams = streams
        self._denied: list[dict[str, Any]] = []

    def begin(self, run: RunDescription) -> None:
        """Print the description of the run, as JSON if events are streamed."""
        super().begin(run)
        if self._streams:
            _print_json_line({"type": "session", **run._asdict()})

    def on_event(self, event: LoopEvent) -> None:
        """Print an event if events are streamed, and collect denied calls."""
        super().on_event(event)
        if isinstance(event, CallEnded) and event.result.outcome is Outcome.DENIED:
            denial = {"call_id": event.call.id, "tool": original_tool_name(event.call)}
            self._denied.append({**denial, "reason": event.result.text})
        line = event_as_json(event) if self._streams else None
        if line is not None:
            _print_json_line(line)

    def end(self, result: RunResult) -> None:
        """Print the result of the run and the denied calls as JSON."""
        super().end(result)
        assert self._run is not None
        _print_json_line({**result_as_json(result, self._run), "denied": self._denied})


def event_as_json(event: LoopEvent) -> dict[str, Any] | None:
    """Return an event as JSON; None if other events already contain its content."""
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
    """Return the result of a run as a JSON object, with its session, usage and cost."""
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
    return {"id": call.id, "name": original_tool_name(call), "arguments": call.arguments}


def _print_json_line(value: dict[str, Any]) -> None:
    with report_write_errors(STDOUT):
        sys.stdout.buffer.write(terminal_json(msgspec.json.encode(value)) + b"\n")
        sys.stdout.buffer.flush()
