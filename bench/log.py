"""Work: the log of a conversation and the stores that keep it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import log_append, log_bulk, log_memory, log_open, log_steps
from bench.findings import Finding
from bench.harness import Stopwatch

ROUNDS, ROUND_S = 5, 0.05
"""Of what waits for a disk, or takes seconds by itself."""


def run(watch: Stopwatch) -> list[Finding]:
    """Measure everything that has to do with the log."""
    own = watch.settings
    shorter = replace(own, rounds=min(own.rounds, ROUNDS), round_s=min(own.round_s, ROUND_S))
    slow = Stopwatch(shorter, watch.progress)
    # Beside the environment and not in /tmp, which may lie in memory, where syncing costs nothing.
    with TemporaryDirectory(prefix="log-", dir=sys.prefix) as name:
        folder = Path(name)
        return [
            *log_memory.run(watch),
            *log_append.run(slow, folder),
            *log_steps.run(slow, folder / "steps"),
            *log_open.run(slow, folder / "open"),
            *log_bulk.run(slow, folder / "bulk"),
        ]
