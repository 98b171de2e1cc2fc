"""Say things line by line: whose they are stands in front, and nothing moves or is taken back.

A line that begins at the very left is ours. What models, tools and files have written stands
behind such a beginning, or further right, so that nobody can pass it off as a question of ours.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, TextIO, final

from steno.render.terminal_text import display_width, terminal_line, terminal_text

# -- tables ----------------------------------------------------------------------------------------
#
# Markdown for those who read line by line: tables as columns, and no backslashes for a renderer.


_BETWEEN_CELLS: Final = re.compile(r"(?<!\\)\|")


_RULE: Final = re.compile(r":?-+:?")


_CODE: Final = re.compile(r"(`+) ?(.+?) ?\1")


_ESCAPED: Final = re.compile(r"\\([^\w\s])|(?<!`)(`+)(?!`).+?(?<!`)\2(?!`)")
"""A sign that means nothing, or code, in which a backslash is one."""


_FENCE: Final = re.compile(r"\s*(?:```|~~~)")


_GAP: Final = "  "


def markdown_to_lines(text: str) -> str:
    """Return Markdown with its tables as columns, and nothing escaped any more."""
    lines: list[str] = []
    for is_table, group in groupby(text.split("\n"), _is_row):
        found = list(group)
        lines += (
            _align_rows([_split_cells(line) for line in found])
            if is_table
            else _unescape_lines(found)
        )
    return "\n".join(lines)


def _unescape_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines as they are read; in a block of code every backslash is one."""
    is_code = False
    for line in lines:
        is_fence = _FENCE.match(line) is not None
        yield line if is_code or is_fence else _unescape_text(line)
        is_code ^= is_fence


def _unescape_text(text: str) -> str:
    """Return what stands on a line, without what keeps a renderer from seeing more in it."""
    return _ESCAPED.sub(lambda found: found[1] or found[0], text)


def _is_row(line: str) -> bool:
    return line.startswith("| ") and line.endswith(" |")


def _split_cells(line: str) -> list[str]:
    return [_cell_text(cell.strip()) for cell in _BETWEEN_CELLS.split(line[1:-1])]


def _cell_text(cell: str) -> str:
    """Return what a cell says; its bars have a backslash more, whatever they stand in."""
    cell = cell.replace("\\|", "|")
    code = _CODE.fullmatch(cell)
    return code[2] if code is not None else _unescape_text(cell)


def _align_rows(rows: Sequence[list[str]]) -> list[str]:
    """Return rows below each other, numbers to the right; the rule below the head is no row."""
    count = max(map(len, rows))
    rule = next((row for row in rows if all(map(_RULE.fullmatch, row))), [])
    shown = [row + [""] * (count - len(row)) for row in rows if row is not rule]
    widths = [max([display_width(row[at]) for row in shown], default=0) for at in range(count)]
    are_numbers = [at < len(rule) and rule[at].endswith(":") for at in range(count)]
    return [_GAP.join(_pad_row(row, widths, are_numbers)).rstrip() for row in shown]


def _pad_row(
    row: Sequence[str], widths: Sequence[int], are_numbers: Sequence[bool]
) -> Iterator[str]:
    for cell, width, is_number in zip(row, widths, are_numbers, strict=True):
        blanks = " " * (width - display_width(cell))
        yield f"{blanks}{cell}" if is_number else f"{cell}{blanks}"


_INDENT: Final = "  "


_BAR: Final = "│ "


_BOLD: Final = "\x1b[1m"


_RESET: Final = "\x1b[0m"


_DUMB_TERMINALS: Final = ("", "dumb", "unknown")


_MIN_WIDTH: Final = 20


def supports_styles(out: TextIO, environ: Mapping[str, str]) -> bool:
    """Tell whether bold letters can be shown, and nobody minds."""
    is_able = environ.get("TERM", "") not in _DUMB_TERMINALS and out.isatty()
    return is_able and not environ.get("NO_COLOR")


