"""Markdown for those who read line by line: tables as columns, and no backslashes for a renderer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from steno.printable import width_of

_BETWEEN_CELLS: Final = re.compile(r"(?<!\\)\|")
_RULE: Final = re.compile(r":?-+:?")
_CODE: Final = re.compile(r"(`+) ?(.+?) ?\1")
_ESCAPED: Final = re.compile(r"\\([^\w\s])|(?<!`)(`+)(?!`).+?(?<!`)\2(?!`)")
"""A sign that means nothing, or code, in which a backslash is one."""
_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_GAP: Final = "  "


def in_lines(text: str) -> str:
    """Return Markdown with its tables as columns, and nothing escaped any more."""
    lines: list[str] = []
    for is_table, group in groupby(text.split("\n"), _is_row):
        found = list(group)
        lines += _aligned([_cells(line) for line in found]) if is_table else _unescaped(found)
    return "\n".join(lines)


def _unescaped(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines as they are read; in a block of code every backslash is one."""
    is_code = False
    for line in lines:
        is_fence = _FENCE.match(line) is not None
        yield line if is_code or is_fence else _words(line)
        is_code ^= is_fence


def _words(text: str) -> str:
    """Return what stands on a line, without what keeps a renderer from seeing more in it."""
    return _ESCAPED.sub(lambda found: found[1] or found[0], text)


def _is_row(line: str) -> bool:
    return line.startswith("| ") and line.endswith(" |")


def _cells(line: str) -> list[str]:
    return [_plain(cell.strip()) for cell in _BETWEEN_CELLS.split(line[1:-1])]


def _plain(cell: str) -> str:
    """Return what a cell says; its bars have a backslash more, whatever they stand in."""
    cell = cell.replace("\\|", "|")
    code = _CODE.fullmatch(cell)
    return code[2] if code is not None else _words(cell)


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
