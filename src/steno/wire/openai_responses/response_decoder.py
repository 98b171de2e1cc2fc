"""Tell items as events, each thing once.

A stream speaks of an item more than once: in deltas, when a part of it is done, when the item is
done, and at the end. What was told is not told again; what is only in a later telling is taken
from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, assert_never, final

import msgspec
from msgspec import Raw

from steno.errors import InvalidRequest, ProtocolError
from steno.json_object import replace_lone_surrogate_escapes
from steno.messages.content import Opaque
from steno.messages.event import (
    BlockAdded,
    BlockSealed,
    Event,
    ExtrasAdded,
    Finished,
    TextDelta,
    ThinkingDelta,
    ToolCallBegin,
    ToolCallDelta,
    ToolCallEnd,
)
from steno.messages.message import AssistantMessage
from steno.messages.usage import StopReason
from steno.values import replace_lone_surrogates
from steno.wire.errors import decode_error, is_error
from steno.wire.extras import FORM_KEY
from steno.wire.openai_responses.item_tracker import (
    SINGLE_PART,
    BlockText,
    ItemTracker,
    OutputItem,
    PartKey,
    find_new_extras,
    get_piece_text,
    is_same_item,
    merge_repeated,
)
from steno.wire.openai_responses.items import (
    CallPiece,
    ItemPiece,
    OutputTextPiece,
    ReasoningPiece,
    UnknownPiece,
    read_item,
)
from steno.wire.openai_responses.payload import (
    ARGUMENTS_DELTAS,
    CALL_KIND,
    CUSTOM_TOOL_CALL,
    DELTA_KINDS,
    DONE_EVENT_FIELDS,
    END_EVENTS,
    NAME,
    PART_NOTE,
    PROGRESS_EVENTS,
    PROVIDER,
    PROVIDER_NOTE,
    REASONING_DELTAS,
    REASONING_KIND,
    REFUSAL_DELTA,
    REPEATED_FIELDS,
    RESPONSE_STATUSES,
    START_EVENTS,
    TEXT_DELTA,
    TEXT_KIND,
    DeltaEvent,
    ItemHead,
    Response,
    map_stop_reason,
    read_usage,
)
from steno.wire.request_encoder import STREAM_EVENT_PREFIX, RequestTarget
from steno.wire.response_decoder import StreamDecoder as BaseDecoder
from steno.wire.response_decoder import assemble_message, build_cut_short
from steno.wire.sse import ErrorPayload, SseSplitter
from steno.wire.tolerant import (
    DECODE_ERRORS,
    NULL,
    RawMembers,
    build_reader,
    build_slow_reader,
    parse_members,
    raw_text,
    read_as,
    read_members,
    read_split_text,
    repair_json,
)

_MAX_REPEATS: Final = 4
"""How often there may be news of an item that is done: each costs what was told of it so far."""


_read_head: Final = build_reader(ItemHead, NAME)


_read_described_response: Final = build_reader(Response, NAME)


@final
class _OutputEventBuilder:
    """Knows what was told of one answer."""

    def __init__(self, provider: str, model: str | None) -> None:
        self.tracker = ItemTracker()
        self.description: Raw | None = None
        """The answer as it was last described, without or with its output."""
        self.has_refusal = False
        self.is_whole = False
        """Whether the answer came at once, so that nothing in it is told again."""
        self._provider = provider
        self._model = model
        self._has_provider_note = provider == PROVIDER
        self._refusals: dict[int, BlockText] = {}
        """The words of refusals that are not done, by block."""
        self._calls: dict[str, int] = {}
        """The blocks of calls by their ids."""

    def add_delta(self, delta: DeltaEvent, events: list[Event]) -> None:
        """Tell more of an item: text, thinking, arguments or a refusal."""
        kind = DELTA_KINDS[delta.type]
        item = self.tracker.find_growing(delta.item_id, delta.output_index, kind)
        self._add_text(
            self.tracker.get_part_text(item, _get_block_part(delta), kind), delta, events
        )

    def _add_text(self, said: BlockText, delta: DeltaEvent, events: list[Event]) -> None:
        text = said.add_delta(delta.delta, _get_part_key(delta))
        if delta.type in REASONING_DELTAS:
            if text:
                events.append(ThinkingDelta(said.block, text))
        elif delta.type in ARGUMENTS_DELTAS:
            events.append(ToolCallDelta(said.block, arguments_delta=text))
        elif delta.type == TEXT_DELTA:
            events.append(TextDelta(said.block, text))
        else:
            self._refusals[said.block] = said

    def end_part(self, delta: DeltaEvent, events: list[Event]) -> None:
        """Tell the end of what is said at once; all of it waits where no delta said any.

        It is clear with the item only whether that says it.
        """
        kind = DELTA_KINDS[delta.type]
        item, is_certain = self.tracker.find_again(delta.item_id, delta.output_index, kind)
        if item.is_done:
            return
        if not is_certain:
            delta.content_index = delta.summary_index = None
        if not self._end_part(item, delta, events):
            item.whole.append(delta)

    def _end_part(self, item: OutputItem, delta: DeltaEvent, events: list[Event]) -> bool:
        """Tell what a part has more, now that it is whole; False if nothing was told of it."""
        said = item.find_text(DELTA_KINDS[delta.type], _get_block_part(delta))
        end = None if said is None else said.find_part_end(delta.delta, _get_part_key(delta))
        if said is not None and end:
            self._add_text(said, msgspec.structs.replace(delta, delta=end), events)
        return end is not None

    def begin_item(self, raw: Raw, index: int | None, events: list[Event]) -> None:
        """Tell what an item will be, as far as that is certain."""
        if raw == NULL:
            return  # some servers announce an item and do not say which
        head = _read_head(raw)
        item = self.tracker.begin(head, index)
        is_call = head.type in ("function_call", CUSTOM_TOOL_CALL)
        if is_call and head.call_id and head.name and not item.has_begun:
            item.has_begun = True
            block = item.latest[CALL_KIND] = self.tracker.get_block(item, None)
            events.append(ToolCallBegin(block, head.call_id, head.name))
            if head.type == CUSTOM_TOOL_CALL:
                events.append(ExtrasAdded(block, {NAME: {"type": CUSTOM_TOOL_CALL}}))

    def end_item(self, raw: Raw, index: int | None, events: list[Event]) -> None:
        """Tell the rest of an item that is done."""
        head = _read_head(raw)
        item = self.tracker.find(head.id, index)
        is_told = bool(item.pieces) and item.is_elsewhere(index)
        if item.is_another(head, index) or (
            is_told and not is_same_item(item.pieces, _read_pieces(raw))
        ):
            item = self.tracker.add(head.id, index)
        self._end_known_item(item, head, raw, events)

    def end_output(self, output: list[Raw], events: list[Event]) -> None:
        """Tell the rest of everything."""
        seen: set[OutputItem] = set()
        for position, raw in enumerate(output):
            head = _read_head(raw)
            for item in self.tracker.find_in_output(position, head.id):
                if item not in seen and not item.is_another(head, position):
                    break
            else:
                if len(self.tracker.items) >= len(output):
                    continue  # all were told, but under other names
                item = self.tracker.add(head.id, position)
            seen.add(item)
            self._end_known_item(item, head, raw, events)
        self.flush_held(events)

    def flush_held(self, events: list[Event]) -> None:
        """Tell what waited for an item to be done that never was."""
        for item in self.tracker.items:
            self._flush_whole_texts(item, events)
            for said in item.said.values():
                waiting = said.take_remaining()
                if waiting:
                    events.append(ThinkingDelta(said.block, waiting))
        for block, said in self._refusals.items():
            refusal = replace_lone_surrogates("".join(said.told))
            raw = msgspec.json.encode({"type": "refusal", "refusal": refusal}).decode()
            piece = UnknownPiece("refusal", raw, {NAME: {FORM_KEY: {PART_NOTE: True}}})
            events.append(BlockAdded(block, _build_opaque(piece)))
            self.has_refusal = True
        self._refusals.clear()

    def _flush_whole_texts(self, item: OutputItem, events: list[Event]) -> None:
        """Tell what was said at once, unless something else said it."""
        for delta in item.whole:
            if not self._end_part(item, delta, events):
                said = self.tracker.get_part_text(
                    item, _get_block_part(delta), DELTA_KINDS[delta.type]
                )
                self._add_text(said, delta, events)
        item.whole.clear()

    def keep_unknown_event(self, kind: str, payload: bytes, events: list[Event]) -> None:
        """Keep an event that we have no name for."""
        _check_utf8(payload)
        block = Opaque(kind=f"{STREAM_EVENT_PREFIX}{kind}", raw=raw_text(payload), origin=NAME)
        events.append(BlockAdded(self.tracker.new_block(), block))

    def _end_known_item(
        self, item: OutputItem, head: ItemHead, raw: Raw, events: list[Event]
    ) -> None:
        item.is_done = True
        if raw == item.raw:
            return  # nearly always, where it is told again
        pieces, told = _read_pieces(raw), item.pieces
        if told:
            if item.tellings == _MAX_REPEATS or not is_same_item(told, pieces):
                return
            raw = merge_repeated(item.raw, raw)
            pieces = _read_pieces(raw)
        elif not any(map(get_piece_text, pieces)):
            self._flush_whole_texts(item, events)
        item.whole.clear()
        if item.said and isinstance(pieces[0], UnknownPiece) and pieces[0].kind == "message":
            return  # an empty message, where its words were in the deltas alone
        item.raw, item.pieces = raw, pieces
        item.head = item.head if told else head
        item.tellings += 1
        if not self._has_provider_note:
            self._has_provider_note = True
            events.append(ExtrasAdded(None, {NAME: {FORM_KEY: {PROVIDER_NOTE: self._provider}}}))
        blocks = self.tracker.get_blocks(item, len(pieces))
        for number, (piece, block) in enumerate(zip(pieces, blocks, strict=True)):
            before = told[number] if number < len(told) else None
            if piece != before:
                self._end_block(item, piece, block, before, events)

    def _end_block(
        self,
        item: OutputItem,
        piece: ItemPiece,
        block: int,
        told: ItemPiece | None,
        events: list[Event],
    ) -> None:
        match piece:
            case OutputTextPiece():
                text = self.tracker.get_block_text(item, block, TEXT_KIND).take_remaining(
                    piece.text
                )
                if text:
                    events.append(TextDelta(block, text))
            case ReasoningPiece():
                is_new = told is None and (block, REASONING_KIND) not in item.said
                text = self.tracker.get_block_text(item, block, REASONING_KIND).take_remaining(
                    piece.text
                )
                if text or is_new:
                    events.append(ThinkingDelta(block, text))
                if piece.sealed is not None and not (
                    isinstance(told, ReasoningPiece) and told.sealed
                ):
                    events.append(BlockSealed(block, self._target().seal(piece.sealed)))
            case CallPiece():
                arguments = (
                    self.tracker.get_block_text(item, block, CALL_KIND).take_remaining(
                        piece.arguments
                    )
                    or None
                )
                if not item.has_begun:
                    item.has_begun = bool(piece.id and piece.name)
                    id = self._claim_id(piece.id, block)
                    events.append(ToolCallDelta(block, id, piece.name, arguments))
                elif arguments:
                    events.append(ToolCallDelta(block, arguments_delta=arguments))
            case UnknownPiece():
                self._refusals.pop(block, None)
                self.has_refusal = self.has_refusal or piece.kind == "refusal"
                events.append(BlockAdded(block, _build_opaque(piece)))
                return
            case _:
                assert_never(piece)
        extras = find_new_extras(piece, told)
        if extras is not None:
            events.append(ExtrasAdded(block, extras))
        if isinstance(piece, CallPiece):
            events.append(ToolCallEnd(block, piece.id or None))

    def _claim_id(self, id: str, block: int) -> str | None:
        """Return the id of a call; None if another has it, since nobody could answer them apart."""
        is_taken = self._calls.setdefault(id, block) != block
        return None if self.is_whole and is_taken else id

    def _target(self) -> RequestTarget:
        """Return whom seals are for: the model as it was asked for, else as it calls itself."""
        model = self._model
        if model is None:
            about = (
                _read_described_response(self.description)
                if self.description is not None
                else Response()
            )
            model = about.model
        return RequestTarget(self._provider, NAME, model or "")


def _check_utf8(data: bytes) -> None:
    """Refuse what msgspec lets pass as long as it is not read: bytes that are no text."""
    try:
        data.decode()
    except UnicodeDecodeError:
        raise ProtocolError(f"{NAME}: not UTF-8") from None


def _build_opaque(piece: UnknownPiece) -> Opaque:
    return Opaque(kind=piece.kind, raw=piece.raw, origin=NAME, extras=piece.extras)


def _get_block_part(delta: DeltaEvent) -> int | None:
    """Return the part that a delta is of, where each is a block of its own."""
    return delta.content_index if delta.type in (TEXT_DELTA, REFUSAL_DELTA) else None


def _get_part_key(delta: DeltaEvent) -> PartKey:
    """Return the part that a delta is of, where all of them are one block."""
    if delta.type not in REASONING_DELTAS:
        return SINGLE_PART
    number = delta.content_index if delta.summary_index is None else delta.summary_index
    return delta.type, number


def _read_pieces(raw: Raw) -> list[ItemPiece]:
    try:
        return read_item(raw, NAME)
    except InvalidRequest as exc:
        raise ProtocolError(str(exc)) from None


# -- answer ----------------------------------------------------------------------------------------
#
# Read answers: whole ones and streams, by the same steps.


_NO_ITEM: Final = "\0"


_decode: Final = msgspec.json.Decoder(DeltaEvent).decode


_read_delta_by_member: Final = build_slow_reader(DeltaEvent, NAME)


_read_response: Final = build_reader(Response, NAME)


def decode_response(
    data: bytes | str, *, provider: str = PROVIDER, model: str | None = None
) -> AssistantMessage:
    """Decode a whole answer. Raises ProviderError if it holds one, ProtocolError if it is none.

    `provider` and `model` (as it was asked for) are whom seals will be for.
    """
    turn = _ResponsesReader(provider, model)
    events: list[Event] = []
    turn.read_whole(
        data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data, events
    )
    return assemble_message(events)


@final
class StreamDecoder(BaseDecoder):
    """Decodes an answer that comes as server-sent events, with or without their names."""

    def __init__(self, *, provider: str = PROVIDER, model: str | None = None) -> None:
        """Start a new answer. `provider` and `model` are whom seals will be for."""
        turn = _ResponsesReader(provider, model)
        super().__init__(SseSplitter(), turn.read)
        self._response = turn

    @property
    def envelope(self) -> dict[str, Any]:
        """What the provider said about its answer, beside the message."""
        return self._response.envelope

    def _finish(self, events: list[Event]) -> None:
        self._response.close()

    def _abandon(self, events: list[Event]) -> None:
        self._response.flush_held(events)


@final
class _ResponsesReader:
    """One answer as it is read."""

    def __init__(self, provider: str, model: str | None) -> None:
        self._output = _OutputEventBuilder(provider, model)
        self._unknown: RawMembers = {}
        self._fault: bytes | None = None
        self._is_finished = False
        # Where the latest text belongs: most of it goes where the text before it went.
        self._text_item: str | None = _NO_ITEM
        self._text_output: int | None = None
        self._text_part: int | None = None
        self._text_block = 0
        self._append_text: Callable[[str], None] = list[str]().append

    @property
    def envelope(self) -> dict[str, Any]:
        about = read_as(self._output.description, dict[str, Any]) or {}
        found = parse_members(self._unknown) | about
        found.pop("output", None)
        return found

    def read(self, payload: bytes, events: list[Event]) -> None:
        """Add the events of one event of the stream."""
        # One function rather than a few: this runs for every word that a model says.
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

    def read_whole(self, data: bytes, events: list[Event]) -> None:
        """Add the events of a whole answer."""
        data = repair_json(data, NAME)
        answer = _read_response(data)
        if is_error(answer.error):
            raise decode_error(200, b'{"error":' + bytes(answer.error) + b"}")
        if answer.output is None and answer.status not in RESPONSE_STATUSES:
            raise ProtocolError(f"{NAME}: neither output nor the status of an answer")
        self._output.description = Raw(data)
        self._output.is_whole = True
        self._finish(answer, answer.status, events)

    def close(self) -> None:
        """Say that the bytes are at an end. Raises CutShort if it comes too early."""
        self._raise_fault()
        if not self._is_finished:
            raise build_cut_short()

    def flush_held(self, events: list[Event]) -> None:
        """Add what waited for more that will not come."""
        self._output.flush_held(events)

    # -- deltas ------------------------------------------------------------------------------

    def _find_text_block(self, delta: DeltaEvent) -> None:
        self._raise_fault()
        places = self._output.tracker
        item = places.find_growing(delta.item_id, delta.output_index, TEXT_KIND)
        said = places.get_part_text(item, delta.content_index, TEXT_KIND)
        self._text_block, self._append_text = said.block, said.told.append
        self._text_item, self._text_output = delta.item_id, delta.output_index
        self._text_part = delta.content_index

    def _read_delta(self, delta: DeltaEvent, payload: bytes, events: list[Event]) -> None:
        self._raise_fault()
        if delta.type in DELTA_KINDS:
            if delta.delta:
                self._output.add_delta(delta, events)
        elif delta.type not in PROGRESS_EVENTS:
            self._output.keep_unknown_event(delta.type, payload, events)

    def _read_unusual_delta(self, payload: bytes, mended: bytes, events: list[Event]) -> None:
        """Read a delta with members of its own, or with half a character in it."""
        delta = _read_delta_by_member(mended)
        self._unknown |= delta.rest or {}
        if mended != payload:
            delta.delta = read_split_text(payload, "delta") or delta.delta
        self._read_delta(delta, mended, events)

    # -- other events of the stream ----------------------------------------------------------

    def _read_unusual(self, payload: bytes, events: list[Event]) -> None:
        """Read anything but a plain delta."""
        self._text_item = _NO_ITEM  # what comes next may belong elsewhere under the same names
        if payload.startswith(b"[DONE]") or type(payload) is ErrorPayload:
            self._raise_fault()
            # OpenAI says it again in the last event, together with what became of the rest.
            self._fault = payload.data if type(payload) is ErrorPayload else None
            return
        mended, _ = replace_lone_surrogate_escapes(payload)
        members = self._read_members(mended)
        kind = read_as(members.pop("type", None), str) or ""
        if kind in END_EVENTS:
            self._read_end(kind, members, events)
            return
        self._raise_fault()
        index = read_as(members.get("output_index"), int)
        if kind == "error":
            self._fault = mended
        elif kind in START_EVENTS:
            self._output.description = members.get("response")
        elif kind == "response.output_item.added":
            self._output.begin_item(members.get("item", NULL), index, events)
        elif kind == "response.output_item.done":
            self._output.end_item(members.get("item", NULL), index, events)
        elif kind in DELTA_KINDS:
            self._read_unusual_delta(payload, mended, events)
        elif is_error(members.get("error")):
            raise decode_error(200, mended)
        elif kind in PROGRESS_EVENTS:
            self._read_progress(kind, members, events)
        else:
            self._output.keep_unknown_event(kind, mended, events)

    def _read_members(self, payload: bytes) -> RawMembers:
        _check_utf8(payload)
        return read_members(payload, NAME)

    def _read_progress(self, kind: str, members: RawMembers, events: list[Event]) -> None:
        if kind == "response.content_part.added":
            id = read_as(members.get("item_id"), str)
            item = self._output.tracker.find(id, read_as(members.get("output_index"), int))
            part = read_as(members.get("part"), dict[str, Any]) or {}
            # A part that stays empty has a number too; vLLM gives reasoning a part of text.
            if part.get("type") in ("output_text", "refusal") and None not in item.parts:
                self._output.tracker.get_block(item, read_as(members.get("content_index"), int))
        elif kind in DONE_EVENT_FIELDS:
            self._read_done_text(kind, members, events)
        self._unknown |= {name: members[name] for name in members.keys() - REPEATED_FIELDS}

    def _read_done_text(self, kind: str, members: RawMembers, events: list[Event]) -> None:
        text = read_as(members.get(DONE_EVENT_FIELDS[kind]), str)
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

    def _raise_fault(self) -> None:
        if self._fault is not None:
            raise decode_error(200, self._fault)

    # -- the end -----------------------------------------------------------------------------

    def _read_end(self, kind: str, members: RawMembers, events: list[Event]) -> None:
        about = self._output.description = members.pop("response", self._output.description)
        answer = _read_response(about) if about is not None else Response()
        self._unknown |= {name: members[name] for name in members.keys() - REPEATED_FIELDS}
        status = kind.removeprefix("response.")
        if answer.status is not None and answer.status != "in_progress":
            status = answer.status  # vLLM completes what is incomplete
        self._finish(answer, status, events)
        if is_error(answer.error):
            raise decode_error(200, b'{"error":' + bytes(answer.error) + b"}")
        self._raise_fault()
        if status == "failed":
            raise decode_error(200, b'{"error":{"type":"server_error"}}')

    def _finish(self, answer: Response, status: str | None, events: list[Event]) -> None:
        """Add items that were not told before, and the end of the turn, once."""
        if self._is_finished:
            return
        self._is_finished = True
        self._output.end_output(answer.output or [], events)
        reason = map_stop_reason(status, answer.incomplete_details)
        if self._output.has_refusal:
            reason = StopReason.CONTENT_FILTER
        usage = read_usage(answer.usage) if answer.usage is not None else None
        events.append(Finished(reason, status, usage))