@final
class LineWriter:
    """Prints. Everything is made printable here, and nowhere else."""

    def __init__(self, out: TextIO, environ: Mapping[str, str]) -> None:
        """Take where to print, and what is known of it."""
        self._out = out
        self._is_styled = supports_styles(out, environ)
        self._has_width = out.isatty()
        self._typed_line: Callable[[], str] | None = None
        self.is_closed = False
        """Whether nobody listens any more."""

    def write(self, whose: str, text: str = "") -> None:
        """Say whose words these are, and then the words: what is more than a line below it."""
        first, *rest = terminal_text(text).rstrip("\n").split("\n")
        if rest:
            first, rest = "", [first, *rest]
        self._print([*self._with_heading(whose, first), *self._indented(rest)])

    def begin(self, whose: str, line: str) -> None:
        """Say whose words these are, and the first line of them; `more` says the rest."""
        self._print(self._with_heading(whose, terminal_text(line)))

    def write_lines(self, lines: Iterable[str]) -> None:
        """Go on with what was begun; each is a line."""
        self._print(self._indented([terminal_text(line) for line in lines]))

    def quote(self, lines: Iterable[str]) -> None:
        """Repeat what somebody else wrote, with a bar before all of it, however long a line is."""
        width = self._width(len(_BAR))
        self._print(
            [_BAR + part for line in lines for part in _break_line(terminal_text(line), width)]
        )

    def write_prompt(self, prompt: str) -> None:
        """Print what is to be answered on the same line; it is ours."""
        self._write("\n".join(_break_line(prompt, self._width(1))))

    def end_line(self) -> None:
        """End a line that nobody has ended."""
        self._write("\n")

    def set_typed_line(self, typed: Callable[[], str] | None) -> None:
        """Say what stands on the line on which somebody types, if somebody does.

        What has to be said meanwhile goes below it, and the line is shown again.
        """
        self._typed_line = typed

    def _with_heading(self, whose: str, text: str) -> list[str]:
        head = f"{terminal_line(whose)}:"
        first, *rest = _break_line(f"{head} {text}".rstrip(), self._width(len(_INDENT)))
        if self._is_styled and first.startswith(head):
            first = f"{_BOLD}{head}{_RESET}{first[len(head) :]}"
        return [first, *[f"{_INDENT}{line}" for line in rest]]

    def _indented(self, lines: Iterable[str]) -> list[str]:
        width = self._width(len(_INDENT))
        return [f"{_INDENT}{part}".rstrip() for line in lines for part in _break_line(line, width)]

    def _width(self, taken: int) -> int | None:
        """Return how many columns there are beside those that are taken; None if nobody knows."""
        columns = shutil.get_terminal_size().columns if self._has_width else 0
        return columns - taken if columns >= _MIN_WIDTH else None

    def _print(self, lines: Sequence[str]) -> None:
        text = "".join([f"{line}\n" for line in lines])
        self._write(text if self._typed_line is None else f"\n{text}{self._typed_line()}")

    def _write(self, text: str) -> None:
        if self.is_closed:
            return
        encoding = self._out.encoding or "utf-8"
        try:
            self._out.write(text.encode(encoding, "backslashreplace").decode(encoding))
            self._out.flush()
        except (OSError, ValueError):  # closed at the other end, or at ours
            self.is_closed = True


def _break_line(line: str, width: int | None) -> Iterator[str]:
    """Break a line before the terminal does: what it breaks itself has no bar before it.

    That is between words, where there are any; what stood before a word stays where it was.
    """
    if width is None or (display_width(line) <= width and "\t" not in line):
        yield line
        return
    taken, start = 0, 0
    line = line.expandtabs()
    for place, character in enumerate(line):
        wide = display_width(character)
        if taken + wide > width:
            end = line.rfind(" ", start, place) + 1
            if not line[start:end].strip():  # one long word
                end = place
            yield line[start:end]
            taken, start = display_width(line[end:place]), end
        taken += wide
    yield line[start:]


def shorten_lines(lines: Sequence[str], max_lines: int) -> list[str]:
    """Return as many lines as one listens to, from both ends; what is left out is said."""
    if len(lines) <= max_lines:
        return list(lines)
    half = max_lines // 2
    left_out = len(lines) - 2 * half
    return [*lines[:half], f"… {left_out:,} lines are not shown …", *lines[-half:]]
