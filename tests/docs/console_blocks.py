"""Run the `console` blocks of a page in one shell, and compare or replace the output they show.

A block has four backticks, since output may hold three. It holds commands after `$ ` (continued
after `> `), each followed by its output. Run as a program, `python -m tests.docs.console_blocks PAGE`, it writes the output of today to the page.
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
    # Every Python points to the place of an error in its own way.
    (re.compile(r"^ +[~^]+\n", re.MULTILINE), ""),
    (re.compile(r" {2,}"), "  "),
)
"""What differs between two runs, and what takes its place in a comparison."""


class Command(NamedTuple):
    """A command of a page and the output below it."""

    text: str
    output: str

    def __str__(self) -> str:
        first, *rest = self.text.split("\n")
        return "\n".join([f"$ {first}", *(f"> {line}".rstrip() for line in rest), self.output])


def read_commands(page: str) -> list[Command]:
    """Return the commands of all console blocks, in order."""
    return [command for block in _BLOCK.findall(page) for command in _split_block(block)]


def _split_block(block: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = part.split("\n")
        count = 1 + next(n for n, line in enumerate(lines[1:]) if not line.startswith(">"))
        command = [lines[0], *(line[2:] for line in lines[1:count])]
        yield Command("\n".join(command), "\n".join(lines[count:]))


def run_commands(commands: list[Command], folder: Path) -> list[Command]:
    """Run commands in one shell with an empty home, and return them with their real output."""
    script = folder / "script"  # a file: stdin belongs to the commands
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
    outputs = run.stdout.replace(str(home), _SHOWN_HOME).split(_END)[: len(commands)]
    return [
        command._replace(output=output) for command, output in zip(commands, outputs, strict=True)
    ]


def without_varying(text: str) -> str:
    """Return a text with fixed names for what differs between two runs."""
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    return text


def replace_outputs(page: str, commands: list[Command]) -> str:
    """Return a page whose console blocks show these commands with their output."""
    remaining = iter(commands)

    def replace(block: re.Match[str]) -> str:
        count = len(list(_split_block(block[1])))
        return "````console\n" + "".join(str(next(remaining)) for _ in range(count)) + "````"

    return _BLOCK.sub(replace, page)


def main(path: Path) -> None:
    page = path.read_text("utf-8")
    with TemporaryDirectory() as folder:
        commands = run_commands(read_commands(page), Path(folder))
    path.write_text(replace_outputs(page, commands), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
