"""Tell items as events, each thing once.

A stream speaks of an item more than once: in deltas, when a part of it is done, when the item is
done, and at the end. What was told is not told again; what is only in a later telling is taken
from there.
"""

from __future__ import annotations

from typing import Final, assert_never, final

import msgspec
from msgspec import Raw

from steno.content import Opaque
from steno.errors import InvalidRequest, ProtocolError
from steno.event import (
    BlockAdded,
    BlockSealed,
    Event,
    ExtrasAdded,
    TextDelta,
    ThinkingDelta,
    ToolCallBegin,
    ToolCallDelta,
    ToolCallEnd,
)
from steno.value import replace_lone_surrogates
from steno.wire.extras import FORM
from steno.wire.open import NULL, reader, text_of
from steno.wire.openai_responses.item import Call, Other, Piece, Thought, Words, read_item
from steno.wire.openai_responses.places import Item, Places
from steno.wire.openai_responses.retold import is_again, new_extras, with_news, words_of
from steno.wire.openai_responses.said import THE_ONLY_ONE, Part, Said
from steno.wire.openai_responses.shapes import (
    ARGUMENTS,
    CALL,
    CUSTOM,
    KINDS,
    MADE_BY,
    NAME,
    PART,
    PROVIDER,
    REFUSAL,
    TEXT,
    THINKING,
    THOUGHT,
    WORDS,
    Answer,
    Delta,
    Head,
)
from steno.wire.writing import EVENT, Target

_MOST_TELLINGS: Final = 4
"""How often there may be news of an item that is done: each costs what was told of it so far."""

_read_head: Final = reader(Head, NAME)
_read_answer: Final = reader(Answer, NAME)


