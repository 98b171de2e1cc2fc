"""Measure CPU time: all candidates of a work in the same run, in alternating rounds.

What a machine does besides falls on all candidates alike, so ratios hold where times do not. The
cyclic garbage collector is off while the clock runs, for everybody, and runs between rounds.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from statistics import median
from typing import Any

Clock = Callable[[], float]


@dataclass(frozen=True)
class Case:
    """One candidate: what runs while the clock does, and how many units of work that is."""

    name: str
    run: Callable[..., object]
    units: int = 1
    prepare: Callable[[], Any] | None = None
    """Makes the argument of `run`, anew for each call, while the clock stands."""


@dataclass(frozen=True)
class Timing:
    """Seconds (or bytes) for one unit of work."""

    name: str
    best: float
    median: float

    def minus(self, other: Timing) -> Timing:
        """Return what is left without the cost of `other`."""
        return Timing(self.name, self.best - other.best, self.median - other.median)

    def times_faster_than(self, other: Timing) -> float:
        """Tell how often this fits into `other`: by minima or medians, whichever is less."""
        return min(other.best / self.best, other.median / self.median)


@dataclass(frozen=True)
class Settings:
    """How long to measure."""

    rounds: int = 11
    round_s: float = 0.1
    """A candidate is repeated until one round of it takes about this long."""

    @classmethod
    def quick(cls) -> Settings:
        """Return settings for a first look."""
        return cls(rounds=7, round_s=0.02)


@dataclass
class Progress:
    """Says on stderr what is being measured: one line that moves, or one for each work."""

    moves: bool = field(default_factory=sys.stderr.isatty)

    def show(self, label: str, done: int, total: int) -> None:
        """Show that `done` rounds of `total` are over."""
        if self.moves:
            bar = "#" * (20 * done // total)
            print(f"\r\x1b[K[{bar:<20}] {label}", end="", file=sys.stderr, flush=True)
        elif done == 0:
            print(f"measuring: {label}", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Leave an empty line."""
        if self.moves:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@dataclass
class Stopwatch:
    """Measures cases against each other."""

    settings: Settings = field(default_factory=Settings)
    progress: Progress = field(default_factory=Progress)

    def measure(
        self, label: str, cases: Sequence[Case], *, clock: Clock = time.process_time
    ) -> list[Timing]:
        """Time every case in every round, each round starting with another one."""
        rounds = self.settings.rounds
        self.progress.show(label, 0, rounds)
        calls = [self._calibrate(case, clock) for case in cases]
        samples: list[list[float]] = [[] for _ in cases]
        for number in range(rounds):
            for offset in range(len(cases)):
                position = (number + offset) % len(cases)
                case = cases[position]
                spent = _time_case(case, calls[position], clock)
                samples[position].append(spent / calls[position] / case.units)
            self.progress.show(label, number + 1, rounds)
        self.progress.clear()
        return [
            Timing(case.name, min(times), median(times))
            for case, times in zip(cases, samples, strict=True)
        ]

    def _calibrate(self, case: Case, clock: Clock) -> int:
        """Warm the case up and return how many calls make a round."""
        calls = 1
        while True:
            spent = _time_case(case, calls, clock)
            if spent >= self.settings.round_s / 2:
                return max(1, round(calls * self.settings.round_s / spent))
            calls *= 2


def _time_case(case: Case, calls: int, clock: Clock) -> float:
    gc.collect()  # nobody pays for the garbage of the one before; then it runs as it always does
    if case.prepare is None:
        return _time_loop(case.run, calls, clock)
    return sum(_time_call(case.run, case.prepare(), clock) for _ in repeat(None, calls))


def _time_loop(run: Callable[[], object], calls: int, clock: Clock) -> float:
    start = clock()
    for _ in repeat(None, calls):
        run()
    return clock() - start


def _time_call(run: Callable[[Any], object], argument: Any, clock: Clock) -> float:
    start = clock()
    run(argument)
    return clock() - start
