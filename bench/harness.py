"""Measure CPU time: all candidates of a benchmark in the same run, in alternating rounds.

Other load on the machine affects all candidates alike, so ratios are more reliable than times. The
cyclic garbage collector stays on, and runs before each round.
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
    """One candidate: the function that is timed, and the number of units of work of one call."""

    name: str
    run: Callable[..., object]
    units: int = 1
    prepare: Callable[[], Any] | None = None
    """Creates the argument of `run` for each call; this is not timed."""


@dataclass(frozen=True)
class Timing:
    """Seconds (or bytes) for one unit of work."""

    name: str
    best: float
    median: float

    def minus(self, other: Timing) -> Timing:
        """Return the cost without the cost of `other`."""
        return Timing(self.name, self.best - other.best, self.median - other.median)

    def times_faster_than(self, other: Timing) -> float:
        """Return `other` divided by this cost, by minima or medians, whichever is less."""
        return min(other.best / self.best, other.median / self.median)


@dataclass(frozen=True)
class Settings:
    """The number and the duration of rounds."""

    rounds: int = 11
    round_s: float = 0.1
    """The approximate duration of a round; a candidate is repeated within it."""

    @classmethod
    def quick(cls) -> Settings:
        """Return settings with few, short rounds."""
        return cls(rounds=7, round_s=0.02)


@dataclass
class Progress:
    """Shows on stderr what is being measured: a progress bar, or one line for each benchmark."""

    moves: bool = field(default_factory=sys.stderr.isatty)

    def show(self, label: str, done: int, total: int) -> None:
        """Show the progress: `done` rounds of `total`."""
        if self.moves:
            bar = "#" * (20 * done // total)
            print(f"\r\x1b[K[{bar:<20}] {label}", end="", file=sys.stderr, flush=True)
        elif done == 0:
            print(f"measuring: {label}", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the progress bar."""
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
        """Time every case in every round; each round starts with another case."""
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
        """Warm up a case, and return the number of calls per round."""
        calls = 1
        while True:
            spent = _time_case(case, calls, clock)
            if spent >= self.settings.round_s / 2:
                return max(1, round(calls * self.settings.round_s / spent))
            calls *= 2


def _time_case(case: Case, calls: int, clock: Clock) -> float:
    gc.collect()  # so that no case pays for the garbage of the one before
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
