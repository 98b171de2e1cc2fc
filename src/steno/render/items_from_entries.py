"""Recorded entries as items.

Text is not made printable here; the code that draws it does that. Heads are on one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, assert_never

from steno.log.queries import revoked_grant_of, shell_command_of
from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall
from steno.messages.content import FileReference, Image, Opaque, Resource, Text, Thinking
from steno.messages.message import (
    AssistantMessage,
    SystemMessage,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from steno.messages.outcome import Outcome
from steno.ports import PreviewKind
from steno.records.entry import (
    Approval,
    ApprovalStatus,
    BranchSwitch,
    Compaction,
    Entry,
    Feedback,
    GrantRevoked,
    Label,
    ModeChange,
    ModelChange,
    Redacted,
    Redaction,
    Repair,
    Resolution,
    ResolutionStatus,
)
from steno.render.describe import (
    Headline,
    describe_opaque,
    describe_reference,
    describe_revocation,
    summarize_call,
    thinking_text,
)
from steno.render.items import (
    CallState,
    ImageLocation,
    ItemHint,
    ItemKind,
    TextForm,
    TranscriptItem,
)
from steno.render.quantities import format_count
from steno.render.terminal_text import terminal_line
from steno.tools.calls import call_content

_MAX_UNFOLDED_LINES: Final = 20
"""The number of lines up to which a diff starts unfolded."""
_MAX_FAILURE_LINES: Final = 5
_MAX_FAILURE_CHARACTERS: Final = 500
"""The output of a failed call is visible if it is not longer: it states the reason."""
_STATE_BY_OUTCOME: Final = {
    Outcome.OK: CallState.DONE,
    Outcome.DENIED: CallState.DENIED,
    Outcome.CANCELLED: CallState.STOPPED,
    Outcome.SKIPPED: CallState.STOPPED,
}


# -- calls -----------------------------------------------------------------------------------


def item_from_call(call: AnyToolCall, entry: str, headline: Headline) -> TranscriptItem:
    """Return the item of a call without a result."""
    head = summarize_call(call, headline)
    item = TranscriptItem(ItemKind.CALL, head, is_folded=True, entry=entry)
    if isinstance(call, InvalidToolCall):
        item.state, item.body = CallState.FAILED, f"{call.reason}\n{call.arguments}"
        return item
    if (content := call_content(call)) is not None:
        item.body, item.language = content.text, content.language
        item.form = TextForm.DIFF if content.kind is PreviewKind.DIFF else TextForm.CODE
    return item


def apply_result(item: TranscriptItem, result: ToolResultMessage, entry: str) -> None:
    """Show the result of a call."""
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
    """Return whether a call failed with a short reason."""
    is_short = 0 < len(item.body) <= _MAX_FAILURE_CHARACTERS
    lines = item.body.strip("\n").count("\n") + 1
    return item.state is CallState.FAILED and is_short and lines <= _MAX_FAILURE_LINES


def _change_summary(details: Mapping[str, Any]) -> str:
    """Return the numbers of added and removed lines."""
    added, removed = details.get("added"), details.get("removed")
    is_counted = isinstance(added, int) and isinstance(removed, int)
    return f"+{added:,} \N{MINUS SIGN}{removed:,}" if is_counted else ""


def _without_file_header(diff: str, head: str) -> str:
    """Return a diff without the name of the file, if the head above it ends in that name."""
    old, _, rest = diff.partition("\n")
    new, _, changes = rest.partition("\n")
    is_named = old.startswith("--- ") and new.startswith("+++ ")
    return changes if is_named and head.endswith(f" {new[4:]}") else diff


def apply_decision(item: TranscriptItem, approval: Approval) -> None:
    """Show the decision about a call."""
    if approval.status is ApprovalStatus.PENDING:
        item.state = CallState.WAITING
    elif approval.status is ApprovalStatus.DENIED:
        item.state = CallState.DENIED
    elif item.state is CallState.WAITING:
        item.state = None


# -- messages --------------------------------------------------------------------------------


def item_from_prompt(entry: Entry, message: UserMessage) -> TranscriptItem:
    """Return the item of a prompt, or of a shell command."""
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
    """Return the item of a shell command without output."""
    return TranscriptItem(ItemKind.SHELL, head=f"$ {terminal_line(command)}", is_folded=True)


def apply_exit_status(item: TranscriptItem, status: object) -> None:
    """Show the exit status of a shell command; without one it was stopped."""
    if status is None:
        item.state = CallState.STOPPED
    elif status == 0:
        item.state = CallState.DONE
    else:
        item.state, item.note = CallState.FAILED, f"exit {status}"


def items_from_answer(
    entry: Entry, message: AssistantMessage, headline: Headline
) -> list[TranscriptItem]:
    """Return the items of an answer, block by block, calls among them."""
    return [
        item
        for block_index, block in enumerate(message.content)
        if (item := _item_from_block(block, entry.id, block_index, headline)) is not None
    ]


def _item_from_block(
    block: Text | Thinking | ToolCall | InvalidToolCall | Image | Opaque,
    entry: str,
    block_index: int,
    headline: Headline,
) -> TranscriptItem | None:
    match block:
        case Text():
            return answer_item(block.text, entry) if block.text.strip() else None
        case Thinking():
            text = thinking_text(block)
            return thinking_item(text, entry) if text.strip() else None
        case ToolCall() | InvalidToolCall():
            return item_from_call(block, entry, headline)
        case Image():
            images = (ImageLocation(entry, block_index),)
            return TranscriptItem(
                ItemKind.ANSWER, body=f"[{describe_reference(block)}]", entry=entry, images=images
            )
        case Opaque():
            return TranscriptItem(ItemKind.MARKER, head=describe_opaque(block), entry=entry)
        case _:
            assert_never(block)


def answer_item(text: str = "", entry: str | None = None) -> TranscriptItem:
    """Return the item of an answer text."""
    return TranscriptItem(ItemKind.ANSWER, body=text, form=TextForm.MARKDOWN, entry=entry)


def thinking_item(text: str = "", entry: str | None = None) -> TranscriptItem:
    """Return the item of thinking."""
    return TranscriptItem(
        ItemKind.THINKING, head="thinking", body=text, is_folded=True, entry=entry
    )


def _reference_text(block: UserBlock) -> str:
    match block:
        case FileReference() | Image() | Resource():
            return describe_reference(block)
        case Opaque():
            return describe_opaque(block)
        case Text():  # no reference: a forged entry may point at any block
            return "something else"
        case _:
            assert_never(block)


def image_locations(content: tuple[object, ...], entry: str) -> tuple[ImageLocation, ...]:
    """Return the locations of the images of a message."""
    return tuple(
        [
            ImageLocation(entry, block_index)
            for block_index, block in enumerate(content)
            if isinstance(block, Image)
        ]
    )


# -- everything else -------------------------------------------------------------------------


def marker_from_entry(entry: Entry, prompts: Mapping[str, UserMessage]) -> TranscriptItem | None:
    """Return the item of an entry that is neither a message nor about a call; None if it has none.

    Rewound entries are not on the branch any more, and have no item: the tree shows them.
    `prompts` holds the messages of the user by entry, for the names of resolved references.
    """
    payload = revoked_grant_of(entry) or entry.payload
    match payload:
        case SystemMessage():
            text = payload.text or ""
            head = f"system prompt · {format_count(len(text.split()), 'word', 'words')}"
            return TranscriptItem(
                ItemKind.MARKER, head=head, body=text, is_folded=True, entry=entry.id
            )
        case ModeChange():
            return _marker_item(entry, f"{payload.new} mode")
        case ModelChange() if payload.old:  # the first model is no change
            return _marker_item(entry, f"{payload.new} answers")
        case BranchSwitch():
            return _marker_item(entry, f"branch {payload.new}")
        case Label():
            return _marker_item(entry, f"label: {payload.text}")
        case Compaction():
            item = _marker_item(entry, "a summary takes the place of what was said before")
            item.body, item.form, item.is_folded = payload.summary, TextForm.MARKDOWN, True
            return item
        case Feedback():
            return TranscriptItem(ItemKind.NOTICE, body=f"remark: {payload.text}", entry=entry.id)
        case GrantRevoked():
            return _marker_item(entry, describe_revocation(payload))
        case Repair():
            return TranscriptItem(
                ItemKind.NOTICE, body=f"mended: {payload.explanation}", entry=entry.id
            )
        case Redacted():
            return _marker_item(entry, f"taken out: {payload.kind}")
        case Redaction():
            return _marker_item(entry, f"taken out by {payload.actor}: {payload.reason}")
        case Resolution():
            return _resolution_item(entry, payload, prompts.get(payload.target))
        case Opaque():
            return _marker_item(entry, describe_opaque(payload))
        case _:
            return None


def _marker_item(entry: Entry, text: str) -> TranscriptItem:
    return TranscriptItem(ItemKind.MARKER, head=terminal_line(text), entry=entry.id)


def _resolution_item(
    entry: Entry, resolution: Resolution, prompt: UserMessage | None
) -> TranscriptItem | None:
    """Return the outcome of a reference, if the user should know."""
    blocks = () if prompt is None else prompt.content[resolution.block :]
    reference = _reference_text(blocks[0]) if blocks else "something"
    if resolution.status is ResolutionStatus.FAILED:
        text = f"{reference}: failed: {resolution.error}"
        return TranscriptItem(ItemKind.ERROR, body=text, entry=entry.id, hint=ItemHint.RETRY)
    details = resolution.details or {}
    if resolution.status is ResolutionStatus.RESOLVED and details.get("used") == "ocr":
        return TranscriptItem(
            ItemKind.NOTICE, body=f"{reference}: the model reads the text in it", entry=entry.id
        )
    return None
