"""Read answers: one flat message, or lines with parts of one."""

from __future__ import annotations

from typing import Any, Final, final

from msgspec import Raw

from steno.errors import ProtocolError
from steno.messages.content import Opaque
from steno.messages.event import BlockAdded, Event, ExtrasAdded, Finished, TextDelta, ToolCallDelta
from steno.messages.message import AssistantMessage
from steno.messages.usage import StopReason, Usage
from steno.wire.chat.payload import NAME, PROVIDER, Call, MessageChunk, map_stop_reason, read_usage
from steno.wire.errors import decode_error, is_error
from steno.wire.extras import FORM_KEY
from steno.wire.ndjson import LineSplitter
from steno.wire.response_decoder import StreamDecoder as BaseDecoder
from steno.wire.response_decoder import assemble_message, build_cut_short
from steno.wire.tolerant import (
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

_TEXT_INDEX: Final = -1
_FIRST_CALL_INDEX: Final = -2
"""What is counted down from for whole calls: fragments of others are counted up from 0."""

_read_chunk: Final = build_reader(MessageChunk, NAME)


def decode_response(
    data: bytes | str, *, provider: str = PROVIDER, model: str | None = None
) -> AssistantMessage:
    """Decode an assistant message. Raises ProtocolError if it is none, ProviderError for an error.

    `provider` and `model` are there as in every wire; this protocol seals nothing.
    """
    turn = _ChatResponseReader()
    events: list[Event] = []
    turn.read(data.encode(errors="surrogatepass") if isinstance(data, str) else data, events)
    if not turn.has_message:
        raise ProtocolError(f"{NAME}: not as expected: an assistant message")
    if not turn.is_finished:  # it is whole, whether it says so or not
        events.append(Finished(StopReason.END_TURN, usage=turn.usage))
    return assemble_message(events)


@final
class StreamDecoder(BaseDecoder):
    """Decodes an answer that comes as lines of JSON, the last of them with a `stop_reason`."""

    def __init__(self, *, provider: str = PROVIDER, model: str | None = None) -> None:
        """Start a new answer. `provider` and `model` are there as in every wire."""
        turn = _ChatResponseReader()
        super().__init__(LineSplitter(), turn.read)
        self._response = turn

    @property
    def envelope(self) -> dict[str, Any]:
        """What was said beside the message."""
        return self._response.envelope

    def _finish(self, events: list[Event]) -> None:
        if not self._response.is_finished:
            raise build_cut_short()


@final
class _ChatResponseReader:
    """One answer as it is read."""

    def __init__(self) -> None:
        self.has_message = False
        self.is_finished = False
        self._call_count = 0
        self.usage: Usage | None = None
        self.envelope: dict[str, Any] = {}

    def read(self, payload: bytes, events: list[Event]) -> None:
        """Add the events of a line, or of a whole message."""
        mended = repair_json(payload, NAME)
        if not mended:
            return
        said = _read_chunk(mended)
        if mended not in payload:  # there are halves of pairs in it
            said.content = read_split_text(payload, "content") or said.content
            delta = read_split_text(payload, "arguments_delta")
            said.arguments_delta = delta or said.arguments_delta
        if said.rest is not None:
            self._read_unknown(mended, said.rest, events)
        if said.role is not None and said.role.lower() != "assistant":
            raise ProtocolError(f"{NAME}: not as expected: the role of an answer is assistant")
        if said.content:
            events.append(TextDelta(_TEXT_INDEX, said.content))
        if said.index is not None or said.arguments_delta is not None:
            events.append(ToolCallDelta(said.index, said.id, said.name, said.arguments_delta))
        else:
            about = {"id": said.id, "name": said.name}
            self.envelope |= {name: text for name, text in about.items() if text is not None}
        for call in said.tool_calls or ():
            self._read_call(call, events)
        self.has_message = self.has_message or said.role is not None or bool(events)
        if said.usage is not None:
            self.usage = read_usage(said.usage)
            self.envelope["usage"] = to_builtins(said.usage)
        if said.stop_reason is not None and not self.is_finished:
            self.is_finished = True
            raw = said.raw_stop_reason or said.stop_reason
            events.append(Finished(map_stop_reason(said.stop_reason), raw, self.usage))

    def _read_call(self, call: Call, events: list[Event]) -> None:
        """Tell of a whole call, under an index that no fragment has."""
        index = _FIRST_CALL_INDEX - self._call_count
        self._call_count += 1
        function = call.function or call
        events.append(
            ToolCallDelta(index, call.id, function.name, _read_arguments(function.arguments))
        )
        extras = parse_extras(call.rest) | ({} if call.type is None else {"type": call.type})
        if call.function is not None:
            extras[FORM_KEY] = {"function": "inside"}
            if call.function.rest is not None:
                extras["function"] = parse_extras(call.function.rest)
        if extras:
            events.append(ExtrasAdded(index, {NAME: extras}))

    def _read_unknown(self, payload: bytes, rest: RawMembers, events: list[Event]) -> None:
        """Look for an error, and for content in parts; keep all else."""
        if is_error(rest.get("error")):
            raise decode_error(200, payload)
        parts = read_as(rest.get("content"), list[Raw])
        if parts is not None:
            del rest["content"]
            for part in parts:
                events += _read_part(part)
        self.envelope |= parse_members(rest)


def _read_part(raw: Raw) -> list[Event]:
    """Read a part of a content that is a list: text, or something to be kept."""
    members = read_as(raw, dict[str, Raw]) or {}
    kind = read_as(members.pop("type", None), str) or ""
    text = read_as(members.pop("text", None), str) if kind == "text" else None
    if text is None:
        return [BlockAdded(_TEXT_INDEX, Opaque(kind=kind, raw=raw_text(raw), origin=NAME))]
    extras = ExtrasAdded(_TEXT_INDEX, {NAME: parse_extras(members)})
    return [TextDelta(_TEXT_INDEX, text), *([extras] if members else [])]


def _read_arguments(raw: Raw) -> str:
    """Return the text of an object as it came, also of one in a string."""
    text = raw_text(raw)
    if text == "null":
        return ""
    return read_as(raw, str) or "" if text.startswith('"') else text
