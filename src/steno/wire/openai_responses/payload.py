"""The JSON of the Responses API, as far as steno reads it, with tables of events and usage."""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Raw

from steno.messages.usage import StopReason
from steno.wire.tolerant import NULL, TolerantStruct

NAME: Final = "openai_responses"
PROVIDER: Final = "openai"
"""The provider that is assumed unless the caller names one."""

LEGAL_ID: Final = re.compile(r"[\x21-\x7e]{1,64}")
LEGAL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The function names that OpenAI accepts."""

ITEM_EXTRAS: Final = "$item"
"""The extra on the first part of a message item, with the unknown members of the item itself."""
ITEM_TYPE_NOTE: Final = "item"
"""The note on a message item that was recorded with its type, which is optional."""
PART_NOTE: Final = "part"
"""The note on a part that belongs to the item of the part before it."""
PROVIDER_NOTE: Final = "provider"
"""The note with the provider of a turn, unless it is `PROVIDER`.

Only this provider accepts the ids of the items of the turn.
"""

CUSTOM_TOOL_CALL: Final = "custom_tool_call"
"""The type of a call whose arguments are any text."""
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
TEXT_KIND: Final = "text"
REASONING_KIND: Final = "reasoning"
CALL_KIND: Final = "call"
DELTA_KINDS: Final = (
    {TEXT_DELTA: TEXT_KIND, REFUSAL_DELTA: "refusal"}
    | dict.fromkeys(REASONING_DELTAS, REASONING_KIND)
    | dict.fromkeys(ARGUMENTS_DELTAS, CALL_KIND)
)
"""The kind of content that each type of delta event extends."""
DONE_EVENT_FIELDS: Final = {
    "response.output_text.done": "text",
    "response.refusal.done": "refusal",
    "response.function_call_arguments.done": "arguments",
    "response.custom_tool_call_input.done": "input",
    "response.reasoning_text.done": "text",
    "response.reasoning_summary_text.done": "text",
}
"""The events that repeat all deltas of a text, each with the member that has the whole text."""
RESPONSE_STATUSES: Final = frozenset(
    {"completed", "failed", "in_progress", "cancelled", "queued", "incomplete"}
)
"""The statuses of a response, to distinguish it from other JSON with a member `status`."""
END_EVENTS: Final = frozenset(
    f"response.{end}" for end in ("completed", "incomplete", "failed", "cancelled", "done")
)
START_EVENTS: Final = frozenset({"response.created", "response.queued", "response.in_progress"})


class DeltaEvent(TolerantStruct):
    """An event with more text of an item; nearly all events are of this type."""

    growing = ("delta",)
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
    """The type, ids and name of an item."""

    type: str | None = None
    id: str | None = None
    call_id: str | None = None
    name: str | None = None


class Response(TolerantStruct, forbid_unknown_fields=False):
    """The members of a response that the decoder needs to build a message."""

    model: str | None = None
    status: str | None = None
    output: list[Raw] | None = None
    usage: dict[str, Any] | None = None
    error: Raw = NULL
    incomplete_details: dict[str, Any] | None = None


# -- tables ----------------------------------------------------------------------------------

STOP_REASONS: Final = {
    "completed": StopReason.END_TURN,
    "failed": StopReason.ERROR,
    "cancelled": StopReason.ABORTED,
    "queued": StopReason.PAUSE,
    "in_progress": StopReason.PAUSE,
}
"""Stop reasons by the status of a response, which does not show whether it has calls."""
INCOMPLETE_REASONS: Final = {
    "max_output_tokens": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "content_filter": StopReason.CONTENT_FILTER,
}
"""Stop reasons by the reason in the details of an incomplete response."""
USAGE: Final = {
    "input_tokens": ("input_tokens",),
    "output_tokens": ("output_tokens",),
    "cache_read_tokens": ("input_tokens_details.cached_tokens",),
    "cache_write_tokens": ("input_tokens_details.cache_write_tokens",),
    "thinking_tokens": ("output_tokens_details.reasoning_tokens",),
}


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
"""Events that only report progress; the done item repeats their content."""

REPEATED_FIELDS: Final = frozenset(
    [
        *("sequence_number", "item_id", "output_index", "content_index", "summary_index"),
        *("part", "text", "arguments", "name", "refusal", "annotation", "annotation_index"),
        *("delta", "logprobs", "code", "diff", "input", "obfuscation"),
        *("partial_image_b64", "partial_image_index"),
    ]
)
"""Members of progress events that are not kept, because the done item repeats them."""
