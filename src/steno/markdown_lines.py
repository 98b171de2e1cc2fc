"""Find the code blocks and the quotations in Markdown, line by line and without a parser.

The rules are those of CommonMark for line breaks and fences, except that a fence and the mark of a
block quote may be indented to any depth, as they are in lists. Indented code blocks are prose,
because most indented text is a part of a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from itertools import takewhile
from typing import Final, NamedTuple

# `str.splitlines` also splits at U+2028, form feeds and other characters, which are text here.
_LINE: Final = re.compile(
    r"(?!\Z)(?P<marks>[ \t>]*+)(?P<fence>`{3,}+|~{3,}+)?(?P<rest>[^\r\n]*+)(?:\r\n?|\n|\Z)"
)
_QUOTE_MARKS: Final = re.compile(r"(?:[ \t]*+>)++ ?")
_BLANK_LINES: Final = re.compile(r"\n(?:[ \t]*\n)+")


class LineKind(Enum):
    """The kinds of lines that code fences distinguish."""

    PROSE = auto()
    OPENING_FENCE = auto()
    CODE = auto()
    CLOSING_FENCE = auto()


class MarkdownLine(NamedTuple):
    """A line of a text in Markdown."""

    kind: LineKind
    text: str
    """The line with its line break."""
    quote_depth: int = 0
    """The number of block quotes around the code block of the line; 0 for prose."""


def classify_lines(text: str) -> Iterator[MarkdownLine]:
    """Yield each line of a text.

    A code block whose fence is not closed extends to the end of the block quote or the text.
    """
    fence, depth = "", 0
    for found in _LINE.finditer(text):
        line, run = found[0], found["fence"]
        if fence and (marks := found["marks"].count(">")) >= depth:
            is_end = run is not None and marks == depth and _closes(fence, run, found["rest"])
            yield MarkdownLine(LineKind.CLOSING_FENCE if is_end else LineKind.CODE, line, depth)
            fence = "" if is_end else fence
        elif run is not None and (run[0] == "~" or "`" not in found["rest"]):
            fence, depth = run, found["marks"].count(">")
            yield MarkdownLine(LineKind.OPENING_FENCE, line, depth)
        else:
            fence = ""
            yield MarkdownLine(LineKind.PROSE, line)


def _closes(fence: str, run: str, rest: str) -> bool:
    """Return whether a line with a run of fence characters closes a code block."""
    return run.startswith(fence) and not rest.strip(" \t")


class ProseAndQuotations(NamedTuple):
    """The two parts of a text in Markdown; either may be empty."""

    prose: str
    quotations: str
    """The fenced code blocks and the block quotes, without their marks and in their order.

    The lines of a code block lose the indentation of its opening fence, as in a list.
    """


def split_quotations(text: str) -> ProseAndQuotations:
    """Split Markdown into its prose, and its fenced code blocks and block quotes.

    A blank line separates passages that are not adjacent. A line that continues a block quote
    without a mark is prose.
    """
    prose: list[str] = []
    quotations: list[str] = []
    indentation = ""
    for kind, ended_line, quote_depth in classify_lines(text):
        line = ended_line.rstrip("\r\n")
        marks = _QUOTE_MARKS.match(line)
        if kind is LineKind.CODE:
            code = _without_marks(line, quote_depth)
            quotations.append(_without_indentation(code, indentation))
        elif kind is LineKind.PROSE and marks is not None:
            quotations.append(line[marks.end() :])
            prose.append("")
        elif kind is LineKind.PROSE:
            prose.append(line)
            _end_passage(quotations)
        else:
            fence = _without_marks(line, quote_depth)
            indentation = fence[: len(fence) - len(fence.lstrip(" \t"))]
            prose.append("")
            _end_passage(quotations)
    one_blank_line = _BLANK_LINES.sub("\n\n", "\n".join(prose))
    return ProseAndQuotations(one_blank_line.strip(), "\n".join(quotations).strip("\n"))


def _without_marks(line: str, quote_depth: int) -> str:
    """Return a line of a code block without the marks of the block quotes around the block."""
    if not quote_depth:
        return line
    end = 0
    for _ in range(quote_depth):
        end = line.index(">", end) + 1
    return line[end:].removeprefix(" ")


def _without_indentation(line: str, indentation: str) -> str:
    """Return a line of a code block without the part of the fence's indentation that it has."""
    pairs = zip(line, indentation, strict=False)
    return line[len([*takewhile(lambda pair: pair[0] == pair[1], pairs)]) :]


def _end_passage(lines: list[str]) -> None:
    if lines and lines[-1].strip():
        lines.append("")
