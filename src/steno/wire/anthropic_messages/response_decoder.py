"""Decode responses of the Messages API, streamed or whole, with the same reader.

Nearly all events are deltas of text, thinking or input, which have a fast, strict decoder. All
other events, and deltas that the fast decoder rejects, are read member by member, and unknown
members are kept.
"""

from __future__ import annotations

from typing import Any, Final, assert_never, final

import msgspec
from msgspec import Raw

from steno.assemble import ToolCallPart, WireEvent
from steno.errors import ProtocolError
from steno.json_object import check_depth, is_json_text
from steno.messages.call import NO_ARGUMENTS, Seal
from steno.messages.content import Opaque
from steno.messages.event import (
    BlockAdded,
    BlockSealed,
    ExtrasAdded,
    Finished,
    TextDelta,
    ThinkingDelta,
)
from steno.messages.usage import Usage
from steno.values import FORM_KEY
from steno.wire import response_decoder as base
from steno.wire import tolerant
from steno.wire.anthropic_messages.payload import (
    NAME,
    PROVIDER,
    STOP_REASONS,
    UNSIGNED,
    CitationsDeltaPayload,
    ContentBlockDelta,
    DeltaPayload,
    InputJsonDeltaPayload,
    SignatureDeltaPayload,
    TextDeltaPayload,
    ThinkingDeltaPayload,
    read_usage,
)
from steno.wire.errors import decode_error, is_error
from steno.wire.extras import Members
from steno.wire.framing import ErrorPayload
from steno.wire.repeated_events import TextOnlyEvent, build_arguments_delta
from steno.wire.request_encoder import STREAM_EVENT_PREFIX, encode_json
from steno.wire.tolerant import (
    DECODE_ERRORS,
    NULL,
    RawMembers,
    raw_text,
    read_as,
    read_members,
    take_member,
)

_EMPTY: Final = Raw(b"{}")
_decode_delta: Final = msgspec.json.Decoder(ContentBlockDelta).decode
_DELTA_TYPES: Final[dict[str, tuple[str, Any]]] = {
    "text_delta": ("text", TextDeltaPayload),
    "input_json_delta": ("partial_json", InputJsonDeltaPayload),
    "thinking_delta": ("thinking", ThinkingDeltaPayload),
    "signature_delta": ("signature", SignatureDeltaPayload),
    "citations_delta": ("citation", CitationsDeltaPayload),
}


@final
class _OpenBlock:
    """The state of a block that has not ended."""

    __slots__ = ("citations", "input", "is_call", "lacks_signature")

    def __init__(self) -> None:
        self.is_call = False
        self.input = ""
        """The input in the start event of the block, which input deltas replace."""
        self.citations: list[Any] = []
        self.lacks_signature = False
        """Whether the block is thinking without the member `signature`."""


