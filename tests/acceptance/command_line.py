"""Programs in processes of their own: `steno` as a user runs it, and programs that import it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import steno

PACKAGES = Path(steno.__file__).parents[1]
"""The folder of the imported package, which a new process has to import as well."""


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


def type_errors(program: str, folder: Path) -> list[str]:
    """Return the errors that mypy finds in a program that uses steno, in strict mode."""
    file = folder / "program.py"
    file.write_text(program, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder, file],
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode in {0, 1}, ran.stderr.decode()
    return [line for line in ran.stdout.decode().splitlines() if ": error: " in line]


def run_python(program: str) -> str:
    """Run a program without the settings of the user, and return its output.

    It imports the same `steno` as this process, which need not be the installed one.
    """
    ran = subprocess.run(
        [
            sys.executable,
            "-I",
            "-c",
            f"import sys; sys.path.insert(0, {str(PACKAGES)!r})\n{program}",
        ],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout.decode()
