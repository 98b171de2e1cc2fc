"""Read answers: whole ones and streams, by the same steps."""

from __future__ import annotations

from typing import Any, Final, final

import msgspec
from msgspec import Raw

from steno.errors import ProtocolError
from steno.messages.event import (
    BlockAdded,
    Event,
    ExtrasAdded,
    Finished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
)
from steno.messages.message import AssistantMessage
from steno.messages.usage import StopReason
from steno.wire.byte_buffer import ByteBuffer
from steno.wire.errors import decode_error, is_error
from steno.wire.extras import FORM_KEY
from steno.wire.ndjson import LineSplitter
from steno.wire.ollama_chat.payload import (
    NAME,
    PROVIDER,
    Call,
    ChatResponse,
    ContentLine,
    Function,
    TextLine,
    map_stop_reason,
    read_image,
    read_usage,
)
from steno.wire.response_decoder import StreamDecoder as BaseDecoder
from steno.wire.response_decoder import assemble_message, build_cut_short
from steno.wire.tolerant import (
    DECODE_ERRORS,
    RawMembers,
    build_reader,
    parse_extras,
    parse_members,
    raw_text,
    read_as,
    read_split_text,
    repair_json,
    to_builtins,
)

# -- framing ---------------------------------------------------------------------------------------
#
# How an answer is cut into pieces: a JSON object a line, or one object over many lines.
#
# The first line tells which: the server writes every object on a line of its own, but a whole
# answer may have been made readable on its way, and then it begins with a brace alone.


_BOM: Final = b"\xef\xbb\xbf"


@final
class LineOrObjectSplitter(ByteBuffer):
    """Gives out whole lines; those of an answer that is spread over them together, at its end."""

    __slots__ = ("_is_spread", "_lines")

    def __init__(self) -> None:
        """Start at the beginning of an answer."""
        super().__init__()
        self._lines = LineSplitter()
        self._is_spread: bool | None = None
        """None before the first line that is not blank."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take more bytes; return the payloads that are whole now. Raises ProtocolError."""
        lines = self._lines.feed(data)
        if self._is_spread is None:
            self._is_spread = _is_multiline_object(lines)
        if not self._is_spread:
            return lines
        for line in lines:
            self._hold(line + b"\n")
        return []

    def close(self) -> list[bytes]:
        """Return what is left at the end."""
        left = self._lines.close()
        return [self._join(b"".join(left))] if self._is_spread else left


def _is_multiline_object(lines: list[bytes]) -> bool | None:
    for line in lines:
        start = line.removeprefix(_BOM).strip()
        if start:
            return start == b"{"
    return None


_TEXT_INDEX: Final = 0


_THINKING_INDEX: Final = 1


_FIRST_CALL_INDEX: Final = 2


_decode_text_line: Final = msgspec.json.Decoder(TextLine).decode


_decode_content_line: Final = msgspec.json.Decoder(ContentLine).decode


_read_chat_response: Final = build_reader(ChatResponse, NAME)


_WRITTEN_FIELDS: Final = frozenset(
    {"role", "content", "thinking", "tool_calls", "images", FORM_KEY}
)
"""Members of a message that we write ourselves."""


def decode_response(
    data: bytes | str, *, provider: str = PROVIDER, model: str | None = None
) -> AssistantMessage:
    """Decode a whole answer. Raises ProviderError if it holds one, ProtocolError if it is none.

    `provider` and `model` are there as in every wire; this protocol seals nothing.
    """
    turn = _OllamaResponseReader()
    events: list[Event] = []
    turn.read(data.encode(errors="surrogatepass") if isinstance(data, str) else data, events)
    turn.finish_whole(events)
    return assemble_message(events)


@final
class StreamDecoder(BaseDecoder):
    """Decodes an answer that comes as lines of JSON, the last of them with `done`.

    A whole answer that is spread over many lines is one to it, too.
    """

    def __init__(self, *, provider: str = PROVIDER, model: str | None = None) -> None:
        """Start a new answer. `provider` and `model` are there as in every wire."""
        turn = _OllamaResponseReader()
        super().__init__(LineOrObjectSplitter(), turn.read)
        self._response = turn

    @property
    def envelope(self) -> dict[str, Any]:
        """What the server said about its answer, beside the message; durations in nanoseconds."""
        return self._response.envelope

    def _read_chunk(self, data: bytes, events: list[Event]) -> None:
        payloads = self._splitter.feed(data)
        if len(payloads) == 1:
            self._response.read(payloads[0], events)
        elif not self._response.read_content_lines(payloads, events):
            for payload in payloads:
                self._decode(payload, events)

    def _finish(self, events: list[Event]) -> None:
        if self._response.last is None:
            raise build_cut_short()


