"""Esc on the whole screen while something is asked of the desk that does not run yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from steno import StenoError
from steno.agent.events import TurnStarted
from steno.app.session import (
    AgentSession,
    CommandReply,
    ErrorRaised,
    InputReturned,
    PromptInput,
    Suggestion,
)
from tests.ui.fake_session import FakeSession
from tests.ui.tui.app.screen_user import ScreenUser, play_scene

pytestmark = pytest.mark.requirement("S4-15")
STOPS = "Esc interrupts"


class PatientDesk(FakeSession):
    """A desk that takes its time for everything, until it is interrupted."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped = asyncio.Event()

    def interrupt(self) -> None:
        super().interrupt()
        self.stopped.set()

    async def _wait(self) -> None:
        await self.stopped.wait()
        raise StenoError("interrupted")

    async def send(self, words: PromptInput) -> None:
        await self._wait()

    async def list_models(self) -> Sequence[Suggestion]:
        await self._wait()
        return []

    async def run_command(self, name: str, argument: str = "") -> CommandReply:
        await self._wait()
        return CommandReply("done")


@pytest.mark.parametrize(
    ("typed", "comes_back"),
    [("Look at this.", True), ("/model", False), ("/model lab", True), ("/compact", False)],
)
def test_what_is_waited_for_says_that_esc_stops_it_and_does(typed: str, comes_back: bool) -> None:
    desk = PatientDesk()

    async def scene(person: ScreenUser) -> None:
        await person.enter(typed)
        await person.until(lambda: STOPS in person.status)
        await person.press("escape")
        await person.sees("✗ interrupted", "idle")
        assert person.typed == (typed if comes_back else "")

    play_scene(desk, scene)


def test_esc_stops_what_is_read_and_leaves_what_is_typed_meanwhile() -> None:
    desk = PatientDesk()

    async def scene(person: ScreenUser) -> None:
        await person.enter("first")
        await person.until(lambda: STOPS in person.status)
        await person.type("second")
        await person.press("escape")
        await person.sees("✗ interrupted", "not said")
        assert person.typed == "second"

    play_scene(desk, scene)


def test_what_cannot_be_stopped_does_not_say_so() -> None:
    desk = PatientDesk()

    async def scene(person: ScreenUser) -> None:
        await person.enter("/usage")
        await person.until(lambda: "/usage" in person.status)
        assert STOPS not in person.status
        desk.stopped.set()
        await person.sees("✗ interrupted")

    play_scene(desk, scene)


def test_words_that_wait_for_servers_say_that_esc_stops_them_and_come_back() -> None:
    desk = FakeSession()
    says: list[Callable[[str], None]] = []

    @asynccontextmanager
    async def opened(say: Callable[[str], None]) -> AsyncGenerator[AgentSession]:
        says.append(say)
        yield desk

    async def scene(person: ScreenUser) -> None:
        await person.enter("Hello?")
        desk.is_running = True
        says[0]("waiting for MCP server slow")
        await person.until(lambda: "waiting for MCP server slow" in person.status)
        assert STOPS in person.status
        await person.press("escape")
        assert ("interrupt",) in desk.asked
        desk.is_running = False
        desk.happen(
            InputReturned((PromptInput("Hello?"),)), ErrorRaised("interrupted before it began")
        )
        await person.sees("✗ interrupted before it began", "idle")
        assert person.typed == "Hello?"
        desk.is_running = True
        desk.happen(TurnStarted(1))
        await person.until(lambda: STOPS in person.status)
        desk.is_running = False

    play_scene(opened, scene)
