"""Which store a command means, and which session in it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Final, NamedTuple, final

from steno.errors import Conflict, Damaged, InvalidDocument, Missing, StenoError, Unavailable
from steno.log.conversation import Conversation
from steno.log.queries import searchable_text
from steno.messages.message import ChatMessage
from steno.records.entry import Entry, Mode
from steno.records.stored_record import Header, unused_branch_name
from steno.render.progress import show_progress
from steno.render.table_output import print_notice
from steno.render.terminal_text import terminal_line, terminal_text
from steno.store import SearchHit, SessionOverview, Store, open_store
from steno.store.base import build_snippet, split_words
from steno.store.locate import StoreAddress

LAST_SESSION: Final = "last"


UNREADABLE_ERRORS: Final = (Damaged, InvalidDocument)
"""What is wrong with one session, and not with the others."""


_NULL_HANDLER: Final = logging.NullHandler()


_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)


_MIN_ID_LENGTH: Final = 13


_MAX_CANDIDATES: Final = 5


def open_store_quietly(address: StoreAddress, *, create: bool = True) -> Store:
    """Open the store at an address. Raises Unavailable if what it takes is not installed."""
    # What is not understood is shown as such, and where it stands: no need to warn of each piece.
    logging.getLogger("steno.codec").addHandler(_NULL_HANDLER)
    try:
        return open_store(address, create=create)
    except ImportError as exc:
        raise Unavailable(str(exc)) from exc


# -- sessions --------------------------------------------------------------------------------


def find_session(
    store: Store, name: str, *, is_shown: bool = True, doubts: UnreadableSessions | None = None
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
    except UNREADABLE_ERRORS:
        return name
    if name == LAST_SESSION:
        unsure = UnreadableSessions() if doubts is None else doubts
        last = _find_last_session(store, unsure, is_shown=is_shown)
        if doubts is None and is_shown:
            unsure.report()
        return last
    ids = [header.id for header in readable_headers(store, UnreadableSessions())]
    return pick_one(
        [id for id in ids if name and id.startswith(name)],
        f"session {terminal_line(name)}".rstrip(),
        "`steno sessions list` shows them",
    )


def pick_one(candidates: list[str], what: str, advice: str) -> str:
    """Return the only one of the ids that a name may mean. Raises Missing."""
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise Missing(f"{what}: there is none of this name; {advice}")
    named = ", ".join(map(terminal_text, sorted(candidates)[:_MAX_CANDIDATES]))
    more = ", ..." if len(candidates) > _MAX_CANDIDATES else ""
    raise Missing(f"{what}: several begin like this, name one of them: {named}{more}")


def _find_last_session(store: Store, doubts: UnreadableSessions, *, is_shown: bool) -> str:
    """Return the session that was written to last, also if it is damaged."""
    unread = UnreadableSessions()
    summaries = readable_summaries(store, unread, is_shown=is_shown)
    known = [(last_changed(summary) or _EARLIEST, summary.header.id) for summary in summaries[:1]]
    known += [(_last_known_write(store, session), session) for session in unread.sessions]
    if not known:
        raise Missing("session: there is none yet")
    _, last = max(known)
    if last not in unread.sessions:  # what is lost of the others may have been later
        doubts.lines.extend([f"{line}; this session may be the last one" for line in unread.lines])
    return last


def _last_known_write(store: Store, session: str) -> datetime:
    """Return when a damaged session was last written to, as far as anything tells that still."""
    latest = _EARLIEST
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
def explain_damage(session: str) -> Generator[None]:
    """Say of a session that turns out to be damaged which it is, and how to look at it."""
    try:
        yield
    except Damaged as exc:
        name = terminal_line(session)
        rule = str(exc).removeprefix(f"session {session}: ").removeprefix("session: ")
        raise Damaged(f"session {name}: {rule} (`steno verify {name}` looks at it)") from exc


@final
class UnreadableSessions:
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
        place = "" if session is None else f"session {terminal_line(session)}: "
        self.lines.append(place + terminal_line(rule))

    @contextmanager
    def skip_unreadable(self, session: str) -> Generator[None]:
        """Go on behind this block if it turns out that the session cannot be read."""
        try:
            yield
        except UNREADABLE_ERRORS as exc:
            self.add(session, exc)

    def report(self) -> int:
        """Name them all, and return the exit status that is due."""
        for line in self.lines:
            print_notice(line)
        return 1 if self.lines else 0


def readable_headers(store: Store, troubles: UnreadableSessions) -> list[Header]:
    """Return the headers of all sessions that have one. Raises what is wrong if none has."""
    headers: list[Header] = []
    try:
        headers.extend(store.headers())
    except (*UNREADABLE_ERRORS, Unavailable) as exc:
        if not headers:
            raise
        troubles.add(None, exc)
    return headers


def readable_summaries(
    store: Store,
    troubles: UnreadableSessions,
    *,
    are_meant: Callable[[Header], bool] = lambda _: True,
    is_shown: bool = True,
) -> list[SessionOverview]:
    """Return a summary of every session that is meant and can be read, the latest first."""
    summaries: list[SessionOverview] = []
    headers = [header for header in readable_headers(store, troubles) if are_meant(header)]
    with show_progress("reading sessions", len(headers), is_shown=is_shown) as shown:
        for header in shown.track(headers):
            with troubles.skip_unreadable(header.id):
                summaries.append(store.summary(header.id))
    summaries.sort(
        key=lambda summary: (last_changed(summary) or _EARLIEST, summary.header.id), reverse=True
    )
    return summaries


def count_entries(store: Store, session: str) -> int | None:
    """Return how many entries a session has; None where that takes reading it, or nobody looks."""
    if not sys.stderr.isatty() or type(store).summary is Store.summary:
        return None
    with suppress(StenoError):
        return store.summary(session).entries
    return None


def last_changed(summary: SessionOverview) -> datetime | None:
    """Return when a session was last written to; a copy is written when it is made."""
    times = (summary.updated_at, summary.header.created_at)
    return max((time for time in times if time is not None), default=None)


def shortest_unique_length(ids: Iterable[str]) -> int:
    """Return how many characters of the ids it takes to tell them apart, a few at least."""
    ordered = sorted(ids)
    return max(
        [
            _MIN_ID_LENGTH,
            *[_common_prefix_length(one, other) + 1 for one, other in pairwise(ordered)],
        ]
    )


def _common_prefix_length(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


# -- session ---------------------------------------------------------------------------------------
#
# Which session a run works on: a new one, the last one of this folder, or one by name.


FOLDER_KEY: Final = "folder"
"""Under which name the header of a session has the folder that it was begun in."""


class SessionStart(NamedTuple):
    """Where to begin: `resume` names a session, `continues` means the last one of the folder."""

    folder: Path
    resume: str | None = None
    continues: bool = False
    fork: str | None = None
    """The name of a branch to begin; empty for one that is made up."""

    @property
    def is_new(self) -> bool:
        """Whether nothing was said before."""
        return self.resume is None and not self.continues


def open_session(
    store: Store,
    start: SessionStart,
    *,
    is_shown: bool = True,
    tell: Callable[[str], object] | None = None,
) -> Conversation:
    """Open the session that is meant, and show how far that is. Raises Missing.

    `tell` hears of sessions of the folder that were passed over because they cannot be read. Where
    things are shown, that is the terminal unless somebody else is named.
    """
    if start.resume is None:
        passes_over = tell or (print_notice if is_shown else _ignore)
        return store.open(_find_last_in_folder(store, start.folder, passes_over, is_shown=is_shown))
    session = find_session(store, start.resume, is_shown=is_shown)
    with explain_damage(session):
        return store.open(session)


def apply_start(conversation: Conversation, start: SessionStart, mode: str | None) -> None:
    """Let the session go on as is wanted: in a branch of its own, in a mode. Raises Conflict."""
    if start.fork is not None:
        if start.fork in conversation.branches:
            raise Conflict("--fork: there is a branch of this name; choose another")
        branch = start.fork or unused_branch_name("fork", conversation.branches)
        conversation.fork(branch)
        conversation.switch(branch)
    if mode is not None:
        set_mode(conversation, Mode(mode))


def begin_session(
    store: Store, folder: Path, system_prompt: str, mode: Mode, *, title: str = ""
) -> Conversation:
    """Begin a session."""
    first = [ChatMessage.system(system_prompt)] if system_prompt.strip() else []
    conversation = store.new(first, title=title or None, about={FOLDER_KEY: str(folder)})
    set_mode(conversation, mode)
    return conversation


def set_mode(conversation: Conversation, mode: Mode) -> Entry | None:
    """Change the mode; return the entry that says so, None where it is the same already."""
    return None if conversation.mode is mode else conversation.change_mode(mode)


def session_folder(header: Header) -> str | None:
    """Return the folder that a session was begun in, if it says so."""
    folder = (header.about or {}).get(FOLDER_KEY)
    return folder if isinstance(folder, str) else None


def _ignore(_: str) -> None:
    """Keep it: nobody may write to the terminal."""


def _find_last_in_folder(
    store: Store, folder: Path, passes_over: Callable[[str], object], *, is_shown: bool
) -> str:
    troubles = UnreadableSessions()
    here = readable_summaries(
        store,
        troubles,
        are_meant=lambda header: session_folder(header) == str(folder),
        is_shown=is_shown,
    )
    for id in troubles.sessions:
        passes_over(_describe_skipped(store, id))
    if not here and troubles.sessions:
        raise Missing(
            "session: none of this folder can be read; `steno verify --all` tells why, and "
            "`steno sessions list` shows all others"
        )
    if not here:
        raise Missing(
            "session: none was begun in this folder; `steno sessions list` shows all, "
            "and --resume takes any of them"
        )
    return here[0].header.id


def _describe_skipped(store: Store, id: str) -> str:
    """Say that a session cannot be gone on with, why, and how to look at it."""
    name, why = terminal_line(id), "it could not be read"
    try:
        store.summary(id)
    except UNREADABLE_ERRORS as exc:
        why = terminal_line(str(exc).removeprefix(f"session {id}: "))
    return (
        f"session {name}: passed over, although it may be the latest of this folder: {why}; "
        f"`steno verify {name}` looks at it"
    )


# -- listing ---------------------------------------------------------------------------------------
#
# `steno sessions list` and `steno sessions search`: which conversations there are.


def find_by_title(headers: list[Header], text: str) -> list[Header]:
    """Return the sessions whose titles hold all the words, the newest first."""
    wanted = frozenset(split_words(text))
    found = [
        header
        for header in headers
        if wanted and wanted.issubset(split_words(header_title(header)))
    ]
    found.sort(key=lambda header: (header.created_at is not None, header.created_at), reverse=True)
    return found


def header_title(header: Header) -> str:
    """Return the title of a session; empty if it has none."""
    return header.title or ""


def search_entries(
    store: Store,
    headers: list[Header],
    text: str,
    limit: int,
    troubles: UnreadableSessions,
    *,
    is_shown: bool = True,
) -> list[SearchHit]:
    """Find entries; where one session cannot be read, those of the others."""
    if type(store).search is not Store.search:  # it has an index, which takes no time to speak of
        with suppress(Damaged):
            return store.search(text, limit=limit)
    wanted = frozenset(split_words(text))
    hits: list[SearchHit] = []
    with show_progress("searching sessions", len(headers), is_shown=is_shown) as shown:
        for header in shown.track(headers if wanted else ()):
            with troubles.skip_unreadable(header.id):
                for record in store.records(header.id):
                    words = "" if record.entry is None else searchable_text(record.entry)
                    if record.entry is not None and wanted.issubset(split_words(words)):
                        hits.append(
                            SearchHit(header.id, record.entry, build_snippet(words, wanted))
                        )
    hits.sort(key=lambda hit: (hit.entry.time is not None, hit.entry.time), reverse=True)
    return hits[:limit]
