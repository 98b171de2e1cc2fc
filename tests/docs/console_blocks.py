"""Run the `console` blocks of a page in one shell, and compare or replace the output they show.

A block is fenced with four backticks, because output may contain three. Each command follows `$ `,
continuation lines follow `> `, and the output comes after the command.

`python -m tests.docs.console_blocks PAGE` runs the commands and writes their output to the page.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

_BLOCK: Final = re.compile(r"^````console\n(.*?)^````$", re.MULTILINE | re.DOTALL)
_END: Final = "\x1e"
_SHOWN_HOME: Final = "/home/ada"
VARYING: Final = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<digest>"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?Z?"), "<time>"),
    (re.compile(r"(?<=Ran 1 test in )[\d.]+s"), "<seconds>"),
    (re.compile(r"\b(?:now|\d+ s ago)\b"), "<age>"),
    # The marks below a line of a traceback differ between versions of Python.
    (re.compile(r"^ +[~^]+\n", re.MULTILINE), ""),
    (re.compile(r" {2,}"), "  "),
)
"""Patterns of text that differs between two runs, each with its replacement in a comparison."""


class Command(NamedTuple):
    """A command of a page and its output."""

    text: str
    output: str

    def __str__(self) -> str:
        first, *rest = self.text.split("\n")
        return "\n".join([f"$ {first}", *(f"> {line}".rstrip() for line in rest), self.output])


def read_commands(page: str) -> list[Command]:
    """Return the commands of all console blocks, in order."""
    return [command for block in _BLOCK.findall(page) for command in _split_block(block)]


def _split_block(block: str) -> Iterator[Command]:
    before, *parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
    assert not before, f"a console block begins with a command, not with {before!r}"
    for part in parts:
        lines = part.split("\n")
        count = 1 + next(n for n, line in enumerate(lines[1:]) if not line.startswith(">"))
        command = [lines[0], *(line[2:] for line in lines[1:count])]
        yield Command("\n".join(command), "\n".join(lines[count:]))


def run_commands(commands: list[Command], folder: Path) -> list[Command]:
    """Run commands in one shell with an empty home, and return them with their real output."""
    script = folder / "script"  # a file, because the commands may read stdin
    script.write_text("".join(f"{command.text}\nprintf '{_END}'\n" for command in commands))
    programs = sysconfig.get_path("scripts")
    home = folder / "home"
    home.mkdir()
    run = subprocess.run(
        ["bash", "--norc", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
        cwd=home,
        env={"HOME": str(home), "PATH": f"{programs}:/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )
    assert run.returncode == 0, run.stdout
    outputs = run.stdout.replace(str(home), _SHOWN_HOME).split(_END)[: len(commands)]
    return [
        command._replace(output=output) for command, output in zip(commands, outputs, strict=True)
    ]


def without_varying(text: str) -> str:
    """Return a text in which placeholders replace the parts that differ between two runs."""
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    return text


def replace_outputs(page: str, commands: list[Command]) -> str:
    """Return the page with these commands and their output in its console blocks."""
    remaining = iter(commands)

    def replace(block: re.Match[str]) -> str:
        count = len(list(_split_block(block[1])))
        return "````console\n" + "".join(str(next(remaining)) for _ in range(count)) + "````"

    return _BLOCK.sub(replace, page)


def main(path: Path) -> None:
    """Run the commands of a page and write their output to it."""
    page = path.read_text("utf-8")
    with TemporaryDirectory() as folder:
        commands = run_commands(read_commands(page), Path(folder))
    path.write_text(replace_outputs(page, commands), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
