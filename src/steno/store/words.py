"""Words, as all stores find them: the same in every store, whatever its own idea of a word."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_CONTEXT: Final = 40
_WORD: Final = re.compile(
    # Scripts without blanks between words: each character is one.
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0002fa1f]|[^\W_]+"
)


def words_of(text: str) -> list[str]:
    """Return the words of a text without their case, in order. `read_file` is two words."""
    return _WORD.findall(text.casefold())


def snippet(text: str, words: Iterable[str]) -> str:
    """Return the part of a text around the first of the words found in it, on one line."""
    folded = text.casefold()
    found = [place for word in words if (place := folded.find(word)) >= 0]
    middle = min(found, default=0)
    start, end = max(middle - _CONTEXT, 0), middle + 2 * _CONTEXT
    shown = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{shown}{'…' if end < len(text) else ''}"
