"""Strategies for single events, each for itself; `streams` makes sense of them."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from steno.event import (
    BlockAdded,
    BlockSealed,
    Event,
    ExtrasAdded,
    Finished,
    TextDelta,
    ThinkingDelta,
    ToolCallBegin,
    ToolCallDelta,
    ToolCallEnd,
)
from steno.testing.strategies.blocks import extras, images, opaque_blocks, seals, tool_calls
from steno.testing.strategies.messages import usages
from steno.testing.strategies.naming import named
from steno.testing.strategies.primitives import identifiers, json_object_texts, texts, tool_names
from steno.usage import StopReason


@named
def finishes() -> SearchStrategy[Finished]:
    """Ends of turns, with the provider's own word and its count of tokens where it gives them."""
    return st.builds(
        Finished,
        stop_reason=st.sampled_from(StopReason),
        raw_stop_reason=st.none() | texts(max_size=8),
        usage=st.none() | usages(),
    )


@named
def events() -> SearchStrategy[Event]:
    """Events of every kind. A list of them is what no provider says but some server might."""
    index = st.integers(0, 2)
    maybe_index = st.none() | index
    # Few ids and names, so that they meet again in other events.
    maybe_id = st.none() | st.sampled_from(("", "a", "b")) | identifiers()
    maybe_name = st.none() | st.sampled_from(("", "read", "fs.read")) | tool_names() | texts()
    fragment = st.none() | texts(max_size=8) | json_object_texts()
    return st.one_of(
        st.builds(TextDelta, index, texts()),
        st.builds(ThinkingDelta, index, texts(), st.booleans()),
        st.builds(ToolCallBegin, maybe_index, maybe_id, maybe_name),
        st.builds(ToolCallDelta, maybe_index, maybe_id, maybe_name, fragment),
        st.builds(ToolCallEnd, maybe_index, maybe_id, st.none() | tool_calls()),
        st.builds(BlockSealed, index, seals()),
        st.builds(BlockAdded, index, images() | opaque_blocks()),
        st.builds(ExtrasAdded, maybe_index, extras()),
        finishes(),
    )
