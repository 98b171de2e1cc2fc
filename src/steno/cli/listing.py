"""`steno sessions list` and `steno sessions search`: which conversations there are."""

from __future__ import annotations

import argparse
from contextlib import suppress
from typing import Final

import msgspec

from steno.cli import moments
from steno.cli.paper import Column, Paper, note, print_object
from steno.cli.place import (
    Troubles,
    changed_at,
    existing_store,
    headers_of,
    shortest,
    summaries_of,
)
from steno.cli.printable import counted, on_one_line
from steno.cli.progress import progress
from steno.cli.words import type_of
from steno.errors import Damaged
from steno.identity import utc_now
from steno.record import Header
from steno.store import Hit, Store, Summary
from steno.store.words import snippet, words_of
from steno.views import text_of

_SESSIONS: Final = (
    Column("session", "cyan"),
    Column("title", may_shrink=True),
    Column("entries", is_number=True),
    Column("branches", is_number=True),
    Column("changed", "dim"),
)
_HITS: Final = (
    Column("session", "cyan"),
    Column("entry", "cyan", is_number=True),
    Column("who"),
    Column("when", "dim"),
    Column("text", may_shrink=True),
)


def list_sessions(options: argparse.Namespace) -> int:
    """Print the sessions of a store, the latest first."""
    troubles = Troubles()
    with existing_store(options) as store:
        summaries = summaries_of(store, troubles)
    shown = summaries[: options.limit]
    if options.json:
        for summary in shown:
            print_object(msgspec.json.encode(_described(summary)))
    elif shown:
        length = shortest([*(summary.header.id for summary in summaries), *troubles.sessions])
        Paper().table(_SESSIONS, [_row(summary, length) for summary in shown])
    elif not troubles:
        note("there are no sessions yet")
    return troubles.tell()


def _row(summary: Summary, length: int) -> list[str]:
    return [
        on_one_line(summary.header.id[:length]),
        on_one_line(summary.title) or "-",
        f"{summary.entries:,}",
        str(len(summary.branches)),
        moments.age(changed_at(summary), utc_now()),
    ]


def _described(summary: Summary) -> dict[str, object]:
    header = summary.header
    return {
        "id": header.id,
        "title": summary.title,
        "entries": summary.entries,
        "branches": summary.branches,
        "created_at": header.created_at,
        "updated_at": summary.updated_at,
        "cloned_from": header.cloned_from,
    }


def search(options: argparse.Namespace) -> int:
    """Print the entries that hold all the words."""
    troubles = Troubles()
    with existing_store(options) as store:
        headers = headers_of(store, troubles)
        # One more than is printed tells whether there is more.
        found = _found(store, headers, " ".join(options.words), options.limit + 1, troubles)
        hits = found[: options.limit]
        numbers = _numbers(store, hits)
        length = shortest(header.id for header in headers)
    if options.json:
        for hit in hits:
            described = {
                "session": hit.session,
                "number": numbers.get((hit.session, hit.entry.id)),
                "entry": hit.entry.id,
                "time": hit.entry.time,
                "type": type_of(hit.entry),
                "snippet": hit.snippet,
            }
            print_object(msgspec.json.encode(described))
    elif hits:
        rows = [_hit_row(hit, numbers.get((hit.session, hit.entry.id)), length) for hit in hits]
        Paper().table(_HITS, rows)
    elif not troubles:
        note("no entry holds all of these words")
    if len(found) > len(hits):
        note(f"there are more than {counted(len(hits), 'entry', 'entries')}; see --limit")
    return troubles.tell()


def _found(
    store: Store, headers: list[Header], text: str, limit: int, troubles: Troubles
) -> list[Hit]:
    """Find entries; where one session cannot be read, those of the others."""
    if type(store).search is not Store.search:  # it has an index, which takes no time to speak of
        with suppress(Damaged):
            return store.search(text, limit=limit)
    wanted = frozenset(words_of(text))
    hits: list[Hit] = []
    with progress("searching sessions", len(headers)) as shown:
        for header in shown.counting(headers if wanted else ()):
            with troubles.passing_over(header.id):
                for record in store.records(header.id):
                    words = "" if record.entry is None else text_of(record.entry)
                    if record.entry is not None and wanted.issubset(words_of(words)):
                        hits.append(Hit(header.id, record.entry, snippet(words, wanted)))
    hits.sort(key=lambda hit: (hit.entry.time is not None, hit.entry.time), reverse=True)
    return hits[:limit]


def _hit_row(hit: Hit, number: int | None, length: int) -> list[str]:
    return [
        on_one_line(hit.session[:length]),
        "#?" if number is None else f"#{number}",
        type_of(hit.entry),
        moments.age(hit.entry.time, utc_now()),
        on_one_line(hit.snippet),
    ]


def _numbers(store: Store, hits: list[Hit]) -> dict[tuple[str, str], int]:
    """Return what the entries found are called in their sessions."""
    numbers: dict[tuple[str, str], int] = {}
    for session in {hit.session for hit in hits}:
        wanted = {hit.entry.id for hit in hits if hit.session == session}
        for record in store.records(session):
            if record.entry is not None and record.entry.id in wanted:
                numbers[session, record.entry.id] = record.seq
                wanted.remove(record.entry.id)
                if not wanted:
                    break
    return numbers
