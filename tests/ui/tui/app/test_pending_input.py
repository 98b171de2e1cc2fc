"""Prompts in the full screen that are queued or rejected stay visible and are never lost."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import pytest

from steno import ChatMessage
from steno.agent import EntryRecorded, PromptInput
from steno.agent.events import EndReason
from steno.agent.session_events import ErrorRaised, InputReturned, ShellEnded, ShellStarted
from steno.app.commands.report import Report, text_report
from steno.errors import InvalidValue
from steno.messages.call import ToolCall
from steno.records.entry import Entry
from steno.render.items import ItemKind
from steno.store import open_store
from steno.ui.help_text import UNFINISHED_NOTICE
from tests.app.project_setup import scripted_model
from tests.cli.reference_setup import WITH_VISION
from tests.ui.fake_session import FakeSession
from tests.ui.tui.app.agent_actions import begin_run, end_run, record_message
from tests.ui.tui.app.screen_user import ScreenUser, opens_real_session, run_with_screen
from tests.ui.tui.tree_app import alternating_messages

pytestmark = pytest.mark.requirement("S4-15")


class SlowSession(FakeSession):
    """A session that rejects prompts after a while."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.fault: Exception = InvalidValue("not now")

    async def send(self, prompt: PromptInput) -> None:
        await self.go.wait()
        raise self.fault

    async def run_command(self, name: str, argument: str = "") -> Report:
        await self.go.wait()
        return text_report("done")


# -- what waits ----------------------------------------------------------------------------------


def test_a_prompt_is_shown_at_once_and_only_once() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        await user.enter("/docs:greet Ann")
        await user.until(lambda: user.said(ItemKind.USER) == ["/docs:greet Ann"])
        assert "will be sent" not in user.text
        begin_run(session, "Say hello to Ann.")
        await user.until(lambda: user.said(ItemKind.USER) == ["Say hello to Ann."])
        end_run(session)

    run_with_screen(session, steps)


def test_words_to_a_session_that_stopped_in_the_middle_are_seen_while_it_asks(
    project: Path, home: Path
) -> None:
    write = ToolCall.create("write", {"path": "out/a.txt", "content": "a\n"}, id="c1")
    with open_store() as store:
        store.new([ChatMessage.user("Write it."), ChatMessage.assistant(None, [write])])

    async def steps(user: ScreenUser) -> None:
        await user.sees(UNFINISHED_NOTICE)
        await user.enter("Or rather not.")
        await user.sees("? write out/a.txt", "waiting for approval", "Or rather not.")
        await user.decide("d", "deny")
        await user.sees("I see.", "idle")
        assert user.said(ItemKind.USER) == ["Write it.", "Or rather not."]

    with scripted_model(home, "I see."):
        run_with_screen(opens_real_session(project, resume="last"), steps)


# -- what is refused -----------------------------------------------------------------------------


def test_a_prompt_refused_during_typing_can_be_selected_and_resent() -> None:
    session = SlowSession()

    async def steps(user: ScreenUser) -> None:
        user.app.prompt.load("first", [b"png"])
        await user.press("enter")
        await user.type("second")
        session.go.set()
        seen = await user.sees("✗ not now", "■ not sent")
        assert seen.count("first") == 1
        assert user.typed == "second"
        await user.press("alt+up", "e")
        await user.until(lambda: user.typed.startswith("first [image 1: clipboard]"))
        assert "not sent" not in user.text
        await user.press("home", "up")
        assert user.typed == "second"

    run_with_screen(session, steps)


def test_a_draft_that_is_cleared_is_one_arrow_up_away() -> None:
    async def steps(user: ScreenUser) -> None:
        await user.type("half a thought")
        await user.press("ctrl+c")
        assert user.typed == ""
        await user.press("up")
        assert user.typed == "half a thought"

    run_with_screen(FakeSession(), steps)


def test_a_draft_survives_when_an_earlier_message_is_edited() -> None:
    async def steps(user: ScreenUser) -> None:
        await user.type("half a thought")
        await user.press("alt+up", "alt+up", "e")
        await user.until(lambda: user.typed == "one?")
        await user.press("up")
        assert user.typed == "half a thought"

    run_with_screen(FakeSession(alternating_messages("one?", "One.")), steps)


