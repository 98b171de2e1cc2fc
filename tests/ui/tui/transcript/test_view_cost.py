"""The cost of a long or fast transcript, as the number of drawings."""

from __future__ import annotations

import subprocess
import sys
import threading
from io import BytesIO

import pytest
from PIL import Image
from textual.pilot import Pilot

from steno.render.items import ImageLocation, ItemKind, TranscriptItem
from steno.ui.tui.transcript.view import ReadImageBytes, Transcript
from tests.ui.idle_clock import wait_until
from tests.ui.tui.transcript.transcript_app import (
    TranscriptApp,
    mixed_items,
    run_steps,
    screen,
    two_line_items,
)

ROWS = 20


@pytest.mark.requirement("S4-15")
def test_of_ten_thousand_blocks_those_in_sight_are_drawn() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        assert transcript.draw_count <= ROWS
        await pilot.press("home")
        assert screen(transcript)[0] == "  start 0"
        assert transcript.draw_count <= 2 * ROWS

    run_steps(steps, mixed_items(10_000))


@pytest.mark.parametrize("count", [10, 10_000])
def test_to_add_and_to_stream_costs_the_same_however_much_is_there(count: int) -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        before = transcript.draw_count
        answer = TranscriptItem(ItemKind.ANSWER, is_open=True)
        transcript.add_item(answer)
        for number in range(500):
            answer.append(f"word {number} ")
            transcript.update_item(answer)
        answer.append("\n\nlast")
        transcript.update_item(answer)
        await wait_until(pilot, lambda: "  last" in screen(transcript))
        # All that was said in one go is drawn in one go.
        assert transcript.draw_count == before + 1

    run_steps(steps, two_line_items(count))


def test_changes_outside_the_visible_area_are_not_drawn() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        answer = TranscriptItem(ItemKind.ANSWER, is_open=True)
        await pilot.press("home")
        before = transcript.draw_count
        transcript.add_item(answer)
        for number in range(50):
            answer.append(f"word {number} ")
            transcript.update_item(answer)
        await wait_until(pilot, lambda: app.behind == [1])
        assert transcript.draw_count == before
        transcript.update_item(TranscriptItem(ItemKind.NOTICE, body="of another conversation"))

    run_steps(steps, two_line_items(100))


def test_a_scrolled_screen_draws_only_what_comes_into_sight() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        before = transcript.draw_count
        await pilot.press("pageup")
        assert transcript.draw_count <= before + ROWS // 2 + 1
        before = transcript.draw_count
        await pilot.press("pagedown")
        assert transcript.draw_count == before

    run_steps(steps, two_line_items(1_000))


def test_another_width_draws_anew_only_what_is_in_sight() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        before = transcript.draw_count
        await pilot.resize_terminal(40, ROWS)
        await wait_until(pilot, lambda: transcript.size.width < 50)
        await pilot.pause()
        assert screen(transcript)[-2].rstrip().endswith("999")
        assert max(map(len, screen(transcript))) <= 40
        assert transcript.draw_count <= before + ROWS
        assert transcript.is_at_end

    long = [
        TranscriptItem(ItemKind.NOTICE, body=f"{'word ' * 15}{number}") for number in range(1_000)
    ]
    run_steps(steps, long)


def test_another_width_keeps_the_block_at_the_top() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        await pilot.press("home")
        transcript.scroll_to(y=transcript.virtual_size.height // 2)
        await pilot.pause()
        first = screen(transcript)[0]
        await pilot.resize_terminal(90, ROWS)
        await wait_until(pilot, lambda: transcript.size.width > 80)
        await pilot.pause()
        assert screen(transcript)[0] == first
        assert not transcript.is_at_end

    run_steps(steps, two_line_items(1_000))


def test_another_theme_draws_anew_in_its_colours_and_moves_nothing() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        await pilot.press("pageup")
        before, text = transcript.render_line(0), screen(transcript)
        app.theme = "textual-light"
        await wait_until(pilot, lambda: transcript.render_line(0) != before)
        assert screen(transcript) == text

    run_steps(steps, mixed_items(50))


def pixels() -> bytes:
    buffer = BytesIO()
    Image.new("RGB", (8, 8), (9, 9, 9)).save(buffer, "PNG")
    return buffer.getvalue()


LOOK = TranscriptItem(ItemKind.USER, body="look", images=(ImageLocation("e1", 0),))


def test_an_image_is_drawn_when_it_is_ready() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "  ▎ [image 8×8 png]" in screen(transcript))
        assert screen(transcript).count("  ▎ ▀▀▀▀▀▀▀▀") == 4

    run_steps(steps, [LOOK], image_of=lambda entry, number: pixels)


def test_without_colours_an_image_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "  ▎ [image 8×8 png]" in screen(transcript))
        assert not any("▀" in line for line in screen(transcript))

    run_steps(steps, [LOOK], image_of=lambda entry, number: pixels)


def test_only_images_that_are_looked_at_are_fetched_and_each_once() -> None:
    fetched: list[tuple[str, int]] = []

    def image_of(entry: str, number: int) -> ReadImageBytes:
        fetched.append((entry, number))
        return pixels

    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "  ▎ [image 8×8 png]" in screen(transcript))
        seen = set(fetched)
        assert ("e99", 0) in seen
        assert len(seen) < 20
        transcript.update_item(transcript.items[-1])
        await wait_until(pilot, lambda: not transcript._awaits_redraw)
        assert len(fetched) == len(seen)

    images = [(ImageLocation(f"e{number}", 0),) for number in range(100)]
    run_steps(
        steps,
        [TranscriptItem(ItemKind.USER, body="look", images=one) for one in images],
        image_of=image_of,
    )


def test_an_image_that_is_at_hand_later_is_drawn_then() -> None:
    at_hand: list[ReadImageBytes] = []

    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        assert not any("image" in line for line in screen(transcript))
        at_hand.append(pixels)
        transcript.update_item(LOOK)
        await wait_until(pilot, lambda: "  ▎ [image 8×8 png]" in screen(transcript))

    run_steps(steps, [LOOK], image_of=lambda entry, number: at_hand[0] if at_hand else None)


def test_an_image_is_read_in_a_thread_and_a_failure_is_reported() -> None:
    readers: list[int] = []

    def read() -> None:
        readers.append(threading.get_ident())

    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "  ▎ [image; cannot be read]" in screen(transcript))
        assert len(readers) == 1
        assert threading.get_ident() not in readers

    run_steps(steps, [LOOK], image_of=lambda entry, number: read)


def test_the_view_loads_nothing_that_an_empty_screen_does_without() -> None:
    heavy = ["rich.markdown", "markdown_it", "pygments", "PIL", "textual_image", "steno.agent"]
    program = (
        "import sys, steno.ui.tui.transcript.view;"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
