"""A scripted server of the flat chat JSON, line by line, as its wire documents it."""

from __future__ import annotations

from typing import Any

import msgspec

from steno.messages.usage import Usage
from steno.testing.conformance.scripted_server import (
    CallFragment,
    JsonText,
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
    build_whole_response,
    encode_json,
    without_none,
)
from steno.testing.conformance.servers.client_requests import CHAT
from steno.wire import Wire, chat


class ChatServer(ScriptedServer):
    """A server of the chat wire, which no vendor uses."""

    wire: Wire = chat
    requests: tuple[bytes, ...] = (encode_json(CHAT), encode_json(CHAT["messages"]))

    def frames(self, script: Script) -> list[bytes]:
        """Return the events of a stream."""
        return [_encode_line(line) + b"\n" for line in script]

    def response(self, script: Script) -> bytes:
        """Return one whole answer."""
        answer = build_whole_response(script)
        parts: list[dict[str, Any]] = []
        for part in answer.parts:
            match part:
                case TextPiece():
                    parts.append({"type": "text", "text": part.text})
                case UnknownBlock():
                    parts.append({"type": "hologram", "light": part.token})
                case WholeCall():
                    pass
                case _:
                    raise NotExpressible(part)
        calls = [_call(call) for call in answer.calls]
        is_plain = all(part["type"] == "text" for part in parts)
        message = without_none(
            role="assistant", content=answer.text if is_plain else parts, tool_calls=calls or None
        )
        return encode_json(message | _end_fields(answer.end))


def _encode_line(line: ScriptLine) -> bytes:
    match line:
        case TextPiece():
            return encode_json({"content": line.text})
        case CallFragment():
            part = without_none(
                index=line.index, id=line.id, name=line.name, arguments_delta=line.arguments
            )
            if not part.keys() & {"index", "arguments_delta"}:
                raise NotExpressible("a fragment without index and arguments")
            return encode_json(part)
        case WholeCall():
            return encode_json({"tool_calls": [_call(line)]})
        case UnknownEvent():
            return encode_json({"hologram": line.token})
        case UnknownMember():
            return encode_json({"content": "", "hologram": line.token})
        case UnknownBlock():
            return encode_json({"content": [{"type": "hologram", "light": line.token}]})
        case KeepAlive():
            return b""
        case TurnEnd():
            if not line.has_end_marker:
                raise NotExpressible("an end without its mark: the reason is the mark")
            return encode_json(_end_fields(line))
        case ServerFailure():
            return encode_json({"error": {"message": line.message}})
        case (
            ThinkingPiece()
            | ThinkingSeal()
            | RedactedThinking()
            | Refusal()
            | UsageOnly()
            | StalledConnection()
        ):
            raise NotExpressible(line)


def _call(call: WholeCall) -> dict[str, Any]:
    arguments = None if call.arguments is None else _arguments(call.arguments)
    return without_none(id=call.id, name=call.name, arguments=arguments)


def _arguments(text: str) -> JsonText | str:
    """Return an object as it is, and anything else as a string, which is read as well."""
    return JsonText(text) if text.startswith("{") and text.endswith("}") else text


def _end_fields(end: TurnEnd) -> dict[str, Any]:
    usage = {} if end.usage is None else {"usage": _usage(end.usage)}
    return {"stop_reason": end.raw or str(end.reason)} | usage


def _usage(usage: Usage) -> dict[str, Any]:
    counts: dict[str, Any] = msgspec.to_builtins(usage)
    return counts
