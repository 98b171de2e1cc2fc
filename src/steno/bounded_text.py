"""Truncation of long text and long lists of lines in the middle."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar, final

_Line = TypeVar("_Line")
_Text = TypeVar("_Text", str, bytes, list[str])


def truncate_middle(text: str, *, max_head: int, max_tail: int, note: str) -> str:
    """Return `text`, with its middle replaced by `note` if the text is too long.

    The placeholder `{omitted}` in `note` becomes the number of omitted characters.
    """
    omitted = len(text) - max_head - max_tail
    if omitted <= 0:
        return text
    return (
        text[:max_head] + note.replace("{omitted}", f"{omitted:,}") + text[len(text) - max_tail :]
    )


def truncate_lines(
    lines: Sequence[_Line], *, max_lines: int, note: Callable[[int], _Line]
) -> list[_Line]:
    """Return `lines`, with the middle replaced by a note if there are more than `max_lines`.

    `note` receives the number of omitted lines and returns the line that replaces them.
    """
    if len(lines) <= max_lines:
        return list(lines)
    half = max_lines // 2
    return [*lines[:half], note(len(lines) - 2 * half), *lines[len(lines) - half :]]


@final
class BoundedText(Generic[_Text]):
    """A buffer for text, bytes or lines that retains only the beginning and the end."""

    def __init__(
        self, join: Callable[[Iterable[_Text]], _Text], *, max_head: int, max_tail: int
    ) -> None:
        """Create an empty buffer; `join` joins pieces: `"".join` for text, `b"".join` for bytes."""
        self._join: Callable[[Iterable[_Text]], _Text] = join
        self._max_head = max_head
        self._max_tail = max_tail
        self.clear()

    def clear(self) -> None:
        """Discard all pieces and reset the buffer."""
        self.total = 0
        """The total length of the pieces added so far."""
        self._head: list[_Text] = []
        self._tail: deque[_Text] = deque()
        self._tail_length = 0

    def add(self, piece: _Text) -> None:
        """Append a piece; the cost does not depend on the amount of text added before."""
        remaining = max(0, self._max_head - self.total)
        self.total += len(piece)
        if remaining:
            self._head.append(piece[:remaining])
        if rest := piece[remaining:]:
            self._tail.append(rest)
            self._tail_length += len(rest)
            while self._tail and self._tail_length - len(self._tail[0]) >= self._max_tail:
                self._tail_length -= len(self._tail.popleft())

    @property
    def missing(self) -> int:
        """The length of the discarded middle."""
        return max(0, self.total - self._max_head - self._max_tail)

    def ends(self) -> tuple[_Text, int, _Text]:
        """Return the beginning, the length of the discarded middle, and the end."""
        tail = self._join(self._tail)
        tail = tail[max(0, len(tail) - self._max_tail) :]
        return self._join(self._head), self.missing, tail
