"""What is said on the whole screen, and what happens there while an agent works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from steno import ChatMessage
from steno.agent import CallEnded, CallOutput, CallStarted
from steno.agent.events import EndReason
from steno.app.session import (
    AgentSession,
    BranchChanged,
    ErrorRaised,
    PromptInput,
    ShellEnded,
    ShellOutput,
    ShellStarted,
)
from steno.errors import InvalidValue
from steno.messages.call import ToolCall
from steno.messages.content import Text, Thinking
from steno.messages.event import TextDelta, ThinkingDelta
from steno.messages.message import AssistantMessage, ToolResultMessage
from tests.ui.fake_session import FakeSession
from tests.ui.tui.app.agent_actions import begin_run, end_run, record_message
from tests.ui.tui.app.screen_user import ScreenUser, play_scene
from tests.ui.tui.tree_app import alternating_messages

pytestmark = pytest.mark.requirement("S4-15")


def test_what_is_typed_is_said_and_the_prompt_is_free_again() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        await person.type("two lines,\nplease")
        await person.press("enter")
        await person.until(lambda: desk.asked)
        assert desk.asked == [("say", PromptInput("two lines,\nplease"))]
        assert person.typed == ""

    play_scene(desk, scene)


def test_an_answer_is_seen_while_it_is_said_and_stays_as_it_is_recorded() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        begin_run(desk, "hello?")
        await person.sees("hello?", "waiting for offline/steno")
        desk.happen(TextDelta(0, "Good "), TextDelta(0, "morning"))
        await person.sees("Good morning", "answering")
        record_message(desk, ChatMessage.assistant("Good morning, **Ann**."))
        end_run(desk)
        seen = await person.sees("Good morning, Ann.", "idle")
        assert seen.count("Good morning") == 1

    play_scene(desk, scene)


def test_thinking_is_folded_and_unfolds_with_the_keys() -> None:
    desk = FakeSession()
    thought = Thinking("it is early, so a short greeting will do")

    async def scene(person: ScreenUser) -> None:
        begin_run(desk, "hello?")
        desk.happen(ThinkingDelta(0, "it is early, "))
        await person.sees("thinking · 3 words", " thinking ")
        record_message(desk, AssistantMessage(content=(thought, Text("Morning."))))
        end_run(desk)
        seen = await person.sees("Morning.", "thinking · 9 words")
        assert "a short greeting" not in seen
        await person.press("ctrl+o")
        await person.sees("a short greeting")
        await person.press("ctrl+o")
        await person.until(lambda: "a short greeting" not in person.text)
        await person.press("alt+up", "alt+up", "enter")
        await person.sees("a short greeting")

    play_scene(desk, scene)


def test_a_command_is_seen_while_it_runs_and_folded_when_it_is_done() -> None:
    desk = FakeSession()
    call = ToolCall.create("bash", {"command": "make test"}, id="c1")

    async def scene(person: ScreenUser) -> None:
        begin_run(desk, "test it")
        record_message(desk, ChatMessage.assistant(None, [call]))
        desk.happen(CallStarted(call))
        await person.sees("● bash make test", "running bash")
        desk.happen(CallOutput("c1", "1 passed\n"), CallOutput("c1", "2 passed\n"))
        await person.sees("1 passed", "2 passed")
        result = ChatMessage.tool_result("c1", "1 passed\n2 passed\n3 passed\n")
        assert isinstance(result, ToolResultMessage)
        desk.happen(CallEnded(call, result))
        record_message(desk, result)
        end_run(desk)
        seen = await person.sees("✓ bash make test … 3 lines")
        assert "2 passed" not in seen
        await person.press("ctrl+o")
        await person.sees("3 passed")

    play_scene(desk, scene)


def test_what_is_said_during_a_turn_waits_in_sight_until_it_is_heard() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        begin_run(desk, "count to ten")
        await person.enter("only to five")
        await person.sees("only to five", "will be heard at the next step")
        record_message(desk, ChatMessage.user("only to five"))
        await person.until(lambda: "will be heard" not in person.text)
        assert person.text.count("only to five") == 1
        end_run(desk)

    play_scene(desk, scene)


def test_what_is_refused_goes_back_to_the_prompt() -> None:
    desk = FakeSession()
    desk.refusal = InvalidValue("@nowhere.txt: there is no such file")

    async def scene(person: ScreenUser) -> None:
        await person.enter("look at @nowhere.txt")
        await person.sees("✗ @nowhere.txt: there is no such file")
        assert person.typed == "look at @nowhere.txt"
        await person.press("enter")
        await person.until(lambda: len(desk.asked) == 2)

    play_scene(desk, scene)


def test_what_is_refused_leaves_what_is_being_typed_by_then() -> None:
    desk = FakeSession()
    refused = asyncio.Event()

    async def say(words: PromptInput) -> None:
        await refused.wait()
        raise InvalidValue("not now")

    desk.send = say  # type: ignore[method-assign] # every attribute of a fake may be set

    async def scene(person: ScreenUser) -> None:
        await person.enter("first")
        await person.type("second")
        refused.set()
        await person.sees("✗ not now")
        assert person.typed == "second"

    play_scene(desk, scene)


def test_what_was_typed_before_there_was_a_desk_is_said_then_in_its_order() -> None:
    desk = FakeSession()
    gate = asyncio.Event()

    @asynccontextmanager
    async def opened(say: Callable[[str], None]) -> AsyncGenerator[AgentSession]:
        say("looking for a model")
        await gate.wait()
        yield desk

    async def scene(person: ScreenUser) -> None:
        await person.enter("first")
        await person.enter("second")
        await person.sees("this is said as soon as it can", "looking for a model")
        await person.press("shift+tab", "ctrl+t", "escape", "f1")
        assert desk.asked == []
        gate.set()
        await person.until(lambda: len(desk.asked) == 2)
        assert desk.asked == [("say", PromptInput("first")), ("say", PromptInput("second"))]
        assert "this is said as soon as it can" not in person.text

    play_scene(opened, scene, waits=False)


def test_what_happens_by_itself_is_told() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        desk.happen(ErrorRaised("session: another program has gone on with it"))
        await person.sees("✗ session: another program has gone on with it")
        begin_run(desk, "hello?")
        end_run(desk, EndReason.FAILED, "the model is overloaded")
        await person.sees("✗ the model is overloaded; /retry tries again", "idle")
        begin_run(desk, "again?")
        desk.happen(TextDelta(0, "I was about to"))
        await person.sees("I was about to")
        end_run(desk, EndReason.INTERRUPTED)
        seen = await person.sees("interrupted")
        assert "I was about to" not in seen  # what is not on record is not there

    play_scene(desk, scene)


def test_a_session_that_stopped_in_the_middle_says_so() -> None:
    desk = FakeSession(alternating_messages("hello?"))
    desk.is_unfinished = True

    async def scene(person: ScreenUser) -> None:
        await person.sees("hello?", "this session stopped in the middle; /retry goes on there")

    play_scene(desk, scene)


def test_another_session_is_shown_in_place_of_this_one() -> None:
    desk = FakeSession(alternating_messages("one?", "One."))

    async def scene(person: ScreenUser) -> None:
        await person.sees("One.")
        desk.conversation = FakeSession(alternating_messages("two?", "Two.")).conversation
        desk.happen(BranchChanged())
        seen = await person.sees("Two.")
        assert "One." not in seen

    play_scene(desk, scene)


def test_a_command_for_the_shell_is_shown_with_what_it_prints() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        await person.type("!ls -l")
        assert person.lines[-2].startswith("! !ls -l") or "!ls -l" in person.text
        await person.press("enter")
        await person.until(lambda: desk.asked == [("shell", "ls -l")])
        desk.is_running = True
        desk.happen(ShellStarted("ls -l"), ShellOutput("total 0\n"))
        await person.sees("● $ ls -l", "total 0", "running ls -l")
        desk.is_running = False
        desk.happen(ShellEnded(2))
        await person.sees("✗ $ ls -l", "idle")

    play_scene(desk, scene)


@pytest.mark.parametrize("sign", ["!rm -rf x", "/quit"])
def test_what_was_pasted_is_said_and_never_run(sign: str) -> None:
    desk = FakeSession()
    pasted = sign + " " * 600 + "# and more"

    async def scene(person: ScreenUser) -> None:
        person.app.prompt.paste(pasted)
        await person.press("enter")
        await person.until(lambda: desk.asked == [("say", PromptInput(pasted))])

    play_scene(desk, scene)


def test_a_command_takes_what_was_pasted_behind_it() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        await person.type("/rename ")
        person.app.prompt.paste("x" * 700)
        await person.press("enter")
        await person.until(lambda: desk.asked == [("command", "rename", "x" * 700)])

    play_scene(desk, scene)


# -- scrolling -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(100, 30), (60, 20)])
def test_who_reads_further_up_is_told_what_is_new_below(size: tuple[int, int]) -> None:
    desk = FakeSession(alternating_messages(*[f"line {number}" for number in range(60)]))

    async def scene(person: ScreenUser) -> None:
        await person.sees("line 59")
        await person.press("pageup", "pageup")
        await person.until(lambda: "line 59" not in person.text)
        assert "new below" not in person.text
        record_message(desk, ChatMessage.user("news one"))
        record_message(desk, ChatMessage.assistant("news two"))
        await person.until(lambda: "↓ 2 new below" in person.status)
        assert "news" not in person.text
        await person.press("pagedown", "pagedown", "pagedown")
        await person.sees("news two")
        await person.until(lambda: "new below" not in person.status)

    play_scene(desk, scene, size=size)
