"""Speaks as Ollama does at its own endpoint: a line of JSON for every word."""

from __future__ import annotations

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
    without_none,
)
from steno.testing.conformance.speakers.recorded import OLLAMA_CHAT
from steno.usage import StopReason, Usage
from steno.wire import Wire, ollama_chat

_REASONS: Final = {
    StopReason.END_TURN: "stop",
    StopReason.LENGTH: "length",
    StopReason.TOOL_USE: "stop",  # the calls themselves are all that tells
}


class OllamaChatSpeaker(Speaker):
    """A server that sends calls whole and counts tokens in its last line."""

    wire: Wire = ollama_chat
    requests = (as_json(OLLAMA_CHAT),)

    def frames(self, script: Script) -> list[bytes]:
        """Return the events of a stream."""
        return [_say(line) for line in script]

    def response(self, script: Script) -> bytes:
        """Return one whole answer."""
        answer = whole(script)
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or ""}
        for part in answer.parts:
            if isinstance(part, Thought) and part.token is None:
                message["thinking"] = part.text
            elif not isinstance(part, (Say, WholeCall)):
                raise CannotSay(part)
        if answer.calls:
            message["tool_calls"] = [_call(call) for call in answer.calls]
        return as_json(_ABOUT | {"message": message} | _end(answer.end))


def _say(line: Line) -> bytes:
    match line:
        case Say():
            return _line(content=line.text)
        case Think():
            return _line(content="", thinking=line.text)
        case WholeCall():
            return _line(content="", tool_calls=[_call(line)])
        case UnknownEvent():
            return as_json({"type": "hologram", "light": line.token}) + b"\n"
        case UnknownMember():
            return _line(content="", hologram=line.token)
        case KeepAlive():
            return b"\n"
        case End():
            if not line.has_end_marker:
                raise CannotSay("an end without its mark: the reason stands in the mark")
            return (
                as_json(_ABOUT | {"message": {"role": "assistant", "content": ""}} | _end(line))
                + b"\n"
            )
        case Fail():
            return as_json({"error": line.message}) + b"\n"
        case (
            SealThinking()
            | Redact()
            | Refuse()
            | CallPart()
            | UnknownBlock()
            | UsageOnly()
            | Silence()
        ):
            raise CannotSay(line)


def _line(**said: Any) -> bytes:
    message = {"role": "assistant"} | said
    return as_json(_ABOUT | {"message": message, "done": False}) + b"\n"


def _call(call: WholeCall) -> dict[str, Any]:
    given = None if call.arguments is None else object_text(call.arguments)
    return without_none(id=call.id, function=without_none(name=call.name, arguments=given))


def _end(end: End) -> dict[str, Any]:
    reason = end.raw or _REASONS.get(end.reason) or cannot_say(f"stop reason {end.reason}")
    return {"done": True, "done_reason": reason, "total_duration": 5_000_000} | _usage(end.usage)


def _usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    details = (usage.cache_read_tokens, usage.cache_write_tokens, usage.thinking_tokens)
    if details != (None, None, None):
        raise CannotSay("tokens of a cache or of thinking")
    return without_none(prompt_eval_count=usage.input_tokens, eval_count=usage.output_tokens)


_ABOUT: Final = {"model": "m", "created_at": "2026-01-02T03:04:05.6789Z"}
