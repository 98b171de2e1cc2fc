"""The full screen of steno with a scripted session that stores nothing."""

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
from steno.tools.calls import call_content, call_headline
from steno.ui.tui.start import create_app


class _SessionDouble:
    """The parts of a session that the transcript uses."""

    actor = "ada"
    is_running = False
    is_unfinished = False
    pending_calls = ()
    headline = staticmethod(call_headline)
    call_content = staticmethod(call_content)
    status = SessionStatus(
        session="long",
        title="Fix the parser",
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
    """The operations of the benchmark on the full screen."""

    def __init__(self, act: Act) -> None:
        self._act = act
        self._session: _SessionDouble | None = None
        self._app = create_app(self._open_session)

    def run(self) -> None:
        """Run the plan, and quit."""
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
        """The number of drawings of items so far."""
        return self._app.transcript.draw_count

    def prepare(self, turns: Sequence[Turn]) -> Sequence[Entry]:
        """Return the argument of `show`."""
        return entries(turns)

    async def show(self, record: Sequence[Entry]) -> None:
        """Show entries, and wait until they are painted."""
        assert self._session is not None
        self._session.record = record
        self._session.happen(BranchChanged())
        await painted(self._app)

    async def stream(self, text: str) -> None:
        """Stream a piece of the answer."""
        assert self._session is not None
        self._session.happen(TextDelta(0, text))

    async def finish(self) -> None:
        """Wait until the whole answer is visible."""
        await asyncio.sleep(0.5)
        await painted(self._app)

    async def page_up(self) -> None:
        """Scroll, and wait until the screen is painted."""
        self._app.action_scroll_page(-1)
        await painted(self._app)
