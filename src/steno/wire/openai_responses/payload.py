"""The JSON of an answer, as far as we have names for it."""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Raw

from steno.messages.usage import StopReason, Usage
from steno.wire.tolerant import NULL, TolerantStruct

NAME: Final = "openai_responses"
PROVIDER: Final = "openai"
"""Whom we assume to speak this protocol if nobody says otherwise."""

LEGAL_ID: Final = re.compile(r"[\x21-\x7e]{1,64}")
LEGAL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What a function may be called."""

ITEM_EXTRAS: Final = "$item"
"""The extra of the first part of a message item that holds the members of the item itself."""
ITEM_TYPE_NOTE: Final = "item"
"""How that item was written: with the type of a message, which it can do without."""
PART_NOTE: Final = "part"
"""How a part was written that goes on with the item of the part before it."""
PROVIDER_NOTE: Final = "provider"
"""How a turn was written that another provider than `PROVIDER` made; ids are worth nothing else."""

CUSTOM_TOOL_CALL: Final = "custom_tool_call"
"""The type of a call whose arguments are any text, its input."""
FUNCTION_CALL_OUTPUT: Final = "function_call_output"
CUSTOM_TOOL_CALL_OUTPUT: Final = "custom_tool_call_output"

TEXT_DELTA: Final = "response.output_text.delta"
ARGUMENTS_DELTAS: Final = frozenset(
    {"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"}
)
REFUSAL_DELTA: Final = "response.refusal.delta"
REASONING_DELTAS: Final = frozenset(
    {"response.reasoning_summary_text.delta", "response.reasoning_text.delta"}
)
TEXT_KIND: Final = "words"
REASONING_KIND: Final = "thought"
CALL_KIND: Final = "call"
DELTA_KINDS: Final = (
    {TEXT_DELTA: TEXT_KIND, REFUSAL_DELTA: "refusal"}
    | dict.fromkeys(REASONING_DELTAS, REASONING_KIND)
    | dict.fromkeys(ARGUMENTS_DELTAS, CALL_KIND)
)
"""Events that say more of something: what that is."""
DONE_EVENT_FIELDS: Final = {
    "response.output_text.done": "text",
    "response.refusal.done": "refusal",
    "response.function_call_arguments.done": "arguments",
    "response.custom_tool_call_input.done": "input",
    "response.reasoning_text.done": "text",
    "response.reasoning_summary_text.done": "text",
}
"""Events that say at once what deltas said before, or should have: the member that says it."""
RESPONSE_STATUSES: Final = frozenset(
    {"completed", "failed", "in_progress", "cancelled", "queued", "incomplete"}
)
"""How an answer may be; many a server says of its health that its status is ok."""
END_EVENTS: Final = frozenset(
    {
        "response.completed",
        "response.incomplete",
        "response.failed",
        "response.cancelled",
        "response.done",
    }
)
START_EVENTS: Final = frozenset({"response.created", "response.queued", "response.in_progress"})


class DeltaEvent(TolerantStruct):
    """The event that nearly all events are: a few characters more of something."""

    type: str
    delta: str
    item_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    sequence_number: int | None = None
    obfuscation: str | None = None
    logprobs: Raw = Raw()


class ItemHead(TolerantStruct, forbid_unknown_fields=False):
    """What an item is called."""

    type: str | None = None
    id: str | None = None
    call_id: str | None = None
    name: str | None = None


class InputTokensDetails(TolerantStruct, forbid_unknown_fields=False):
    """What the input was made of."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class OutputTokensDetails(TolerantStruct, forbid_unknown_fields=False):
    """What the output was made of."""

    reasoning_tokens: int | None = None


