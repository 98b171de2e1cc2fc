"""The commands in a guide, as tests run them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.cli.program import COMMAND

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"^```sh\n(?P<commands>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```$)?", re.MULTILINE | re.DOTALL
)


def run_guide_line(line: str, folder: Path, environment: dict[str, str]) -> str:
    """Run one line of a shell; what programs other than ours would do with it does not matter."""
    arguments = shlex.split(line.partition(" | ")[0])
    match arguments[0]:
        case "steno":
            command = [*COMMAND, *arguments[1:]]
        case "python":
            command = [sys.executable, str(ROOT / arguments[1]), *arguments[2:]]
        case _:
            assert arguments[0] == "export"
            return ""
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, check=True, timeout=60
    )
    return ran.stdout.decode()
