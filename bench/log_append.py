"""Benchmark: append to a store durably; the cost as a session grows, and the bytes written.

The kernel counts the bytes passed to write calls (`wchar` in /proc/self/io). Growth is the size of
all files of the store when it is closed, compared with the closed empty store.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from bench.findings import Finding, compare
from bench.harness import Case, Clock, Stopwatch, Timing
from bench.log_content import SESSION, STORES, Stage, address, messages, open_filled
from steno.codec import encode_entry
from steno.log.conversation import Conversation
from steno.store import Store, open_store

LENGTHS = (10, 1_000, 10_000, 100_000)
ADDED = 10
FLAT = 1.5
SIZES = (500, 2_000, 8_000)
WRITTEN = 1.5
COUNT = 2_000
COUNTERS = Path("/proc/self/io")
"""The counters of Linux; other systems have none, and the bytes written are not reported."""


def run(watch: Stopwatch, folder: Path) -> list[Finding]:
    """Time appends at four lengths of a session, and count the bytes that they write."""
    return [
        *(found for kind in STORES for found in _append(watch, kind, folder / "append" / kind)),
        *(found for kind in STORES for found in _weigh(watch, kind, folder / "weigh" / kind)),
    ]


class _Session:
    """A session of a given length; creating it again closes its previous store."""

    def __init__(self, kind: str, folder: Path, length: int) -> None:
        self._kind, self._folder, self._length = kind, folder, length
        self._said = messages()
        self._store: Store | None = None

    def make(self) -> Conversation:
        self.close()
        self._store = open_filled(self._kind, self._folder, self._length)
        conversation = self._store.open(SESSION)
        for message in islice(self._said, 2):  # warm-up: opens files and prepares statements
            conversation.append(message)
        return conversation

    def append(self, conversation: Conversation) -> None:
        for message in islice(self._said, ADDED):
            conversation.append(message)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


def _append(watch: Stopwatch, kind: str, folder: Path) -> list[Finding]:
    sessions = [_Session(kind, folder / f"{length}", length) for length in LENGTHS]
    cases = [
        Case(f"steno, at {length:,}", session.append, ADDED, Stage(length, ADDED, session.make))
        for length, session in zip(LENGTHS, sessions, strict=True)
    ]
    found: list[Finding] = []
    clocks: dict[str, Clock] = {"": time.process_time, ", on the clock": time.perf_counter}
    for name, clock in clocks.items():
        first, *later = watch.measure(f"log: append to {kind}{name}", cases, clock=clock)
        found.append(Finding(f"{kind}: durable append at {LENGTHS[0]}{name}", first))
        for length, timing in zip(LENGTHS[1:], later, strict=True):
            work = f"{kind}: durable append at {length:,}{name}"
            found += compare(work, timing, first, slower=None if name else FLAT)
    for session in sessions:
        session.close()
    return found


# -- bytes -----------------------------------------------------------------------------------


def written() -> int:
    """Return the number of bytes that this process has passed to write calls."""
    counts = dict(line.split(": ") for line in COUNTERS.read_text().splitlines())
    return int(counts["wchar"])


def _weigh(watch: Stopwatch, kind: str, folder: Path) -> Iterator[Finding]:
    watch.progress.show(f"log: bytes written by {kind}", 0, 1)
    for size in SIZES:
        place = folder / f"{size}"
        place.mkdir(parents=True)
        said = list(islice(messages(size), COUNT))
        with open_store(address(kind, place)) as store:
            store.new(id=SESSION)
        empty = _size_of(place)
        with open_store(address(kind, place)) as store:
            conversation = store.open(SESSION)
            before = written() if COUNTERS.exists() else 0
            for message in said:
                conversation.append(message)
            after = written() if COUNTERS.exists() else 0
            entry = sum(len(encode_entry(entry)) for entry in conversation.entries()) / COUNT
        grown = (_size_of(place) - empty) / COUNT
        yield _against_entry(f"{kind}: growth for an entry of {size:,} B", grown, entry)
        if after:
            each = (after - before) / COUNT
            yield _against_entry(f"{kind}: written for an entry of {size:,} B", each, entry)
    watch.progress.clear()


def _size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _against_entry(work: str, amount: float, entry: float) -> Finding:
    ours, encoded = Timing("steno", amount, amount), Timing("the encoded entry", entry, entry)
    met = amount <= WRITTEN * entry
    return Finding(work, ours, "B", encoded, f"≤ {WRITTEN:g}x larger", met)
