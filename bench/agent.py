"""Benchmark: a turn of an agent, compared with pydantic-ai, LangGraph and openai-agents.

A run of two turns is timed: in the first the model calls a tool, in the second it answers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.agent_own import MESSAGES, TURNS, Appends, Steno, Talk
from bench.agent_peers import PEERS
from bench.findings import Finding, below, compare
from bench.harness import Case, Stopwatch, Timing
from bench.log_content import Stage

LENGTHS = (1_000, 10_000)
ROUNDS, ROUND_S = 5, 0.05
"""The number and the duration of rounds, for benchmarks that wait for a disk or take seconds."""
MOST_S = 1e-3
FLAT = 1.5
FASTER = 50

Make = Callable[[Path, int], Talk]
STORED, IN_MEMORY = "stored in SQLite", "nothing stored"
ENCODED = "stored, requests written as JSON"
APPENDS = "steno, its five appends alone"
OURS: dict[str, tuple[Make, int]] = {
    STORED: (Steno, Steno.at_once),
    IN_MEMORY: (partial(Steno, is_stored=False), Steno.at_once),
    ENCODED: (partial(Steno, is_encoded=True), Steno.at_once),
    APPENDS: (Appends, Appends.at_once),
}
THEIRS: dict[str, tuple[Make, int]] = {name: (peer, peer.at_once) for name, peer in PEERS.items()}


def run(watch: Stopwatch) -> list[Finding]:
    """Time runs of all candidates at two lengths."""
    own = watch.settings
    shorter = replace(own, rounds=min(own.rounds, ROUNDS), round_s=min(own.round_s, ROUND_S))
    slow = Stopwatch(shorter, watch.progress)
    # Next to the environment, not in /tmp: that may be in memory, where a sync costs nothing.
    with TemporaryDirectory(prefix="agent-", dir=sys.prefix) as folder:
        at = {length: _measure(slow, Path(folder) / f"{length}", length) for length in LENGTHS}
    return [*_found(at[LENGTHS[0]], LENGTHS[0]), *_found(at[LENGTHS[1]], LENGTHS[1]), *_growth(at)]


def _measure(watch: Stopwatch, folder: Path, length: int) -> dict[str, Timing]:
    seats = [
        _Seat(name, make, folder / f"{number}", length=length, at_once=at_once)
        for number, (name, (make, at_once)) in enumerate({**OURS, **THEIRS}.items())
    ]
    try:
        timings = watch.measure(f"agent: runs at {length:,}", [seat.case for seat in seats])
    finally:
        for seat in seats:
            seat.close()
    return {timing.name: timing for timing in timings}


class _Seat:
    """One candidate; its conversation is created again when it has grown too long."""

    def __init__(self, name: str, make: Make, folder: Path, *, length: int, at_once: int) -> None:
        self._fill = partial(make, folder, length)
        self._talk: Talk | None = None
        stage = Stage(length, MESSAGES * at_once, self._make)
        self.case = Case(name, lambda talk: talk.ask(at_once), at_once, stage)

    def _make(self) -> Talk:
        self.close()
        self._talk = self._fill()
        self._talk.ask(1)  # steno reads the conversation and builds its context once for all runs
        return self._talk

    def close(self) -> None:
        if self._talk is not None:
            self._talk.close()


def _found(runs: dict[str, Timing], length: int) -> list[Finding]:
    turn = f"agent: a turn (half of a run with one call) at {length:,} messages"
    run = f"agent: a run of two turns at {length:,} messages"
    faster = FASTER if length == LENGTHS[1] else None
    turns = {name: _per_turn(timing) for name, timing in runs.items()}
    peers = [turns[name] for name in THEIRS]
    return [
        below(f"{turn}, {IN_MEMORY}", turns[IN_MEMORY], MOST_S),
        below(f"{turn}, {STORED}", turns[STORED], MOST_S),
        *compare(f"{turn}, {STORED}", turns[STORED], *peers, faster=faster),
        Finding(f"{turn}, {ENCODED}", turns[ENCODED]),
        *compare(f"{run}, {STORED}", runs[STORED], runs[APPENDS]),
    ]


def _per_turn(run: Timing) -> Timing:
    return Timing(run.name, run.best / TURNS, run.median / TURNS)


def _growth(at: dict[int, dict[str, Timing]]) -> list[Finding]:
    """Compare the two lengths; JSON encoding grows with the size of the request."""
    few, many = LENGTHS
    found: list[Finding] = []
    for name in (IN_MEMORY, STORED, ENCODED):
        shorter = replace(_per_turn(at[few][name]), name=f"steno, at {few:,}")
        longer = _per_turn(at[many][name])
        goal = None if name == ENCODED else FLAT
        found += compare(f"agent: a turn at {many:,}, {name}", longer, shorter, slower=goal)
    return found
