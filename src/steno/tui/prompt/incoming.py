r"""What a terminal sends, mended before Textual reads it.

Textual looks for keys inside of what is pasted: an escape there makes keys of the next thirty
characters, Enter among them. And it takes the Alt+Enter of most terminals, an escape and a return,
for Enter. Nothing else is touched.
"""

from __future__ import annotations

from typing import Final, final

from steno.tui.prompt.pasting import without_sequences

_ESCAPE: Final = "\x1b"
_OPEN: Final = "\x1b[200~"
_CLOSE: Final = "\x1b[201~"
_ALT_ENTER: Final = "\x1b\r"
_ALT_ENTER_IN_FULL: Final = "\x1b[13;3u"


@final
class Incoming:
    """One stream of characters, in pieces as they come."""

    def __init__(self) -> None:
        self._is_pasting = False
        self._before = ""
        """The last few characters, outside of what is pasted: a beginning may come in halves."""
        self._held = ""
        """What may be half of the end of what is pasted."""

    def feed(self, data: str) -> str:
        """Return what to read in place of what was sent."""
        mended: list[str] = []
        while data:
            step = self._pasted if self._is_pasting else self._typed
            piece, data = step(data)
            mended.append(piece)
        return "".join(mended)

    def _typed(self, data: str) -> tuple[str, str]:
        seen = self._before + data
        at = seen.find(_OPEN)
        if at < 0:
            self._before = seen[1 - len(_OPEN) :]
            return data.replace(_ALT_ENTER, _ALT_ENTER_IN_FULL), ""
        end = at + len(_OPEN) - len(self._before)
        self._is_pasting, self._before = True, ""
        typed = data[: max(0, end - len(_OPEN))]
        return typed.replace(_ALT_ENTER, _ALT_ENTER_IN_FULL) + data[len(typed) : end], data[end:]

    def _pasted(self, data: str) -> tuple[str, str]:
        seen = self._held + data
        at = seen.find(_CLOSE)
        if at < 0:
            half = next((n for n in range(len(_CLOSE) - 1, 0, -1) if seen.endswith(_CLOSE[:n])), 0)
            self._held = seen[len(seen) - half :]
            return _words(seen[: len(seen) - half]), ""
        # What is pasted may hold the sign for its end: the last one before another paste counts.
        next_at = seen.find(_OPEN, at)
        at = seen.rfind(_CLOSE, at, next_at if next_at >= 0 else len(seen))
        self._is_pasting, self._held = False, ""
        return _words(seen[:at]) + _CLOSE, seen[at + len(_CLOSE) :]


def _words(text: str) -> str:
    return without_sequences(text).replace(_ESCAPE, "")
