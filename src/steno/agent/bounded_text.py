"""What a tool says while it runs: told at once, and its beginning and end kept in case it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import get_ident
from typing import Final, final

from steno.values import replace_lone_surrogates

_MAX_AT_EITHER_END: Final = 10_000
"""In characters; some 5,000 tokens in all."""


@final
class BoundedText:
    """What one call has said. Made in the event loop, and told from whatever thread there is."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """Take whoever is to hear it, in the event loop."""
        self._on_text = tell
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        self._head = ""
        self._tail = ""
        self._omitted = 0

    @property
    def text(self) -> str:
        """All of it, or its beginning and its end."""
        if not self._omitted:
            return self._head + self._tail
        gap = f"\n[... {self._omitted:,} characters left out here ...]\n"
        return self._head + gap + self._tail

    def add(self, text: str) -> None:
        """Take what is said next."""
        if get_ident() == self._thread:
            self._append(replace_lone_surrogates(text))
        else:
            self._loop.call_soon_threadsafe(self._append, replace_lone_surrogates(text))

    def _append(self, text: str) -> None:
        room = _MAX_AT_EITHER_END - len(self._head)
        self._head += text[:room]
        tail = self._tail + text[room:]
        self._tail = tail[-_MAX_AT_EITHER_END:]
        self._omitted += len(tail) - len(self._tail)
        self._on_text(text)
