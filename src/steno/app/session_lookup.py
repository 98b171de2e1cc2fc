"""Find, list, search and open the sessions of a store.

An unreadable session is skipped and reported at the end, so that other sessions can be used.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import pairwise
from os.path import commonprefix
from pathlib import Path
from typing import Final, NamedTuple, final

from steno.app.import_record import read_import_record
from steno.errors import (
    Damaged,
    InvalidDocument,
    Missing,
    MissingExtra,
    StenoError,
    Unavailable,
)
from steno.log.conversation import Conversation
from steno.log.queries import searchable_text
from steno.ports import SetupNotice
from steno.records.stored_record import Header
from steno.render.progress import ShowProgress, no_progress
from steno.render.terminal_text import terminal_line, terminal_text
from steno.store import SearchHit, SessionOverview, Store, open_store
from steno.store.base import build_snippet, split_words
from steno.store.locate import StoreAddress

LAST_SESSION: Final = "last"
"""The name of the session that was last written to, copied or imported (`last_changed`)."""
FOLDER_KEY: Final = "folder"
"""The member of a session header with the folder in which the session was started."""
UNREADABLE_ERRORS: Final = (Damaged, InvalidDocument)
"""The errors that affect only one session."""
_NULL_HANDLER: Final = logging.NullHandler()
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
_MIN_ID_LENGTH: Final = 13
_MAX_CANDIDATES: Final = 5


def open_store_at(address: StoreAddress, *, create: bool = True) -> Store:
    """Open the store at an address.

    Raises Unavailable if the store cannot be opened or a package is missing, and Missing if the
    store does not exist and `create` is false.
    """
    # Commands display unknown content themselves. Without a handler, logging would also print the
    # warnings of the codec on stderr.
    logging.getLogger("steno.codec").addHandler(_NULL_HANDLER)
    try:
        return open_store(address, create=create)
    except MissingExtra as exc:
        raise Unavailable(str(exc), code=exc.code) from exc


# -- finding a session ------------------------------------------------------------------------


def find_session(
    store: Store,
    name: str,
    *,
    unreadable: UnreadableSessions | None = None,
    show_progress: ShowProgress = no_progress,
) -> str:
    """Return the ID of the session that has the ID `name`, or whose ID has the prefix `name`.

    The name `last` means the session with the latest `last_changed`, even if it is damaged.
    `unreadable` collects damaged sessions whose lost entries may be even later. Raises Missing if
    no session matches, or if several sessions match.
    """
    try:
        return store.header(name).id
    except Missing:
        pass
    except UNREADABLE_ERRORS:
        return name
    if name == LAST_SESSION:
        return _find_last_session(
            store, UnreadableSessions() if unreadable is None else unreadable, show_progress
        )
    ids = [header.id for header in readable_headers(store, UnreadableSessions())]
    return pick_one(
        [id for id in ids if name and id.startswith(name)],
        f"session {terminal_line(name)}".rstrip(),
        "run `steno sessions list` to list the sessions",
    )


def pick_one(candidates: list[str], label: str, advice: str) -> str:
    """Return the only candidate. Raises Missing if there are no candidates, or several."""
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise Missing(f"not found; {advice}", code="name_unknown", place=label)
    names = ", ".join(map(terminal_text, sorted(candidates)[:_MAX_CANDIDATES]))
    ellipsis = ", ..." if len(candidates) > _MAX_CANDIDATES else ""
    raise Missing(
        f"ambiguous; use one of {names}{ellipsis}",
        code="name_ambiguous",
        place=label,
    )


def _find_last_session(
    store: Store, unreadable: UnreadableSessions, show_progress: ShowProgress
) -> str:
    """Return the session with the latest `last_changed`, even if it is damaged.

    Raises Missing if the store has no sessions.
    """
    skipped = UnreadableSessions()
    summaries = readable_summaries(store, skipped, show_progress=show_progress)
    candidates = [
        (last_changed(summary) or _EARLIEST, summary.header.id) for summary in summaries[:1]
    ]
    candidates += [(_last_known_write(store, session), session) for session in skipped.sessions]
    if not candidates:
        raise Missing("the store has no sessions yet", code="store_empty", place="session")
    _, last = max(candidates)
    if last not in skipped.sessions:  # the skipped sessions may have lost later entries
        unreadable.lines.extend(
            [f"{line}; this session may be the last one" for line in skipped.lines]
        )
    return last


def _last_known_write(store: Store, session: str) -> datetime:
    """Return the time of the last change of a damaged session that can be read."""
    header: Header | None = None
    read: dict[str, datetime | None] = {}
    ends: dict[str, datetime | None] = {}
    with suppress(StenoError):
        header = store.header(session)
        for record in store.records(session):
            if record.entry is not None:
                read[record.entry.id] = record.entry.time
    with suppress(StenoError):  # its end may be intact
        for head in filter(None, store.heads(session).values()):
            entry, _ = next(store.read_back(session, head))
            ends[entry.id] = entry.time
    number = 0 if header is None else _count_imported(header)
    if len(read) < number:  # the entries at the end may be from the file
        ends = {}
    imported = set(list(read)[:number])
    written = [time for id, time in read.items() if id not in imported and time]
    # The ends of branches that were not read are later than all that was read.
    unread = [time for id, time in ends.items() if id not in read and id not in imported and time]
    written_at = max(unread, default=written[-1] if written else None)
    return (written_at if header is None else _time_of_change(header, written_at)) or _EARLIEST


@final
class UnreadableSessions:
    """A collection of the sessions that could not be read, to report them at the end."""

    def __init__(self) -> None:
        self.sessions: Final[dict[str, str]] = {}
        """The problems of unreadable sessions, by session ID."""
        self.lines: Final[list[str]] = []
        """A line about each unreadable session, for the user."""

    def __bool__(self) -> bool:
        return bool(self.lines)

    def add(self, session: str | None, problem: StenoError) -> None:
        """Add a session with its problem; `session` is None if its ID cannot be read."""
        text = terminal_line(problem.text_unless_at(f"session {session}"))
        if session is not None:
            self.sessions[session] = text
            text = f"session {terminal_line(session)}: {text}"
        self.lines.append(text)

    @contextmanager
    def skip_unreadable(self, session: str) -> Generator[None]:
        """Add the session, and leave the `with` block, if the session cannot be read."""
        try:
            yield
        except UNREADABLE_ERRORS as exc:
            self.add(session, exc)


@contextmanager
def explain_damage(session: str) -> Generator[None]:
    """Add the session, and the command that checks it, to an error about damage."""
    try:
        yield
    except Damaged as exc:
        name = terminal_line(session)
        text = exc.text_unless_at(f"session {session}", "session")
        raise Damaged(
            f"{text} (run `steno verify {name}` to check it)",
            code=exc.code,
            place=f"session {name}",
        ) from exc


def shortest_unique_length(ids: Iterable[str]) -> int:
    """Return the length at which the prefixes of all IDs differ, at least `_MIN_ID_LENGTH`."""
    pairs = pairwise(sorted(ids))
    lengths = [len(commonprefix(pair)) + 1 for pair in pairs]  # noqa: RUF071 - IDs, not paths
    return max([_MIN_ID_LENGTH, *lengths])


# -- reading many sessions --------------------------------------------------------------------


def readable_headers(store: Store, unreadable: UnreadableSessions) -> list[Header]:
    """Return all headers that can be read. Raises the error if none of them can be read."""
    headers: list[Header] = []
    try:
        headers.extend(store.headers())
    except (*UNREADABLE_ERRORS, Unavailable) as exc:
        if not headers:
            raise
        unreadable.add(None, exc)
    return headers


def readable_summaries(
    store: Store,
    unreadable: UnreadableSessions,
    *,
    is_wanted: Callable[[Header], bool] = lambda _: True,
    show_progress: ShowProgress = no_progress,
) -> list[SessionOverview]:
    """Return the summaries of all wanted sessions that can be read, the latest first."""
    summaries: list[SessionOverview] = []
    headers = [header for header in readable_headers(store, unreadable) if is_wanted(header)]
    with show_progress("reading sessions", len(headers)) as progress:
        for header in progress.track(headers):
            with unreadable.skip_unreadable(header.id):
                summaries.append(store.summary(header.id))
    summaries.sort(
        key=lambda summary: (last_changed(summary) or _EARLIEST, summary.header.id), reverse=True
    )
    return summaries


def count_entries(store: Store, session: str) -> int | None:
    """Return the number of entries of a session; None if counting them is slow or fails."""
    if type(store).summary is Store.summary:
        return None
    with suppress(StenoError):
        return store.summary(session).entries
    return None


def last_changed(summary: SessionOverview) -> datetime | None:
    """Return the time at which a session was last written to, copied or imported; None if unknown.

    This time orders the sessions in a list, and the name `last` means the session with the latest.
    """
    return _time_of_change(
        summary.header,
        summary.written_at if summary.entries > _count_imported(summary.header) else None,
    )


def _count_imported(header: Header) -> int:
    """Return the number of entries at the beginning of a session that are from a file."""
    imported = read_import_record(header)
    return 0 if imported is None else imported.entries


def _time_of_change(header: Header, written_at: datetime | None) -> datetime | None:
    """Return the time of the last change; `written_at` is the time of the last entry.

    The times in an imported file may be in the future, so `written_at` is None if that entry is
    from the file.
    """
    imported, times = read_import_record(header), [written_at]
    if imported is not None:
        times.append(imported.time)
    if imported is None or imported.session != header.id:  # created or cloned here
        times.append(header.created_at)
    return max([time for time in times if time is not None], default=None)


def session_folder(header: Header) -> str | None:
    """Return the folder in which a session was started; None if it is not recorded."""
    folder = (header.about or {}).get(FOLDER_KEY)
    return folder if isinstance(folder, str) else None


def check_folder_is_known(header: Header, *, is_chosen: bool) -> None:
    """Raise Missing if a session was imported and the user has not chosen a folder for its tools.

    Its file comes from another machine or person, so the folder in which steno happens to run may
    not be the one that the prompts and calls are about.
    """
    if is_chosen or read_import_record(header) is None or session_folder(header) is not None:
        return
    name = shlex.quote(terminal_line(header.id))
    raise Missing(
        "the session was imported, so it has no folder to work in; choose one with --folder, as in: "
        f"steno -r {name} --folder .",
        code="folder_not_chosen",
        place="session",
    )


class SessionSummary(NamedTuple):
    """The properties of a session that a list of sessions shows."""

    id: str
    title: str
    entries: int
    branches: tuple[str, ...]
    changed_at: datetime | None
    """The time of the last write; for a copy, not before the time of copying."""
    folder: str | None
    is_in_this_folder: bool
    """Whether the session was started in the current folder."""
    snippet: str = ""
    """The text around the newest match of a search; empty if there is none."""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    """The time of the latest entry."""
    cloned_from: str | None = None


class SessionSearch(NamedTuple):
    """The result of a search for words in all sessions."""

    headers: list[Header]
    """All sessions that can be read."""
    titled: list[Header]
    """The sessions whose titles contain all words, the newest first."""
    hits: list[SearchHit]
    """The entries that contain all words, the newest first."""

    @property
    def snippets(self) -> dict[str, str]:
        """The text around the newest match in each session; empty if only the title matches."""
        snippets = {header.id: "" for header in self.titled}
        for hit in self.hits:
            snippets[hit.session] = snippets.get(hit.session) or hit.snippet
        return snippets


def list_sessions(
    store: Store,
    unreadable: UnreadableSessions,
    *,
    folder: str | None = None,
    only_this_folder: bool = False,
    search: SessionSearch | None = None,
    show_progress: ShowProgress = no_progress,
) -> list[SessionSummary]:
    """Return the sessions that can be read, the latest first.

    `folder` is the current folder. If a search is given, only its results are returned.
    """
    snippets = None if search is None else search.snippets

    def is_wanted(header: Header) -> bool:
        is_in_scope = not only_this_folder or session_folder(header) == folder
        return is_in_scope and (snippets is None or header.id in snippets)

    found = readable_summaries(store, unreadable, is_wanted=is_wanted, show_progress=show_progress)
    return [
        SessionSummary(
            id=overview.header.id,
            title=overview.title,
            entries=overview.entries,
            branches=overview.branches,
            changed_at=last_changed(overview),
            folder=(start_folder := session_folder(overview.header)),
            is_in_this_folder=folder is not None and start_folder == folder,
            snippet=(snippets or {}).get(overview.header.id, ""),
            created_at=overview.header.created_at,
            updated_at=overview.updated_at,
            cloned_from=overview.header.cloned_from,
        )
        for overview in found
    ]


def search_sessions(
    store: Store,
    text: str,
    unreadable: UnreadableSessions,
    *,
    limit: int,
    show_progress: ShowProgress = no_progress,
) -> SessionSearch:
    """Find the titles and at most `limit` entries that contain all words of a text."""
    headers, words = readable_headers(store, unreadable), frozenset(split_words(text))
    titled = [
        header for header in headers if words and words.issubset(split_words(header.title or ""))
    ]
    titled.sort(key=lambda header: (header.created_at is not None, header.created_at), reverse=True)
    if type(store).search is not Store.search:  # the store has an index
        with suppress(Damaged):
            return SessionSearch(headers, titled, store.search(text, limit=limit))
    hits: list[SearchHit] = []
    with show_progress("searching sessions", len(headers)) as progress:
        for header in progress.track(headers if words else ()):
            with unreadable.skip_unreadable(header.id):
                for entry in filter(None, (record.entry for record in store.records(header.id))):
                    content = searchable_text(entry)
                    if words.issubset(split_words(content)):
                        hits.append(SearchHit(header.id, entry, build_snippet(content, words)))
    hits.sort(key=lambda hit: (hit.entry.time is not None, hit.entry.time), reverse=True)
    return SessionSearch(headers, titled, hits[:limit])


# -- opening a session ------------------------------------------------------------------------


class SessionStart(NamedTuple):
    """The session of a run: new, named by `resume`, or the last of the folder (`continues`)."""

    folder: Path
    resume: str | None = None
    continues: bool = False
    fork: str | None = None
    """The name of a new branch, empty for a generated name; None for no new branch."""
    is_folder_chosen: bool = False
    """Whether the user has named `folder`, which an imported session requires."""

    @property
    def is_new(self) -> bool:
        """Whether the session is new."""
        return self.resume is None and not self.continues


def open_session(
    store: Store, start: SessionStart, on_skipped: Callable[[SetupNotice], object]
) -> Conversation:
    """Open an existing session; `on_skipped` receives notices about unreadable sessions.

    Raises Missing if there is no such session, or if an imported session needs a folder, and Damaged
    if it cannot be read.
    """
    if start.resume is None:
        return store.open(_find_last_in_folder(store, start.folder, on_skipped))
    session = find_session(store, start.resume)
    with explain_damage(session):
        check_folder_is_known(store.header(session), is_chosen=start.is_folder_chosen)
        return store.open(session)


def _find_last_in_folder(
    store: Store, folder: Path, on_skipped: Callable[[SetupNotice], object]
) -> str:
    unreadable = UnreadableSessions()
    summaries = readable_summaries(
        store, unreadable, is_wanted=lambda header: session_folder(header) == str(folder)
    )
    for id, problem in unreadable.sessions.items():
        label = terminal_line(id)
        text = f"session {label}: skipped, although it may be the latest of this folder: {problem}"
        on_skipped(
            SetupNotice("session_skipped", f"{text}; run `steno verify {label}` to check it")
        )
    if not summaries and unreadable.sessions:
        raise Missing(
            "no session of this folder can be read; run `steno verify --all` to see why, and "
            "`steno sessions list` to list all others",
            code="folder_sessions_unreadable",
            place="session",
        )
    if not summaries:
        raise Missing(
            "no session was started in this folder; run `steno sessions list` to list all, and "
            "resume one with --resume ID",
            code="folder_without_session",
            place="session",
        )
    return summaries[0].header.id
