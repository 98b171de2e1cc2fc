"""Which store a command means, and which session in it."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib import import_module
from itertools import pairwise, takewhile
from typing import Final, final

from steno.cli.commands import Misused
from steno.cli.folders import settings_files, working_folder
from steno.cli.paper import note
from steno.cli.progress import progress
from steno.errors import Damaged, InvalidDocument, InvalidValue, Missing, StenoError, Unavailable
from steno.printable import on_one_line, printable
from steno.record import Header
from steno.store import MemoryStore, Store, Summary, open_store
from steno.store.locate import VARIABLE, Address, default_address, read_address

LAST: Final = "last"
UNREADABLE: Final = (Damaged, InvalidDocument)
"""What is wrong with one session, and not with the others."""
_SILENCE: Final = logging.NullHandler()
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_SHORTEST: Final = 13
_MOST_CANDIDATES: Final = 5


# -- stores ----------------------------------------------------------------------------------


def address_of(options: argparse.Namespace) -> Address:
    """Return the address of the store that was asked for: now, or by the settings."""
    asked: str = getattr(options, "store", "")
    if asked:
        return asked_address(asked, "--store")
    named = "" if os.environ.get(VARIABLE) else _store_of_settings()
    return read_address(named) if named else default_address()


def asked_address(text: str, place: str) -> Address:
    """Read an address of the command line. Raises Misused for what is none."""
    try:
        return read_address(text)
    except InvalidValue as exc:
        raise Misused(f"{place}: {str(exc).removeprefix('store: ')}") from None


def _store_of_settings() -> str:
    """Return the store that the settings name; to load them takes long, so not for nothing."""
    try:
        folder = working_folder()
    except Missing:
        return ""
    if not any(map(os.path.lexists, settings_files(folder, os.environ))):
        return ""
    looking = import_module("steno.cli.looking").load_settings_to_look
    store: str | None = looking().settings.store
    return store or ""


@contextmanager
def existing_store(options: argparse.Namespace) -> Generator[Store]:
    """Open the store that was asked for; none is made.

    There need not be one that nobody has named now: then nothing is in it. Raises Missing.
    """
    address = address_of(options)
    is_asked_for = getattr(options, "store", "") or os.environ.get(VARIABLE)
    if not is_asked_for and not address.exists:
        yield MemoryStore()
        return
    with quietly_opened(address, create=False) as store:
        yield store


def quietly_opened(address: Address, *, create: bool = True) -> Store:
    """Open the store at an address. Raises Unavailable if what it takes is not installed."""
    # What is not understood is shown as such, and where it stands: no need to warn of each piece.
    logging.getLogger("steno.codec").addHandler(_SILENCE)
    try:
        return open_store(address, create=create)
    except ImportError as exc:
        raise Unavailable(str(exc)) from exc


# -- sessions --------------------------------------------------------------------------------


def find_session(
    store: Store, name: str, *, is_shown: bool = True, doubts: Troubles | None = None
) -> str:
    """Return the id of the session that is meant: by its id, the beginning of it, or `last`.

    The last one may be damaged. Where nobody can tell which it is, because another one cannot be
    read, `doubts` takes note of that one, or the terminal. Raises Missing if there is none or more
    than one. Without `is_shown` nothing is written to the terminal meanwhile: it may be somebody
    else's screen.
    """
    try:
        return store.header(name).id
    except Missing:
        pass
    except UNREADABLE:
        return name
    if name == LAST:
        unsure = Troubles() if doubts is None else doubts
        last = _last(store, unsure, is_shown=is_shown)
        if doubts is None and is_shown:
            unsure.report()
        return last
    ids = [header.id for header in headers_of(store, Troubles())]
    return one_of(
        [id for id in ids if name and id.startswith(name)],
        f"session {on_one_line(name)}".rstrip(),
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


def _last(store: Store, doubts: Troubles, *, is_shown: bool) -> str:
    """Return the session that was written to last, also if it is damaged."""
    unread = Troubles()
    summaries = summaries_of(store, unread, is_shown=is_shown)
    known = [(changed_at(summary) or _LONG_AGO, summary.header.id) for summary in summaries[:1]]
    known += [(_known_until(store, session), session) for session in unread.sessions]
    if not known:
        raise Missing("session: there is none yet")
    _, last = max(known)
    if last not in unread.sessions:  # what is lost of the others may have been later
        doubts.lines.extend([f"{line}; this session may be the last one" for line in unread.lines])
    return last


def _known_until(store: Store, session: str) -> datetime:
    """Return when a damaged session was last written to, as far as anything tells that still."""
    latest = _LONG_AGO
    with suppress(StenoError):
        latest = store.header(session).created_at or latest
        for record in store.records(session):
            latest = max(latest, (record.entry and record.entry.time) or latest)
    with suppress(StenoError):  # its end may be whole
        for head in filter(None, store.heads(session).values()):
            entry, _ = next(store.read_back(session, head))
            latest = max(latest, entry.time or latest)
    return latest


@contextmanager
def telling_damage(session: str) -> Generator[None]:
    """Say of a session that turns out to be damaged which it is, and how to look at it."""
    try:
        yield
    except Damaged as exc:
        name = on_one_line(session)
        rule = str(exc).removeprefix(f"session {session}: ").removeprefix("session: ")
        raise Damaged(f"session {name}: {rule} (`steno verify {name}` looks at it)") from exc


@final
class Troubles:
    """What cannot be read: it is passed over, and named when everything else was done."""

    def __init__(self) -> None:
        """Start without any."""
        self.sessions: Final[list[str]] = []
        self.lines: Final[list[str]] = []
        """What is to be said of them."""

    def __bool__(self) -> bool:
        return bool(self.lines)

    def add(self, session: str | None, problem: StenoError) -> None:
        """Take note of a session, or of one that does not even say which it is."""
        if session is not None:
            self.sessions.append(session)
        # A problem may begin with the session that it is about.
        rule = str(problem).removeprefix(f"session {session}: ")
        place = "" if session is None else f"session {on_one_line(session)}: "
        self.lines.append(place + on_one_line(rule))

    @contextmanager
    def skip_unreadable(self, session: str) -> Generator[None]:
        """Go on behind this block if it turns out that the session cannot be read."""
        try:
            yield
        except UNREADABLE as exc:
            self.add(session, exc)

    def report(self) -> int:
        """Name them all, and return the exit status that is due."""
        for line in self.lines:
            note(line)
        return 1 if self.lines else 0


def headers_of(store: Store, troubles: Troubles) -> list[Header]:
    """Return the headers of all sessions that have one. Raises what is wrong if none has."""
    headers: list[Header] = []
    try:
        headers.extend(store.headers())
    except (*UNREADABLE, Unavailable) as exc:
        if not headers:
            raise
        troubles.add(None, exc)
    return headers


def summaries_of(
    store: Store,
    troubles: Troubles,
    *,
    are_meant: Callable[[Header], bool] = lambda _: True,
    is_shown: bool = True,
) -> list[Summary]:
    """Return a summary of every session that is meant and can be read, the latest first."""
    summaries: list[Summary] = []
    headers = [header for header in headers_of(store, troubles) if are_meant(header)]
    with progress("reading sessions", len(headers), is_shown=is_shown) as shown:
        for header in shown.track(headers):
            with troubles.skip_unreadable(header.id):
                summaries.append(store.summary(header.id))
    summaries.sort(
        key=lambda summary: (changed_at(summary) or _LONG_AGO, summary.header.id), reverse=True
    )
    return summaries


def length_of(store: Store, session: str) -> int | None:
    """Return how many entries a session has; None where that takes reading it, or nobody looks."""
    if not sys.stderr.isatty() or type(store).summary is Store.summary:
        return None
    with suppress(StenoError):
        return store.summary(session).entries
    return None


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
