"""The events of a session as items and sentences, the same for every interface.

No item names a key or a command: it has a hint, for which each interface has its own text.
"""

from __future__ import annotations

from collections import Counter
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
from steno.agent.session_events import (
    ErrorRaised,
    InputReturned,
    RunFailed,
    SessionEvent,
    SessionListener,
    ShellEnded,
    ShellStarted,
)
from steno.errors import Unresolved
from steno.messages.event import TextDelta, ThinkingDelta, ToolCallBegin
from steno.messages.message import AssistantMessage, UserMessage
from steno.messages.usage import StopReason
from steno.records.entry import Entry, ModelChange, Rewind
from steno.render.changes import (
    format_change,
    is_ignored_by_server,
    notice_text,
    summarize_ignored,
)
from steno.render.describe import Headline
from steno.render.items import CallState, ItemHint, ItemKind, TranscriptItem
from steno.render.items_from_entries import (
    item_from_prompt,
    item_from_shell_command,
    items_from_answer,
    marker_from_entry,
)
from steno.render.quantities import format_count, format_dollars
from steno.render.terminal_text import terminal_line
from steno.tools.calls import call_headline

NOTHING_SENT: Final = "nothing was sent"


# -- items -----------------------------------------------------------------------------------


@final
class EventDescriber:
    """Returns the items of entries and events. Later events may change the items of calls."""

    def __init__(self, headline: Headline = call_headline) -> None:
        self._headline = headline
        self._prompts: dict[str, UserMessage] = {}
        """Recorded messages of the user, by entry."""
        self._has_reported_failure = False
        """Whether this run has reported an unresolved reference already."""

    def describe_event(self, event: SessionEvent) -> list[TranscriptItem]:
        """Return the new items of an event."""
        match event:
            case EntryRecorded(entry):
                items = self.describe_entry(entry)
                self._has_reported_failure |= any(item.kind is ItemKind.ERROR for item in items)
                return items
            case Notice(_, text):
                return [TranscriptItem(ItemKind.NOTICE, body=text)]
            case ErrorRaised(text) | RunFailed(text):
                return [TranscriptItem(ItemKind.ERROR, body=text)]
            case ShellStarted(command):
                return [item_from_shell_command(command)]
            case InputReturned(prompts):
                return [returned_prompt_item(prompt.text) for prompt in prompts]
            case RunEnded(result):
                is_reported = self._has_reported_failure and isinstance(result.error, Unresolved)
                self._has_reported_failure = False
                ending = None if is_reported else describe_run_end(result)
                return [] if ending is None else [ending]
            case _:
                return []

    def describe_entry(self, entry: Entry) -> list[TranscriptItem]:
        """Return the items of an entry; results and decisions about calls have none."""
        payload = entry.message or entry.payload
        match payload:
            case AssistantMessage():
                return items_from_answer(entry, payload, self._headline)
            case UserMessage():
                self._prompts[entry.id] = payload
                return [item_from_prompt(entry, payload)]
            case Rewind() if self._has_reported_failure:
                return [TranscriptItem(ItemKind.ERROR, body=NOTHING_SENT)]
            case _:
                marker = marker_from_entry(entry, self._prompts)
                return [] if marker is None else [marker]


def describe_run_end(result: RunResult) -> TranscriptItem | None:
    """Return why a run ended early or its answer is incomplete; else None."""
    match result.end_reason:
        case EndReason.FAILED:
            text = str(result.error or result.reason)
            return TranscriptItem(ItemKind.ERROR, body=text, hint=ItemHint.RETRY)
        case EndReason.INTERRUPTED:
            return TranscriptItem(ItemKind.NOTICE, body="interrupted", hint=ItemHint.CONTINUE)
        case EndReason.DONE if result.reason:
            is_cut = result.message and result.message.stop_reason is StopReason.LENGTH
            hint = ItemHint.RAISE_LIMIT if is_cut else None
            return TranscriptItem(ItemKind.NOTICE, body=result.reason, hint=hint)
        case EndReason.DONE | EndReason.LIMIT:  # a notice has reported the limit
            return None


def queued_prompt_item(text: str, *, is_steering: bool) -> TranscriptItem:
    """Return the item of a prompt that is not recorded yet."""
    head = "will be heard at the next step" if is_steering else ""
    return TranscriptItem(ItemKind.USER, head, text, state=CallState.WAITING, is_folded=True)


def returned_prompt_item(text: str, *, can_retry: bool = False) -> TranscriptItem:
    """Return the item of a prompt that was not sent."""
    head, hint = ("not sent", ItemHint.RETRY_OR_EDIT) if can_retry else ("not said", ItemHint.EDIT)
    return TranscriptItem(
        ItemKind.USER, head, text, state=CallState.STOPPED, is_folded=True, hint=hint
    )


# -- sentences -------------------------------------------------------------------------------


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


# -- changes ---------------------------------------------------------------------------------


@final
class ChangeSummarizer:
    """A listener for another listener: changes become notices, and ignored fields one line."""

    def __init__(self, listener: SessionListener, *, is_verbose: bool) -> None:
        """Take the listener; with `is_verbose` it gets a notice on each change."""
        self._listener = listener
        self._is_verbose = is_verbose
        self._ignored: Counter[str] | None = Counter()
        """The number of ignored fields by member of the request; None once it is reported."""

    def __call__(self, event: SessionEvent) -> None:
        """Pass on an event, or a notice in its place."""
        if isinstance(event, EntryRecorded) and isinstance(event.entry.payload, ModelChange):
            self._ignored = Counter()  # another server ignores other fields
        if isinstance(event, ContextChanged):
            change = event.change
            text = format_change(change) if self._is_verbose else notice_text(change)
            if text is None:
                if is_ignored_by_server(change) and self._ignored is not None:
                    self._ignored[change.place_parts.member] += 1
                return
            event = Notice(NoticeKind.CONTEXT, text, change.code)
        if self._ignored:  # the first request contains all of them
            text, self._ignored = summarize_ignored(self._ignored), None
            self._listener(Notice(NoticeKind.CONTEXT, text, "fields_ignored"))
        self._listener(event)
