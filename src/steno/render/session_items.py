"""Entries and events of a session as items and sentences, which all interfaces share.

The code that draws the text makes it printable. The head of an item is one line. Items name no keys
or commands; they have a hint instead, for which each interface has its own text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, assert_never, final

from steno import records
from steno.agent import events
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
from steno.log.queries import revoked_grant_of, shell_command_of
from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall
from steno.messages.content import FileReference, Image, Opaque, Resource, Text, Thinking
from steno.messages.event import TextDelta, ThinkingDelta, ToolCallBegin
from steno.messages.message import (
    AssistantBlock,
    AssistantMessage,
    SystemMessage,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from steno.messages.outcome import Outcome
from steno.messages.usage import StopReason
from steno.ports import PreviewKind
from steno.records import Entry
from steno.render.changes import format_change, is_ignored_by_server, notice_text, summarize_ignored
from steno.render.describe import (
    Content,
    Headline,
    describe_opaque,
    describe_reference,
    describe_revocation,
    summarize_call,
    thinking_text,
    tool_label,
)
from steno.render.items import (
    CallState,
    ImageLocation,
    ItemHint,
    ItemKind,
    TextForm,
    TranscriptItem,
)
from steno.render.quantities import format_count, format_dollars
from steno.render.terminal_text import terminal_line
from steno.tools.calls import call_content, call_headline

NOTHING_SENT: Final = "nothing was sent"
CONTEXT_CLEARED: Final = "context cleared; the model receives no earlier messages"
_MAX_UNFOLDED_LINES: Final = 20
"""The number of lines up to which a diff is unfolded at first."""
_MAX_FAILURE_LINES: Final = 5
_MAX_FAILURE_CHARACTERS: Final = 500
"""The length up to which the output of a failed call is unfolded at first, to show the reason."""
_STATE_BY_OUTCOME: Final = {
    Outcome.OK: CallState.DONE,
    Outcome.DENIED: CallState.DENIED,
    Outcome.CANCELLED: CallState.STOPPED,
    Outcome.SKIPPED: CallState.STOPPED,
}


# -- events ---------------------------------------------------------------------------------


@final
class EventDescriber:
    """Converts entries and events to items; later events may change the items of calls."""

    def __init__(self, headline: Headline = call_headline, content: Content = call_content) -> None:
        self._headline = headline
        self._content = content
        self._prompts: dict[str, UserMessage] = {}
        """Recorded messages of the user, by entry id."""
        self._has_reported_failure = False
        """Whether an unresolved reference has already been reported in this run."""

    def describe_event(self, event: SessionEvent) -> list[TranscriptItem]:
        """Return the new items for an event."""
        match event:
            case events.EntryRecorded(entry):
                items = self.describe_entry(entry)
                self._has_reported_failure |= any(item.kind is ItemKind.ERROR for item in items)
                return items
            case events.Notice():
                return [notice_item(event)]
            case RunFailed(code="session_closed"):
                return []  # the user has closed the session
            case ErrorRaised(text) | RunFailed(text):
                return [TranscriptItem(ItemKind.ERROR, body=text)]
            case ShellStarted(command):
                return [item_from_shell_command(command)]
            case InputReturned(prompts):
                return [returned_prompt_item(prompt.text) for prompt in prompts]
            case events.RunEnded(result):
                is_reported = self._has_reported_failure and isinstance(result.error, Unresolved)
                self._has_reported_failure = False
                ending = None if is_reported else describe_run_end(result)
                return [] if ending is None else [ending]
            case _:
                return []

    def describe_entry(self, entry: Entry) -> list[TranscriptItem]:
        """Return the items of an entry; results and approvals of calls have no items."""
        payload = entry.message or entry.payload
        match payload:
            case AssistantMessage():
                return self._items_from_answer(entry.id, payload)
            case UserMessage():
                self._prompts[entry.id] = payload
                return [item_from_prompt(entry, payload)]
            case records.Rewind() if self._has_reported_failure:
                return [TranscriptItem(ItemKind.ERROR, body=NOTHING_SENT)]
            case _:
                marker = marker_from_entry(entry, self._prompts)
                return [] if marker is None else [marker]

    def _items_from_answer(self, entry: str, message: AssistantMessage) -> list[TranscriptItem]:
        """Return the items of a response, one for each block that is not blank."""
        return [
            item
            for block_index, block in enumerate(message.content)
            if (item := self._item_from_block(block, entry, block_index)) is not None
        ]

    def _item_from_block(
        self, block: AssistantBlock, entry: str, block_index: int
    ) -> TranscriptItem | None:
        match block:
            case Text():
                return answer_item(block.text, entry) if block.text.strip() else None
            case Thinking():
                text = thinking_text(block)
                return thinking_item(text, entry) if text.strip() else None
            case ToolCall() | InvalidToolCall():
                return self._item_from_call(block, entry)
            case Image():
                body, images = (
                    f"[{describe_reference(block)}]",
                    (ImageLocation(entry, block_index),),
                )
                return TranscriptItem(ItemKind.ANSWER, body=body, entry=entry, images=images)
            case Opaque():
                return TranscriptItem(ItemKind.MARKER, head=describe_opaque(block), entry=entry)
            case _:
                assert_never(block)

    def _item_from_call(self, call: AnyToolCall, entry: str) -> TranscriptItem:
        """Return the item of a call, without its result."""
        head = summarize_call(call, self._headline)
        item = TranscriptItem(ItemKind.CALL, head, is_folded=True, entry=entry)
        if isinstance(call, InvalidToolCall):
            item.state, item.body = CallState.FAILED, f"{call.reason}\n{call.arguments}"
        elif (content := self._content(call)) is not None:
            item.body, item.language = content.text, content.language
            item.form = TextForm.DIFF if content.kind is PreviewKind.DIFF else TextForm.CODE
        return item


def notice_item(notice: events.Notice) -> TranscriptItem:
    """Return the item of a notice, with the hint for its code."""
    hints = {"fields_ignored": ItemHint.SHOW_IGNORED, "limit_reached": ItemHint.CONTINUE}
    return TranscriptItem(ItemKind.NOTICE, body=notice.text, hint=hints.get(notice.code))


def describe_run_end(result: events.RunResult) -> TranscriptItem | None:
    """Return the item for a failed, interrupted or incomplete run; None for any other run."""
    match result.end_reason:
        case events.EndReason.FAILED:
            text = str(result.error or result.reason)
            return TranscriptItem(ItemKind.ERROR, body=text, hint=ItemHint.RETRY)
        case events.EndReason.INTERRUPTED:
            return TranscriptItem(ItemKind.NOTICE, body="interrupted", hint=ItemHint.CONTINUE)
        case events.EndReason.DONE if result.reason:
            is_cut = result.message and result.message.stop_reason is StopReason.LENGTH
            hint = ItemHint.RAISE_LIMIT if is_cut else None
            return TranscriptItem(ItemKind.NOTICE, body=result.reason, hint=hint)
        case events.EndReason.DONE | events.EndReason.LIMIT:  # a notice has reported the limit
            return None


def queued_prompt_item(text: str, *, is_steering: bool) -> TranscriptItem:
    """Return the item of a prompt that is not recorded yet."""
    head = "will be sent with the next request" if is_steering else ""
    return TranscriptItem(ItemKind.USER, head, text, state=CallState.WAITING, is_folded=True)


def returned_prompt_item(text: str, *, can_retry: bool = False) -> TranscriptItem:
    """Return the item of a prompt that was not sent and can be edited."""
    hint = ItemHint.RETRY_OR_EDIT if can_retry else ItemHint.EDIT
    return TranscriptItem(
        ItemKind.USER, "not sent", text, state=CallState.STOPPED, is_folded=True, hint=hint
    )


# -- calls -----------------------------------------------------------------------------------


def apply_result(item: TranscriptItem, result: ToolResultMessage, entry: str) -> None:
    """Update the item of a call with its result."""
    item.is_open = False
    item.state = _STATE_BY_OUTCOME.get(result.outcome, CallState.FAILED)
    details = result.details or {}
    diff = details.get("diff")
    if result.outcome is Outcome.OK and isinstance(diff, str) and diff.strip():
        item.replace_body(_without_file_header(diff, item.head), TextForm.DIFF)
        item.is_folded = item.body.count("\n") > _MAX_UNFOLDED_LINES
        item.note = _change_summary(details)
    elif item.form is TextForm.PLAIN or result.outcome is not Outcome.OK:
        item.replace_body(result.text, TextForm.PLAIN)
        item.is_folded = item.is_folded and not _is_short_failure(item)
    else:
        item.replace_body(item.body, item.form)
    item.images = image_locations(result.content, entry)


def _is_short_failure(item: TranscriptItem) -> bool:
    """Return whether a call failed with a text short enough to be unfolded."""
    is_short = 0 < len(item.body) <= _MAX_FAILURE_CHARACTERS
    lines = item.body.strip("\n").count("\n") + 1
    return item.state is CallState.FAILED and is_short and lines <= _MAX_FAILURE_LINES


def _change_summary(details: Mapping[str, Any]) -> str:
    """Return the numbers of added and removed lines as text; empty if they are unknown."""
    added, removed = details.get("added"), details.get("removed")
    is_counted = isinstance(added, int) and isinstance(removed, int)
    return f"+{added:,} \N{MINUS SIGN}{removed:,}" if is_counted else ""


def _without_file_header(diff: str, head: str) -> str:
    """Return a diff without its file header, if the head of its item ends with the file name."""
    old, _, rest = diff.partition("\n")
    new, _, changes = rest.partition("\n")
    is_named = old.startswith("--- ") and new.startswith("+++ ")
    return changes if is_named and head.endswith(f" {new[4:]}") else diff


def apply_decision(item: TranscriptItem, approval: records.Approval) -> None:
    """Update the item of a call with the decision about it."""
    if approval.status is records.ApprovalStatus.PENDING:
        item.state = CallState.WAITING
    elif approval.status is records.ApprovalStatus.DENIED:
        item.state = CallState.DENIED
    elif item.state is CallState.WAITING:
        item.state = None


# -- messages --------------------------------------------------------------------------------


def item_from_prompt(entry: Entry, message: UserMessage) -> TranscriptItem:
    """Return the item of a recorded prompt or shell command."""
    if (shell := shell_command_of(entry)) is not None:
        item = item_from_shell_command(shell.command)
        item.entry = entry.id
        apply_exit_status(item, shell.status)
        item.body = shell.output
        return item
    references = [
        f"[{_reference_text(block)}]" for block in message.content if not isinstance(block, Text)
    ]
    text = "\n".join(filter(None, [message.text, "  ".join(references)]))
    images = image_locations(message.content, entry.id)
    return TranscriptItem(ItemKind.USER, body=text, is_folded=True, entry=entry.id, images=images)


def item_from_shell_command(command: str) -> TranscriptItem:
    """Return the item of a shell command, without its output."""
    return TranscriptItem(ItemKind.SHELL, head=f"$ {terminal_line(command)}", is_folded=True)


def apply_exit_status(item: TranscriptItem, status: object) -> None:
    """Update the item of a shell command with its exit status; None means that it was stopped."""
    if status is None:
        item.state = CallState.STOPPED
    elif status == 0:
        item.state = CallState.DONE
    else:
        item.state, item.note = CallState.FAILED, f"exit {status}"


def answer_item(text: str = "", entry: str | None = None) -> TranscriptItem:
    """Return the item for a text from the model."""
    return TranscriptItem(ItemKind.ANSWER, body=text, form=TextForm.MARKDOWN, entry=entry)


def thinking_item(text: str = "", entry: str | None = None) -> TranscriptItem:
    """Return the item for the thinking of the model."""
    return TranscriptItem(
        ItemKind.THINKING, head="thinking", body=text, is_folded=True, entry=entry
    )


def _reference_text(block: UserBlock) -> str:
    match block:
        case FileReference() | Image() | Resource():
            return describe_reference(block)
        case Opaque():
            return describe_opaque(block)
        case Text():  # not a reference, but a forged resolution may name any block
            return "a text"
        case _:
            assert_never(block)


def image_locations(content: tuple[object, ...], entry: str) -> tuple[ImageLocation, ...]:
    """Return the locations of the images in a message's content."""
    return tuple(
        [
            ImageLocation(entry, block_index)
            for block_index, block in enumerate(content)
            if isinstance(block, Image)
        ]
    )


