"""Speaks the flat chat JSON, line by line, as its wire's own text describes it."""

from __future__ import annotations

from typing import Any

import msgspec

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
    Verbatim,
    as_json,
    without_none,
)
from steno.testing.conformance.speakers.recorded import CHAT
from steno.usage import Usage
from steno.wire import Wire, chat


class ChatSpeaker(Speaker):
    """Whoever wants to stream what no server speaks."""

    wire: Wire = chat
    requests = (as_json(CHAT), as_json(CHAT["messages"]))

    def frames(self, script: Script) -> list[bytes]:
        """Return the events of a stream."""
        return [_say(line) + b"\n" for line in script]

    def response(self, script: Script) -> bytes:
        """Return one whole answer."""
        answer = whole(script)
        parts: list[dict[str, Any]] = []
        for part in answer.parts:
            match part:
                case Say():
                    parts.append({"type": "text", "text": part.text})
                case UnknownBlock():
                    parts.append({"type": "hologram", "light": part.token})
                case WholeCall():
                    pass
                case _:
                    raise CannotSay(part)
        calls = [_call(call) for call in answer.calls]
        is_plain = all(part["type"] == "text" for part in parts)
        message = without_none(
            role="assistant", content=answer.text if is_plain else parts, tool_calls=calls or None
        )
        return as_json(message | _end(answer.end))


def _say(line: Line) -> bytes:
    match line:
        case Say():
            return as_json({"content": line.text})
        case CallPart():
            part = without_none(
                index=line.index, id=line.id, name=line.name, arguments_delta=line.arguments
            )
            if not part.keys() & {"index", "arguments_delta"}:
                raise CannotSay("a fragment without index and arguments")
            return as_json(part)
        case WholeCall():
            return as_json({"tool_calls": [_call(line)]})
        case UnknownEvent():
            return as_json({"hologram": line.token})
        case UnknownMember():
            return as_json({"content": "", "hologram": line.token})
        case UnknownBlock():
            return as_json({"content": [{"type": "hologram", "light": line.token}]})
        case KeepAlive():
            return b""
        case End():
            if not line.has_end_marker:
                raise CannotSay("an end without its mark: the reason is the mark")
            return as_json(_end(line))
        case Fail():
            return as_json({"error": {"message": line.message}})
        case Think() | SealThinking() | Redact() | Refuse() | UsageOnly() | Silence():
            raise CannotSay(line)


def _call(call: WholeCall) -> dict[str, Any]:
    arguments = None if call.arguments is None else _arguments(call.arguments)
    return without_none(id=call.id, name=call.name, arguments=arguments)


def _arguments(text: str) -> Verbatim | str:
    """Return an object as it is, and anything else as a string, which is read as well."""
    return Verbatim(text) if text.startswith("{") and text.endswith("}") else text


def _end(end: End) -> dict[str, Any]:
    usage = {} if end.usage is None else {"usage": _usage(end.usage)}
    return {"stop_reason": end.raw or str(end.reason)} | usage


def _usage(usage: Usage) -> dict[str, Any]:
    counts: dict[str, Any] = msgspec.to_builtins(usage)
    return counts
