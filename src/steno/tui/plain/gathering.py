"""Lines that belong together: a backslash at the end goes on, three quotes hold a whole text."""

from __future__ import annotations

from typing import Final, final

_QUOTES: Final = '"""'


@final
class Gathering:
    """Puts lines together until something is whole."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._lines: list[str] = []
        self._is_quoted = False

    @property
    def is_open(self) -> bool:
        """Whether more has to come."""
        return self._is_quoted or bool(self._lines)

    def feed(self, line: str) -> str | None:
        """Take a line; return what is whole now, None where more has to come."""
        if not self.is_open and line.startswith(_QUOTES):
            self._is_quoted = True
            line = line.removeprefix(_QUOTES)
            if not line:
                return None
        if self._is_quoted:
            is_last = line.rstrip().endswith(_QUOTES)
            self._lines.append(line.rstrip().removesuffix(_QUOTES) if is_last else line)
        else:
            is_last = not line.endswith("\\")
            self._lines.append(line if is_last else line[:-1])
        return self.end() if is_last else None

    def end(self) -> str:
        """Return what there is, whole or not, and begin anew."""
        text = "\n".join(self._lines)
        if self._is_quoted:
            text = text.removesuffix("\n")  # the quotes had a line of their own
        self._lines, self._is_quoted = [], False
        return text
