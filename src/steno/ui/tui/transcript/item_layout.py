"""The layout of a transcript: the heights of its items, and the lines at a position.

Only requested items are drawn. The height of any other item is an estimate, or its last known
height; `resolve_top` draws items until no visible item has an estimated height. This module
imports no widget.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, final

from textual.cache import LRUCache
from textual.strip import Strip

from steno.render.items import TranscriptItem
from steno.ui.tui.transcript.item_drawing import DrawImage, ItemDrawing, estimate_height
from steno.ui.tui.transcript.text_lines import TranscriptStyles

MAX_DRAWN_ITEMS: Final = 1_000
"""The number of cached drawings; other items are drawn again when the user scrolls to them."""


class LinePosition(NamedTuple):
    """The index of an item, and of a line in it."""

    item: int
    line: int


@final
class HeightIndex:
    """The heights of items in lines, as a Fenwick tree: updates and sums take logarithmic time."""

    def __init__(self, heights: Iterable[int] = ()) -> None:
        self._heights = list(heights)
        # A Fenwick (binary indexed) tree: sums[i] covers the last (i & -i) heights before i.
        self._sums = [0, *self._heights]
        for position in range(1, len(self._sums)):
            parent = position + (position & -position)
            if parent < len(self._sums):
                self._sums[parent] += self._sums[position]

    def __len__(self) -> int:
        return len(self._heights)

    def __getitem__(self, index: int) -> int:
        return self._heights[index]

    def __setitem__(self, index: int, height: int) -> None:
        change = height - self._heights[index]
        if not change:
            return
        self._heights[index] = height
        position = index + 1
        while position < len(self._sums):
            self._sums[position] += change
            position += position & -position

    @property
    def total(self) -> int:
        """The sum of all heights."""
        return self.offset(len(self))

    def append(self, height: int) -> None:
        """Append a height."""
        position = len(self._sums)
        covered = self.offset(position - 1) - self.offset(position - (position & -position))
        self._heights.append(height)
        self._sums.append(covered + height)

    def offset(self, index: int) -> int:
        """Return the line in which an item begins."""
        total = 0
        while index:
            total += self._sums[index]
            index &= index - 1
        return total

    def find(self, line: int) -> LinePosition:
        """Return the item and its line at a position; the last line if the position is after it."""
        if line >= (total := self.total):
            return LinePosition(len(self) - 1, self._heights[-1] - 1 if total else 0)
        position = 0
        step = 1 << len(self._heights).bit_length()
        while step:
            ahead = position + step
            if ahead < len(self._sums) and self._sums[ahead] <= line:
                position = ahead
                line -= self._sums[ahead]
            step >>= 1
        return LinePosition(position, line)


class ScrollAnchor(NamedTuple):
    """A line of an item that stays in its row while estimated heights are replaced."""

    item: int
    line: int = 0
    row: int = 0


@final
class ItemLayout:
    """Items, their heights, and the drawings of the items that were visible."""

    def __init__(self, draw_image: DrawImage) -> None:
        self._draw_image = draw_image
        self._items: list[TranscriptItem] = []
        self._index_by_item: dict[TranscriptItem, int] = {}
        self._heights = HeightIndex()
        self._width = 0
        self._styles: TranscriptStyles | None = None
        # The width for which each height was measured; 0 if the height is an estimate.
        self._measured_widths: list[int] = []
        self._drawings: LRUCache[int, ItemDrawing] = LRUCache(MAX_DRAWN_ITEMS)
        self.draw_count: int = 0
        """The number of drawings so far, for tests."""

    # -- items ----------------------------------------------------------------------------

    @property
    def items(self) -> Sequence[TranscriptItem]:
        """All items, from top to bottom."""
        return self._items

    def set_items(self, items: Iterable[TranscriptItem]) -> None:
        """Replace the items."""
        self._items = list(items)
        self._index_by_item = {item: index for index, item in enumerate(self._items)}
        self._drawings.clear()
        self.invalidate_heights()

    def add(self, item: TranscriptItem) -> None:
        """Append an item."""
        self._index_by_item[item] = len(self._items)
        self._items.append(item)
        self._heights.append(estimate_height(item, self._width))
        self._measured_widths.append(0)

    def remove(self, item: TranscriptItem) -> None:
        """Remove an item; the items below it are drawn again."""
        index = self._index_by_item.pop(item)
        del self._items[index], self._measured_widths[index]
        self._index_by_item.update(
            {other: position for position, other in enumerate(self._items[index:], index)}
        )
        positions = [*range(index), *range(index + 1, len(self._heights))]
        self._heights = HeightIndex(self._heights[position] for position in positions)
        for position in [*self._drawings.keys()]:
            if position >= index:
                self._drawings.discard(position)

    def index_of(self, item: TranscriptItem) -> int | None:
        """Return the index of an item; None if the layout does not contain it."""
        return self._index_by_item.get(item)

    def fit(self, width: int, styles: TranscriptStyles) -> None:
        """Set the width and the styles of drawings."""
        if width != self._width or styles != self._styles:
            self._drawings.clear()
        self._width = width
        self._styles = styles

    def invalidate(self, index: int) -> None:
        """Mark an item as changed, so that it is drawn again when it is next visible."""
        self._measured_widths[index] = 0
        if (drawing := self._drawings.get(index)) is not None:
            drawing.is_stale = True

    def invalidate_heights(self) -> None:
        """Replace all heights with estimates, after a change that affects most of them."""
        self._heights = HeightIndex(estimate_height(item, self._width) for item in self._items)
        self._measured_widths = [0] * len(self._items)
        for index in [*self._drawings.keys()]:
            self._drawings[index].is_stale = True

    # -- positions -------------------------------------------------------------------------

    @property
    def height(self) -> int:
        """The number of lines of all items, measured or estimated."""
        return self._heights.total

    def top_of(self, index: int) -> int:
        """Return the first line of an item."""
        return self._heights.offset(index)

    def bottom_of(self, item: TranscriptItem) -> int:
        """Return the line after an item."""
        return self._heights.offset(self._index_by_item[item] + 1)

    def height_of(self, index: int) -> int:
        """Return the height of an item; draws it if necessary."""
        if self._measured_widths[index] != self._width:
            self._heights[index] = len(self._drawing(index).lines)
            self._measured_widths[index] = self._width
        return self._heights[index]

    def position_at(self, line: int) -> LinePosition:
        """Return the item and the line at a position."""
        return self._heights.find(line)

    def resolve_top(self, anchor: ScrollAnchor | None, rows: int) -> int:
        """Draw the items of a view with `rows` rows, and return the line at its top.

        The anchor stays in its row, if there are enough lines for the other rows. Without an
        anchor, the last line is at the bottom.
        """
        while True:
            limit = max(0, self.height - rows)
            top = limit
            if anchor is not None:
                line = min(anchor.line, self._heights[anchor.item] - 1)
                anchored = self._heights.offset(anchor.item) + line - anchor.row
                top = max(0, min(anchored, limit))
            guessed = [
                index
                for index in self._items_within(top, rows)
                if self._measured_widths[index] != self._width
            ]
            if not guessed:
                return top
            for index in guessed:
                self.height_of(index)

    def _items_within(self, top: int, rows: int) -> range:
        if not self._items:
            return range(0)
        return range(self.position_at(top).item, self.position_at(top + max(rows, 1) - 1).item + 1)

    # -- lines ----------------------------------------------------------------------------

    def line_at(self, line: int) -> tuple[LinePosition, Strip]:
        """Return the position and the strip of a line; the lines of a changed item may be old."""
        position = self.position_at(line)
        drawing = self._drawings.get(position.item)
        lines = (drawing or self._drawing(position.item)).lines
        return position, lines[position.line] if position.line < len(lines) else Strip([])

    def _drawing(self, index: int) -> ItemDrawing:
        drawing = self._drawings.get(index)
        if drawing is None:
            assert self._styles is not None, "call fit first"
            item = self._items[index]
            drawing = ItemDrawing(item, self._width, self._styles, self._draw_image)
            self._drawings[index] = drawing
        if drawing.is_stale:
            drawing.draw()
            self.draw_count += 1
        return drawing
