"""Files in the user's settings folder that steno reads and writes, such as the grants.

Such a file allows things, so it is ignored if another user can write to it. It is written as a
whole, while a lock keeps other processes from writing, and a reader sees the old or the new
content.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, final

from steno.app.folders import config_folder
from steno.errors import InvalidValue, Unavailable
from steno.invisible import is_visible
from steno.regular_file import open_regular_file
from steno.store.atomic_files import make_folder, open_draft, open_locked, translate_os_errors

_LOCK_TIMEOUT_S: Final = 10.0
_WRITABLE_BY_OTHERS: Final = 0o022


@final
class UserFile:
    """A file that only its user may change."""

    def __init__(self, path: Path) -> None:
        """Take the path of the file; a link is resolved, so that writing does not replace it."""
        self.path: Final = Path(os.path.realpath(path))

    def read(self) -> bytes | None:
        """Return the content; None if the file does not exist.

        Raises Unavailable if the file cannot be read, or if another user can write to it.
        """
        with translate_os_errors(str(self.path)):
            try:
                with open_regular_file(self.path) as stream:
                    status, data = os.fstat(stream.fileno()), stream.read()
            except FileNotFoundError:
                return None
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & _WRITABLE_BY_OTHERS:
            raise Unavailable(
                "another user owns this file or can write to it, so it is ignored; check its "
                "content, then run chown and chmod 600",
                code="file_writable_by_others",
                place=str(self.path),
            )
        return data

    @contextmanager
    def locked_for_writing(self) -> Generator[None]:
        """Lock the file against other processes until the `with` block ends.

        Raises Unavailable if the lock is not free in time, or if the folder cannot be written.
        """
        with translate_os_errors(str(self.path)):
            make_folder(self.path.parent)
            lock = self.path.with_name(f"{self.path.name}.lock")
            deadline = time.monotonic() + _LOCK_TIMEOUT_S
            with open_locked(lock, to_write=True, deadline=deadline, create=True):
                yield

    def write(self, text: str) -> None:
        """Replace the content; only the user can read the file. Raises OSError if that fails."""
        with open_draft(self.path.parent) as draft:
            draft.stream.write(text.encode())
            draft.sync()
            draft.publish(self.path)


def user_file(name: str) -> Path | None:
    """Return the path of a file in the user's folder; None if the home folder is unknown."""
    folder = config_folder(os.environ)
    return None if folder is None else folder / name


def unknown_home(place: str) -> InvalidValue:
    """Return the error for a file that cannot be located without a home folder."""
    return InvalidValue(
        "the home folder is unknown; set HOME or XDG_CONFIG_HOME", code="home_unknown", place=place
    )


def quote_toml(text: str) -> str:
    """Return a basic string of TOML, with invisible characters escaped."""
    escaped = re.sub(r'["\\]', r"\\\g<0>", text)
    shown = [char if is_visible(char) else f"\\U{ord(char):08x}" for char in escaped]
    return f'"{"".join(shown)}"'
