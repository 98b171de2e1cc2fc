"""Find the code blocks and the quotations in Markdown, line by line and without a parser.

The rules are those of CommonMark for fences, except that a fence may be indented and quoted at any
depth. Indented code blocks are prose, because most indented text is a part of a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, NamedTuple

_FENCE: Final = re.compile(r"[ \t>]*(`{3,}(?=[^`]*$)|~{3,})(.*)", re.DOTALL)
_QUOTE_MARK: Final = re.compile(r" {0,3}> ?")
_BLANK_LINES: Final = re.compile(r"\n(?:[ \t]*\n)+")


class LineKind(Enum):
    """The kinds of lines that code fences distinguish."""

    PROSE = auto()
    OPENING_FENCE = auto()
    CODE = auto()
    CLOSING_FENCE = auto()


def classify_lines(text: str) -> Iterator[tuple[LineKind, str]]:
    """Yield each line of a text, with its line break, and its kind.

    A code block whose fence is not closed extends to the end.
    """
    fence = ""
    for line in text.splitlines(keepends=True):
        found = _FENCE.match(line)
        if not fence:
            fence = found[1] if found else ""
            yield LineKind.OPENING_FENCE if found else LineKind.PROSE, line
        elif found and found[1].startswith(fence) and not found[2].strip():
            fence = ""
            yield LineKind.CLOSING_FENCE, line
        else:
            yield LineKind.CODE, line


class ProseAndQuotations(NamedTuple):
    """The two parts of a text in Markdown; either may be empty."""

    prose: str
    quotations: str
    """The fenced code blocks and the block quotes, without their marks and in their order."""


def split_quotations(text: str) -> ProseAndQuotations:
    """Split Markdown into its prose, and its fenced code blocks and block quotes.

    A blank line separates passages that are not adjacent. A line that continues a block quote
    without a mark is prose.
    """
    prose: list[str] = []
    quotations: list[str] = []
    is_quoted_code = False
    for kind, ended_line in classify_lines(text):
        line = ended_line.rstrip("\r\n")
        mark = _QUOTE_MARK.match(line)
        unmarked = line if mark is None else line[mark.end() :]
        if kind is LineKind.CODE:
            quotations.append(unmarked if is_quoted_code else line)
        elif kind is LineKind.PROSE and mark is not None:
            quotations.append(unmarked)
            prose.append("")
        elif kind is LineKind.PROSE:
            prose.append(line)
            _end_passage(quotations)
        else:
            is_quoted_code = mark is not None
            prose.append("")
            _end_passage(quotations)
    one_blank_line = _BLANK_LINES.sub("\n\n", "\n".join(prose))
    return ProseAndQuotations(one_blank_line.strip(), "\n".join(quotations).strip("\n"))


def _end_passage(lines: list[str]) -> None:
    if lines and lines[-1].strip():
        lines.append("")
