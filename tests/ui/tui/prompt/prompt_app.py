"""An app with only a prompt, for tests; it records the messages of the prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Paste
from textual.message import Message
from textual.pilot import Pilot
from textual.widgets import Static

from steno.app.commands.table import Suggestion
from steno.ui.prompt_state import PromptHistory
from steno.ui.tui.prompt import Popup, Prompt


class PromptApp(App[None]):
    CSS = "#above { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "interrupt")]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, history: Path | None = None) -> None:
        super().__init__()
        self.history = PromptHistory(history)
        self.sent: list[tuple[str, tuple[str | bytes, ...]]] = []
        self.as_typed: list[str] = []
        """What was sent, as it stood there."""
        self.typed: list[str] = []
        self.notices: list[str] = []
        self.interrupts = 0
        self.candidates: Sequence[Suggestion] | None = None
        """What is offered at once; None: a test answers by itself."""

    def compose(self) -> ComposeResult:
        yield Static("above", id="above")
        yield Prompt(self.history, id="prompt")

    def on_mount(self) -> None:
        self.prompt.focus()

    @property
    def prompt(self) -> Prompt:
        return self.query_one(Prompt)

    @property
    def popup(self) -> Popup:
        return self.query_one(Popup)

    @property
    def offered(self) -> list[str]:
        """The suggestions in the list, without their descriptions."""
        return self._popup_rows[:-1]

    @property
    def below_offers(self) -> str:
        """The footer of the list."""
        return "".join(self._popup_rows[-1:])

    @property
    def _popup_rows(self) -> list[str]:
        if not self.popup.display:
            return []
        rows = [self.popup.render_line(y).text for y in range(self.popup.size.height)]
        return [row.rstrip() for row in rows]

    def action_interrupt(self) -> None:
        self.interrupts += 1

    @on(Prompt.Submitted)
    def note_sent(self, message: Prompt.Submitted) -> None:
        self.sent.append((message.text, message.images))
        self.as_typed.append(message.typed)

    @on(Prompt.CompletionRequested)
    def note_typed(self, message: Prompt.CompletionRequested) -> None:
        self.typed.append(message.typed)
        if self.candidates is not None:
            fitting = [one for one in self.candidates if one.text.startswith(message.typed)]
            self.prompt.show_suggestions(message.typed, fitting)

    @on(Prompt.Notified)
    def note_told(self, message: Prompt.Notified) -> None:
        self.notices.append(message.text)


Flow: TypeAlias = Callable[[PromptApp, Pilot[None]], Awaitable[Any]]


def run_steps(
    flow: Flow, app: PromptApp | None = None, size: tuple[int, int] = (80, 24)
) -> PromptApp:
    """Run an app with steps, and return it."""
    app = PromptApp() if app is None else app

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await flow(app, pilot)
            await pilot.pause()

    asyncio.run(asyncio.wait_for(run(), 60))
    return app


async def type_in(pilot: Pilot[None], text: str) -> None:
    """Press a key for each character."""
    await pilot.press(*text)


async def paste(pilot: Pilot[None], text: str) -> None:
    """Paste as a terminal does."""
    message: Message = Paste(text)
    pilot.app.post_message(message)
    await pilot.pause()
