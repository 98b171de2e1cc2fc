"""A scripted server of OpenAI's Responses API: items begin, grow, end, and are sent again."""

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
    without_none,
)
from steno.testing.conformance.servers.client_requests import OPENAI_RESPONSES
from steno.wire import Wire, openai_responses

_INCOMPLETE: Final = {
    StopReason.LENGTH: "max_output_tokens",
    StopReason.CONTENT_FILTER: "content_filter",
}


class OpenAIResponsesServer(ScriptedServer):
    """A server with encrypted reasoning, parallel calls, and items from tomorrow."""

    legal_call_id: re.Pattern[str] | None = re.compile(r".{1,64}")
    wire: Wire = openai_responses
    requests: tuple[bytes, ...] = (encode_json(OPENAI_RESPONSES),)

    def frames(self, script: Script) -> list[bytes]:
        """Return the events of a stream."""
        stream = _ResponsesStream()
        for line in script:
            stream.write_line(line)
        return stream.frames

    def response(self, script: Script) -> bytes:
        """Return one whole answer."""
        answer = build_whole_response(script)
        output: list[dict[str, Any]] = []
        for number, part in enumerate(answer.parts):
            match part:
                case TextPiece():
                    output.append(_message(number, {"type": "output_text", "text": part.text}))
                case WholeThinking():
                    output.append(_reasoning(number, part.text, part.token))
                case RedactedThinking():
                    output.append(_reasoning(number, "", part.token))
                case Refusal():
                    output.append(_message(number, {"type": "refusal", "refusal": part.text}))
                case WholeCall():
                    call = {"call_id": part.id, "name": part.name, "arguments": part.arguments}
                    output.append(_call(number) | without_none(**call))
                case UnknownBlock():
                    output.append(_hologram(number, part.token))
        items = [item | {"status": "completed"} for item in output]
        return encode_json(_response(answer.end, items))


