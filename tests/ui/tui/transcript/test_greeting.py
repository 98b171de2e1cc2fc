"""The greeting: an empty transcript shows how to start, until there is an item."""

from __future__ import annotations

import asyncio

import pytest
from textual.pilot import Pilot

from steno.render.items import ItemKind, TranscriptItem
from steno.ui.tui.transcript.view import GREETING_HINTS, Transcript
from tests.ui.idle_clock import wait_until
from tests.ui.tui.transcript.transcript_app import TranscriptApp, run_steps, screen


@pytest.mark.requirement("S4-15")
@pytest.mark.parametrize("size", [(60, 20), (120, 30)])
def test_an_empty_conversation_says_how_to_begin(size: tuple[int, int]) -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        shown = screen(transcript)
        assert shown[:3] == ["", *[f"  {line}" for line in GREETING_HINTS]]
        assert not any(shown[3:])
        for needed in ("Enter", "@file", "/help", "Esc", "Ctrl+D"):
            assert needed in "\n".join(shown)

    run_steps(steps, [], size=size)


def test_the_header_shows_folder_and_model_escaped() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        transcript.show_greeting("~/shop · a/model")
        assert screen(transcript)[1:3] == ["  ~/shop · a/model", f"  {GREETING_HINTS[0]}"]
        transcript.show_greeting("~/\x1b[2J[red]shop\nline")
        assert screen(transcript)[1] == "  ~/\\x1b[2J[red]shop line"
        transcript.show_greeting("~/" + "deep/" * 40)
        assert all(len(line) <= 60 for line in screen(transcript))

    run_steps(steps, [])


def test_it_is_gone_with_the_first_block_and_comes_back_with_another_session() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        transcript.show_greeting("~/shop · a/model")
        transcript.add_item(TranscriptItem(ItemKind.USER, body="hello"))
        await wait_until(pilot, lambda: "  ▎ hello" in screen(transcript))
        assert [line for line in screen(transcript) if line] == ["  ▎ hello"]
        transcript.show_items([])
        assert screen(transcript)[1] == "  ~/shop · a/model"

    run_steps(steps, [])


def test_an_empty_transcript_is_reported_only_after_loading() -> None:
    async def run() -> None:
        app = TranscriptApp()
        async with app.run_test(size=(60, 20)) as pilot:
            transcript = app.query_one(Transcript)
            await pilot.pause()
            assert screen(transcript) == [""] * 20
            transcript.show_items([])
            assert f"  {GREETING_HINTS[0]}" in screen(transcript)

    asyncio.run(run())
