"""Sentences about runs and sessions, and a listener that turns changes into notices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from steno.agent import (
    CallEnded,
    CallStarted,
    ContextChanged,
    EndReason,
    EntryRecorded,
    Notice,
    NoticeKind,
    RunEnded,
    RunResult,
    TurnStarted,
)
from steno.agent.session_events import SessionEvent, SessionListener, ShellEnded, ShellStarted
from steno.messages.event import TextDelta, ThinkingDelta, ToolCallBegin
from steno.messages.usage import StopReason
from steno.records.entry import ModelChange
from steno.render.changes import IgnoredFieldCounter, format_change, notice_text
from steno.render.items import ItemKind
from steno.render.quantities import format_count, format_dollars
from steno.render.terminal_text import terminal_line

RETRY_HINT: Final = "/retry tries again"
UNFINISHED_NOTICE: Final = "this session stopped in the middle; /retry goes on there"


def describe_run_end(result: RunResult) -> tuple[ItemKind, str] | None:
    """Return why a run ended early or its answer is incomplete, with a hint; else None."""
    if result.end_reason is EndReason.FAILED:
        return ItemKind.ERROR, f"{result.error or result.reason}; {RETRY_HINT}"
    if result.end_reason is EndReason.INTERRUPTED:
        kept = "interrupted; what was said and done is kept"
        return ItemKind.NOTICE, f"{kept}, and {RETRY_HINT} or goes on"
    if not result.reason:
        return None
    message = result.message
    is_cut = message is not None and message.stop_reason is StopReason.LENGTH
    hint = " (max_tokens); say: go on. --max-tokens allows more" if is_cut else ""
    return ItemKind.NOTICE, f"{result.reason}{hint}"


def describe_activity(event: SessionEvent, model: Callable[[], str]) -> str | None:
    """Return the activity of a session after an event; None if the event does not change it."""
    match event:
        case TextDelta():
            return "answering"
        case ThinkingDelta():
            return "thinking"
        case ToolCallBegin(_, _, name):
            return f"calling {terminal_line(name or 'a tool')}"
        case TurnStarted():
            return f"waiting for {terminal_line(model())}"
        case CallStarted(call):
            return f"running {terminal_line(call.name)}"
        case ShellStarted(command):
            return f"running {terminal_line(command)}"
        case CallEnded() | RunEnded() | ShellEnded():  # another one may still be running
            return "working"
        case _:
            return None


def describe_run_usage(result: RunResult) -> str:
    """Return the tokens of a run, and their price if it is known."""
    tokens = format_count(result.usage.total_tokens, "token", "tokens")
    return tokens if result.cost is None else f"{tokens}, {format_dollars(result.cost)}"


def describe_bug(error: Exception) -> str:
    """Describe an exception that steno did not raise on purpose."""
    return f"a fault in steno: {type(error).__name__}: {error}; what is on record is safe"


@final
class ChangeSummarizer:
    """A listener for another listener: changes become notices, and ignored fields one line."""

    def __init__(self, listener: SessionListener, *, is_verbose: bool) -> None:
        """Take the listener; with `is_verbose` it gets a notice on each change."""
        self._listener = listener
        self._is_verbose = is_verbose
        self._ignored_fields = IgnoredFieldCounter()

    def __call__(self, event: SessionEvent) -> None:
        """Pass on an event, or a notice in its place."""
        change = event.change if isinstance(event, ContextChanged) else None
        if isinstance(event, EntryRecorded) and isinstance(event.entry.payload, ModelChange):
            self._ignored_fields = IgnoredFieldCounter()  # another server ignores other fields
        if not self._is_verbose:
            if change is not None and self._ignored_fields.count(change):
                return
            if summary := self._ignored_fields.summary():
                self._listener(Notice(NoticeKind.CONTEXT, summary, "fields_ignored"))
        if change is None:
            self._listener(event)
        elif text := format_change(change) if self._is_verbose else notice_text(change):
            self._listener(Notice(NoticeKind.CONTEXT, text, change.code))
