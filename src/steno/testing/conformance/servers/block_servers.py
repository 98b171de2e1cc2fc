"""Scripted servers for protocols with start, delta and end events: Messages and Responses.

Each server has a sample request of a client of its protocol, with members that no wire knows.
"""

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
    TextPiece,
    ThinkingPiece,
    ThinkingSeal,
    TurnEnd,
    UnknownBlock,
    UnknownEvent,
    UnknownMember,
    WholeCall,
    WholeThinking,
    build_whole_response,
    encode_json,
    encode_sse_event,
    find_stop_reason,
    json_object_text,
    without_none,
)
from steno.wire import Wire, anthropic_messages, openai_responses

# -- Anthropic's Messages API ------------------------------------------------------------------

_ANTHROPIC_MESSAGES_REQUEST: Final = """\
{"model": "model-1", "max_tokens": 1000,
 "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
 "messages": [{"role": "user",
   "content": [{"type": "text", "text": "What is this?"},
    {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
    {"type": "hologram", "light": 7}]},
  {"role": "assistant",
   "content": [{"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmF0dXJl"},
    {"type": "redacted_thinking", "data": "cmVkYWN0ZWQ="}, {"type": "text", "text": "I look."},
    {"type": "tool_use", "id": "toolu_1", "name": "fs-read", "input": {"path": "a"}}]},
  {"role": "user",
   "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "no", "is_error": true},
    {"type": "text", "text": "Try another."}]}],
 "tools": [{"name": "fs-read", "description": "Reads a file.",
   "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}},
  {"type": "hologram_20990101", "name": "hologram"}],
 "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}, "temperature": 0.5,
 "stream": true, "metadata": {"user_id": "u"}, "hologram": {"light": [1, null]}}"""


_MESSAGES_STOP_REASONS: Final = {
    StopReason.END_TURN: "end_turn",
    StopReason.LENGTH: "max_tokens",
    StopReason.TOOL_USE: "tool_use",
    StopReason.CONTENT_FILTER: "refusal",
    StopReason.PAUSE: "pause_turn",
}


class AnthropicMessagesServer(ScriptedServer):
    """A server for Anthropic's Messages API, with signed thinking and unknown blocks."""

    legal_call_id: re.Pattern[str] | None = re.compile(r"[A-Za-z0-9_-]+")

    wire: Wire = anthropic_messages
    requests: tuple[bytes, ...] = (_ANTHROPIC_MESSAGES_REQUEST.encode(),)

    def frames(self, script: Script) -> list[bytes]:
        """Return the bytes of each event in a stream of the script."""
        stream = _MessagesStream()
        for line in script:
            stream.write_line(line)
        return stream.frames

    def response(self, script: Script) -> bytes:
        """Return the bytes of the script as a response that is not streamed."""
        answer = build_whole_response(script)
        blocks: list[dict[str, Any]] = []
        for part in answer.parts:
            match part:
                case TextPiece():
                    blocks.append({"type": "text", "text": part.text})
                case WholeThinking():
                    thinking = {"thinking": part.text, "signature": part.token or ""}
                    blocks.append({"type": "thinking"} | thinking)
                case RedactedThinking():
                    blocks.append({"type": "redacted_thinking", "data": part.token})
                case WholeCall():
                    given = json_object_text(part.arguments or "{}")
                    call = without_none(type="tool_use", id=part.id, name=part.name, input=given)
                    blocks.append(call)
                case UnknownBlock():
                    blocks.append({"type": "hologram", "light": part.token})
                case Refusal():
                    raise NotExpressible(part)
        about = {
            "stop_reason": find_stop_reason(answer.end, _MESSAGES_STOP_REASONS),
            "usage": _messages_usage(answer.end.usage),
        }
        return encode_json(_MESSAGES_EMPTY_MESSAGE | {"content": blocks} | about)


