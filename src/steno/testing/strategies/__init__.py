"""Hypothesis strategies for blocks, messages, events and entries, as varied as the rules allow.

Values contain any Unicode, integers of any size, deep nesting, and empty strings wherever they are
valid. `steno.testing` exports all of these names; they are in a separate package so that the
test doubles do not require Hypothesis.
"""

from steno.errors import MissingExtra as _MissingExtra

try:
    import hypothesis as _hypothesis
except ModuleNotFoundError as _exc:
    raise _MissingExtra("steno.testing: strategies need hypothesis", extra="testing") from _exc

from steno.testing.strategies.block_strategies import (
    blocks,
    file_paths,
    file_references,
    identifiers,
    image_sources,
    images,
    invalid_tool_calls,
    json_object_texts,
    json_objects,
    json_values,
    moments,
    opaque_blocks,
    outside_tool_names,
    resources,
    seals,
    text_blocks,
    texts,
    thinking_blocks,
    tool_calls,
    tool_names,
    unknown_tags,
    visible_texts,
)
from steno.testing.strategies.event_strategies import (
    EventStream,
    StreamHabits,
    event_streams,
    events,
    finishes,
    stream_habits,
)
from steno.testing.strategies.message_strategies import (
    approvals,
    assistant_messages,
    controls,
    conversations,
    damaged_conversations,
    documents,
    entries,
    failures,
    messages,
    payloads,
    requests,
    resolutions,
    system_messages,
    tool_definitions,
    tool_results,
    usages,
    user_messages,
)

del _hypothesis

__all__ = [
    "EventStream",
    "StreamHabits",
    "approvals",
    "assistant_messages",
    "blocks",
    "controls",
    "conversations",
    "damaged_conversations",
    "documents",
    "entries",
    "event_streams",
    "events",
    "failures",
    "file_paths",
    "file_references",
    "finishes",
    "identifiers",
    "image_sources",
    "images",
    "invalid_tool_calls",
    "json_object_texts",
    "json_objects",
    "json_values",
    "messages",
    "moments",
    "opaque_blocks",
    "outside_tool_names",
    "payloads",
    "requests",
    "resolutions",
    "resources",
    "seals",
    "stream_habits",
    "system_messages",
    "text_blocks",
    "texts",
    "thinking_blocks",
    "tool_calls",
    "tool_definitions",
    "tool_names",
    "tool_results",
    "unknown_tags",
    "usages",
    "user_messages",
    "visible_texts",
]
