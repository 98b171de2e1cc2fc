"""Scripted servers whose chunks are independent: flat chat, Gemini, Ollama, chat completions.

Each server has a sample request of a client of its protocol, with members that no wire knows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any, Final

import msgspec

from steno.messages.usage import StopReason, Usage
from steno.testing.conformance.scripted_server import (
    CallFragment,
    JsonText,
    KeepAlive,
    NotExpressible,
    RedactedThinking,
    Refusal,
    ResponsePart,
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
    UsageOnly,
    WholeCall,
    WholeThinking,
    build_whole_response,
    encode_json,
    encode_sse_event,
    find_stop_reason,
    json_object_text,
    without_none,
)
from steno.wire import Wire, chat, gemini, ollama_chat, openai_chat

# -- the flat chat JSON, one object per line ---------------------------------------------------

_CHAT_REQUEST: Final = """\
{"model": "model-1",
 "messages": [{"role": "system", "content": "Be brief."},
  {"role": "user", "content": "What is this?", "hologram": 7},
  {"role": "assistant",
   "tool_calls": [{"id": "c1", "name": "fs.read", "arguments": {"path": "a"}}]},
  {"role": "tool", "tool_call_id": "c1", "content": "no", "is_error": true},
  {"role": "assistant", "content": "It is gone."}],
 "tools": [{"name": "fs.read", "description": "Reads a file.",
   "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}],
 "max_tokens": 1000, "temperature": 0.5, "hologram": {"light": [1, null]}}"""


class ChatServer(ScriptedServer):
    """A server for the `chat` wire, a protocol that no vendor uses."""

    wire: Wire = chat
    requests: tuple[bytes, ...] = (
        _CHAT_REQUEST.encode(),
        encode_json(json.loads(_CHAT_REQUEST)["messages"]),
    )

    def frames(self, script: Script) -> list[bytes]:
        """Return the bytes of each event in a stream of the script."""
        return [_chat_encode_line(line) + b"\n" for line in script]

    def response(self, script: Script) -> bytes:
        """Return the bytes of the script as a response that is not streamed."""
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
        calls = [_chat_call(call) for call in answer.calls]
        is_plain = all(part["type"] == "text" for part in parts)
        message = without_none(
            role="assistant", content=answer.text if is_plain else parts, tool_calls=calls or None
        )
        return encode_json(message | _chat_end_fields(answer.end))


def _chat_encode_line(line: ScriptLine) -> bytes:
    match line:
        case TextPiece():
            return encode_json({"content": line.text})
        case CallFragment():
            part = without_none(
                index=line.index, id=line.id, name=line.name, arguments_delta=line.arguments
            )
            if not part.keys() & {"index", "arguments_delta"}:
                raise NotExpressible("a fragment without an index and without arguments")
            return encode_json(part)
        case WholeCall():
            return encode_json({"tool_calls": [_chat_call(line)]})
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
                raise NotExpressible(
                    "a missing end marker, because the stop reason is the end marker"
                )
            return encode_json(_chat_end_fields(line))
        case ServerFailure():
            return encode_json({"error": {"message": line.message}})
        case _:
            raise NotExpressible(line)


def _chat_call(call: WholeCall) -> dict[str, Any]:
    arguments = None if call.arguments is None else _chat_arguments(call.arguments)
    return without_none(id=call.id, name=call.name, arguments=arguments)


def _chat_arguments(text: str) -> JsonText | str:
    """Return an object as JSON and any other text as a string, because the wire accepts both."""
    return JsonText(text) if text.startswith("{") and text.endswith("}") else text


def _chat_end_fields(end: TurnEnd) -> dict[str, Any]:
    usage = {} if end.usage is None else {"usage": msgspec.to_builtins(end.usage)}
    return {"stop_reason": end.raw or str(end.reason)} | usage


# -- Gemini: every chunk is a response with some of the parts ----------------------------------

_GEMINI_REQUEST: Final = """\
{"model": "model-1", "systemInstruction": {"parts": [{"text": "Be brief."}]},
 "contents": [{"role": "user",
   "parts": [{"text": "What is this?"}, {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
    {"hologram": {"light": 7}}]},
  {"role": "model",
   "parts": [{"text": "Hm.", "thought": true},
    {"functionCall": {"name": "fs.read", "args": {"path": "a"}},
     "thoughtSignature": "c2lnbmF0dXJl"}]},
  {"role": "user",
   "parts": [{"functionResponse": {"name": "fs.read", "response": {"output": "one"}}}]}],
 "tools": [{"functionDeclarations": [{"name": "fs.read", "description": "Reads a file.",
     "parameters": {"type": "OBJECT", "properties": {"path": {"type": "STRING"}}}}]},
  {"hologram": {}}],
 "generationConfig": {"temperature": 0.5, "maxOutputTokens": 1000, "candidateCount": 1},
 "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
 "hologram": {"light": [1, null]}}"""


_GEMINI_STOP_REASONS: Final = {
    StopReason.END_TURN: "STOP",
    StopReason.LENGTH: "MAX_TOKENS",
    StopReason.TOOL_USE: "STOP",  # the calls are the only difference
    StopReason.CONTENT_FILTER: "SAFETY",
}


class GeminiServer(ScriptedServer):
    """A Gemini server, which sends whole calls, and each signature with the part it belongs to."""

    wire: Wire = gemini
    requests: tuple[bytes, ...] = (_GEMINI_REQUEST.encode(),)

    def frames(self, script: Script) -> list[bytes]:
        """Return the bytes of each event in a stream of the script."""
        frames: list[bytes] = []
        for line, follower in zip_longest(script, script[1:]):
            token = follower.token if isinstance(follower, ThinkingSeal) else None
            if isinstance(line, ThinkingPiece):
                frames.append(_gemini_chunk(WholeThinking(line.text, token)))
            elif not isinstance(line, ThinkingSeal):
                frames.append(_gemini_encode_line(line))
            elif not frames:
                raise NotExpressible("a seal without a part before it")
        return frames

    def response(self, script: Script) -> bytes:
        """Return the bytes of the script as a response that is not streamed."""
        answer = build_whole_response(script)
        return encode_json(_gemini_last_response(map(_gemini_part, answer.parts), answer.end))


def _gemini_encode_line(line: ScriptLine) -> bytes:
    match line:
        case TextPiece() | WholeCall() | UnknownBlock():
            return _gemini_chunk(line)
        case UnknownEvent():
            return encode_sse_event({"hologram": line.token})
        case UnknownMember():
            return encode_sse_event(_gemini_response([{"text": ""}], hologram=line.token))
        case KeepAlive():
            return b": keep-alive\n\n"
        case UsageOnly():
            return encode_sse_event(_gemini_usage(line.usage) | _GEMINI_ENVELOPE)
        case TurnEnd():
            if not line.has_end_marker:
                raise NotExpressible(
                    "a missing end marker, because the protocol has no end marker to omit"
                )
            return encode_sse_event(_gemini_last_response([{"text": ""}], line))
        case ServerFailure():
            error = {"code": 503, "message": line.message, "status": "UNAVAILABLE"}
            return encode_sse_event({"error": error})
        case _:
            raise NotExpressible(line)


def _gemini_part(part: ResponsePart) -> dict[str, Any]:
    match part:
        case TextPiece():
            return {"text": part.text}
        case WholeThinking():
            return without_none(text=part.text, thought=True, thoughtSignature=part.token)
        case WholeCall():
            given = None if part.arguments is None else json_object_text(part.arguments)
            return {"functionCall": without_none(id=part.id, name=part.name, args=given)}
        case UnknownBlock():
            return {"hologram": {"light": part.token}}
        case _:
            raise NotExpressible(part)


def _gemini_chunk(part: ResponsePart) -> bytes:
    return encode_sse_event(_gemini_response([_gemini_part(part)]))


def _gemini_response(parts: Iterable[dict[str, Any]], **about: Any) -> dict[str, Any]:
    candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0} | about
    return {"candidates": [candidate]} | _GEMINI_ENVELOPE


def _gemini_last_response(parts: Iterable[dict[str, Any]], end: TurnEnd) -> dict[str, Any]:
    reason = find_stop_reason(end, _GEMINI_STOP_REASONS)
    return _gemini_response(parts, finishReason=reason) | _gemini_usage(end.usage)


def _gemini_usage(usage: Usage | None) -> dict[str, Any]:
    """Return the token counts in Gemini's form, where candidate tokens exclude thinking."""
    if usage is None:
        return {}
    if usage.cache_write_tokens is not None:
        raise NotExpressible("cache write tokens")
    output = usage.output_tokens
    counts = without_none(
        promptTokenCount=usage.input_tokens,
        cachedContentTokenCount=usage.cache_read_tokens,
        candidatesTokenCount=None if output is None else output - (usage.thinking_tokens or 0),
        thoughtsTokenCount=usage.thinking_tokens,
        totalTokenCount=usage.total_tokens,
    )
    return {"usageMetadata": counts}


_GEMINI_ENVELOPE: Final = {"modelVersion": "m", "responseId": "r_1"}


# -- Ollama: a line of JSON for every token ----------------------------------------------------

_OLLAMA_CHAT_REQUEST: Final = """\
{"model": "model-1",
 "messages": [{"role": "system", "content": "Be brief."},
  {"role": "user", "content": "What is this?", "images": ["iVBORw0KGgo="], "hologram": 7},
  {"role": "assistant", "content": "", "thinking": "Hm.",
   "tool_calls": [{"function": {"name": "fs.read", "arguments": {"path": "a"}}}]},
  {"role": "tool", "tool_name": "fs.read", "content": "one"}],
 "tools": [{"type": "function",
   "function": {"name": "fs.read", "description": "Reads a file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}}],
 "options": {"temperature": 0.5, "num_predict": 1000, "num_ctx": 4096}, "think": "high",
 "keep_alive": "5m", "stream": true, "hologram": {"light": [1, null]}}"""


_OLLAMA_STOP_REASONS: Final = {
    StopReason.END_TURN: "stop",
    StopReason.LENGTH: "length",
    StopReason.TOOL_USE: "stop",  # the calls are the only difference
}


class OllamaChatServer(ScriptedServer):
    """An Ollama server, which sends whole calls, and the token counts in its last line."""

    wire: Wire = ollama_chat
    requests: tuple[bytes, ...] = (_OLLAMA_CHAT_REQUEST.encode(),)

    def frames(self, script: Script) -> list[bytes]:
        """Return the bytes of each event in a stream of the script."""
        return [_ollama_encode_line(line) for line in script]

    def response(self, script: Script) -> bytes:
        """Return the bytes of the script as a response that is not streamed."""
        answer = build_whole_response(script)
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or ""}
        for part in answer.parts:
            if isinstance(part, WholeThinking) and part.token is None:
                message["thinking"] = part.text
            elif not isinstance(part, (TextPiece, WholeCall)):
                raise NotExpressible(part)
        if answer.calls:
            message["tool_calls"] = [_ollama_call(call) for call in answer.calls]
        return encode_json(_OLLAMA_ENVELOPE | {"message": message} | _ollama_end_fields(answer.end))


def _ollama_encode_line(line: ScriptLine) -> bytes:
    match line:
        case TextPiece():
            return _ollama_line(content=line.text)
        case ThinkingPiece():
            return _ollama_line(content="", thinking=line.text)
        case WholeCall():
            return _ollama_line(content="", tool_calls=[_ollama_call(line)])
        case UnknownEvent():
            return encode_json({"type": "hologram", "light": line.token}) + b"\n"
        case UnknownMember():
            return _ollama_line(content="", hologram=line.token)
        case KeepAlive():
            return b"\n"
        case TurnEnd():
            if not line.has_end_marker:
                raise NotExpressible(
                    "a missing end marker, because the end marker contains the stop reason"
                )
            message = {"message": {"role": "assistant", "content": ""}}
            return encode_json(_OLLAMA_ENVELOPE | message | _ollama_end_fields(line)) + b"\n"
        case ServerFailure():
            return encode_json({"error": line.message}) + b"\n"
        case _:
            raise NotExpressible(line)


def _ollama_line(**members: Any) -> bytes:
    message = {"role": "assistant"} | members
    return encode_json(_OLLAMA_ENVELOPE | {"message": message, "done": False}) + b"\n"


def _ollama_call(call: WholeCall) -> dict[str, Any]:
    given = None if call.arguments is None else json_object_text(call.arguments)
    return without_none(id=call.id, function=without_none(name=call.name, arguments=given))


def _ollama_end_fields(end: TurnEnd) -> dict[str, Any]:
    reason = find_stop_reason(end, _OLLAMA_STOP_REASONS)
    about = {"done": True, "done_reason": reason, "total_duration": 5_000_000}
    return about | _ollama_usage(end.usage)


def _ollama_usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    details = (usage.cache_read_tokens, usage.cache_write_tokens, usage.thinking_tokens)
    if details != (None, None, None):
        raise NotExpressible("cache or thinking tokens")
    return without_none(prompt_eval_count=usage.input_tokens, eval_count=usage.output_tokens)


_OLLAMA_ENVELOPE: Final = {"model": "m", "created_at": "2026-01-02T03:04:05.6789Z"}


# -- chat completions of OpenAI ----------------------------------------------------------------

_OPENAI_CHAT_REQUEST: Final = r"""
{"model": "model-1",
 "messages": [{"role": "developer", "content": "Be brief."},
  {"role": "user", "name": "ann",
   "content": [{"type": "text", "text": "What is this?"},
    {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}},
    {"type": "hologram", "light": 7}]},
  {"role": "assistant", "content": null,
   "tool_calls": [{"id": "call_1", "type": "function",
     "function": {"name": "fs.read", "arguments": "{\"path\" : \"a\"}"}}]},
  {"role": "tool", "tool_call_id": "call_1", "content": "one"}],
 "tools": [{"type": "function",
   "function": {"name": "fs.read", "description": "Reads a file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}, "strict": true}},
  {"type": "hologram", "light": 7}],
 "tool_choice": "auto", "parallel_tool_calls": false, "temperature": 0.5, "stream": true,
 "seed": 7, "hologram": {"light": [1, null]}}"""


_OPENAI_STOP_REASONS: Final = {
    StopReason.END_TURN: "stop",
    StopReason.LENGTH: "length",
    StopReason.TOOL_USE: "tool_calls",
    StopReason.CONTENT_FILTER: "content_filter",
}


class OpenAIChatServer(ScriptedServer):
    """A server like vLLM or OpenRouter, which sends more members than OpenAI does."""

    legal_call_id: re.Pattern[str] | None = re.compile(r".{1,64}")

    wire: Wire = openai_chat
    requests: tuple[bytes, ...] = (_OPENAI_CHAT_REQUEST.encode(),)

    def frames(self, script: Script) -> list[bytes]:
        """Return the bytes of each event in a stream of the script."""
        frames = [_openai_encode_line(line) for line in script]
        if any(isinstance(line, TurnEnd) and line.has_end_marker for line in script):
            frames.append(b"data: [DONE]\n\n")
        return frames

    def response(self, script: Script) -> bytes:
        """Return the bytes of the script as a response that is not streamed."""
        answer = build_whole_response(script)
        message: dict[str, Any] = {"role": "assistant", "content": answer.text}
        for part in answer.parts:
            match part:
                case WholeThinking():
                    message["reasoning"] = part.text
                    if part.token is not None:
                        sealed = [
                            _openai_detail(text=part.text),
                            _openai_detail(signature=part.token),
                        ]
                        message["reasoning_details"] = sealed
                case RedactedThinking():
                    message["reasoning_details"] = [_openai_redacted(part.token)]
                case Refusal():
                    message["refusal"] = part.text
                case TextPiece() | WholeCall():
                    pass
                case _:
                    raise NotExpressible(part)
        if answer.calls:
            message["tool_calls"] = [_openai_whole_call(call) for call in answer.calls]
        return encode_json(_openai_last_response(answer.end, message=message))


def _openai_encode_line(line: ScriptLine) -> bytes:
    match line:
        case TextPiece():
            return _openai_chunk(content=line.text)
        case ThinkingPiece():
            detail = _openai_detail(text=line.text)
            return _openai_chunk(reasoning=line.text, reasoning_details=[detail])
        case ThinkingSeal():
            return _openai_chunk(reasoning_details=[_openai_detail(signature=line.token)])
        case RedactedThinking():
            return _openai_chunk(reasoning_details=[_openai_redacted(line.token)])
        case Refusal():
            return _openai_chunk(refusal=line.text)
        case CallFragment():
            function = without_none(name=line.name, arguments=line.arguments)
            call = without_none(index=line.index, id=line.id, function=function)
            return _openai_chunk(tool_calls=[call])
        case WholeCall():
            return _openai_chunk(tool_calls=[_openai_whole_call(line)])
        case UnknownEvent():
            about = {"id": "chatcmpl-1", "object": "hologram.chunk"}
            return encode_sse_event(about | {"hologram": line.token})
        case UnknownBlock():
            return _openai_chunk(content=[{"type": "hologram", "light": line.token}])
        case UnknownMember():
            return _openai_chunk(content="", hologram=line.token)
        case KeepAlive():
            return b": keep-alive\n\n"
        case UsageOnly():
            return encode_sse_event(_openai_envelope([]) | {"usage": _openai_usage(line.usage)})
        case TurnEnd():
            return encode_sse_event(_openai_last_response(line, delta={}))
        case ServerFailure():
            error = {"message": line.message, "type": "server_error", "code": 500}
            return encode_sse_event({"error": error})
        case _:
            raise NotExpressible(line)


def _openai_chunk(**delta: Any) -> bytes:
    return encode_sse_event(_openai_envelope([{"index": 0, "delta": delta, "finish_reason": None}]))


def _openai_envelope(choices: list[Any]) -> dict[str, Any]:
    about = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return about | {"choices": choices}


def _openai_whole_call(call: WholeCall) -> dict[str, Any]:
    function = without_none(name=call.name, arguments=call.arguments)
    return without_none(id=call.id, type="function", function=function)


def _openai_detail(**members: str) -> dict[str, Any]:
    return {"type": "reasoning.text", "index": 0} | members


def _openai_redacted(token: str) -> dict[str, Any]:
    return {"type": "reasoning.encrypted", "index": 0, "data": token}


def _openai_last_response(end: TurnEnd, **content: Any) -> dict[str, Any]:
    reason = find_stop_reason(end, _OPENAI_STOP_REASONS)
    usage = {} if end.usage is None else {"usage": _openai_usage(end.usage)}
    return _openai_envelope([{"index": 0, **content, "finish_reason": reason}]) | usage


def _openai_usage(usage: Usage) -> dict[str, Any]:
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
