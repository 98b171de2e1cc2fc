"""Benchmarks of the log of a conversation and its stores."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import log_append, log_bulk, log_memory, log_open, log_steps
from bench.findings import Finding
from bench.harness import Stopwatch

ROUNDS, ROUND_S = 5, 0.05
"""The number and the duration of rounds, for benchmarks that wait for a disk or take seconds."""


def run(watch: Stopwatch) -> list[Finding]:
    """Run all benchmarks of the log."""
    own = watch.settings
    shorter = replace(own, rounds=min(own.rounds, ROUNDS), round_s=min(own.round_s, ROUND_S))
    slow = Stopwatch(shorter, watch.progress)
    # Next to the environment, not in /tmp: that may be in memory, where a sync costs nothing.
    with TemporaryDirectory(prefix="log-", dir=sys.prefix) as name:
        folder = Path(name)
        return [
            *log_memory.run(watch),
            *log_append.run(slow, folder),
            *log_steps.run(slow, folder / "steps"),
            *log_open.run(slow, folder / "open"),
            *log_bulk.run(slow, folder / "bulk"),
        ]