# -- everything else -------------------------------------------------------------------------


def marker_from_entry(entry: Entry, prompts: Mapping[str, UserMessage]) -> TranscriptItem | None:
    """Return the item of an entry other than a prompt or a response; None if it has no item.

    Tool results, approvals and rewinds have no item. `prompts` contains the messages of the user
    by entry id, for the names of references.
    """
    payload = revoked_grant_of(entry) or entry.payload
    head, body = "", ""
    match payload:
        case SystemMessage():
            body = payload.text or ""
            head = f"system prompt · {format_count(len(body.split()), 'word', 'words')}"
        case records.ModeChange():
            head = f"{payload.new} mode"
        case records.ModelChange() if payload.old:  # the first model is not a change
            head = f"model {payload.new}"
        case records.BranchSwitch():
            head = f"branch {payload.new}"
        case records.Label():
            head = f"label: {payload.text}"
        case records.Compaction():
            head = "a summary replaces the earlier messages"
            body = payload.summary
        case records.Clear():
            head = CONTEXT_CLEARED
        case records.GrantRevoked():
            head = describe_revocation(payload)
        case records.Redacted():
            head = f"redacted: {payload.kind}"
        case records.Redaction():
            head = f"redacted by {payload.actor}: {payload.reason}"
        case Opaque():
            head = describe_opaque(payload)
        case records.Feedback():
            return TranscriptItem(ItemKind.NOTICE, body=f"feedback: {payload.text}", entry=entry.id)
        case records.Repair():
            text = f"repaired: {payload.explanation}"
            return TranscriptItem(ItemKind.NOTICE, body=text, entry=entry.id)
        case records.Resolution():
            return _resolution_item(entry, payload, prompts.get(payload.target))
        case _:
            return None
    item = TranscriptItem(ItemKind.MARKER, terminal_line(head), body, entry=entry.id)
    item.is_folded = isinstance(payload, SystemMessage | records.Compaction)
    item.form = TextForm.MARKDOWN if isinstance(payload, records.Compaction) else TextForm.PLAIN
    return item


