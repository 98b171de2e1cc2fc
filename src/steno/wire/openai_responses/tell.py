"""Tell items as events, each thing once.

A stream speaks of an item three times: in deltas, when the item is done, and at the end. What
was told is not told again; what is only in a later telling is taken from there.
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
from steno.wire.open import reader, text_of
from steno.wire.openai_responses.item import Call, Other, Piece, Thought, Words, read_item
from steno.wire.openai_responses.places import Item, Places
from steno.wire.openai_responses.shapes import (
    ARGUMENTS,
    MADE_BY,
    NAME,
    PART,
    PROVIDER,
    THINKING,
    Answer,
    Delta,
    Head,
)
from steno.wire.writing import EVENT, Target

_read_head: Final = reader(Head, NAME)
_read_answer: Final = reader(Answer, NAME)


@final
class Teller:
    """Knows what was told of one answer."""

    def __init__(self, provider: str, model: str | None) -> None:
        self.places = Places()
        self.about: Raw | None = None
        """The answer as it was last described, without or with its output."""
        self.is_refused = False
        self._provider = provider
        self._model = model
        self._is_noted = provider == PROVIDER
        self._refusals: dict[int, list[str]] = {}
        """The words of refusals that are not done, by block."""

    def tell_delta(self, delta: Delta, events: list[Event]) -> None:
        """Tell more of an item: thinking, arguments or a refusal."""
        item = self.places.find(delta.item_id, delta.output_index)
        if delta.type in THINKING:
            events.append(ThinkingDelta(self.places.grow(item, None), delta.delta))
        elif delta.type == ARGUMENTS:
            block = self.places.grow(item, None)
            events.append(ToolCallDelta(block, arguments_delta=delta.delta))
        else:
            block = self.places.grow(item, delta.content_index)
            self._refusals.setdefault(block, []).append(delta.delta)

    def begin_item(self, raw: Raw, index: int | None, events: list[Event]) -> None:
        """Tell what an item will be, as far as that is certain."""
        head = _read_head(raw)
        item = self.places.begin(head.id, index)
        if head.type == "function_call" and head.call_id and head.name and not item.has_begun:
            item.has_begun = True
            events.append(ToolCallBegin(self.places.block(item, None), head.call_id, head.name))

    def end_item(self, raw: Raw, index: int | None, events: list[Event]) -> None:
        """Tell the rest of an item that is done."""
        self._end(self.places.find(_read_head(raw).id, index), raw, events)

    def end_output(self, output: list[Raw], events: list[Event]) -> None:
        """Tell the rest of everything."""
        for position, raw in enumerate(output):
            item = self.places.find_in_output(position, _read_head(raw).id, len(output))
            if item is not None:
                self._end(item, raw, events)
        self.end_refusals(events)

    def end_refusals(self, events: list[Event]) -> None:
        """Tell the words of refusals that were never said to be done."""
        for block, words in self._refusals.items():
            refusal = replace_lone_surrogates("".join(words))
            raw = msgspec.json.encode({"type": "refusal", "refusal": refusal}).decode()
            piece = Other("refusal", raw, {NAME: {FORM: {PART: True}}})
            events.append(BlockAdded(block, _opaque(piece)))
            self.is_refused = True
        self._refusals.clear()

    def keep(self, kind: str, payload: bytes, events: list[Event]) -> None:
        """Keep an event that we have no name for."""
        check_utf8(payload)
        block = Opaque(kind=f"{EVENT}{kind}", raw=text_of(payload), origin=NAME)
        events.append(BlockAdded(self.places.new_block(), block))

    def _end(self, item: Item, raw: Raw, events: list[Event]) -> None:
        if item.is_done:
            return
        item.is_done = True
        try:
            pieces = read_item(raw, NAME)
        except InvalidRequest as exc:
            raise ProtocolError(str(exc)) from None
        if item.told and isinstance(pieces[0], Other) and pieces[0].kind == "message":
            return  # an empty message, where its words were in the deltas alone
        if not self._is_noted:
            self._is_noted = True
            events.append(ExtrasAdded(None, {NAME: {FORM: {MADE_BY: self._provider}}}))
        blocks = list(item.parts.values())
        blocks += [self.places.new_block() for _ in pieces[len(blocks) :]]
        for piece, block in zip(pieces, blocks, strict=False):
            self._end_block(item, piece, block, events)

    def _end_block(self, item: Item, piece: Piece, block: int, events: list[Event]) -> None:
        is_new = block not in item.told
        match piece:
            case Words():
                if is_new and piece.text:
                    events.append(TextDelta(block, piece.text))
            case Thought():
                if is_new:
                    events.append(ThinkingDelta(block, piece.text))
                if piece.sealed is not None:
                    events.append(BlockSealed(block, self._target().seal(piece.sealed)))
            case Call():
                arguments = piece.arguments if is_new else None
                if not item.has_begun:
                    events.append(ToolCallDelta(block, piece.id, piece.name, arguments))
                elif arguments:
                    events.append(ToolCallDelta(block, arguments_delta=arguments))
            case Other():
                self._refusals.pop(block, None)
                self.is_refused = self.is_refused or piece.kind == "refusal"
                events.append(BlockAdded(block, _opaque(piece)))
                return
            case _:
                assert_never(piece)
        if piece.extras is not None:
            events.append(ExtrasAdded(block, piece.extras))
        if isinstance(piece, Call):
            events.append(ToolCallEnd(block, piece.id or None))

    def _target(self) -> Target:
        """Return whom seals are for: the model as it was asked for, else as it calls itself."""
        model = self._model
        if model is None:
            about = _read_answer(self.about) if self.about is not None else Answer()
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
