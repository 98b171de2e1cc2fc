"""Words on the whole screen that are not heard at once, or not at all: seen, and never lost."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import pytest

from steno import ChatMessage
from steno.agent import EntryRecorded
from steno.agent.events import EndReason
from steno.app.session import (
    CommandReply,
    ErrorRaised,
    InputReturned,
    PromptInput,
    ShellEnded,
    ShellStarted,
)
from steno.errors import InvalidValue
from steno.messages.call import ToolCall
from steno.records.entry import Entry
from steno.render.items import ItemKind
from steno.store import open_store
from tests.app.project_setup import scripted_model
from tests.cli.reference_setup import WITH_VISION
from tests.ui.fake_session import FakeSession
from tests.ui.tui.app.agent_actions import begin_run, end_run, record_message
from tests.ui.tui.app.screen_user import ScreenUser, opens_real_session, play_scene
from tests.ui.tui.tree_app import alternating_messages

pytestmark = pytest.mark.requirement("S4-15")


class SlowDesk(FakeSession):
    """A desk that takes its time, and then refuses what is said."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.fault: Exception = InvalidValue("not now")

    async def send(self, words: PromptInput) -> None:
        await self.go.wait()
        raise self.fault

    async def run_command(self, name: str, argument: str = "") -> CommandReply:
        await self.go.wait()
        return CommandReply("done")


# -- what waits ----------------------------------------------------------------------------------


def test_what_is_said_is_seen_at_once_and_once() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        await person.enter("/docs:greet Ann")
        await person.until(lambda: person.said(ItemKind.USER) == ["/docs:greet Ann"])
        assert "will be heard" not in person.text
        begin_run(desk, "Say hello to Ann.")
        await person.until(lambda: person.said(ItemKind.USER) == ["Say hello to Ann."])
        end_run(desk)

    play_scene(desk, scene)


def test_words_to_a_session_that_stopped_in_the_middle_are_seen_while_it_asks(
    project: Path, home: Path
) -> None:
    write = ToolCall.create("write", {"path": "out/a.txt", "content": "a\n"}, id="c1")
    with open_store() as store:
        store.new([ChatMessage.user("Write it."), ChatMessage.assistant(None, [write])])

    async def scene(person: ScreenUser) -> None:
        await person.sees("stopped in the middle")
        await person.enter("Or rather not.")
        await person.sees("? write out/a.txt", "asks you", "Or rather not.")
        await person.decide("d", "deny")
        await person.sees("I see.", "idle")
        assert person.said(ItemKind.USER) == ["Write it.", "Or rather not."]

    with scripted_model(home, "I see."):
        play_scene(opens_real_session(project, resume="last"), scene)


# -- what is refused -----------------------------------------------------------------------------


def test_what_is_refused_while_somebody_types_can_be_chosen_and_said_again() -> None:
    desk = SlowDesk()

    async def scene(person: ScreenUser) -> None:
        person.app.prompt.load("first", [b"png"])
        await person.press("enter")
        await person.type("second")
        desk.go.set()
        seen = await person.sees("✗ not now", "■ not said")
        assert seen.count("first") == 1
        assert person.typed == "second"
        await person.press("alt+up", "e")
        await person.until(lambda: person.typed.startswith("first [image 1: clipboard]"))
        assert "not said" not in person.text
        await person.press("home", "up")
        assert person.typed == "second"

    play_scene(desk, scene)


def test_a_draft_that_is_cleared_is_one_arrow_up_away() -> None:
    async def scene(person: ScreenUser) -> None:
        await person.type("half a thought")
        await person.press("ctrl+c")
        assert person.typed == ""
        await person.press("up")
        assert person.typed == "half a thought"

    play_scene(FakeSession(), scene)


def test_a_draft_survives_when_an_earlier_message_is_edited() -> None:
    async def scene(person: ScreenUser) -> None:
        await person.type("half a thought")
        await person.press("alt+up", "alt+up", "e")
        await person.until(lambda: person.typed == "one?")
        await person.press("up")
        assert person.typed == "half a thought"

    play_scene(FakeSession(alternating_messages("one?", "One.")), scene)


