"""Helpers for tests of a session: a user who records every event, and reads of the log."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from steno.agent import PromptInput, RunEnded
from steno.agent.session_events import SessionEvent
from steno.app.approval_queue import PendingCall
from steno.app.mcp import McpOptions
from steno.app.session import AgentSession
from steno.app.session_lookup import SessionStart
from steno.app.settings import load_settings
from steno.messages.message import SystemMessage
from steno.ports import ApprovalDecision
from steno.records.entry import Approval, Entry
from steno.render.session_items import ChangeSummarizer

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
LIMIT_S = 60.0
NO_SERVER = McpOptions(is_disabled=True)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a test coroutine with a time limit."""

    async def limited() -> T:
        async with asyncio.timeout(LIMIT_S):
            return await main

    return asyncio.run(limited())


class SessionUser:
    """A user of a session who records its events."""

    def __init__(self, session: AgentSession, *, verbose: bool = False) -> None:
        self.session = session
        self.events: list[SessionEvent] = []
        self._happened = asyncio.Event()
        session.subscribe(ChangeSummarizer(self._record, is_verbose=verbose))

    def _record(self, event: SessionEvent) -> None:
        self.events.append(event)
        self._happened.set()

    async def until(self, is_so: Callable[[], Any]) -> None:
        """Wait until a condition holds; it is checked after every event."""
        while not is_so():
            self._happened.clear()
            await self._happened.wait()

    def events_of(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]

    async def send(self, text: str, *images: str | bytes) -> RunEnded:
        """Send a prompt and wait until its run ends."""
        before = len(self.events_of(RunEnded))
        await self.session.send(PromptInput(text, images))
        return await self.end(before)

    async def end(self, before: int = 0) -> RunEnded:
        await self.until(lambda: len(self.events_of(RunEnded)) > before)
        return self.events_of(RunEnded)[before]

    async def asked(self, *calls: str) -> list[PendingCall]:
        """Wait until just these calls await a decision, the first of them asked about."""
        await self.until(lambda: [one.call.id for one in self.session.pending_calls] == list(calls))
        return list(self.session.pending_calls)

    def allow(self, call: str, **how: Any) -> None:
        self.session.decide(call, ApprovalDecision(allowed=True, actor=self.session.actor, **how))

    def deny(self, call: str, reason: str | None = None) -> None:
        self.session.decide(
            call, ApprovalDecision(allowed=False, actor=self.session.actor, reason=reason)
        )

    @property
    def texts(self) -> list[str]:
        """The text of every message on the active branch except the system message."""
        messages = [entry.message for entry in self.session.entries()]
        return [
            m.text or "" for m in messages if m is not None and not isinstance(m, SystemMessage)
        ]


@asynccontextmanager
async def open_user_session(
    folder: Path,
    *,
    keeps: bool = True,
    mode: str | None = None,
    flags: dict[str, Any] | None = None,
    outside: McpOptions = NO_SERVER,
    verbose: bool = False,
    **start: Any,
) -> AsyncGenerator[SessionUser]:
    """Open a session in a folder with a user who records its events."""
    loaded = load_settings(folder, flags=flags or {})
    begin = SessionStart(folder, **start)
    async with AgentSession.open(
        loaded, begin, is_persistent=keeps, mode=mode, mcp_options=outside
    ) as session:
        yield SessionUser(session, verbose=verbose)


def decisions(entries: Sequence[Entry]) -> list[tuple[str, str, str | None]]:
    """Return the recorded decisions in order: call, status and actor."""
    approvals = [entry.payload for entry in entries if isinstance(entry.payload, Approval)]
    return [(one.call_id, str(one.status), one.actor) for one in approvals]


def offered_mcp_tools(request: Mapping[str, Any]) -> list[str]:
    """Return the MCP tools of a request."""
    names = [tool["function"]["name"] for tool in request["tools"]]
    return [name for name in names if name.startswith("mcp__")]


async def kill_while_it_asks(project: Path) -> None:
    """Run `killed_session` until it waits for a decision, and kill it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.app.killed_session", str(project)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": ":".join(path for path in sys.path if path)},
    )
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"asked\n"
    finally:
        process.kill()
        await process.wait()
