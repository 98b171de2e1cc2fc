"""The beginning and the end of a long text, with a note in place of its middle."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import AnyStr, Generic, final


def truncate_middle(text: str, *, max_head: int, max_tail: int, note: str) -> str:
    """Return a text without its middle if it is too long.

    The note is a template: `{omitted}` in it is the number of characters that are left out.
    """
    omitted = len(text) - max_head - max_tail
    if omitted <= 0:
        return text
    return (
        text[:max_head] + note.replace("{omitted}", f"{omitted:,}") + text[len(text) - max_tail :]
    )


@final
class BoundedText(Generic[AnyStr]):
    """A text or bytes that arrive in pieces, kept in bounded memory as by `truncate_middle`."""

    def __init__(
        self, join: Callable[[Iterable[AnyStr]], AnyStr], *, max_head: int, max_tail: int
    ) -> None:
        """Take `"".join` for a text, `b"".join` for bytes."""
        self._join: Callable[[Iterable[AnyStr]], AnyStr] = join
        self._max_head = max_head
        self._max_tail = max_tail
        self.clear()

    def clear(self) -> None:
        """Drop everything."""
        self.total = 0
        """The length of everything that was added."""
        self._head: list[AnyStr] = []
        self._tail: deque[AnyStr] = deque()
        self._tail_length = 0

    def add(self, piece: AnyStr) -> None:
        """Add a piece; the cost does not depend on the length of the text."""
        remaining = max(0, self._max_head - self.total)
        self.total += len(piece)
        if remaining:
            self._head.append(piece[:remaining])
        if rest := piece[remaining:]:
            self._tail.append(rest)
            self._tail_length += len(rest)
            while self._tail and self._tail_length - len(self._tail[0]) >= self._max_tail:
                self._tail_length -= len(self._tail.popleft())

    def ends(self) -> tuple[AnyStr, int, AnyStr]:
        """Return the beginning, how much is missing after it, and the end."""
        tail = self._join(self._tail)
        tail = tail[max(0, len(tail) - self._max_tail) :]
        missing = max(0, self.total - self._max_head) - len(tail)
        return self._join(self._head), missing, tail
