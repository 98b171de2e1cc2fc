"""The result of a command, for every interface.

A report is a sequence of parts. The command line prints them, a terminal shows them as Markdown,
an interface without Markdown as plain text, and `--json` dumps the data of a report. Cells, lines
and notices are plain text that is printable already; a paragraph makes its text printable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, final

from steno.render.items import TextForm
from steno.render.markdown_escape import (
    BOLD_STYLE,
    CODE_STYLE,
    backtick_fence,
    escape_markdown,
    inline_code,
    markdown_line,
    markdown_table,
)
from steno.render.quantities import format_count
from steno.render.table_output import Column, StyledText
from steno.render.terminal_text import display_width, terminal_line, terminal_text

_MAX_MARKDOWN_ROWS: Final = 200
"""The maximum number of rows of a table; earlier rows are omitted, as layout takes too long."""
_WHITE_SPACE: Final = re.compile(r"\s+")


def code(text: str) -> tuple[str, str]:
    """Return a name, path, rule or command as a piece of a paragraph."""
    return terminal_line(text), CODE_STYLE


def bold(text: str) -> tuple[str, str]:
    """Return a text with emphasis as a piece of a paragraph."""
    return text, BOLD_STYLE


# -- parts -----------------------------------------------------------------------------------


@final
class Paragraph:
    """A text that is wrapped to the width of the terminal; with a marker it is a list item."""

    def __init__(self, *pieces: StyledText, marker: str = "") -> None:
        """Take the pieces of the text, and the marker of a list item: `-` or `1.`."""
        styled = [(piece, "") if isinstance(piece, str) else piece for piece in pieces]
        self.pieces: Final = [
            (_WHITE_SPACE.sub(" ", terminal_text(text)), style) for text, style in styled
        ]
        self.marker: Final = f"{marker} " if marker else ""


class ReportLine(NamedTuple):
    """A line that is never wrapped."""

    pieces: Sequence[StyledText]
    is_cut: bool = False
    """Whether the line is cut at the width of the terminal."""
    max_width: int | None = None
    """The width at which the line is cut without a terminal; None for no limit."""


class Lines(NamedTuple):
    """Lines below each other, such as a drawn tree."""

    lines: Sequence[ReportLine]


class FormattedText(NamedTuple):
    """A text of several lines in its own format, such as a diff."""

    text: str
    form: TextForm = TextForm.MARKDOWN
    language: str = ""
    """The programming language of code."""


class Table(NamedTuple):
    """A table of rows with column titles."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""
    """A line below the table."""
    details: tuple[Column, Sequence[str]] | None = None
    """A last column that is never cut, and its cells; a terminal shows each on a separate line."""
    below: Mapping[int, str] = MappingProxyType({})
    """Notes below rows, by the index of the row."""
    sizes: Sequence[Decimal] = ()
    """The relative length of a bar for each row; only a terminal draws the bars."""

    @property
    def complete_rows(self) -> tuple[Sequence[Column], list[Sequence[str]]]:
        """The columns and rows, with the details as the last column."""
        if self.details is None:
            return self.columns, list(self.rows)
        column, cells = self.details
        return (*self.columns, column), [
            [*row, cell] for row, cell in zip(self.rows, cells, strict=True)
        ]


ReportPart: TypeAlias = Paragraph | Lines | FormattedText | Table


class Report(NamedTuple):
    """The result of a command."""

    parts: Sequence[ReportPart] = ()
    title: str = ""
    when_empty: str = ""
    """A notice that is shown if the report has no table."""
    notices: tuple[str, ...] = ()
    """Notices; the command line prints them on stderr."""
    data: Iterable[Any] = ()
    """The JSON values of `--json`, one per line."""
    is_failed: bool = False

    @property
    def tables(self) -> list[Table]:
        """The tables among the parts."""
        return [part for part in self.parts if isinstance(part, Table)]

    @property
    def form(self) -> TextForm:
        """The format of `body`."""
        match self.parts:
            case [FormattedText(form=form)]:
                return form
            case _:
                return TextForm.MARKDOWN

    @property
    def body(self) -> str:
        """The whole report as text in the format `form`."""
        match self.parts:
            case [FormattedText(text=text)]:
                return text
            case _:
                return self._join_parts(_part_as_markdown)

    @property
    def plain_text(self) -> str:
        """The whole report for an interface without Markdown, with its tables as columns."""
        return self._join_parts(_part_as_text)

    def _join_parts(self, write: Callable[[ReportPart], str]) -> str:
        """Return the rendered parts as one text, with the notices below the last table."""
        ends = [number for number, part in enumerate(self.parts, 1) if isinstance(part, Table)]
        end = ends[-1] if ends else len(self.parts)
        remarks = [*([] if ends else [self.when_empty]), *self.notices]
        parts = [*self.parts[:end], *map(Paragraph, remarks), *self.parts[end:]]
        blocks = [
            ("\n" if is_list else "\n\n").join(filter(None, map(write, group)))
            for is_list, group in groupby(parts, is_list_item)
        ]
        return "\n\n".join(filter(None, blocks))


