"""Where a project begins, where the user keeps settings, and how files of either are read.

What lies in a project came with it, from whoever wrote it: a file there counts only if it is a
plain one that really is in the project, and no larger than anybody would write by hand.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from steno.errors import InvalidValue, ToolFailed, Unavailable
from steno.tools.workspace import Workspace

MARKERS: Final = (".git", ".steno")
"""What a folder has in it that is the root of a project."""
_SHARED: Final = stat.S_ISVTX | stat.S_IWOTH


def find_project(folder: Path) -> Path:
    """Return the root of the project that a folder is in: the nearest with `.git` or `.steno`.

    That is the folder itself if there is none. Where everybody may put things, such as in /tmp,
    is nobody's project.
    """
    folder = folder.resolve()
    for candidate in (folder, *folder.parents):
        if any(os.path.lexists(candidate / name) for name in MARKERS) and not _is_shared(candidate):
            return candidate
    return folder


def _is_shared(folder: Path) -> bool:
    return folder.stat().st_mode & _SHARED == _SHARED


def config_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the user's own folder of settings; None where no home is known."""
    named = environ.get("XDG_CONFIG_HOME", "")
    if named.startswith("/"):  # any other is to be ignored, says the standard
        return Path(named) / "steno"
    home = home_folder(environ)
    return None if home is None else home / ".config" / "steno"


def home_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the home folder of the user, if it is known."""
    if named := environ.get("HOME", ""):
        return Path(named)
    if "HOME" not in environ:  # if it is empty, somebody wants none
        with suppress(RuntimeError):
            return Path.home()
    return None


def read_plain_file(path: Path, *, inside: Path | None, most_bytes: int) -> bytes | None:
    """Return the beginning of a file, up to one byte more than wanted; None if there is none.

    Links are followed, but not out of `inside`, a folder above the file; where that is None, they
    may lead anywhere. Raises InvalidValue for what is not a plain file or cannot be read.
    """
    if not os.path.lexists(path):
        return None
    try:
        if inside is None:
            path = path.resolve(strict=True)
        with Workspace([inside or path.parent]).open_file(str(path)) as file:
            return file.read(most_bytes + 1)
    except (ToolFailed, Unavailable) as exc:
        raise InvalidValue(str(exc)) from exc
    except (OSError, RuntimeError) as exc:  # RuntimeError: links that lead to each other
        raise InvalidValue(f"{path}: cannot be read: {exc}") from exc
