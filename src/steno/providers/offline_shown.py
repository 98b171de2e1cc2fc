"""What a person said, told apart from what is shown beside it.

A message begins with the person's words. What they point at, such as files, the text of images
and resources of servers, stands in blocks of its own behind them. That is material: none of it is
ever taken for something to do, whatever it says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from steno.content import Image, Text
from steno.message import UserMessage

_ENDS: Final = ("[end of the resource, mark ", "[end of the image, mark ")
"""What stands below what was shown."""
_LONGEST_TITLE: Final = 200
_MOST_LINES: Final = 20
_LONGEST_LINE: Final = 200
_MOST_TITLES: Final = 10
_FOUND: Final = re.compile(
    r"\[|[^\n]*(?:, lines? [\d,]+(?: to [\d,]+)? of [\d,]+|/ holds [^\n]* ignored):(?:\n|\Z)"
)
"""How blocks begin that nobody said: a message need not have any words of a person."""
_ASIDE: Final = re.compile(r"\. The system provides .*", re.DOTALL)
"""What a frame tells a model beside the name of what it is around."""


class Shown(NamedTuple):
    """Something that a message points at."""

    title: str
    """What it is: `src/main.py, lines 1 to 6 of 6`."""
    lines: tuple[str, ...] = ()


class Heard(NamedTuple):
    """A message of a person."""

    text: str = ""
    attachments: tuple[Shown, ...] = ()


def hear(message: UserMessage) -> Heard:
    """Tell the words of a person apart from what they are about."""
    blocks: Sequence[object] = message.content
    words = ""
    if blocks and isinstance(blocks[0], Text) and not _FOUND.match(blocks[0].text):
        words, blocks = blocks[0].text, blocks[1:]
    shown: list[Shown] = []
    for block in blocks:
        if isinstance(block, Text):
            shown.append(_shown(block.text))
        elif isinstance(block, Image):
            shown.append(Shown("an image, which I cannot see"))
    return Heard(words, tuple(shown))


def _shown(text: str) -> Shown:
    title, *lines = text.strip("\n").splitlines() or [""]
    if title.startswith("["):
        title = _ASIDE.sub("", title[1:].removesuffix("]"))
        if lines and lines[-1].startswith(_ENDS):
            lines.pop()
    return Shown(title.removesuffix(":")[:_LONGEST_TITLE], tuple(lines))


# -- what is said about it -------------------------------------------------------------------


def list_shown(shown: Sequence[Shown]) -> str:
    """Return one sentence that names everything."""
    titles = [one.title for one in shown[:_MOST_TITLES]]
    more = len(shown) - len(titles)
    return f"I was shown: {'; '.join(titles)}{f'; and {more:,} more' if more else ''}."


def show_beginnings(shown: Sequence[Shown]) -> str:
    """Return how each begins, under its name."""
    parts: list[str] = []
    for one in shown[:_MOST_TITLES]:
        parts.append(f"{one.title}{':' if one.lines else ''}")
        if one.lines:
            parts.append(fenced(_beginning(one.lines)))
    if more := len(shown[_MOST_TITLES:]):
        parts.append(f"… and {more:,} more")
    return "\n\n".join(parts)


def _beginning(lines: Sequence[str]) -> list[str]:
    left = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], *([f"… {left:,} more lines"] if left > 0 else [])]


def fenced(lines: Sequence[str]) -> str:
    """Return lines as a block that none of them can end; long ones are cut."""
    shown = [line[:_LONGEST_LINE] for line in lines]
    fence = "`" * max(3, 1 + max(map(_longest_run, shown)))
    return "\n".join([fence, *shown, fence])


def _longest_run(line: str) -> int:
    """Return how many backticks follow each other in a line, at most."""
    return max(map(len, re.findall("`+", line)), default=0)
