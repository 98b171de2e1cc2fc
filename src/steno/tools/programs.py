"""Find and run helper programs that are outside of the folders that a model can write to."""

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
"""Folders that only the administrator can write to."""


def find_program(
    name: str, *, outside: Collection[Path] = (), path: str | None = None
) -> Path | None:
    """Return the path of a program on the PATH; None if the program is not found.

    Programs in the folders `outside` are skipped; pass the real paths of folders that a model can
    write to, since the model could create programs there. For the same reason, relative folders on
    the PATH are skipped. Programs in system folders are never skipped.
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
    """Return a command line that runs a file with Python, without user settings or packages."""
    return (sys.executable, "-I", "-S", file)


@asynccontextmanager
async def helper_process(
    command: Sequence[str], *, folder: Path, files: Sequence[int] = (), has_stdin: bool = False
) -> AsyncGenerator[Process, None]:
    """Run a program in its own process group; if it still runs after the block, kill the group.

    The program has an empty environment, and inherits the open file descriptors `files` under the
    same numbers. Raises OSError if the program cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=PIPE if has_stdin else DEVNULL,
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
    # Unread output would keep the pipes open.
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            await pipe.read()
    await process.wait()
