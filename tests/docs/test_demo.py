"""`make demo` shows what its kept output shows, and leaves nothing behind."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

DEMO: Final = Path(__file__).parents[2] / "examples" / "00_demo.py"
KEPT: Final = DEMO.parent / "output" / "00_demo.txt"
DIFFERS: Final = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<digest>"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"), "<time>"),
    (re.compile(r'"/.*/project/'), '"<folder>/'),
    (re.compile(r"(?<=when) +(?=status)"), " "),
    (re.compile(r"(?:now|\d+ s ago) +(?=resolved)"), "<age> "),
    (re.compile(r"(?<=Ran 1 test in )[\d.]+s"), "<seconds>"),
    (re.compile(r"(?<=That was all, in )\d+ s"), "<seconds>"),
    # Every Python points to the place in its own way.
    (re.compile(r"^ +[~^]+\n", re.MULTILINE), ""),
)
"""What no two runs have in common."""
ANSWER: Final = re.compile(r"(?<=embedded · act mode · no session\n).+?\n(?=\n\[)", re.DOTALL)
"""What the real model says; another processor may round otherwise."""


@pytest.mark.requirement("NFR-004a-40")
def test_the_demo_shows_what_is_kept_beside_it_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """`python examples/00_demo.py > examples/output/00_demo.txt` after a wanted change."""
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
    shown, answers = ANSWER.subn("<answer>\n", without_chance(run.stdout.decode()))
    assert answers == 1
    kept = ANSWER.sub("<answer>\n", without_chance(KEPT.read_text(encoding="utf-8")))
    assert shown == kept
    assert list(tmp_path.iterdir()) == []


def without_chance(text: str) -> str:
    for pattern, name in DIFFERS:
        text = pattern.sub(name, text)
    return text
