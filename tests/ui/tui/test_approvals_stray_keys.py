"""No stray key approves a call: prose, held keys, pastes, keys pressed before the request."""

from __future__ import annotations

from typing import Any

import pytest
from textual.events import Paste
from textual.pilot import Pilot

from steno.ports import ApprovalDecision
from steno.ui.approval_state import KeyGuard, KeyRefusal
from tests.ui.idle_clock import ManualClock
from tests.ui.tui.approval_app import ApprovalApp, pending_call, queued_call, run_steps

pytestmark = pytest.mark.requirement("S2-18")

PROSE = "so do pause, d o s"


def keys_of(text: str) -> list[str]:
    named = {" ": "space", ",": "comma", ";": "semicolon", "\n": "enter"}
    return [named.get(sign, sign) for sign in text]


@pytest.mark.parametrize(
    ("apart_s", "ending"), [(0.03, " o\n"), (0.11, "o\n"), (0.25, "s\n\n"), (0.5, " a\ny\n")]
)
def test_prose_typed_as_the_panel_appears_decides_nothing(apart_s: float, ending: str) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        app.panel.focus()
        await pilot.pause()
        await app.press(pilot, *keys_of(PROSE + ending), apart_s=apart_s)
        assert app.decisions == []
        assert "▸o" not in app.seen

    run_steps(ApprovalApp(pending_call(), queued_call("call_2")), steps)


@pytest.mark.parametrize("apart_s", [0.03, 0.25, 0.5])
def test_prose_typed_into_a_panel_that_was_there_decides_nothing(apart_s: float) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, *keys_of("do so, sure\n"), apart_s=apart_s)
        assert app.decisions == []

    run_steps(ApprovalApp(pending_call()), steps)


@pytest.mark.parametrize("key", ["o", "d", "right", "enter"])
def test_a_key_that_was_on_its_way_is_ignored(key: str) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        app.panel.focus()
        await pilot.pause()
        await app.press(pilot, key, apart_s=0.59)
        assert "▸" not in app.seen
        assert "ignored" in app.seen or "nothing selected" in app.seen
        await app.press(pilot, "enter")
        assert app.decisions == []

    run_steps(ApprovalApp(pending_call()), steps)


def test_enter_alone_does_nothing_and_says_what_to_do() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "enter")
        assert app.decisions == []
        assert KeyRefusal.NOTHING_CHOSEN in app.seen

    run_steps(ApprovalApp(pending_call()), steps)


@pytest.mark.parametrize(("letter", "delay_s"), [("o", 0.66), ("s", 0.66), ("s", 0.25), ("a", 0.5)])
def test_enter_held_down_confirms_one_thing_and_no_more(letter: str, delay_s: float) -> None:
    """A held key is sent once, again after the delay of the keyboard, and then many times a second."""

    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, letter, "enter")
        await app.press(pilot, "enter", apart_s=delay_s)
        await app.press(pilot, *["enter"] * 30, apart_s=0.033)
        assert [call for call, _ in app.decisions] == ([] if letter == "a" else ["call_1"])

    run_steps(ApprovalApp(pending_call(), pending_call("call_2", "edit")), steps)


def test_a_held_enter_never_counts_twice_whatever_the_keyboard_does() -> None:
    for delay_s in (0.2, 0.25, 0.4, 0.5, 0.6, 0.66, 0.75):
        clock = ManualClock()
        attention = KeyGuard(clock)
        clock.now += 1
        assert attention.check_enter() is None
        attention.content_changed()
        for pause_s in (delay_s, *[0.03] * 100):
            clock.now += pause_s
            assert attention.check_enter() is KeyRefusal.HELD_DOWN
        clock.now += 1
        assert attention.check_enter() is None


def test_letters_count_only_one_at_a_time_however_slow_the_prose() -> None:
    for apart_s in (0.01, 0.1, 0.3, 0.59):
        clock = ManualClock()
        attention = KeyGuard(clock)
        clock.now += 1
        assert attention.check_letter("x") is None
        for letter in "oxxo" * 25:
            clock.now += apart_s
            assert attention.check_letter(letter) is KeyRefusal.PROSE


def test_a_pause_while_typing_text_selects_no_choice() -> None:
    clock = ManualClock()
    attention = KeyGuard(clock)
    clock.now += 1
    attention.check_letter("t")
    clock.now += 0.2
    attention.check_letter("o")
    clock.now += 1.1
    assert attention.check_letter("o") is KeyRefusal.PROSE
    clock.now += 1.2
    assert attention.check_letter("o") is None


@pytest.mark.parametrize("pause_s", [0.07, 0.1, 0.2, 0.5, 3.0])
def test_a_letter_and_enter_count_at_the_first_try_once_there_was_time_to_read(
    pause_s: float,
) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        app.clock.now += 1
        app.panel.focus()
        await pilot.pause()
        for number in range(3):
            await app.press(pilot, "o", apart_s=0.61)
            await app.press(pilot, "enter", apart_s=pause_s)
            assert len(app.decisions) == number + 1

    run_steps(ApprovalApp(*[pending_call(f"call_{n}", "edit") for n in range(3)]), steps)


