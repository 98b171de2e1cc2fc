"""The folders of the project and of the user, and the user's name. This module reads no file."""

from __future__ import annotations

import getpass
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from steno.errors import Missing
from steno.render.terminal_text import terminal_line

SETTINGS_FILE: Final = "config.toml"
UNKNOWN_USER: Final = "unknown user"
"""The actor of a decision if the login name of the user cannot be determined."""
PROJECT_MARKERS: Final = (".git", ".steno")
"""The names that mark the root folder of a project."""
_SHARED_MODE_BITS: Final = stat.S_ISVTX | stat.S_IWOTH


def working_folder() -> Path:
    """Return the working directory. Raises Missing if it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise Missing(
            "the working directory was removed; change to another directory",
            code="folder_missing",
            place="folder",
        ) from None


def settings_files(folder: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the paths of the settings files for work in a folder. The files may not exist."""
    user_folder = config_folder(environ)
    project_file = find_project(folder) / ".steno" / SETTINGS_FILE
    return (project_file,) if user_folder is None else (user_folder / SETTINGS_FILE, project_file)


def find_project(folder: Path) -> Path:
    """Return the root of the project, the nearest parent folder with a `.git` or `.steno`.

    The search starts with `folder` itself, which is also the result if no folder matches. A shared
    folder such as /tmp, which has the sticky bit and is writable for all users, does not match.
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
    """Return the folder of the user's settings; None if the home folder is unknown."""
    path = environ.get("XDG_CONFIG_HOME", "")
    if path.startswith("/"):  # the XDG specification requires that relative paths are ignored
        return Path(path) / "steno"
    home = home_folder(environ)
    return None if home is None else home / ".config" / "steno"


def own_paths(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders of steno for settings, sessions and state; they need not exist."""
    home = home_folder(environ)
    variables = {"XDG_DATA_HOME": ".local/share", "XDG_STATE_HOME": ".local/state"}
    found = [config_folder(environ)]
    for variable, default in variables.items():
        folder = environ.get(variable, "")
        base = Path(folder) if folder.startswith("/") else home and home / default
        found.append(base and base / "steno")
    return tuple([path for path in found if path is not None])


def home_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the home folder of the user; None if it is unknown."""
    if path := environ.get("HOME", ""):
        return Path(path)
    if "HOME" not in environ:  # an empty HOME means no home folder
        with suppress(RuntimeError):
            return Path.home()
    return None


def user_name() -> str | None:
    """Return the login name of the user; None if it cannot be determined."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return None


def display_folder(folder: str | None) -> str:
    """Return a folder for display, with ~ for the home folder and - for None."""
    home = home_folder(os.environ)
    if folder is None:
        return "-"
    if home is not None and Path(folder).is_relative_to(home):
        folder = str("~" / Path(folder).relative_to(home))
    return terminal_line(folder)
