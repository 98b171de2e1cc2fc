"""Words that come in pieces, said line by line: a line is said when all of it is there."""

from __future__ import annotations

from collections import deque
from typing import Final, final

from steno.tui.plain.voice import Voice

_FIRST: Final = 10
_LAST: Final = 10


@final
class _Cutting:
    """Cuts pieces into lines. It costs the same however long a line is."""

    def __init__(self) -> None:
        self._begun: list[str] = []

    def feed(self, piece: str) -> list[str]:
        """Return the lines that are whole now."""
        first, *rest = piece.split("\n")
        self._begun.append(first)
        if not rest:
            return []
        whole = ["".join(self._begun), *rest[:-1]]
        self._begun = [rest[-1]]
        return [line.removesuffix("\r") for line in whole]

    def rest(self) -> list[str]:
        """Return the line that was never ended, if there is one."""
        begun, self._begun = "".join(self._begun), []
        return [begun] if begun else []


@final
class Speech:
    """What a model says, under one head."""

    def __init__(self, voice: Voice, whose: str) -> None:
        """Take whose words they are."""
        self._writer = voice
        self._speaker = whose
        self._splitter = _Cutting()
        self._has_begun = False

    def feed(self, piece: str) -> None:
        """Say the lines that are whole now."""
        self._write_lines(self._splitter.feed(piece))

    def end(self) -> None:
        """Say what is left."""
        self._write_lines(self._splitter.rest())

    def _write_lines(self, lines: list[str]) -> None:
        if not self._has_begun:
            while lines and not lines[0].strip():
                lines = lines[1:]
            if not lines:
                return
            self._has_begun = True
            self._writer.begin(self._speaker, lines[0])
            lines = lines[1:]
        self._writer.write_lines(lines)


@final
class Output:
    """What a tool says while it runs: the first lines as they come, the last ones at the end."""

    def __init__(self, voice: Voice, first: int = _FIRST, last: int = _LAST) -> None:
        """Take how many lines are said at each end."""
        self._writer = voice
        self._splitter = _Cutting()
        self._first = first
        self._last: deque[str] = deque(maxlen=last)
        self._count = 0

    def feed(self, piece: str) -> None:
        """Say the lines that are whole now, unless there were too many already."""
        self._add_lines(self._splitter.feed(piece))

    def end(self) -> None:
        """Say how much was left out, and the last lines."""
        self._add_lines(self._splitter.rest())
        held = self._count - self._first
        left_out = held - len(self._last)
        if left_out > 0:
            self._writer.write_lines([f"… {left_out:,} lines are not shown …"])
        self._writer.write_lines(self._last)

    def _add_lines(self, lines: list[str]) -> None:
        at_once = lines[: max(0, self._first - self._count)]
        self._writer.write_lines(at_once)
        self._last.extend(lines[len(at_once) :])
        self._count += len(lines)
