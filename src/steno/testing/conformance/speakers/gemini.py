"""Speaks as Google's Gemini does: every chunk is an answer, with some of the parts."""

from __future__ import annotations

from itertools import zip_longest
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
    object_text,
    sse,
    without_none,
)
from steno.testing.conformance.speakers.recorded import GEMINI
from steno.usage import StopReason, Usage
from steno.wire import Wire, gemini

_REASONS: Final = {
    StopReason.END_TURN: "STOP",
    StopReason.LENGTH: "MAX_TOKENS",
    StopReason.TOOL_USE: "STOP",  # the calls themselves are all that tells
    StopReason.CONTENT_FILTER: "SAFETY",
}


class GeminiSpeaker(Speaker):
    """A server that sends calls whole and its signatures with the part that they seal."""

    wire: Wire = gemini
    requests = (as_json(GEMINI),)

    def frames(self, script: Script) -> list[bytes]:
        """Return the events of a stream."""
        frames: list[bytes] = []
        for line, follower in zip_longest(script, script[1:]):
            token = follower.token if isinstance(follower, SealThinking) else None
            if isinstance(line, Think):
                frames.append(_chunk(_thought(line.text, token)))
            elif not isinstance(line, SealThinking):
                frames += _say(line)
            elif not frames:
                raise CannotSay("a seal of nothing")
        return frames

    def response(self, script: Script) -> bytes:
        """Return one whole answer."""
        answer = whole(script)
        parts: list[dict[str, Any]] = []
        for part in answer.parts:
            match part:
                case Say():
                    parts.append({"text": part.text})
                case Thought():
                    parts.append(_thought(part.text, part.token))
                case WholeCall():
                    parts.append(_call(part))
                case UnknownBlock():
                    parts.append({"hologram": {"light": part.token}})
                case Redact() | Refuse():
                    raise CannotSay(part)
        return as_json(_answer(parts, **_end(answer.end)) | _usage(answer.end.usage))


def _say(line: Line) -> list[bytes]:
    match line:
        case Say():
            return [_chunk({"text": line.text})]
        case WholeCall():
            return [_chunk(_call(line))]
        case UnknownBlock():
            return [_chunk({"hologram": {"light": line.token}})]
        case UnknownEvent():
            return [sse({"hologram": line.token})]
        case UnknownMember():
            return [sse(_answer([{"text": ""}], hologram=line.token))]
        case KeepAlive():
            return [b": keep-alive\n\n"]
        case UsageOnly():
            return [sse(_usage(line.usage) | _ABOUT)]
        case End():
            if not line.has_end_marker:
                raise CannotSay("an end without its mark: there is never one")
            return [sse(_answer([{"text": ""}], **_end(line)) | _usage(line.usage))]
        case Fail():
            error = {"code": 503, "message": line.message, "status": "UNAVAILABLE"}
            return [sse({"error": error})]
        case Think() | SealThinking() | Redact() | Refuse() | CallPart() | Silence():
            raise CannotSay(line)


def _chunk(part: dict[str, Any]) -> bytes:
    return sse(_answer([part]))


def _answer(parts: list[dict[str, Any]], **about: Any) -> dict[str, Any]:
    candidate = {"content": {"parts": parts, "role": "model"}, "index": 0} | about
    return {"candidates": [candidate]} | _ABOUT


def _thought(text: str, token: str | None) -> dict[str, Any]:
    return without_none(text=text, thought=True, thoughtSignature=token)


def _call(call: WholeCall) -> dict[str, Any]:
    given = None if call.arguments is None else object_text(call.arguments)
    return {"functionCall": without_none(id=call.id, name=call.name, args=given)}


def _end(end: End) -> dict[str, Any]:
    reason = end.raw or _REASONS.get(end.reason) or cannot_say(f"stop reason {end.reason}")
    return {"finishReason": reason}


def _usage(usage: Usage | None) -> dict[str, Any]:
    """Write counts as this protocol has them: what was thought comes on top of the candidates."""
    if usage is None:
        return {}
    if usage.cache_write_tokens is not None:
        raise CannotSay("tokens that were written to a cache")
    spoken = usage.output_tokens
    counts = without_none(
        promptTokenCount=usage.input_tokens,
        cachedContentTokenCount=usage.cache_read_tokens,
        candidatesTokenCount=None if spoken is None else spoken - (usage.thinking_tokens or 0),
        thoughtsTokenCount=usage.thinking_tokens,
        totalTokenCount=usage.total_tokens,
    )
    return {"usageMetadata": counts}


_ABOUT: Final = {"modelVersion": "m", "responseId": "r_1"}
