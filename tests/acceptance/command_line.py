"""The `steno` program as a user runs it: in a process and a home folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


class CommandOutput(NamedTuple):
    """The exit status and the output of a run of the program."""

    status: int
    out: str
    err: str


def run_steno(
    *arguments: str | Path,
    home: Path,
    store: str = "",
    folder: Path | None = None,
    stdin: str | bytes = b"",
    **environment: str,
) -> CommandOutput:
    """Run `steno` with `home` as its home folder, in `folder` or else in `home`.

    `store` is the address of the store; without it the program uses the store of the home folder.
    """
    home.mkdir(parents=True, exist_ok=True)
    variables = {"HOME": str(home)} | ({"STENO_STORE": store} if store else {})
    ran = subprocess.run(
        [sys.executable, "-m", "steno", *map(str, arguments)],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        check=False,
        timeout=60,
        cwd=folder or home,
        env=os.environ | variables | environment,
    )
    return CommandOutput(ran.returncode, ran.stdout.decode(), ran.stderr.decode())
