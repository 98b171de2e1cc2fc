"""Strategies of hypothesis for every value, as varied as the rules allow.

Any Unicode, integers of any size, deep nesting, the empty string wherever it is legal.
`steno.testing` exports all of these names; they have a package of their own so that the doubles
need nothing but steno.
"""

try:
    import hypothesis as _hypothesis
except ModuleNotFoundError as _exc:
    raise ImportError(
        "steno.testing: strategies need hypothesis: pip install 'steno[testing]'"
    ) from _exc

from steno.testing.strategies.block_strategies import (
    blocks,
    file_paths,
    file_references,
    image_sources,
    images,
    invalid_tool_calls,
    opaque_blocks,
    resources,
    seals,
    text_blocks,
    thinking_blocks,
    tool_calls,
    unknown_tags,
)
from steno.testing.strategies.entry_strategies import (
    approvals,
    controls,
    documents,
    entries,
    payloads,
    resolutions,
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
    assistant_messages,
    conversations,
    damaged_conversations,
    failures,
    messages,
    requests,
    system_messages,
    tool_definitions,
    tool_results,
    usages,
    user_messages,
)
from steno.testing.strategies.primitive_strategies import (
    identifiers,
    json_object_texts,
    json_objects,
    json_values,
    moments,
    outside_tool_names,
    texts,
    tool_names,
    visible_texts,
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
