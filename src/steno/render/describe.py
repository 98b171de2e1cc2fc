"""One-line descriptions of the parts of a log: references, calls, decisions and other entries.

An object has the same name on a terminal, in a document and in a list. All texts are printable,
except those of `describe_result` and `describe_revocation`. URLs do not contain passwords. Callers
add styles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, assert_never

from steno import records
from steno.errors import InvalidArguments
from steno.log.queries import entry_decision, revoked_grant_of, shell_command_of
from steno.messages.call import AnyToolCall, ToolCall, original_tool_name
from steno.messages.content import (
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    Opaque,
    Resource,
    Thinking,
)
from steno.messages.message import AssistantMessage, SystemMessage, ToolResultMessage, UserMessage
from steno.messages.outcome import Outcome
from steno.messages.usage import StopReason
from steno.ports import ApprovalRequest, Capability, PreviewPart, reference_address
from steno.records import Entry, Payload
from steno.render.quantities import format_count, format_time
from steno.render.terminal_text import (
    display_width,
    terminal_line,
    terminal_text,
    truncate_to_width,
)
from steno.tools.calls import call_headline

AUDIT_ORIGIN_KEYS: Final = (("by", "actor"), ("from", "origin"))
"""Pairs of a label and an audit key, for the origin of an entry."""
_EXPECTED_STOPS: Final = (None, StopReason.END_TURN, StopReason.TOOL_USE)
_MAX_CALL_SUMMARY: Final = 160


# -- parts of a message -----------------------------------------------------------------------


def reference_name(reference: FileReference | Image | Resource, *, with_size: bool = True) -> str:
    """Return the name of a reference: a path, an address, or the type of embedded image data.

    If `with_size` is true, the name of embedded image data includes its size.
    """
    address = terminal_line(reference_address(reference))
    match reference:
        case FileReference(start_line=first, end_line=last):
            end = "" if last is None or last == first else f"-{last}"
            lines = "" if first is None else f":{first}{end}"
            return f"{address}{lines}"
        case Resource(server=server):
            return f"{terminal_line(server)}:{address}"
        case Image(source=ImageData() | ImageBlob() as source) if with_size:
            size = len(source.data) if isinstance(source, ImageData) else source.size
            return f"{address}, {size:,} bytes"
        case Image():
            return address
        case _:
            assert_never(reference)


def describe_reference(reference: FileReference | Image | Resource) -> str:
    """Return the kind and the name of a reference."""
    match reference:
        case FileReference():
            return f"file {reference_name(reference)}"
        case Resource():
            return f"resource {reference_name(reference)}"
        case Image(source=ImageFile() | ImageUrl()):
            return f"image {reference_name(reference)}"
        case Image():  # the name of embedded image data is its type
            return reference_name(reference)


def referenced_block(
    message: object, resolution: records.Resolution
) -> FileReference | Image | Resource | None:
    """Return the block of a message that a resolution resolves; None if there is no such block."""
    blocks = getattr(message, "content", ())[resolution.block :]
    block = blocks[0] if blocks else None
    return block if isinstance(block, FileReference | Image | Resource) else None


def thinking_text(thinking: Thinking) -> str:
    """Return the text of a thinking block, or a note if the provider has redacted it."""
    return "(redacted by the provider)" if thinking.redacted else terminal_text(thinking.text)


def describe_opaque(opaque: Opaque) -> str:
    """Describe an empty text, or content that this version of steno does not know."""
    if opaque.is_empty_text:
        return "empty text"
    kind = terminal_line(opaque.kind)
    return f"unknown content: {kind}" if kind else "unknown content"


def describe_unusual_stop(message: AssistantMessage) -> str:
    """Return a note about an unusual stop reason of a response; empty for the usual reasons."""
    usual = message.stop_reason in _EXPECTED_STOPS
    return "" if usual else f"stopped: {message.stop_reason}"


# -- calls ------------------------------------------------------------------------------------


Headline: TypeAlias = Callable[[AnyToolCall], str]
"""A function that returns the headline of a call, such as `call_headline`."""

Content: TypeAlias = Callable[[ToolCall], PreviewPart | None]
"""A function such as `call_content`, which returns the text that a call writes, or None."""


def tool_label(call: AnyToolCall) -> str:
    """Return the name of the tool that the model sent, on one line."""
    return terminal_line(original_tool_name(call))


def summarize_call(call: AnyToolCall, headline: Headline = call_headline) -> str:
    """Return the tool name and the headline of a call on one line, truncated if it is long."""
    return truncate_to_width(
        terminal_line(f"{original_tool_name(call)} {headline(call)}"), _MAX_CALL_SUMMARY
    )


def summarize_arguments(call: AnyToolCall, headline: Headline = call_headline) -> str:
    """Return the headline of a call on one line, truncated as in `summarize_call`."""
    name_width = display_width(tool_label(call))
    return truncate_to_width(terminal_line(headline(call)), _MAX_CALL_SUMMARY - name_width - 1)


def unstated_capability(request: ApprovalRequest) -> Capability | None:
    """Return the requested capability; None if the name of the tool already states it."""
    return None if request.call.name == request.capability else request.capability


def call_arguments(call: AnyToolCall) -> Mapping[str, Any] | None:
    """Return the arguments of a call; None if they are invalid."""
    if not isinstance(call, ToolCall):
        return None
    try:
        return call.parsed
    except InvalidArguments:  # valid JSON that Python cannot represent
        return None


def describe_result(result: ToolResultMessage) -> tuple[str, list[str]]:
    """Return a one-line summary of a result, and the lines of its diff or of its error text.

    The first line of an error text is part of the summary. There are no lines if the call succeeded
    without a diff.
    """
    lines = result.text.strip("\n").split("\n") if result.text.strip() else []
    diff = (result.details or {}).get("diff")
    if result.outcome is not Outcome.OK:
        first, *rest = lines or ["no details"]
        return f"{result.outcome}: {first}", rest
    if isinstance(diff, str) and diff.strip():
        return "ok, changes:", diff.strip("\n").split("\n")
    return f"ok, {format_count(len(lines), 'line', 'lines')}", []


def describe_exit(status: int | None) -> str:
    """Describe the end of a shell command; a status of None means that it was stopped."""
    return "stopped" if status is None else f"exit status {status}"


# -- entries ----------------------------------------------------------------------------------


def entry_type(entry: Entry) -> str:
    """Return the type of an entry, such as `user`, `approval` or `shell_command`.

    Entries written by an older version get their current type.
    """
    payload = shell_command_of(entry) or revoked_grant_of(entry) or entry.payload
    if isinstance(payload, Opaque):
        return terminal_line(payload.kind) or "unknown"
    return payload_type(payload)


def payload_type(payload: Payload | type[Payload]) -> str:
    """Return the stored type name of a payload or of a payload class."""
    return str(payload.__struct_config__.tag)


def describe_decider(payload: Payload) -> str:
    """Return the actor or the rule that made a decision; empty if the payload has neither."""
    actor, rule = getattr(payload, "actor", None), getattr(payload, "rule", None)
    if actor is not None:
        return terminal_line(str(actor))
    return "" if rule is None else f"rule {terminal_line(str(rule))}"


def describe_origin(entry: Entry) -> list[str]:
    """Return the origin of an entry from its audit data, such as `by ada` or `from steno-0.1`."""
    audit = entry.audit or {}
    values = [(label, audit.get(key)) for label, key in AUDIT_ORIGIN_KEYS]
    return [f"{label} {terminal_line(value)}" for label, value in values if isinstance(value, str)]


def entry_facts(entry: Entry, labels: Sequence[str], branches: Sequence[str]) -> list[str]:
    """Return the time, the decision, the labels and the branches of an entry as short texts."""
    decision = entry_decision(entry)
    decider = "" if decision is None else describe_decider(entry.payload)
    decided = terminal_line(decision or "") + (f" by {decider}" if decider else "")
    facts = (format_time(entry.time), decided, *entry_position(labels, branches))
    return [fact for fact in facts if fact]


def entry_position(
    labels: Sequence[str], branches: Sequence[str], *, is_active: bool = True
) -> list[str]:
    """Return the labels of an entry and the branches that end at it, as short texts.

    If `is_active` is false, the first text states that the entry is on another branch.
    """
    return [
        *([] if is_active else ["on another branch"]),
        *[f"label {terminal_line(label)}" for label in labels],
        *[f"branch {terminal_line(name)} ends here" for name in branches],
    ]


def describe_revocation(revoked: records.GrantRevoked) -> str:
    """Return a sentence that reports a revoked permission rule."""
    return f"{revoked.grant} is no longer allowed for this session"


class EntryDescription(NamedTuple):
    """A one-line summary of an entry and a longer text; either may be empty."""

    summary: str
    text: str = ""


def describe_entry(
    entry: Entry,
    *,
    entry_label: Callable[[str], str],
    call_label: Callable[[str], str],
    describe_resolution: Callable[[records.Resolution], EntryDescription],
) -> EntryDescription:
    """Describe an entry that is not a message.

    `entry_label` and `call_label` return the names of entries and calls by their ids;
    `describe_resolution` describes the resolution of a reference.
    """
    payload = revoked_grant_of(entry) or entry.payload
    match payload:
        case records.ModeChange():
            return EntryDescription(f"{payload.old} → {payload.new}")
        case records.BranchSwitch() | records.ModelChange():
            old, new = terminal_line(payload.old), terminal_line(payload.new)
            return EntryDescription(f"{old} → {new}" if old else new)
        case records.Rewind():
            place = "the beginning" if entry.parent is None else entry_label(entry.parent)
            last = entry_label(payload.left)
            return EntryDescription(f"continues from {place}; the last entry was {last}")
        case records.Label():
            target = entry_label(payload.target)
            return EntryDescription(f"{terminal_line(payload.text)} for {target}")
        case records.Compaction():
            line = f"replaces everything up to {entry_label(payload.through)}"
            return EntryDescription(line, terminal_text(payload.summary))
        case records.Clear():
            return EntryDescription("the model receives no earlier messages")
        case records.Approval():
            by = f" by {name}" if (name := describe_decider(payload)) else ""
            line = f"{call_label(payload.call_id)}: {payload.status}{by}"
            return EntryDescription(line, terminal_text(payload.reason or ""))
        case records.Resolution():
            return describe_resolution(payload)
        case records.ImageAnalysis():
            target, answer = entry_label(payload.target), entry_label(payload.answer)
            return EntryDescription(f"block {payload.block} of {target} is answered in {answer}")
        case records.Feedback():
            target = entry_label(payload.target)
            return EntryDescription(f"on {target}", terminal_text(payload.text))
        case records.Repair():
            return EntryDescription(terminal_line(payload.code), terminal_text(payload.explanation))
        case records.ShellCommand():
            return EntryDescription("", terminal_text(payload.message.text))
        case records.GrantRevoked():
            return EntryDescription("", terminal_text(describe_revocation(payload)))
        case records.Redacted():
            return EntryDescription(f"content of type {terminal_line(payload.kind)}")
        case records.Redaction():
            target, actor = entry_label(payload.target), terminal_line(payload.actor)
            return EntryDescription(
                f"{target} was redacted by {actor}", terminal_text(payload.reason)
            )
        case Opaque():
            return EntryDescription(describe_opaque(payload))
        case SystemMessage() | UserMessage() | AssistantMessage() | ToolResultMessage():
            return EntryDescription("", terminal_text(payload.text or ""))
        case _:
            assert_never(payload)
