"""Functions that print lines and tables on stdout, and notices on stderr.

On a terminal the output is coloured if rich is installed; its text is the same without rich. The
caller makes untrusted text printable first.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from textwrap import wrap
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias, final

from steno.render.output import STDOUT, escape_unencodable_output, report_write_errors
from steno.render.terminal_text import display_width, truncate_to_width

StyledText: TypeAlias = str | tuple[str, str]
"""A piece of a line: plain text, or a pair of a text and its style (`dim`, `bold`, ...)."""
INDENT: Final = "    "
"""The indentation of text that belongs to the line above it."""
_COLUMN_GAP: Final = "  "
_NO_TEXTS: Final[Mapping[int, str]] = MappingProxyType({})
_MIN_COLUMN_WIDTH: Final = 8
_MAX_UNCUT_WIDTH: Final = 100
"""The maximum width to which a cell widens its column if cells are not truncated."""


class Column(NamedTuple):
    """The title and the format of a table column."""

    title: str
    style: str = ""
    is_number: bool = False
    may_shrink: bool = False
    """Whether the column is truncated if the terminal is too narrow."""


@final
class StdoutPrinter:
    """Prints lines and tables to stdout, whether it is a terminal, a file or a pipe."""

    def __init__(self) -> None:
        """Detect whether stdout is a terminal, and load rich if it is."""
        escape_unencodable_output()
        self._print_styled = _load_rich() if sys.stdout.isatty() else None
        self.width: Final = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        """The width of the terminal; None if stdout is not a terminal."""

    def line(self, *pieces: StyledText, max_width: int | None = None) -> None:
        """Print the pieces on one line, truncated to `max_width` if it is set."""
        parts = [(piece, "") if isinstance(piece, str) else piece for piece in pieces]
        if max_width is not None:
            parts = _cut_parts(parts, max_width)
        with report_write_errors(STDOUT):
            if self._print_styled is None:
                print("".join([text for text, _ in parts]))
            else:
                self._print_styled(parts)

    def table(
        self,
        columns: Sequence[Column],
        rows: Sequence[Sequence[str]],
        *,
        below: Mapping[int, str] = _NO_TEXTS,
    ) -> None:
        """Print the column titles and the rows, aligned.

        `below` maps the index of a row to a text that is printed below the row, never truncated.
        """
        widths = [
            self._width_of(column, [row[index] for row in rows])
            for index, column in enumerate(columns)
        ]
        if self.width is not None:
            _shrink_widths(widths, columns, self.width)
        self._row(widths, columns, [(column.title, "bold") for column in columns])
        for index, row in enumerate(rows):
            cells = [(cell, column.style) for cell, column in zip(row, columns, strict=True)]
            self._row(widths, columns, cells)
            for line in self._wrapped(below.get(index, "")):
                self.line(INDENT, line)

    def _width_of(self, column: Column, cells: Sequence[str]) -> int:
        widths = list(map(display_width, cells))
        if self.width is None and column.may_shrink:
            widths = [width for width in widths if width <= _MAX_UNCUT_WIDTH]
        return max(display_width(column.title), *widths, 0)

    def _wrapped(self, text: str) -> list[str]:
        if self.width is None:
            return [text] if text else []
        return wrap(text, max(self.width - len(INDENT), _MIN_COLUMN_WIDTH))

    def _row(
        self, widths: Sequence[int], columns: Sequence[Column], cells: Sequence[tuple[str, str]]
    ) -> None:
        pieces: list[tuple[str, str]] = []
        for width, column, (text, style) in zip(widths, columns, cells, strict=True):
            shown = text if self.width is None else truncate_to_width(text, width), style
            blanks = " " * (width - display_width(shown[0])), ""
            pieces += [blanks, shown] if column.is_number else [shown, blanks]
            pieces.append((_COLUMN_GAP, ""))
        while pieces and not pieces[-1][0].strip():
            pieces.pop()  # no trailing spaces
        self.line(*pieces)


def _shrink_widths(widths: list[int], columns: Sequence[Column], available_width: int) -> None:
    excess = sum(widths) + len(_COLUMN_GAP) * (len(widths) - 1) - available_width
    # The last columns shrink first, because the first ones identify the row.
    for index, column in reversed([*enumerate(columns)]):
        if column.may_shrink and excess > 0:
            shrunk = max(widths[index] - excess, min(_MIN_COLUMN_WIDTH, widths[index]))
            excess -= widths[index] - shrunk
            widths[index] = shrunk


def _cut_parts(parts: list[tuple[str, str]], available_width: int) -> list[tuple[str, str]]:
    shown: list[tuple[str, str]] = []
    for text, style in parts:
        if available_width <= 0:
            break
        shown.append((truncate_to_width(text, available_width), style))
        available_width -= display_width(text)
    return shown


def print_notice(text: str) -> None:
    """Flush stdout, then print a line on stderr."""
    with report_write_errors(STDOUT):
        sys.stdout.flush()
    print(f"steno: {text}", file=sys.stderr)


def _load_rich() -> Callable[[Sequence[tuple[str, str]]], None] | None:
    """Return a function that prints a styled line with rich; None if rich is not installed."""
    try:
        text = importlib.import_module("rich.text").Text
        console = importlib.import_module("rich.console").Console(
            highlight=False, markup=False, emoji=False
        )
    except ImportError:
        return None
    return lambda parts: console.print(text.assemble(*parts), soft_wrap=True)
