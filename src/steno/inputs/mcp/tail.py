r"""The last words of a server, and how to quote a server at all.

What it writes may be meant for a terminal, or against one: everything that is not plain text is
shown as an escape (`\x1b`).
"""

from __future__ import annotations

from typing import Final, final

_MOST_BYTES: Final = 4096
_MOST_REMARKS: Final = 4


def harmless(text: str, most: int = 1000) -> str:
    """Return what a server said, as it may be printed and put into an error."""
    shown = text if len(text) <= most else f"{text[:most]}…"
    if shown.isprintable():
        return shown
    return "".join(
        [
            char if char.isprintable() or char == "\n" else ascii(char)[1:-1]
            for char in shown.replace("\r\n", "\n").replace("\t", " ")
        ]
    )


@final
class Tail:
    """What a server said last on stderr, in bounded room, and what we saw of its end."""

    def __init__(self) -> None:
        self._data = b""
        self._is_cut = False
        self._remarks: list[str] = []

    def add(self, data: bytes) -> None:
        """Keep what it said."""
        said = self._data + data
        self._data = said[-_MOST_BYTES:]
        self._is_cut = self._is_cut or len(said) > _MOST_BYTES

    def add_remark(self, text: str) -> None:
        """Keep what we have to say about it."""
        if (shown := harmless(text)) not in self._remarks:
            self._remarks = [*self._remarks, shown][-_MOST_REMARKS:]

    def clear_remarks(self) -> None:
        """Drop what we had to say so far: it has been overcome."""
        self._remarks = []

    def __str__(self) -> str:
        said = self._data.decode(errors="replace")
        if self._is_cut:  # half a line may begin with half a secret, which nobody would find
            said = said.partition("\n")[2] or said.partition(" ")[2]
        words = harmless(said.strip(), _MOST_BYTES)
        remarks = "; ".join(self._remarks)
        return f"{remarks}\n{words}".strip() if words else remarks
