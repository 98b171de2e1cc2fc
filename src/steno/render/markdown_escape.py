r"""Somebody else's words in Markdown of ours: they are shown as they are, and mean nothing.

Everything here is one line, and printable. `escape_markdown` is for words in a sentence or a cell, `inline_code`
for names, paths and rules; `markdown_table` takes either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from steno.render.table_output import Column
from steno.render.terminal_text import terminal_line

_SPECIAL_CHARACTERS: Final = re.compile(r"[\\`*_\[\]<>&|~:@.]")
"""What begins something wherever it stands; a colon, an at sign and a dot make links of words."""
_LINE_START: Final = re.compile(r"(?:[0-9]{1,9}(?=\))|(?=[#+=-]))(?=[^\s])")
"""Behind this a backslash keeps a line from being a heading, an item of a list or a rule."""
_BACKTICKS: Final = re.compile(r"`+")


def escape_markdown(text: str) -> str:
    """Return words on one line of which no reader of Markdown makes anything but words."""
    words = _SPECIAL_CHARACTERS.sub(r"\\\g<0>", terminal_line(text))
    beginning = _LINE_START.match(words)
    return words if beginning is None else f"{beginning[0]}\\{words[beginning.end() :]}"


def inline_code(text: str) -> str:
    """Return a text on one line in the letters of code; nothing where there is none."""
    words = terminal_line(text)
    if not words:
        return ""
    ticks = "`" * (max(map(len, _BACKTICKS.findall(words)), default=0) + 1)
    edge = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{ticks}{edge}{words}{edge}{ticks}"


def markdown_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells, each of them Markdown on one line."""
    rules = ["---:" if column.is_number else "---" for column in columns]
    lines = [[column.title for column in columns], rules, *rows]
    return "\n".join(map(_table_row, lines))


def _table_row(cells: Sequence[str]) -> str:
    # Whatever stands in a cell, also in code: a bar ends it unless a backslash is before it.
    return "| " + " | ".join([cell.replace("|", "\\|") for cell in cells]) + " |"
