"""All sessions of the store.

Reads and writes of more than a line run in a thread, so that the screen stays responsive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final, NamedTuple

from steno.app.session_lookup import (
    UnreadableSessions,
    find_by_title,
    find_session,
    last_changed,
    readable_headers,
    readable_summaries,
    search_entries,
    session_folder,
)
from steno.app.session_state import SessionState
from steno.errors import InvalidDocument, InvalidValue, LogError, StenoError
from steno.ports import SetupNotice
from steno.render.terminal_text import terminal_line

_MAX_HITS: Final = 200
"""How many entries that contain the searched words are read."""


class SessionSummary(NamedTuple):
    """A session as a list shows it."""

    id: str
    title: str
    entries: int
    branches: int
    changed_at: datetime | None
    folder: str | None
    is_in_this_folder: bool
    """Whether it was started in this folder."""
    snippet: str = ""
    """The text around the first match of a search."""


class SessionList:
    """The sessions of this session's store."""

    def __init__(self, state: SessionState) -> None:
        self._state = state

    async def summaries(self, search: str = "") -> Sequence[SessionSummary]:
        """Return the sessions, the latest first; a search keeps those that contain all its words.

        Unreadable sessions are omitted and reported.
        """
        await self._state.open_store()
        unreadable = UnreadableSessions()
        summaries = await asyncio.to_thread(self._read_summaries, search.strip(), unreadable)
        for label in map(terminal_line, unreadable.sessions):
            text = f"session {label}: it cannot be read; `steno verify {label}` tells why"
            self._state.emit_notices([SetupNotice("session_unreadable", text)])
        return summaries

    def _read_summaries(self, search: str, unreadable: UnreadableSessions) -> list[SessionSummary]:
        store = self._state.store
        snippets: dict[str, str] | None = None
        if search:
            headers = readable_headers(store, unreadable)
            snippets = {header.id: "" for header in find_by_title(headers, search)}
            for hit in search_entries(store, headers, search, _MAX_HITS, unreadable):
                if not snippets.get(hit.session):
                    snippets[hit.session] = hit.snippet
        found = readable_summaries(
            store, unreadable, is_wanted=lambda header: snippets is None or header.id in snippets
        )
        this_folder = str(self._state.config.folder)
        return [
            SessionSummary(
                id=summary.header.id,
                title=summary.title,
                entries=summary.entries,
                branches=len(summary.branches),
                changed_at=last_changed(summary),
                folder=session_folder(summary.header),
                is_in_this_folder=session_folder(summary.header) == this_folder,
                snippet=(snippets or {}).get(summary.header.id, ""),
            )
            for summary in found
        ]

    async def new(self, title: str = "") -> None:
        """Start another session with the next prompt."""
        state = self._state
        async with state.lock:
            state.check_idle()
            state.prepare_new_session(title.strip(), state.conversation.mode)
            state.emit_branch_changed()

    async def resume(self, session: str) -> None:
        """Resume a session: by its id, the beginning of it, or `last`."""
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
        """Rename a session."""
        title = title.strip()
        if not title:
            raise InvalidValue(
                "the title is blank; say what the session is about",
                code="blank_title",
                place="rename",
            )
        id = await self._find(session)
        await asyncio.to_thread(self._state.store.rename, id, title)
        if id == self._state.conversation.id:
            self._state.title = title

    async def rename_current(self, title: str) -> None:
        """Rename the open session, recorded or not."""
        if self._state.is_recorded:
            await self.rename(self._state.conversation.id, title)
        else:
            self._state.title = title.strip()

    async def delete(self, session: str) -> None:
        """Delete a session with the blobs that only it uses; not the open one."""
        id = await self._find(session)
        if id == self._state.conversation.id:
            raise StenoError(
                "it is the one at hand; /new or /resume another one before",
                code="session_in_use",
                place="session",
            )
        await asyncio.to_thread(self._remove, id)

    def _remove(self, id: str) -> None:
        store = self._state.store
        store.remove(id)
        with suppress(LogError, InvalidDocument):  # its blobs are collected another time
            store.collect_garbage()