class ResponseUsage(TolerantStruct, forbid_unknown_fields=False):
    """What an answer cost."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: InputTokensDetails | None = None
    output_tokens_details: OutputTokensDetails | None = None


class IncompleteDetails(TolerantStruct, forbid_unknown_fields=False):
    """Why an answer is not whole."""

    reason: str | None = None


class Response(TolerantStruct, forbid_unknown_fields=False):
    """The members of an answer that become a message; all of them are in the envelope."""

    model: str | None = None
    status: str | None = None
    output: list[Raw] | None = None
    usage: ResponseUsage | None = None
    error: Raw = NULL
    incomplete_details: IncompleteDetails | None = None


_STOP_REASONS: Final = {
    "completed": StopReason.END_TURN,
    "failed": StopReason.ERROR,
    "cancelled": StopReason.ABORTED,
    "queued": StopReason.PAUSE,
    "in_progress": StopReason.PAUSE,
}
_INCOMPLETE_REASONS: Final = {
    "max_output_tokens": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "content_filter": StopReason.CONTENT_FILTER,
}


def map_stop_reason(status: str | None, details: IncompleteDetails | None) -> StopReason:
    """Map the status of an answer; calls are not told by it."""
    if status == "incomplete":
        return _INCOMPLETE_REASONS.get((details and details.reason) or "", StopReason.UNKNOWN)
    return _STOP_REASONS.get(status or "", StopReason.UNKNOWN)


def read_usage(tokens: ResponseUsage) -> Usage:
    """Read the counts; input tokens include what was cached, output tokens all thinking."""
    read = tokens.input_tokens_details
    written = tokens.output_tokens_details
    counts: dict[str, Any] = {
        "input_tokens": tokens.input_tokens,
        "output_tokens": tokens.output_tokens,
        "cache_read_tokens": read.cached_tokens if read else None,
        "cache_write_tokens": read.cache_write_tokens if read else None,
        "thinking_tokens": written.reasoning_tokens if written else None,
    }
    return Usage(
        **{name: count for name, count in counts.items() if count is not None and count >= 0}
    )


# -- events that say nothing of their own ----------------------------------------------------


def _build_event_names(item: str, *steps: str) -> list[str]:
    return [f"response.{item}.{step}" for step in steps]


PROGRESS_EVENTS: Final = frozenset(
    [
        "ping",
        "keepalive",
        *_build_event_names("content_part", "added", "done"),
        *DONE_EVENT_FIELDS,
        *_build_event_names("output_text", "annotation.added"),
        *_build_event_names("reasoning_part", "added", "done"),
        *_build_event_names("reasoning_summary_part", "added", "done"),
        *_build_event_names("mcp_call", "in_progress", "completed", "failed"),
        *_build_event_names("mcp_call_arguments", "delta", "done"),
        *_build_event_names("mcp_list_tools", "in_progress", "completed", "failed"),
        *_build_event_names("web_search_call", "in_progress", "searching", "completed"),
        *_build_event_names("file_search_call", "in_progress", "searching", "completed"),
        *_build_event_names("code_interpreter_call", "in_progress", "interpreting", "completed"),
        *_build_event_names("code_interpreter_call_code", "delta", "done"),
        *_build_event_names("image_generation_call", "in_progress", "generating", "completed"),
        *_build_event_names("image_generation_call", "partial_image"),
        *_build_event_names("apply_patch_call_operation_diff", "delta", "done"),
        *_build_event_names("shell_call_command", "added", "delta", "done"),
        *_build_event_names("shell_call_output_content", "delta", "done"),
        *_build_event_names("compaction", "compacting"),
    ]
)
"""Events that tell of progress only: what they bring, the item repeats when it is done."""

REPEATED_FIELDS: Final = frozenset(
    [
        *("sequence_number", "item_id", "output_index", "content_index", "summary_index"),
        *("part", "text", "arguments", "name", "refusal", "annotation", "annotation_index"),
        *("delta", "logprobs", "code", "diff", "input", "obfuscation"),
        *("partial_image_b64", "partial_image_index"),
    ]
)
"""Members of those events that need not be kept."""