def test_a_bug_is_reported_and_logged_and_the_prompt_is_returned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    session = SlowSession()
    session.fault = ZeroDivisionError("oh")
    session.go.set()

    async def steps(user: ScreenUser) -> None:
        await user.enter("hello?")
        await user.sees("✗ a bug in steno: ZeroDivisionError: oh", "all recorded entries are safe")
        await user.until(lambda: user.typed == "hello?")
        assert user.said(ItemKind.USER) == []

    with caplog.at_level(logging.ERROR, "steno.ui"):
        run_with_screen(session, steps)
    [logged] = caplog.records
    assert logged.exc_info is not None
    assert logged.exc_info[0] is ZeroDivisionError


# -- what comes back -----------------------------------------------------------------------------


def test_an_unsent_prompt_returns_to_the_input() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        begin_run(session, "count to ten")
        await user.enter("only to five")
        await user.enter("and slowly")
        await user.sees("only to five", "and slowly", "? will be sent with the next request")
        session.happen(InputReturned((PromptInput("only to five"), PromptInput("and slowly"))))
        await user.until(lambda: user.typed == "only to five\n\nand slowly")
        assert user.said(ItemKind.USER) == ["count to ten"]
        end_run(session)

    run_with_screen(session, steps)


def test_an_unsent_prompt_is_kept_next_to_the_draft() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        begin_run(session, "count to ten")
        await user.enter("only to five")
        await user.type("hm")
        session.happen(InputReturned((PromptInput("only to five"),)))
        await user.sees("only to five", "■ not sent")
        assert "will be sent" not in user.text
        assert user.typed == "hm"
        end_run(session)

    run_with_screen(session, steps)