@final
class _OllamaResponseReader:
    """One answer as it is read."""

    def __init__(self) -> None:
        self.last: ChatResponse | None = None
        self._first: ChatResponse | None = None
        self._call_count = 0
        self._ids: set[str] = set()
        self._unknown: RawMembers = {}
        self._message_members: RawMembers = {}
        """Members of the message itself, which the server takes back."""
        self._logprobs: list[Raw] = []

    @property
    def envelope(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for line in (self.last, self._first):  # what the first line says was so from the start
            found |= to_builtins(line) if line is not None else {}
        for name in ("message", "done", "done_reason"):
            found.pop(name, None)
        found |= parse_members(self._unknown)
        if self._logprobs:
            found["logprobs"] = [parse_members({"": raw})[""] for raw in self._logprobs]
        return found

    def read_content_lines(self, payloads: list[bytes], events: list[Event]) -> bool:
        """Add the events of lines that say words and nothing else; False if one says more."""
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

    def read(self, payload: bytes, events: list[Event]) -> None:
        """Add the events of a line, or of a whole answer."""
        try:
            line = _decode_text_line(payload)
        except DECODE_ERRORS:
            self._read_line(payload, events)
            return
        said = line.message
        if said is None or line.done or self._first is None:
            self._read_line(payload, events)
            return
        if said.thinking:
            events.append(ThinkingDelta(_THINKING_INDEX, said.thinking))
        if said.content:
            events.append(TextDelta(_TEXT_INDEX, said.content))

    def _read_line(self, payload: bytes, events: list[Event]) -> None:
        """Read a line of which we do not know what it holds."""
        mended = repair_json(payload, NAME)
        if not mended:
            return
        line = _read_chat_response(mended)
        said = line.message
        if said is not None and mended not in payload:  # there are halves of pairs in it
            said.content = read_split_text(payload, "message", "content") or said.content
            said.thinking = read_split_text(payload, "message", "thinking") or said.thinking
        if line.rest is not None:
            self._read_unknown(mended, line.rest)
        if said is not None:
            if said.thinking:
                events.append(ThinkingDelta(_THINKING_INDEX, said.thinking))
            if said.rest is not None:
                images = _take_list(said.rest, "images")
                events += [BlockAdded(_TEXT_INDEX, read_image(image)) for image in images]
                self._unknown |= said.rest
                self._message_members |= said.rest
            if said.content:
                events.append(TextDelta(_TEXT_INDEX, said.content))
            for call in said.tool_calls or ():
                self._read_call(call, events)
        if line.done and self.last is None:
            self.last = line
            self._add_message_extras(events)
            reason = map_stop_reason(line.done_reason)
            events.append(Finished(reason, line.done_reason, read_usage(line)))
        self._first = self._first or line

    def finish_whole(self, events: list[Event]) -> None:
        """Add the end of a whole answer that does not say that it is one."""
        if self.last is None:
            if self._first is None or self._first.message is None:
                raise ProtocolError(f"{NAME}: not as expected: there is no message in it")
            self._add_message_extras(events)
            events.append(Finished(StopReason.UNKNOWN))

    def _add_message_extras(self, events: list[Event]) -> None:
        """Tell what came with the message and has no name here; what has one is of no use so."""
        extras = {
            name: value
            for name, value in parse_extras(self._message_members).items()
            if name not in _WRITTEN_FIELDS and value is not None
        }
        if extras:
            events.append(ExtrasAdded(None, {NAME: extras}))

    def _read_call(self, call: Call, events: list[Event]) -> None:
        """Tell of a call, which is always whole: the server's own index says nothing about it."""
        index = _FIRST_CALL_INDEX + self._call_count
        self._call_count += 1
        id = call.id if call.id not in self._ids else None
        function = call.function or Function()
        events.append(ToolCallDelta(index, id, function.name, _read_arguments(function.arguments)))
        extras = _read_call_extras(call, function)
        if id:
            self._ids.add(id)
        else:
            extras.setdefault(FORM_KEY, {})["id"] = (
                "absent"  # one is made up, and not for the server
            )
        if extras:
            events.append(ExtrasAdded(index, {NAME: extras}))
        events.append(ToolCallEnd(index))

    def _read_unknown(self, payload: bytes, rest: RawMembers) -> None:
        """Look for an error; keep all else."""
        if is_error(rest.get("error")):
            raise decode_error(200, payload)
        self._logprobs += _take_list(rest, "logprobs")
        self._unknown |= rest


def _take_list(rest: RawMembers, name: str) -> list[Raw]:
    found = read_as(rest.get(name), list[Raw])
    if found is not None:
        del rest[name]
    return found or []


def _read_arguments(raw: Raw) -> str:
    """Return the text of an object as it came; some servers put it into a string."""
    text = raw_text(raw)
    if text == "null":
        return ""
    return read_as(raw, str) or "" if text.startswith('"') else text


def _read_call_extras(call: Call, function: Function) -> dict[str, Any]:
    extras = parse_extras(call.rest)
    if function.rest is not None:
        extras["function"] = parse_extras(function.rest)
    form = {"type": call.type, "index": function.index}
    form = {name: value for name, value in form.items() if value is not None}
    return extras | ({FORM_KEY: form} if form else {})
