r"""Sets of characters, as ranges of code points: what `\w`, `\p{Lu}` and `[:alpha:]` stand for.

They are counted out for Python, whose own `\w` and `\s` are other sets than those of Unicode that
ripgrep uses. The tables are Python's, so characters of the very newest Unicode may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Final, TypeAlias
from unicodedata import category

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""First and last code point, both included."""

# Beyond, there are only tags, variation selectors, and code points for private use.
_ASSIGNED: Final = (range(0x33480), range(0xE0000, 0xE0200))
_PRIVATE_PLANES: Final[Ranges] = ((0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))
_CIRCLED_LETTERS: Final = (
    (0x24B6, 0x24E9),
    (0x1F130, 0x1F149),
    (0x1F150, 0x1F169),
    (0x1F170, 0x1F189),
)
_JOINERS: Final = ((0x200C, 0x200D),)
_CATEGORY: Final = re.compile("L[ulmto]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfo]|LC")


def is_category(name: str) -> bool:
    """Tell whether a name is that of a general category of Unicode that we can count out."""
    return _CATEGORY.fullmatch(name) is not None


@lru_cache(maxsize=64)
def in_category(name: str) -> Ranges:
    """Return all characters of a general category, or of those that begin with a letter."""
    wanted = {"Lu", "Ll", "Lt"} if name == "LC" else None
    code_points = [
        code
        for code in chain.from_iterable(_ASSIGNED)
        if (category(chr(code)) in wanted if wanted else category(chr(code)).startswith(name))
    ]
    ranges = _ranges(code_points)
    return ranges + _PRIVATE_PLANES if name == "Co" else ranges


@lru_cache(maxsize=1)
def _word() -> Ranges:
    """Return what Unicode (UTS 18) calls a word character."""
    parts = map(in_category, ("L", "M", "Nd", "Nl", "Pc"))
    return _merged([*chain.from_iterable(parts), *_CIRCLED_LETTERS, *_JOINERS])


def _space() -> Ranges:
    return (
        (0x09, 0x0D),
        (0x20, 0x20),
        (0x85, 0x85),
        (0xA0, 0xA0),
        (0x1680, 0x1680),
        (0x2000, 0x200A),
        (0x2028, 0x2029),
        (0x202F, 0x202F),
        (0x205F, 0x205F),
        (0x3000, 0x3000),
    )


SHORTHANDS: Final[Mapping[str, Callable[[], Ranges]]] = {
    "d": lambda: in_category("Nd"),
    "s": _space,
    "w": _word,
}
r"""The sets behind `\d`, `\s` and `\w`."""

_DIGITS: Final = (0x30, 0x39)
_UPPER: Final = (0x41, 0x5A)
_LOWER: Final = (0x61, 0x7A)
_PUNCTUATION: Final = ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E))

POSIX: Final[Mapping[str, Ranges]] = {
    "alnum": (_DIGITS, _UPPER, _LOWER),
    "alpha": (_UPPER, _LOWER),
    "ascii": ((0x00, 0x7F),),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0x00, 0x1F), (0x7F, 0x7F)),
    "digit": (_DIGITS,),
    "graph": ((0x21, 0x7E),),
    "lower": (_LOWER,),
    "print": ((0x20, 0x7E),),
    "punct": _PUNCTUATION,
    "space": ((0x09, 0x0D), (0x20, 0x20)),
    "upper": (_UPPER,),
    "word": (_DIGITS, _UPPER, (0x5F, 0x5F), _LOWER),
    "xdigit": (_DIGITS, (0x41, 0x46), (0x61, 0x66)),
}
"""The classes in `[[:alpha:]]`, which are about ASCII."""


def all_but(ranges: Ranges) -> Ranges:
    """Return the ranges of all other characters; these are in order and do not touch."""
    edges = [-1, *chain.from_iterable(ranges), 0x110000]
    gaps = zip(edges[::2], edges[1::2], strict=True)
    return tuple([(low + 1, high - 1) for low, high in gaps if high - low > 1])


def without(ranges: Ranges, characters: str) -> Ranges:
    """Return ranges that do not hold these characters."""
    for code in map(ord, characters):
        halves = [((low, min(high, code - 1)), (max(low, code + 1), high)) for low, high in ranges]
        ranges = tuple([span for span in chain.from_iterable(halves) if span[0] <= span[1]])
    return ranges


@lru_cache(maxsize=64)
def python_ranges(ranges: Ranges) -> str:
    """Return ranges as Python's `re` writes them inside brackets."""
    return "".join(
        f"\\U{low:08x}-\\U{high:08x}" for low, high in chain.from_iterable(map(_around, ranges))
    )


def rust_ranges(ranges: Ranges) -> str:
    """Return ranges as ripgrep writes them inside brackets."""
    return "".join(
        f"\\x{{{low:X}}}-\\x{{{high:X}}}" for low, high in chain.from_iterable(map(_around, ranges))
    )


def _around(span: tuple[int, int]) -> Ranges:
    """Leave surrogates out: they are no characters, and Python uses them for stray bytes."""
    low, high = span
    return tuple(
        (first, last)
        for first, last in ((low, min(high, 0xD7FF)), (max(low, 0xE000), high))
        if first <= last
    )


def _ranges(code_points: Iterable[int]) -> Ranges:
    return _merged([(code, code) for code in code_points])


def _merged(ranges: list[tuple[int, int]]) -> Ranges:
    """Join ranges that touch."""
    merged: list[list[int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], high)
        else:
            merged.append([low, high])
    return tuple([(low, high) for low, high in merged])
