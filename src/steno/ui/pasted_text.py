"""Pasted text without anything that a terminal acts on, or the image files that it names.

Only visible characters are kept: no text may reach a model that its sender cannot read.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from steno.render.terminal_text import terminal_text

# CSI, OSC and similar sequences up to their end, and those of one character (ECMA-48).
_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
# Every character that a line editor, and `str.splitlines`, takes for a line end.
_BREAK: Final = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_IMAGE: Final = re.compile(r"\.(?:png|jpe?g|gif|webp|bmp|tiff?)\Z", re.IGNORECASE)
_MAX_PATHS_LENGTH: Final = 16_000
_MAX_PATHS: Final = 50


class PastedText(NamedTuple):
    """Pasted text that can be shown and sent."""

    text: str
    removed_characters: int
    """The number of removed invisible characters."""


def sanitize_pasted(text: str) -> PastedText:
    """Return the visible text, with a line feed at the end of each line."""
    # Half a character (a lone surrogate) can be neither shown nor sent.
    clean = _BREAK.sub("\n", strip_escape_sequences(text)).encode(errors="ignore").decode()
    if terminal_text(clean) == clean:
        return PastedText(clean, 0)
    invisible = {
        ord(character): None for character in set(clean) if terminal_text(character) != character
    }
    visible = clean.translate(invisible)
    return PastedText(visible, len(clean) - len(visible))


def strip_escape_sequences(text: str) -> str:
    """Return a text without escape sequences."""
    return _SEQUENCE.sub("", text)


def image_files(text: str) -> Sequence[Path]:
    """Return the image files that a text names, if it names nothing else and they exist.

    Terminals write dropped files like this: absolute paths in quotes or with backslashes, one after
    the other, or file addresses, one on each line.
    """
    if len(text) > _MAX_PATHS_LENGTH:
        return ()
    for names in _split_paths(text.strip()):
        files = [_image_file(name) for name in names[: _MAX_PATHS + 1]]
        found = [file for file in files if file is not None]
        if found and len(found) == len(files) <= _MAX_PATHS:
            return found
    return ()


def _split_paths(text: str) -> Iterator[list[str]]:
    """Yield how a text may be split into names."""
    yield [text]
    yield [line.strip() for line in text.splitlines() if line.strip()]
    with suppress(ValueError):  # a quote is not closed
        yield shlex.split(text)


def _image_file(name: str) -> Path | None:
    if not _IMAGE.search(name):
        return None
    if name.startswith("file:"):
        address = urlsplit(name)
        if address.netloc not in ("", "localhost"):
            return None
        name = unquote(address.path)
    try:
        path = Path(name).expanduser()
        return path if path.is_absolute() and path.is_file() else None
    except (OSError, RuntimeError, ValueError):  # too long; no home; a NUL in it
        return None
