"""Which store a command means, and which session in it."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise, takewhile
from typing import Final

from steno.cli.printable import printable
from steno.errors import Damaged, Missing
from steno.store import MemoryStore, Store, Summary, open_store
from steno.store.locate import VARIABLE, Address, default_address, read_address

LAST: Final = "last"
_SILENCE: Final = logging.NullHandler()
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_SHORTEST: Final = 13
_MOST_CANDIDATES: Final = 5


def add_store_option(parser: argparse.ArgumentParser) -> None:
    """Let a command be told which store to use."""
    parser.add_argument(
        "--store",
        default=argparse.SUPPRESS,  # so that it may stand before or behind the command
        metavar="ADDRESS",
        help="sqlite:FILE, jsonl:FOLDER or postgresql://...; else what the environment variable "
        f"{VARIABLE} says; else sqlite:~/.local/share/steno/steno.db",
    )


# -- stores ----------------------------------------------------------------------------------


def address_of(options: argparse.Namespace) -> Address:
    """Return the address of the store that was asked for."""
    asked: str = getattr(options, "store", "")
    return read_address(asked) if asked else default_address()


@contextmanager
def existing_store(options: argparse.Namespace) -> Generator[Store]:
    """Open the store that was asked for; none is made.

    There need not be one where it is by default: then nothing is in it. Raises Missing.
    """
    address = address_of(options)
    is_asked_for = getattr(options, "store", "") or os.environ.get(VARIABLE)
    if not is_asked_for and not address.is_there:
        yield MemoryStore()
        return
    with quietly_opened(address, create=False) as store:
        yield store


def quietly_opened(address: Address, *, create: bool = True) -> Store:
    """Open the store at an address."""
    # What is not understood is shown as such, and where it stands: no need to warn of each piece.
    logging.getLogger("steno.codec").addHandler(_SILENCE)
    return open_store(address, create=create)


# -- sessions --------------------------------------------------------------------------------


def find_session(store: Store, name: str) -> str:
    """Return the id of the session that is meant: by its id, the beginning of it, or `last`.

    Raises Missing if there is none or more than one.
    """
    try:
        return store.header(name).id
    except Missing:
        pass
    except Damaged:
        return name
    if name == LAST:
        return _last(store)
    ids = [header.id for header in store.headers()]
    return one_of(
        [id for id in ids if name and id.startswith(name)],
        "session",
        "`steno sessions list` shows them",
    )


def one_of(candidates: list[str], what: str, advice: str) -> str:
    """Return the only one of the ids that a name may mean. Raises Missing."""
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise Missing(f"{what}: there is none of this name; {advice}")
    named = ", ".join(map(printable, sorted(candidates)[:_MOST_CANDIDATES]))
    more = ", ..." if len(candidates) > _MOST_CANDIDATES else ""
    raise Missing(f"{what}: several begin like this, name one of them: {named}{more}")


def _last(store: Store) -> str:
    summaries, _ = summaries_of(store)
    if not summaries:
        raise Missing("session: there is none yet")
    return summaries[0].header.id


def summaries_of(store: Store) -> tuple[list[Summary], dict[str, Damaged]]:
    """Return a summary of every session, the latest first, and those that cannot be read."""
    summaries: list[Summary] = []
    damaged: dict[str, Damaged] = {}
    for header in store.headers():
        try:
            summaries.append(store.summary(header.id))
        except Damaged as exc:
            damaged[header.id] = exc
    summaries.sort(
        key=lambda summary: (changed_at(summary) or _LONG_AGO, summary.header.id), reverse=True
    )
    return summaries, damaged


def changed_at(summary: Summary) -> datetime | None:
    """Return when a session was last written to; a copy is written when it is made."""
    times = (summary.updated_at, summary.header.created_at)
    return max((time for time in times if time is not None), default=None)


def shortest(ids: Iterable[str]) -> int:
    """Return how many characters of the ids it takes to tell them apart, a few at least."""
    ordered = sorted(ids)
    return max([_SHORTEST, *[_shared(one, other) + 1 for one, other in pairwise(ordered)]])


def _shared(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