@final
class StreamDecoder(base.SseStreamDecoder):
    """Decodes a response that is streamed as server-sent events."""

    def __init__(self, *, provider: str = PROVIDER, model: str | None = None) -> None:
        """Create a decoder for one response.

        Seals (signatures of thinking) are bound to `provider` and `model`.
        """
        super().__init__(self._read)
        self._provider = provider
        self._model = model
        self._stop_reason: str | None = None
        self._is_finished = False
        self._metadata: Members = {}
        self._tokens: Members | None = None
        self._open_blocks: dict[int, _OpenBlock] = {}
        self._unknown_blocks: dict[int, _UnknownBlockBuilder] = {}
        self._latest_index = 0

    @property
    def envelope(self) -> dict[str, Any]:
        """The metadata of the response."""
        return self._metadata | ({} if self._tokens is None else {"usage": self._tokens})

    @property
    def usage(self) -> Usage | None:
        """The token counts so far; input counts arrive first, and output counts last."""
        return None if self._tokens is None else read_usage(self._tokens)

    def _read_text_only(self, payload: bytes) -> TextOnlyEvent | None:
        try:
            more = _decode_delta(payload)
        except DECODE_ERRORS:
            return None
        if self._unknown_blocks:
            return None
        match more.delta:
            case TextDeltaPayload(text=text):
                return TextOnlyEvent(TextDelta, more.index, text)
            case ThinkingDeltaPayload(thinking=text):
                return TextOnlyEvent(ThinkingDelta, more.index, text)
            case InputJsonDeltaPayload(partial_json=text) if text:
                block = self._open_blocks.get(more.index)
                is_replaced = block is not None and block.input
                make = build_arguments_delta
                return None if is_replaced else TextOnlyEvent(make, more.index, text)
            case _:
                return None

    def _read(self, payload: bytes, events: list[WireEvent]) -> None:
        # A short function, because it runs for every token of a response.
        try:
            more = _decode_delta(payload)
        except DECODE_ERRORS:
            self._read_other(payload, events)
            return
        delta = more.delta
        if not self._unknown_blocks and type(delta) is TextDeltaPayload:
            events.append(TextDelta(more.index, delta.text))
        elif more.index in self._unknown_blocks:
            self._read_other(payload, events)
        else:
            self._extend_block(more.index, delta, events)

    def _read_whole(self, data: bytes, events: list[WireEvent]) -> None:
        members = read_members(tolerant.repair_json(data, NAME), NAME)
        kind = read_as(members.get("type"), str)
        if kind == "error" or is_error(members.get("error")):
            raise decode_error(200, data)
        if members.get("content", NULL) == NULL:
            raise ProtocolError("the response has no content", code="content_missing", place=NAME)
        self._read_message(members, events)
        self._end_turn(events)

    def _finish(self, events: list[WireEvent]) -> None:
        if not self._is_finished and self._stop_reason is None:
            raise base.build_cut_short()
        self._end_turn(events)

    def _end_turn(self, events: list[WireEvent]) -> None:
        """Add the events that end the turn, unless they were added before."""
        if self._is_finished:
            return
        self._is_finished = True
        for index in [*self._open_blocks, *self._unknown_blocks]:
            self._end_block(index, events)
        container = self._metadata.get("container")
        if isinstance(container, dict) and isinstance(container.get("id"), str):
            # The next request needs the id, to use the same files. A message has no member for it.
            events.append(ExtrasAdded(None, {NAME: {FORM_KEY: {"container": container["id"]}}}))
        reason = base.map_stop_reason(STOP_REASONS, self._stop_reason)
        events.append(Finished(reason, self._stop_reason, self.usage))

    def _abandon(self, events: list[WireEvent]) -> None:
        for index, block in self._open_blocks.items():
            _flush_block(index, block, events)
        events += [
            BlockAdded(index, block.build_unfinished())
            for index, block in self._unknown_blocks.items()
        ]
        self._open_blocks, self._unknown_blocks = {}, {}

    # -- events ------------------------------------------------------------------------------

    def _read_other(self, payload: bytes, events: list[WireEvent]) -> None:
        if type(payload) is ErrorPayload:
            raise decode_error(200, payload.data)
        if not payload.startswith(b"[DONE]"):
            self._read_event(payload, events)
        elif self._stop_reason is not None:  # some gateways end a stream as OpenAI does
            self._end_turn(events)

    def _read_event(self, payload: bytes, events: list[WireEvent]) -> None:
        repaired = tolerant.repair_json(payload, NAME)
        members = read_members(repaired, NAME)
        kind = take_member(members, "type", str)
        index = tolerant.take_index(members)
        if index is not None:
            self._latest_index = index
        match kind:
            case "message_start":
                self._read_message(read_members(members.pop("message", _EMPTY), NAME), events)
            case "content_block_start":
                self._begin_block(self._latest_index, members.pop("content_block", _EMPTY), events)
            case "content_block_delta":
                self._read_delta(members.pop("delta", _EMPTY), payload, repaired, events)
            case "content_block_stop":
                self._end_block(self._latest_index, events)
            case "message_delta":
                self._read_metadata(read_members(members.pop("delta", _EMPTY), NAME))
            case "message_stop":
                self._end_turn(events)
            case "ping":
                pass
            case _:
                if kind == "error" or is_error(members.get("error")):
                    raise decode_error(200, payload)
                self._keep_event(kind or "", repaired, events)
                return
        if members:
            self._read_metadata(members)

    def _keep_event(self, kind: str, payload: bytes, events: list[WireEvent]) -> None:
        event = f"{STREAM_EVENT_PREFIX}{kind}"
        block = Opaque(kind=event, raw=payload.decode(), origin=NAME)
        events.append(BlockAdded(self._latest_index, block))

    def _read_message(self, members: RawMembers, events: list[WireEvent]) -> None:
        """Read a whole message, or the start of a streamed message, which may contain blocks."""
        content = take_member(members, "content", list[Raw])
        self._read_metadata(members)
        for index, raw in enumerate(content or ()):
            self._begin_block(index, raw, events)
            self._end_block(index, events)

    def _read_metadata(self, members: RawMembers) -> None:
        """Read the metadata of the message; token counts are totals, so the latest ones apply.

        Null does not replace a value, because a delta has null for members that did not change.
        """
        tokens = take_member(members, "usage", Members)
        if tokens is not None:
            self._tokens = self._tokens or {}
            _update_known(self._tokens, tokens)
        _update_known(self._metadata, _parse_values(members))
        self._stop_reason = read_as(members.get("stop_reason"), str) or self._stop_reason

    def _read_delta(
        self, raw: Raw, payload: bytes, repaired: bytes, events: list[WireEvent]
    ) -> None:
        """Read a delta that the fast decoder rejects, or that extends an unknown block."""
        if self._latest_index in self._unknown_blocks:
            self._unknown_blocks[self._latest_index].deltas.append(raw)
            return
        members = read_members(raw, NAME)
        kind = take_member(members, "type", str) or ""
        if kind not in _DELTA_TYPES:
            self._keep_event("content_block_delta", repaired, events)
            return
        name, make = _DELTA_TYPES[kind]
        if kind == "citations_delta":
            citation = CitationsDeltaPayload(members.pop(name, NULL))
            self._extend_block(self._latest_index, citation, events)
        else:
            text = take_member(members, name, str) or ""
            if repaired not in payload and kind != "signature_delta":
                whole = tolerant.parse_with_surrogates(payload) or {"delta": {}}
                text = whole["delta"].get(name) or text
            self._extend_block(self._latest_index, make(text), events)
        self._metadata |= _parse_values(members)

    # -- blocks ------------------------------------------------------------------------------

    def _begin_block(self, index: int, raw: Raw, events: list[WireEvent]) -> None:
        self._end_block(index, events)  # some servers do not end the previous block
        members = read_members(raw, NAME)
        kind = take_member(members, "type", str) or ""
        block = _OpenBlock()
        match kind:
            case "text":
                text = take_member(members, "text", str)
                if text:
                    events.append(TextDelta(index, text))
            case "thinking":
                # Even for an empty text, because the signature needs a block.
                events.append(ThinkingDelta(index, take_member(members, "thinking", str) or ""))
                block.lacks_signature = "signature" not in members
                signature = take_member(members, "signature", str)
                if signature:
                    events.append(BlockSealed(index, self._seal(signature)))
            case "redacted_thinking" if data := take_member(members, "data", str):
                events.append(ThinkingDelta(index, "", redacted=True))
                events.append(BlockSealed(index, self._seal(data)))
            case "tool_use":
                block.is_call = True
                id, name = take_member(members, "id", str), take_member(members, "name", str)
                events.append(ToolCallPart(index, id, name, starts=True))
                text = raw_text(members.pop("input", NULL))
                # Anthropic sends an empty object here and the input in deltas.
                block.input = "" if text in (NO_ARGUMENTS, "null") else text
            case _:
                self._unknown_blocks[index] = _UnknownBlockBuilder(kind, raw)
                return
        self._open_blocks[index] = block
        tolerant.check_reserved_names(members)
        extras = {
            name: value for name, value in _parse_values(members).items() if value is not None
        }
        if kind == "text" and isinstance(extras.get("citations"), list):
            block.citations = extras.pop("citations")  # deltas may add more
        if extras:
            events.append(ExtrasAdded(index, {NAME: extras}))

    def _extend_block(self, index: int, delta: DeltaPayload, events: list[WireEvent]) -> None:
        match delta:
            case TextDeltaPayload():
                events.append(TextDelta(index, delta.text))
            case InputJsonDeltaPayload():
                if delta.partial_json:
                    if index in self._open_blocks:
                        self._open_blocks[index].input = ""
                    events.append(ToolCallPart(index, arguments=delta.partial_json))
            case ThinkingDeltaPayload():
                events.append(ThinkingDelta(index, delta.thinking))
            case SignatureDeltaPayload():
                if index in self._open_blocks:
                    self._open_blocks[index].lacks_signature = False
                if delta.signature:
                    events.append(BlockSealed(index, self._seal(delta.signature)))
            case CitationsDeltaPayload():
                found = _parse_values({"citation": delta.citation})
                block = self._open_blocks.setdefault(index, _OpenBlock())
                block.citations.append(found["citation"])
            case _:
                assert_never(delta)

    def _end_block(self, index: int, events: list[WireEvent]) -> None:
        unknown = self._unknown_blocks.pop(index, None)
        if unknown is not None:
            events.append(BlockAdded(index, unknown.build()))
        block = self._open_blocks.pop(index, None)
        if block is None:
            return
        _flush_block(index, block, events)
        if block.lacks_signature:
            form = {UNSIGNED: [self._provider, self._requested_model]}
            events.append(ExtrasAdded(index, {NAME: {FORM_KEY: form}}))
        if block.is_call:
            events.append(ToolCallPart(index, ends=True))

    @property
    def _requested_model(self) -> str:
        model = self._metadata.get("model") if self._model is None else self._model
        return model if isinstance(model, str) else ""

    def _seal(self, data: str) -> Seal:
        return Seal(data=data, provider=self._provider, api=NAME, model=self._requested_model)