def test_a_fault_of_ours_is_told_and_logged_and_the_words_come_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = SlowDesk()
    desk.fault = ZeroDivisionError("oh")
    desk.go.set()

    async def scene(person: ScreenUser) -> None:
        await person.enter("hello?")
        await person.sees("✗ a fault in steno: ZeroDivisionError: oh", "what is on record is safe")
        await person.until(lambda: person.typed == "hello?")
        assert person.said(ItemKind.USER) == []

    with caplog.at_level(logging.ERROR, "steno.ui"):
        play_scene(desk, scene)
    [logged] = caplog.records
    assert logged.exc_info is not None
    assert logged.exc_info[0] is ZeroDivisionError


# -- what comes back -----------------------------------------------------------------------------


def test_what_was_not_heard_comes_back_to_the_prompt() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        begin_run(desk, "count to ten")
        await person.enter("only to five")
        await person.enter("and slowly")
        await person.sees("only to five", "and slowly", "? will be heard at the next step")
        desk.happen(InputReturned((PromptInput("only to five"), PromptInput("and slowly"))))
        await person.until(lambda: person.typed == "only to five\n\nand slowly")
        assert person.said(ItemKind.USER) == ["count to ten"]
        end_run(desk)

    play_scene(desk, scene)


def test_what_was_not_heard_is_kept_beside_what_is_being_typed() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        begin_run(desk, "count to ten")
        await person.enter("only to five")
        await person.type("hm")
        desk.happen(InputReturned((PromptInput("only to five"),)))
        await person.sees("only to five", "■ not said")
        assert "will be heard" not in person.text
        assert person.typed == "hm"
        end_run(desk)

    play_scene(desk, scene)


def test_escape_takes_back_what_was_said_meanwhile_and_ends_the_run(
    project: Path, home: Path
) -> None:
    gate = threading.Event()

    async def scene(person: ScreenUser) -> None:
        await person.enter("Go.")
        await person.sees("Let me see")
        await person.enter("And be brief.")
        await person.sees("will be heard at the next step")
        await person.press("escape")
        await person.sees("interrupted", "idle")
        assert person.typed == "And be brief."
        assert person.said(ItemKind.USER) == ["Go."]
        gate.set()

    with scripted_model(home, ["Let me see", gate, "."]):
        play_scene(opens_real_session(project), scene)


def test_words_that_nobody_is_left_to_hear_come_back() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        begin_run(desk, "count to ten")
        await person.enter("only to five")
        await person.sees("will be heard at the next step")
        desk.is_running = False
        desk.happen(ErrorRaised("session: the disk is full"))
        await person.sees("✗ session: the disk is full")
        assert person.typed == "only to five"
        assert person.said(ItemKind.USER) == ["count to ten"]

    play_scene(desk, scene)


def test_words_that_nobody_is_left_to_hear_come_back_when_a_command_ends_too() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        begin_run(desk, "count to ten")
        desk.happen(ShellStarted("sleep 9"))
        await person.enter("only to five")
        await person.sees("will be heard at the next step")
        desk.happen(ErrorRaised("session: the disk is full"))
        await person.sees("✗ session: the disk is full", "running sleep 9")
        desk.is_running = False
        desk.happen(ShellEnded(0))
        await person.until(lambda: person.typed == "only to five")
        assert person.said(ItemKind.USER) == ["count to ten"]

    play_scene(desk, scene)


@pytest.mark.requirement("S2-28")
def test_words_with_an_image_that_fails_stay_to_be_used_again(project: Path, home: Path) -> None:
    (project / "shapes.png").write_bytes(b"no image at all")

    async def scene(person: ScreenUser) -> None:
        await person.enter("Which colour is @shapes.png?")
        await person.sees("✗ nothing was sent: image shapes.png: failed:", "idle")
        await person.until(lambda: person.typed == "Which colour is @shapes.png?")
        assert person.said(ItemKind.USER) == []
        await person.press("escape")
        await person.enter("/retry")
        await person.until(lambda: len(person.said(ItemKind.ERROR)) == 2)
        await person.until(lambda: person.typed == "Which colour is @shapes.png?")

    with scripted_model(home, "Red.", settings=WITH_VISION):
        play_scene(opens_real_session(project), scene)


