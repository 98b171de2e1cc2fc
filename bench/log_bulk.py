"""Benchmark: operations on a whole store. Verify, search, and convert to another kind of store."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count, islice
from pathlib import Path

from bench.findings import Finding, show_timing
from bench.harness import Case, Stopwatch, Timing
from bench.log_content import (
    SESSION,
    STORES,
    address,
    make_folder,
    messages,
    open_filled,
)
from steno import ChatMessage, Message
from steno.ids import utc_now
from steno.records.stored_record import Header
from steno.store import MemoryStore, Store, convert_store, open_store

LONG = 100_000
SESSIONS, EACH = 100, 1_000
CONVERTED = 10_000
RARE, COMMON = "kestrel", "parser colon"
FOUND = 20
ROUNDS = 2


def run(watch: Stopwatch, folder: Path) -> list[Finding]:
    """Measure the entries per second of CPU time of each operation."""
    short = Stopwatch(replace(watch.settings, rounds=ROUNDS), watch.progress)
    return [
        *_verify(short, folder / "verify"),
        *_search(short, folder / "search"),
        *_convert(short, folder / "convert"),
    ]


def _rate(work: str, timing: Timing) -> Finding:
    return Finding(work, f"{1 / timing.median:,.0f}/s, {show_timing(timing, 's')} each")


# -- verify ----------------------------------------------------------------------------------


def _verify(watch: Stopwatch, folder: Path) -> list[Finding]:
    stores = {kind: open_filled(kind, folder / kind, LONG) for kind in STORES}
    cases = [Case(kind, partial(_verify_one, store), LONG) for kind, store in stores.items()]
    timings = watch.measure(f"log: verify {LONG:,} entries", cases)
    for store in stores.values():
        store.close()
    return [_rate(f"{timing.name}: verify {LONG:,} entries", timing) for timing in timings]


def _verify_one(store: Store) -> None:
    verification = store.verify(SESSION)
    assert verification.is_intact
    assert verification.entries == LONG


# -- search ----------------------------------------------------------------------------------


def _search(watch: Stopwatch, folder: Path) -> list[Finding]:
    """Search for a word that one entry contains, and for two words that many entries contain.

    A store may update its index at the first search and not when an entry is appended, so the first
    search is reported separately.
    """
    first: dict[str, Finding] = {}
    stores: dict[str, Store] = {}
    work = f"search in {SESSIONS} sessions of {EACH:,}"
    for kind in STORES:
        stores[kind] = _open_many(kind, folder / kind)
        spent = _cpu_of(partial(_find, stores[kind], RARE, 1)) / (SESSIONS * EACH)
        first[kind] = _rate(f"{kind}: first {work}", Timing(kind, spent, spent))
    cases = [
        Case(f"{kind}: later {work}, {words}", partial(_find, store, text, hits))
        for kind, store in stores.items()
        for words, text, hits in (("1 hit", RARE, 1), (f"{FOUND} of many", COMMON, FOUND))
    ]
    timings = watch.measure(f"log: {work}", cases)
    for store in stores.values():
        store.close()
    later = [
        Finding(timing.name, timing) for timing in timings
    ]  # per search: an index does not read all entries
    each = len(later) // len(STORES)
    return [
        found
        for number, kind in enumerate(STORES)
        for found in (first[kind], *later[number * each : (number + 1) * each])
    ]


def _open_many(kind: str, folder: Path) -> Store:
    make_folder(folder, fresh=True)
    store = open_store(address(kind, folder))
    said = messages()
    for number in range(SESSIONS):
        content: list[Message] = list(islice(said, EACH))
        if number == SESSIONS // 2:
            content[EACH // 2] = ChatMessage.user(f"Where does the {RARE} nest?")
        source = MemoryStore()
        source.new(content, id=SESSION)
        header = Header(id=f"session-{number}", created_at=utc_now())
        store.add_session(header, source.records(SESSION))
    return store


def _find(store: Store, text: str, hits: int) -> None:
    assert len(store.search(text, limit=FOUND)) == hits


def _cpu_of(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


# -- convert ---------------------------------------------------------------------------------


def _convert(watch: Stopwatch, folder: Path) -> list[Finding]:
    sources = {kind: open_filled(kind, folder / kind, CONVERTED) for kind in STORES}
    numbers = count()

    def make_target(kind: str) -> Store:
        place = folder / f"{next(numbers)}"
        make_folder(place, fresh=True)
        return open_store(address(kind, place))

    def convert(source: Store, target: Store) -> None:
        assert convert_store(source, target) == 1
        target.close()

    cases = [
        Case(
            f"convert {CONVERTED:,} entries, {source} to {target}",
            partial(convert, sources[source]),
            CONVERTED,
            partial(make_target, target),
        )
        for source in STORES
        for target in STORES
        if source != target
    ]
    timings = watch.measure(f"log: convert {CONVERTED:,} entries", cases)
    for store in sources.values():
        store.close()
    return [_rate(timing.name, timing) for timing in timings]
