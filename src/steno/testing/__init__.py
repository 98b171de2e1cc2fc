"""For the tests of whoever builds on steno: strategies for every value, providers and tools that obey.

    from hypothesis import given
    from steno.testing import messages

    @given(messages())
    def test_my_store_keeps_every_message(message): ...

The values are as wild as the rules allow: any Unicode, integers of any size, deep nesting, the
empty string wherever it is legal. Needs the extra `steno[testing]`.

    provider = ScriptedProvider(["Hello."])

`ScriptedProvider` says what a test wants, `ReplayingProvider` what a server once said, and a
`ScriptedTool` does what it is told.
`steno.testing.conformance` has the cases that every wire and every provider has to pass.
"""

try:
    import hypothesis as _hypothesis
except ModuleNotFoundError as exc:
    raise ImportError("steno.testing needs hypothesis: pip install 'steno[testing]'") from exc

from steno.testing.blocks import (
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
from steno.testing.conversations import conversations, damaged_conversations
from steno.testing.entries import (
    approvals,
    controls,
    documents,
    entries,
    payloads,
    resolutions,
)
from steno.testing.events import events, finishes
from steno.testing.habits import StreamHabits, stream_habits
from steno.testing.messages import (
    assistant_messages,
    failures,
    messages,
    requests,
    system_messages,
    tool_definitions,
    tool_results,
    usages,
    user_messages,
)
from steno.testing.primitives import (
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
from steno.testing.providers import (
    ReplayingProvider,
    ScriptedProvider,
    ScriptedStep,
    ScriptedTurn,
    ScriptRanOut,
)
from steno.testing.streams import EventStream, event_streams
from steno.testing.tools import ScriptedAnswer, ScriptedTool

del _hypothesis

__all__ = [
    "EventStream",
    "ReplayingProvider",
    "ScriptRanOut",
    "ScriptedAnswer",
    "ScriptedProvider",
    "ScriptedStep",
    "ScriptedTool",
    "ScriptedTurn",
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