def test_a_letter_pressed_too_soon_can_be_pressed_again() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        app.panel.focus()
        await pilot.pause()
        await app.press(pilot, "o", apart_s=0.5)
        assert KeyRefusal.TOO_SOON in app.seen
        await app.press(pilot, "o", apart_s=0.25)
        assert "▸o once◂" in app.seen

    run_steps(ApprovalApp(pending_call()), steps)


def test_an_ignored_key_is_reported_with_the_reason() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "o")
        await app.press(pilot, "enter", apart_s=0.03)
        assert KeyRefusal.PASTED_ENTER in app.seen
        await app.press(pilot, "enter", apart_s=0.7)
        assert KeyRefusal.HELD_DOWN in app.seen
        await app.press(pilot, "s")
        await app.press(pilot, "d", apart_s=0.3)
        assert KeyRefusal.PROSE in app.seen
        await app.press(pilot, "s", apart_s=1.5)
        await app.press(pilot, "tab")
        await app.press(pilot, "enter", apart_s=0.03)
        assert KeyRefusal.PASTED_ENTER in app.seen
        await app.press(pilot, "enter", apart_s=0.7)
        assert KeyRefusal.HELD_DOWN in app.seen
        assert app.decisions == []

    run_steps(ApprovalApp(pending_call()), steps)


def test_enter_right_behind_a_letter_clears_the_choice() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "o")
        await app.press(pilot, "enter", apart_s=0.05)
        assert app.decisions == []
        assert "▸o" not in app.seen
        await app.press(pilot, "enter")
        assert app.decisions == []

    run_steps(ApprovalApp(pending_call()), steps)


@pytest.mark.parametrize("key", ["space", "full_stop", "s", "d", "ü"])
def test_any_further_character_clears_the_choice(key: str) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "o")
        await app.press(pilot, key, apart_s=0.3)
        assert "▸" not in app.seen
        await app.press(pilot, "enter")
        assert app.decisions == []

    run_steps(ApprovalApp(pending_call()), steps)


def test_another_letter_chooses_again_after_a_pause() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "o", "d")
        assert "▸d deny◂" in app.seen
        await app.press(pilot, "x")
        assert "▸" not in app.seen

    run_steps(ApprovalApp(pending_call()), steps)


@pytest.mark.parametrize("text", ["o", "o\r\n", "allow once\n"])
def test_a_paste_decides_nothing(text: str) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "o")
        app.post_message(Paste(text))
        await pilot.pause()
        await pilot.pause()
        assert KeyRefusal.PASTE in app.seen
        assert "▸" not in app.seen
        await app.press(pilot, "enter")
        assert app.decisions == []

    run_steps(ApprovalApp(pending_call()), steps)


@pytest.mark.parametrize("keys", [("p", "tab"), ("r", "enter")])
def test_a_paste_into_a_line_waits_for_enter_and_stays_printable(keys: tuple[str, str]) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, *keys, "ctrl+u")
        app.post_message(Paste("bash\x1b[31m\u202e\nenter\n"))
        await pilot.pause()
        await pilot.pause()
        assert app.decisions == []
        assert "\x1b" not in app.seen
        assert "\\u202e" in app.seen

    run_steps(ApprovalApp(pending_call()), steps)


def test_a_paste_that_comes_as_keys_is_not_taken_for_an_answer() -> None:
    """Some terminals do not support bracketed paste."""

    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "r", "enter")
        await app.press(pilot, *keys_of("first\nsecond\n"), apart_s=0.001)
        assert app.decisions == []
        assert "firstsecond" in app.seen
        await app.press(pilot, "enter")
        assert app.decisions == [
            ("call_1", ApprovalDecision(allowed=False, actor="ann", reason="firstsecond"))
        ]

    run_steps(ApprovalApp(pending_call()), steps)


def test_the_next_question_has_to_be_read_too() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "o", "enter")
        await app.press(pilot, "o", apart_s=0.3)
        await app.press(pilot, "enter", apart_s=0.2)
        assert [call_id for call_id, _ in app.decisions] == ["call_1"]
        assert "edit wants to execute" in app.seen

    run_steps(ApprovalApp(pending_call(), pending_call("call_2", "edit")), steps)


def test_a_choice_is_forgotten_when_the_person_goes_elsewhere() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "o")
        app.prompt.focus()
        await pilot.pause()
        await app.come_here(pilot)
        await app.press(pilot, "enter")
        assert app.decisions == []

    run_steps(ApprovalApp(pending_call()), steps)


def test_the_keys_of_a_prompt_that_has_the_focus_decide_nothing() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.press(pilot, "o", "enter")
        assert app.decisions == []
        assert app.prompt.value == "o"

    run_steps(ApprovalApp(pending_call()), steps)