def _resolution_item(
    entry: Entry, resolution: records.Resolution, prompt: UserMessage | None
) -> TranscriptItem | None:
    """Return the item of a resolution that failed or used OCR; None for any other resolution."""
    blocks = () if prompt is None else prompt.content[resolution.block :]
    reference = _reference_text(blocks[0]) if blocks else "a reference"
    if resolution.status is records.ResolutionStatus.FAILED:
        text = f"{reference}: failed: {resolution.error}"
        return TranscriptItem(ItemKind.ERROR, body=text, entry=entry.id, hint=ItemHint.RETRY)
    details = resolution.details or {}
    if resolution.status is records.ResolutionStatus.RESOLVED and details.get("used") == "ocr":
        return TranscriptItem(
            ItemKind.NOTICE,
            body=f"{reference}: the model receives the recognised text, not the image",
            entry=entry.id,
        )
    return None


# -- sentences -------------------------------------------------------------------------------


def describe_activity(event: SessionEvent, model: Callable[[], str]) -> str | None:
    """Return the activity of a session after an event; None if the activity does not change."""
    match event:
        case TextDelta():
            return "answering"
        case ThinkingDelta():
            return "thinking"
        case ToolCallBegin(_, _, name):
            return f"calling {terminal_line(name or 'a tool')}"
        case events.TurnStarted():
            return f"waiting for {terminal_line(model())}"
        case events.CallStarted(call):
            return f"running {tool_label(call)}"
        case ShellStarted(command):
            return f"running {terminal_line(command)}"
        case events.CallEnded() | events.RunEnded() | ShellEnded():
            return "working"  # another call or command may still be running
        case _:
            return None