@final
class Teller:
    """Knows what was told of one answer."""

    def __init__(self, provider: str, model: str | None) -> None:
        self.tracker = Places()
        self.description: Raw | None = None
        """The answer as it was last described, without or with its output."""
        self.has_refusal = False
        self.is_whole = False
        """Whether the answer came at once, so that nothing in it is told again."""
        self._provider = provider
        self._model = model
        self._has_provider_note = provider == PROVIDER
        self._refusals: dict[int, Said] = {}
        """The words of refusals that are not done, by block."""
        self._calls: dict[str, int] = {}
        """The blocks of calls by their ids."""

    def add_delta(self, delta: Delta, events: list[Event]) -> None:
        """Tell more of an item: text, thinking, arguments or a refusal."""
        kind = KINDS[delta.type]
        item = self.tracker.find_growing(delta.item_id, delta.output_index, kind)
        self._add_text(self.tracker.get_part_text(item, _part_of(delta), kind), delta, events)

    def _add_text(self, said: Said, delta: Delta, events: list[Event]) -> None:
        text = said.add_delta(delta.delta, _place_of(delta))
        if delta.type in THINKING:
            if text:
                events.append(ThinkingDelta(said.block, text))
        elif delta.type in ARGUMENTS:
            events.append(ToolCallDelta(said.block, arguments_delta=text))
        elif delta.type == TEXT:
            events.append(TextDelta(said.block, text))
        else:
            self._refusals[said.block] = said

    def end_part(self, delta: Delta, events: list[Event]) -> None:
        """Tell the end of what is said at once; all of it waits where no delta said any.

        It is clear with the item only whether that says it.
        """
        kind = KINDS[delta.type]
        item, is_certain = self.tracker.find_again(delta.item_id, delta.output_index, kind)
        if item.is_done:
            return
        if not is_certain:
            delta.content_index = delta.summary_index = None
        if not self._end_part(item, delta, events):
            item.whole.append(delta)

    def _end_part(self, item: Item, delta: Delta, events: list[Event]) -> bool:
        """Tell what a part has more, now that it is whole; False if nothing was told of it."""
        said = item.find_text(KINDS[delta.type], _part_of(delta))
        end = None if said is None else said.find_part_end(delta.delta, _place_of(delta))
        if said is not None and end:
            self._add_text(said, msgspec.structs.replace(delta, delta=end), events)
        return end is not None

    def begin_item(self, raw: Raw, index: int | None, events: list[Event]) -> None:
        """Tell what an item will be, as far as that is certain."""
        if raw == NULL:
            return  # some servers announce an item and do not say which
        head = _read_head(raw)
        item = self.tracker.begin(head, index)
        is_call = head.type in ("function_call", CUSTOM)
        if is_call and head.call_id and head.name and not item.has_begun:
            item.has_begun = True
            block = item.latest[CALL] = self.tracker.get_block(item, None)
            events.append(ToolCallBegin(block, head.call_id, head.name))
            if head.type == CUSTOM:
                events.append(ExtrasAdded(block, {NAME: {"type": CUSTOM}}))

    def end_item(self, raw: Raw, index: int | None, events: list[Event]) -> None:
        """Tell the rest of an item that is done."""
        head = _read_head(raw)
        item = self.tracker.find(head.id, index)
        is_told = bool(item.pieces) and item.is_elsewhere(index)
        if item.is_another(head, index) or (is_told and not is_again(item.pieces, _read(raw))):
            item = self.tracker.add(head.id, index)
        self._end_known_item(item, head, raw, events)

    def end_output(self, output: list[Raw], events: list[Event]) -> None:
        """Tell the rest of everything."""
        seen: set[Item] = set()
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
            piece = Other("refusal", raw, {NAME: {FORM: {PART: True}}})
            events.append(BlockAdded(block, _opaque(piece)))
            self.has_refusal = True
        self._refusals.clear()

    def _flush_whole_texts(self, item: Item, events: list[Event]) -> None:
        """Tell what was said at once, unless something else said it."""
        for delta in item.whole:
            if not self._end_part(item, delta, events):
                said = self.tracker.get_part_text(item, _part_of(delta), KINDS[delta.type])
                self._add_text(said, delta, events)
        item.whole.clear()

    def keep_unknown_event(self, kind: str, payload: bytes, events: list[Event]) -> None:
        """Keep an event that we have no name for."""
        check_utf8(payload)
        block = Opaque(kind=f"{EVENT}{kind}", raw=text_of(payload), origin=NAME)
        events.append(BlockAdded(self.tracker.new_block(), block))

    def _end_known_item(self, item: Item, head: Head, raw: Raw, events: list[Event]) -> None:
        item.is_done = True
        if raw == item.raw:
            return  # nearly always, where it is told again
        pieces, told = _read(raw), item.pieces
        if told:
            if item.tellings == _MOST_TELLINGS or not is_again(told, pieces):
                return
            raw = with_news(item.raw, raw)
            pieces = _read(raw)
        elif not any(map(words_of, pieces)):
            self._flush_whole_texts(item, events)
        item.whole.clear()
        if item.said and isinstance(pieces[0], Other) and pieces[0].kind == "message":
            return  # an empty message, where its words were in the deltas alone
        item.raw, item.pieces = raw, pieces
        item.head = item.head if told else head
        item.tellings += 1
        if not self._has_provider_note:
            self._has_provider_note = True
            events.append(ExtrasAdded(None, {NAME: {FORM: {MADE_BY: self._provider}}}))
        blocks = self.tracker.get_blocks(item, len(pieces))
        for number, (piece, block) in enumerate(zip(pieces, blocks, strict=True)):
            before = told[number] if number < len(told) else None
            if piece != before:
                self._end_block(item, piece, block, before, events)

    def _end_block(
        self, item: Item, piece: Piece, block: int, told: Piece | None, events: list[Event]
    ) -> None:
        match piece:
            case Words():
                text = self.tracker.get_block_text(item, block, WORDS).take_remaining(piece.text)
                if text:
                    events.append(TextDelta(block, text))
            case Thought():
                is_new = told is None and (block, THOUGHT) not in item.said
                text = self.tracker.get_block_text(item, block, THOUGHT).take_remaining(piece.text)
                if text or is_new:
                    events.append(ThinkingDelta(block, text))
                if piece.sealed is not None and not (isinstance(told, Thought) and told.sealed):
                    events.append(BlockSealed(block, self._target().seal(piece.sealed)))
            case Call():
                arguments = self.tracker.get_block_text(item, block, CALL).take_remaining(piece.arguments) or None
                if not item.has_begun:
                    item.has_begun = bool(piece.id and piece.name)
                    id = self._claim_id(piece.id, block)
                    events.append(ToolCallDelta(block, id, piece.name, arguments))
                elif arguments:
                    events.append(ToolCallDelta(block, arguments_delta=arguments))
            case Other():
                self._refusals.pop(block, None)
                self.has_refusal = self.has_refusal or piece.kind == "refusal"
                events.append(BlockAdded(block, _opaque(piece)))
                return
            case _:
                assert_never(piece)
        extras = new_extras(piece, told)
        if extras is not None:
            events.append(ExtrasAdded(block, extras))
        if isinstance(piece, Call):
            events.append(ToolCallEnd(block, piece.id or None))

    def _claim_id(self, id: str, block: int) -> str | None:
        """Return the id of a call; None if another has it, since nobody could answer them apart."""
        is_taken = self._calls.setdefault(id, block) != block
        return None if self.is_whole and is_taken else id

    def _target(self) -> Target:
        """Return whom seals are for: the model as it was asked for, else as it calls itself."""
        model = self._model
        if model is None:
            about = _read_answer(self.description) if self.description is not None else Answer()
            model = about.model
        return Target(self._provider, NAME, model or "")


def check_utf8(data: bytes) -> None:
    """Refuse what msgspec lets pass as long as it is not read: bytes that are no text."""
    try:
        data.decode()
    except UnicodeDecodeError:
        raise ProtocolError(f"{NAME}: not UTF-8") from None


def _opaque(piece: Other) -> Opaque:
    return Opaque(kind=piece.kind, raw=piece.raw, origin=NAME, extras=piece.extras)


def _part_of(delta: Delta) -> int | None:
    """Return the part that a delta is of, where each is a block of its own."""
    return delta.content_index if delta.type in (TEXT, REFUSAL) else None


def _place_of(delta: Delta) -> Part:
    """Return the part that a delta is of, where all of them are one block."""
    if delta.type not in THINKING:
        return THE_ONLY_ONE
    number = delta.content_index if delta.summary_index is None else delta.summary_index
    return delta.type, number


def _read(raw: Raw) -> list[Piece]:
    try:
        return read_item(raw, NAME)
    except InvalidRequest as exc:
        raise ProtocolError(str(exc)) from None