def test_escape_withdraws_queued_prompts_and_ends_the_run(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def steps(user: ScreenUser) -> None:
        await user.enter("Go.")
        await user.sees("Let me see")
        await user.enter("And be brief.")
        await user.sees("will be sent with the next request")
        await user.press("escape")
        await user.sees("interrupted", "idle")
        assert user.typed == "And be brief."
        assert user.said(ItemKind.USER) == ["Go."]
        gate.set()

    with scripted_model(home, ["Let me see", gate, "."]):
        run_with_screen(opens_real_session(project), steps)


def test_a_prompt_that_no_run_reads_is_returned() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        begin_run(session, "count to ten")
        await user.enter("only to five")
        await user.sees("will be sent with the next request")
        session.is_running = False
        session.happen(ErrorRaised("session: the disk is full"))
        await user.sees("✗ session: the disk is full")
        assert user.typed == "only to five"
        assert user.said(ItemKind.USER) == ["count to ten"]

    run_with_screen(session, steps)


def test_a_prompt_that_no_run_reads_is_returned_after_a_command() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        begin_run(session, "count to ten")
        session.happen(ShellStarted("sleep 9"))
        await user.enter("only to five")
        await user.sees("will be sent with the next request")
        session.happen(ErrorRaised("session: the disk is full"))
        await user.sees("✗ session: the disk is full", "running sleep 9")
        session.is_running = False
        session.happen(ShellEnded(0))
        await user.until(lambda: user.typed == "only to five")
        assert user.said(ItemKind.USER) == ["count to ten"]

    run_with_screen(session, steps)


@pytest.mark.requirement("S2-28")
def test_words_with_an_image_that_fails_stay_to_be_used_again(project: Path, home: Path) -> None:
    (project / "shapes.png").write_bytes(b"no image at all")

    async def steps(user: ScreenUser) -> None:
        await user.enter("Which colour is @shapes.png?")
        await user.sees("✗ nothing was sent: image shapes.png: failed:", "idle")
        await user.until(lambda: user.typed == "Which colour is @shapes.png?")
        assert user.said(ItemKind.USER) == []
        await user.press("escape")
        await user.enter("/retry")
        await user.until(lambda: len(user.said(ItemKind.ERROR)) == 2)
        await user.until(lambda: user.typed == "Which colour is @shapes.png?")

    with scripted_model(home, "Red.", settings=WITH_VISION):
        run_with_screen(opens_real_session(project), steps)


def talking() -> FakeSession:
    return FakeSession(alternating_messages("one?", "One."))


async def fail_to_open(session: FakeSession, user: ScreenUser, *typing: str) -> None:
    """Queue a prompt after one with a missing file, and start to type."""
    start = session.conversation.entries()[-1]
    await user.enter("Look at @gone.txt")
    begin_run(session, "Look at @gone.txt")
    await user.enter("And be brief.")
    await user.sees("? will be sent with the next request")
    for text in typing:
        await user.type(text)
    come_back(session, start)


def come_back(session: FakeSession, start: Entry) -> None:
    session.happen(EntryRecorded(session.conversation.rewind(start)))
    session.is_running = False
    session.happen(InputReturned((PromptInput("Look at @gone.txt"), PromptInput("And be brief."))))
    end_run(session, EndReason.FAILED, "there is no gone.txt")


def test_words_behind_a_prompt_that_cannot_be_opened_come_back_once_and_behind_it() -> None:
    session = talking()

    async def steps(user: ScreenUser) -> None:
        await fail_to_open(session, user)
        await user.until(lambda: user.typed == "Look at @gone.txt\n\nAnd be brief.")
        assert user.said(ItemKind.USER) == ["one?"]

    run_with_screen(session, steps)


def test_a_prompt_returned_next_to_a_draft_is_retried_with_it() -> None:
    session = talking()

    async def steps(user: ScreenUser) -> None:
        start = session.conversation.entries()[-1]
        await fail_to_open(session, user, "hm")
        await user.until(lambda: user.text.count("■ not sent · /retry send again") == 2)
        for _ in range(2):  # it fails once more, and then does not
            assert user.said(ItemKind.USER) == ["one?", "Look at @gone.txt", "And be brief."]
            begin_run(session, "Look at @gone.txt")
            await user.until(lambda: "not sent" not in user.text)
            come_back(session, start)
            await user.until(lambda: user.text.count("■ not sent · /retry send again") == 2)
        begin_run(session, "Look at @gone.txt")
        record_message(session, ChatMessage.user("And be brief."))
        record_message(session, ChatMessage.assistant("I see."))
        end_run(session)
        await user.until(lambda: "not sent" not in user.text)
        assert user.said(ItemKind.USER) == ["one?", "Look at @gone.txt", "And be brief."]
        assert user.typed == "hm"

    run_with_screen(session, steps)


# -- while something takes long ------------------------------------------------------------------


def test_a_slow_command_is_reported_while_it_runs() -> None:
    session = SlowSession()

    async def steps(user: ScreenUser) -> None:
        await user.enter("/compact")
        await user.until(lambda: "/compact" in user.status)
        session.go.set()
        await user.sees("done", "idle")

    run_with_screen(session, steps)


def test_slow_prompts_are_reported_and_returned_if_refused() -> None:
    session = SlowSession()

    async def steps(user: ScreenUser) -> None:
        await user.enter("/docs:summary")
        await user.until(lambda: "reading the prompt" in user.status)
        session.go.set()
        await user.sees("✗ not now", "idle")
        assert user.typed == "/docs:summary"

    run_with_screen(session, steps)


def test_after_a_shell_command_the_status_shows_the_run_again() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        begin_run(session, "hello?")
        session.happen(ShellStarted("sleep 9"))
        await user.until(lambda: "running sleep 9" in user.status)
        session.happen(ShellEnded(0))
        await user.until(lambda: "working" in user.status)
        record_message(session, ChatMessage.assistant("Hi."))
        end_run(session)
        await user.sees("idle")

    run_with_screen(session, steps)


def test_the_running_call_is_still_shown_after_a_command() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        begin_run(session, "hello?")
        await user.enter("/usage")
        await user.sees("done: usage", "waiting for offline/steno")
        record_message(session, ChatMessage.assistant("Hi."))
        end_run(session)

    run_with_screen(session, steps)
