"""A custom wire for example 16: a line is a keyword, then names if it needs any, then JSON.

A request looks like this; `failed` instead of `result` marks a call that failed:

    model "m"
    tool {"name": "add", "description": "Add two numbers.", "parameters": {...}}
    user "What is 1 + 2?"
    call c1 add {"a": 1, "b": 2}
    result c1 "3"

The response to it:

    text "It is 3."
    done

A response can also contain calls; `error "reason"` ends it early. Names are escaped as in a URL.
"""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote

from steno import (
    AnyToolCall,
    AssistantMessage,
    ChatMessage,
    Image,
    InvalidRequest,
    Message,
    Opaque,
    Outcome,
    ProtocolError,
    Request,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResultMessage,
)
from steno.messages import Event, Finished, TextDelta, ToolCallDelta, build_call
from steno.wire import (
    ChangeCode,
    ChangeCollector,
    EncodedRequest,
    LineSplitter,
    assemble_message,
    build_cut_short,
    decode_error,
    select_extras,
)
from steno.wire import StreamDecoder as Decoder

__all__ = [
    "NAME",
    "StreamDecoder",
    "decode_error",
    "decode_request",
    "decode_response",
    "encode_request",
]
NAME = "lines"
_PARSE_ERRORS = (ValueError, TypeError, RecursionError)
"""The errors of parsing a malformed line."""
_LEFT_OUT = {Thinking: ChangeCode.THINKING, Image: ChangeCode.IMAGE, Opaque: ChangeCode.OPAQUE}


# -- responses ---------------------------------------------------------------------------------


class StreamDecoder(Decoder):
    """Decodes the lines of a response; the base class has `feed` and `close`."""

    def __init__(self, *, provider: str = NAME, model: str | None = None) -> None:
        super().__init__(LineSplitter(), self._read)
        self._is_done = False
        self._unknown: list[str] = []

    @property
    def envelope(self) -> dict[str, Any]:
        """Data outside of the message: here, the lines with an unknown keyword."""
        return {"unknown": self._unknown} if self._unknown else {}

    def _read(self, line: bytes, events: list[Event]) -> None:
        try:
            text = line.decode("utf-8-sig").strip()
            keyword, _, rest = text.partition(" ")
            match keyword:
                case "text":
                    events.append(TextDelta(0, _text(rest)))
                case "call":
                    events.append(ToolCallDelta(None, *_call(rest)))
                case "done":
                    self._is_done = True
                case "error":
                    raise decode_error(200, rest)
                case "":
                    pass  # a blank line keeps the connection open
                case _:
                    self._unknown.append(text)
        except _PARSE_ERRORS as exc:
            raise ProtocolError("lines: invalid line") from exc

    def _finish(self, events: list[Event]) -> None:
        if not self._is_done:
            raise build_cut_short()
        events.append(Finished(StopReason.END_TURN))


def decode_response(
    data: bytes | str, *, provider: str = NAME, model: str | None = None
) -> AssistantMessage:
    decoder = StreamDecoder()
    body = data.encode() if isinstance(data, str) else data
    return assemble_message([*decoder.feed(body), *decoder.close()])


def _text(quoted: str) -> str:
    text = json.loads(quoted)
    if isinstance(text, str):
        return text
    raise TypeError("expected a string")


def _call(rest: str) -> tuple[str, str, str]:
    """Split a call into id, name and arguments; arguments that are not JSON are in quotes."""
    id, name, arguments = rest.split(" ", 2)
    return unquote(id), unquote(name), _text(arguments) if arguments[:1] == '"' else arguments


# -- encoding requests -------------------------------------------------------------------------


def encode_request(request: Request, *, stream: bool | None = None) -> EncodedRequest:
    losses = ChangeCollector()
    lines = [f"model {json.dumps(request.model)}"] if request.model else []
    for tool in request.tools:
        fields = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        lines.append(f"tool {json.dumps(fields, default=dict)}")
    for number, message in enumerate(request.messages):
        losses.place = f"messages[{number}]"
        lines += _lines(message)
        _note_losses(message, losses)
    losses.place = "request"
    select_extras(request, NAME, losses)
    for name in ("max_tokens", "temperature", "top_p", "stop", "tool_choice"):
        if getattr(request, name) not in (None, ()):
            losses.note(ChangeCode.SETTING, "left_out", names=(name,))
    return EncodedRequest("\n".join(lines).encode(), tuple(losses.found))


def _lines(message: Message) -> Iterator[str]:
    match message:
        case AssistantMessage():
            for block in message.content:
                if isinstance(block, Text):
                    yield f"assistant {json.dumps(block.text)}"
                elif isinstance(block, AnyToolCall):
                    yield f"call {quote(block.id)} {quote(block.name)} {_arguments(block)}"
        case ToolResultMessage():
            keyword = "failed" if message.is_error else "result"
            yield f"{keyword} {quote(message.tool_call_id)} {json.dumps(message.text)}"
        case _ if message.text.strip():
            yield f"{message.role} {json.dumps(message.text)}"
        case _:
            pass  # no text, for example only an image: `_note_losses` reports it


def _arguments(call: AnyToolCall) -> str:
    """Return arguments in one line; in JSON a line break between tokens is only white space."""
    if isinstance(call, ToolCall):
        return call.arguments.strip().replace("\n", " ")
    return json.dumps(call.arguments)


def _note_losses(message: Message, losses: ChangeCollector) -> None:
    """Report the parts of a message that the protocol cannot express."""
    select_extras(message, NAME, losses)
    for number, block in enumerate(message.content):
        at = f".content[{number}]"
        select_extras(block, NAME, losses, at=at)
        if getattr(block, "seal", None):
            losses.note(ChangeCode.SEAL, "left_out", at=at)
        if not isinstance(block, Text | AnyToolCall):
            code = _LEFT_OUT.get(type(block), ChangeCode.REFERENCE)
            losses.note(code, "left_out", at=at)


# -- decoding requests -------------------------------------------------------------------------


def decode_request(data: bytes | str, *, provider: str = NAME) -> Request:
    model, tools, messages = "", list[ToolDefinition](), list[Message]()
    try:
        body = data if isinstance(data, str) else data.decode("utf-8-sig")
        for line in body.split("\n"):
            keyword, _, rest = line.strip().partition(" ")
            match keyword:
                case "model":
                    model = _text(rest)
                case "tool":
                    tools.append(ToolDefinition(**json.loads(rest), strict=False))
                case "system":
                    messages.append(ChatMessage.system(_text(rest)))
                case "user":
                    messages.append(ChatMessage.user(_text(rest)))
                case "assistant":
                    _add(messages, Text(_text(rest)))
                case "call":
                    _add(messages, build_call(*_call(rest)))
                case "result" | "failed":
                    id, _, text = rest.partition(" ")
                    outcome = Outcome.OK if keyword == "result" else Outcome.ERROR
                    messages.append(
                        ChatMessage.tool_result(unquote(id), _text(text), outcome=outcome)
                    )
                case "":
                    pass
                case _:
                    raise ValueError("unknown keyword")
        return Request(model=model, tools=tuple(tools), messages=tuple(messages))
    except _PARSE_ERRORS as exc:
        raise InvalidRequest("lines: invalid line") from exc


def _add(messages: list[Message], block: Text | AnyToolCall) -> None:
    """Add a block to the last message of the assistant, or start a new one."""
    is_continued = messages and isinstance(messages[-1], AssistantMessage)
    before = messages.pop().content if is_continued else ()
    messages.append(AssistantMessage(content=(*before, block)))
