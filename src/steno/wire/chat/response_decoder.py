"""Decode responses in the flat chat JSON of steno: one message, or a stream of lines."""

from __future__ import annotations

from typing import Any, Final, final

from msgspec import Raw

from steno.assemble import ToolCallPart, WireEvent
from steno.errors import ProtocolError
from steno.messages.content import Opaque
from steno.messages.event import BlockAdded, ExtrasAdded, Finished, TextDelta
from steno.messages.usage import StopReason, Usage
from steno.values import FORM_KEY
from steno.wire import response_decoder as base
from steno.wire import tolerant
from steno.wire.chat.payload import NAME, PROVIDER, STOP_REASONS, USAGE, Call, MessageChunk
from steno.wire.errors import decode_error, is_error
from steno.wire.extras import Members
from steno.wire.framing import LineSplitter
from steno.wire.tolerant import RawMembers, raw_text, read_as

_TEXT_INDEX: Final = 1 << 20
"""The index of the text; fragments of calls have the index that the server sends, from 0."""
_FIRST_WHOLE_CALL: Final = _TEXT_INDEX + 1
"""The index of the first whole call; each later whole call has the next index."""

_read_chunk: Final = tolerant.build_reader(MessageChunk, NAME)


@final
class StreamDecoder(base.StreamDecoder):
    """Decodes a response that is streamed as lines of JSON; the last line has a `stop_reason`."""

    def __init__(self, *, provider: str = PROVIDER, model: str | None = None) -> None:
        """Create a decoder for one response.

        `provider` and `model` are ignored: other wires bind seals, such as signatures, to them, but
        this protocol has no seals.
        """
        super().__init__(LineSplitter(), self._read)
        self._has_message = False
        self._is_finished = False
        self._call_count = 0
        self._usage: Usage | None = None
        self._envelope: Members = {}

    @property
    def envelope(self) -> dict[str, Any]:
        """The metadata of the response: all members that are not part of the message."""
        return self._envelope

    def _read(self, payload: bytes, events: list[WireEvent]) -> None:
        repaired = tolerant.repair_json(payload, NAME)
        if not repaired:
            return
        chunk = _read_chunk(repaired)
        if repaired not in payload:  # the payload contains lone surrogates
            tolerant.restore_surrogates(chunk, payload)
        if chunk.rest is not None:
            self._read_unknown(repaired, chunk.rest, events)
        if chunk.role is not None and chunk.role.lower() != "assistant":
            raise ProtocolError(
                "the role of a response must be assistant",
                code="unexpected_role",
                place=NAME,
            )
        if chunk.content:
            events.append(TextDelta(_TEXT_INDEX, chunk.content))
        if chunk.index is not None or chunk.arguments_delta is not None:
            events.append(ToolCallPart(chunk.index, chunk.id, chunk.name, chunk.arguments_delta))
        else:
            metadata = {"id": chunk.id, "name": chunk.name}
            self._envelope |= {name: text for name, text in metadata.items() if text is not None}
        for call in chunk.tool_calls or ():
            self._read_call(call, events)
        self._has_message = self._has_message or chunk.role is not None or bool(events)
        if chunk.usage is not None:
            self._usage = Usage(**base.read_counts(chunk.usage, USAGE))
            absent = [name for name in USAGE if chunk.usage.get(name) is None]
            self._envelope["usage"] = {
                name: count for name, count in chunk.usage.items() if name not in absent
            }
        if chunk.stop_reason is not None and not self._is_finished:
            self._is_finished = True
            raw = chunk.raw_stop_reason or chunk.stop_reason
            events.append(
                Finished(base.map_stop_reason(STOP_REASONS, chunk.stop_reason), raw, self._usage)
            )

    def _read_whole(self, data: bytes, events: list[WireEvent]) -> None:
        self._read(data, events)
        if not self._has_message:
            raise ProtocolError(
                "the response is not an assistant message", code="message_missing", place=NAME
            )
        if not self._is_finished:  # a whole response is complete, even without a stop reason
            events.append(Finished(StopReason.END_TURN, usage=self._usage))

    def _finish(self, events: list[WireEvent]) -> None:
        if not self._is_finished:
            raise base.build_cut_short()

    def _read_call(self, call: Call, events: list[WireEvent]) -> None:
        """Add the events of a whole call, with an index that no fragment has."""
        index = _FIRST_WHOLE_CALL + self._call_count
        self._call_count += 1
        function = call.function or call
        events.append(
            ToolCallPart(
                index, call.id, function.name, tolerant.read_arguments_text(function.arguments)
            )
        )
        extras = tolerant.parse_extras(call.rest) | (
            {} if call.type is None else {"type": call.type}
        )
        if call.function is not None:
            extras[FORM_KEY] = {"function": "inside"}
            if call.function.rest is not None:
                extras["function"] = tolerant.parse_extras(call.function.rest)
        if extras:
            events.append(ExtrasAdded(index, {NAME: extras}))
        events.append(ToolCallPart(index, ends=True))

    def _read_unknown(self, payload: bytes, rest: RawMembers, events: list[WireEvent]) -> None:
        """Read the members that `MessageChunk` does not declare.

        Content that is a list is read part by part, and other members are kept as metadata. Raises
        ProviderError if the payload reports an error.
        """
        if is_error(rest.get("error")):
            raise decode_error(200, payload)
        for part in tolerant.take_member(rest, "content", list[Raw]) or ():
            events += _read_part(part)
        self._envelope |= tolerant.parse_members(rest)


decode_response: Final = base.build_decode_response(StreamDecoder, PROVIDER)


def _read_part(raw: Raw) -> list[WireEvent]:
    """Return the events of a content part; a part that is not text becomes an opaque block."""
    members = read_as(raw, dict[str, Raw]) or {}
    kind = read_as(members.pop("type", None), str) or ""
    text = read_as(members.pop("text", None), str) if kind == "text" else None
    if text is None:
        return [BlockAdded(_TEXT_INDEX, Opaque(kind=kind, raw=raw_text(raw), origin=NAME))]
    extras = ExtrasAdded(_TEXT_INDEX, {NAME: tolerant.parse_extras(members)})
    return [TextDelta(_TEXT_INDEX, text), *([extras] if members else [])]