class _MessagesStream:
    """Writes the events of one response of the Messages API."""

    def __init__(self) -> None:
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = _MESSAGES_EMPTY_MESSAGE | {"content": [], "usage": usage}
        self.frames = [_messages_event("message_start", message=message)]
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
                self.frames.append(_messages_event("hologram", light=line.token))
            case UnknownMember():
                self.frames.append(_messages_event("message_delta", delta={"hologram": line.token}))
            case KeepAlive():
                self.frames += [_messages_event("ping"), b": keep-alive\n\n"]
            case TurnEnd():
                self._end(line)
            case ServerFailure():
                error = {"type": "overloaded_error", "message": line.message}
                self.frames.append(_messages_event("error", error=error))
            case _:
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
            raise NotExpressible("a late, empty or repeated id or name")
        if part.arguments is not None:
            self._delta(index, type="input_json_delta", partial_json=part.arguments)

    def _whole_call(self, call: WholeCall) -> None:
        self._close()
        block = without_none(type="tool_use", id=call.id, name=call.name, input={})
        self._begin(self._block + 1, block)
        text = call.arguments or ""
        middle = len(text) // 2
        for half in ("", text[:middle], text[middle:]):
            self._delta(self._block, type="input_json_delta", partial_json=half)
        self._stop(self._block)

    def _begin(self, index: int | None, block: dict[str, Any]) -> None:
        self._block = self._block + 1 if index is None else index
        self.frames.append(_messages_event("content_block_start", index=index, content_block=block))

    def _delta(self, index: int | None, **delta: Any) -> None:
        self.frames.append(_messages_event("content_block_delta", index=index, delta=delta))

    def _stop(self, index: int | None) -> None:
        self.frames.append(_messages_event("content_block_stop", index=index))

    def _close(self) -> None:
        if self._open is not None:
            self._stop(self._block)
            self._open = None

    def _end(self, end: TurnEnd) -> None:
        self._close()
        for index in self._calls:
            self._stop(index)
        reason = find_stop_reason(end, _MESSAGES_STOP_REASONS)
        about = {"stop_reason": reason, "stop_sequence": None}
        usage = _messages_usage(end.usage or Usage(output_tokens=1))
        self.frames.append(_messages_event("message_delta", delta=about, usage=usage))
        if end.has_end_marker:
            self.frames.append(_messages_event("message_stop"))


def _messages_event(kind: str, **members: Any) -> bytes:
    return encode_sse_event({"type": kind} | without_none(**members), event=kind)


def _messages_usage(usage: Usage | None) -> dict[str, Any]:
    """Return the token counts in Anthropic's form, where input tokens exclude the cache."""
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


_MESSAGES_EMPTY_MESSAGE: Final = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "stop_reason": None,
    "stop_sequence": None,
}


# -- OpenAI's Responses API: the last event repeats all items ----------------------------------

_OPENAI_RESPONSES_REQUEST: Final = r"""
{"model": "model-1", "instructions": "Be brief.",
 "input": [{"role": "user",
   "content": [{"type": "input_text", "text": "What is this?"},
    {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "low"},
    {"type": "hologram", "light": 7}]},
  {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}],
   "encrypted_content": "c2VhbA=="},
  {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "fs-read",
   "arguments": "{\"path\" : \"a\"}", "status": "completed"},
  {"type": "function_call_output", "call_id": "call_1", "output": "one"},
  {"type": "hologram", "light": 7}],
 "tools": [{"type": "function", "name": "fs-read", "description": "Reads a file.",
   "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}, "strict": false},
  {"type": "hologram"}],
 "tool_choice": "auto", "max_output_tokens": 1000, "temperature": 0.5, "store": false,
 "stream": true, "hologram": {"light": [1, null]}}"""


_RESPONSES_INCOMPLETE: Final = {
    StopReason.LENGTH: "max_output_tokens",
    StopReason.CONTENT_FILTER: "content_filter",
}


class OpenAIResponsesServer(ScriptedServer):
    """A server for OpenAI's Responses API, with encrypted reasoning and unknown items."""

    legal_call_id: re.Pattern[str] | None = re.compile(r".{1,64}")
    wire: Wire = openai_responses
    requests: tuple[bytes, ...] = (_OPENAI_RESPONSES_REQUEST.encode(),)

    def frames(self, script: Script) -> list[bytes]:
        """Return the bytes of each event in a stream of the script."""
        stream = _ResponsesStream()
        for line in script:
            stream.write_line(line)
        return stream.frames

    def response(self, script: Script) -> bytes:
        """Return the bytes of the script as a response that is not streamed."""
        stream = _ResponsesStream()
        for line in script:
            stream.write_line(line)
        if not stream.response:
            stream.write_line(TurnEnd())
        return encode_json(stream.response)