def text_report(text: str, title: str = "", form: TextForm = TextForm.MARKDOWN) -> Report:
    """Return a report of one text."""
    return Report((FormattedText(text, form),), title)


def is_list_item(part: ReportPart) -> bool:
    """Return whether a part is a list item. No blank lines are written between list items."""
    return isinstance(part, Paragraph) and bool(part.marker)


# -- Markdown and plain text -----------------------------------------------------------------


def _part_as_markdown(part: ReportPart) -> str:
    match part:
        case Paragraph():
            return f"{part.marker}{markdown_line(part.pieces)}"
        case FormattedText(text, TextForm.MARKDOWN):
            return text
        case FormattedText():
            fence = backtick_fence(part.text, min_length=3)
            return f"{fence}{part.language}\n{part.text}\n{fence}"
        case Lines():
            return _part_as_markdown(FormattedText(_part_as_text(part), TextForm.CODE))
        case Table():
            title = markdown_line([bold(part.title)]) if part.title else ""
            return _join_table(part, title, _markdown_rows, escape_markdown(part.note))


def _part_as_text(part: ReportPart) -> str:
    match part:
        case Paragraph():
            pieces = [
                inline_code(text) if style == CODE_STYLE else text for text, style in part.pieces
            ]
            return f"{part.marker}{''.join(pieces)}"
        case FormattedText():
            return part.text
        case Lines():
            lines = [
                [piece if isinstance(piece, str) else piece[0] for piece in line.pieces]
                for line in part.lines
            ]
            return "\n".join(map("".join, lines))
        case Table():
            return _join_table(part, part.title, _aligned_rows, part.note)


_WriteRows: TypeAlias = Callable[[Sequence[Column], Sequence[Sequence[str]]], str]


def _join_table(table: Table, title: str, write_rows: _WriteRows, note: str) -> str:
    """Return the last rows of a table, without empty columns, between its title and its note."""
    columns, rows = table.complete_rows
    used = [index for index in range(len(columns)) if any(row[index] for row in rows)]
    shown = [[row[index] for index in used] for row in rows[-_MAX_MARKDOWN_ROWS:]]
    omitted = len(rows) - len(shown)
    count_text = (
        f"{format_count(omitted, 'earlier row', 'earlier rows')} not shown." if omitted else ""
    )
    written = write_rows([columns[index] for index in used], shown)
    return "\n\n".join(filter(None, [title, count_text, written, note]))


def _markdown_rows(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    writers = [inline_code if column.style == CODE_STYLE else escape_markdown for column in columns]
    return markdown_table(
        columns, [[write(cell) for write, cell in zip(writers, row, strict=True)] for row in rows]
    )


def _aligned_rows(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """Return rows with aligned columns, and numbers aligned to the right."""
    lines = [[column.title for column in columns], *[[*map(terminal_line, row)] for row in rows]]
    widths = [max(map(display_width, cells)) for cells in zip(*lines, strict=True)]
    return "\n".join([_align_cells(columns, widths, line) for line in lines])


def _align_cells(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str]) -> str:
    aligned: list[str] = []
    for column, width, cell in zip(columns, widths, cells, strict=True):
        blanks = " " * (width - display_width(cell))
        aligned.append(f"{blanks}{cell}" if column.is_number else f"{cell}{blanks}")
    return "  ".join(aligned).rstrip()
