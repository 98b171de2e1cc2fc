"""Decode responses of Ollama's `/api/chat`: lines of JSON, or one object over many lines."""

from __future__ import annotations

from typing import Any, Final, final

import msgspec
from msgspec import Raw

from steno.assemble import ToolCallPart, WireEvent
from steno.errors import ProtocolError
from steno.messages.event import BlockAdded, ExtrasAdded, Finished, TextDelta, ThinkingDelta
from steno.messages.usage import StopReason
from steno.values import FORM_KEY
from steno.wire import response_decoder as base
from steno.wire import tolerant
from steno.wire.errors import decode_error, is_error
from steno.wire.extras import Members
from steno.wire.framing import LineOrObjectSplitter
from steno.wire.ollama_chat.payload import (
    NAME,
    PROVIDER,
    STOP_REASONS,
    Call,
    ChatResponse,
    ContentLine,
    Function,
    TextLine,
    read_image,
    read_usage,
)
from steno.wire.tolerant import DECODE_ERRORS, RawMembers, take_member

_TEXT_INDEX: Final = 0
_THINKING_INDEX: Final = 1
_FIRST_CALL_INDEX: Final = 2
_WRITTEN_FIELDS: Final = frozenset(
    {"role", "content", "thinking", "tool_calls", "images", FORM_KEY}
)
"""Members of a message that the encoder writes and that are therefore not kept as extras."""
_decode_text_line: Final = msgspec.json.Decoder(TextLine).decode
_decode_content_line: Final = msgspec.json.Decoder(ContentLine).decode
_read_chat_response: Final = tolerant.build_reader(ChatResponse, NAME)


