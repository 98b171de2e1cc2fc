"""Speaks as servers of OpenAI's chat completions do."""

from __future__ import annotations

import re
from typing import Any, Final

from steno.testing.conformance.script import (
    CallPart,
    End,
    Fail,
    KeepAlive,
    Line,
    Redact,
    Refuse,
    Say,
    Script,
    SealThinking,
    Silence,
    Think,
    Thought,
    UnknownBlock,
    UnknownEvent,
    UnknownMember,
    UsageOnly,
    WholeCall,
    whole,
)
from steno.testing.conformance.speaker import (
    CannotSay,
    Speaker,
    as_json,
    cannot_say,
    sse,
    without_none,
)
from steno.testing.conformance.speakers.recorded import OPENAI_CHAT
from steno.usage import StopReason, Usage
from steno.wire import Wire, openai_chat

_REASONS: Final = {
    StopReason.END_TURN: "stop",
    StopReason.LENGTH: "length",
    StopReason.TOOL_USE: "tool_calls",
    StopReason.CONTENT_FILTER: "content_filter",
}


class OpenAIChatSpeaker(Speaker):
    """A server like vLLM or OpenRouter, which say more than OpenAI's own."""

    legal_call_id = re.compile(r".{1,64}")

    wire: Wire = openai_chat
    requests = (as_json(OPENAI_CHAT),)

    def frames(self, script: Script) -> list[bytes]:
        """Return the events of a stream."""
        frames = [frame for line in script for frame in _say(line)]
        end = next((line for line in script if isinstance(line, End)), None)
        if end is not None and end.has_end_marker:
            frames.append(b"data: [DONE]\n\n")
        return frames

    def response(self, script: Script) -> bytes:
        """Return one whole answer."""
        answer = whole(script)
        message: dict[str, Any] = {"role": "assistant", "content": answer.text}
        for part in answer.parts:
            match part:
                case Thought():
                    message["reasoning"] = part.text
                    if part.token is not None:
                        message["reasoning_details"] = _details(part.text) + _seal(part.token)
                case Redact():
                    message["reasoning_details"] = _redacted(part.token)
                case Refuse():
                    message["refusal"] = part.text
                case Say() | WholeCall():
                    pass
                case _:
                    raise CannotSay(part)
        if answer.calls:
            message["tool_calls"] = [_whole_call(call) for call in answer.calls]
        choice = {"index": 0, "message": message, "finish_reason": _reason(answer.end)}
        usage = answer.end.usage
        return as_json(_envelope([choice]) | ({} if usage is None else {"usage": _usage(usage)}))


def _say(line: Line) -> list[bytes]:
    match line:
        case Say():
            return [_chunk(content=line.text)]
        case Think():
            return [_chunk(reasoning=line.text, reasoning_details=_details(line.text))]
        case SealThinking():
            return [_chunk(reasoning_details=_seal(line.token))]
        case Redact():
            return [_chunk(reasoning_details=_redacted(line.token))]
        case Refuse():
            return [_chunk(refusal=line.text)]
        case CallPart():
            function = without_none(name=line.name, arguments=line.arguments)
            return [
                _chunk(tool_calls=[without_none(index=line.index, id=line.id, function=function)])
            ]
        case WholeCall():
            return [_chunk(tool_calls=[_whole_call(line)])]
        case UnknownEvent():
            return [sse({"id": "chatcmpl-1", "object": "hologram.chunk", "hologram": line.token})]
        case UnknownBlock():
            return [_chunk(content=[{"type": "hologram", "light": line.token}])]
        case UnknownMember():
            return [_chunk(content="", hologram=line.token)]
        case KeepAlive():
            return [b": keep-alive\n\n"]
        case UsageOnly():
            return [sse(_envelope([]) | {"usage": _usage(line.usage)})]
        case End():
            usage = {} if line.usage is None else {"usage": _usage(line.usage)}
            choice = {"index": 0, "delta": {}, "finish_reason": _reason(line)}
            return [sse(_envelope([choice]) | usage)]
        case Fail():
            return [sse({"error": {"message": line.message, "type": "server_error", "code": 500}})]
        case Silence():
            raise CannotSay(line)


def _chunk(**delta: Any) -> bytes:
    return sse(_envelope([{"index": 0, "delta": delta, "finish_reason": None}]))


def _envelope(choices: list[Any]) -> dict[str, Any]:
    about = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return about | {"choices": choices}


def _reason(end: End) -> str:
    if end.raw is not None:
        return end.raw
    return _REASONS.get(end.reason) or cannot_say(f"stop reason {end.reason}")


def _whole_call(call: WholeCall) -> dict[str, Any]:
    function = without_none(name=call.name, arguments=call.arguments)
    return without_none(id=call.id, type="function", function=function)


def _details(text: str) -> list[dict[str, Any]]:
    return [{"type": "reasoning.text", "index": 0, "text": text}]


def _seal(token: str) -> list[dict[str, Any]]:
    return [{"type": "reasoning.text", "index": 0, "signature": token}]


def _redacted(token: str) -> list[dict[str, Any]]:
    return [{"type": "reasoning.encrypted", "index": 0, "data": token}]


def _usage(usage: Usage) -> dict[str, Any]:
    prompt = without_none(
        cached_tokens=usage.cache_read_tokens, cache_write_tokens=usage.cache_write_tokens
    )
    completion = without_none(reasoning_tokens=usage.thinking_tokens)
    return without_none(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        prompt_tokens_details=prompt or None,
        completion_tokens_details=completion or None,
    )
