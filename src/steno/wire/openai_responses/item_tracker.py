"""Where the events of a stream belong, whatever servers do with ids and indexes.

An item is found by its id first: some servers count the output from 0 for each kind of item. It
is found by index if the id is new: others make up an id for every event. Two items may share a
name: what cannot be the item of that name is a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias, final

import msgspec
from msgspec import Raw

from steno.values import replace_lone_surrogates
from steno.wire.extras import FORM_KEY
from steno.wire.merged_extras import is_nonempty_json
from steno.wire.openai_responses.items import (
    CallPiece,
    ExtrasByWire,
    ItemPiece,
    OutputTextPiece,
    UnknownPiece,
)
from steno.wire.openai_responses.payload import NAME, REASONING_KIND, DeltaEvent, ItemHead
from steno.wire.tolerant import NULL, RawMembers, read_as

# -- retold ----------------------------------------------------------------------------------------
#
# Items that are told again: what a later telling adds to an earlier one, which stands.


_GROWING_FIELDS: Final = frozenset({"text", "content", "arguments", "input"})
"""Members that grow: what is longer later was not whole before."""


_LATEST_WINS_FIELDS: Final = frozenset({"status"})
"""Members of which the latest is true."""


def merge_repeated(told: Raw, again: Raw, name: str = "") -> Raw:
    """Return JSON as it was told, with what it did not say and is said of it now."""
    if told == again or not is_nonempty_json(told):
        return again
    members, more = read_as(told, RawMembers), read_as(again, RawMembers)
    if members is not None and more is not None:
        known = {
            name: merge_repeated(text, more.get(name, text), name) for name, text in members.items()
        }
        return Raw(msgspec.json.encode(more | known))
    elements, others = read_as(told, list[Raw]), read_as(again, list[Raw])
    if elements is not None and others is not None and len(others) >= len(elements):
        pairs = zip(elements, others, strict=False)
        both = [merge_repeated(element, other) for element, other in pairs]
        return Raw(msgspec.json.encode(both + others[len(elements) :]))
    return again if _is_newer(told, again, name) else told


def _is_newer(told: Raw, again: Raw, name: str) -> bool:
    """Tell whether a later telling of a text replaces the earlier one."""
    before, after = read_as(told, str), read_as(again, str)
    if before is None or after is None:
        return False
    return (name in _LATEST_WINS_FIELDS and bool(after)) or (
        name in _GROWING_FIELDS and after.startswith(before)
    )


def is_same_item(told: list[ItemPiece], again: list[ItemPiece]) -> bool:
    """Tell whether pieces are those of the same item: servers mix up ids and indexes."""
    return len(again) >= len(told) and all(map(_is_same_piece, told, again))


def _is_same_piece(told: ItemPiece, again: ItemPiece) -> bool:
    if isinstance(told, UnknownPiece):
        # What came whole cannot be added to; but an empty message may have got its words.
        return told.kind == "message" and isinstance(again, OutputTextPiece)
    if type(told) is not type(again):
        return False
    if (
        isinstance(told, CallPiece)
        and isinstance(again, CallPiece)
        and are_different(told.id, again.id)
    ):
        return False
    before, after = get_piece_text(told), get_piece_text(again)
    return before.startswith(after) or after.startswith(before)


def are_different(told: str | None, again: str | None) -> bool:
    """Tell whether a name is another one; a name that is not given is no other."""
    return bool(told and again) and told != again


def get_piece_text(piece: ItemPiece) -> str:
    """Return what a piece says in words or arguments."""
    match piece:
        case CallPiece():
            return piece.arguments
        case UnknownPiece():
            return "" if piece.kind == "message" else piece.raw
        case _:
            return piece.text


def find_new_extras(piece: ItemPiece, told: ItemPiece | None) -> ExtrasByWire | None:
    """Return the extras of a piece that were not told yet."""
    if told is None or piece.extras is None:
        return piece.extras
    if isinstance(told, UnknownPiece):
        return None  # the empty message stands with all its members; no other may have its id
    before, now = (told.extras or {}).get(NAME, {}), piece.extras.get(NAME, {})
    if FORM_KEY in before:
        now = {FORM_KEY: {}} | now  # the earlier form must not stay
    news = {name: now[name] for name in now if name not in before or before[name] != now[name]}
    return {NAME: news} if news else None


# -- said ------------------------------------------------------------------------------------------
#
# The words of one block as far as they were told: text, thinking, arguments or a refusal.
#
# They come in deltas, and again when a part of them is done, when the item is done, and at the end.
# What a later telling has behind what was told is told then; where it differs, the first one stands.
#
# Thinking has two places in its item, the summary and the content. Some servers say the same in
# both, and it is told once. So what comes in the second place waits as long as it may be a
# repetition; what differs from the first goes on as it comes.


PartKey: TypeAlias = tuple[str, int | None]
"""The place of a thought, and the number of the part there, if it has one."""


SINGLE_PART: Final[PartKey] = ("", None)
"""The part of what is no thought."""


@final
class BlockText:
    """Knows what was told of a block."""

    __slots__ = (
        *("_first", "_from", "_heard", "_held", "_held_at", "_is_different", "_latest"),
        *("_told_at", "block", "kind", "told"),
    )

    def __init__(self, kind: str, block: int) -> None:
        """Start without a word."""
        self.kind = kind
        self.block = block
        self.told: list[str] = []
        """All that was told, in pieces; none of them is empty."""
        self._heard: set[PartKey | str] = {"", SINGLE_PART}
        """The parts of which there was more, and their places."""
        self._first: str | None = None
        self._latest = SINGLE_PART
        self._from = 0  # the piece that the latest part begins with
        self._held: list[str] = []
        self._is_different = False
        # How far the two places were compared: the number of a piece, and how much of it.
        self._told_at = self._held_at = (0, 0)

    def add_delta(self, text: str, part: PartKey = SINGLE_PART) -> str:
        """Take more of a part; return what is to be told of it now."""
        place, _ = part
        if part != self._latest:
            self._latest, self._from = part, len(self.told)
            self._heard |= {part, place}
        if self._first is None:
            self._first = place
        if place != self._first and not self._is_different:
            self._held.append(text)
            if self._may_repeat():
                return ""
            text = "".join(self._held)
            self._held, self._is_different = [], True
        self._append(text)
        return text

    def find_part_end(self, whole: str, part: PartKey = SINGLE_PART) -> str | None:
        """Return what a part that is done has more; None if nothing was told of it.

        A part without a number is the latest.
        """
        place, number = part
        parts = {place} if number is None else {part, (place, None)}
        if self._heard.isdisjoint(parts):
            return None
        is_latest = self._latest in parts or (number is None and self._latest[0] == place)
        # What is behind another part already, or waits itself, is left to the item.
        return self._find_untold_end(whole) if is_latest and not self._held else ""

    def take_remaining(self, whole: str | None = None) -> str:
        """Return what is left to tell: of the `whole` that the item says, else of what waits."""
        told, held = "".join(self.told), "".join(self._held)
        if whole is not None and whole.startswith(told):
            left = whole[len(told) :]
        elif whole is not None and self.kind == REASONING_KIND and whole.endswith(told):
            left = whole[: -len(told)]  # the place that it was told of is the second one
        elif held.startswith(told):
            left = held[len(told) :]
        else:
            left = "" if told.startswith(held) else held
        self._held, self._told_at, self._held_at = [], (0, 0), (0, 0)
        self._append(left)
        return left

    def _append(self, text: str) -> None:
        """Note what is told, with the halves of a character put together."""
        if self.told and "\udc00" <= text[:1] <= "\udfff":
            pair = replace_lone_surrogates(self.told[-1][-1] + text[0])
            if len(pair) == 1:
                self.told[-1:] = [self.told[-1][:-1], pair] if len(self.told[-1]) > 1 else [pair]
                text = text[1:]
        if text:
            self.told.append(text)

    def _find_untold_end(self, whole: str) -> str:
        """Return what the latest part has behind what was told of it; nothing where it differs."""
        # Piece by piece, so that this costs what the whole is long and not what was told.
        at = 0
        for number in range(self._from, len(self.told)):
            piece = self.told[number]
            if not whole.startswith(piece, at):
                return ""
            at += len(piece)
        return whole[at:]

    def _may_repeat(self) -> bool:
        """Tell whether what waits is what was told, as far as both go; no letter is read twice."""
        (told, told_from), (held, held_from) = self._told_at, self._held_at
        while told < len(self.told) and held < len(self._held):
            one, other = self.told[told], self._held[held]
            size = min(len(one) - told_from, len(other) - held_from)
            if one[told_from : told_from + size] != other[held_from : held_from + size]:
                return False
            told_from, held_from = told_from + size, held_from + size
            if told_from == len(one):
                told, told_from = told + 1, 0
            if held_from == len(other):
                held, held_from = held + 1, 0
        self._told_at, self._held_at = (told, told_from), (held, held_from)
        return True


@final
class OutputItem:
    """An item of the output as far as it was told."""

    __slots__ = (
        *("has_begun", "head", "id", "index", "is_done", "latest", "parts", "pieces", "raw"),
        *("said", "tellings", "whole"),
    )

    def __init__(self, id: str | None, index: int | None) -> None:
        self.id = id
        self.index = index
        self.head = ItemHead()
        """What it was called first."""
        self.parts: dict[int | None, int] = {}
        """The numbers of its blocks by the index of the part, in the order they came."""
        self.said: dict[tuple[int, str], BlockText] = {}
        """The words of the blocks that grew already, by number and kind."""
        self.latest: dict[str, int] = {}
        """The numbers of the blocks that were last spoken of, by kind."""
        self.has_begun = False
        """Whether id and name of a call were told."""
        self.is_done = False
        self.tellings = 0
        """How many times it was told when it was done."""
        self.raw = NULL
        """All that was told of it then."""
        self.pieces: list[ItemPiece] = []
        """What it is made of, by that."""
        self.whole: list[DeltaEvent] = []
        """What was said at once, for the case that neither deltas nor the item say it."""

    def find_text(self, kind: str, part: int | None) -> BlockText | None:
        """Return the words of a part that grew; where nobody says which, of the latest one."""
        block = self.parts.get(part, self.parts.get(None))
        if block is None and part is None:
            block = self.latest.get(kind)
        return None if block is None else self.said.get((block, kind))

    def may_have(self, kind: str) -> bool:
        """Tell whether it may have words of a kind: nothing speaks against it."""
        return kind in self.latest or not (self.latest or self.is_done)

    def is_elsewhere(self, index: int | None) -> bool:
        """Tell whether its index is another one."""
        return None not in (index, self.index) and index != self.index

    def is_another(self, head: ItemHead, index: int | None) -> bool:
        """Tell whether it is not the item of this head, even if they share a name."""
        if are_different(self.head.type, head.type):
            return True
        is_over = self.is_done or self.is_elsewhere(index)
        return is_over and are_different(self.head.call_id, head.call_id)


@final
class ItemTracker:
    """All items of one answer, and the numbers of their blocks."""

    def __init__(self) -> None:
        self.items: list[OutputItem] = []
        self._by_id: dict[str | None, OutputItem] = {}
        self._by_index: dict[int | None, OutputItem] = {}
        self._by_kind: dict[str, OutputItem] = {}
        self._block_count = 0

    def begin(self, head: ItemHead, index: int | None) -> OutputItem:
        """Return a new item, unless it was spoken of before it began."""
        item = self._find_by_id(head.id, index)
        if item is None or item.is_done or item.is_another(head, index):
            item = self.add(head.id, index)
        elif item.head.type and item.is_elsewhere(index):
            item = self.add(head.id, index)  # it began before, and not here
        if item.head.type is None:
            item.head = head
        return item

    def find(self, id: str | None, index: int | None) -> OutputItem:
        """Return the item that an event is about; a new one if it is none we know."""
        item = self._find_by_id(id, index)
        if item is None:
            item = self._by_index.get(index)
            item = None if item is not None and item.is_done else item
        return item or self.add(id, index)

    def find_growing(self, id: str | None, index: int | None, kind: str) -> OutputItem:
        """Return the item that there is more of; a new one if that cannot be."""
        item = self.find(id, index)
        is_over = item.is_done and (item.is_elsewhere(index) or not item.may_have(kind))
        return self.add(id, index) if is_over else item

    def find_again(self, id: str | None, index: int | None, kind: str) -> tuple[OutputItem, bool]:
        """Return the item whose words an event repeats, done or not; and whether that is certain."""
        item = self._find_by_id(id, index)
        if item is not None:
            return item, True
        item = self._by_index.get(index)
        if item is not None and item.may_have(kind):
            return item, True
        item = self._by_kind.get(kind) or (self.items[-1] if self.items else None)
        if item is not None and item.may_have(kind):
            return item, False
        return self.add(id, index), True

    def find_in_output(self, position: int, id: str | None) -> Iterator[OutputItem]:
        """Return what may be an item of the whole output, the likeliest first."""
        for item in (self._find_by_id(id, position), self._by_index.get(position)):
            if item is not None:
                yield item

    def get_part_text(self, item: OutputItem, part: int | None, kind: str) -> BlockText:
        """Return the words of the part of an item that is about to grow; calls have but one."""
        return self.get_block_text(item, self.get_block(item, part), kind)

    def get_block_text(self, item: OutputItem, block: int, kind: str) -> BlockText:
        """Return the words of a block."""
        item.latest[kind] = block
        self._by_kind[kind] = item
        said = item.said.get((block, kind))
        if said is None:
            said = item.said[block, kind] = BlockText(kind, block)
        return said

    def get_block(self, item: OutputItem, part: int | None) -> int:
        """Return the number of the block that a part of an item is."""
        block = item.parts.get(part)
        if block is None:
            block = item.parts[part] = self.new_block()
        return block

    def get_blocks(self, item: OutputItem, count: int) -> list[int]:
        """Return the numbers of the blocks of an item that has so many parts."""
        if count == 1 and None in item.parts:
            return [item.parts[None]]
        if item.parts.keys() <= set(range(count)):
            return [self.get_block(item, part) for part in range(count)]
        while len(item.parts) < count:  # its parts are counted in some other way
            self.get_block(item, -1 - len(item.parts))
        return list(item.parts.values())[:count]

    def new_block(self) -> int:
        """Return the number of one more block."""
        self._block_count += 1
        return self._block_count - 1

    def add(self, id: str | None, index: int | None) -> OutputItem:
        """Return a new item, which goes by these names from now on."""
        item = OutputItem(id, index)
        self.items.append(item)
        if id:
            self._by_id[id] = item
        if index is not None:
            self._by_index[index] = item
        return item

    def _find_by_id(self, id: str | None, index: int | None) -> OutputItem | None:
        """Return the item of that id; where there are two, the one at that index."""
        item = self._by_index.get(index)
        return item if item is not None and id and item.id == id else self._by_id.get(id)
