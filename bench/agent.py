"""Work: one turn of an agent, beside the agents of pydantic-ai, LangGraph and openai-agents."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.agent_own import MESSAGES, Appends, Steno, Talk
from bench.agent_peers import PEERS
from bench.findings import Finding, below, beside
from bench.harness import Case, Stopwatch, Timing
from bench.log_content import Stage

LENGTHS = (1_000, 10_000)
ROUNDS, ROUND_S = 5, 0.05
"""Of what waits for a disk, or takes seconds by itself."""
MOST_S = 1e-3
FLAT = 1.5
FASTER = 50

Make = Callable[[Path, int], Talk]
STORED, IN_MEMORY, ENCODED = "stored", "nothing stored", "stored, requests written as JSON"
APPENDS = "steno, its five appends alone"
OURS: dict[str, tuple[Make, int]] = {
    STORED: (Steno, Steno.at_once),
    IN_MEMORY: (partial(Steno, is_stored=False), Steno.at_once),
    ENCODED: (partial(Steno, is_encoded=True), Steno.at_once),
    APPENDS: (Appends, Appends.at_once),
}
THEIRS: dict[str, tuple[Make, int]] = {name: (peer, peer.at_once) for name, peer in PEERS.items()}


def run(watch: Stopwatch) -> list[Finding]:
    """Time a turn of everybody at two lengths."""
    own = watch.settings
    shorter = replace(own, rounds=min(own.rounds, ROUNDS), round_s=min(own.round_s, ROUND_S))
    slow = Stopwatch(shorter, watch.progress)
    # Beside the environment and not in /tmp, which may lie in memory, where syncing costs nothing.
    with TemporaryDirectory(prefix="agent-", dir=sys.prefix) as folder:
        at = {length: _measure(slow, Path(folder) / f"{length}", length) for length in LENGTHS}
    return [*_found(at[LENGTHS[0]], LENGTHS[0]), *_found(at[LENGTHS[1]], LENGTHS[1]), *_growth(at)]


def _measure(watch: Stopwatch, folder: Path, length: int) -> dict[str, Timing]:
    seats = [
        _Seat(name, make, folder / f"{number}", length=length, at_once=at_once)
        for number, (name, (make, at_once)) in enumerate({**OURS, **THEIRS}.items())
    ]
    try:
        timings = watch.measure(f"agent: a turn at {length:,}", [seat.case for seat in seats])
    finally:
        for seat in seats:
            seat.close()
    return {timing.name: timing for timing in timings}


class _Seat:
    """One candidate, filled anew when its conversation has grown too long."""

    def __init__(self, name: str, make: Make, folder: Path, *, length: int, at_once: int) -> None:
        self._fill = partial(make, folder, length)
        self._talk: Talk | None = None
        stage = Stage(length, MESSAGES * at_once, self._make)
        self.case = Case(name, lambda talk: talk.turn(at_once), at_once, stage)

    def _make(self) -> Talk:
        self.close()
        self._talk = self._fill()
        self._talk.turn(1)  # ours reads the conversation and lays it out, once for all turns
        return self._talk

    def close(self) -> None:
        if self._talk is not None:
            self._talk.close()


def _found(timings: dict[str, Timing], length: int) -> list[Finding]:
    work, faster = f"agent: a turn at {length:,} messages", FASTER if length == LENGTHS[1] else None
    peers = [timings[name] for name in THEIRS]
    return [
        below(f"{work}, {IN_MEMORY}", timings[IN_MEMORY], MOST_S),
        below(f"{work}, {STORED}", timings[STORED], MOST_S),
        *beside(f"{work}, {STORED}", timings[STORED], *peers, faster=faster),
        *beside(f"{work}, {STORED}", timings[STORED], timings[APPENDS]),
        Finding(f"{work}, {ENCODED}", timings[ENCODED]),
    ]


def _growth(at: dict[int, dict[str, Timing]]) -> list[Finding]:
    """Compare the two lengths; what is written as JSON grows with what is sent."""
    few, many = LENGTHS
    found: list[Finding] = []
    for name in (IN_MEMORY, STORED, ENCODED):
        shorter = replace(at[few][name], name=f"steno, at {few:,}")
        goal = FLAT if name == STORED else None
        found += beside(f"agent: a turn at {many:,}, {name}", at[many][name], shorter, slower=goal)
    return found
