"""Read answers: whole ones and streams, by the same steps."""

from __future__ import annotations

from typing import Any, Final, final

import msgspec
from msgspec import Raw

from steno.errors import ProtocolError
from steno.event import (
    BlockAdded,
    Event,
    ExtrasAdded,
    Finished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
)
from steno.message import AssistantMessage
from steno.usage import StopReason
from steno.wire.extras import FORM
from steno.wire.fault import decode_error, is_error
from steno.wire.ollama_chat.framing import AnswerSplitter
from steno.wire.ollama_chat.shapes import (
    NAME,
    PROVIDER,
    Call,
    Function,
    Line,
    SpokenLine,
    WordsLine,
    image_of,
    stop_reason_of,
    usage_of,
)
from steno.wire.open import (
    NOT_AS_EXPECTED,
    Rest,
    mend,
    parsed,
    parsed_extras,
    plain,
    read_as,
    reader,
    text_of,
    text_with_halves,
)
from steno.wire.stream import StreamDecoder as BaseDecoder
from steno.wire.stream import assemble, cut_short

_TEXT: Final = 0
_THINKING: Final = 1
_FIRST_CALL: Final = 2

_decode_words: Final = msgspec.json.Decoder(WordsLine).decode
_decode_spoken: Final = msgspec.json.Decoder(SpokenLine).decode
_read: Final = reader(Line, NAME)
_NAMED: Final = frozenset({"role", "content", "thinking", "tool_calls", "images", FORM})
"""Members of a message that we write ourselves."""


def decode_response(
    data: bytes | str, *, provider: str = PROVIDER, model: str | None = None
) -> AssistantMessage:
    """Decode a whole answer. Raises ProviderError if it holds one, ProtocolError if it is none.

    `provider` and `model` are there as in every wire; this protocol seals nothing.
    """
    turn = _Turn()
    events: list[Event] = []
    turn.read(data.encode(errors="surrogatepass") if isinstance(data, str) else data, events)
    turn.finish_whole(events)
    return assemble(events)


@final
class StreamDecoder(BaseDecoder):
    """Decodes an answer that comes as lines of JSON, the last of them with `done`.

    A whole answer that is spread over many lines is one to it, too.
    """

    def __init__(self, *, provider: str = PROVIDER, model: str | None = None) -> None:
        """Start a new answer. `provider` and `model` are there as in every wire."""
        turn = _Turn()
        super().__init__(AnswerSplitter(), turn.read)
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
            raise cut_short()


@final
class _Turn:
    """One answer as it is read."""

    def __init__(self) -> None:
        self.last: Line | None = None
        self._first: Line | None = None
        self._call_count = 0
        self._ids: set[str] = set()
        self._unknown: Rest = {}
        self._message_members: Rest = {}
        """Members of the message itself, which the server takes back."""
        self._logprobs: list[Raw] = []

    @property
    def envelope(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for line in (self.last, self._first):  # what the first line says was so from the start
            found |= plain(line) if line is not None else {}
        for name in ("message", "done", "done_reason"):
            found.pop(name, None)
        found |= parsed(self._unknown)
        if self._logprobs:
            found["logprobs"] = [parsed({"": raw})[""] for raw in self._logprobs]
        return found

    def read_content_lines(self, payloads: list[bytes], events: list[Event]) -> bool:
        """Add the events of lines that say words and nothing else; False if one says more."""
        if self._first is None:
            return False
        try:
            events += [
                TextDelta(_TEXT, line.message.content)
                for line in map(_decode_spoken, payloads)
                if line.message.content
            ]
        except NOT_AS_EXPECTED:
            return False
        return True

    def read(self, payload: bytes, events: list[Event]) -> None:
        """Add the events of a line, or of a whole answer."""
        try:
            line = _decode_words(payload)
        except NOT_AS_EXPECTED:
            self._read_line(payload, events)
            return
        said = line.message
        if said is None or line.done or self._first is None:
            self._read_line(payload, events)
            return
        if said.thinking:
            events.append(ThinkingDelta(_THINKING, said.thinking))
        if said.content:
            events.append(TextDelta(_TEXT, said.content))

    def _read_line(self, payload: bytes, events: list[Event]) -> None:
        """Read a line of which we do not know what it holds."""
        mended = mend(payload, NAME)
        if not mended:
            return
        line = _read(mended)
        said = line.message
        if said is not None and mended not in payload:  # there are halves of pairs in it
            said.content = text_with_halves(payload, "message", "content") or said.content
            said.thinking = text_with_halves(payload, "message", "thinking") or said.thinking
        if line.rest is not None:
            self._read_unknown(mended, line.rest)
        if said is not None:
            if said.thinking:
                events.append(ThinkingDelta(_THINKING, said.thinking))
            if said.rest is not None:
                images = _take_list(said.rest, "images")
                events += [BlockAdded(_TEXT, image_of(image)) for image in images]
                self._unknown |= said.rest
                self._message_members |= said.rest
            if said.content:
                events.append(TextDelta(_TEXT, said.content))
            for call in said.tool_calls or ():
                self._read_call(call, events)
        if line.done and self.last is None:
            self.last = line
            self._add_message_extras(events)
            reason = stop_reason_of(line.done_reason)
            events.append(Finished(reason, line.done_reason, usage_of(line)))
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
            for name, value in parsed_extras(self._message_members).items()
            if name not in _NAMED and value is not None
        }
        if extras:
            events.append(ExtrasAdded(None, {NAME: extras}))

    def _read_call(self, call: Call, events: list[Event]) -> None:
        """Tell of a call, which is always whole: the server's own index says nothing about it."""
        index = _FIRST_CALL + self._call_count
        self._call_count += 1
        id = call.id if call.id not in self._ids else None
        function = call.function or Function()
        events.append(ToolCallDelta(index, id, function.name, _arguments(function.arguments)))
        extras = _extras(call, function)
        if id:
            self._ids.add(id)
        else:
            extras.setdefault(FORM, {})["id"] = "absent"  # one is made up, and not for the server
        if extras:
            events.append(ExtrasAdded(index, {NAME: extras}))
        events.append(ToolCallEnd(index))

    def _read_unknown(self, payload: bytes, rest: Rest) -> None:
        """Look for an error; keep all else."""
        if is_error(rest.get("error")):
            raise decode_error(200, payload)
        self._logprobs += _take_list(rest, "logprobs")
        self._unknown |= rest


def _take_list(rest: Rest, name: str) -> list[Raw]:
    found = read_as(rest.get(name), list[Raw])
    if found is not None:
        del rest[name]
    return found or []


def _arguments(raw: Raw) -> str:
    """Return the text of an object as it came; some servers put it into a string."""
    text = text_of(raw)
    if text == "null":
        return ""
    return read_as(raw, str) or "" if text.startswith('"') else text


def _extras(call: Call, function: Function) -> dict[str, Any]:
    extras = parsed_extras(call.rest)
    if function.rest is not None:
        extras["function"] = parsed_extras(function.rest)
    form = {"type": call.type, "index": function.index}
    form = {name: value for name, value in form.items() if value is not None}
    return extras | ({FORM: form} if form else {})
