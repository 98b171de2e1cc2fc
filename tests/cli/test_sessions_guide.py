"""The commands in the guide print what stands below them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.cli.guide_commands import BLOCK, ROOT, run_guide_line

GUIDE = ROOT / "docs" / "guides" / "sessions.md"
VARIES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ|(now|\d+ s ago)\b|[0-9a-f]{64}|[0-9a-f-]{36}")


def test_the_commands_of_the_guide_print_what_is_shown(tmp_path: Path) -> None:
    environment = os.environ | {"STENO_STORE": "sqlite:work.db"}
    blocks = list(BLOCK.finditer(GUIDE.read_text(encoding="utf-8")))
    assert len(blocks) > 8
    for block in blocks:
        printed = ""
        for line in block["commands"].splitlines():
            printed += run_guide_line(line, tmp_path, environment)
        if block["output"] is not None:
            assert constant(printed) == constant(block["output"])


def constant(text: str) -> str:
    """Return an output without times and digests, and how much room they take."""
    return re.sub(" {2,}", "  ", VARIES.sub("...", text))
