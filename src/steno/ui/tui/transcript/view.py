"""The transcript widget: items, drawn line by line and scrolled.

It follows the end while the end is visible, and stays in place while the user reads further up.
Changes are drawn at most 30 times a second, and only if they are visible. Images are read and drawn
in a thread when they become visible, and the latest drawings are cached. This module does not
depend on the source of the items.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any, ClassVar, Final, TypeAlias, final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from steno.errors import install_command
from steno.render.items import ImageLocation, TranscriptItem
from steno.render.terminal_text import terminal_text
from steno.ui.tui.transcript.item_drawing import copied_text
from steno.ui.tui.transcript.item_layout import ItemLayout, ScrollAnchor
from steno.ui.tui.transcript.text_lines import (
    STYLE_CLASSES,
    STYLE_SHEET,
    TranscriptStyles,
    fit_head,
    read_styles,
    styled_strip,
)

MAX_CACHED_IMAGES: Final = 64
ReadImageBytes: TypeAlias = Callable[[], bytes | None]
"""Returns the bytes of an image; None if they cannot be read. Any thread may call it."""
FindImage: TypeAlias = Callable[[str, int], ReadImageBytes | None]
"""Returns a function that reads an image, given the id of its entry and the index of its block;
None if the image is not available."""
_ImageKey: TypeAlias = tuple[ImageLocation, int]
# Each line fits into a terminal of 60 columns.
GREETING_HINTS: Final = (
    "Type a prompt and press Enter; @file attaches a file.",
    "/help commands and keys · Esc interrupt · Ctrl+D quit",
)
REDRAW_PAUSE_S: Final = 1 / 30
"""The minimal pause between two drawings of changed items."""
LEFT_MARGIN: Final = 2
"""The number of columns on the left for the mark of the selected item."""


def find_no_image(entry: str, number: int) -> ReadImageBytes | None:
    """Return None, for a transcript without images."""
    return None


@final
class _ImageCache:
    """Draws the images of a transcript in a thread, and redraws items when an image is ready."""

    def __init__(self, view: Transcript) -> None:
        self.find_image: FindImage = find_no_image
        self._view = view
        self._drawn: LRUCache[_ImageKey, Sequence[Strip]] = LRUCache(MAX_CACHED_IMAGES)
        self._pending: dict[_ImageKey, set[TranscriptItem]] = {}

    def draw(self, item: TranscriptItem, image: ImageLocation, width: int) -> Sequence[Strip]:
        """Return the lines of an image: a placeholder until it is drawn.

        Returns no lines if the image is not available.
        """
        key = (image, width)
        if (drawn := self._drawn.get(key)) is not None:
            return drawn
        if key not in self._pending:
            read = self.find_image(*image)
            if read is None:
                return []  # it may be available later
            self._pending[key] = set()
            self._view.run_worker(self._draw(read, key), group="images")
        self._pending[key].add(item)
        return [Strip([Segment("[image …]", Style(dim=True))])]

    async def _draw(self, read: ReadImageBytes, key: _ImageKey) -> None:
        has_color = not self._view.app.no_color
        self._drawn[key] = await asyncio.to_thread(_read_and_draw, read, key[1], has_color)
        for item in self._pending.pop(key):
            self._view.redraw_item(item)


def _read_and_draw(read: ReadImageBytes, width: int, has_color: bool) -> Sequence[Strip]:
    """Read and draw an image; the first call imports the decoders."""
    data = read()
    if data is None:
        return [Strip([Segment("[image; cannot be read]")])]
    try:
        from steno.ui.tui.transcript.image import draw_image  # noqa: PLC0415 - slow and optional
    except ImportError:
        return [Strip([Segment(f"[image; to see it: {install_command('images')}]")])]
    return draw_image(data, width, has_color=has_color)


class Transcript(ScrollView, can_focus=True):
    """A transcript that can be scrolled, folded, selected item by item, and copied."""

    DEFAULT_CSS: ClassVar[str] = STYLE_SHEET
    COMPONENT_CLASSES: ClassVar[set[str]] = {*STYLE_CLASSES}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,alt+up", "select(-1)", "Previous", show=False),
        Binding("down,alt+down", "select(1)", "Next", show=False),
        Binding("enter,space", "fold", "Fold", show=False),
        Binding("y", "copy", "Copy", show=False),
        Binding("e", "edit", "Edit", show=False),
        Binding("escape", "leave", "Leave", show=False),
    ]

    unseen_count: reactive[int] = reactive(0, repaint=False)
    """The number of new or changed items below the screen; 0 once the end is visible."""

    @dataclass
    class EditRequested(Message):
        """The user wants to edit an item."""

        item: TranscriptItem

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._image_cache = _ImageCache(self)
        self._item_layout = ItemLayout(self._image_cache.draw)
        self._item_styles: TranscriptStyles | None = None
        self.selected: TranscriptItem | None = None
        """The selected item, or None."""
        self._has_content = False
        self._greeting_text = ""
        self._changed_items: set[TranscriptItem] = set()
        self._unseen_items: set[TranscriptItem] = set()
        self.is_at_end: bool = True
        """Whether the end is visible. The view then follows new items."""
        self._is_laying_out = False
        self._awaits_redraw = False
        self._pause_s = REDRAW_PAUSE_S

    # -- items ----------------------------------------------------------------------------

    @property
    def items(self) -> Sequence[TranscriptItem]:
        """All items, from top to bottom."""
        return self._item_layout.items

    @property
    def draw_count(self) -> int:
        """The number of drawings so far, for tests."""
        return self._item_layout.draw_count

    def set_image_source(self, find_image: FindImage) -> None:
        """Set the source of images, which is used when an image is drawn."""
        self._image_cache.find_image = find_image

    def redraw_item(self, item: TranscriptItem) -> None:
        """Schedule a redraw of an item."""
        self._changed_items.add(item)
        self._redraw_soon()

    def show_items(self, items: Sequence[TranscriptItem]) -> None:
        """Replace the items, and scroll to the end; without items, show the greeting."""
        self._has_content = True
        self._item_layout.set_items(items)
        self.selected = None
        self._changed_items.clear()
        self._unseen_items.clear()
        self.is_at_end = True
        self._lay_out_visible(None)

    def show_greeting(self, about: str) -> None:
        """Set the first line of the greeting, which is shown until there is an item."""
        if about != self._greeting_text:
            self._greeting_text = about
            self.refresh()

    def add_item(self, item: TranscriptItem) -> None:
        """Append an item."""
        self._item_layout.add(item)
        self._unseen_items.add(item)
        self._redraw_soon()

    def update_item(self, item: TranscriptItem) -> None:
        """Schedule a redraw of a changed item. An unknown item is ignored."""
        if self._item_layout.index_of(item) is not None:
            self._unseen_items.add(item)
            self.redraw_item(item)

    def remove_item(self, item: TranscriptItem) -> None:
        """Remove an item. An unknown item is ignored."""
        if self._item_layout.index_of(item) is not None:
            self._item_layout.remove(item)
            self._changed_items.discard(item)
            self._unseen_items.discard(item)
            self.selected = None if self.selected is item else self.selected
            self._redraw_soon()

    def fold_all(self, *, is_folded: bool) -> None:
        """Fold or unfold all items."""
        for item in self.items:
            if item.can_fold:
                item.is_folded = is_folded
        anchor = self._anchor()
        self._item_layout.invalidate_heights()
        self._lay_out_visible(anchor)

    # -- drawing ---------------------------------------------------------------------------

    def _redraw_soon(self) -> None:
        if not self._awaits_redraw and self.is_attached:
            self._awaits_redraw = True
            self.set_timer(self._pause_s, self._redraw)

    def _redraw(self) -> None:
        self._awaits_redraw = False
        started_at = process_time()
        for item in self._changed_items:
            if (index := self._item_layout.index_of(item)) is not None:
                self._item_layout.invalidate(index)
        self._changed_items.clear()
        self._lay_out_visible(self._anchor())
        # If drawing is slow, draw less often, to leave time for everything else.
        self._pause_s = max(REDRAW_PAUSE_S, 3 * (process_time() - started_at))

    def _anchor(self) -> ScrollAnchor | None:
        """Return an anchor at the top line; None without items or if the view follows the end."""
        if not self.items or (self.is_at_end and self.selected is None):
            return None
        return ScrollAnchor(*self._item_layout.position_at(self.scroll_offset.y))

    def _lay_out_visible(self, anchor: ScrollAnchor | None) -> None:
        """Draw the visible items, and update the scroll position."""
        width, rows = self.size
        if not width or not rows:  # `on_resize` calls this again once the size is known
            return
        self._fit_styles()
        top = self._item_layout.resolve_top(anchor, rows)
        self._is_laying_out = True
        try:
            self.virtual_size = Size(width, self._item_layout.height)
            self.scroll_target_y = self.scroll_y = top
        finally:
            self._is_laying_out = False
        self.is_at_end = top >= self._item_layout.height - rows
        bottoms = {item: self._item_layout.bottom_of(item) for item in self._unseen_items}
        self._unseen_items = {item for item in bottoms if bottoms[item] > top + rows}
        self.unseen_count = len(self._unseen_items)
        self.refresh()

    def _fit_styles(self) -> None:
        if self._item_styles is None:
            self._item_styles = read_styles(self)
        self._item_layout.fit(self.scrollable_size.width - LEFT_MARGIN, self._item_styles)

    def notify_style_update(self) -> None:
        """Read the styles again after a change of the theme."""
        super().notify_style_update()
        self._item_styles = None

    def on_mount(self) -> None:
        """Draw the items again whenever the theme changes."""
        self.app.theme_changed_signal.subscribe(self, self._on_theme_changed)

    def _on_theme_changed(self, _: object) -> None:
        self._item_styles = None
        self.on_resize()

    def on_resize(self) -> None:
        """Draw the visible items again for the new width."""
        self._lay_out_visible(self._anchor())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Draw the items that became visible; the other items move by the scrolled distance."""
        super().watch_scroll_y(old_value, new_value)
        if self._is_laying_out or not self.items:
            return
        old, new = round(old_value), round(new_value)
        if new >= self.max_scroll_y:
            anchor = None
        elif 0 < old - new <= 2 * self.size.height:
            # Heights above may be estimates: the old top line determines the distance.
            anchor = ScrollAnchor(*self._item_layout.position_at(old), row=old - new)
        else:
            anchor = ScrollAnchor(*self._item_layout.position_at(new))
        self._lay_out_visible(anchor)

    def watch_show_vertical_scrollbar(self, is_shown: bool) -> None:
        """Set the position of a scrollbar that has just appeared."""
        if is_shown:
            self.vertical_scrollbar.position = self.scroll_y

    def _scroll_to(self, x: float | None = None, y: float | None = None, **options: Any) -> bool:
        # All scrolling uses this method. It is not animated, because measured heights replace
        # estimates during an animation, and its target would move.
        options["animate"] = False
        return super()._scroll_to(x, y, **options)

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen."""
        width = self.size.width
        line = self.scroll_offset.y + y
        self._fit_styles()
        assert self._item_styles is not None
        base = self._item_styles.base
        if line >= self._item_layout.height:
            return self._row_below_items(y, self._item_styles).crop_extend(0, width, base)
        position, drawn = self._item_layout.line_at(line)
        is_marked = bool(drawn) and self.items[position.item] is self.selected
        mark = Segment("▌ " if is_marked else "  ", self._item_styles.selected)
        strip = Strip([mark, *drawn]).apply_style(base)
        if (selection := self.text_selection) is not None:
            strip = self._highlighted(strip, selection.get_span(line))
        return strip.crop_extend(0, width, base).apply_offsets(0, line)

    def _row_below_items(self, row: int, styles: TranscriptStyles) -> Strip:
        """Return a row below all items: an empty row, or a line of the greeting."""
        if self.items or not self._has_content:
            return Strip([])
        about = [(self._greeting_text, styles.head)] if self._greeting_text else []
        lines = [("", styles.base), *about, *[(line, styles.dim) for line in GREETING_HINTS]]
        columns = self.size.width - LEFT_MARGIN
        shown = [(fit_head(text, columns), style) for text, style in lines[row : row + 1]]
        return styled_strip((" " * LEFT_MARGIN, styles.base), *shown).apply_style(styles.base)

    # -- selection ------------------------------------------------------------------------

    def action_select(self, delta: int) -> None:
        """Select the next (1) or previous (-1) item, or a visible item if no item is selected."""
        if not self.items or not self.size.height:
            return
        top, rows = self.scroll_offset.y, self.size.height
        if self.selected is None or (index := self._item_layout.index_of(self.selected)) is None:
            index = self._item_layout.position_at(top + rows - 1 if delta < 0 else top).item
        else:
            index = max(0, min(index + delta, len(self.items) - 1))
        self.selected = self.items[index]
        # Scroll as little as possible; of a long item, show its head.
        height = self._item_layout.height_of(index)
        row = self._item_layout.top_of(index) - top
        self._lay_out_visible(ScrollAnchor(index, row=max(0, min(row, rows - height))))

    def deselect(self) -> bool:
        """Select no item; return whether an item was selected."""
        before, self.selected = self.selected, None
        self.refresh()
        return before is not None

    def fold(self, item: TranscriptItem) -> None:
        """Fold or unfold an item; its head stays in place."""
        index = self._item_layout.index_of(item)
        if index is None or not item.can_fold:
            return
        item.is_folded = not item.is_folded
        row = self._item_layout.top_of(index) - self.scroll_offset.y
        self._item_layout.invalidate(index)
        self._lay_out_visible(ScrollAnchor(index, row=max(0, row)))

    def on_click(self, event: events.Click) -> None:
        """Fold or unfold the item whose head is clicked."""
        offset = event.get_content_offset(self)
        if offset is None or not self.items or self.text_selection is not None:
            return
        line = self.scroll_offset.y + offset.y
        position = self._item_layout.position_at(line)
        if line < self._item_layout.height and position.line == 0:
            self.fold(self.items[position.item])

    def action_fold(self) -> None:
        """Fold or unfold the selected item."""
        self.fold(self._selected_item())

    def action_copy(self) -> None:
        """Copy the text of the selected item."""
        self.app.copy_to_clipboard(terminal_text(copied_text(self._selected_item())))
        self.notify("Copied.", timeout=2)

    def action_edit(self) -> None:
        """Request to edit the selected item."""
        self.post_message(self.EditRequested(self._selected_item()))

    def action_leave(self) -> None:
        """Deselect the item; if no item is selected, the app handles the key."""
        if not self.deselect():
            raise SkipAction

    def _selected_item(self) -> TranscriptItem:
        if self.selected is None:
            raise SkipAction
        return self.selected

    # -- selecting text --------------------------------------------------------------------

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected lines as drawn, and the text to insert after them.

        If everything is selected, the unwrapped text of all items is returned.
        """
        if selection.start is None and selection.end is None:
            texts = [terminal_text(copied_text(item)) for item in self.items]
            return "\n\n".join(texts), "\n"
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else self._item_layout.height - 1
        rows: list[str] = []
        for line in range(first, min(last, self._item_layout.height - 1) + 1):
            text = " " * LEFT_MARGIN + self._item_layout.line_at(line)[1].text
            start, end = selection.get_span(line) or (0, 0)
            rows.append(text[max(start, LEFT_MARGIN) : end if end >= 0 else None].rstrip())
        return "\n".join(rows), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Show the selection."""
        self.refresh()

    def _highlighted(self, strip: Strip, span: tuple[int, int] | None) -> Strip:
        if span is None:
            return strip
        start = strip.index_to_cell_position(max(span[0], LEFT_MARGIN))
        end = strip.cell_length if span[1] < 0 else strip.index_to_cell_position(span[1])
        if end <= start:
            return strip
        style = self.screen.get_component_rich_style("screen--selection")
        before, marked = strip.crop(0, start), strip.crop(start, end)
        after = strip.crop(end, strip.cell_length)
        shown = Strip([Segment(part.text, (part.style or Style()) + style) for part in marked])
        return Strip.join([before, shown, after])
