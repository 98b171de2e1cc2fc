"""Where two texts differ: first which lines, then which words of those that stand for each other.

What is too long to be looked at closely counts as different as a whole, so that no text takes
long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

_MOST_PARTS: Final = 250
"""How many lines, or words of a passage, are compared at once: the time grows with the square."""
_WORD: Final = re.compile(r"\w+|\s+|[^\w\s]")

Span: TypeAlias = tuple[int, int]
"""Where something begins and ends."""


class Differences(NamedTuple):
    """Where two texts differ. What lies between the spans is the same in both, in this order."""

    left: tuple[Span, ...]
    right: tuple[Span, ...]


def differences(left: str, right: str) -> Differences:
    """Return where two texts differ."""
    found = list(_by_line(left, right))
    return Differences(
        tuple([span for span, _ in found if span[0] < span[1]]),
        tuple([span for _, span in found if span[0] < span[1]]),
    )


def _by_line(left: str, right: str) -> Iterator[tuple[Span, Span]]:
    lines = left.splitlines(keepends=True), right.splitlines(keepends=True)
    for here, there in _unequal(*lines):
        words = _WORD.findall(left[slice(*here)]), _WORD.findall(right[slice(*there)])
        for one, other in _unequal(*words):
            yield _moved(one, here[0]), _moved(other, there[0])


def _moved(span: Span, by: int) -> Span:
    return span[0] + by, span[1] + by


def _unequal(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[Span, Span]]:
    """Return which characters differ, given texts in parts."""
    begin = _alike(left, right)
    end = _alike(left[begin:][::-1], right[begin:][::-1])
    middle = left[begin : len(left) - end], right[begin : len(right) - end]
    starts = _starts(left), _starts(right)
    for here, there in _unequal_parts(*middle):
        yield (
            (starts[0][begin + here[0]], starts[0][begin + here[1]]),
            (starts[1][begin + there[0]], starts[1][begin + there[1]]),
        )


def _unequal_parts(left: Sequence[str], right: Sequence[str]) -> list[tuple[Span, Span]]:
    """Return which parts differ; all of them where there are too many."""
    if max(len(left), len(right)) > _MOST_PARTS:
        return [((0, len(left)), (0, len(right)))]
    opcodes = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    return [((i, j), (k, m)) for what, i, j, k, m in opcodes if what != "equal"]


def _alike(left: Sequence[str], right: Sequence[str]) -> int:
    """Return how many parts both begin with."""
    pairs = zip(left, right, strict=False)
    unequal = (number for number, (one, other) in enumerate(pairs) if one != other)
    return next(unequal, min(len(left), len(right)))


def _starts(parts: Sequence[str]) -> list[int]:
    """Return where each part begins, and where the last one ends."""
    return [0, *accumulate(map(len, parts))]
