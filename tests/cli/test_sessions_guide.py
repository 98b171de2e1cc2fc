"""The commands in the guide print what stands below them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.cli.program import COMMAND

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "sessions.md"
BLOCK = re.compile(
    r"^```sh\n(?P<commands>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```$)?", re.MULTILINE | re.DOTALL
)
VARIES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ|(now|\d+ s ago)\b|[0-9a-f]{64}|[0-9a-f-]{36}")


def test_the_commands_of_the_guide_print_what_is_shown(tmp_path: Path) -> None:
    environment = os.environ | {"STENO_STORE": "sqlite:work.db"}
    blocks = list(BLOCK.finditer(GUIDE.read_text(encoding="utf-8")))
    assert len(blocks) > 8
    for block in blocks:
        printed = ""
        for line in block["commands"].splitlines():
            printed += run(line, tmp_path, environment)
        if block["output"] is not None:
            assert constant(printed) == constant(block["output"])


def constant(text: str) -> str:
    """Return an output without times and digests, and how much room they take."""
    return re.sub(" {2,}", "  ", VARIES.sub("...", text))


def run(line: str, folder: Path, environment: dict[str, str]) -> str:
    """Run one line of a shell; what programs other than ours would do with it does not matter."""
    words = shlex.split(line.partition(" | ")[0])
    match words[0]:
        case "steno":
            command = [*COMMAND, *words[1:]]
        case "python":
            command = [sys.executable, str(ROOT / words[1]), *words[2:]]
        case _:
            assert words[0] == "export"
            return ""
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, check=True, timeout=60
    )
    return ran.stdout.decode()
