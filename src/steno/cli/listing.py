"""`steno sessions list` and `steno sessions search`: which conversations there are."""

from __future__ import annotations

import argparse
from typing import Final

import msgspec

from steno.cli import moments
from steno.cli.paper import Column, Paper, note, print_object
from steno.cli.place import changed_at, existing_store, shortest, summaries_of
from steno.cli.printable import on_one_line
from steno.cli.words import type_of
from steno.identity import utc_now
from steno.store import Hit, Store, Summary

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
    with existing_store(options) as store:
        summaries, damaged = summaries_of(store)
    shown = summaries[: options.limit]
    if options.json:
        for summary in shown:
            print_object(msgspec.json.encode(_described(summary)))
    elif shown:
        length = shortest([*(summary.header.id for summary in summaries), *damaged])
        Paper().table(_SESSIONS, [_row(summary, length) for summary in shown])
    elif not damaged:
        note("there are no sessions yet")
    for session, problem in damaged.items():
        note(f"session {on_one_line(session)}: {problem}")
    return 1 if damaged else 0


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
    with existing_store(options) as store:
        hits = store.search(" ".join(options.words), limit=options.limit)
        numbers = _numbers(store, hits)
        length = shortest(header.id for header in store.headers()) if hits else 0
    if options.json:
        for hit in hits:
            found = {
                "session": hit.session,
                "number": numbers.get((hit.session, hit.entry.id)),
                "entry": hit.entry.id,
                "time": hit.entry.time,
                "type": type_of(hit.entry),
                "snippet": hit.snippet,
            }
            print_object(msgspec.json.encode(found))
    elif hits:
        rows = [_hit_row(hit, numbers.get((hit.session, hit.entry.id)), length) for hit in hits]
        Paper().table(_HITS, rows)
    else:
        note("no entry holds all of these words")
    return 0


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
