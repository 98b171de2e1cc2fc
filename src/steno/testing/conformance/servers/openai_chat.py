"""A scripted server of OpenAI's chat completions."""

from __future__ import annotations

import re
from typing import Any, Final

from steno.messages.usage import StopReason, Usage
from steno.testing.conformance.scripted_server import (
    CallFragment,
    KeepAlive,
    NotExpressible,
    RedactedThinking,
    Refusal,
    Script,
    ScriptedServer,
    ScriptLine,
    ServerFailure,
    StalledConnection,
    TextPiece,
    ThinkingPiece,
    ThinkingSeal,
    TurnEnd,
    UnknownBlock,
    UnknownEvent,
    UnknownMember,
    UsageOnly,
    WholeCall,
    WholeThinking,
    build_whole_response,
    encode_json,
    encode_sse_event,
    raise_not_expressible,
    without_none,
)
from steno.testing.conformance.servers.client_requests import OPENAI_CHAT
from steno.wire import Wire, openai_chat

_STOP_REASONS: Final = {
    StopReason.END_TURN: "stop",
    StopReason.LENGTH: "length",
    StopReason.TOOL_USE: "tool_calls",
    StopReason.CONTENT_FILTER: "content_filter",
}


class OpenAIChatServer(ScriptedServer):
    """A server like vLLM or OpenRouter, which send more members than OpenAI's own."""

    legal_call_id: re.Pattern[str] | None = re.compile(r".{1,64}")

    wire: Wire = openai_chat
    requests: tuple[bytes, ...] = (encode_json(OPENAI_CHAT),)

    def frames(self, script: Script) -> list[bytes]:
        """Return the events of a stream."""
        frames = [frame for line in script for frame in _encode_line(line)]
        end = next((line for line in script if isinstance(line, TurnEnd)), None)
        if end is not None and end.has_end_marker:
            frames.append(b"data: [DONE]\n\n")
        return frames

    def response(self, script: Script) -> bytes:
        """Return one whole answer."""
        answer = build_whole_response(script)
        message: dict[str, Any] = {"role": "assistant", "content": answer.text}
        for part in answer.parts:
            match part:
                case WholeThinking():
                    message["reasoning"] = part.text
                    if part.token is not None:
                        message["reasoning_details"] = _details(part.text) + _seal(part.token)
                case RedactedThinking():
                    message["reasoning_details"] = _redacted(part.token)
                case Refusal():
                    message["refusal"] = part.text
                case TextPiece() | WholeCall():
                    pass
                case _:
                    raise NotExpressible(part)
        if answer.calls:
            message["tool_calls"] = [_whole_call(call) for call in answer.calls]
        choice = {"index": 0, "message": message, "finish_reason": _stop_reason(answer.end)}
        usage = answer.end.usage
        return encode_json(
            _envelope([choice]) | ({} if usage is None else {"usage": _usage(usage)})
        )


def _encode_line(line: ScriptLine) -> list[bytes]:
    match line:
        case TextPiece():
            return [_chunk(content=line.text)]
        case ThinkingPiece():
            return [_chunk(reasoning=line.text, reasoning_details=_details(line.text))]
        case ThinkingSeal():
            return [_chunk(reasoning_details=_seal(line.token))]
        case RedactedThinking():
            return [_chunk(reasoning_details=_redacted(line.token))]
        case Refusal():
            return [_chunk(refusal=line.text)]
        case CallFragment():
            function = without_none(name=line.name, arguments=line.arguments)
            return [
                _chunk(tool_calls=[without_none(index=line.index, id=line.id, function=function)])
            ]
        case WholeCall():
            return [_chunk(tool_calls=[_whole_call(line)])]
        case UnknownEvent():
            return [
                encode_sse_event(
                    {"id": "chatcmpl-1", "object": "hologram.chunk", "hologram": line.token}
                )
            ]
        case UnknownBlock():
            return [_chunk(content=[{"type": "hologram", "light": line.token}])]
        case UnknownMember():
            return [_chunk(content="", hologram=line.token)]
        case KeepAlive():
            return [b": keep-alive\n\n"]
        case UsageOnly():
            return [encode_sse_event(_envelope([]) | {"usage": _usage(line.usage)})]
        case TurnEnd():
            usage = {} if line.usage is None else {"usage": _usage(line.usage)}
            choice = {"index": 0, "delta": {}, "finish_reason": _stop_reason(line)}
            return [encode_sse_event(_envelope([choice]) | usage)]
        case ServerFailure():
            return [
                encode_sse_event(
                    {"error": {"message": line.message, "type": "server_error", "code": 500}}
                )
            ]
        case StalledConnection():
            raise NotExpressible(line)


def _chunk(**delta: Any) -> bytes:
    return encode_sse_event(_envelope([{"index": 0, "delta": delta, "finish_reason": None}]))


def _envelope(choices: list[Any]) -> dict[str, Any]:
    about = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return about | {"choices": choices}


def _stop_reason(end: TurnEnd) -> str:
    if end.raw is not None:
        return end.raw
    return _STOP_REASONS.get(end.reason) or raise_not_expressible(f"stop reason {end.reason}")


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
