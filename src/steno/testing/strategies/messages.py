"""Strategies for messages, and for what one request to a model is made of."""

from __future__ import annotations

from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from steno.call import AnyToolCall
from steno.content import Text
from steno.message import (
    AssistantBlock,
    AssistantMessage,
    Message,
    ResultBlock,
    SystemMessage,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from steno.outcome import Failure, Outcome
from steno.request import Request
from steno.testing.strategies.blocks import (
    extended,
    extras,
    file_references,
    images,
    invalid_tool_calls,
    opaque_blocks,
    resources,
    text_blocks,
    thinking_blocks,
    tool_calls,
)
from steno.testing.strategies.naming import named
from steno.testing.strategies.primitives import (
    identifiers,
    json_objects,
    moments,
    outside_tool_names,
    texts,
    tool_names,
    visible_texts,
)
from steno.tool import ToolDefinition
from steno.usage import StopReason, Usage

B = TypeVar("B")


# -- the four messages -------------------------------------------------------------------------


@named
def system_messages() -> SearchStrategy[SystemMessage]:
    """System messages of one or several texts."""
    content = _surrounded(visible_texts().map(Text), text_blocks())
    return extended(st.builds(SystemMessage, content))


@named
def user_messages() -> SearchStrategy[UserMessage]:
    """User messages: words, images, references, resources, in any mixture that says something."""
    others: SearchStrategy[UserBlock] = st.one_of(
        visible_texts().map(Text), images(), file_references(), resources(), opaque_blocks()
    )
    return extended(st.builds(UserMessage, _surrounded(others, st.one_of(text_blocks(), others))))


@named
def usages() -> SearchStrategy[Usage]:
    """Token counts; each may be missing, zero or enormous."""
    counts = st.none() | st.integers(0, 10_000) | st.integers(0, 2**70)
    return st.builds(
        Usage,
        input_tokens=counts,
        output_tokens=counts,
        cache_read_tokens=counts,
        cache_write_tokens=counts,
        thinking_tokens=counts,
    )


@named
def assistant_messages(
    calls: SearchStrategy[AnyToolCall] | None = None,
) -> SearchStrategy[AssistantMessage]:
    """Turns of a model: thoughts, words, images and calls; empty ones where a reason is given.

    No two calls of one turn share an id. Pass `calls` to choose them.
    """
    any_call = st.one_of(tool_calls(), invalid_tool_calls()) if calls is None else calls
    block: SearchStrategy[AssistantBlock] = st.one_of(
        any_call, text_blocks(), thinking_blocks(), images(), opaque_blocks()
    )
    content = st.lists(block, max_size=4, unique_by=_call_id_or_self).map(tuple)
    return extended(
        st.builds(
            AssistantMessage,
            content=content,
            stop_reason=st.sampled_from(StopReason),
            raw_stop_reason=st.none() | texts(max_size=8),
            usage=st.none() | usages(),
        )
        | st.builds(AssistantMessage, content=content.filter(bool))
    )


@named
def failures() -> SearchStrategy[Failure]:
    """Why tool calls failed."""
    return st.builds(
        Failure, message=texts(), traceback=st.none() | texts(), recoverable=st.booleans()
    )


@named
def tool_results(ids: SearchStrategy[str] | None = None) -> SearchStrategy[ToolResultMessage]:
    """Tool results of every outcome, with or without a word. Pass `ids` to choose the calls."""
    block: SearchStrategy[ResultBlock] = st.one_of(
        text_blocks(), images(), file_references(), resources(), opaque_blocks()
    )
    common: dict[str, SearchStrategy[Any]] = {
        "tool_call_id": identifiers() if ids is None else ids,
        "content": st.lists(block, max_size=3).map(tuple),
        "tool_name": texts(max_size=8) | tool_names(),
        "details": st.none() | json_objects(),
        "started_at": st.none() | moments(),
        "duration_s": st.none() | st.floats(0, allow_infinity=False) | st.integers(0, 2**53),
    }
    return extended(
        st.builds(ToolResultMessage, **common)
        | st.builds(
            ToolResultMessage,
            **common,
            outcome=st.sampled_from([outcome for outcome in Outcome if outcome is not Outcome.OK]),
            failure=st.none() | failures(),
        )
    )


@named
def messages() -> SearchStrategy[Message]:
    """Messages of every kind."""
    return st.one_of(system_messages(), user_messages(), assistant_messages(), tool_results())


# -- requests ----------------------------------------------------------------------------------


@named
def tool_definitions() -> SearchStrategy[ToolDefinition]:
    """Definitions of tools whose parameters are real, nested JSON Schemas."""
    return extended(
        st.builds(
            ToolDefinition,
            name=tool_names(),
            description=visible_texts(),
            parameters=_object_schemas(_schemas()),
            strict=st.booleans(),
            original_name=st.none() | outside_tool_names(),
        )
    )


@named
def requests() -> SearchStrategy[Request]:
    """Requests to a model. The messages are any; draw `conversations()` where order matters."""
    return st.builds(
        Request,
        messages=st.lists(messages(), min_size=1, max_size=4).map(tuple),
        model=texts(max_size=12),
        tools=st.lists(tool_definitions(), max_size=3, unique_by=lambda tool: tool.name).map(tuple),
        max_tokens=st.none() | st.integers(1, 2**70),
        temperature=st.none() | st.floats(0, 2) | st.integers(0, 2),
        top_p=st.none() | st.floats(0, 1),
        stop=st.lists(texts(min_size=1, max_size=8), max_size=2).map(tuple),
        tool_choice=st.none() | st.sampled_from(("auto", "none", "required")),
        extras=st.none() | extras(),
    )


def _schemas() -> SearchStrategy[dict[str, Any]]:
    scalars: SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
        {"type": st.sampled_from(("string", "integer", "number", "boolean", "null"))},
        optional={"description": texts(max_size=12)},
    )
    return st.recursive(
        scalars,
        lambda inner: _object_schemas(inner) | inner.map(lambda s: {"type": "array", "items": s}),
        max_leaves=4,
    )


def _object_schemas(inner: SearchStrategy[dict[str, Any]]) -> SearchStrategy[dict[str, Any]]:
    return st.dictionaries(texts(max_size=8), inner, max_size=3).flatmap(
        lambda properties: st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.just(properties),
                "required": st.lists(
                    st.sampled_from(sorted(properties)) if properties else st.nothing(), unique=True
                ),
            }
        )
    )


def _surrounded(
    core: SearchStrategy[B], around: SearchStrategy[B]
) -> SearchStrategy[tuple[B, ...]]:
    """Tuples in which at least one block, wherever it stands, comes from `core`."""
    some = st.lists(around, max_size=2)
    return st.tuples(some, core, some).map(lambda parts: (*parts[0], parts[1], *parts[2]))


def _call_id_or_self(block: AssistantBlock) -> object:
    return block.id if isinstance(block, AnyToolCall) else (type(block), block)
