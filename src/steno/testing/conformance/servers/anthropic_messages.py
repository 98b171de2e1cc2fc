"""A scripted server of Anthropic's Messages API."""

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
    json_object_text,
    raise_not_expressible,
    without_none,
)
from steno.testing.conformance.servers.client_requests import ANTHROPIC_MESSAGES
from steno.wire import Wire, anthropic_messages

_STOP_REASONS: Final = {
    StopReason.END_TURN: "end_turn",
    StopReason.LENGTH: "max_tokens",
    StopReason.TOOL_USE: "tool_use",
    StopReason.CONTENT_FILTER: "refusal",
    StopReason.PAUSE: "pause_turn",
}


class AnthropicMessagesServer(ScriptedServer):
    """A server with thinking that is signed, tools, and blocks from tomorrow."""

    legal_call_id: re.Pattern[str] | None = re.compile(r"[A-Za-z0-9_-]+")

    wire: Wire = anthropic_messages
    requests: tuple[bytes, ...] = (encode_json(ANTHROPIC_MESSAGES),)

    def frames(self, script: Script) -> list[bytes]:
        """Return the events of a stream."""
        stream = _MessagesStream()
        for line in script:
            stream.write_line(line)
        return stream.frames

    def response(self, script: Script) -> bytes:
        """Return one whole answer."""
        answer = build_whole_response(script)
        blocks: list[dict[str, Any]] = []
        for part in answer.parts:
            match part:
                case TextPiece():
                    blocks.append({"type": "text", "text": part.text})
                case WholeThinking():
                    signature = part.token or ""
                    blocks.append(
                        {"type": "thinking", "thinking": part.text, "signature": signature}
                    )
                case RedactedThinking():
                    blocks.append({"type": "redacted_thinking", "data": part.token})
                case WholeCall():
                    given = json_object_text(part.arguments or "{}")
                    blocks.append(
                        without_none(type="tool_use", id=part.id, name=part.name, input=given)
                    )
                case UnknownBlock():
                    blocks.append({"type": "hologram", "light": part.token})
                case Refusal():
                    raise NotExpressible(part)
        about = {"stop_reason": _stop_reason(answer.end), "usage": _usage(answer.end.usage)}
        return encode_json(_EMPTY_MESSAGE | {"content": blocks} | about)


class _MessagesStream:
    """The stream of one response: blocks that begin and end, one after the other."""

    def __init__(self) -> None:
        message = _EMPTY_MESSAGE | {"content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}
        self.frames = [_event("message_start", message=message)]
        self._open: str | None = None
        self._block = -1
        self._first_call: int | None = None
        self._calls: set[int | None] = set()

    def write_line(self, line: ScriptLine) -> None:
        match line:
            case TextPiece():
                self._open_block("text", {"text": ""})
                self._delta(self._block, type="text_delta", text=line.text)
            case ThinkingPiece():
                self._open_block("thinking", {"thinking": "", "signature": ""})
                self._delta(self._block, type="thinking_delta", thinking=line.text)
            case ThinkingSeal():
                self._open_block("thinking", {"thinking": "", "signature": ""})
                self._delta(self._block, type="signature_delta", signature=line.token)
                self._close()
            case RedactedThinking():
                self._write_whole_block({"type": "redacted_thinking", "data": line.token})
            case UnknownBlock():
                self._write_whole_block({"type": "hologram", "light": line.token})
            case CallFragment():
                self._call_part(line)
            case WholeCall():
                self._whole_call(line)
            case UnknownEvent():
                self.frames.append(_event("hologram", light=line.token))
            case UnknownMember():
                self.frames.append(_event("message_delta", delta={"hologram": line.token}))
            case KeepAlive():
                self.frames += [_event("ping"), b": keep-alive\n\n"]
            case TurnEnd():
                self._end(line)
            case ServerFailure():
                error = {"type": "overloaded_error", "message": line.message}
                self.frames.append(_event("error", error=error))
            case Refusal() | UsageOnly() | StalledConnection():
                raise NotExpressible(line)

    # -- blocks ------------------------------------------------------------------------------

    def _open_block(self, kind: str, members: dict[str, Any]) -> None:
        if self._open != kind:
            self._close()
            self._begin(self._block + 1, {"type": kind} | members)
            self._open = kind

    def _write_whole_block(self, block: dict[str, Any]) -> None:
        self._close()
        self._begin(self._block + 1, block)
        self._stop(self._block)

    def _call_part(self, part: CallFragment) -> None:
        self._close()
        if self._first_call is None:
            self._first_call = self._block + 1
        index = None if part.index is None else self._first_call + part.index
        if part.id and part.name:
            self._calls.add(index)
            block = {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
            self._begin(index, block)
        elif part.id is not None or part.name is not None or index not in self._calls:
            raise NotExpressible("an id or a name that is late, empty or repeated")
        if part.arguments is not None:
            self._delta(index, type="input_json_delta", partial_json=part.arguments)

    def _whole_call(self, call: WholeCall) -> None:
        self._close()
        block = without_none(type="tool_use", id=call.id, name=call.name, input={})
        self._begin(self._block + 1, block)
        for half in _split_arguments(call.arguments or ""):
            self._delta(self._block, type="input_json_delta", partial_json=half)
        self._stop(self._block)

    def _begin(self, index: int | None, block: dict[str, Any]) -> None:
        self._block = self._block + 1 if index is None else index
        self.frames.append(_event("content_block_start", index=index, content_block=block))

    def _delta(self, index: int | None, **delta: Any) -> None:
        self.frames.append(_event("content_block_delta", index=index, delta=delta))

    def _stop(self, index: int | None) -> None:
        self.frames.append(_event("content_block_stop", index=index))

    def _close(self) -> None:
        if self._open is not None:
            self._stop(self._block)
            self._open = None

    def _end(self, end: TurnEnd) -> None:
        self._close()
        for index in self._calls:
            self._stop(index)
        about = {"stop_reason": _stop_reason(end), "stop_sequence": None}
        usage = _usage(end.usage or Usage(output_tokens=1))
        self.frames.append(_event("message_delta", delta=about, usage=usage))
        if end.has_end_marker:
            self.frames.append(_event("message_stop"))


def _event(kind: str, **members: Any) -> bytes:
    return encode_sse_event({"type": kind} | without_none(**members), event=kind)


def _split_arguments(text: str) -> tuple[str, str, str]:
    middle = len(text) // 2
    return "", text[:middle], text[middle:]


def _stop_reason(end: TurnEnd) -> str:
    if end.raw is not None:
        return end.raw
    return _STOP_REASONS.get(end.reason) or raise_not_expressible(f"stop reason {end.reason}")


def _usage(usage: Usage | None) -> dict[str, Any]:
    """Write counts as this protocol has them: what was cached comes on top of the input."""
    if usage is None:
        return {}
    cached = (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    details = without_none(thinking_tokens=usage.thinking_tokens)
    return without_none(
        input_tokens=None if usage.input_tokens is None else usage.input_tokens - cached,
        output_tokens=usage.output_tokens,
        cache_read_input_tokens=usage.cache_read_tokens,
        cache_creation_input_tokens=usage.cache_write_tokens,
        output_tokens_details=details or None,
    )


_EMPTY_MESSAGE: Final = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "stop_reason": None,
    "stop_sequence": None,
}
