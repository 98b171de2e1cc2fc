"""Several pending calls, and changes while the user decides."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual.pilot import Pilot

from steno.errors import StenoError
from steno.ports import ApprovalDecision, CallPreview
from tests.ui.fake_session import FakeSession
from tests.ui.idle_clock import wait_until
from tests.ui.tui.approval_app import ApprovalApp, pending_call, queued_call, run_steps

pytestmark = pytest.mark.requirement("S2-18")


# -- several ---------------------------------------------------------------------------------


def test_several_calls_are_listed_and_gone_through_one_by_one() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        for words in (
            "▸ waiting  bash git log -1",
            "  waiting  edit",
            "  queued   write call_3.py",
        ):
            assert words in app.seen
        assert "1 of 3" in app.seen
        await app.press(pilot, "ctrl+n")
        assert "edit wants to execute · 2 of 3" in app.seen
        await app.press(pilot, "d", "enter", "o", "enter")
        assert app.decisions == [
            ("call_2", ApprovalDecision(allowed=False, actor="ann")),
            ("call_1", ApprovalDecision(allowed=True, actor="ann")),
        ]
        await app.press(pilot, "ctrl+p")
        assert "permission · write · queued ━" in app.seen

    run_steps(
        ApprovalApp(pending_call(), pending_call("call_2", "edit"), queued_call("call_3")), steps
    )


def test_a_queued_call_can_be_allowed_once_or_denied_ahead() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "ctrl+n")
        await wait_until(pilot, lambda: "│ preview of write" in app.seen)
        assert ("preview", "call_2") in app.session.asked
        await app.press(pilot, "p")
        assert "it is queued after another call" in app.seen
        await app.press(pilot, "enter")
        assert app.focused is app.panel
        await app.press(pilot, "o", "enter")
        assert app.decisions == [("call_2", ApprovalDecision(allowed=True, actor="ann"))]

    run_steps(ApprovalApp(pending_call(), queued_call("call_2")), steps)


@pytest.mark.parametrize("is_allowed", [True, False])
def test_an_early_decision_is_listed_and_not_requested_again(is_allowed: bool) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        decision = ApprovalDecision(allowed=is_allowed, actor="ann")
        app.ask(pending_call(), queued_call("call_2")._replace(decision=decision))
        await app.come_here(pilot)
        assert f"{'allowed  ' if is_allowed else 'denied   '}write call_2.py" in app.seen
        assert "all 2" not in app.seen
        await app.press(pilot, "ctrl+n")
        assert "bash wants to execute · 1 of 2" in app.seen

    run_steps(ApprovalApp(pending_call(), queued_call("call_2")), steps)


def test_a_preview_that_fails_leaves_the_arguments_to_read() -> None:
    class Blind(FakeSession):
        async def preview(self, call: object) -> CallPreview:
            raise StenoError("call_2.py: is not there")

    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "ctrl+n")
        await wait_until(pilot, lambda: "call_2.py: is not there" in app.seen)
        assert '│ path: "call_2.py"' in app.seen

    run_steps(ApprovalApp(pending_call(), queued_call("call_2"), session=Blind()), steps)


def test_a_preview_that_comes_late_takes_back_what_was_highlighted() -> None:
    class Slow(FakeSession):
        def __init__(self) -> None:
            super().__init__()
            self.is_ready = asyncio.Event()

        async def preview(self, call: object) -> CallPreview:
            await self.is_ready.wait()
            return CallPreview.of("removes everything")

    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "ctrl+n", "o")
        assert "▸o once◂" in app.seen
        slow.is_ready.set()
        await wait_until(pilot, lambda: "│ removes everything" in app.seen)
        assert "▸o once◂" not in app.seen
        await pilot.press("enter")
        assert slow.asked == []

    slow = Slow()
    run_steps(ApprovalApp(pending_call(), queued_call("call_2"), session=slow), steps)


def test_all_are_allowed_once_after_they_were_listed_and_confirmed() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "a", "enter")
        assert "allow these 2 calls once?" in app.seen
        assert "1 of 2: bash · execute" in app.seen
        assert '│ path: "call_2.py"' in app.seen
        await app.press(pilot, "enter", "enter")
        assert app.decisions == []
        await app.press(pilot, "y", "enter")
        yes = ApprovalDecision(allowed=True, actor="ann")
        assert app.decisions == [("call_2", yes), ("call_1", yes)]
        assert not app.panel.display

    run_steps(ApprovalApp(pending_call(), queued_call("call_2")), steps)


@pytest.mark.parametrize("keys", [("n", "enter"), ("escape",)])
def test_the_list_of_all_can_be_left_without_a_decision(keys: tuple[str, ...]) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "a", "enter", *keys)
        assert "o once" in app.seen
        assert app.focused is app.panel
        assert app.decisions == []

    run_steps(ApprovalApp(pending_call(), queued_call("call_2")), steps)


def test_only_what_was_listed_is_allowed_together() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "a", "enter", "y")
        app.ask(*app.session.pending_calls, pending_call("call_3", "edit"))
        assert "call_3" not in app.seen
        await app.press(pilot, "enter")
        assert {call_id for call_id, _ in app.decisions} == {"call_1", "call_2"}
        assert "edit wants to execute" in app.seen

    run_steps(ApprovalApp(pending_call(), queued_call("call_2")), steps)


def test_if_one_of_all_listed_calls_is_withdrawn_none_is_allowed() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "a", "enter", "y")
        app.ask(app.session.pending_calls[0])
        await pilot.pause()
        assert "nothing was decided" in app.seen
        await app.press(pilot, "enter")
        assert app.decisions == []

    run_steps(ApprovalApp(pending_call(), queued_call("call_2")), steps)


# -- what changes meanwhile ------------------------------------------------------------------


def test_a_new_question_does_not_change_what_is_being_decided() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "o")
        app.ask(pending_call("call_0", "edit"), *app.session.pending_calls)
        await pilot.pause()
        assert "▸o once◂" in app.seen
        assert "bash wants to execute · 2 of 2" in app.seen
        await app.press(pilot, "enter")
        assert app.decisions == [("call_1", ApprovalDecision(allowed=True, actor="ann"))]

    run_steps(ApprovalApp(pending_call()), steps)


def test_a_new_question_leaves_the_cursor_in_the_line_that_is_written() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "r", "enter", *"not")
        app.ask(*app.session.pending_calls, pending_call("call_2", "edit"))
        app.idle_s = 60.0
        app.panel.focus()
        await pilot.pause()
        await app.press(pilot, *"now", "enter")
        assert app.decisions == [
            ("call_1", ApprovalDecision(allowed=False, actor="ann", reason="notnow"))
        ]

    run_steps(ApprovalApp(pending_call()), steps)


@pytest.mark.parametrize("keys", [("r", "enter"), ("p", "e")])
def test_a_question_that_is_gone_takes_what_was_written_with_it(keys: tuple[str, str]) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, *keys, "x")
        app.ask(pending_call("call_2", "edit"))
        await pilot.pause()
        assert "nothing was decided" in app.seen
        assert "permission · edit wants to execute ━" in app.seen
        assert app.focused is app.panel
        await app.press(pilot, "enter")
        assert app.decisions == []

    run_steps(ApprovalApp(pending_call()), steps)


def test_after_the_last_approval_a_notice_is_shown_and_the_prompt_has_the_focus() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "r", "enter", "x")
        app.ask()
        await wait_until(pilot, lambda: "the request was withdrawn or has changed" in app.seen)
        await wait_until(pilot, lambda: app.focused is app.prompt)
        assert not app.panel.display

    run_steps(ApprovalApp(pending_call()), steps)


def test_a_decision_that_was_taken_elsewhere_is_not_taken_again() -> None:
    """The panel reads the pending calls right before the decision, even without an event."""

    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "o")
        app.session.pending_calls = [pending_call("call_2", "edit")]
        await app.press(pilot, "enter")
        assert app.decisions == []
        assert "nothing was decided" in app.seen

    run_steps(ApprovalApp(pending_call()), steps)


def test_another_call_of_the_same_id_is_another_call() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "o")
        app.ask(pending_call(arguments={"command": "git push"}, preview="git push"))
        await app.press(pilot, "enter")
        assert app.decisions == []
        assert "│ git push" in app.seen

    run_steps(ApprovalApp(pending_call()), steps)


def test_a_reason_written_ahead_holds_when_the_question_comes() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "ctrl+n", "r", "enter", *"no!")
        ahead = app.session.pending_calls[1]
        app.ask(pending_call("call_2", "write", arguments=dict(ahead.call.parsed)))
        await app.press(pilot, "enter")
        assert app.decisions == [
            ("call_2", ApprovalDecision(allowed=False, actor="ann", reason="no!"))
        ]

    run_steps(ApprovalApp(pending_call(), queued_call("call_2")), steps)


@pytest.mark.parametrize("width", [60, 90, 100])
def test_no_choice_stands_alone_in_a_row(width: int) -> None:
    app = ApprovalApp(pending_call(), queued_call("call_2"))

    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        rows = [line for line in app.seen.splitlines() if "o once" in line or "d deny" in line]
        assert [row.count("  ") >= 2 for row in rows] == [True] * (1 if width == 100 else 2)
        assert "all 2 once" in rows[-1]
        assert "deny with reason" in rows[-1]

    run_steps(app, steps, (width, 30))


@pytest.mark.parametrize("height", [20, 30])
def test_there_is_air_around_what_is_to_be_decided_where_there_is_room(height: int) -> None:
    app = ApprovalApp(pending_call())

    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        lines = app.seen.splitlines()
        [choices] = [number for number, line in enumerate(lines) if "o once" in line]
        [hint] = [number for number, line in enumerate(lines) if "Enter confirm" in line]
        assert [not lines[choices - 1], not lines[hint + 1]] == [height == 30] * 2
        assert app.panel.region.bottom == app.prompt.region.y

    run_steps(app, steps, (100, height))
