"""Where the events of a stream belong, whatever servers do with ids and indexes.

An item is found by its id first: some servers count the output from 0 for each kind of item. It
is found by index if the id is new: others make up an id for every event. Two items may share a
name: what cannot be the item of that name is a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from steno.wire.open import NULL
from steno.wire.openai_responses.item import Piece
from steno.wire.openai_responses.retold import differ
from steno.wire.openai_responses.said import Said
from steno.wire.openai_responses.shapes import Delta, Head


@final
class Item:
    """An item of the output as far as it was told."""

    __slots__ = (
        *("has_begun", "head", "id", "index", "is_done", "latest", "parts", "pieces", "raw"),
        *("said", "tellings", "whole"),
    )

    def __init__(self, id: str | None, index: int | None) -> None:
        self.id = id
        self.index = index
        self.head = Head()
        """What it was called first."""
        self.parts: dict[int | None, int] = {}
        """The numbers of its blocks by the index of the part, in the order they came."""
        self.said: dict[tuple[int, str], Said] = {}
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
        self.pieces: list[Piece] = []
        """What it is made of, by that."""
        self.whole: list[Delta] = []
        """What was said at once, for the case that neither deltas nor the item say it."""

    def find_text(self, kind: str, part: int | None) -> Said | None:
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

    def is_another(self, head: Head, index: int | None) -> bool:
        """Tell whether it is not the item of this head, even if they share a name."""
        if differ(self.head.type, head.type):
            return True
        is_over = self.is_done or self.is_elsewhere(index)
        return is_over and differ(self.head.call_id, head.call_id)


@final
class Places:
    """All items of one answer, and the numbers of their blocks."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._by_id: dict[str | None, Item] = {}
        self._by_index: dict[int | None, Item] = {}
        self._by_kind: dict[str, Item] = {}
        self._block_count = 0

    def begin(self, head: Head, index: int | None) -> Item:
        """Return a new item, unless it was spoken of before it began."""
        item = self._find_by_id(head.id, index)
        if item is None or item.is_done or item.is_another(head, index):
            item = self.add(head.id, index)
        elif item.head.type and item.is_elsewhere(index):
            item = self.add(head.id, index)  # it began before, and not here
        if item.head.type is None:
            item.head = head
        return item

    def find(self, id: str | None, index: int | None) -> Item:
        """Return the item that an event is about; a new one if it is none we know."""
        item = self._find_by_id(id, index)
        if item is None:
            item = self._by_index.get(index)
            item = None if item is not None and item.is_done else item
        return item or self.add(id, index)

    def find_growing(self, id: str | None, index: int | None, kind: str) -> Item:
        """Return the item that there is more of; a new one if that cannot be."""
        item = self.find(id, index)
        is_over = item.is_done and (item.is_elsewhere(index) or not item.may_have(kind))
        return self.add(id, index) if is_over else item

    def find_again(self, id: str | None, index: int | None, kind: str) -> tuple[Item, bool]:
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

    def find_in_output(self, position: int, id: str | None) -> Iterator[Item]:
        """Return what may be an item of the whole output, the likeliest first."""
        for item in (self._find_by_id(id, position), self._by_index.get(position)):
            if item is not None:
                yield item

    def get_part_text(self, item: Item, part: int | None, kind: str) -> Said:
        """Return the words of the part of an item that is about to grow; calls have but one."""
        return self.get_block_text(item, self.get_block(item, part), kind)

    def get_block_text(self, item: Item, block: int, kind: str) -> Said:
        """Return the words of a block."""
        item.latest[kind] = block
        self._by_kind[kind] = item
        said = item.said.get((block, kind))
        if said is None:
            said = item.said[block, kind] = Said(kind, block)
        return said

    def get_block(self, item: Item, part: int | None) -> int:
        """Return the number of the block that a part of an item is."""
        block = item.parts.get(part)
        if block is None:
            block = item.parts[part] = self.new_block()
        return block

    def get_blocks(self, item: Item, count: int) -> list[int]:
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

    def add(self, id: str | None, index: int | None) -> Item:
        """Return a new item, which goes by these names from now on."""
        item = Item(id, index)
        self.items.append(item)
        if id:
            self._by_id[id] = item
        if index is not None:
            self._by_index[index] = item
        return item

    def _find_by_id(self, id: str | None, index: int | None) -> Item | None:
        """Return the item of that id; where there are two, the one at that index."""
        item = self._by_index.get(index)
        return item if item is not None and id and item.id == id else self._by_id.get(id)
