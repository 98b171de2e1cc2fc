"""A conversation in the full screen, and its events while an agent runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from steno import ChatMessage
from steno.agent import CallEnded, CallOutput, CallStarted, PromptInput
from steno.agent.events import EndReason
from steno.agent.session_events import (
    BranchChanged,
    ErrorRaised,
    ShellEnded,
    ShellOutput,
    ShellStarted,
)
from steno.app.session import AgentSession
from steno.errors import InvalidValue
from steno.messages.call import ToolCall
from steno.messages.content import Text, Thinking
from steno.messages.event import TextDelta, ThinkingDelta
from steno.messages.message import AssistantMessage, ToolResultMessage
from steno.ui.help_text import UNFINISHED_NOTICE
from tests.ui.fake_session import FakeSession
from tests.ui.tui.app.agent_actions import begin_run, end_run, record_message
from tests.ui.tui.app.screen_user import ScreenUser, run_with_screen
from tests.ui.tui.tree_app import alternating_messages

pytestmark = pytest.mark.requirement("S4-15")


def test_a_typed_prompt_is_sent_and_the_input_is_empty_again() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        await user.type("two lines,\nplease")
        await user.press("enter")
        await user.until(lambda: session.asked)
        assert session.asked == [("send", PromptInput("two lines,\nplease"))]
        assert user.typed == ""

    run_with_screen(session, steps)


def test_a_response_is_shown_while_it_streams_and_stays_as_recorded() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        begin_run(session, "hello?")
        await user.sees("hello?", "waiting for offline/steno")
        session.happen(TextDelta(0, "Good "), TextDelta(0, "morning"))
        await user.sees("Good morning", "answering")
        record_message(session, ChatMessage.assistant("Good morning, **Ann**."))
        end_run(session)
        seen = await user.sees("Good morning, Ann.", "idle")
        assert seen.count("Good morning") == 1

    run_with_screen(session, steps)


def test_thinking_is_folded_and_unfolds_with_the_keys() -> None:
    session = FakeSession()
    thought = Thinking("it is early, so a short greeting will do")

    async def steps(user: ScreenUser) -> None:
        begin_run(session, "hello?")
        session.happen(ThinkingDelta(0, "it is early, "))
        await user.sees("thinking · 3 words", " thinking ")
        record_message(session, AssistantMessage(content=(thought, Text("Morning."))))
        end_run(session)
        seen = await user.sees("Morning.", "thinking · 9 words")
        assert "a short greeting" not in seen
        await user.press("ctrl+o")
        await user.sees("a short greeting")
        await user.press("ctrl+o")
        await user.until(lambda: "a short greeting" not in user.text)
        await user.press("alt+up", "alt+up", "enter")
        await user.sees("a short greeting")

    run_with_screen(session, steps)


def test_a_command_is_seen_while_it_runs_and_folded_when_it_is_done() -> None:
    session = FakeSession()
    call = ToolCall.create("bash", {"command": "make test"}, id="c1")

    async def steps(user: ScreenUser) -> None:
        begin_run(session, "test it")
        record_message(session, ChatMessage.assistant(None, [call]))
        session.happen(CallStarted(call))
        await user.sees("● bash make test", "running bash")
        session.happen(CallOutput("c1", "1 passed\n"), CallOutput("c1", "2 passed\n"))
        await user.sees("1 passed", "2 passed")
        result = ChatMessage.tool_result("c1", "1 passed\n2 passed\n3 passed\n")
        assert isinstance(result, ToolResultMessage)
        session.happen(CallEnded(call, result))
        record_message(session, result)
        end_run(session)
        seen = await user.sees("✓ bash make test … 3 lines")
        assert "2 passed" not in seen
        await user.press("ctrl+o")
        await user.sees("3 passed")

    run_with_screen(session, steps)


def test_a_prompt_during_a_turn_is_shown_as_waiting_until_it_is_sent() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        begin_run(session, "count to ten")
        await user.enter("only to five")
        await user.sees("only to five", "will be sent with the next request")
        record_message(session, ChatMessage.user("only to five"))
        await user.until(lambda: "will be sent" not in user.text)
        assert user.text.count("only to five") == 1
        end_run(session)

    run_with_screen(session, steps)


def test_a_refused_prompt_returns_to_the_input() -> None:
    session = FakeSession()
    session.refusal = InvalidValue("@nowhere.txt: no such file")

    async def steps(user: ScreenUser) -> None:
        await user.enter("look at @nowhere.txt")
        await user.sees("✗ @nowhere.txt: no such file")
        assert user.typed == "look at @nowhere.txt"
        await user.press("enter")
        await user.until(lambda: len(session.asked) == 2)

    run_with_screen(session, steps)


def test_a_refused_prompt_does_not_replace_the_current_draft() -> None:
    session = FakeSession()
    refused = asyncio.Event()

    async def say(prompt: PromptInput) -> None:
        await refused.wait()
        raise InvalidValue("not now")

    session.send = say  # type: ignore[method-assign] # every attribute of a fake may be set

    async def steps(user: ScreenUser) -> None:
        await user.enter("first")
        await user.type("second")
        refused.set()
        await user.sees("✗ not now")
        assert user.typed == "second"

    run_with_screen(session, steps)


def test_prompts_typed_before_the_session_opens_are_sent_in_order() -> None:
    session = FakeSession()
    gate = asyncio.Event()

    @asynccontextmanager
    async def opened(say: Callable[[str], None]) -> AsyncGenerator[AgentSession]:
        say("looking for a model")
        await gate.wait()
        yield session

    async def steps(user: ScreenUser) -> None:
        await user.enter("first")
        await user.enter("second")
        await user.sees("the prompt is sent when the session is open", "looking for a model")
        await user.press("shift+tab", "ctrl+t", "escape", "f1")
        assert session.asked == []
        gate.set()
        await user.until(lambda: len(session.asked) == 2)
        assert session.asked == [("send", PromptInput("first")), ("send", PromptInput("second"))]
        assert "the prompt is sent when the session is open" not in user.text

    run_with_screen(opened, steps, waits=False)


def test_errors_and_ends_of_runs_are_shown() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        session.happen(ErrorRaised("session: another program has gone on with it"))
        await user.sees("✗ session: another program has gone on with it")
        begin_run(session, "hello?")
        end_run(session, EndReason.FAILED, "the model is overloaded")
        await user.sees("✗ the model is overloaded; /retry tries again", "idle")
        begin_run(session, "again?")
        session.happen(TextDelta(0, "I was about to"))
        await user.sees("I was about to")
        end_run(session, EndReason.INTERRUPTED)
        seen = await user.sees("interrupted")
        assert "I was about to" not in seen  # what is not on record is not there

    run_with_screen(session, steps)


def test_a_session_that_stopped_in_the_middle_says_so() -> None:
    session = FakeSession(alternating_messages("hello?"))
    session.is_unfinished = True

    async def steps(user: ScreenUser) -> None:
        await user.sees("hello?", UNFINISHED_NOTICE)

    run_with_screen(session, steps)


def test_another_session_is_shown_in_place_of_this_one() -> None:
    session = FakeSession(alternating_messages("one?", "One."))

    async def steps(user: ScreenUser) -> None:
        await user.sees("One.")
        session.conversation = FakeSession(alternating_messages("two?", "Two.")).conversation
        session.happen(BranchChanged())
        seen = await user.sees("Two.")
        assert "One." not in seen

    run_with_screen(session, steps)


def test_a_command_for_the_shell_is_shown_with_what_it_prints() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        await user.type("!ls -l")
        assert user.lines[-2].startswith("! !ls -l") or "!ls -l" in user.text
        await user.press("enter")
        await user.until(lambda: session.asked == [("run_shell", "ls -l")])
        session.is_running = True
        session.happen(ShellStarted("ls -l"), ShellOutput("total 0\n"))
        await user.sees("● $ ls -l", "total 0", "running ls -l")
        session.is_running = False
        session.happen(ShellEnded(2))
        await user.sees("✗ $ ls -l", "idle")

    run_with_screen(session, steps)


@pytest.mark.parametrize("sign", ["!rm -rf x", "/quit"])
def test_pasted_text_is_sent_and_never_run(sign: str) -> None:
    session = FakeSession()
    pasted = sign + " " * 600 + "# and more"

    async def steps(user: ScreenUser) -> None:
        user.app.prompt.paste(pasted)
        await user.press("enter")
        await user.until(lambda: session.asked == [("send", PromptInput(pasted))])

    run_with_screen(session, steps)


def test_a_command_takes_what_was_pasted_behind_it() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        await user.type("/rename ")
        user.app.prompt.paste("x" * 700)
        await user.press("enter")
        await user.until(lambda: session.asked == [("run_command", "rename", "x" * 700)])

    run_with_screen(session, steps)


# -- scrolling -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(100, 30), (60, 20)])
def test_new_items_below_are_announced_while_scrolled_up(size: tuple[int, int]) -> None:
    session = FakeSession(alternating_messages(*[f"line {number}" for number in range(60)]))

    async def steps(user: ScreenUser) -> None:
        await user.sees("line 59")
        await user.press("pageup", "pageup")
        await user.until(lambda: "line 59" not in user.text)
        assert "new below" not in user.text
        record_message(session, ChatMessage.user("news one"))
        record_message(session, ChatMessage.assistant("news two"))
        await user.until(lambda: "↓ 2 new below" in user.status)
        assert "news" not in user.text
        await user.press("pagedown", "pagedown", "pagedown")
        await user.sees("news two")
        await user.until(lambda: "new below" not in user.status)

    run_with_screen(session, steps, size=size)
