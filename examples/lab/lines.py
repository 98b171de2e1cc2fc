"""A wire of one's own, for example 16: each line is a word, maybe names, and JSON.

    model "m"
    tool {"name": "add", "description": "Add two numbers.", "parameters": {...}}
    user "What is 1 + 2?"
    call c1 add {"a": 1, "b": 2}
    result c1 "3"

That is a request; a call that went wrong has `failed` for `result`. The answer to it:

    say "It is 3."
    done

An answer may hold calls as well, and `fail "why"` breaks it off. Names are written as in a URL.
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
_ODD = (ValueError, TypeError, RecursionError)
"""What comes of reading a line that is none of ours."""
_LEFT_OUT = {Thinking: ChangeCode.THINKING, Image: ChangeCode.IMAGE, Opaque: ChangeCode.OPAQUE}


# -- answers -----------------------------------------------------------------------------------


class StreamDecoder(Decoder):
    """Reads the lines of an answer; `feed` and `close` are those of every wire."""

    def __init__(self, *, provider: str = NAME, model: str | None = None) -> None:
        super().__init__(LineSplitter(), self._read)
        self._is_done = False
        self._unknown: list[str] = []

    @property
    def envelope(self) -> dict[str, Any]:
        """What is said beside the message: here, what nobody has a word for yet."""
        return {"unknown": self._unknown} if self._unknown else {}

    def _read(self, line: bytes, events: list[Event]) -> None:
        try:
            text = line.decode("utf-8-sig").strip()
            word, _, rest = text.partition(" ")
            match word:
                case "say":
                    events.append(TextDelta(0, _text(rest)))
                case "call":
                    events.append(ToolCallDelta(None, *_call(rest)))
                case "done":
                    self._is_done = True
                case "fail":
                    raise decode_error(200, rest)
                case "":
                    pass  # it only keeps the connection open
                case _:
                    self._unknown.append(text)
        except _ODD as exc:
            raise ProtocolError("lines: not as expected") from exc

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
    raise TypeError("only a text may stand here")


def _call(rest: str) -> tuple[str, str, str]:
    """Read id, name and arguments; those stay as they came, and are in quotes if they are no JSON."""
    id, name, arguments = rest.split(" ", 2)
    return unquote(id), unquote(name), _text(arguments) if arguments[:1] == '"' else arguments


# -- requests, written -------------------------------------------------------------------------


def encode_request(request: Request, *, stream: bool | None = None) -> EncodedRequest:
    losses = ChangeCollector()
    lines = [f"model {json.dumps(request.model)}"] if request.model else []
    for tool in request.tools:
        told = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        lines.append(f"tool {json.dumps(told, default=dict)}")
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
            word = "failed" if message.is_error else "result"
            yield f"{word} {quote(message.tool_call_id)} {json.dumps(message.text)}"
        case _ if message.text.strip():
            yield f"{message.role} {json.dumps(message.text)}"
        case _:
            pass  # there is but an image, say, which is reported


def _arguments(call: AnyToolCall) -> str:
    """Return arguments as one line: in JSON a line feed is but a blank."""
    if isinstance(call, ToolCall):
        return call.arguments.strip().replace("\n", " ")
    return json.dumps(call.arguments)


def _note_losses(message: Message, losses: ChangeCollector) -> None:
    """What a wire has no word for it leaves out, and says so."""
    select_extras(message, NAME, losses)
    for number, block in enumerate(message.content):
        at = f".content[{number}]"
        select_extras(block, NAME, losses, at=at)
        if getattr(block, "seal", None):
            losses.note(ChangeCode.SEAL, "left_out", at=at)
        if not isinstance(block, Text | AnyToolCall):
            code = _LEFT_OUT.get(type(block), ChangeCode.REFERENCE)
            losses.note(code, "left_out", at=at)


# -- requests, read ----------------------------------------------------------------------------


def decode_request(data: bytes | str, *, provider: str = NAME) -> Request:
    model, tools, messages = "", list[ToolDefinition](), list[Message]()
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
        for line in text.split("\n"):
            word, _, rest = line.strip().partition(" ")
            match word:
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
                    id, _, said = rest.partition(" ")
                    outcome = Outcome.OK if word == "result" else Outcome.ERROR
                    messages.append(
                        ChatMessage.tool_result(unquote(id), _text(said), outcome=outcome)
                    )
                case "":
                    pass
                case _:
                    raise ValueError("there is no such word")
        return Request(model=model, tools=tuple(tools), messages=tuple(messages))
    except _ODD as exc:
        raise InvalidRequest("lines: not as expected") from exc


def _add(messages: list[Message], block: Text | AnyToolCall) -> None:
    """Go on with the turn of the model, or begin one."""
    is_turn = messages and isinstance(messages[-1], AssistantMessage)
    before = messages.pop().content if is_turn else ()
    messages.append(AssistantMessage(content=(*before, block)))