def talking() -> FakeSession:
    return FakeSession(alternating_messages("one?", "One."))


async def fail_to_open(desk: FakeSession, person: ScreenUser, *typing: str) -> None:
    """Say something behind a prompt that cannot be opened, and begin to type."""
    start = desk.conversation.entries()[-1]
    await person.enter("Look at @gone.txt")
    begin_run(desk, "Look at @gone.txt")
    await person.enter("And be brief.")
    await person.sees("? will be heard at the next step")
    for text in typing:
        await person.type(text)
    come_back(desk, start)


def come_back(desk: FakeSession, start: Entry) -> None:
    desk.happen(EntryRecorded(desk.conversation.rewind(start)))
    desk.is_running = False
    desk.happen(InputReturned((PromptInput("Look at @gone.txt"), PromptInput("And be brief."))))
    end_run(desk, EndReason.FAILED, "there is no gone.txt")


def test_words_behind_a_prompt_that_cannot_be_opened_come_back_once_and_behind_it() -> None:
    desk = talking()

    async def scene(person: ScreenUser) -> None:
        await fail_to_open(desk, person)
        await person.until(lambda: person.typed == "Look at @gone.txt\n\nAnd be brief.")
        assert person.said(ItemKind.USER) == ["one?"]

    play_scene(desk, scene)


def test_what_came_back_beside_a_draft_is_tried_again_together() -> None:
    desk = talking()

    async def scene(person: ScreenUser) -> None:
        start = desk.conversation.entries()[-1]
        await fail_to_open(desk, person, "hm")
        await person.until(lambda: person.text.count("■ not sent · /retry tries again") == 2)
        for _ in range(2):  # it fails once more, and then does not
            assert person.said(ItemKind.USER) == ["one?", "Look at @gone.txt", "And be brief."]
            begin_run(desk, "Look at @gone.txt")
            await person.until(lambda: "not sent" not in person.text)
            come_back(desk, start)
            await person.until(lambda: person.text.count("■ not sent · /retry tries again") == 2)
        begin_run(desk, "Look at @gone.txt")
        record_message(desk, ChatMessage.user("And be brief."))
        record_message(desk, ChatMessage.assistant("I see."))
        end_run(desk)
        await person.until(lambda: "not sent" not in person.text)
        assert person.said(ItemKind.USER) == ["one?", "Look at @gone.txt", "And be brief."]
        assert person.typed == "hm"

    play_scene(desk, scene)


# -- while something takes long ------------------------------------------------------------------


def test_a_command_that_takes_long_is_told_while_it_lasts() -> None:
    desk = SlowDesk()

    async def scene(person: ScreenUser) -> None:
        await person.enter("/compact")
        await person.until(lambda: "/compact" in person.status)
        desk.go.set()
        await person.sees("done", "idle")

    play_scene(desk, scene)


def test_words_that_take_long_to_read_are_told_and_come_back_where_they_are_refused() -> None:
    desk = SlowDesk()

    async def scene(person: ScreenUser) -> None:
        await person.enter("/docs:summary")
        await person.until(lambda: "reading what you said" in person.status)
        desk.go.set()
        await person.sees("✗ not now", "idle")
        assert person.typed == "/docs:summary"

    play_scene(desk, scene)


def test_what_has_ended_is_not_told_while_something_else_still_runs() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        begin_run(desk, "hello?")
        desk.happen(ShellStarted("sleep 9"))
        await person.until(lambda: "running sleep 9" in person.status)
        desk.happen(ShellEnded(0))
        await person.until(lambda: "working" in person.status)
        record_message(desk, ChatMessage.assistant("Hi."))
        end_run(desk)
        await person.sees("idle")

    play_scene(desk, scene)


def test_what_runs_is_still_told_after_a_command() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        begin_run(desk, "hello?")
        await person.enter("/usage")
        await person.sees("done: usage", "waiting for offline/steno")
        record_message(desk, ChatMessage.assistant("Hi."))
        end_run(desk)

    play_scene(desk, scene)
