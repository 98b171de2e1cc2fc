"""Find and run helper programs: never one that a model could have written, always ended."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

_SYSTEM_FOLDERS: Final = frozenset(os.defpath.split(os.pathsep))
"""Whoever can write here needs no help from us."""


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
        if folder in _SYSTEM_FOLDERS or not any(map(real.is_relative_to, outside)):
            return Path(found)
    return None


def isolated_python_command(file: str) -> tuple[str, ...]:
    """Return a command line for a file that needs Python alone: no settings, no packages."""
    return (sys.executable, "-I", "-S", file)


@asynccontextmanager
async def helper_process(
    command: Sequence[str], *, folder: Path, files: Sequence[int] = (), reads: bool = False
) -> AsyncGenerator[Process, None]:
    """Run a program in a process group of its own, and end all of that when the block ends.

    It gets the open `files` under their numbers. Raises OSError if it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=PIPE if reads else DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        cwd=folder,
        env={},
        pass_fds=files,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        await asyncio.shield(_end_group(process))


async def _end_group(process: Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    # What is left in the pipes would keep them open.
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            await pipe.read()
    await process.wait()