class _ResponsesStream:
    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.response: dict[str, Any] = {}
        """The whole response, which the last event repeats."""
        self._output: list[dict[str, Any]] = []
        self._open: dict[str, Any] | None = None
        """The message or reasoning item that is not complete yet."""
        self._calls: list[dict[str, Any]] = []
        """The calls that are sent in fragments."""
        self._indexes: list[int | None] = []
        """The index that is sent for each of `_calls`."""
        self._first_call: int | None = None
        about = _RESPONSES_ENVELOPE | {"status": "in_progress", "output": []}
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
                self._write_whole_item(_responses_reasoning(self._next_number, "", line.token))
            case UnknownBlock():
                self._write_whole_item(_responses_hologram(self._next_number, line.token))
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
            case _:
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

    # -- text --------------------------------------------------------------------------------

    def _append_to_message(self, part: dict[str, Any], member: str, text: str) -> None:
        kind = part["type"]
        if self._open is None or self._kind(self._open) != kind:
            item = _responses_message(self._next_number, part)
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
            item = _responses_reasoning(self._next_number, "", None)
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
            raise NotExpressible("an empty id or name")
        self._close()
        if self._first_call is None:
            self._first_call = self._next_number
        index = None if part.index is None else self._first_call + part.index
        call = self._find_call(part, index)
        if call is None:
            call = _responses_call(self._next_number) | {"call_id": "", "name": ""}
            call |= without_none(call_id=part.id, name=part.name)
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
        index = self._next_number
        item = _responses_call(index) | without_none(call_id=call.id, name=call.name)
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
            raise NotExpressible(
                "a missing end marker, because the end marker contains the stop reason"
            )
        self._close()
        for call, index in zip(self._calls, self._indexes, strict=True):
            self._done(call, index)
        self.response = _responses_response(end, self._output)
        kind = "incomplete" if self.response["status"] == "incomplete" else "completed"
        self._send(f"response.{kind}", response=self.response)

    def _send(self, kind: str, **members: Any) -> None:
        payload = {"type": kind, "sequence_number": len(self.frames)} | without_none(**members)
        self.frames.append(encode_sse_event(payload, event=kind))


# -- JSON --------------------------------------------------------------------------------------


def _responses_message(number: int, part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] == "output_text":
        part = part | {"annotations": []}
    return {"id": f"msg_{number}", "type": "message", "role": "assistant", "content": [part]}


def _responses_reasoning(number: int, text: str, token: str | None) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return without_none(
        id=f"rs_{number}", type="reasoning", summary=summary, encrypted_content=token
    )


def _responses_call(number: int) -> dict[str, Any]:
    return {"id": f"fc_{number}", "type": "function_call", "arguments": ""}


def _responses_hologram(number: int, token: str) -> dict[str, Any]:
    return {"id": f"h_{number}", "type": "hologram", "light": token}


def _responses_response(end: TurnEnd, output: list[dict[str, Any]]) -> dict[str, Any]:
    status = end.raw or ("incomplete" if end.reason in _RESPONSES_INCOMPLETE else "completed")
    if end.reason is StopReason.PAUSE:
        raise NotExpressible(f"stop reason {end.reason}")
    details = {"reason": _RESPONSES_INCOMPLETE[end.reason]} if status == "incomplete" else None
    usage = None if end.usage is None else _responses_usage(end.usage)
    about = {"status": status, "incomplete_details": details, "output": output, "usage": usage}
    return _RESPONSES_ENVELOPE | about


def _responses_usage(usage: Usage) -> dict[str, Any]:
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


_RESPONSES_ENVELOPE: Final = {"id": "resp_1", "object": "response", "model": "m", "error": None}