def describe_run_usage(result: events.RunResult) -> str:
    """Return the number of tokens of a run, with the cost if it is known."""
    tokens = format_count(result.usage.total_tokens, "token", "tokens")
    return tokens if result.cost is None else f"{tokens}, {format_dollars(result.cost)}"


def describe_bug(error: Exception) -> str:
    """Return the message for an unexpected exception, which is a bug in steno."""
    return f"a bug in steno: {type(error).__name__}: {error}; all recorded entries are safe"


# -- changes ---------------------------------------------------------------------------------


@final
class ChangeSummarizer:
    """Passes events to a listener, with changes converted to notices.

    All fields that the server ignores are combined in one notice. Changes that the user does not
    need to see are dropped.
    """

    def __init__(self, listener: SessionListener, *, is_verbose: bool) -> None:
        """Set the listener; if `is_verbose`, it receives a notice about every single change."""
        self._listener = listener
        self._is_verbose = is_verbose
        self._ignored: Counter[str] | None = Counter()
        """The number of ignored fields by member of the request; None once it is reported."""

    def __call__(self, event: SessionEvent) -> None:
        """Pass an event to the listener; a change becomes a notice, is counted, or is ignored."""
        if isinstance(event, events.EntryRecorded) and isinstance(
            event.entry.payload, records.ModelChange
        ):
            self._ignored = Counter()  # another server ignores other fields
        if isinstance(event, events.ContextChanged):
            change = event.change
            text = format_change(change) if self._is_verbose else notice_text(change)
            if text is None:
                if is_ignored_by_server(change) and self._ignored is not None:
                    self._ignored[change.place_parts.member] += 1
                return
            event = events.Notice(events.NoticeKind.CONTEXT, text, change.code)
        if self._ignored:  # all ignored fields are in the first request
            text, self._ignored = summarize_ignored(self._ignored), None
            self._listener(events.Notice(events.NoticeKind.CONTEXT, text, "fields_ignored"))
        self._listener(event)