decode_response: Final = base.build_decode_response(StreamDecoder, PROVIDER)


def _update_known(known: Members, latest: Members) -> None:
    for name, value in latest.items():
        if value is not None or name not in known:
            known[name] = value


def _flush_block(index: int, block: _OpenBlock, events: list[WireEvent]) -> None:
    """Add the events of content that was held back while deltas could replace or extend it."""
    if block.input:
        events.append(ToolCallPart(index, arguments=block.input))
    if block.citations:
        events.append(ExtrasAdded(index, {NAME: {"citations": block.citations}}))


# -- unknown blocks ---------------------------------------------------------------------------

_APPENDED_DELTAS: Final = frozenset(
    {"text_delta", "thinking_delta", "signature_delta", "compaction_delta"}
)
"""The types of deltas whose texts are appended to the block members of the same names."""


@final
class _UnknownBlockBuilder:
    """Collects the deltas of one block of an unknown type, which is kept as JSON text.

    Examples are calls of server tools, their results, and compaction blocks. They arrive as a start
    event and deltas, like any other block, and must be sent back whole.
    """

    __slots__ = ("_kind", "_start", "deltas")

    def __init__(self, kind: str, start: Raw) -> None:
        self._kind = kind
        self._start = start
        self.deltas: list[Raw] = []

    def build(self) -> Opaque:
        """Return the assembled block.

        If the block cannot be assembled, return an unfinished block, which is kept only for the
        log.
        """
        if not self.deltas:
            return Opaque(kind=self._kind, raw=raw_text(self._start), origin=NAME)
        members = self._merge_deltas()
        if members is None:
            return self.build_unfinished()
        return Opaque(kind=self._kind, raw=encode_json(members).decode(), origin=NAME)

    def build_unfinished(self) -> Opaque:
        """Return a block with the start and the deltas; it is kept for the log and never sent."""
        raw = encode_json({"content_block": self._start, "deltas": self.deltas}).decode()
        return Opaque(kind=f"{STREAM_EVENT_PREFIX}{self._kind}", raw=raw, origin=NAME)

    def _merge_deltas(self) -> RawMembers | None:
        """Return the members of the block with all deltas merged; None if a delta is unusable."""
        members = read_members(self._start, NAME)
        input_parts: list[str] = []
        citations: list[Raw] = read_as(members.get("citations"), list[Raw]) or []
        growing: dict[str, list[str]] = {}
        for raw in self.deltas:
            delta = read_members(raw, NAME)
            kind = read_as(delta.pop("type", None), str)
            if kind == "input_json_delta":
                input_parts.append(read_as(delta.get("partial_json"), str) or "")
            elif kind == "citations_delta" and "citation" in delta:
                citations.append(delta["citation"])
            elif kind in _APPENDED_DELTAS:
                for name, value in delta.items():
                    text = read_as(value, str)
                    if text is not None:
                        known = read_as(members.get(name), str) or ""
                        growing.setdefault(name, [known]).append(text)
                    elif value != NULL:
                        members[name] = value
            else:
                return None
        members |= {name: Raw(encode_json("".join(parts))) for name, parts in growing.items()}
        if citations:
            members["citations"] = Raw(encode_json(citations))
        joined = "".join(input_parts)
        if joined.strip():
            if not is_json_text(joined):
                return None
            members["input"] = Raw(joined.encode())
        return members


def _parse_values(members: RawMembers) -> Members:
    """Return members as Python values. Raises ProtocolError if a value is nested too deeply."""
    try:
        found = tolerant.parse_members(members)
        check_depth(found)
    except DECODE_ERRORS as exc:
        raise tolerant.build_protocol_error(exc, NAME) from None
    return found
