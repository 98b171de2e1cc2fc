"""Where the events of a stream belong, whatever servers do with ids and indexes.

An item is found by its id first: some servers count the output from 0 for each kind of item. It
is found by index if the id is new: others make up an id for every event.
"""

from __future__ import annotations

from typing import final


@final
class Item:
    """An item of the output as far as it was told."""

    __slots__ = ("has_begun", "is_done", "parts", "told")

    def __init__(self) -> None:
        self.parts: dict[int | None, int] = {}
        """The numbers of its blocks by the index of the part, in the order they came."""
        self.told: set[int] = set()
        """The numbers of the blocks that grew already."""
        self.has_begun = False
        """Whether id and name of a call were told."""
        self.is_done = False


@final
class Places:
    """All items of one answer, and the numbers of their blocks."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._by_id: dict[str, Item] = {}
        self._by_index: dict[int, Item] = {}
        self._block_count = 0

    def begin(self, id: str | None, index: int | None) -> Item:
        """Return a new item, unless it was spoken of before it began."""
        known = self._by_id.get(id) if id else None
        return self._add(id, index) if known is None or known.is_done else known

    def find(self, id: str | None, index: int | None) -> Item:
        """Return the item that an event is about; a new one if it is none we know."""
        item = self._by_id.get(id) if id else None
        if item is None and index is not None:
            item = self._by_index.get(index)
            item = None if item is not None and item.is_done else item
        return item or self._add(id, index)

    def find_in_output(self, position: int, id: str | None, count: int) -> Item | None:
        """Return an item of the whole output; None if all were told, but under other names."""
        known = self._by_id.get(id) if id else None
        known = known or self._by_index.get(position)
        if known is not None or len(self._items) >= count:
            return known
        return self._add(id, position)

    def grow(self, item: Item, part: int | None) -> int:
        """Return the number of a block that is about to grow."""
        block = self.block(item, part)
        item.told.add(block)
        return block

    def block(self, item: Item, part: int | None) -> int:
        """Return the number of the block that a part of an item is; calls have but one."""
        block = item.parts.get(part)
        if block is None:
            block = item.parts[part] = self.new_block()
        return block

    def new_block(self) -> int:
        """Return the number of one more block."""
        self._block_count += 1
        return self._block_count - 1

    def _add(self, id: str | None, index: int | None) -> Item:
        item = Item()
        self._items.append(item)
        if id:
            self._by_id[id] = item
        if index is not None:
            self._by_index[index] = item
        return item
