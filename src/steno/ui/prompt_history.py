"""The prompts that the user typed before: a file of JSON lines, and a cursor on them.

Several terminals may write to one file: a line is appended in one write, and nothing is rewritten.
A file that cannot be read or written does not stop the user from typing.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final, final

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder, Encoder

_MAX_ENTRIES: Final = 1_000
_MAX_ENTRY_LENGTH: Final = 20_000
_TAIL_BYTES: Final = 2_000_000
"""The number of bytes that are read from the end of the file."""


class _HistoryLine(Struct):
    text: str


_ENCODER: Final = Encoder()
_DECODER: Final = Decoder(_HistoryLine)


@final
class PromptHistory:
    """The typed prompts, the latest last. The file is read on first use."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._entries: list[str] | None = None
        self._is_failure_reported = False

    def entries(self) -> Sequence[str]:
        """Return the prompts, the latest last."""
        if self._entries is None:
            self._entries = [] if self._file is None else _read_history(self._file)
        return self._entries

    def add(self, text: str) -> str | None:
        """Add a prompt; return the reason, once, if it cannot be written to the file.

        Blank and very long prompts, and repetitions of the last one, are not added.
        """
        entries = self.entries()
        if not text.strip() or len(text) > _MAX_ENTRY_LENGTH or (entries and entries[-1] == text):
            return None
        self._entries = [*entries[1 - _MAX_ENTRIES :], text]
        if self._file is None:
            return None
        try:
            _append_line(self._file, text)
        except OSError as exc:
            if self._is_failure_reported:
                return None
            self._is_failure_reported = True
            return f"{self._file}: what you type is not kept for next time ({exc.strerror})"
        return None

    def search(self, search: str) -> list[str]:
        """Return the prompts that contain a text, ignoring case; the latest first, each once."""
        folded = search.casefold()
        found = [entry for entry in reversed(self.entries()) if folded in entry.casefold()]
        return [*dict.fromkeys(found)]


@final
class HistoryCursor:
    """A cursor on the history that starts at a draft. Changed texts stay changed."""

    def __init__(self, entries: Sequence[str]) -> None:
        self._entries = entries
        self._index = len(entries)
        self._changed: dict[int, str] = {}

    def older(self, current: str) -> str | None:
        """Return the prompt before; None if there is none. Takes the shown text."""
        return self._move_to(self._index - 1, current)

    def newer(self, current: str) -> str | None:
        """Return the prompt after, up to the draft; None after it. Takes the shown text."""
        return self._move_to(self._index + 1, current)

    def _move_to(self, index: int, current: str) -> str | None:
        if not 0 <= index <= len(self._entries):
            return None
        self._changed[self._index] = current
        self._index = index
        return self._changed[index] if index in self._changed else self._entries[index]


def _read_history(file: Path) -> list[str]:
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return []  # a pipe would keep us waiting
        with file.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - _TAIL_BYTES))
            lines = stream.read(_TAIL_BYTES).split(b"\n")
    except OSError:
        return []
    if size > _TAIL_BYTES:
        del lines[0]  # it began further up
    entries: list[str] = []
    for line in lines:
        try:
            text = _DECODER.decode(line).text
        except (MsgspecError, UnicodeDecodeError):
            continue  # blank, or cut off when a machine went down
        if text.strip() and (not entries or entries[-1] != text):
            entries.append(text)
    return entries[-_MAX_ENTRIES:]


def _append_line(file: Path, text: str) -> None:
    """Append a line in one write, so that lines of other processes stay whole."""
    line = _ENCODER.encode(_HistoryLine(text)) + b"\n"
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(file, flags, 0o600)
    try:
        # A line that another process is writing looks like one that was cut off.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line  # the cut-off text stays on a line of its own
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
