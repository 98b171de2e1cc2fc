"""A tree that can be walked: one line for each twig or folded run, drawn when it is seen.

Only the lines on the screen are ever put together, so a tree of any size opens and moves alike.
The view knows where the cursor is; what can be done there is for the screen around it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from steno.printable import cut, on_one_line, width_of
from steno.tui.desk import Twig
from steno.tui.screens.furniture import WALKING
from steno.tui.screens.tree_lines import Line, TreeLines

_PIECES: Final = ("rails", "mark", "number", "kind", "active", "label", "branch", "gist", "found")
"""What a line is made of; each has a style."""


@final
class TreeView(ScrollView, can_focus=True):
    """The tree, and the cursor in it."""

    DEFAULT_CSS = """
    TreeView {
        width: 1fr;
        height: 1fr;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        & > .tree-view--rails, & > .tree-view--number, & > .tree-view--kind {
            color: $text-muted;
        }
        & > .tree-view--mark { color: $success; }
        & > .tree-view--active { text-style: bold; }
        & > .tree-view--label { color: $warning; }
        & > .tree-view--branch { color: $primary; text-style: bold; }
        & > .tree-view--found { text-style: underline; }
        & > .tree-view--cursor {
            background: $block-cursor-blurred-background;
            color: $block-cursor-blurred-foreground;
            text-style: $block-cursor-blurred-text-style;
        }
        &:focus > .tree-view--cursor {
            background: $block-cursor-background;
            color: $block-cursor-foreground;
            text-style: $block-cursor-text-style;
        }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"tree-view--{name}" for name in (*_PIECES, "cursor")}
    BINDINGS: ClassVar[list[BindingType]] = [
        *WALKING,
        Binding("left", "hop(-1)", "where branches part before", show=False),
        Binding("right", "hop(1)", "where branches part next", show=False),
    ]

    cursor: reactive[int] = reactive(0)
    """The number of the line that keys are about."""

    class CursorMoved(Message):
        """The cursor is elsewhere, or something else is under it."""

    def __init__(self) -> None:
        """Start with nothing to see; `show` brings the tree."""
        super().__init__()
        self.lines = TreeLines(())
        self.search_words = ""
        """What was searched for last."""
        self.marked_branch: str = ""
        """The branch that another is to be compared with."""
        self._active_branch = ""

    # -- what is shown -----------------------------------------------------------------------

    def show(self, twigs: Sequence[Twig], active: str, *, entry: str | None = None) -> None:
        """Show a tree, with the cursor at an entry, else at the end of the active branch."""
        self._active_branch = active
        self.lines = TreeLines(twigs, self.lines.unfolded, is_whole=self.lines.shows_all)
        place = None if entry is None else self.lines.index_of(entry)
        self._lay_out_tree(self._end_of(active) if place is None else place)

    def _end_of(self, branch: str) -> int:
        twigs, stops = self.lines.rows, self.lines.branch_points
        return next((stop for stop in stops if branch in twigs[stop].branches), len(twigs) - 1)

    def _lay_out_tree(self, place: int) -> None:
        """Draw everything anew, with the cursor at a twig."""
        self.virtual_size = Size(0, len(self.lines))
        line = self.lines.line_of(place)
        if line == self.cursor:
            self._reveal()
        self.cursor = line
        self.refresh()
        self.post_message(self.CursorMoved())

    @property
    def line(self) -> Line | None:
        """What is under the cursor; None where there is nothing at all."""
        return self.lines[self.cursor] if self.cursor < len(self.lines) else None

    @property
    def row(self) -> Twig | None:
        """The twig under the cursor; None where that is a folded run."""
        line = self.line
        return None if line is None or line.is_run else self.lines.rows[line.first]

    @property
    def entry(self) -> str | None:
        """The entry that the cursor is at; of a folded run, the first one."""
        return None if self.line is None else self.lines.rows[self.line.first].entry.id

    def unfold(self) -> None:
        """Show what is folded under the cursor."""
        line = self.line
        if line is not None and line.is_run:
            self.lines.unfold(line)
            self._lay_out_tree(line.first)

    def fold_or_show_all(self) -> None:
        """Give every twig a line, or fold again whatever can be."""
        place = 0 if self.line is None else self.line.first
        self.lines = TreeLines(self.lines.rows, is_whole=not self.lines.shows_all)
        self._lay_out_tree(place)

    def go_to(self, place: int) -> None:
        """Go to a twig, and show it where it is folded."""
        line = self.lines[self.lines.line_of(place)]
        if line.is_run:
            self.lines.unfold(line)
        self._lay_out_tree(place)

    # -- moving ------------------------------------------------------------------------------

    def validate_cursor(self, cursor: int) -> int:
        """Stay inside the tree."""
        return max(0, min(cursor, len(self.lines) - 1))

    def watch_cursor(self, before: int, now: int) -> None:
        """Draw the two lines that look otherwise now, and say so."""
        self.refresh_line(before)
        self.refresh_line(now)
        self._reveal()
        self.post_message(self.CursorMoved())

    def on_resize(self) -> None:
        """Keep the cursor in sight."""
        self._reveal()

    def _reveal(self) -> None:
        self.scroll_to_region(
            Region(0, self.cursor, 1, 1), animate=False, force=True, immediate=True
        )

    def action_move(self, lines: int) -> None:
        """Go up or down."""
        self.cursor += lines

    def action_page(self, pages: int) -> None:
        """Go up or down by what fits on the screen."""
        self.cursor += pages * max(1, self.size.height - 1)

    def action_edge(self, is_last: bool) -> None:
        """Go to the first line, or to the last."""
        self.cursor = len(self.lines) - 1 if is_last else 0

    def action_hop(self, step: int) -> None:
        """Go to where branches part or end, the next one or the one before."""
        if self.line is not None:
            here, stops = self.line.first, self.lines.branch_points
            nearest = bisect_right(stops, here) if step > 0 else bisect_left(stops, here) - 1
            if 0 <= nearest < len(stops):
                self.go_to(stops[nearest])

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where somebody points."""
        self.cursor = event.y + self.scroll_offset.y

    # -- drawing -----------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        number, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        if number >= len(self.lines):
            return Strip.blank(width, self.rich_style)
        is_cursor = number == self.cursor
        line = self.lines[number]
        pieces = list(self._line_parts(line, width))
        if not line.is_run:
            pieces += self._gist_parts(line.first, width - sum([width_of(text) for text, _ in pieces]))
        segments = [
            Segment(text, self._style(piece, is_cursor=is_cursor)) for text, piece in pieces
        ]
        return Strip(segments).crop_extend(0, width, self._style("gist", is_cursor=is_cursor))

    def _style(self, piece: str, *, is_cursor: bool) -> Style:
        # Colours that are made for the background would be hard to read on the cursor.
        return self.get_component_rich_style(f"tree-view--{'cursor' if is_cursor else piece}")

    def _line_parts(self, line: Line, width: int) -> Iterator[tuple[str, str]]:
        twig = self.lines.rows[line.first]
        yield _rails(twig.rails, self.lines.starts_side_branch(line.first), width // 3), "rails"
        if line.is_run:
            yield f"⋮ … {line.length:,} entries", "rails"
            return
        yield ("● " if twig.is_active else "○ "), "mark" if twig.is_active else "rails"
        yield f"#{twig.number} ", "number"
        yield on_one_line(twig.kind), "active" if twig.is_active else "kind"
        for label in twig.labels:
            yield f" [{on_one_line(label)}]", "label"
        for name in twig.branches:
            here = " (active)" if name == self._active_branch else ""
            marked = " (compare)" if name == self.marked_branch else ""
            yield f" ← {on_one_line(name)}{here}{marked}", "branch"

    def _gist_parts(self, index: int, room: int) -> Iterator[tuple[str, str]]:
        if room > 0:
            twig = self.lines.rows[index]
            # What does not fit need not be made harmless either.
            gist = cut(f"  {on_one_line(twig.gist[: 4 * room])}", room)
            yield from _found(gist, self.search_words, "active" if twig.is_active else "gist")


def _rails(rails: str, turns_right: bool, most: int) -> str:
    """Return how far right a twig is, drawn; only the end of it where that is too far."""
    drawn = rails.replace("|", "│")
    if turns_right:
        drawn = f"{drawn[:-2]}├─"
    return drawn if len(drawn) <= most else f"…{drawn[1 - most :]}"


def _found(text: str, words: str, piece: str) -> Iterator[tuple[str, str]]:
    """Return a text in pieces, what was searched for apart."""
    parts = re.split(f"({re.escape(words)})", text, flags=re.IGNORECASE) if words else [text]
    for number, part in enumerate(parts):
        yield part, "found" if number % 2 else piece
