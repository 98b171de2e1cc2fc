"""The same conversation in the types of each library, built as its documentation shows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

import steno
from bench.conversation import Turn

PROVIDER, API, MODEL = "anthropic", "messages", "a-model"

# -- steno -----------------------------------------------------------------------------------


def in_steno(turns: Iterable[Turn]) -> tuple[steno.Message, ...]:
    """Return the turns as steno's messages."""
    return tuple(map(_steno_message, turns))


def _steno_message(turn: Turn) -> steno.Message:
    match turn.role:
        case "system":
            return steno.ChatMessage.system(turn.text)
        case "user":
            return steno.ChatMessage.user(turn.text)
        case "assistant":
            return _steno_turn(turn)
        case "tool":
            assert turn.answers is not None
            return steno.ChatMessage.tool_result(
                turn.answers.id,
                turn.text,
                outcome=steno.Outcome.ERROR if turn.is_error else steno.Outcome.OK,
                tool_name=turn.answers.name,
                details=dict(turn.details) or None,
            )


def _steno_turn(turn: Turn) -> steno.AssistantMessage:
    blocks: list[steno.Thinking | steno.Text | steno.ToolCall] = []
    if turn.thinking:
        seal = steno.Seal(data=turn.signature, provider=PROVIDER, api=API, model=MODEL)
        blocks.append(steno.Thinking(turn.thinking, seal=seal))
    if turn.text:
        blocks.append(steno.Text(turn.text))
    blocks += [steno.ToolCall(id=c.id, name=c.name, arguments=c.arguments) for c in turn.calls]
    read, written = turn.tokens
    return steno.AssistantMessage(
        content=tuple(blocks),
        stop_reason=steno.StopReason.TOOL_USE if turn.calls else steno.StopReason.END_TURN,
        usage=steno.Usage(input_tokens=read, output_tokens=written),
    )


# -- pydantic-ai -----------------------------------------------------------------------------


def in_pydantic_ai(turns: Iterable[Turn]) -> list[Any]:
    """Return the turns as pydantic-ai's messages.

    pydantic-ai joins everything between two turns of the model into one request, so the result has
    fewer messages.
    """
    messages: list[Any] = []
    for turn in turns:
        if turn.role == "assistant":
            messages.append(_pydantic_response(turn))
        elif messages and isinstance(messages[-1], ModelRequest):
            messages[-1] = ModelRequest(parts=[*messages[-1].parts, _pydantic_part(turn)])
        else:
            messages.append(ModelRequest(parts=[_pydantic_part(turn)]))
    return messages


def _pydantic_part(turn: Turn) -> Any:
    if turn.role == "system":
        return SystemPromptPart(turn.text)
    if turn.answers is None:
        return UserPromptPart(turn.text)
    return ToolReturnPart(
        turn.answers.name,
        turn.text,
        turn.answers.id,
        outcome="failed" if turn.is_error else "success",
        metadata=dict(turn.details) or None,
    )


def _pydantic_response(turn: Turn) -> Any:
    parts: list[Any] = []
    if turn.thinking:
        parts.append(ThinkingPart(turn.thinking, signature=turn.signature, provider_name=PROVIDER))
    if turn.text:
        parts.append(TextPart(turn.text))
    parts += [ToolCallPart(call.name, call.arguments, call.id) for call in turn.calls]
    read, written = turn.tokens
    return ModelResponse(
        parts=parts,
        usage=RequestUsage(input_tokens=read, output_tokens=written),
        finish_reason="tool_call" if turn.calls else "stop",
    )


# -- langchain-core --------------------------------------------------------------------------


def in_langchain(turns: Iterable[Turn]) -> list[Any]:
    """Return the turns as langchain-core's messages."""
    return [_langchain_message(turn) for turn in turns]


def _langchain_message(turn: Turn) -> Any:
    if turn.role == "system":
        return SystemMessage(turn.text)
    if turn.role == "user":
        return HumanMessage(turn.text)
    if turn.answers is not None:
        return ToolMessage(
            turn.text,
            tool_call_id=turn.answers.id,
            name=turn.answers.name,
            status="error" if turn.is_error else "success",
            artifact=dict(turn.details) or None,
        )
    content: Any = turn.text
    if turn.thinking:
        content = [
            {"type": "thinking", "thinking": turn.thinking, "signature": turn.signature},
            {"type": "text", "text": turn.text},
        ]
    read, written = turn.tokens
    return AIMessage(
        content=content,
        tool_calls=[
            {"name": call.name, "args": json.loads(call.arguments), "id": call.id}
            for call in turn.calls
        ],
        usage_metadata={
            "input_tokens": read,
            "output_tokens": written,
            "total_tokens": read + written,
        },
        response_metadata={"stop_reason": "tool_use" if turn.calls else "end_turn"},
    )
