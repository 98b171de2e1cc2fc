"""How programs are found and run that we need ourselves: never by what a model could have put there."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

_OF_THE_SYSTEM: Final = frozenset(os.defpath.split(os.pathsep))
"""Whoever can write here needs no help from us."""


def run_alone(file: str) -> tuple[str, ...]:
    """Return a command line for a file that needs Python alone: no settings, no packages."""
    return (sys.executable, "-I", "-S", file)


def find_program(
    name: str, *, outside: Collection[Path] = (), path: str | None = None
) -> Path | None:
    """Return where a program is: on the PATH, but not in the real folders `outside`.

    A project may bring programs of any name, and a model that may write there can make them. So
    folders of the PATH that depend on where we are do not count either.
    """
    path = os.environ.get("PATH", os.defpath) if path is None else path
    for folder in path.split(os.pathsep):
        found = shutil.which(name, path=folder) if Path(folder).is_absolute() else None
        if found is None:
            continue
        real = Path(found).resolve()
        if folder in _OF_THE_SYSTEM or not any(map(real.is_relative_to, outside)):
            return Path(found)
    return None
