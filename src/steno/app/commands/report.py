"""The result of a command, for every interface.

The command line prints the tables of a report, a terminal shows it as Markdown, and `--json` dumps
its data. Cells, lines and notices are plain text that is printable already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from steno.render.items import TextForm
from steno.render.markdown_escape import (
    escape_markdown,
    inline_code,
    markdown_table,
    unescape_markdown,
)
from steno.render.quantities import format_count
from steno.render.table_output import Column, StyledText
from steno.render.terminal_text import display_width, terminal_line

_NAME_STYLE: Final = "cyan"
"""The style of columns with names, which Markdown shows as code."""
_MAX_MARKDOWN_ROWS: Final = 200
"""The last rows of a table are shown; laying out more of them takes too long."""


class Table(NamedTuple):
    """Rows below the titles of their columns."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""
    """A line below the table."""
    details: tuple[Column, Sequence[str]] | None = None
    """A last column that is never cut: on a terminal its cells are on lines of their own."""
    below: Mapping[int, str] = MappingProxyType({})
    """Remarks below rows, by their numbers."""
    sizes: Sequence[Decimal] = ()
    """The length of a bar for each row, where there is a terminal to draw them."""

    @property
    def complete_rows(self) -> tuple[Sequence[Column], list[Sequence[str]]]:
        """The columns and rows, with the details as the last column."""
        if self.details is None:
            return self.columns, list(self.rows)
        column, cells = self.details
        return (*self.columns, column), [
            [*row, cell] for row, cell in zip(self.rows, cells, strict=True)
        ]


class ReportLine(NamedTuple):
    """A line of text on the command line."""

    pieces: Sequence[StyledText]
    is_cut: bool = False
    """Whether it is cut at the width of the terminal."""
    max_width: int | None = None
    """Where it is cut without a terminal; None for nowhere."""


_WriteRows: TypeAlias = Callable[[Sequence[Column], Sequence[Sequence[str]]], str]


class Report(NamedTuple):
    """The result of a command."""

    text: str = ""
    """The answer in a terminal, before any tables; the command line does not print it."""
    title: str = ""
    form: TextForm = TextForm.MARKDOWN
    """The form of `text`; a report with tables or notices is Markdown."""
    footer: str = ""
    """Markdown below the tables, as `text`."""
    tables: tuple[Table, ...] = ()
    when_empty: str = ""
    """A remark in place of tables."""
    lines: Sequence[ReportLine] = ()
    """Drawings for the command line alone, such as a tree."""
    notices: tuple[str, ...] = ()
    """Remarks; the command line prints them on stderr."""
    data: Iterable[Any] = ()
    """The JSON values of `--json`, one a line."""
    is_failed: bool = False

    @property
    def body(self) -> str:
        """The whole report in its form."""
        if self.form is not TextForm.MARKDOWN:
            return self.text
        return _join_parts(self.text, *self._parts(escape_markdown, _markdown_rows), self.footer)

    @property
    def plain_text(self) -> str:
        """The whole report for an interface without Markdown, with its tables as columns."""
        if self.form is not TextForm.MARKDOWN:
            return self.text
        text, footer = unescape_markdown(self.text), unescape_markdown(self.footer)
        return _join_parts(text, *self._parts(terminal_line, _aligned_rows), footer)

    def _parts(self, write: Callable[[str], str], write_rows: _WriteRows) -> Iterator[str]:
        for table in self.tables:
            yield f"**{write(table.title)}**" if table.title else ""
            columns, rows = table.complete_rows
            used = [index for index in range(len(columns)) if any(row[index] for row in rows)]
            shown = [[row[index] for index in used] for row in rows[-_MAX_MARKDOWN_ROWS:]]
            omitted = len(rows) - len(shown)
            yield f"{format_count(omitted, 'row', 'rows')} before these." if omitted else ""
            yield write_rows([columns[index] for index in used], shown)
            yield write(table.note)
        yield "" if self.tables else write(self.when_empty)
        yield from map(write, self.notices)


def _join_parts(*parts: str) -> str:
    return "\n\n".join(filter(None, parts))


def _markdown_rows(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    writers = [
        inline_code if column.style == _NAME_STYLE else escape_markdown for column in columns
    ]
    return markdown_table(
        columns, [[write(cell) for write, cell in zip(writers, row, strict=True)] for row in rows]
    )


def _aligned_rows(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """Return rows below each other, numbers to the right."""
    lines = [[column.title for column in columns], *[[*map(terminal_line, row)] for row in rows]]
    widths = [max(map(display_width, cells)) for cells in zip(*lines, strict=True)]
    return "\n".join([_align_cells(columns, widths, line) for line in lines])


def _align_cells(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str]) -> str:
    aligned: list[str] = []
    for column, width, cell in zip(columns, widths, cells, strict=True):
        blanks = " " * (width - display_width(cell))
        aligned.append(f"{blanks}{cell}" if column.is_number else f"{cell}{blanks}")
    return "  ".join(aligned).rstrip()
