"""The pager: a screen with a long text that can be scrolled and searched.

The keys are those of `less`: `/` searches, `n` and `N` move between matches, `q` closes. The text
is drawn as in the transcript.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar, Final, final

from rich.cells import cell_len
from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input

from steno.app.commands.report import Report
from steno.render.items import TextForm
from steno.render.quantities import format_count
from steno.ui.tui.screens.widgets import LineInput, TitledScreen
from steno.ui.tui.transcript.item_drawing import create_markdown_drawing
from steno.ui.tui.transcript.text_lines import (
    STYLE_CLASSES,
    STYLE_SHEET,
    TranscriptStyles,
    break_lines,
    diff_lines,
    read_styles,
    styled_strips,
)

_MAX_MARKDOWN: Final = 200_000
"""The length from which Markdown is shown as source, because rendering it would be slow."""


def _render_text(content: Report, width: int, styles: TranscriptStyles) -> Sequence[Strip]:
    if content.form is TextForm.DIFF:
        return diff_lines(content.body, width, styles)
    if content.form is TextForm.MARKDOWN and len(content.body) <= _MAX_MARKDOWN:
        return create_markdown_drawing(width, styles)(content.body)
    return styled_strips(break_lines(content.body, width), styles.base)


@final
class _PagerText(ScrollView, can_focus=True):
    """The text, laid out for the current width; only visible lines are drawn."""

    ALLOW_SELECT: ClassVar[bool] = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"pager--match", *STYLE_CLASSES}
    DEFAULT_CSS: ClassVar[str] = (
        STYLE_SHEET.replace("Transcript", "_PagerText", 1)
        + """
    _PagerText {
        height: 1fr; padding: 0 1;
        & > .pager--match { text-style: bold reverse; }
    }
    """
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        ("j", "scroll_down"),
        ("k", "scroll_up"),
        ("space,f", "page_down"),
        ("b", "page_up"),
        ("g", "scroll_home"),
        ("G", "scroll_end"),
    ]

    class PositionChanged(Message):
        """The scroll position or the matches have changed."""

    def __init__(self, content: Report) -> None:
        super().__init__()
        self._content = content
        self._lines: Sequence[Strip] = ()
        self._laid_out_for: tuple[int, str] | None = None
        self._pattern: re.Pattern[str] | None = None
        self._matches: list[int] = []
        """The numbers of the lines that match the search."""
        self._current_match = -1

    @property
    def summary(self) -> list[str]:
        """The match, the number of lines and the scroll position, as parts of the key hints."""
        share = 100 if self.max_scroll_y == 0 else round(100 * self.scroll_y / self.max_scroll_y)
        parts = [format_count(len(self._lines), "line", "lines"), f"{share} %"]
        if self._matches:
            parts.insert(0, f"match {self._current_match + 1} of {len(self._matches)}")
        elif self._pattern is not None:
            parts.insert(0, "no match")
        return parts

    # -- drawing ----------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._lay_out_text())

    def on_resize(self) -> None:
        self._lay_out_text()

    def _lay_out_text(self) -> None:
        """Lay out the text again if the width or the theme has changed."""
        width = self.scrollable_content_region.width
        layout_key = (width, self.app.theme)
        if not width or layout_key == self._laid_out_for:
            return
        share = self.scroll_y / len(self._lines) if self._lines else 0.0
        self._laid_out_for = layout_key
        self._lines = _render_text(self._content, width, read_styles(self))
        self.virtual_size = Size(width, len(self._lines))
        self.scroll_to(y=round(share * len(self._lines)), animate=False)
        current = self._current_match
        self._find_matches()
        self._current_match = min(current, len(self._matches) - 1)

    def render_line(self, y: int) -> Strip:
        number = self.scroll_offset.y + y
        line = self._lines[number] if number < len(self._lines) else Strip([])
        line = line.apply_style(self.rich_style)
        if self._pattern is not None:
            line = self._with_matches(line, self._pattern)
        return line.adjust_cell_length(self.scrollable_content_region.width, self.rich_style)

    def _with_matches(self, line: Strip, pattern: re.Pattern[str]) -> Strip:
        text = line.text
        bounds = [bound for match in pattern.finditer(text) for bound in match.span()]
        cuts = [0, *(cell_len(text[:bound]) for bound in bounds), line.cell_length]
        style = self.get_component_rich_style("pager--match")
        parts = [line.crop(*between) for between in pairwise(cuts)]
        for index in range(1, len(parts), 2):
            parts[index] = Strip(Segment.apply_style(parts[index], post_style=style))
        return Strip.join(parts)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.PositionChanged())

    # -- search -----------------------------------------------------------------------------

    def search_for(self, text: str) -> None:
        """Search for a text, ignoring case, and mark the matches; an empty text ends the search."""
        self._pattern = re.compile(re.escape(text), re.IGNORECASE) if text else None
        self._find_matches()

    def _find_matches(self) -> None:
        pattern = self._pattern
        self._matches = []
        if pattern is not None:
            lines = enumerate(self._lines)
            self._matches = [number for number, line in lines if pattern.search(line.text)]
        self._current_match = -1
        self.refresh()
        self.post_message(self.PositionChanged())

    def go_to_match(self, step: int) -> None:
        """Go to the next (1) or previous (-1) match, wrapping around."""
        if not self._matches:
            return
        if self._current_match < 0:
            top = round(self.scroll_y)
            below = [index for index, number in enumerate(self._matches) if number >= top]
            self._current_match = (below[0] if below else 0) if step > 0 else (below or [0])[0] - 1
        else:
            self._current_match += step
        self._current_match %= len(self._matches)
        line, top = self._matches[self._current_match], round(self.scroll_y)
        if not top <= line < top + self.scrollable_content_region.height:
            self.scroll_to(y=max(line - 2, 0), animate=False)
        self.post_message(self.PositionChanged())


@final
class PagerScreen(TitledScreen[None]):
    """Shows a long text."""

    DEFAULT_CSS: ClassVar[str] = """
    PagerScreen {
        background: $background; overflow: hidden;
        & > Title { margin-bottom: 1; }
        & > LineInput { display: none; padding: 0 1; }
        & > LineInput.-open { display: block; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "back"),
        ("q", "dismiss(None)"),
        ("slash", "search"),
        ("n", "go(1)"),
        ("N", "go(-1)"),
    ]

    def __init__(self, content: Report) -> None:
        super().__init__(content.title)
        self.title_bar.display = bool(content.title.strip())
        self._text = _PagerText(content)
        self._input = LineInput(placeholder="text to find", select_on_focus=False)

    def compose_content(self) -> ComposeResult:
        """Yield the text and the search input."""
        yield from (self._text, self._input)

    @on(_PagerText.PositionChanged)
    def _update_hints(self) -> None:
        keys = ["/ search", "Esc close"]
        if self._input.value:
            keys = ["n next", "N previous", "Esc end search", "q close"]
        self.key_hints.parts = (*self._text.summary, *keys)

    @on(Input.Changed)
    def _search_typed(self) -> None:
        self._text.search_for(self._input.value)
        self._text.go_to_match(1)

    @on(Input.Submitted)
    def _close_search(self) -> None:
        self._input.remove_class("-open")
        self._text.focus()

    def action_search(self) -> None:
        """Open the search input."""
        self._input.value = ""
        self._input.add_class("-open")
        self._input.focus()

    def action_go(self, step: int) -> None:
        """Go to the next (1) or previous (-1) match."""
        self._text.go_to_match(step)

    def action_back(self) -> None:
        """End the search, or close the screen if there is no search."""
        if not self._input.has_class("-open") and not self._input.value:
            self.dismiss(None)
            return
        self._input.value = ""
        self._close_search()
