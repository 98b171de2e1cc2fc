"""Esc in the full screen interrupts operations before a run starts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from steno import StenoError
from steno.agent import PromptInput
from steno.agent.events import TurnStarted
from steno.agent.session_events import ErrorRaised, InputReturned
from steno.app.commands.report import Report, text_report
from steno.app.commands.table import Suggestion
from steno.app.session import AgentSession
from tests.ui.fake_session import FakeSession
from tests.ui.tui.app.screen_user import ScreenUser, run_with_screen

pytestmark = pytest.mark.requirement("S4-15")
STOPS = "Esc interrupt"


class PatientSession(FakeSession):
    """A session whose operations wait until they are interrupted."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped = asyncio.Event()

    def interrupt(self) -> None:
        super().interrupt()
        self.stopped.set()

    async def _wait(self) -> None:
        await self.stopped.wait()
        raise StenoError("interrupted")

    async def send(self, prompt: PromptInput) -> None:
        await self._wait()

    async def list_models(self) -> Sequence[Suggestion]:
        await self._wait()
        return []

    async def run_command(self, name: str, argument: str = "") -> Report:
        await self._wait()
        return text_report("done")


@pytest.mark.parametrize(
    ("typed", "comes_back"),
    [("Look at this.", True), ("/model", False), ("/model lab", True), ("/compact", False)],
)
def test_a_wait_shows_that_esc_stops_it_and_esc_does(typed: str, comes_back: bool) -> None:
    session = PatientSession()

    async def steps(user: ScreenUser) -> None:
        await user.enter(typed)
        await user.until(lambda: STOPS in user.status)
        await user.press("escape")
        await user.sees("✗ interrupted", "idle")
        assert user.typed == (typed if comes_back else "")

    run_with_screen(session, steps)


def test_esc_stops_what_is_read_and_leaves_what_is_typed_meanwhile() -> None:
    session = PatientSession()

    async def steps(user: ScreenUser) -> None:
        await user.enter("first")
        await user.until(lambda: STOPS in user.status)
        await user.type("second")
        await user.press("escape")
        await user.sees("✗ interrupted", "not sent")
        assert user.typed == "second"

    run_with_screen(session, steps)


def test_an_activity_that_cannot_be_stopped_has_no_stop_hint() -> None:
    session = PatientSession()

    async def steps(user: ScreenUser) -> None:
        await user.enter("/usage")
        await user.until(lambda: "/usage" in user.status)
        assert STOPS not in user.status
        session.stopped.set()
        await user.sees("✗ interrupted")

    run_with_screen(session, steps)


def test_words_that_wait_for_servers_say_that_esc_stops_them_and_come_back() -> None:
    session = FakeSession()
    says: list[Callable[[str], None]] = []

    @asynccontextmanager
    async def opened(say: Callable[[str], None]) -> AsyncGenerator[AgentSession]:
        says.append(say)
        yield session

    async def steps(user: ScreenUser) -> None:
        await user.enter("Hello?")
        session.is_running = True
        says[0]("waiting for MCP server slow")
        await user.until(lambda: "waiting for MCP server slow" in user.status)
        assert STOPS in user.status
        await user.press("escape")
        assert ("interrupt",) in session.asked
        session.is_running = False
        session.happen(
            InputReturned((PromptInput("Hello?"),)), ErrorRaised("interrupted before it began")
        )
        await user.sees("✗ interrupted before it began", "idle")
        assert user.typed == "Hello?"
        session.is_running = True
        session.happen(TurnStarted(1))
        await user.until(lambda: STOPS in user.status)
        session.is_running = False

    run_with_screen(opened, steps)
