"""A scripted server of Ollama's own endpoint: a line of JSON for every token."""

from __future__ import annotations

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
    json_object_text,
    raise_not_expressible,
    without_none,
)
from steno.testing.conformance.servers.client_requests import OLLAMA_CHAT
from steno.wire import Wire, ollama_chat

_STOP_REASONS: Final = {
    StopReason.END_TURN: "stop",
    StopReason.LENGTH: "length",
    StopReason.TOOL_USE: "stop",  # only the calls show it
}


class OllamaChatServer(ScriptedServer):
    """A server that sends calls whole and counts tokens in its last line."""

    wire: Wire = ollama_chat
    requests: tuple[bytes, ...] = (encode_json(OLLAMA_CHAT),)

    def frames(self, script: Script) -> list[bytes]:
        """Return the events of a stream."""
        return [_encode_line(line) for line in script]

    def response(self, script: Script) -> bytes:
        """Return one whole answer."""
        answer = build_whole_response(script)
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or ""}
        for part in answer.parts:
            if isinstance(part, WholeThinking) and part.token is None:
                message["thinking"] = part.text
            elif not isinstance(part, (TextPiece, WholeCall)):
                raise NotExpressible(part)
        if answer.calls:
            message["tool_calls"] = [_call(call) for call in answer.calls]
        return encode_json(_ENVELOPE | {"message": message} | _end_fields(answer.end))


def _encode_line(line: ScriptLine) -> bytes:
    match line:
        case TextPiece():
            return _line(content=line.text)
        case ThinkingPiece():
            return _line(content="", thinking=line.text)
        case WholeCall():
            return _line(content="", tool_calls=[_call(line)])
        case UnknownEvent():
            return encode_json({"type": "hologram", "light": line.token}) + b"\n"
        case UnknownMember():
            return _line(content="", hologram=line.token)
        case KeepAlive():
            return b"\n"
        case TurnEnd():
            if not line.has_end_marker:
                raise NotExpressible("an end without its mark: the reason stands in the mark")
            return (
                encode_json(
                    _ENVELOPE
                    | {"message": {"role": "assistant", "content": ""}}
                    | _end_fields(line)
                )
                + b"\n"
            )
        case ServerFailure():
            return encode_json({"error": line.message}) + b"\n"
        case (
            ThinkingSeal()
            | RedactedThinking()
            | Refusal()
            | CallFragment()
            | UnknownBlock()
            | UsageOnly()
            | StalledConnection()
        ):
            raise NotExpressible(line)


def _line(**members: Any) -> bytes:
    message = {"role": "assistant"} | members
    return encode_json(_ENVELOPE | {"message": message, "done": False}) + b"\n"


def _call(call: WholeCall) -> dict[str, Any]:
    given = None if call.arguments is None else json_object_text(call.arguments)
    return without_none(id=call.id, function=without_none(name=call.name, arguments=given))


def _end_fields(end: TurnEnd) -> dict[str, Any]:
    reason = (
        end.raw
        or _STOP_REASONS.get(end.reason)
        or raise_not_expressible(f"stop reason {end.reason}")
    )
    return {"done": True, "done_reason": reason, "total_duration": 5_000_000} | _usage(end.usage)


def _usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    details = (usage.cache_read_tokens, usage.cache_write_tokens, usage.thinking_tokens)
    if details != (None, None, None):
        raise NotExpressible("tokens of a cache or of thinking")
    return without_none(prompt_eval_count=usage.input_tokens, eval_count=usage.output_tokens)


_ENVELOPE: Final = {"model": "m", "created_at": "2026-01-02T03:04:05.6789Z"}
