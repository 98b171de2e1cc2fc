"""Functions that escape plain text so that Markdown displays exactly this text.

Escaped text is printable and on one line. `escape_markdown` is for text in a sentence or a cell,
`inline_code` for names, paths and rules; `markdown_table` accepts either. `markdown_line` builds a
line from styled pieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from steno.render.table_output import Column
from steno.render.terminal_text import terminal_line

CODE_STYLE: Final = "cyan"
"""The style of names, paths, rules and commands, which Markdown displays as code."""
BOLD_STYLE: Final = "bold"
_SPECIAL_CHARACTERS: Final = re.compile(r"[\\`*_\[\]<>&|~:@.]")
"""Characters with a meaning anywhere in a line; `:`, `@` and `.` can create a link."""
_LINE_START: Final = re.compile(r"(?:[0-9]{1,9}(?=\))|(?=[#+=-]))(?=[^\s])")
"""A backslash after this match prevents a heading, a list item or a thematic break."""
_BACKTICKS: Final = re.compile(r"`+")


def escape_markdown(text: str) -> str:
    """Return a text as one line of Markdown that displays it unchanged."""
    return markdown_line([(terminal_line(text), "")])


def markdown_line(pieces: Iterable[tuple[str, str]]) -> str:
    """Return a line of Markdown built from pairs of a printable text and its style."""
    parts: list[str] = []
    for text, style in pieces:
        escaped = _SPECIAL_CHARACTERS.sub(r"\\\g<0>", text)
        if style == CODE_STYLE:
            parts.append(inline_code(text))
        else:
            parts.append(f"**{escaped}**" if style == BOLD_STYLE else escaped)
    line = "".join(parts).lstrip(" ")  # a list item may be indented, too
    beginning = _LINE_START.match(line)
    return line if beginning is None else f"{beginning[0]}\\{line[beginning.end() :]}"


def inline_code(text: str) -> str:
    """Return a text as one line of inline code; empty for an empty text."""
    line = terminal_line(text)
    if not line:
        return ""
    fence = backtick_fence(line)
    padding = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{padding}{line}{padding}{fence}"


def backtick_fence(text: str, *, min_length: int = 1) -> str:
    """Return a fence for a text: more backticks than any sequence of backticks in it."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    return "`" * max(min_length, longest + 1)


def markdown_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; each cell is one line of Markdown."""
    rules = ["---:" if column.is_number else "---" for column in columns]
    lines = [[column.title for column in columns], rules, *rows]
    return "\n".join(map(_table_row, lines))


def _table_row(cells: Sequence[str]) -> str:
    # A bar ends a cell, even inside code, unless a backslash precedes it.
    return "| " + " | ".join([cell.replace("|", "\\|") for cell in cells]) + " |"
