"""Approvals in the full screen: every way to allow or deny a call."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from steno.errors import Conflict
from steno.ports import ApprovalDecision, GrantScope
from tests.ui.fake_session import FakeSession
from tests.ui.idle_clock import wait_until
from tests.ui.tui.approval_app import ApprovalApp, pending_call, queued_call, run_steps

pytestmark = pytest.mark.requirement("S2-18")
TOLD = "bash(git log -*) is allowed for {} until revoked; /permissions shows it"

# -- one call --------------------------------------------------------------------------------


def test_a_question_shows_the_call_once_and_all_choices() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        assert app.panel.display
        assert app.seen.count("git log -1") == 1
        for words in (
            "bash wants to execute ━",
            "│ git log -1\n │ in ~/project · at most 120 s",
            "o once",
            "s for session",
            "p for project",
            "u for user",
            "d deny",
            "r deny with reason",
        ):
            assert words in app.seen.replace("─", "━")
        for words in ("1 of 1", "all 1", "about", "arguments"):
            assert words not in app.seen

    run_steps(ApprovalApp(pending_call()), steps)


def test_without_a_question_there_is_no_panel() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        assert not app.panel.display
        app.ask(pending_call())
        assert app.panel.display
        app.ask()
        assert not app.panel.display

    run_steps(ApprovalApp(), steps)


def test_queued_calls_are_not_shown_before_an_approval_is_requested() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        assert not app.panel.display
        app.ask(pending_call(), queued_call("call_2"))
        assert app.panel.display

    run_steps(ApprovalApp(queued_call("call_2")), steps)


@pytest.mark.parametrize("size", [(60, 20), (100, 30), (120, 40)])
@pytest.mark.parametrize(
    ("letter", "verdict"),
    [
        ("o", ApprovalDecision(allowed=True, actor="ann")),
        ("d", ApprovalDecision(allowed=False, actor="ann")),
    ],
)
def test_a_letter_and_enter_decide_about_this_one_call(
    letter: str, verdict: ApprovalDecision, size: tuple[int, int]
) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, letter)
        assert app.decisions == []
        assert f"▸{letter} " in app.seen
        await app.press(pilot, "enter")
        assert app.decisions == [("call_1", verdict)]
        assert not app.panel.display
        assert app.focused is app.prompt

    run_steps(ApprovalApp(pending_call()), steps, size)


def test_arrows_go_from_choice_to_choice_and_round() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "right")
        assert "▸o once◂" in app.seen
        await app.press(pilot, "right")
        assert "▸s for session◂" in app.seen
        await app.press(pilot, "left", "left")
        assert "▸r deny with reason◂" in app.seen
        await app.press(pilot, "left", "enter")
        assert app.decisions == [("call_1", ApprovalDecision(allowed=False, actor="ann"))]

    run_steps(ApprovalApp(pending_call()), steps)


@pytest.mark.parametrize(
    ("letter", "scope", "place", "told"),
    [
        ("s", GrantScope.SESSION, "in this session", []),
        ("p", GrantScope.PROJECT, "for this folder until revoked", [TOLD.format("this folder")]),
        ("u", GrantScope.USER, "for all folders until revoked", [TOLD.format("all folders")]),
    ],
)
@pytest.mark.parametrize("size", [(60, 20), (120, 40)])
def test_a_wider_yes_shows_its_rule_and_where_it_is_kept_and_stores_exactly_that(
    letter: str, scope: GrantScope, place: str, told: list[str], size: tuple[int, int]
) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        assert "bash(git log -*)" not in app.seen
        await app.press(pilot, letter)
        seen = " ".join(app.seen.split())
        assert f"Enter store the rule bash(git log -*), valid {place} · e edit the rule" in seen
        assert app.decisions == []
        await app.press(pilot, "enter")
        decision = ApprovalDecision(allowed=True, actor="ann", scope=scope, rule="bash(git log -*)")
        assert app.decisions == [("call_1", decision)]
        assert app.notices == told

    run_steps(ApprovalApp(pending_call()), steps, size)


def test_a_rule_that_reaches_far_says_so_before_it_is_stored() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "s")
        assert "store the rule bash (matches every call of bash, with any arguments)" in app.seen

    run_steps(ApprovalApp(pending_call(rule="bash")), steps, (120, 30))


@pytest.mark.parametrize("key", ["e", "tab"])
def test_the_rule_can_be_edited_before_it_is_stored(key: str) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "p", key)
        assert "allow calls that match this rule, in this folder until revoked:" in app.seen
        assert "matches this call and similar ones" in app.seen
        await app.press(pilot, "backspace", "backspace", *"1)", apart_s=0.05)
        assert "bash(git log -1)" in app.seen
        await app.press(pilot, "enter")
        decision = ApprovalDecision(
            allowed=True, actor="ann", scope=GrantScope.PROJECT, rule="bash(git log -1)"
        )
        assert app.decisions == [("call_1", decision)]

    run_steps(ApprovalApp(pending_call()), steps)


@pytest.mark.parametrize("written", ["", "bash(git", "bash(a)b", "ba sh", "bash(git log -*) "])
def test_an_invalid_rule_cannot_be_stored_and_the_reason_is_shown(written: str) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "s", "e", "ctrl+u")
        await app.press(pilot, *[{" ": "space"}.get(key, key) for key in written])
        await app.press(pilot, "enter")
        assert app.decisions == []
        assert ("rule: " if written else "type a rule") in app.seen
        await app.press(pilot, "escape")
        assert "s for session" in app.seen
        assert app.focused is app.panel

    run_steps(ApprovalApp(pending_call()), steps)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("bash", "matches every call of bash"),
        ("bash(npm *)", "does not match this call"),
    ],
)
def test_a_rule_says_how_far_it_reaches_while_it_is_written(rule: str, words: str) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "u", "e", "ctrl+u")
        await app.press(pilot, *[{" ": "space"}.get(key, key) for key in rule])
        assert words in app.seen

    run_steps(ApprovalApp(pending_call()), steps)


def test_without_a_safe_rule_only_once_is_offered_with_the_reason() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        assert "this call can only be allowed once: no safe rule matches it" in app.seen
        assert "o once   d deny   r deny with reason" in app.seen
        for letter, label in (("s", "for session"), ("p", "for project"), ("u", "for user")):
            await app.press(pilot, letter)
            assert f"cannot allow this call {label}: no safe rule matches it" in app.seen
            await app.press(pilot, "enter")
            assert app.focused is app.panel
        await app.press(pilot, "right", "right")
        assert "▸d deny◂" in app.seen
        assert app.decisions == []

    run_steps(ApprovalApp(pending_call(rule="")), steps)


def test_a_reason_goes_with_the_denial() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "r", "enter")
        assert "reason for the denial" in app.seen
        await app.press(pilot, "enter")
        assert app.decisions == []
        assert "type a reason" in app.seen
        await app.press(pilot, *"on", "space", *"main", apart_s=0.05)
        await app.press(pilot, "enter")
        assert app.decisions == [
            ("call_1", ApprovalDecision(allowed=False, actor="ann", reason="on main"))
        ]

    run_steps(ApprovalApp(pending_call()), steps)


def test_escape_goes_back_step_by_step_and_denies_nothing() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "r", "enter", "x", "escape")
        assert app.focused is app.panel
        await app.press(pilot, "escape")
        assert app.prompt.has_focus
        assert app.panel.display
        assert "Ctrl+G decide · Esc interrupt" in app.seen
        assert app.decisions == []

    run_steps(ApprovalApp(pending_call()), steps)


def test_an_error_of_the_session_is_shown() -> None:
    class Refusing(FakeSession):
        def decide(self, call_id: str, decision: ApprovalDecision) -> None:
            raise Conflict("call_1: somebody has decided already")

    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "o", "enter")
        assert "call_1: somebody has decided already" in app.seen

    run_steps(ApprovalApp(pending_call(), session=Refusing()), steps)


# -- the mouse -------------------------------------------------------------------------------


def _place_of(app: ApprovalApp, words: str) -> tuple[int, int]:
    rows = app.seen.split("\n")
    y = next(y for y, row in enumerate(rows) if words in row)
    return rows[y].index(words), y


def test_a_click_highlights_and_another_one_later_decides() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        app.clock.now += 1
        await pilot.click(offset=_place_of(app, "o once"))
        assert "▸o once◂" in app.seen
        assert app.decisions == []
        app.clock.now += 1
        await pilot.click(offset=_place_of(app, "o once"))
        assert app.decisions == [("call_1", ApprovalDecision(allowed=True, actor="ann"))]

    run_steps(ApprovalApp(pending_call()), steps)


def test_a_double_click_decides_nothing() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        app.clock.now += 1
        place = _place_of(app, "o once")
        await pilot.click(offset=place)
        app.clock.now += 0.2
        await pilot.click(offset=place)
        assert app.decisions == []

    run_steps(ApprovalApp(pending_call()), steps)


def test_a_click_as_the_panel_appears_chooses_nothing() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        app.clock.now += 0.3
        await pilot.click(offset=_place_of(app, "o once"))
        assert "▸" not in app.seen

    run_steps(ApprovalApp(pending_call()), steps)


# -- focus -----------------------------------------------------------------------------------


def test_an_approval_takes_the_focus_of_an_empty_prompt_at_once() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        app.idle_s = 1.0
        app.ask(pending_call())
        await wait_until(pilot, lambda: app.focused is app.panel)

    run_steps(ApprovalApp(), steps)


def test_an_approval_takes_the_focus_once_the_user_stops_typing() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        app.ask(pending_call())
        for app.idle_s in (0.0, 0.5, 0.9):
            await pilot.pause(0.15)
            assert app.focused is app.prompt
        app.idle_s = 1.0
        await wait_until(pilot, lambda: app.focused is app.panel)

    run_steps(ApprovalApp(), steps)


def test_a_key_meant_for_the_prompt_as_the_focus_is_taken_chooses_nothing() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        app.ask(pending_call())
        app.clock.now += 60
        app.idle_s = 1.0
        await wait_until(pilot, lambda: app.focused is app.panel)
        await app.press(pilot, "o", apart_s=0.25)
        assert "▸" not in app.seen
        await app.press(pilot, "o", apart_s=0.25)
        assert "▸o once◂" in app.seen

    run_steps(ApprovalApp(), steps)


def test_after_returning_to_the_prompt_only_a_new_approval_takes_the_focus() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        app.idle_s = 60.0
        app.ask(pending_call())
        await wait_until(pilot, lambda: app.focused is app.panel)
        await app.press(pilot, "escape")
        app.ask(*app.session.pending_calls, queued_call("call_2"))
        await pilot.pause(0.3)
        assert app.focused is app.prompt
        app.ask(app.session.pending_calls[0], pending_call("call_2", "edit"))
        await wait_until(pilot, lambda: app.focused is app.panel)

    run_steps(ApprovalApp(), steps)


def test_an_approval_that_arrives_during_another_does_not_take_the_focus() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        app.idle_s = 60.0
        app.ask(*app.session.pending_calls, pending_call("call_2", "edit"))
        await app.press(pilot, "escape")
        await pilot.pause(0.3)
        assert app.focused is app.prompt

    run_steps(ApprovalApp(pending_call()), steps)


def test_the_next_question_calls_who_has_just_decided_about_the_last() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        app.idle_s = 60.0
        await app.press(pilot, "o", "enter")
        app.ask(pending_call("call_2", "edit"))
        await wait_until(pilot, lambda: app.focused is app.panel)

    run_steps(ApprovalApp(pending_call()), steps)


def test_a_question_does_not_take_the_focus_from_another_screen() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        app.push_screen(Screen())
        await pilot.pause()
        app.idle_s = 60.0
        app.ask(pending_call())
        await pilot.pause(0.3)
        assert app.screen_stack[0].focused is app.prompt
        app.pop_screen()
        await wait_until(pilot, lambda: app.focused is app.panel)

    run_steps(ApprovalApp(), steps)
