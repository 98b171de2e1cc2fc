"""Decode responses of the Responses API, streamed or whole, with the same reader.

A stream sends the content of an item several times: in deltas, when a part of it is done, when the
item is done, and at the end. The decoder adds each text only once; text that only a later version
has is added when that version arrives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, assert_never, final

import msgspec
from msgspec import Raw

from steno.assemble import ToolCallPart, WireEvent
from steno.errors import InvalidRequest, ProtocolError
from steno.messages.content import Opaque
from steno.messages.event import (
    BlockAdded,
    BlockSealed,
    ExtrasAdded,
    Finished,
    TextDelta,
    ThinkingDelta,
)
from steno.messages.usage import StopReason, Usage
from steno.values import FORM_KEY, replace_lone_surrogates
from steno.wire import response_decoder as base
from steno.wire import tolerant
from steno.wire.errors import decode_error, decode_error_member, is_error
from steno.wire.extras import Members
from steno.wire.framing import ErrorPayload, SseSplitter
from steno.wire.openai_responses import items
from steno.wire.openai_responses import payload as payloads
from steno.wire.openai_responses.items import ItemPiece, ItemTracker, OutputItem
from steno.wire.openai_responses.payload import (
    NAME,
    PROVIDER,
    TEXT_DELTA,
    DeltaEvent,
    ItemHead,
    Response,
)
from steno.wire.request_encoder import STREAM_EVENT_PREFIX, RequestTarget
from steno.wire.tolerant import DECODE_ERRORS, NULL, RawMembers, raw_text, read_as, read_members

_MAX_REPEATS: Final = 4
"""The maximum number of versions of a done item that are merged; each merge parses the item."""
_NO_ITEM: Final = "\0"
"""An item id that no server sends."""
_decode: Final = msgspec.json.Decoder(DeltaEvent).decode
_read_delta_by_member: Final = tolerant.build_slow_reader(DeltaEvent, NAME)
_read_head: Final = tolerant.build_reader(ItemHead, NAME)
_read_response: Final = tolerant.build_reader(Response, NAME)


@final
class StreamDecoder(base.StreamDecoder):
    """Decodes a response that is streamed as server-sent events, with or without event names."""

    def __init__(self, *, provider: str = PROVIDER, model: str | None = None) -> None:
        """Create a decoder for one response.

        Seals (encrypted reasoning) are bound to `provider` and `model`.
        """
        super().__init__(SseSplitter(), self._read)
        self._output = _OutputEventBuilder(provider, model)
        self._unknown: RawMembers = {}
        self._pending_error: bytes | None = None
        self._is_finished = False
        # The block of the latest text is cached, because most deltas continue the same block.
        self._text_item: str | None = _NO_ITEM
        self._text_output: int | None = None
        self._text_part: int | None = None
        self._text_block = 0
        self._append_text: Callable[[str], None] = list[str]().append

    @property
    def envelope(self) -> dict[str, Any]:
        """The metadata of the response."""
        described = read_as(self._output.description, Members) or {}
        found = tolerant.parse_members(self._unknown) | described
        found.pop("output", None)
        return found

    def _read(self, payload: bytes, events: list[WireEvent]) -> None:
        # One function rather than a few, because it runs for every token of a response.
        try:
            delta = _decode(payload)
        except DECODE_ERRORS:
            self._read_unusual(payload, events)
            return
        if delta.type == TEXT_DELTA and delta.delta:
            if (
                delta.item_id != self._text_item
                or delta.content_index != self._text_part
                or delta.output_index != self._text_output
            ):
                self._find_text_block(delta)
            self._append_text(delta.delta)
            events.append(TextDelta(self._text_block, delta.delta))
        else:
            self._read_delta(delta, payload, events)

    def _read_whole(self, data: bytes, events: list[WireEvent]) -> None:
        data = tolerant.repair_json(data, NAME)
        response = _read_response(data)
        if is_error(response.error):
            raise decode_error_member(response.error)
        if response.output is None and response.status not in payloads.RESPONSE_STATUSES:
            raise ProtocolError(
                "the response has neither output nor a known status",
                code="output_missing",
                place=NAME,
            )
        self._output.description = Raw(data)
        self._end_turn(response, response.status, events)

    def _finish(self, events: list[WireEvent]) -> None:
        """Raise a pending error, or CutShort if the last event has not arrived."""
        self._raise_pending_error()
        if not self._is_finished:
            raise base.build_cut_short()

    def _abandon(self, events: list[WireEvent]) -> None:
        self._output.flush_held(events)

    # -- deltas ------------------------------------------------------------------------------

    def _find_text_block(self, delta: DeltaEvent) -> None:
        self._raise_pending_error()
        tracker = self._output.tracker
        item = tracker.find_growing(delta.item_id, delta.output_index, payloads.TEXT_KIND)
        text = tracker.get_part_text(item, delta.content_index, payloads.TEXT_KIND)
        self._text_block, self._append_text = text.block, text.sent.append
        self._text_item, self._text_output = delta.item_id, delta.output_index
        self._text_part = delta.content_index

    def _read_delta(self, delta: DeltaEvent, payload: bytes, events: list[WireEvent]) -> None:
        self._raise_pending_error()
        if delta.type in payloads.DELTA_KINDS:
            if delta.delta:
                self._output.add_delta(delta, events)
        elif delta.type not in payloads.PROGRESS_EVENTS:
            self._output.keep_unknown_event(delta.type, payload, events)

    # -- other events ------------------------------------------------------------------------

    def _read_unusual(self, payload: bytes, events: list[WireEvent]) -> None:
        """Read an event that is not a plain delta."""
        self._text_item = _NO_ITEM  # the next text may belong to another block with the same ids
        if payload.startswith(b"[DONE]") or type(payload) is ErrorPayload:
            self._raise_pending_error()
            # The error is raised later: OpenAI repeats it in the last event, with the output.
            self._pending_error = payload.data if type(payload) is ErrorPayload else None
            return
        repaired = tolerant.repair_json(payload, NAME)
        members = read_members(repaired, NAME)
        kind = read_as(members.pop("type", None), str) or ""
        if kind in payloads.END_EVENTS:
            self._read_end(kind, members, events)
            return
        self._raise_pending_error()
        index = read_as(members.get("output_index"), int)
        if kind == "error":
            self._pending_error = repaired
        elif kind in payloads.START_EVENTS:
            self._output.description = members.get("response")
        elif kind == "response.output_item.added":
            self._output.begin_item(members.get("item", NULL), index, events)
        elif kind == "response.output_item.done":
            self._output.end_item(members.get("item", NULL), index, events)
        elif kind in payloads.DELTA_KINDS:
            # A delta with unknown members or a lone surrogate, which the strict decoder rejects.
            delta = _read_delta_by_member(repaired)
            self._unknown |= delta.rest or {}
            if repaired != payload:
                tolerant.restore_surrogates(delta, payload)
            self._read_delta(delta, repaired, events)
        elif is_error(members.get("error")):
            raise decode_error(200, repaired)
        elif kind in payloads.PROGRESS_EVENTS:
            self._read_progress(kind, members, events)
        else:
            self._output.keep_unknown_event(kind, repaired, events)

    def _read_progress(self, kind: str, members: RawMembers, events: list[WireEvent]) -> None:
        if kind == "response.content_part.added":
            id = read_as(members.get("item_id"), str)
            item = self._output.tracker.find(id, read_as(members.get("output_index"), int))
            part = read_as(members.get("part"), Members) or {}
            # An empty part also needs a number. vLLM sends a text part for reasoning.
            if part.get("type") in ("output_text", "refusal") and None not in item.parts:
                self._output.tracker.get_block(item, read_as(members.get("content_index"), int))
        elif kind in payloads.DONE_EVENT_FIELDS:
            self._read_done_text(kind, members, events)
        self._unknown |= {name: members[name] for name in members.keys() - payloads.REPEATED_FIELDS}

    def _read_done_text(self, kind: str, members: RawMembers, events: list[WireEvent]) -> None:
        text = read_as(members.get(payloads.DONE_EVENT_FIELDS[kind]), str)
        if text:
            delta = DeltaEvent(
                type=kind.removesuffix("done") + "delta",
                delta=text,
                item_id=read_as(members.get("item_id"), str),
                output_index=read_as(members.get("output_index"), int),
                content_index=read_as(members.get("content_index"), int),
                summary_index=read_as(members.get("summary_index"), int),
            )
            self._output.end_part(delta, events)

    def _raise_pending_error(self) -> None:
        if self._pending_error is not None:
            raise decode_error(200, self._pending_error)

    # -- the end -----------------------------------------------------------------------------

    def _read_end(self, kind: str, members: RawMembers, events: list[WireEvent]) -> None:
        description = members.pop("response", self._output.description)
        self._output.description = description
        response = _read_response(description) if description is not None else Response()
        self._unknown |= {name: members[name] for name in members.keys() - payloads.REPEATED_FIELDS}
        status = kind.removeprefix("response.")
        if response.status is not None and response.status != "in_progress":
            status = response.status  # vLLM also ends an incomplete response with completed
        self._end_turn(response, status, events)
        if is_error(response.error):
            raise decode_error_member(response.error)
        self._raise_pending_error()
        if status == "failed":
            raise decode_error(200, b'{"error":{"type":"server_error"}}')

    def _end_turn(self, response: Response, status: str | None, events: list[WireEvent]) -> None:
        """Add the remaining output and the end of the turn, unless they were added before."""
        if self._is_finished:
            return
        self._is_finished = True
        self._output.end_output(response.output or [], events)
        reason = base.map_stop_reason(payloads.STOP_REASONS, status)
        raw_reason = status
        if status == "incomplete":
            why = (response.incomplete_details or {}).get("reason")
            reason = base.map_stop_reason(payloads.INCOMPLETE_REASONS, str(why))
            if reason is StopReason.UNKNOWN and isinstance(why, str):
                raw_reason = why  # the status is the same for every reason
        if self._output.has_refusal:
            reason = StopReason.CONTENT_FILTER
        usage = None
        if response.usage is not None:
            usage = Usage(**base.read_counts(response.usage, payloads.USAGE))
        events.append(Finished(reason, raw_reason, usage))


decode_response: Final = base.build_decode_response(StreamDecoder, PROVIDER)


# -- output -----------------------------------------------------------------------------------


@final
class _OutputEventBuilder:
    """Builds events from the output items of one response."""

    def __init__(self, provider: str, model: str | None) -> None:
        self.tracker = ItemTracker()
        self.description: Raw | None = None
        """The latest JSON of the response object, with or without its output."""
        self.has_refusal = False
        self._provider = provider
        self._model = model
        self._has_provider_note = provider == PROVIDER
        self._refusals: dict[int, items.BlockText] = {}
        """The texts of refusals that are not done, by block number."""

    def add_delta(self, delta: DeltaEvent, events: list[WireEvent]) -> None:
        """Add the events of a delta of text, reasoning, arguments or a refusal."""
        kind = payloads.DELTA_KINDS[delta.type]
        item = self.tracker.find_growing(delta.item_id, delta.output_index, kind)
        block_text = self.tracker.get_part_text(item, _get_block_part(delta), kind)
        self._add_text(block_text, delta, events)

    def _add_text(
        self, block_text: items.BlockText, delta: DeltaEvent, events: list[WireEvent]
    ) -> None:
        text = block_text.add_delta(delta.delta, _get_part_key(delta))
        if delta.type in payloads.REASONING_DELTAS:
            if text:
                events.append(ThinkingDelta(block_text.block, text))
        elif delta.type in payloads.ARGUMENTS_DELTAS:
            events.append(ToolCallPart(block_text.block, arguments=text))
        elif delta.type == TEXT_DELTA:
            events.append(TextDelta(block_text.block, text))
        else:
            self._refusals[block_text.block] = block_text

    def end_part(self, delta: DeltaEvent, events: list[WireEvent]) -> None:
        """Add the end of a done text, if its deltas did not contain it.

        A text without deltas is held back until its item is done, since the item may repeat it.
        """
        kind = payloads.DELTA_KINDS[delta.type]
        item, is_certain = self.tracker.find_again(delta.item_id, delta.output_index, kind)
        if item.is_done:
            return
        if not is_certain:
            delta.content_index = delta.summary_index = None
        if not self._end_part(item, delta, events):
            item.done_texts.append(delta)

    def _end_part(self, item: OutputItem, delta: DeltaEvent, events: list[WireEvent]) -> bool:
        """Add the missing end of a done part; return False if the part had no deltas."""
        block_text = item.find_text(payloads.DELTA_KINDS[delta.type], _get_block_part(delta))
        if block_text is None:
            return False
        end = block_text.find_part_end(delta.delta, _get_part_key(delta))
        if end:
            self._add_text(block_text, msgspec.structs.replace(delta, delta=end), events)
        return end is not None

    def begin_item(self, raw: Raw, index: int | None, events: list[WireEvent]) -> None:
        """Begin an item; if it is a call, add an event with its id and name."""
        if raw == NULL:
            return  # some servers announce an item without its JSON
        head = _read_head(raw)
        item = self.tracker.begin(head, index)
        is_call = head.type in ("function_call", payloads.CUSTOM_TOOL_CALL)
        if is_call and head.call_id and head.name and not item.has_begun:
            item.has_begun = True
            block = item.latest[payloads.CALL_KIND] = self.tracker.get_block(item, None)
            events.append(ToolCallPart(block, head.call_id, head.name, starts=True))
            if head.type == payloads.CUSTOM_TOOL_CALL:
                events.append(ExtrasAdded(block, {NAME: {"type": payloads.CUSTOM_TOOL_CALL}}))

    def end_item(self, raw: Raw, index: int | None, events: list[WireEvent]) -> None:
        """Add the content of a done item that was not added before."""
        head = _read_head(raw)
        item = self.tracker.find(head.id, index)
        was_done = bool(item.pieces) and item.is_elsewhere(index)
        if item.is_another(head, index) or (
            was_done and not items.is_same_item(item.pieces, _read_pieces(raw))
        ):
            item = self.tracker.add(head.id, index)
        self._end_known_item(item, head, raw, events)

    def end_output(self, output: list[Raw], events: list[WireEvent]) -> None:
        """Add the content of the final output that was not added before."""
        seen: set[OutputItem] = set()
        for position, raw in enumerate(output):
            head = _read_head(raw)
            for item in self.tracker.find_in_output(position, head.id):
                if item not in seen and not item.is_another(head, position):
                    break
            else:
                if len(self.tracker.items) >= len(output):
                    continue  # all items are known, although under other ids
                item = self.tracker.add(head.id, position)
            seen.add(item)
            self._end_known_item(item, head, raw, events)
        self.flush_held(events)

    def flush_held(self, events: list[WireEvent]) -> None:
        """Add the content that was held back for items that were never done."""
        for item in self.tracker.items:
            self._flush_done_texts(item, events)
            for block_text in item.texts.values():
                held = block_text.take_remaining()
                if held:
                    events.append(ThinkingDelta(block_text.block, held))
        for block, block_text in self._refusals.items():
            refusal = replace_lone_surrogates("".join(block_text.sent))
            raw = msgspec.json.encode({"type": "refusal", "refusal": refusal}).decode()
            note = {NAME: {FORM_KEY: {payloads.PART_NOTE: True}}}
            events.append(BlockAdded(block, items.build_opaque("refusal", raw, note)))
            self.has_refusal = True
        self._refusals.clear()

    def _flush_done_texts(self, item: OutputItem, events: list[WireEvent]) -> None:
        """Add the texts of done events that had no deltas."""
        for delta in item.done_texts:
            if not self._end_part(item, delta, events):
                kind = payloads.DELTA_KINDS[delta.type]
                block_text = self.tracker.get_part_text(item, _get_block_part(delta), kind)
                self._add_text(block_text, delta, events)
        item.done_texts.clear()

    def keep_unknown_event(self, kind: str, payload: bytes, events: list[WireEvent]) -> None:
        """Add an event of an unknown type as an opaque block, for the log."""
        # The payload of a plain delta is not checked yet: msgspec accepts invalid UTF-8 in members
        # that it does not decode.
        raw = raw_text(tolerant.repair_json(payload, NAME))
        block = items.build_opaque(f"{STREAM_EVENT_PREFIX}{kind}", raw)
        events.append(BlockAdded(self.tracker.new_block(), block))

    def _end_known_item(
        self, item: OutputItem, head: ItemHead, raw: Raw, events: list[WireEvent]
    ) -> None:
        item.is_done = True
        if raw == item.raw:
            return  # nearly all repetitions are identical
        pieces, earlier = _read_pieces(raw), item.pieces
        if earlier:
            if item.done_count == _MAX_REPEATS or not items.is_same_item(earlier, pieces):
                return
            raw = items.merge_repeated(item.raw, raw)
            pieces = _read_pieces(raw)
        elif not any(map(items.get_piece_text, pieces)):
            self._flush_done_texts(item, events)
        item.done_texts.clear()
        if item.texts and isinstance(pieces[0], Opaque) and pieces[0].kind == "message":
            return  # an empty message, whose text was only in the deltas
        item.raw, item.pieces = raw, pieces
        item.head = item.head if earlier else head
        item.done_count += 1
        if not self._has_provider_note:
            self._has_provider_note = True
            events.append(
                ExtrasAdded(None, {NAME: {FORM_KEY: {payloads.PROVIDER_NOTE: self._provider}}})
            )
        blocks = self.tracker.get_blocks(item, len(pieces))
        for number, (piece, block) in enumerate(zip(pieces, blocks, strict=True)):
            before = earlier[number] if number < len(earlier) else None
            if piece != before:
                self._end_block(item, piece, block, before, events)

    def _end_block(
        self,
        item: OutputItem,
        piece: ItemPiece,
        block: int,
        before: ItemPiece | None,
        events: list[WireEvent],
    ) -> None:
        match piece:
            case items.OutputTextPiece():
                known = self.tracker.get_block_text(item, block, payloads.TEXT_KIND)
                text = known.take_remaining(piece.text)
                if text:
                    events.append(TextDelta(block, text))
            case items.ReasoningPiece():
                is_new = before is None and (block, payloads.REASONING_KIND) not in item.texts
                known = self.tracker.get_block_text(item, block, payloads.REASONING_KIND)
                text = known.take_remaining(piece.text)
                if text or is_new:
                    events.append(ThinkingDelta(block, text))
                # The first seal is kept: OpenAI may encrypt the same item in two ways, in
                # `output_item.done` and in the last event.
                was_sealed = isinstance(before, items.ReasoningPiece) and before.sealed
                if piece.sealed is not None and not was_sealed:
                    events.append(BlockSealed(block, self._target().seal(piece.sealed)))
            case items.CallPiece():
                known = self.tracker.get_block_text(item, block, payloads.CALL_KIND)
                arguments = known.take_remaining(piece.arguments) or None
                if not item.has_begun:
                    item.has_begun = bool(piece.id and piece.name)
                    events.append(ToolCallPart(block, piece.id, piece.name, arguments))
                elif arguments:
                    events.append(ToolCallPart(block, arguments=arguments))
            case Opaque():
                self._refusals.pop(block, None)
                self.has_refusal = self.has_refusal or piece.kind == "refusal"
                events.append(BlockAdded(block, piece))
                return
            case _:
                assert_never(piece)
        extras = items.find_new_extras(piece, before)
        if extras is not None:
            events.append(ExtrasAdded(block, extras))
        if isinstance(piece, items.CallPiece):
            events.append(ToolCallPart(block, piece.id or None, ends=True))

    def _target(self) -> RequestTarget:
        """Return the issuer of seals, with the model of the request or else of the response."""
        model = self._model
        if model is None:
            description = self.description
            model = None if description is None else _read_response(description).model
        return RequestTarget(self._provider, NAME, model or "")


def _get_block_part(delta: DeltaEvent) -> int | None:
    """Return the part number of a delta of text or of a refusal; None for other deltas.

    Only the parts of text and refusals are separate blocks.
    """
    return delta.content_index if delta.type in (TEXT_DELTA, payloads.REFUSAL_DELTA) else None


def _get_part_key(delta: DeltaEvent) -> items.PartKey:
    """Return the key of the part that a delta extends within its block.

    Only a block of reasoning has several parts.
    """
    if delta.type not in payloads.REASONING_DELTAS:
        return items.SINGLE_PART
    number = delta.content_index if delta.summary_index is None else delta.summary_index
    return delta.type, number


def _read_pieces(raw: Raw) -> list[ItemPiece]:
    try:
        return items.read_item(raw, NAME)
    except InvalidRequest as exc:
        raise ProtocolError(exc.message, code=exc.code, place=exc.place) from None
