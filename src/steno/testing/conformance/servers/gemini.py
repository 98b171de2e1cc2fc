"""A scripted server of Google's Gemini: every chunk is a response with some of the parts."""

from __future__ import annotations

from itertools import zip_longest
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
    json_object_text,
    raise_not_expressible,
    without_none,
)
from steno.testing.conformance.servers.client_requests import GEMINI
from steno.wire import Wire, gemini

_STOP_REASONS: Final = {
    StopReason.END_TURN: "STOP",
    StopReason.LENGTH: "MAX_TOKENS",
    StopReason.TOOL_USE: "STOP",  # only the calls show it
    StopReason.CONTENT_FILTER: "SAFETY",
}


class GeminiServer(ScriptedServer):
    """A server that sends calls whole and its signatures with the part that they seal."""

    wire: Wire = gemini
    requests: tuple[bytes, ...] = (encode_json(GEMINI),)

    def frames(self, script: Script) -> list[bytes]:
        """Return the events of a stream."""
        frames: list[bytes] = []
        for line, follower in zip_longest(script, script[1:]):
            token = follower.token if isinstance(follower, ThinkingSeal) else None
            if isinstance(line, ThinkingPiece):
                frames.append(_chunk(_thought(line.text, token)))
            elif not isinstance(line, ThinkingSeal):
                frames += _encode_line(line)
            elif not frames:
                raise NotExpressible("a seal of nothing")
        return frames

    def response(self, script: Script) -> bytes:
        """Return one whole answer."""
        answer = build_whole_response(script)
        parts: list[dict[str, Any]] = []
        for part in answer.parts:
            match part:
                case TextPiece():
                    parts.append({"text": part.text})
                case WholeThinking():
                    parts.append(_thought(part.text, part.token))
                case WholeCall():
                    parts.append(_call(part))
                case UnknownBlock():
                    parts.append({"hologram": {"light": part.token}})
                case RedactedThinking() | Refusal():
                    raise NotExpressible(part)
        return encode_json(_response(parts, **_end_fields(answer.end)) | _usage(answer.end.usage))


def _encode_line(line: ScriptLine) -> list[bytes]:
    match line:
        case TextPiece():
            return [_chunk({"text": line.text})]
        case WholeCall():
            return [_chunk(_call(line))]
        case UnknownBlock():
            return [_chunk({"hologram": {"light": line.token}})]
        case UnknownEvent():
            return [encode_sse_event({"hologram": line.token})]
        case UnknownMember():
            return [encode_sse_event(_response([{"text": ""}], hologram=line.token))]
        case KeepAlive():
            return [b": keep-alive\n\n"]
        case UsageOnly():
            return [encode_sse_event(_usage(line.usage) | _ENVELOPE)]
        case TurnEnd():
            if not line.has_end_marker:
                raise NotExpressible("an end without its mark: there is never one")
            return [
                encode_sse_event(
                    _response([{"text": ""}], **_end_fields(line)) | _usage(line.usage)
                )
            ]
        case ServerFailure():
            error = {"code": 503, "message": line.message, "status": "UNAVAILABLE"}
            return [encode_sse_event({"error": error})]
        case (
            ThinkingPiece()
            | ThinkingSeal()
            | RedactedThinking()
            | Refusal()
            | CallFragment()
            | StalledConnection()
        ):
            raise NotExpressible(line)


def _chunk(part: dict[str, Any]) -> bytes:
    return encode_sse_event(_response([part]))


def _response(parts: list[dict[str, Any]], **about: Any) -> dict[str, Any]:
    candidate = {"content": {"parts": parts, "role": "model"}, "index": 0} | about
    return {"candidates": [candidate]} | _ENVELOPE


def _thought(text: str, token: str | None) -> dict[str, Any]:
    return without_none(text=text, thought=True, thoughtSignature=token)


def _call(call: WholeCall) -> dict[str, Any]:
    given = None if call.arguments is None else json_object_text(call.arguments)
    return {"functionCall": without_none(id=call.id, name=call.name, args=given)}


def _end_fields(end: TurnEnd) -> dict[str, Any]:
    reason = (
        end.raw
        or _STOP_REASONS.get(end.reason)
        or raise_not_expressible(f"stop reason {end.reason}")
    )
    return {"finishReason": reason}


def _usage(usage: Usage | None) -> dict[str, Any]:
    """Write counts as this protocol has them: thinking is not part of the candidates."""
    if usage is None:
        return {}
    if usage.cache_write_tokens is not None:
        raise NotExpressible("tokens that were written to a cache")
    output = usage.output_tokens
    counts = without_none(
        promptTokenCount=usage.input_tokens,
        cachedContentTokenCount=usage.cache_read_tokens,
        candidatesTokenCount=None if output is None else output - (usage.thinking_tokens or 0),
        thoughtsTokenCount=usage.thinking_tokens,
        totalTokenCount=usage.total_tokens,
    )
    return {"usageMetadata": counts}


_ENVELOPE: Final = {"modelVersion": "m", "responseId": "r_1"}
