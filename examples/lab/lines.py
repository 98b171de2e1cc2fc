"""A wire of one's own, for example 16: each line is a word, maybe names, and JSON.

user "What is 1 + 2?"
call c1 add {"a": 1, "b": 2}
result c1 "3"
say "It is 3."
done
"""

import json
from typing import Any

from steno import InvalidRequest, ProtocolError, Request, StopReason, Text, ToolCall
from steno.event import Event, Finished, TextDelta, ToolCallDelta
from steno.message import AssistantMessage
from steno.wire import Encoded, Loss, LossCode
from steno.wire import StreamDecoder as Decoder
from steno.wire.fault import decode_error
from steno.wire.ndjson import LineSplitter
from steno.wire.stream import assemble, cut_short

__all__ = [
    "NAME",
    "StreamDecoder",
    "decode_error",
    "decode_request",
    "decode_response",
    "encode_request",
]
NAME = "lines"


class StreamDecoder(Decoder):
    """Reads the lines of an answer; `feed` and `close` are those of every wire."""

    def __init__(self, *, provider: str = NAME, model: str | None = None) -> None:
        super().__init__(LineSplitter(), self._read)
        self._word = ""

    @property
    def envelope(self) -> dict[str, Any]:
        """Lines say nothing beside the message."""
        return {}

    def _read(self, line: bytes, events: list[Event]) -> None:
        try:
            self._word, _, rest = line.decode().strip().partition(" ")
            if self._word == "say":
                events.append(TextDelta(0, json.loads(rest)))
            elif self._word == "call":
                id, name, arguments = rest.split(" ", 2)
                events.append(ToolCallDelta(None, id, name, arguments))
        except ValueError as exc:
            raise ProtocolError("lines: not as expected") from exc

    def _finish(self, events: list[Event]) -> None:
        if self._word != "done":
            raise cut_short()
        events.append(Finished(StopReason.END_TURN))


def decode_response(
    data: bytes | str, *, provider: str = NAME, model: str | None = None
) -> AssistantMessage:
    decoder = StreamDecoder()
    body = data.encode() if isinstance(data, str) else data
    return assemble([*decoder.feed(body), *decoder.close()])


def decode_request(data: bytes | str, *, provider: str = NAME) -> Request:
    raise InvalidRequest("lines: recorded requests are not read")


def encode_request(request: Request, *, stream: bool | None = None) -> Encoded:
    lines: list[str] = []
    losses: list[Loss] = []
    for number, message in enumerate(request.messages):
        if not all(isinstance(block, Text | ToolCall) for block in message.content):
            # What a wire has no word for it leaves out, and says so.
            losses.append(Loss(LossCode.OPAQUE, f"messages[{number}]", "left out all but text"))
        word = f"result {message.tool_call_id}" if message.tool_call_id else str(message.role)
        lines += [f"{word} {json.dumps(message.text)}"] if message.text else []
        lines += [f"call {call.id} {call.name} {call.arguments}" for call in message.tool_calls]
    return Encoded("\n".join(lines).encode(), tuple(losses))
