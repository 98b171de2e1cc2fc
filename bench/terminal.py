"""Benchmark: the full-screen terminal, compared with the widgets of Textual.

Each candidate runs at a pseudo-terminal (`terminal_pty`), in its own interpreter.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TypeAlias

from bench.findings import Finding, below, compare, fact
from bench.harness import Case, Stopwatch, Timing
from bench.log_content import SESSION, address, open_filled
from bench.terminal_pty import cpu_until, run_through

TIMES = 3
RESUMED = (10, 10_000)
PAINT_S = 0.3
SHARE = 0.5
FLAT = 1.2
Costs: TypeAlias = dict[str, float]
STENO = ("-m", "steno", "--model", "offline/assistant")
BARE = """
from textual.app import App
from textual.widgets import Static, TextArea

class Bare(App):
    def compose(self):
        yield TextArea()
        yield Static("starting")

Bare().run()
"""
OURS, THEIRS = "steno", "Textual's widgets"
PLANS = {
    (OURS, 10): "open stream",
    (OURS, 100): "open",
    (OURS, 1_000): "open scroll",
    (OURS, 10_000): "open stream scroll",
    (THEIRS, 10): "open stream",
    (THEIRS, 1_000): "open scroll",
}
"""The plan for a session of each length. A plan takes seconds, so each length has its own."""


class _Meter:
    """A clock that adds up the CPU time of other programs."""

    def __init__(self) -> None:
        self.spent = 0.0

    def read(self) -> float:
        return self.spent

    def case(self, name: str, shown: str, command: Sequence[str], home: Path) -> Case:
        """Return the case of a program that starts and shows a text."""

        def run() -> None:
            self.spent += cpu_until(shown.encode(), command, home)

        return Case(name, run)


def run(watch: Stopwatch) -> list[Finding]:
    """Start, open, stream and scroll."""
    with TemporaryDirectory(prefix="terminal-") as folder:
        return [*_starting(watch, Path(folder)), *_working(watch, Path(folder))]


def _starting(watch: Stopwatch, folder: Path) -> list[Finding]:
    meter = _Meter()
    paint, bare, ready, short, long = watch.measure(
        "terminal: start",
        [
            meter.case("steno", "starting", STENO, folder),
            meter.case("Textual, bare", "starting", ("-c", BARE), folder),
            meter.case("steno, an empty session", "idle", STENO, folder),
            *(
                meter.case(f"steno, {length:,} entries", "idle", _resumed(folder, length), folder)
                for length in RESUMED
            ),
        ],
        clock=meter.read,
    )
    work = "terminal: first paint of an empty session, interpreter included"
    waits = "until it waits for a prompt"
    return [
        below(work, paint, PAINT_S),
        *compare(work, paint, bare),
        Finding(f"terminal: an empty session, {waits}", ready),
        *compare(f"terminal: {RESUMED[1]:,} entries from SQLite, {waits}", long, ready, short),
    ]


def _resumed(folder: Path, length: int) -> Sequence[str]:
    """Create a session of the given length, and return the arguments that resume it."""
    own = folder / f"{length}"
    open_filled("sqlite", own, length).close()
    return (*STENO, "--store", address("sqlite", own), "--resume", SESSION)


def _working(watch: Stopwatch, folder: Path) -> list[Finding]:
    costs: dict[tuple[str, int], list[Costs]] = {case: [] for case in PLANS}
    for number in range(TIMES):
        watch.progress.show("terminal: open, stream, scroll", number, TIMES)
        for name, length in PLANS:
            costs[name, length].append(_play(name, length, folder))
    watch.progress.clear()

    def timing(name: str, length: int, kind: str) -> Timing:
        amounts = [one[kind] for one in costs[name, length]]
        return Timing(f"{name}, {length:,} entries", min(amounts), median(amounts))

    opened = [timing(OURS, length, "open") for length in (100, 1_000, 10_000)]
    short, long = (timing(OURS, length, "event") for length in (10, 10_000))
    share = max(one["share"] for one in costs[OURS, 10_000])
    per_second = "an event of an answer, at 500 a second"
    return [
        *compare(
            "terminal: show 1,000 entries, until painted", opened[1], timing(THEIRS, 1_000, "open")
        ),
        *compare("terminal: show 10,000 entries, until painted", opened[2], *opened[:2]),
        *compare(f"terminal: {per_second}, 10 entries above", short, timing(THEIRS, 10, "event")),
        *compare(f"terminal: {per_second}, 10,000 entries above", long, short),
        *compare(
            "terminal: a drawing of that answer, 10,000 entries above",
            timing(OURS, 10_000, "drawing"),
            timing(OURS, 10, "drawing"),
            slower=FLAT,
        ),
        fact(
            "terminal: 500 events a second, 10,000 entries above",
            f"{share:.0%} of a core",
            goal=f"< {SHARE:.0%}",
            met=share < SHARE,
        ),
        *compare(
            "terminal: a page up, 10,000 entries",
            timing(OURS, 10_000, "page"),
            timing(OURS, 1_000, "page"),
            timing(THEIRS, 1_000, "page"),
        ),
    ]


def _play(name: str, length: int, folder: Path) -> Costs:
    file = folder / "costs.json"
    plan = PLANS[name, length]
    run_through(("-m", "bench.terminal_play", name, f"{length}", plan, str(file)), folder)
    costs: Costs = json.loads(file.read_text(encoding="utf-8"))
    return costs
