"""The list of all sessions in the store.

Larger reads and writes run in a thread, so that the screen stays responsive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from steno.app.session_edit import check_not_open, clean_title, remove_sessions, rename_session
from steno.app.session_lookup import (
    SessionSummary,
    UnreadableSessions,
    find_session,
    list_sessions,
    search_sessions,
)
from steno.app.session_state import SessionState
from steno.ports import SetupNotice
from steno.render.terminal_text import terminal_line

_MAX_HITS: Final = 200
"""The maximum number of entries that a search finds."""


class SessionList:
    """All sessions in the store of the open session."""

    def __init__(self, state: SessionState) -> None:
        self._state = state

    async def summaries(self, search: str = "") -> Sequence[SessionSummary]:
        """Return the sessions, the latest first.

        A search returns only sessions in which the title or an entry contains all words of
        `search`. Unreadable sessions are omitted and reported.
        """
        await self._state.open_store()
        unreadable = UnreadableSessions()
        summaries = await asyncio.to_thread(self._read_summaries, search.strip(), unreadable)
        for label in map(terminal_line, unreadable.sessions):
            text = f"session {label}: cannot be read; run `steno verify {label}` to see why"
            self._state.emit_notices([SetupNotice("session_unreadable", text)])
        return summaries

    def _read_summaries(self, text: str, unreadable: UnreadableSessions) -> list[SessionSummary]:
        store = self._state.store
        found = search_sessions(store, text, unreadable, limit=_MAX_HITS) if text else None
        folder = str(self._state.config.folder)
        return list_sessions(store, unreadable, folder=folder, search=found)

    async def new(self, title: str = "") -> None:
        """Leave the open session; the next prompt starts a new one."""
        state = self._state
        async with state.lock:
            state.check_idle()
            state.prepare_new_session(title.strip(), state.conversation.mode)
            state.emit_branch_changed()

    async def resume(self, session: str) -> None:
        """Resume a session by its id, a prefix of its id, or `last`."""
        state = self._state
        async with state.lock:
            state.check_idle()
            # Everything is read before anything changes: the session may be unreadable.
            id = await self._find(session.strip())
            stored = await asyncio.to_thread(lambda: state.read_session(state.store.open(id)))
            await state.use_recorded_model(stored.conversation.model)
            state.resume(stored)
            state.emit_branch_changed()

    async def _find(self, name: str) -> str:
        await self._state.open_store()
        return await asyncio.to_thread(find_session, self._state.store, name)

    async def rename(self, session: str, title: str) -> None:
        """Rename a session. Raises InvalidValue if the title is blank."""
        title = clean_title(title)
        id = await self._find(session)
        await asyncio.to_thread(rename_session, self._state.store, id, title)
        if id == self._state.conversation.id:
            self._state.title = title

    async def rename_current(self, title: str) -> None:
        """Rename the open session, recorded or not."""
        if self._state.is_recorded:
            await self.rename(self._state.conversation.id, title)
        else:
            self._state.title = clean_title(title)

    async def delete(self, session: str) -> None:
        """Delete a session, and old blobs that no session refers to; see `remove_sessions`.

        Raises StenoError if the session is open.
        """
        id = await self._find(session)
        async with self._state.lock:  # so that it is not opened in between
            check_not_open([id], self._state.conversation.id)
            await asyncio.to_thread(remove_sessions, self._state.store, [id])
