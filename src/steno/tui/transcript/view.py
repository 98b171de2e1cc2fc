"""The conversation on the screen: blocks, drawn line by line and scrolled.

It follows the end while that is in sight, and stays where it is while somebody reads further up.
What changes is drawn anew a few dozen times a second at most, and only what is in sight. It knows
blocks and nothing of where they come from.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from time import process_time
from typing import Any, ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from steno.printable import printable
from steno.tui.block import Block, Kind
from steno.tui.transcript.gallery import Gallery, ImageOf
from steno.tui.transcript.greeting import greeting
from steno.tui.transcript.look import PARTS, PREFIX, STYLE_SHEET, Look
from steno.tui.transcript.pile import Anchor, Pile

PAUSE_S: Final = 1 / 30
"""Between two drawings of what changes all the time."""
MARGIN: Final = 2
"""Columns to the left, where the mark of the selected block is."""


class Transcript(ScrollView, can_focus=True):
    """A conversation that can be scrolled, folded, selected block by block, and copied."""

    DEFAULT_CSS = STYLE_SHEET
    COMPONENT_CLASSES: ClassVar[set[str]] = {PREFIX + part for part in PARTS}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,alt+up", "select(-1)", "Previous", show=False),
        Binding("down,alt+down", "select(1)", "Next", show=False),
        Binding("enter,space", "fold", "Fold", show=False),
        Binding("y", "copy", "Copy", show=False),
        Binding("e", "choose", "Edit", show=False),
        Binding("escape", "leave", "Leave", show=False),
    ]

    class Behind(Message):
        """So many blocks below the screen are new; none, once the end is in sight again."""

        def __init__(self, count: int) -> None:
            super().__init__()
            self.count = count

    class Chosen(Message):
        """The person wants to do something about a block: edit it, where it is theirs."""

        def __init__(self, block: Block) -> None:
            super().__init__()
            self.block = block

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._gallery = Gallery(
            lambda job: self.run_worker(job, group="pictures"),
            self._take_picture,
            has_colours=lambda: not self.app.no_color,
        )
        self._pile = Pile(self._gallery.pictures_of)
        self._look: Look | None = None
        self._selected: Block | None = None
        self._is_known = False
        """Whether anybody has told what there is to show."""
        self._about = ""
        self._changed: set[Block] = set()
        self._unseen: set[Block] = set()
        self._told = 0
        self._follows = True
        self._is_settling = False
        self._awaits_redraw = False
        self._pause_s = PAUSE_S

    # -- blocks ----------------------------------------------------------------------------

    @property
    def blocks(self) -> Sequence[Block]:
        """All blocks, from top to bottom."""
        return self._pile.blocks

    @property
    def drawn(self) -> int:
        """How often a block was drawn so far."""
        return self._pile.drawn

    @property
    def is_at_end(self) -> bool:
        """Whether the end is in sight, so that new things are."""
        return self._follows

    @property
    def selected(self) -> Block | None:
        """The block that the keys are about; None while they only scroll."""
        return self._selected

    def fetch_images_from(self, image_of: ImageOf) -> None:
        """Ask somebody for the bytes of images: when one is drawn, and not before."""
        self._gallery.image_of = image_of

    def _take_picture(self, block: Block) -> None:
        if (index := self._pile.index_of(block)) is not None:
            self._pile.change(index)
            self._redraw_soon()

    def show(self, blocks: Sequence[Block]) -> None:
        """Show other blocks in place of these, from the end; where there are none, how to begin."""
        self._is_known = True
        self._pile.show(blocks)
        self._selected = None
        self._changed.clear()
        self._unseen.clear()
        self._follows = True
        self._settle(None)

    def greet(self, about: str) -> None:
        """Say what there is to work with, above how to begin, until there is a block."""
        if about != self._about:
            self._about = about
            self.refresh()

    def add(self, block: Block) -> None:
        """Put a block below the others."""
        self._pile.add(block)
        self._unseen.add(block)
        self._redraw_soon()

    def touch(self, block: Block) -> None:
        """Draw a block anew soon: it has changed. What is not shown here is no matter."""
        if self._pile.index_of(block) is not None:
            self._changed.add(block)
            self._unseen.add(block)
            self._redraw_soon()

    def drop(self, block: Block) -> None:
        """Take a block away. What is not shown here is no matter."""
        if self._pile.index_of(block) is not None:
            self._pile.drop(block)
            self._changed.discard(block)
            self._unseen.discard(block)
            self._selected = None if self._selected is block else self._selected
            self._redraw_soon()

    def fold_all(self, kinds: Container[Kind] | None, folded: bool) -> None:
        """Fold or unfold all blocks of some kinds, or of all."""
        for block in self.blocks:
            if (kinds is None or block.kind in kinds) and block.can_fold:
                block.is_folded = folded
        anchor = self._anchor()
        self._pile.guess()
        self._settle(anchor)

    # -- drawing ---------------------------------------------------------------------------

    def _redraw_soon(self) -> None:
        if not self._awaits_redraw and self.is_attached:
            self._awaits_redraw = True
            self.set_timer(self._pause_s, self._redraw)

    def _redraw(self) -> None:
        self._awaits_redraw = False
        begun = process_time()
        for block in self._changed:
            if (index := self._pile.index_of(block)) is not None:
                self._pile.change(index)
        self._changed.clear()
        self._settle(self._anchor())
        # What takes long to draw is drawn less often, so that there is time for everything else.
        self._pause_s = max(PAUSE_S, 3 * (process_time() - begun))

    def _anchor(self) -> Anchor | None:
        """Return what is at the top, which is to stay there; None where the end is to be seen."""
        if not self.blocks or (self._follows and self._selected is None):
            return None
        return Anchor(*self._pile.find(self.scroll_offset.y))

    def _settle(self, anchor: Anchor | None) -> None:
        """Draw what is in sight, and put everything in its place."""
        width, rows = self.size
        if not width or not rows:  # it comes again with its size
            return
        self._fit()
        top = self._pile.settle(anchor, rows)
        self._is_settling = True
        try:
            self.virtual_size = Size(width, self._pile.height)
            self.scroll_target_y = self.scroll_y = top
        finally:
            self._is_settling = False
        self._follows = top >= self._pile.height - rows
        self._tell(top + rows)
        self.refresh()

    def _fit(self) -> None:
        if self._look is None:
            styles = {part: self.get_component_rich_style(PREFIX + part) for part in PARTS}
            self._look = Look(**styles, base=self.rich_style, is_dark=self.app.current_theme.dark)
        self._pile.fit(self.scrollable_size.width - MARGIN, self._look)

    def _tell(self, bottom: int) -> None:
        """Say how many new blocks go on below the screen, if that is another number now."""
        before = self._told
        self._unseen = {block for block in self._unseen if self._pile.bottom_of(block) > bottom}
        self._told = len(self._unseen)
        if self._told != before:
            self.post_message(self.Behind(self._told))

    def notify_style_update(self) -> None:
        """Look at the styles again: another theme, perhaps."""
        super().notify_style_update()
        self._look = None

    def on_mount(self) -> None:
        """Follow the theme."""
        self.app.theme_changed_signal.subscribe(self, self._take_theme)

    def _take_theme(self, _: object) -> None:
        self._look = None
        self._settle(self._anchor())

    def on_resize(self) -> None:
        """Draw anew what is in sight, as wide as there is room now."""
        self._settle(self._anchor())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Draw what has come into sight; what was in sight moves as far as was asked for."""
        super().watch_scroll_y(old_value, new_value)
        if self._is_settling or not self.blocks:
            return
        old, new = round(old_value), round(new_value)
        if new >= self.max_scroll_y:
            anchor = None
        elif 0 < old - new <= 2 * self.size.height:
            # Above are guesses perhaps: what was at the top tells how far up is up.
            anchor = Anchor(*self._pile.find(old), row=old - new)
        else:
            anchor = Anchor(*self._pile.find(new))
        self._settle(anchor)

    def watch_show_vertical_scrollbar(self, is_shown: bool) -> None:
        """Let a scrollbar that appears say where we are: it was not there to be told before."""
        if is_shown:
            self.vertical_scrollbar.position = self.scroll_y

    def _scroll_to(self, x: float | None = None, y: float | None = None, **options: Any) -> bool:
        # Whatever scrolls ends here. At once: on a gliding way there, guesses become heights, and
        # then its end is somewhere else.
        options["animate"] = False
        return super()._scroll_to(x, y, **options)

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen."""
        width = self.size.width
        line = self.scroll_offset.y + y
        self._fit()
        assert self._look is not None
        base = self._look.base
        if line >= self._pile.height:
            return self._beyond(y, self._look).crop_extend(0, width, base)
        place, drawn = self._pile.line(line)
        is_marked = bool(drawn) and self.blocks[place.item] is self._selected
        mark = Segment("▌ " if is_marked else "  ", self._look.selected)
        strip = Strip([mark, *drawn]).apply_style(base)
        if (selection := self.text_selection) is not None:
            strip = self._highlighted(strip, selection.get_span(line))
        return strip.crop_extend(0, width, base).apply_offsets(0, line)

    def _beyond(self, row: int, look: Look) -> Strip:
        """Return a row below all blocks: an empty one, or where there are none, how to begin."""
        if self.blocks or not self._is_known:
            return Strip([])
        said = greeting(self._about, self.size.width - MARGIN, look)[row : row + 1]
        return Strip.join([Strip([Segment(" " * MARGIN)]), *said]).apply_style(look.base)

    # -- selecting blocks ------------------------------------------------------------------

    def select(self, delta: int) -> None:
        """Select the block so many further down, or up; the first time one that is in sight."""
        if not self.blocks or not self.size.height:
            return
        top, rows = self.scroll_offset.y, self.size.height
        if self._selected is None or (index := self._pile.index_of(self._selected)) is None:
            index = self._pile.find(top + rows - 1 if delta < 0 else top).item
        else:
            index = max(0, min(index + delta, len(self.blocks) - 1))
        self._selected = self.blocks[index]
        self._bring(index)

    def leave(self) -> bool:
        """Select nothing; return whether something was."""
        was_selected = self._selected is not None
        self._selected = None
        self.refresh()
        return was_selected

    def _bring(self, index: int) -> None:
        """Bring a block into sight, its head first; move as little as possible."""
        rows = self.size.height
        height = self._pile.height_of(index)
        row = self._pile.top_of(index) - self.scroll_offset.y
        self._settle(Anchor(index, row=max(0, min(row, rows - height))))

    def fold(self, block: Block) -> None:
        """Fold a block, or unfold it; its head stays where it is."""
        index = self._pile.index_of(block)
        if index is None or not block.can_fold:
            return
        block.is_folded = not block.is_folded
        row = self._pile.top_of(index) - self.scroll_offset.y
        self._pile.change(index)
        self._settle(Anchor(index, row=max(0, row)))

    def on_click(self, event: events.Click) -> None:
        """Fold or unfold the block whose head is clicked."""
        offset = event.get_content_offset(self)
        if offset is None or not self.blocks or self.text_selection is not None:
            return
        line = self.scroll_offset.y + offset.y
        place = self._pile.find(line)
        if line < self._pile.height and place.line == 0:
            self.fold(self.blocks[place.item])

    def action_select(self, delta: int) -> None:
        """Go to the next block, or the one before."""
        self.select(delta)

    def action_fold(self) -> None:
        """Fold or unfold the selected block."""
        self.fold(self._chosen())

    def action_copy(self) -> None:
        """Copy the text of the selected block."""
        block = self._chosen()
        self.app.copy_to_clipboard(printable(block.gather() or block.head))
        self.notify("Copied.", timeout=2)

    def action_choose(self) -> None:
        """Say that the selected block is to be edited."""
        self.post_message(self.Chosen(self._chosen()))

    def action_leave(self) -> None:
        """Select nothing; where nothing was, the key is for somebody else."""
        if not self.leave():
            raise SkipAction

    def _chosen(self) -> Block:
        if self._selected is None:
            raise SkipAction
        return self._selected

    # -- selecting text --------------------------------------------------------------------

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the text that was marked with the mouse; everything as it was said."""
        if selection.start is None and selection.end is None:
            texts = [printable(block.gather() or block.head) for block in self.blocks]
            return "\n\n".join(texts), "\n"
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else self._pile.height - 1
        rows: list[str] = []
        for line in range(first, min(last, self._pile.height - 1) + 1):
            text = " " * MARGIN + self._pile.line(line)[1].text
            start, end = selection.get_span(line) or (0, 0)
            rows.append(text[max(start, MARGIN) : end if end >= 0 else None].rstrip())
        return "\n".join(rows), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Show what is marked."""
        self.refresh()

    def _highlighted(self, strip: Strip, span: tuple[int, int] | None) -> Strip:
        if span is None:
            return strip
        start = strip.index_to_cell_position(max(span[0], MARGIN))
        end = strip.cell_length if span[1] < 0 else strip.index_to_cell_position(span[1])
        if end <= start:
            return strip
        style = self.screen.get_component_rich_style("screen--selection")
        before, marked, after = (
            strip.crop(0, start),
            strip.crop(start, end),
            strip.crop(end, strip.cell_length),
        )
        shown = Strip([Segment(part.text, (part.style or Style()) + style) for part in marked])
        return Strip.join([before, shown, after])
