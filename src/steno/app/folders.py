"""Where a project begins, and where the user keeps settings. Nothing is read here."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from steno.errors import Missing
from steno.render.terminal_text import terminal_line

SETTINGS_FILE: Final = "config.toml"


PROJECT_MARKERS: Final = (".git", ".steno")
"""What a folder has in it that is the root of a project."""


_SHARED_MODE_BITS: Final = stat.S_ISVTX | stat.S_IWOTH


def working_folder() -> Path:
    """Return the folder that a command was started in. Raises Missing if somebody removed it."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise Missing("folder: the working folder is not there any more; go to another") from None


def settings_files(folder: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return where settings for work in a folder may be, whether or not there are any."""
    own = config_folder(environ)
    of_project = find_project(folder) / ".steno" / SETTINGS_FILE
    return (of_project,) if own is None else (own / SETTINGS_FILE, of_project)


def find_project(folder: Path) -> Path:
    """Return the root of the project that a folder is in: the nearest with `.git` or `.steno`.

    That is the folder itself if there is none. Where everybody may put things, such as in /tmp,
    is nobody's project.
    """
    folder = folder.resolve()
    for candidate in (folder, *folder.parents):
        if any(os.path.lexists(candidate / name) for name in PROJECT_MARKERS) and not _is_shared(
            candidate
        ):
            return candidate
    return folder


def _is_shared(folder: Path) -> bool:
    return folder.stat().st_mode & _SHARED_MODE_BITS == _SHARED_MODE_BITS


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


# -- listing ---------------------------------------------------------------------------------------
#
# `steno sessions list` and `steno sessions search`: which conversations there are.


def display_folder(folder: str | None) -> str:
    """Return a folder as one would write it: below the home folder with ~."""
    home = home_folder(os.environ)
    if folder is None:
        return "-"
    if home is not None and Path(folder).is_relative_to(home):
        folder = str("~" / Path(folder).relative_to(home))
    return terminal_line(folder)
