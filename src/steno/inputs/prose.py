"""Where a text is prose and where it is code, as Markdown has it: fences and backticks.

Only so much of Markdown as people write in a prompt. This file knows nothing of mentions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_FENCE: Final = re.compile(r"[ \t>]*(`{3,}(?=[^`]*$)|~{3,})(.*)", re.DOTALL)
_BACKTICKS: Final = re.compile("`+")


def prose(text: str) -> Iterator[tuple[int, int]]:
    """Yield from where to where a text is no code, in order."""
    for start, end in _paragraphs(text):
        runs = [*_BACKTICKS.finditer(text, start, end)]
        partners = _partners([len(run[0]) for run in runs])
        at, number = start, 0
        while number < len(runs):
            partner = partners[number]
            if partner is not None:
                yield at, runs[number].start()
                at, number = runs[partner].end(), partner
            number += 1
        yield at, end


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Yield from where to where there are paragraphs, which are not in a fence."""
    fence = ""
    start = at = 0
    for line in text.splitlines(keepends=True):
        end = at + len(line)
        found = _FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                fence = ""
            start = end
        elif found or not line.strip():
            yield start, at
            fence = found[1] if found else ""
            start = end
        at = end
    yield start, at


def _partners(lengths: list[int]) -> list[int | None]:
    """Return for each run of backticks the next one of the same length, which ends the code."""
    partners: list[int | None] = [None] * len(lengths)
    last: dict[int, int] = {}
    for number in range(len(lengths) - 1, -1, -1):
        partners[number] = last.get(lengths[number])
        last[lengths[number]] = number
    return partners
