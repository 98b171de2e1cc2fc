"""Benchmark: one stored step of a conversation, compared with LangGraph and openai-agents."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.findings import Finding, compare
from bench.harness import Case, Stopwatch, Timing
from bench.log_append import COUNTERS, written
from bench.log_content import STORES, Stage
from bench.log_own import Log, Steno
from bench.log_peers import PEERS

LENGTHS = (100, 1_000, 10_000)
FASTER = 50
GOAL_AT, GOAL_FOR = 10_000, "LangGraph"

Make = Callable[[Path, int], Log]


def run(watch: Stopwatch, folder: Path) -> list[Finding]:
    """Time a step at three lengths, and count the bytes that it writes at the last one."""
    makers: dict[str, tuple[Make, int]] = {
        **{f"steno, {kind}": (partial(Steno, kind), Steno.at_once) for kind in STORES},
        **{name: (peer, peer.at_once) for name, peer in PEERS.items()},
    }
    found: list[Finding] = []
    for length in LENGTHS:
        logs = [
            _Open(name, make, folder=folder / f"{length}", length=length, at_once=at_once)
            for name, (make, at_once) in makers.items()
        ]
        timings = watch.measure(f"log: a step at {length:,}", [log.case for log in logs])
        found += _compare(f"a step at {length:,} messages", length, timings)
        if length == LENGTHS[-1] and COUNTERS.exists():
            weights = [log.weigh() for log in logs]
            found += _compare_bytes(f"written by a step at {length:,} messages", weights)
        for log in logs:
            log.close()
    return found


class _Open:
    """One candidate; it is created again when it has grown too long."""

    def __init__(self, name: str, make: Make, *, folder: Path, length: int, at_once: int) -> None:
        self._name, self._at_once = name, at_once
        self._fill = partial(make, folder / name.replace(" ", "_"), length)
        self._log: Log | None = None
        self._stage = Stage(length, 2 * at_once, self._make)

    @property
    def case(self) -> Case:
        at_once = self._at_once
        return Case(self._name, lambda log: log.step(at_once), at_once, self._stage)

    def _make(self) -> Log:
        self.close()
        self._log = self._fill()
        return self._log

    def weigh(self) -> Timing:
        """Return the number of bytes that a step writes."""
        log = self._make()
        before = written()
        log.store(log.cycle)
        each = (written() - before) / log.cycle
        return Timing(self._name, each, each)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()


def _compare(work: str, length: int, timings: list[Timing]) -> list[Finding]:
    ours, peers = timings[: len(STORES)], timings[len(STORES) :]
    found: list[Finding] = []
    for kind, own in zip(STORES, ours, strict=True):
        for peer in peers:
            is_goal = length == GOAL_AT and peer.name.startswith(GOAL_FOR)
            found += compare(f"{kind}: {work}", own, peer, faster=FASTER if is_goal else None)
    return found


def _compare_bytes(work: str, weights: list[Timing]) -> list[Finding]:
    ours, peers = weights[: len(STORES)], weights[len(STORES) :]
    return [
        found
        for kind, own in zip(STORES, ours, strict=True)
        for found in compare(f"{kind}: {work}", own, *peers, unit="B")
    ]
