"""The terminal of steno on a stage: at a desk that does what a script says and keeps nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from bench.conversation import Turn
from bench.terminal_content import entries
from bench.terminal_stage import Act, painted
from steno import Usage
from steno.agent.session_events import BranchChanged, SessionEvent, SessionListener
from steno.messages.event import TextDelta
from steno.records.entry import Entry, Mode
from steno.render.items import SessionStatus
from steno.ui.tui.start import create_app


class _SessionDouble:
    """As much of a session as a transcript reads."""

    actor = "ada"
    is_running = False
    is_unfinished = False
    pending_calls = ()
    status = SessionStatus(
        session="long",
        title="Mend the parser",
        folder="~/parser",
        branch="main",
        model="offline/assistant",
        mode=Mode.ACT,
        usage=Usage(input_tokens=1_000, output_tokens=100),
        cost=None,
        context_tokens=4_200,
        context_limit=32_000,
    )

    def __init__(self) -> None:
        self.record: Sequence[Entry] = ()
        self.is_watched = asyncio.Event()
        self._watcher: SessionListener | None = None

    def subscribe(self, watcher: SessionListener) -> None:
        self._watcher = watcher
        self.is_watched.set()

    def happen(self, event: SessionEvent) -> None:
        assert self._watcher is not None
        self._watcher(event)

    def entries(self, branch: str | None = None) -> Sequence[Entry]:
        return self.record

    def find_image(self, entry: str, block: int) -> bytes | None:
        return None

    async def close(self) -> None:
        pass


class Steno:
    """What is done with it."""

    def __init__(self, act: Act) -> None:
        self._act = act
        self._session: _SessionDouble | None = None
        self._app = create_app(self._open_session)

    def run(self) -> None:
        """Do what there is to do, and leave."""
        self._app.run()
        if self._app.failure is not None:
            raise self._app.failure

    @asynccontextmanager
    async def _open_session(self, say: Callable[[str], None]) -> AsyncGenerator[Any]:
        self._session = _SessionDouble()
        acting = asyncio.create_task(self._play(self._session))
        yield self._session
        await acting

    async def _play(self, desk: _SessionDouble) -> None:
        await desk.is_watched.wait()
        try:
            await self._act(self)
        finally:
            self._app.action_leave()

    @property
    def drawn(self) -> int:
        """How many drawings of blocks there were so far."""
        return self._app.transcript.draw_count

    def prepare(self, turns: Sequence[Turn]) -> Sequence[Entry]:
        """Return what is given to `show`."""
        return entries(turns)

    async def show(self, record: Sequence[Entry]) -> None:
        """Show what is on record, until it is painted."""
        assert self._session is not None
        self._session.record = record
        self._session.happen(BranchChanged())
        await painted(self._app)

    async def say(self, text: str) -> None:
        """Let the model say a little more."""
        assert self._session is not None
        self._session.happen(TextDelta(0, text))

    async def finish(self) -> None:
        """Wait until all of it is to be seen."""
        await asyncio.sleep(0.5)
        await painted(self._app)

    async def page_up(self) -> None:
        """Scroll, until it is painted."""
        self._app.action_scroll_page(-1)
        await painted(self._app)
