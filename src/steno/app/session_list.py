"""All sessions of the store, and which of them is at hand (`steno.app.session.SessionList`).

What reads or writes more than a line is done in a thread: the screen stays alive meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, final

from steno.app.session import SessionSummary
from steno.app.session_state import ResumableSession, SessionState
from steno.app.sessions import (
    UnreadableSessions,
    find_by_title,
    find_session,
    last_changed,
    readable_headers,
    readable_summaries,
    search_entries,
    session_folder,
)
from steno.errors import InvalidDocument, InvalidValue, LogError, StenoError
from steno.render.terminal_text import terminal_line
from steno.store import SessionOverview

_MAX_HITS: Final = 200
"""How many entries are looked at that hold the words searched for."""


@final
class LocalSessionList:
    """The sessions that are kept where this desk keeps its own."""

    def __init__(self, state: SessionState) -> None:
        """Take the desk's store, and the session at hand."""
        self._state = state

    async def summaries(self, search: str = "") -> Sequence[SessionSummary]:
        """Return them, the latest first; those that hold all the words, where there are any.

        What cannot be read is not among them, and the person is told so.
        """
        unreadable = UnreadableSessions()
        listed = await asyncio.to_thread(self._read_summaries, search.strip(), unreadable)
        self._state.emit_notes(
            f"session {terminal_line(id)}: it cannot be read; `steno verify {terminal_line(id)}` tells why"
            for id in unreadable.sessions
        )
        return listed

    def _read_summaries(self, search: str, unreadable: UnreadableSessions) -> list[SessionSummary]:
        store = self._state.config.store
        snippets: dict[str, str] | None = None
        if search:
            headers = readable_headers(store, unreadable)
            snippets = {header.id: "" for header in find_by_title(headers, search)}
            for hit in search_entries(
                store, headers, search, _MAX_HITS, unreadable, is_shown=False
            ):
                if not snippets.get(hit.session):
                    snippets[hit.session] = hit.snippet
        summaries = readable_summaries(
            store,
            unreadable,
            is_wanted=lambda header: snippets is None or header.id in snippets,
            is_shown=False,
        )
        return [
            self._build_summary(summary, (snippets or {}).get(summary.header.id, ""))
            for summary in summaries
        ]

    def _build_summary(self, summary: SessionOverview, snippet: str) -> SessionSummary:
        folder = session_folder(summary.header)
        return SessionSummary(
            id=summary.header.id,
            title=summary.title,
            entries=summary.entries,
            branches=len(summary.branches),
            changed_at=last_changed(summary),
            folder=folder,
            is_in_this_folder=folder == str(self._state.config.folder),
            snippet=snippet,
        )

    async def new(self, title: str = "") -> None:
        """Begin another session with what is said next."""
        state = self._state
        async with state.lock:
            state.check_idle()
            state.prepare_new_session(title.strip(), state.conversation.mode)
            state.emit_branch_changed()

    async def resume(self, session: str) -> None:
        """Go on with a session: by its id, the beginning of it, or `last`."""
        state = self._state
        async with state.lock:
            state.check_idle()
            opened = await asyncio.to_thread(self._read_stored, session.strip())
            await state.use_recorded_model(opened.conversation.model)
            state.resume(opened)
            state.emit_branch_changed()

    def _read_stored(self, name: str) -> ResumableSession:
        """Read all that it takes to go on: what cannot be read leaves everything as it was."""
        return self._state.read_session(self._state.config.store.open(self._find(name)))

    def _find(self, name: str) -> str:
        return find_session(self._state.config.store, name, is_shown=False)

    async def rename(self, session: str, title: str) -> None:
        """Give a session another title."""
        title = title.strip()
        if not title:
            raise InvalidValue(
                "the title is blank; say what the session is about",
                code="blank_title",
                place="rename",
            )
        id = await asyncio.to_thread(self._find, session)
        await asyncio.to_thread(self._state.config.store.rename, id, title)
        if id == self._state.conversation.id:
            self._state.title = title

    async def rename_current(self, title: str) -> None:
        """Give the session at hand another title, begun or not."""
        if self._state.is_recorded:
            await self.rename(self._state.conversation.id, title)
        else:
            self._state.title = title.strip()

    async def delete(self, session: str) -> None:
        """Remove a session for good, and what only it referred to; not the one at hand."""
        id = await asyncio.to_thread(self._find, session)
        if id == self._state.conversation.id:
            raise StenoError(
                "it is the one at hand; /new or /resume another one before",
                code="session_in_use",
                place="session",
            )
        await asyncio.to_thread(self._remove, id)

    def _remove(self, id: str) -> None:
        store = self._state.config.store
        store.remove(id)
        with suppress(LogError, InvalidDocument):  # what lies beside it goes another time
            store.collect_garbage()
