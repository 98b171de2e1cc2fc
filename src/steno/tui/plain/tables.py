"""Tables of Markdown for those who read line by line: columns below each other, and no signs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from steno.printable import width_of

_BETWEEN_CELLS: Final = re.compile(r"(?<!\\)\|")
_RULE: Final = re.compile(r":?-+:?")
_ESCAPED: Final = re.compile(r"\\([^\w\s])")
_CODE: Final = re.compile(r"(`+) ?(.+?) ?\1")
_GAP: Final = "  "


def with_columns(text: str) -> str:
    """Return Markdown with its tables as columns; everything else is as it was."""
    lines: list[str] = []
    for is_table, group in groupby(text.split("\n"), _is_row):
        found = list(group)
        lines += _aligned([_cells(line) for line in found]) if is_table else found
    return "\n".join(lines)


def _is_row(line: str) -> bool:
    return line.startswith("| ") and line.endswith(" |")


def _cells(line: str) -> list[str]:
    return [_plain(cell.strip()) for cell in _BETWEEN_CELLS.split(line[1:-1])]


def _plain(cell: str) -> str:
    """Return what a cell says: without what keeps a reader of Markdown from seeing more in it."""
    code = _CODE.fullmatch(cell)
    return code[2].replace("\\|", "|") if code is not None else _ESCAPED.sub(r"\1", cell)


def _aligned(rows: Sequence[list[str]]) -> list[str]:
    """Return rows below each other, numbers to the right; the rule below the head is no row."""
    count = max(map(len, rows))
    rule = next((row for row in rows if all(map(_RULE.fullmatch, row))), [])
    shown = [row + [""] * (count - len(row)) for row in rows if row is not rule]
    widths = [max([width_of(row[at]) for row in shown], default=0) for at in range(count)]
    are_numbers = [at < len(rule) and rule[at].endswith(":") for at in range(count)]
    return [_GAP.join(_padded(row, widths, are_numbers)).rstrip() for row in shown]


def _padded(
    row: Sequence[str], widths: Sequence[int], are_numbers: Sequence[bool]
) -> Iterator[str]:
    for cell, width, is_number in zip(row, widths, are_numbers, strict=True):
        blanks = " " * (width - width_of(cell))
        yield f"{blanks}{cell}" if is_number else f"{cell}{blanks}"
