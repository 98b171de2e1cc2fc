"""Test doubles and Hypothesis strategies for code that uses steno.

    provider = ScriptedProvider(["Hello."])

`ScriptedProvider` streams the turns of a script, `ReplayingProvider` replays the recorded bytes of
a server, and `ScriptedTool` returns scripted results. These doubles need no extra.

    from hypothesis import given
    from steno.testing import messages

    @given(messages())
    def test_my_store_keeps_every_message(message): ...

The strategies need the extra `steno-agent[testing]`, and are imported at the first use.
`steno.testing.conformance` has the cases that every wire and every provider must pass, and
`steno.testing.stores` has the cases for stores.
"""

# ruff: noqa: F403, F405 - a star import avoids listing the strategies a third time

import typing as _typing
from collections.abc import Callable as _Callable

from steno.lazy_exports import lazy_exports as _lazy_exports
from steno.testing.doubles import (
    ReplayingProvider,
    ScriptedAnswer,
    ScriptedProvider,
    ScriptedStep,
    ScriptedTool,
    ScriptedTurn,
    ScriptRanOut,
)

if _typing.TYPE_CHECKING:
    from steno.testing.strategies import *

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


__getattr__: _Callable[[str], object] = _lazy_exports(
    __name__, {"steno.testing.strategies": [name for name in __all__ if name not in globals()]}
)
