"""`make demo` prints the recorded output and leaves no files."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

DEMO: Final = Path(__file__).parents[2] / "examples" / "00_demo.py"
RECORDED: Final = DEMO.parent / "output" / "00_demo.txt"
VARYING: Final = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<digest>"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"), "<time>"),
    (re.compile(r'"/.*/project/'), '"<folder>/'),
    (re.compile(r"(?<=when) +(?=status)"), " "),
    (re.compile(r"(?:now|\d+ s ago) +(?=resolved)"), "<age> "),
    (re.compile(r"(?<=Ran 1 test in )[\d.]+s"), "<seconds>"),
    (re.compile(r"(?<=Finished in )\d+ s"), "<seconds>"),
    # The marks below a line of a traceback differ between versions of Python.
    (re.compile(r"^ +[~^]+\n", re.MULTILINE), ""),
)
"""Patterns of text that differs between two runs, each with its replacement in a comparison."""
RESPONSE: Final = re.compile(r"(?<=embedded · act mode · no session\n).+?\n(?=\n\[)", re.DOTALL)
"""The response of the real model, which may differ between processors (rounding)."""


@pytest.mark.requirement("NFR-004a-40")
def test_the_demo_prints_the_recorded_output_and_leaves_no_files(tmp_path: Path) -> None:
    """After an intended change: `python examples/00_demo.py > examples/output/00_demo.txt`."""
    run = subprocess.run(
        [sys.executable, DEMO],
        capture_output=True,
        timeout=170,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
    )
    assert run.returncode == 0, run.stdout.decode()
    assert run.stderr == b""
    shown, responses = RESPONSE.subn("<response>\n", without_varying(run.stdout.decode()))
    assert responses == 1
    recorded = RESPONSE.sub("<response>\n", without_varying(RECORDED.read_text(encoding="utf-8")))
    assert shown == recorded
    assert list(tmp_path.iterdir()) == []


def test_the_demo_exits_with_status_1_and_a_reason_if_a_command_fails(tmp_path: Path) -> None:
    demo = tmp_path / "demo.py"
    demo.write_text(DEMO.read_text("utf-8").replace('"cat stats.py"', '"exit 3"'), "utf-8")
    run = subprocess.run([sys.executable, demo], capture_output=True, timeout=60, check=False)
    assert run.returncode == 1
    message = b"demo: step 1 of 12 failed: the command has exit status 3, expected 0\n"
    assert run.stderr == message


def without_varying(text: str) -> str:
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    return text
