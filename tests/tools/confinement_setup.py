"""Shared by the tests of confinement: run a command in a scope, also as another user."""

from __future__ import annotations

import asyncio
import marshal
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import steno.tools.shell.supervisor as package
from steno.tools.shell.process import CommandExit, CommandLimits, CommandProcess
from steno.tools.shell.sandbox import BubblewrapSandbox, Sandbox, SandboxScope
from steno.tools.shell.supervisor.orders import LENGTH_BYTES
from steno.tools.shell.supervisor.specification import CommandSpecification
from tests.tools.command_setup import PATIENCE_S

OTHER_USER: Final = 65534
PYTHON: Final = str(Path("/usr/bin/python3"))
"""A Python that every user can start."""
LIMITS: Final = CommandLimits(grace_s=0.5)


class Finished(NamedTuple):
    """An ended command."""

    exit: CommandExit
    text: str


def environment(scope: SandboxScope) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(scope.roots[0])}


async def start(
    sandbox: Sandbox,
    scope: SandboxScope,
    command: str,
    *,
    on_output: Callable[[bytes], None] | None = None,
    on_listener: Callable[[socket.socket], None] | None = None,
) -> CommandProcess:
    return await CommandProcess.start(
        ("bash", "-c", command),
        folder=scope.roots[0],
        environ=environment(scope),
        limits=LIMITS,
        confinement=sandbox.confine(scope),
        on_output=on_output,
        on_listener=on_listener,
    )


def run_confined(sandbox: Sandbox, scope: SandboxScope, command: str) -> Finished:
    """Run a command in a scope to its end."""

    async def main() -> Finished:
        process = await start(sandbox, scope, command)
        ended = await process.wait(PATIENCE_S)
        return Finished(ended, process.capture.take().decode(errors="replace"))

    return asyncio.run(main())


def run_as_other_user(sandbox: Sandbox, scope: SandboxScope, command: str) -> str:
    """Run a command as a user without privileges, and return its output.

    Other users than root run it as themselves.
    """
    if os.geteuid() != 0:
        return run_confined(sandbox, scope, command).text
    if isinstance(sandbox, BubblewrapSandbox):
        sandbox = BubblewrapSandbox(sandbox.bwrap)
    for folder in (*scope.roots, scope.scratch):
        for path in (folder, *folder.rglob("*")):
            os.chown(path, OTHER_USER, OTHER_USER, follow_symlinks=False)
    specification: CommandSpecification = {
        "argv": ["bash", "-c", command],
        "confinement": sandbox.confine(scope),
        "grace_s": 0.5,
        "max_processes": 512,
        "max_file_bytes": 1 << 30,
        "max_memory_bytes": None,
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copytree(Path(package.__path__[0]), folder / "supervisor")
        encoded = marshal.dumps(cast("Any", specification))
        program = (
            f"import sys, os; sys.path.append({name!r}); from supervisor.main import main; "
            f"main(os.dup(1), -1)"
        )
        reading, writing = os.pipe()
        with os.fdopen(writing, "wb") as kept:  # the supervisor ends with its standard input
            kept.write(len(encoded).to_bytes(LENGTH_BYTES, "little") + encoded)
            kept.flush()
            done = subprocess.run(
                [PYTHON, "-I", "-S", "-c", program],
                stdin=reading,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                user=OTHER_USER,
                group=OTHER_USER,
                extra_groups=[],
                cwd=scope.roots[0],
                env=environment(scope),
                timeout=PATIENCE_S,
                check=True,
            )
            kept.close()
        os.close(reading)
    return done.stdout.decode(errors="replace")
