"""`steno sessions list` and `steno sessions search`: which conversations there are."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from steno.captions import type_of
from steno.cli.folders import home_folder, working_folder
from steno.cli.paper import Column, Paper, note, print_object
from steno.cli.place import (
    Troubles,
    changed_at,
    existing_store,
    headers_of,
    shortest,
    summaries_of,
)
from steno.cli.progress import progress
from steno.cli.session import folder_of
from steno.errors import Damaged
from steno.identity import utc_now
from steno.printable import age, counted, on_one_line
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
_FOLDER: Final = Column("folder", "dim", may_shrink=True)
"""It is there where any session says in which folder it was begun."""
_HITS: Final = (
    Column("session", "cyan"),
    Column("entry", "cyan", is_number=True),
    Column("who"),
    Column("when", "dim"),
    Column("text", may_shrink=True),
)

_TITLE: Final = "title"
"""What is found where it is no entry."""


def list_sessions(options: argparse.Namespace) -> int:
    """Print the sessions of a store, the latest first."""
    troubles = Troubles()
    here = str(working_folder()) if options.here else None
    with existing_store(options) as store:
        summaries = summaries_of(
            store, troubles, are_meant=lambda header: here in (None, folder_of(header))
        )
    shown = summaries[: options.limit]
    if options.json:
        for summary in shown:
            print_object(msgspec.json.encode(_described(summary)))
    elif shown:
        length = shortest([*(summary.header.id for summary in summaries), *troubles.sessions])
        rows = [_row(summary, length) for summary in shown]
        if any(folder_of(summary.header) for summary in shown):
            Paper().table((*_SESSIONS, _FOLDER), rows)
        else:
            Paper().table(_SESSIONS, [row[:-1] for row in rows])
    elif not troubles:
        note("there are no sessions yet" if here is None else "no session was begun in this folder")
    return troubles.report()


def _row(summary: Summary, length: int) -> list[str]:
    return [
        on_one_line(summary.header.id[:length]),
        on_one_line(summary.title) or "-",
        f"{summary.entries:,}",
        str(len(summary.branches)),
        age(changed_at(summary), utc_now()),
        shown_folder(folder_of(summary.header)),
    ]


def shown_folder(folder: str | None) -> str:
    """Return a folder as one would write it: below the home folder with ~."""
    home = home_folder(os.environ)
    if folder is None:
        return "-"
    if home is not None and Path(folder).is_relative_to(home):
        folder = str("~" / Path(folder).relative_to(home))
    return on_one_line(folder)


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
        "folder": folder_of(header),
    }


def search(options: argparse.Namespace) -> int:
    """Print the titles and the entries that hold all the words."""
    troubles = Troubles()
    with existing_store(options) as store:
        headers = headers_of(store, troubles)
        words = " ".join(options.words)
        with_title = titled(headers, words)[: options.limit]
        # One more than is printed tells whether there is more.
        all_hits = found(store, headers, words, options.limit + 1, troubles)
        hits = all_hits[: options.limit]
        numbers = _numbers(store, hits)
        length = shortest(header.id for header in headers)
    if options.json:
        for header in with_title:
            print_object(msgspec.json.encode(_described_title(header)))
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
    elif hits or with_title:
        rows = [_title_row(header, length) for header in with_title]
        rows += [_hit_row(hit, numbers.get((hit.session, hit.entry.id)), length) for hit in hits]
        Paper().table(_HITS, rows)
    elif not troubles:
        note("no entry and no title holds all of these words")
    if len(all_hits) > len(hits):
        note(f"there are more than {counted(len(hits), 'entry', 'entries')}; see --limit")
    return troubles.report()


def titled(headers: list[Header], text: str) -> list[Header]:
    """Return the sessions whose titles hold all the words, the newest first."""
    wanted = frozenset(words_of(text))
    found = [header for header in headers if wanted and wanted.issubset(words_of(_title(header)))]
    found.sort(key=lambda header: (header.created_at is not None, header.created_at), reverse=True)
    return found


def _title(header: Header) -> str:
    return header.title or ""


def _title_row(header: Header, length: int) -> list[str]:
    when = age(header.created_at, utc_now())
    return [on_one_line(header.id[:length]), "-", _TITLE, when, on_one_line(_title(header))]


def _described_title(header: Header) -> dict[str, object]:
    return {
        "session": header.id,
        "number": None,
        "entry": None,
        "time": header.created_at,
        "type": _TITLE,
        "snippet": _title(header),
    }


def found(
    store: Store,
    headers: list[Header],
    text: str,
    limit: int,
    troubles: Troubles,
    *,
    is_shown: bool = True,
) -> list[Hit]:
    """Find entries; where one session cannot be read, those of the others."""
    if type(store).search is not Store.search:  # it has an index, which takes no time to speak of
        with suppress(Damaged):
            return store.search(text, limit=limit)
    wanted = frozenset(words_of(text))
    hits: list[Hit] = []
    with progress("searching sessions", len(headers), is_shown=is_shown) as shown:
        for header in shown.track(headers if wanted else ()):
            with troubles.skip_unreadable(header.id):
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
        age(hit.entry.time, utc_now()),
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
