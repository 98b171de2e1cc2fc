"""A denial with a reason: all text typed after `r` is the reason."""

from __future__ import annotations

from typing import Any

import pytest
from textual.events import Key
from textual.pilot import Pilot

from steno.ports import ApprovalDecision
from tests.ui.tui.approval_app import ApprovalApp, pending_call, queued_call, run_steps

pytestmark = pytest.mark.requirement("S2-18")


@pytest.mark.parametrize("apart_s", [0.07, 0.45, 0.65, 1.5])
@pytest.mark.parametrize("written", ["no", "soda", "e", "v", "r", "a"])
def test_every_letter_behind_r_is_of_the_reason(written: str, apart_s: float) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "r", *written, apart_s=apart_s)
        await app.press(pilot, "enter")
        denied = ApprovalDecision(allowed=False, actor="ann", reason=written)
        assert app.decisions == [("call_1", denied)]

    run_steps(ApprovalApp(pending_call(), queued_call("call_2")), steps)


def test_letters_that_were_on_their_way_when_the_line_opened_are_of_the_reason() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        for key in ("r", "n", "o", "enter"):  # all of them before any is looked at
            app.panel.post_message(Key(key, key if len(key) == 1 else None))
        await pilot.pause()
        assert app.decisions == []
        assert "reason for the denial" in app.seen
        assert "no" in [row.strip() for row in app.seen.split("\n")]
        await app.press(pilot, "enter")
        denied = ApprovalDecision(allowed=False, actor="ann", reason="no")
        assert app.decisions == [("call_1", denied)]

    run_steps(ApprovalApp(pending_call()), steps)


def test_escape_goes_back_from_the_reason_to_the_choices() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "r", "x")
        assert "Enter deny and send the reason · Esc back" in app.seen
        await app.press(pilot, "escape")
        assert app.focused is app.panel
        assert "r deny with reason" in app.seen
        await app.press(pilot, "enter")
        assert app.decisions == []
        await app.press(pilot, "r")
        assert "type a reason" in app.seen

    run_steps(ApprovalApp(pending_call()), steps)


@pytest.mark.parametrize("apart_s", [0.45, 0.61, 0.9, 1.1])
@pytest.mark.parametrize("prose", ["no", "not so", "wo"])
def test_a_slow_no_is_no_yes(prose: str, apart_s: float) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        keys = ["space" if sign == " " else sign for sign in prose]
        await app.press(pilot, *keys, "enter", apart_s=apart_s)
        assert app.decisions == []

    run_steps(ApprovalApp(pending_call()), steps)


def test_an_r_that_came_too_soon_lets_no_letter_behind_it_choose() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        app.panel.focus()
        await pilot.pause()
        await app.press(pilot, "r", apart_s=0.5)
        await app.press(pilot, "n", "o", "enter", apart_s=0.65)
        assert app.decisions == []

    run_steps(ApprovalApp(pending_call()), steps)
