"""Programs of ours that help a tool: started with nothing from our environment, always ended."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path


@asynccontextmanager
async def child(
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
        await asyncio.shield(_end(process))


async def _end(process: Process) -> None:
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
