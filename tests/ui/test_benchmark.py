"""The benchmark of the full screen runs with the current program."""

from __future__ import annotations

import json
from pathlib import Path

from bench.terminal_pty import run_through


def test_the_session_double_of_the_benchmark_has_what_the_full_screen_uses(tmp_path: Path) -> None:
    costs = tmp_path / "costs.json"
    run_through(("-m", "bench.terminal_play", "steno", "10", "open", str(costs)), tmp_path)
    assert json.loads(costs.read_text(encoding="utf-8"))["open"] > 0
