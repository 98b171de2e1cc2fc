"""A user of the full screen: presses keys, and reads the screen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from steno.app.mcp import McpOptions
from steno.app.session import AgentSession
from steno.app.session_lookup import SessionStart
from steno.app.settings import load_settings
from steno.render.items import ItemKind, TranscriptItem
from steno.ui.tui.app import SessionOpener, TerminalApp
from steno.ui.tui.start import create_app
from tests.ui.idle_clock import LONG_ENOUGH_S, PATIENCE_S, ManualClock, settle, wait_until

SIZE: Final = (100, 30)
OFFLINE: Final = {"model": "offline"}


def opens_session(session: AgentSession) -> SessionOpener:
    """Return an opener of an existing session."""

    @asynccontextmanager
    async def opened(say: Callable[[str], None]) -> AsyncGenerator[AgentSession]:
        yield session

    return opened


def opens_real_session(
    folder: Path, *, flags: dict[str, Any] | None = None, **start: Any
) -> SessionOpener:
    """Return an opener of a real session with a store, settings and a model."""

    @asynccontextmanager
    async def opened(say: Callable[[str], None]) -> AsyncGenerator[AgentSession]:
        loaded = load_settings(folder, flags=flags or {})
        begin = SessionStart(folder, **start)
        async with AgentSession.open(
            loaded, begin, mcp_options=McpOptions(is_disabled=True), on_progress=say
        ) as session:
            yield session

    return opened


class ScreenUser:
    """A user of the full screen."""

    def __init__(self, app: TerminalApp, pilot: Pilot[int]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        """Type a text, and wait until the focused widget has received it."""
        names = {"\n": "ctrl+j", " ": "space"}
        await self.press(*[names.get(sign, sign) for sign in text])

    async def enter(self, text: str) -> None:
        """Type a text, close the suggestions, and send it."""
        self.app.prompt.focus()
        self.app.prompt.load(text)
        await self.press("enter")

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait for a condition with a time limit; on failure, show the screen."""
        try:
            await wait_until(self.pilot, lambda: is_so() or self.app.failure is not None)
        except AssertionError as exc:
            raise AssertionError(f"{exc}:\n{self.text}") from None
        if self.app.failure is not None and not is_so():
            raise self.app.failure

    async def until_it_ends(self) -> None:
        """Wait until the app exits."""
        await wait_until(self.pilot, lambda: not self.app.is_running)

    def let_pass(self, seconds: float = LONG_ENOUGH_S) -> None:
        """Advance the manual clock."""
        assert isinstance(self.app.clock, ManualClock)
        self.app.clock.now += seconds

    async def sees(self, *parts: str) -> str:
        """Wait until all texts are on the screen, and return the screen."""
        await self.until(lambda: all(part in self.text for part in parts))
        return self.text

    @property
    def lines(self) -> list[str]:
        """The lines of the topmost screen."""
        return [strip.text.rstrip() for strip in self.app.screen._compositor.render_strips()]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def status(self) -> str:
        """The text of the status line."""
        height = self.app.status_line.size.height
        return "\n".join(self.lines[-height:])

    @property
    def typed(self) -> str:
        """The text of the prompt."""
        return self.app.prompt.text

    def blocks(self, kind: ItemKind) -> list[TranscriptItem]:
        return [item for item in self.app.transcript.items if item.kind is kind]

    def said(self, kind: ItemKind) -> list[str]:
        return [item.join_chunks() for item in self.blocks(kind)]

    async def hold_still(self) -> None:
        """Stop the cursor from blinking and finish drawing, before a screenshot."""
        for widget in self.app.screen.query("Input, TextArea"):
            if isinstance(widget, Input | TextArea):
                widget.cursor_blink = False
        async with asyncio.timeout(PATIENCE_S):
            await self.pilot.wait_for_scheduled_animations()
            before = ""
            while before != (before := self.text):
                await asyncio.sleep(0.1)
                await settle(self.app)

    async def leave(self) -> None:
        """Quit, unless the app has exited."""
        if self.app.is_running:
            self.app.action_leave()
            await self.until_it_ends()

    async def choose(self, letter: str, label: str) -> None:
        """Select a choice after a pause: a key that comes too soon does not count."""
        await self.sees(f"{letter} {label}")
        await self.press("ctrl+g")
        self.let_pass()
        await self.press(letter)
        await self.sees(f"▸{letter} {label}◂")

    async def decide(self, letter: str, label: str) -> None:
        """Select a choice, and confirm it."""
        await self.choose(letter, label)
        self.let_pass()
        await self.press("enter")
        assert f"▸{letter} {label}" not in self.text


Steps = Callable[[ScreenUser], Awaitable[None]]


def run_with_screen(
    opener: SessionOpener | AgentSession,
    steps: Steps,
    *,
    size: tuple[int, int] = SIZE,
    theme: str = "steno-dark",
    history: Path | None = None,
    waits: bool = True,
) -> TerminalApp:
    """Run steps in the full screen once the session is open; return the app."""

    async def main() -> TerminalApp:
        open_session = opener if callable(opener) else opens_session(opener)
        app = create_app(open_session, theme=theme, history=history, clock=ManualClock())
        async with asyncio.timeout(3 * PATIENCE_S), app.run_test(size=size) as pilot:
            user = ScreenUser(app, pilot)
            if waits:
                await user.until(lambda: " ACT " in user.status or " PLAN " in user.status)
            await steps(user)
            await user.leave()
        return app

    return asyncio.run(main())
