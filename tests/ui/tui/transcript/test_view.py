"""The transcript widget: following the end, folding, selecting, copying."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from steno.render.items import CallState, ItemKind, TranscriptItem
from steno.ui.tui.transcript.view import Transcript
from tests.ui.idle_clock import wait_until
from tests.ui.tui.transcript.transcript_app import (
    TranscriptApp,
    mixed_items,
    run_steps,
    screen,
    two_line_items,
)

# -- following ---------------------------------------------------------------------------------


@pytest.mark.requirement("S4-15")
def test_a_conversation_is_shown_from_its_end() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        assert screen(transcript)[-2:] == ["  ! number 99", ""]
        assert transcript.is_at_end

    run_steps(steps, two_line_items(100))


def test_the_scrollbar_says_from_the_beginning_that_the_end_is_seen() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        assert transcript.vertical_scrollbar.position == transcript.max_scroll_y > 0

    run_steps(steps, two_line_items(100))


def test_new_items_are_scrolled_into_view_at_the_end() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        for item in two_line_items(5, 100):
            transcript.add_item(item)
        await wait_until(pilot, lambda: "  ! number 104" in screen(transcript))
        assert transcript.is_at_end
        assert app.behind == []

    run_steps(steps, two_line_items(100))


def test_a_removed_item_leaves_no_gap() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        gone = transcript.items[98]
        transcript.remove_item(gone)
        transcript.remove_item(gone)
        expected = ["  ! number 97", "", "  ! number 99", ""]
        await wait_until(pilot, lambda: screen(transcript)[-4:] == expected)
        assert len(transcript.items) == 99
        transcript.add_item(gone)
        await wait_until(pilot, lambda: screen(transcript)[-2:] == ["  ! number 98", ""])

    run_steps(steps, two_line_items(100))


def test_the_last_block_of_all_can_be_dropped() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        transcript.remove_item(transcript.items[0])
        await wait_until(pilot, lambda: "number 0" not in "".join(screen(transcript)))
        transcript.add_item(two_line_items(1)[0])
        await wait_until(pilot, lambda: "  ! number 0" in screen(transcript))

    run_steps(steps, two_line_items(1))


def test_a_scrolled_up_view_stays_and_announces_new_items() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        await pilot.press("pageup", "pageup")
        before = screen(transcript)
        assert not transcript.is_at_end
        new = two_line_items(3, 100)
        for item in new:
            transcript.add_item(item)
        new[0].body += " and more"
        transcript.update_item(new[0])
        await wait_until(pilot, lambda: app.behind == [3])
        assert screen(transcript) == before

        await pilot.press("end")
        await wait_until(pilot, lambda: app.behind == [3, 0])
        assert transcript.is_at_end
        assert screen(transcript)[-2] == "  ! number 102"

    run_steps(steps, two_line_items(100))


def test_a_selected_item_stays_visible() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        await pilot.press("up")
        before = screen(transcript)
        for item in two_line_items(40, 100):
            transcript.add_item(item)
        await wait_until(pilot, lambda: app.behind == [40])
        assert screen(transcript) == before
        assert not transcript.is_at_end

    run_steps(steps, two_line_items(100))


def test_new_items_stop_counting_once_they_were_visible() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        await pilot.press("pageup")
        for item in two_line_items(40, 100):
            transcript.add_item(item)
        await wait_until(pilot, lambda: app.behind == [40])
        await pilot.press("pagedown", "pagedown")
        await wait_until(pilot, lambda: app.behind[-1] == 30)

    run_steps(steps, two_line_items(100))


def test_an_answer_that_grows_is_followed() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        answer = TranscriptItem(ItemKind.ANSWER, is_open=True)
        transcript.add_item(answer)
        for number in range(100):
            answer.append(f"part {number}\n\n")
            transcript.update_item(answer)
        await wait_until(pilot, lambda: "  part 99" in screen(transcript))
        assert transcript.is_at_end

    run_steps(steps, two_line_items(10))


def test_scrolling_up_through_blocks_never_drawn_shows_every_line_once() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        seen = screen(transcript)
        for _ in range(400):
            if transcript.scroll_offset.y == 0:
                break
            top = screen(transcript)[:-1]
            transcript.scroll_relative(y=-1)
            assert screen(transcript)[1:] == top
            seen.insert(0, screen(transcript)[0])
        expected = [
            line for number in range(30) for line in (f"  start {number}", f"  end {number}")
        ]
        assert [line for line in seen if "start" in line or "end" in line] == expected

    run_steps(steps, mixed_items(30))


def test_a_page_down_leads_back_to_where_a_page_up_began() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        for _ in range(8):
            before = screen(transcript)
            await pilot.press("pageup")
            higher = screen(transcript)
            await pilot.press("pagedown")
            assert screen(transcript) == before
            await pilot.press("pageup")
            assert screen(transcript) == higher

    run_steps(steps, mixed_items(60))


def test_home_and_end_lead_to_the_first_and_the_last_block() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        await pilot.press("home")
        assert screen(transcript)[0] == "  start 0"
        await pilot.press("end")
        await wait_until(pilot, lambda: screen(transcript)[-2] == "  end 199")
        assert transcript.is_at_end

    run_steps(steps, mixed_items(200))


def test_an_empty_conversation_has_nothing_to_go_to() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        await pilot.press("pageup", "up", "enter", "y", "e", "end")
        assert (transcript.selected, transcript.draw_count) == (None, 0)
        transcript.add_item(TranscriptItem(ItemKind.USER, body="hello"))
        await wait_until(pilot, lambda: "  ▎ hello" in screen(transcript))

    run_steps(steps, [])


# -- folding -----------------------------------------------------------------------------------


def call(number: int = 0) -> TranscriptItem:
    body = "\n".join(f"line {line}" for line in range(5))
    return TranscriptItem(
        ItemKind.CALL, head=f"call {number}", body=body, state=CallState.DONE, is_folded=True
    )


def test_a_block_is_folded_and_unfolded_by_keys() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        await pilot.press("up", "up")
        assert transcript.selected is transcript.items[1]
        await pilot.press("enter")
        assert "▌   line 4" in screen(transcript)
        await pilot.press("space")
        assert "▌ ✓ call 0 … 5 lines" in screen(transcript)

    run_steps(steps, [*two_line_items(1), call(), *two_line_items(1)])


def test_a_click_on_a_head_unfolds_and_its_head_stays_where_it_is() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        row = screen(transcript).index("  ✓ call 30 … 5 lines")
        await pilot.click(transcript, offset=(6, row))
        assert screen(transcript)[row : row + 2] == ["  ✓ call 30", "    line 0"]
        await pilot.click(transcript, offset=(6, row + 1))
        assert screen(transcript)[row : row + 2] == ["  ✓ call 30", "    line 0"]

    run_steps(steps, [*two_line_items(30), call(30), *two_line_items(5)])


def test_all_items_are_unfolded_at_once() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        transcript.fold_all(is_folded=False)
        assert "    line 4" in screen(transcript)
        assert "    let me" in screen(transcript)
        transcript.fold_all(is_folded=True)
        assert "    line 4" not in screen(transcript)
        assert "    let me" not in screen(transcript)

    run_steps(
        steps, [call(), call(1), TranscriptItem(ItemKind.THINKING, body="let me", is_folded=True)]
    )


# -- selecting ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("up", "down"), [("up", "down"), ("alt+up", "alt+down")])
def test_the_selection_moves_from_block_to_block_and_into_sight(up: str, down: str) -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        await pilot.press(*[up] * 15)
        assert transcript.selected is transcript.items[85]
        assert "▌ ! number 85" in screen(transcript)
        await pilot.press(*[down] * 17)
        assert transcript.selected is transcript.items[99]
        assert "▌ ! number 99" in screen(transcript)

    run_steps(steps, two_line_items(100))


def test_escape_leaves_the_selection_first_and_is_for_others_then() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        await pilot.press("up", "escape")
        assert transcript.selected is None
        assert app.escapes == 0
        await pilot.press("escape")
        assert app.escapes == 1

    run_steps(steps, two_line_items(3))


def test_the_selected_block_is_copied_harmless_and_whole() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        await pilot.press("up", "y")
        assert app.clipboard == "*text*\\x1b]0;x\n" + "line\n" * 3_000

    run_steps(steps, [TranscriptItem(ItemKind.ANSWER, body="*text*\x1b]0;x\n" + "line\n" * 3_000)])


def test_the_selected_block_is_chosen_by_a_key() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        await pilot.press("e")
        assert app.chosen == []
        await pilot.press("up", "up", "e")
        await pilot.pause()
        assert app.chosen == [transcript.items[0]]

    run_steps(steps, [TranscriptItem(ItemKind.USER, body="do it"), *two_line_items(1)])


def test_a_selection_that_is_shown_no_more_is_none() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        await pilot.press("up")
        transcript.show_items(two_line_items(2))
        assert transcript.selected is None

    run_steps(steps, two_line_items(3))


def test_text_is_marked_with_the_mouse_and_read_as_it_is_drawn() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        plain = transcript.render_line(2)
        await pilot.mouse_down(transcript, offset=(4, 0))
        await pilot.hover(transcript, offset=(8, 2))
        await pilot.mouse_up(transcript, offset=(8, 2))
        await pilot.pause()
        assert app.screen.get_selected_text() == "number 0\n\n! numbe"
        marked = transcript.render_line(2)
        assert marked.text == plain.text
        assert marked != plain

    run_steps(steps, two_line_items(3))


def test_selecting_all_selects_the_text_of_every_item() -> None:
    async def steps(app: TranscriptApp, transcript: Transcript, pilot: Pilot[None]) -> None:
        drawn = transcript.draw_count
        transcript.text_select_all()
        text = app.screen.get_selected_text()
        assert text is not None
        assert text.split("\n\n") == [f"number {number}" for number in range(500)]
        assert transcript.draw_count == drawn

    run_steps(steps, two_line_items(500))
