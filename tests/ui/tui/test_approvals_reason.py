"""A no with its reason: what is typed behind `r` is the reason, and can be nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from textual.events import Key
from textual.pilot import Pilot

from steno.ports import ApprovalDecision
from tests.ui.tui.approval_app import ApprovalApp, pending_call, play, queued_call

pytestmark = pytest.mark.requirement("S2-18")


@pytest.mark.parametrize("apart_s", [0.07, 0.45, 0.65, 1.5])
@pytest.mark.parametrize("written", ["no", "soda", "e", "v", "r", "a"])
def test_every_letter_behind_r_is_of_the_reason(written: str, apart_s: float) -> None:
    async def scene(stage: ApprovalApp, pilot: Pilot[Any]) -> None:
        await stage.come_here(pilot)
        await stage.press(pilot, "r", *written, apart_s=apart_s)
        await stage.press(pilot, "enter")
        denied = ApprovalDecision(allowed=False, actor="ann", reason=written)
        assert stage.verdicts == [("call_1", denied)]

    play(ApprovalApp(pending_call(), queued_call("call_2")), scene)


def test_letters_that_were_on_their_way_when_the_line_opened_are_of_the_reason() -> None:
    async def scene(stage: ApprovalApp, pilot: Pilot[Any]) -> None:
        await stage.come_here(pilot)
        for key in ("r", "n", "o", "enter"):  # all of them before any is looked at
            stage.panel.post_message(Key(key, key if len(key) == 1 else None))
        await pilot.pause()
        assert stage.verdicts == []
        assert "why not?" in stage.seen
        assert "no" in [row.strip() for row in stage.seen.split("\n")]
        await stage.press(pilot, "enter")
        denied = ApprovalDecision(allowed=False, actor="ann", reason="no")
        assert stage.verdicts == [("call_1", denied)]

    play(ApprovalApp(pending_call()), scene)


def test_escape_goes_back_from_the_reason_to_the_choices() -> None:
    async def scene(stage: ApprovalApp, pilot: Pilot[Any]) -> None:
        await stage.come_here(pilot)
        await stage.press(pilot, "r", "x")
        assert "Enter denies, and the model reads this · Esc goes back" in stage.seen
        await stage.press(pilot, "escape")
        assert stage.focused is stage.panel
        assert "r deny with reason" in stage.seen
        await stage.press(pilot, "enter")
        assert stage.verdicts == []
        await stage.press(pilot, "r")
        assert "write a reason" in stage.seen

    play(ApprovalApp(pending_call()), scene)


@pytest.mark.parametrize("apart_s", [0.45, 0.61, 0.9, 1.1])
@pytest.mark.parametrize("prose", ["no", "not so", "wo"])
def test_a_slow_no_is_no_yes(prose: str, apart_s: float) -> None:
    async def scene(stage: ApprovalApp, pilot: Pilot[Any]) -> None:
        await stage.come_here(pilot)
        keys = ["space" if sign == " " else sign for sign in prose]
        await stage.press(pilot, *keys, "enter", apart_s=apart_s)
        assert stage.verdicts == []

    play(ApprovalApp(pending_call()), scene)


def test_an_r_that_came_too_soon_lets_no_letter_behind_it_choose() -> None:
    async def scene(stage: ApprovalApp, pilot: Pilot[Any]) -> None:
        stage.panel.focus()
        await pilot.pause()
        await stage.press(pilot, "r", apart_s=0.5)
        await stage.press(pilot, "n", "o", "enter", apart_s=0.65)
        assert stage.verdicts == []

    play(ApprovalApp(pending_call()), scene)
