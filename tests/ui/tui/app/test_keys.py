"""Which key does what on the whole screen, and how it begins and ends."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
from textual.events import Paste

from steno.agent.events import EndReason
from steno.app.session import AgentSession, PendingCallsChanged, PromptInput
from steno.errors import Missing
from steno.records.entry import Mode
from steno.render.items import ItemKind
from steno.ui.tui.app import run_terminal
from steno.ui.tui.terminal_app import TerminalApp
from tests.ui.fake_session import FakeSession
from tests.ui.tui.app.agent_actions import begin_run, end_run
from tests.ui.tui.app.screen_user import ScreenUser, play_scene
from tests.ui.tui.approval_app import pending_call
from tests.ui.tui.tree_app import alternating_messages

pytestmark = pytest.mark.requirement("S4-15")


# -- beginning and end ---------------------------------------------------------------------------


def test_a_desk_that_cannot_be_opened_ends_the_terminal_with_its_error() -> None:
    @asynccontextmanager
    async def opened(say: Callable[[str], None]) -> AsyncGenerator[AgentSession]:
        raise Missing("session x: there is none of this name")
        yield

    async def scene(person: ScreenUser) -> None:
        await person.until_it_ends()

    app = play_scene(opened, scene, waits=False)
    assert str(app.failure) == "session x: there is none of this name"
    assert (app.status, app.return_value) == (1, 1)


@pytest.mark.parametrize("fault", [Missing("session x: there is none"), ValueError("a fault")])
def test_whoever_runs_the_terminal_gets_the_error(
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
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        os.kill(os.getpid(), number)
        await person.until_it_ends()

    app = play_scene(desk, scene)
    assert desk.is_closed
    assert app.status == 128 + number


def test_the_desk_is_closed_behind_who_leaves() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        await person.enter("/quit")
        await person.until_it_ends()

    app = play_scene(desk, scene)
    assert desk.is_closed
    assert (app.status, app.failure) == (0, None)


# -- keys ----------------------------------------------------------------------------------------


def test_escape_interrupts() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        begin_run(desk, "hello?")
        await person.press("escape")
        assert desk.asked == [("interrupt",)]

    play_scene(desk, scene)


def test_shift_tab_goes_from_act_to_plan_and_back() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        await person.press("shift+tab")
        await person.until(lambda: " PLAN " in person.status)
        await person.press("shift+tab")
        await person.until(lambda: " ACT " in person.status)
        assert desk.asked == [("change_mode", Mode.PLAN), ("change_mode", Mode.ACT)]

    play_scene(desk, scene)


def test_ctrl_c_clears_then_interrupts_and_leaves_only_twice() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        await person.type("never mind")
        await person.press("ctrl+c")
        assert (person.typed, desk.asked) == ("", [])
        begin_run(desk, "hello?")
        await person.press("ctrl+c")
        assert desk.asked == [("interrupt",)]
        end_run(desk, EndReason.INTERRUPTED)
        for _ in range(2):
            await person.press("ctrl+c")
            await person.sees("Ctrl+C again leaves")
            person.let_pass(2.0)  # too long to be meant as one
        assert not desk.is_closed
        await person.press("ctrl+c")
        person.let_pass(1.9)
        await person.press("ctrl+c")
        await person.until_it_ends()
        assert desk.is_closed

    play_scene(desk, scene)


def test_ctrl_c_copies_what_is_marked_and_the_next_one_interrupts() -> None:
    desk = FakeSession(alternating_messages("how do I list files", "use ls"))

    async def scene(person: ScreenUser) -> None:
        begin_run(desk, "and hidden ones?")
        await person.sees("hidden ones")
        person.app.transcript.text_select_all()
        await person.press("ctrl+c")
        assert "use ls" in person.app.clipboard
        assert desk.asked == []
        await person.press("ctrl+c")
        assert desk.asked == [("interrupt",)]
        end_run(desk)

    play_scene(desk, scene)


def test_ctrl_c_on_another_screen_leaves_what_was_typed_alone() -> None:
    desk = FakeSession(alternating_messages("one?", "One."))

    async def scene(person: ScreenUser) -> None:
        await person.type("half a thought")
        await person.press("ctrl+t")
        await person.sees("Tree of")
        await person.press("ctrl+c")
        await person.press("escape")
        await person.until(lambda: len(person.app.screen_stack) == 1)
        assert person.typed == "half a thought"

    play_scene(desk, scene)


def test_ctrl_d_leaves_a_blank_prompt_and_else_deletes() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        await person.type("ab")
        await person.press("left", "ctrl+d")
        assert person.typed == "a"
        await person.press("backspace", "ctrl+d")
        await person.until(lambda: desk.is_closed)

    play_scene(desk, scene)


def test_what_was_said_can_be_edited_from_where_it_stands() -> None:
    desk = FakeSession(
        alternating_messages("how do I list files", "use ls", "and hidden ones", "use ls -a")
    )

    async def scene(person: ScreenUser) -> None:
        await person.press("alt+up", "e")
        await person.sees("only your own words can be edited")
        await person.press("alt+up", "e")
        await person.until(lambda: person.typed == "and hidden ones")
        assert desk.asked[0][0] == "fork_before"
        await person.until(lambda: "use ls -a" not in person.text)
        await person.press("enter")
        await person.until(lambda: desk.asked[-1] == ("say", PromptInput("and hidden ones")))

    play_scene(desk, scene)


def test_copied_words_are_those_of_the_block() -> None:
    desk = FakeSession(alternating_messages("how do I list files", "use **ls**"))

    async def scene(person: ScreenUser) -> None:
        await person.press("alt+up", "y")
        assert person.app.clipboard == "use **ls**"
        await person.press("escape")
        assert person.app.prompt.has_focus_within

    play_scene(desk, scene)


# -- where keys go -------------------------------------------------------------------------------

BLOCK_KEYS = "Enter folds · y copies · e says it again · Esc back"


@pytest.mark.parametrize("size", [(60, 20), (100, 30)])
def test_what_keys_do_about_a_block_is_said_while_one_is_selected(size: tuple[int, int]) -> None:
    desk = FakeSession(alternating_messages("how do I list files", "use ls"))

    async def scene(person: ScreenUser) -> None:
        await person.press("alt+up")
        await person.until(lambda: BLOCK_KEYS in person.status)
        begin_run(desk, "and hidden ones?")
        await person.press("up", "escape")
        await person.until(lambda: BLOCK_KEYS not in person.status)
        assert person.app.transcript.selected is None
        assert person.app.prompt.has_focus_within
        assert desk.asked == []
        end_run(desk)

    play_scene(desk, scene, size=size)


@pytest.mark.parametrize("keys", [("alt+up",), ("alt+up", "up")])
def test_what_is_typed_while_a_block_is_selected_comes_to_the_prompt(keys: tuple[str, ...]) -> None:
    desk = FakeSession(alternating_messages("how do I list files", "use ls"))

    async def scene(person: ScreenUser) -> None:
        await person.press(*keys)
        await person.type("say yes")
        assert person.typed == "say yes"
        assert person.app.transcript.selected is None
        await person.until(lambda: BLOCK_KEYS not in person.status)

    play_scene(desk, scene)


def test_what_is_typed_or_pasted_while_the_conversation_has_the_focus_comes_to_the_prompt() -> None:
    desk = FakeSession(alternating_messages("how do I list files", "use ls"))

    async def scene(person: ScreenUser) -> None:
        person.app.transcript.focus()
        await person.pilot.pause()
        await person.type("yes, ")
        person.app.transcript.focus()
        await person.pilot.pause()
        person.app.post_message(Paste("please"))
        await person.until(lambda: person.typed == "yes, please")

    play_scene(desk, scene)


def test_tab_does_nothing_where_there_is_nothing_to_complete_or_decide() -> None:
    async def scene(person: ScreenUser) -> None:
        await person.type("one")
        await person.press("tab")
        await person.type(" two")
        assert person.typed == "one two"

    play_scene(FakeSession(alternating_messages("one?", "One.")), scene)


@pytest.mark.requirement("S2-18")
def test_tab_leads_to_an_open_question_and_back() -> None:
    desk = FakeSession(alternating_messages("list files"))

    async def scene(person: ScreenUser) -> None:
        begin_run(desk, "go on")
        desk.pending_calls = [pending_call()]
        desk.happen(PendingCallsChanged())
        await person.sees("letter or ←→ picks")  # whoever waits at a blank prompt is led there
        await person.press("escape")
        await person.sees("Ctrl+G decides · Esc interrupts")
        await person.press("tab")
        await person.sees("letter or ←→ picks")
        await person.press("tab")
        await person.sees("Ctrl+G decides · Esc interrupts")
        assert person.app.prompt.has_focus_within
        end_run(desk)

    play_scene(desk, scene)


@pytest.mark.requirement("S2-18")
def test_a_rule_that_is_kept_for_good_is_told_with_how_to_see_it() -> None:
    desk = FakeSession(alternating_messages("list files"))

    async def scene(person: ScreenUser) -> None:
        begin_run(desk, "go on")
        desk.pending_calls = [pending_call()]
        desk.happen(PendingCallsChanged())
        await person.decide("p", "for project")
        await person.until(lambda: person.said(ItemKind.NOTICE))
        told = "bash(git log *) is allowed for this folder until revoked; /permissions shows it"
        assert person.said(ItemKind.NOTICE) == [told]
        end_run(desk)

    play_scene(desk, scene)


def test_what_runs_says_that_escape_interrupts_it() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        begin_run(desk, "hello?")
        await person.until(lambda: "waiting for offline/steno · Esc interrupts" in person.status)
        end_run(desk)
        await person.until(lambda: "Esc" not in person.status)

    play_scene(desk, scene, size=(120, 30))


def test_escape_clears_a_prompt_where_nothing_runs_and_the_arrow_brings_it_back() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        desk.replies["nonsense"] = Missing("command: there is no /nonsense")
        await person.enter("/nonsense")
        await person.until(lambda: person.typed == "/nonsense")
        await person.press("escape")
        assert person.typed == ""
        await person.press("up")
        assert person.typed == "/nonsense"

    play_scene(desk, scene)


@pytest.mark.parametrize("word", ["exit", "quit"])
def test_who_says_only_that_they_leave_is_told_how(word: str) -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        await person.enter(word)
        await person.sees("type /quit to leave")
        assert desk.asked == []
        assert person.typed == ""
        await person.enter(f"{word} the loop when it is done")
        await person.until(lambda: desk.asked)

    play_scene(desk, scene)
