"""Benchmark: open a long session until its messages can be sent, in a fresh interpreter.

A session of ten messages is opened first, so that modules are loaded and caches are filled. Memory
is the growth of the process. The file is in the cache of the operating system, for all candidates.

    python -m bench.log_open CANDIDATE FOLDER

opens the session in the folder, and prints the cost.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.findings import Finding, Unit, below, compare
from bench.harness import Stopwatch, Timing
from bench.log_content import SIZE, STORES
from bench.log_own import Log, Steno

SHORT, LONG = 10, 100_000
LIMIT_S = 1.0
TIMES = 3
CANDIDATES = (*STORES, "LangGraph + SqliteSaver", "openai-agents SQLiteSession")


class Cost(NamedTuple):
    """The cost of opening a session."""

    wall_s: float
    cpu_s: float
    memory_bytes: int


UNITS: dict[str, tuple[str, Unit]] = {
    "wall_s": (", on the clock", "s"),
    "cpu_s": ("", "s"),
    "memory_bytes": (", memory", "B"),
}


def run(watch: Stopwatch, folder: Path) -> list[Finding]:
    """Fill a store of each kind, and open it a few times."""
    costs: dict[str, list[Cost]] = {}
    for number, name in enumerate(CANDIDATES):
        watch.progress.show(f"log: open with {name}", number, len(CANDIDATES))
        for length in (SHORT, LONG):
            _make(name, folder / name / f"{length}", length).close()
        costs[name] = [_open_elsewhere(name, folder / name) for _ in range(TIMES)]
    watch.progress.clear()
    return [found for kind in STORES for found in _compare(kind, costs)]


def _make(name: str, folder: Path, length: int = 0) -> Log:
    if name in STORES:
        return Steno(name, folder, length)
    from bench.log_peers import PEERS  # they take seconds to load

    return PEERS[name](folder, length)


def _compare(kind: str, costs: dict[str, list[Cost]]) -> list[Finding]:
    found: list[Finding] = []
    for field, (suffix, unit) in UNITS.items():
        timings = {
            name: Timing(name, min(amounts), median(amounts))
            for name, several in costs.items()
            if (amounts := [float(getattr(cost, field)) for cost in several])
        }
        work = f"{kind}: open {LONG:,} entries of {SIZE} B{suffix}"
        if field == "wall_s":
            found.append(below(work, timings[kind], LIMIT_S))
        peers = [timing for name, timing in timings.items() if name not in STORES]
        found += compare(work, timings[kind], *peers, unit=unit)
    return found


def _open_elsewhere(name: str, folder: Path) -> Cost:
    command = [sys.executable, "-m", "bench.log_open", name, str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Cost(*json.loads(done.stdout))


# -- in the other interpreter ----------------------------------------------------------------


def _measure(name: str, folder: Path) -> Cost:
    log, _ = _open(name, folder, SHORT)
    log.close()
    gc.collect()
    memory, cpu, wall = _resident(), time.process_time(), time.perf_counter()
    log, kept = _open(name, folder, LONG)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    gc.collect()
    cost = Cost(wall, cpu, _resident() - memory)
    assert len(kept) == LONG  # keep all messages alive until memory is measured
    log.close()
    return cost


def _open(name: str, folder: Path, length: int) -> tuple[Log, Sequence[object]]:
    log = _make(name, folder / f"{length}")
    return log, log.read()


def _resident() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGESIZE")


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], Path(sys.argv[2]))))