class _ResponsesStream:
    """The stream of one response."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self._output: list[dict[str, Any]] = []
        self._open: dict[str, Any] | None = None
        """The message or the reasoning that grows."""
        self._calls: list[dict[str, Any]] = []
        """The calls that grow, with the index that is sent for each."""
        self._indexes: list[int | None] = []
        self._first_call: int | None = None
        about = _ENVELOPE | {"status": "in_progress", "output": []}
        self._send("response.created", response=about)
        self._send("response.in_progress", response=about)

    def write_line(self, line: ScriptLine) -> None:
        match line:
            case TextPiece():
                self._append_to_message({"type": "output_text", "text": ""}, "text", line.text)
            case Refusal():
                self._append_to_message({"type": "refusal", "refusal": ""}, "refusal", line.text)
            case ThinkingPiece():
                self._append_to_reasoning(line.text)
            case ThinkingSeal():
                self._append_to_reasoning("")
                assert self._open is not None
                self._open["encrypted_content"] = line.token
                self._close()
            case RedactedThinking():
                self._write_whole_item(_reasoning(self._next_number, "", line.token))
            case UnknownBlock():
                self._write_whole_item(_hologram(self._next_number, line.token))
            case CallFragment():
                self._call_part(line)
            case WholeCall():
                self._whole_call(line)
            case UnknownEvent():
                self._send("response.hologram", light=line.token)
            case UnknownMember():
                place = {} if self._open is None else self._position(self._open)
                self._send("response.output_text.delta", **place, delta="", hologram=line.token)
            case KeepAlive():
                self._send("keepalive")
                self.frames.append(b": keep-alive\n\n")
            case TurnEnd():
                self._end(line)
            case ServerFailure():
                self._send("error", code="server_error", message=line.message)
            case UsageOnly() | StalledConnection():
                raise NotExpressible(line)

    # -- items -------------------------------------------------------------------------------

    @property
    def _next_number(self) -> int:
        return len(self._output)

    def _begin(self, item: dict[str, Any], index: int | None, **shown: Any) -> None:
        self._close()
        self._output.append(item)
        added = item | {"status": "in_progress"} | shown
        self._send("response.output_item.added", output_index=index, item=added)

    def _done(self, item: dict[str, Any], index: int | None) -> None:
        item["status"] = "completed"
        self._send("response.output_item.done", output_index=index, item=item)

    def _write_whole_item(self, item: dict[str, Any]) -> None:
        self._begin(item, self._next_number)
        self._done(item, self._next_number - 1)

    def _close(self) -> None:
        if self._open is not None:
            item, self._open = self._open, None
            self._done(item, self._output.index(item))

    # -- words -------------------------------------------------------------------------------

    def _append_to_message(self, part: dict[str, Any], member: str, text: str) -> None:
        kind = part["type"]
        if self._open is None or self._kind(self._open) != kind:
            item = _message(self._next_number, part)
            self._begin(item, self._next_number, content=[])
            self._open = item
            self._send("response.content_part.added", **self._position(item), part=dict(part))
        self._open["content"][0][member] += text
        self._send(f"response.{kind}.delta", **self._position(self._open), delta=text)

    def _kind(self, item: dict[str, Any]) -> str:
        found: str = item["content"][0]["type"] if item["type"] == "message" else item["type"]
        return found

    def _position(self, item: dict[str, Any]) -> dict[str, Any]:
        index = self._output.index(item)
        return {"item_id": item["id"], "output_index": index, "content_index": 0}

    def _append_to_reasoning(self, text: str) -> None:
        if self._open is None or self._open["type"] != "reasoning":
            item = _reasoning(self._next_number, "", None)
            self._begin(item, self._next_number)
            self._open = item
        if text:
            summary = self._open["summary"]
            joined = summary[0]["text"] + text if summary else text
            self._open["summary"] = [{"type": "summary_text", "text": joined}]
            place = {"item_id": self._open["id"], "output_index": self._next_number - 1}
            kind = "response.reasoning_summary_text.delta"
            self._send(kind, **place, summary_index=0, delta=text)

    # -- calls -------------------------------------------------------------------------------

    def _call_part(self, part: CallFragment) -> None:
        if part.id == "" or part.name == "":
            raise NotExpressible("an id or a name in a fragment")
        self._close()
        if self._first_call is None:
            self._first_call = self._next_number
        index = None if part.index is None else self._first_call + part.index
        call = self._find_call(part, index)
        if call is None:
            call = _call(self._next_number) | {"call_id": part.id or "", "name": part.name or ""}
            self._begin(call, index)
            self._calls.append(call)
            self._indexes.append(index)
        call["call_id"] = call["call_id"] or part.id or ""
        call["name"] = call["name"] or part.name or ""
        if part.arguments is not None:
            self._append_to_call(call, index, part.arguments)

    def _find_call(self, part: CallFragment, index: int | None) -> dict[str, Any] | None:
        known = [
            call for call, sent in zip(self._calls, self._indexes, strict=True) if sent == index
        ]
        if not known or (part.id is not None and known[-1]["call_id"] not in ("", part.id)):
            return None
        return known[-1]

    def _whole_call(self, call: WholeCall) -> None:
        members = without_none(call_id=call.id, name=call.name)
        item = _call(self._next_number) | members
        index = self._next_number
        self._begin(item, index)
        if call.arguments:
            self._append_to_call(item, index, call.arguments)
        self._done(item, index)

    def _append_to_call(self, item: dict[str, Any], index: int | None, fragment: str) -> None:
        item["arguments"] += fragment
        kind = "response.function_call_arguments.delta"
        self._send(kind, item_id=item["id"], output_index=index, delta=fragment)

    # -- the end -----------------------------------------------------------------------------

    def _end(self, end: TurnEnd) -> None:
        if not end.has_end_marker:
            raise NotExpressible("an end without its mark: the reason stands in the mark")
        self._close()
        for call, index in zip(self._calls, self._indexes, strict=True):
            self._done(call, index)
        answer = _response(end, self._output)
        kind = "incomplete" if answer["status"] == "incomplete" else "completed"
        self._send(f"response.{kind}", response=answer)

    def _send(self, kind: str, **members: Any) -> None:
        payload = {"type": kind, "sequence_number": len(self.frames)} | without_none(**members)
        self.frames.append(encode_sse_event(payload, event=kind))


# -- JSON --------------------------------------------------------------------------------------


def _message(number: int, part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] == "output_text":
        part = part | {"annotations": []}
    return {"id": f"msg_{number}", "type": "message", "role": "assistant", "content": [part]}


def _reasoning(number: int, text: str, token: str | None) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return without_none(
        id=f"rs_{number}", type="reasoning", summary=summary, encrypted_content=token
    )


def _call(number: int) -> dict[str, Any]:
    return {"id": f"fc_{number}", "type": "function_call", "arguments": ""}


def _hologram(number: int, token: str) -> dict[str, Any]:
    return {"id": f"h_{number}", "type": "hologram", "light": token}


def _response(end: TurnEnd, output: list[dict[str, Any]]) -> dict[str, Any]:
    status = end.raw or ("incomplete" if end.reason in _INCOMPLETE else "completed")
    if end.reason is StopReason.PAUSE:
        raise NotExpressible(f"stop reason {end.reason}")
    details = {"reason": _INCOMPLETE[end.reason]} if status == "incomplete" else None
    about = {"status": status, "incomplete_details": details, "output": output}
    return _ENVELOPE | about | {"usage": None if end.usage is None else _usage(end.usage)}


def _usage(usage: Usage) -> dict[str, Any]:
    read = without_none(
        cached_tokens=usage.cache_read_tokens, cache_write_tokens=usage.cache_write_tokens
    )
    written = without_none(reasoning_tokens=usage.thinking_tokens)
    return without_none(
        input_tokens=usage.input_tokens,
        input_tokens_details=read or None,
        output_tokens=usage.output_tokens,
        output_tokens_details=written or None,
        total_tokens=usage.total_tokens,
    )


_ENVELOPE: Final = {"id": "resp_1", "object": "response", "model": "m", "error": None}