@final
class StreamDecoder(base.StreamDecoder):
    """Decodes a response that is streamed as lines of JSON; the last line has `done`.

    A whole response that spans many lines is also accepted.
    """

    def __init__(self, *, provider: str = PROVIDER, model: str | None = None) -> None:
        """Create a decoder for one response.

        `provider` and `model` are ignored: other wires bind seals, such as signatures, to them, but
        this protocol has no seals.
        """
        super().__init__(LineOrObjectSplitter(), self._read)
        self._first: ChatResponse | None = None
        self._last: ChatResponse | None = None
        self._call_count = 0
        self._ids: set[str] = set()
        self._unknown: RawMembers = {}
        self._message_members: RawMembers = {}
        """Unknown members of the message itself, which later requests send back."""
        self._logprobs: list[Raw] = []

    @property
    def envelope(self) -> dict[str, Any]:
        """The metadata of the response; durations are in nanoseconds."""
        found: Members = {}
        for line in (self._last, self._first):  # members of the first line take precedence
            found |= tolerant.to_builtins(line) if line is not None else {}
        for name in ("message", "done", "done_reason"):
            found.pop(name, None)
        found |= tolerant.parse_members(self._unknown)
        if self._logprobs:
            found["logprobs"] = [tolerant.parse_value(raw) for raw in self._logprobs]
        return found

    def _read_chunk(self, data: bytes, events: list[WireEvent]) -> None:
        payloads = self._splitter.feed(data)
        if len(payloads) == 1:
            self._read(payloads[0], events)
        elif not self._read_content_lines(payloads, events):
            for payload in payloads:
                self._read(payload, events)

    def _read_content_lines(self, payloads: list[bytes], events: list[WireEvent]) -> bool:
        """Add the events of lines that contain only text; return whether this was possible.

        If a line contains more, or if no line was read before, no event is added.
        """
        if self._first is None:
            return False
        try:
            events += [
                TextDelta(_TEXT_INDEX, line.message.content)
                for line in map(_decode_content_line, payloads)
                if line.message.content
            ]
        except DECODE_ERRORS:
            return False
        return True

    def _read(self, payload: bytes, events: list[WireEvent]) -> None:
        try:
            line = _decode_text_line(payload)
        except DECODE_ERRORS:
            self._read_line(payload, events)
            return
        message = line.message
        if message is None or line.done or self._first is None:
            self._read_line(payload, events)
            return
        if message.thinking:
            events.append(ThinkingDelta(_THINKING_INDEX, message.thinking))
        if message.content:
            events.append(TextDelta(_TEXT_INDEX, message.content))

    def _read_line(self, payload: bytes, events: list[WireEvent]) -> None:
        repaired = tolerant.repair_json(payload, NAME)
        if not repaired:
            return
        line = _read_chat_response(repaired)
        message = line.message
        if repaired not in payload:  # the payload contains lone surrogates
            tolerant.restore_surrogates(line, payload)
        if line.rest is not None:
            if is_error(line.rest.get("error")):
                raise decode_error(200, repaired)
            self._logprobs += take_member(line.rest, "logprobs", list[Raw]) or []
            self._unknown |= line.rest
        if message is not None:
            if message.thinking:
                events.append(ThinkingDelta(_THINKING_INDEX, message.thinking))
            if message.rest is not None:
                images = take_member(message.rest, "images", list[Raw]) or ()
                events += [BlockAdded(_TEXT_INDEX, read_image(image)) for image in images]
                self._unknown |= message.rest
                self._message_members |= message.rest
            if message.content:
                events.append(TextDelta(_TEXT_INDEX, message.content))
            for call in message.tool_calls or ():
                self._read_call(call, events)
        if line.done and self._last is None:
            self._last = line
            self._add_message_extras(events)
            reason = base.map_stop_reason(STOP_REASONS, line.done_reason)
            events.append(Finished(reason, line.done_reason, read_usage(line)))
        self._first = self._first or line

    def _read_whole(self, data: bytes, events: list[WireEvent]) -> None:
        """Add the events of a response that is not streamed, with or without `done`."""
        self._read(data, events)
        if self._last is None:
            if self._first is None or self._first.message is None:
                raise ProtocolError(
                    "the response has no message", code="message_missing", place=NAME
                )
            self._add_message_extras(events)
            events.append(Finished(StopReason.UNKNOWN))

    def _finish(self, events: list[WireEvent]) -> None:
        if self._last is None:
            raise base.build_cut_short()

    def _add_message_extras(self, events: list[WireEvent]) -> None:
        """Add the members of the message that the encoder does not write, as extras."""
        extras = {
            name: value
            for name, value in tolerant.parse_extras(self._message_members).items()
            if name not in _WRITTEN_FIELDS and value is not None
        }
        if extras:
            events.append(ExtrasAdded(None, {NAME: extras}))

    def _read_call(self, call: Call, events: list[WireEvent]) -> None:
        """Add the events of a call, which is always whole.

        The index that the server sends is recorded in a note, but not used as the index of the
        block.
        """
        index = _FIRST_CALL_INDEX + self._call_count
        self._call_count += 1
        id = call.id if call.id not in self._ids else None
        function = call.function or Function()
        events.append(
            ToolCallPart(index, id, function.name, tolerant.read_arguments_text(function.arguments))
        )
        extras = _read_call_extras(call, function)
        if id:
            self._ids.add(id)
        else:
            # The assembler generates an id, which is not sent to the server.
            extras.setdefault(FORM_KEY, {})["id"] = "absent"
        if extras:
            events.append(ExtrasAdded(index, {NAME: extras}))
        events.append(ToolCallPart(index, ends=True))


decode_response: Final = base.build_decode_response(StreamDecoder, PROVIDER)


def _read_call_extras(call: Call, function: Function) -> Members:
    extras = tolerant.parse_extras(call.rest)
    if function.rest is not None:
        extras["function"] = tolerant.parse_extras(function.rest)
    form = {"type": call.type, "index": function.index}
    form = {name: value for name, value in form.items() if value is not None}
    return extras | ({FORM_KEY: form} if form else {})
