"""An app with only a transcript, for tests that press keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.pilot import Pilot

from steno.render.items import ItemKind, TranscriptItem
from steno.ui.tui.transcript.view import FindImage, Transcript, find_no_image


class TranscriptApp(App[None]):
    """An app with only a transcript; it records the messages of the transcript."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "note_escape", "")]

    def __init__(self) -> None:
        super().__init__()
        self.behind: list[int] = []
        self.chosen: list[TranscriptItem] = []
        self.escapes = 0

    def compose(self) -> ComposeResult:
        yield Transcript(id="transcript")

    def on_mount(self) -> None:
        self.watch(self.query_one(Transcript), "unseen_count", self.note_unseen, init=False)

    def note_unseen(self, count: int) -> None:
        self.behind.append(count)

    def on_transcript_edit_requested(self, message: Transcript.EditRequested) -> None:
        self.chosen.append(message.item)

    def action_note_escape(self) -> None:
        self.escapes += 1


Steps = Callable[[TranscriptApp, Transcript, Pilot[None]], Awaitable[None]]


def run_steps(
    steps: Steps,
    items: Sequence[TranscriptItem],
    *,
    size: tuple[int, int] = (60, 20),
    image_of: FindImage = find_no_image,
) -> None:
    async def run() -> None:
        app = TranscriptApp()
        async with app.run_test(size=size) as pilot:
            transcript = app.query_one(Transcript)
            transcript.set_image_source(image_of)
            transcript.show_items(items)
            transcript.focus()
            await pilot.pause()
            await steps(app, transcript, pilot)

    asyncio.run(run())


def screen(transcript: Transcript) -> list[str]:
    rows = transcript.size.height
    return [transcript.render_line(row).text.rstrip() for row in range(rows)]


def two_line_items(count: int, start: int = 0) -> list[TranscriptItem]:
    """Return items of two lines each."""
    return [
        TranscriptItem(ItemKind.NOTICE, body=f"number {start + number}") for number in range(count)
    ]


def mixed_items(count: int) -> list[TranscriptItem]:
    """Return items whose heights cannot be estimated."""
    return [
        TranscriptItem(
            ItemKind.ANSWER,
            body=f"start {number}\n\n" + "- a\n\n- b\n\n\n\n" * (number % 4) + f"\n\nend {number}",
        )
        for number in range(count)
    ]
