"""Escape untrusted text for Markdown, and remove the escapes again for interfaces without it.

Escaped text is one line, and printable. `escape_markdown` is for text in a sentence or a cell,
`inline_code` for names, paths and rules; `markdown_table` takes either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from steno.render.table_output import Column
from steno.render.terminal_text import terminal_line

_SPECIAL_CHARACTERS: Final = re.compile(r"[\\`*_\[\]<>&|~:@.]")
"""Characters with a meaning anywhere in a line; `:`, `@` and `.` can turn text into a link."""
_LINE_START: Final = re.compile(r"(?:[0-9]{1,9}(?=\))|(?=[#+=-]))(?=[^\s])")
"""A backslash after this keeps a line from being a heading, a list item or a rule."""
_BACKTICKS: Final = re.compile(r"`+")
_ESCAPED: Final = re.compile(r"\\([^\w\s]|_)|(?<!`)(`+)(?!`).+?(?<!`)\2(?!`)")
"""An escaped sign, or code, in which a backslash is a character."""
_FENCE: Final = re.compile(r"\s*(?:```|~~~)")


def escape_markdown(text: str) -> str:
    """Return a text on one line that Markdown shows as it is."""
    line = _SPECIAL_CHARACTERS.sub(r"\\\g<0>", terminal_line(text))
    beginning = _LINE_START.match(line)
    return line if beginning is None else f"{beginning[0]}\\{line[beginning.end() :]}"


def inline_code(text: str) -> str:
    """Return a text on one line as inline code; empty where there is none."""
    line = terminal_line(text)
    if not line:
        return ""
    fence = backtick_fence(line)
    padding = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{padding}{line}{padding}{fence}"


def backtick_fence(text: str, *, min_length: int = 1) -> str:
    """Return backticks that enclose a text as code: more than it has in a row."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    return "`" * max(min_length, longest + 1)


def markdown_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells, each of them Markdown on one line."""
    rules = ["---:" if column.is_number else "---" for column in columns]
    lines = [[column.title for column in columns], rules, *rows]
    return "\n".join(map(_table_row, lines))


def _table_row(cells: Sequence[str]) -> str:
    # A bar ends a cell, also inside of code, unless a backslash is before it.
    return "| " + " | ".join([cell.replace("|", "\\|") for cell in cells]) + " |"


def unescape_markdown(text: str) -> str:
    """Return a text without escapes; in code every backslash is a character."""
    lines: list[str] = []
    is_code = False
    for line in text.split("\n"):
        is_fence = _FENCE.match(line) is not None
        is_verbatim = is_code or is_fence
        lines.append(
            line if is_verbatim else _ESCAPED.sub(lambda match: match[1] or match[0], line)
        )
        is_code ^= is_fence
    return "\n".join(lines)
