"""The keys of the full screen, its start and its exit."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
from textual.events import Paste

from steno.agent import PromptInput
from steno.agent.events import EndReason
from steno.agent.session_events import PendingCallsChanged
from steno.app.session import AgentSession
from steno.errors import Missing
from steno.records.entry import Mode
from steno.render.items import ItemKind
from steno.ui.tui.app import TerminalApp
from steno.ui.tui.start import run_terminal
from tests.ui.fake_session import FakeSession
from tests.ui.tui.app.agent_actions import begin_run, end_run
from tests.ui.tui.app.screen_user import ScreenUser, run_with_screen
from tests.ui.tui.approval_app import pending_call
from tests.ui.tui.tree_app import alternating_messages

pytestmark = pytest.mark.requirement("S4-15")


# -- beginning and end ---------------------------------------------------------------------------


def test_a_desk_that_cannot_be_opened_ends_the_terminal_with_its_error() -> None:
    @asynccontextmanager
    async def opened(say: Callable[[str], None]) -> AsyncGenerator[AgentSession]:
        raise Missing("session x: unknown session")
        yield

    async def steps(user: ScreenUser) -> None:
        await user.until_it_ends()

    app = run_with_screen(opened, steps, waits=False)
    assert str(app.failure) == "session x: unknown session"
    assert (app.exit_status, app.return_value) == (1, 1)


@pytest.mark.parametrize("fault", [Missing("session x: unknown session"), ValueError("a fault")])
def test_the_error_is_raised_to_the_caller_of_the_terminal(
    fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def opened(say: Callable[[str], None]) -> AsyncGenerator[AgentSession]:
        raise fault
        yield

    def run(app: TerminalApp) -> None:
        async def main() -> None:
            async with app.run_test() as pilot:
                await ScreenUser(app, pilot).until(lambda: app.failure is not None)

        asyncio.run(main())

    monkeypatch.setattr("textual.app.App.run", run)  # there is no terminal to run in
    with pytest.raises(type(fault), match=str(fault)):
        run_terminal(opened, theme="steno-dark", history=None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_closes_the_desk_and_is_the_exit_status(number: signal.Signals) -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        os.kill(os.getpid(), number)
        await user.until_it_ends()

    app = run_with_screen(session, steps)
    assert session.is_closed
    assert app.exit_status == 128 + number


def test_the_desk_is_closed_behind_who_leaves() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        await user.enter("/quit")
        await user.until_it_ends()

    app = run_with_screen(session, steps)
    assert session.is_closed
    assert (app.exit_status, app.failure) == (0, None)


# -- keys ----------------------------------------------------------------------------------------


def test_escape_interrupts() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        begin_run(session, "hello?")
        await user.press("escape")
        assert session.asked == [("interrupt",)]

    run_with_screen(session, steps)


def test_shift_tab_goes_from_act_to_plan_and_back() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        await user.press("shift+tab")
        await user.until(lambda: " PLAN " in user.status)
        await user.press("shift+tab")
        await user.until(lambda: " ACT " in user.status)
        assert session.asked == [("change_mode", Mode.PLAN), ("change_mode", Mode.ACT)]

    run_with_screen(session, steps)


def test_ctrl_c_clears_then_interrupts_and_leaves_only_twice() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        await user.type("never mind")
        await user.press("ctrl+c")
        assert (user.typed, session.asked) == ("", [])
        begin_run(session, "hello?")
        await user.press("ctrl+c")
        assert session.asked == [("interrupt",)]
        end_run(session, EndReason.INTERRUPTED)
        for _ in range(2):
            await user.press("ctrl+c")
            await user.sees("press Ctrl+C again to quit")
            user.let_pass(2.0)  # too long to be meant as one
        assert not session.is_closed
        await user.press("ctrl+c")
        user.let_pass(1.9)
        await user.press("ctrl+c")
        await user.until_it_ends()
        assert session.is_closed

    run_with_screen(session, steps)


def test_ctrl_c_copies_what_is_marked_and_the_next_one_interrupts() -> None:
    session = FakeSession(alternating_messages("how do I list files", "use ls"))

    async def steps(user: ScreenUser) -> None:
        begin_run(session, "and hidden ones?")
        await user.sees("hidden ones")
        user.app.transcript.text_select_all()
        await user.press("ctrl+c")
        assert "use ls" in user.app.clipboard
        assert session.asked == []
        await user.press("ctrl+c")
        assert session.asked == [("interrupt",)]
        end_run(session)

    run_with_screen(session, steps)


def test_ctrl_c_on_another_screen_leaves_what_was_typed_alone() -> None:
    session = FakeSession(alternating_messages("one?", "One."))

    async def steps(user: ScreenUser) -> None:
        await user.type("half a thought")
        await user.press("ctrl+t")
        await user.sees("Tree of")
        await user.press("ctrl+c")
        await user.press("escape")
        await user.until(lambda: len(user.app.screen_stack) == 1)
        assert user.typed == "half a thought"

    run_with_screen(session, steps)


def test_ctrl_d_leaves_a_blank_prompt_and_else_deletes() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        await user.type("ab")
        await user.press("left", "ctrl+d")
        assert user.typed == "a"
        await user.press("backspace", "ctrl+d")
        await user.until(lambda: session.is_closed)

    run_with_screen(session, steps)


def test_a_prompt_can_be_edited_in_the_transcript() -> None:
    session = FakeSession(
        alternating_messages("how do I list files", "use ls", "and hidden ones", "use ls -a")
    )

    async def steps(user: ScreenUser) -> None:
        await user.press("alt+up", "e")
        await user.sees("only your own messages can be edited")
        await user.press("alt+up", "e")
        await user.until(lambda: user.typed == "and hidden ones")
        assert session.asked[0][0] == "fork_before"
        await user.until(lambda: "use ls -a" not in user.text)
        await user.press("enter")
        await user.until(lambda: session.asked[-1] == ("send", PromptInput("and hidden ones")))

    run_with_screen(session, steps)


def test_copied_words_are_those_of_the_block() -> None:
    session = FakeSession(alternating_messages("how do I list files", "use **ls**"))

    async def steps(user: ScreenUser) -> None:
        await user.press("alt+up", "y")
        assert user.app.clipboard == "use **ls**"
        await user.press("escape")
        assert user.app.prompt.has_focus_within

    run_with_screen(session, steps)


# -- where keys go -------------------------------------------------------------------------------

BLOCK_KEYS = "Enter fold · y copy · e edit and resend · Esc back"


@pytest.mark.parametrize("size", [(60, 20), (100, 30)])
def test_key_hints_are_shown_while_an_item_is_selected(size: tuple[int, int]) -> None:
    session = FakeSession(alternating_messages("how do I list files", "use ls"))

    async def steps(user: ScreenUser) -> None:
        await user.press("alt+up")
        await user.until(lambda: BLOCK_KEYS in user.status)
        begin_run(session, "and hidden ones?")
        await user.press("up", "escape")
        await user.until(lambda: BLOCK_KEYS not in user.status)
        assert user.app.transcript.selected is None
        assert user.app.prompt.has_focus_within
        assert session.asked == []
        end_run(session)

    run_with_screen(session, steps, size=size)


@pytest.mark.parametrize("keys", [("alt+up",), ("alt+up", "up")])
def test_text_typed_while_an_item_is_selected_goes_to_the_prompt(keys: tuple[str, ...]) -> None:
    session = FakeSession(alternating_messages("how do I list files", "use ls"))

    async def steps(user: ScreenUser) -> None:
        await user.press(*keys)
        await user.type("say yes")
        assert user.typed == "say yes"
        assert user.app.transcript.selected is None
        await user.until(lambda: BLOCK_KEYS not in user.status)

    run_with_screen(session, steps)


def test_text_typed_or_pasted_in_the_transcript_goes_to_the_prompt() -> None:
    session = FakeSession(alternating_messages("how do I list files", "use ls"))

    async def steps(user: ScreenUser) -> None:
        user.app.transcript.focus()
        await user.pilot.pause()
        await user.type("yes, ")
        user.app.transcript.focus()
        await user.pilot.pause()
        user.app.post_message(Paste("please"))
        await user.until(lambda: user.typed == "yes, please")

    run_with_screen(session, steps)


def test_tab_does_nothing_where_there_is_nothing_to_complete_or_decide() -> None:
    async def steps(user: ScreenUser) -> None:
        await user.type("one")
        await user.press("tab")
        await user.type(" two")
        assert user.typed == "one two"

    run_with_screen(FakeSession(alternating_messages("one?", "One.")), steps)


@pytest.mark.requirement("S2-18")
def test_tab_leads_to_an_open_question_and_back() -> None:
    session = FakeSession(alternating_messages("list files"))

    async def steps(user: ScreenUser) -> None:
        begin_run(session, "go on")
        session.pending_calls = [pending_call()]
        session.happen(PendingCallsChanged())
        await user.sees("letter or ←→ select")  # the panel takes the focus from a blank prompt
        await user.press("escape")
        await user.sees("Ctrl+G decide · Esc interrupt")
        await user.press("tab")
        await user.sees("letter or ←→ select")
        await user.press("tab")
        await user.sees("Ctrl+G decide · Esc interrupt")
        assert user.app.prompt.has_focus_within
        end_run(session)

    run_with_screen(session, steps)


@pytest.mark.requirement("S2-18")
def test_a_permanent_rule_is_reported_with_the_command_that_lists_it() -> None:
    session = FakeSession(alternating_messages("list files"))

    async def steps(user: ScreenUser) -> None:
        begin_run(session, "go on")
        session.pending_calls = [pending_call()]
        session.happen(PendingCallsChanged())
        await user.decide("p", "for project")
        await user.until(lambda: user.said(ItemKind.NOTICE))
        text = "bash(git log -*) is allowed for this folder until revoked; /permissions shows it"
        assert user.said(ItemKind.NOTICE) == [text]
        end_run(session)

    run_with_screen(session, steps)


def test_a_run_shows_that_escape_interrupts_it() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        begin_run(session, "hello?")
        await user.until(lambda: "waiting for offline/steno · Esc interrupt" in user.status)
        end_run(session)
        await user.until(lambda: "Esc" not in user.status)

    run_with_screen(session, steps, size=(120, 30))


def test_escape_clears_a_prompt_where_nothing_runs_and_the_arrow_brings_it_back() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        session.replies["nonsense"] = Missing("command: there is no /nonsense")
        await user.enter("/nonsense")
        await user.until(lambda: user.typed == "/nonsense")
        await user.press("escape")
        assert user.typed == ""
        await user.press("up")
        assert user.typed == "/nonsense"

    run_with_screen(session, steps)


@pytest.mark.parametrize("word", ["exit", "quit"])
def test_a_prompt_of_quit_or_exit_explains_the_command(word: str) -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        await user.enter(word)
        await user.sees("type /quit to leave")
        assert session.asked == []
        assert user.typed == ""
        await user.enter(f"{word} the loop when it is done")
        await user.until(lambda: session.asked)

    run_with_screen(session, steps)
