"""The full screen with a real session: a scripted model, tools, files and a store."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from steno.records.entry import (
    Approval,
    ApprovalStatus,
    Entry,
    Resolution,
    ResolutionStatus,
    Rewind,
    ShellCommand,
)
from steno.render.items import CallState, ItemKind, TextForm
from steno.store import open_store
from tests.app.project_setup import scripted_model
from tests.app.scripted_vendor import Call, Thought
from tests.cli.reference_setup import WITH_VISION, WITHOUT_VISION, last_images, last_text
from tests.inputs.images.image_samples import encode_image, red_image
from tests.inputs.ocr.text_images import draw_text, encode_png
from tests.ui.tui.app.screen_user import OFFLINE, ScreenUser, opens_real_session, run_with_screen

pytestmark = pytest.mark.requirement("S4-15")
WRITE = Call("write", {"path": "out/a.txt", "content": "a\n"}, "c1")
EDIT = Call("edit", {"path": "note.txt", "old": "forty-two", "new": "forty-three"}, "c1")


def record() -> list[Entry]:
    """Return the entries of the last session."""
    with open_store() as store:
        [*_, last] = store.headers()
        return list(store.open(last.id).entries())


def decisions() -> list[tuple[ApprovalStatus, str | None]]:
    payloads = [entry.payload for entry in record()]
    return [(one.status, one.reason) for one in payloads if isinstance(one, Approval)]


def left_behind() -> Entry:
    """Return the last entry of the branch before the rewind."""
    with open_store() as store:
        [*_, last] = store.headers()
        conversation = store.open(last.id)
        [rewind] = [e.payload for e in conversation.entries() if isinstance(e.payload, Rewind)]
        return conversation.entry(rewind.left)


# -- answering -----------------------------------------------------------------------------------


def test_a_model_thinks_answers_and_is_counted(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def steps(user: ScreenUser) -> None:
        await user.enter("Hello?")
        await user.sees("thinking · 2 words", "answering", "Good")
        gate.set()
        await user.sees("Good morning.", "idle", "↑10 ↓5 tok")

    with scripted_model(home, [Thought("who now?"), "Good ", gate, "**morning**."]):
        run_with_screen(opens_real_session(project), steps)


def test_a_command_of_the_person_is_on_record(project: Path) -> None:
    async def steps(user: ScreenUser) -> None:
        await user.enter("!echo one two | tr a-z A-Z")
        await user.sees("✓ $ echo one two", "ONE TWO", "idle")

    run_with_screen(opens_real_session(project, flags=OFFLINE), steps)
    [shell] = [e.payload for e in record() if isinstance(e.payload, ShellCommand)]
    assert (shell.command, shell.status) == ("echo one two | tr a-z A-Z", 0)
    assert "ONE TWO" in shell.output


def test_a_command_of_the_person_can_be_edited_from_where_it_stands(project: Path) -> None:
    async def steps(user: ScreenUser) -> None:
        await user.enter("!echo one")
        await user.sees("✓ $ echo one", "idle")
        await user.press("alt+up", "e")
        await user.until(lambda: user.typed == "!echo one")

    run_with_screen(opens_real_session(project, flags=OFFLINE), steps)


def test_a_command_of_the_person_that_fails_says_so(project: Path) -> None:
    async def steps(user: ScreenUser) -> None:
        await user.enter("!exit 3")
        await user.sees("✗ $ exit 3", "idle")

    run_with_screen(opens_real_session(project, flags=OFFLINE), steps)


def test_escape_stops_a_command_of_the_model_and_the_session_continues(project: Path) -> None:
    async def steps(user: ScreenUser) -> None:
        await user.enter("run sleep 60")
        await user.sees("● bash sleep 60")
        await user.press("escape")
        await user.sees("■ bash sleep 60", "interrupted", "idle")
        await user.enter("read note.txt")
        await user.sees("forty-two")

    run_with_screen(
        opens_real_session(project, flags={**OFFLINE, "allow": ["bash(sleep *)"]}), steps
    )


def test_a_prompt_during_a_turn_is_sent_with_the_next_request(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def steps(user: ScreenUser) -> None:
        await user.enter("Read it.")
        await user.sees("Let me see")
        await user.enter("And be brief.")
        await user.sees("And be brief.", "will be sent with the next request")
        gate.set()
        await user.sees("42.", "idle")
        assert "will be sent" not in user.text
        assert user.said(ItemKind.USER) == ["Read it.", "And be brief."]

    with scripted_model(home, ["Let me see", gate, Call("read", {"path": "note.txt"})], "42."):
        run_with_screen(opens_real_session(project), steps)


# -- approving -----------------------------------------------------------------------------------


@pytest.mark.requirement("S2-18")
def test_a_call_that_is_allowed_once_is_done_and_shown_as_a_diff(project: Path, home: Path) -> None:
    async def steps(user: ScreenUser) -> None:
        await user.enter("One more.")
        await user.sees("? edit note.txt", "-forty-two", "+forty-three", "waiting for approval")
        assert decisions()[-1] == (ApprovalStatus.PENDING, None)
        await user.decide("o", "once")
        await user.sees("✓ edit note.txt", "Done.", "idle")
        _, call = user.blocks(ItemKind.CALL)
        assert (call.form, call.state) == (TextForm.DIFF, CallState.DONE)
        assert user.app.prompt.has_focus_within
        await user.press("ctrl+o")
        await user.sees("-forty-two", "+forty-three")

    read = Call("read", {"path": "note.txt"}, "c0")
    with scripted_model(home, [read], [EDIT], "Done."):
        run_with_screen(opens_real_session(project), steps)
    assert (project / "note.txt").read_text("utf-8") == "forty-three\n"
    assert [status for status, _ in decisions()] == ["approved", "pending", "approved"]


@pytest.mark.requirement("S2-18")
def test_a_call_that_is_denied_is_not_done(project: Path, home: Path) -> None:
    async def steps(user: ScreenUser) -> None:
        await user.enter("Write it.")
        await user.sees("? write out/a.txt")
        await user.decide("d", "deny")
        await user.sees("⊘ write out/a.txt", "I see.", "idle")

    with scripted_model(home, [WRITE], "I see."):
        run_with_screen(opens_real_session(project), steps)
    assert not (project / "out").exists()
    assert [status for status, _ in decisions()] == ["pending", "denied"]


@pytest.mark.requirement("S2-18")
def test_a_reason_goes_to_the_model(project: Path, home: Path) -> None:
    async def steps(user: ScreenUser) -> None:
        await user.enter("Write it.")
        await user.sees("? write out/a.txt")
        await user.sees("r deny with reason")
        await user.press("ctrl+g")
        user.let_pass()
        await user.press("r")
        await user.sees("reason for the denial")
        await user.type("use the other folder")
        await user.until(lambda: "use the other folder" in user.text)
        user.let_pass()  # an Enter right behind a key is taken for a paste
        await user.press("enter")
        await user.sees("⊘ write out/a.txt", "I see.", "idle")

    with scripted_model(home, [WRITE], "I see.") as model:
        run_with_screen(opens_real_session(project), steps)
    assert "use the other folder" in last_text(model)
    assert decisions()[-1] == (ApprovalStatus.DENIED, "use the other folder")


@pytest.mark.requirement("S2-18")
def test_returning_to_the_prompt_decides_nothing(project: Path, home: Path) -> None:
    async def steps(user: ScreenUser) -> None:
        await user.enter("Write it.")
        await user.sees("? write out/a.txt")
        await user.press("ctrl+g")
        assert not user.app.prompt.has_focus_within
        await user.press("escape")
        await user.until(lambda: user.app.prompt.has_focus_within)
        await user.type("hm")
        assert user.typed == "hm"
        assert decisions() == [(ApprovalStatus.PENDING, None)]
        await user.press("ctrl+c", "escape")
        await user.sees("■ write out/a.txt", "interrupted")

    with scripted_model(home, [WRITE], "I see."):
        run_with_screen(opens_real_session(project), steps)
    assert not (project / "out").exists()


@pytest.mark.requirement("S2-18")
def test_an_approval_takes_the_focus_unless_the_user_is_typing(project: Path, home: Path) -> None:
    async def steps(user: ScreenUser) -> None:
        await user.enter("Write it.")
        await user.type("by the way")
        await user.sees("? write out/a.txt")
        await user.pilot.pause(1.5)  # long enough for whoever only waits
        assert user.app.prompt.has_focus_within
        await user.press("ctrl+c")
        await user.until(lambda: not user.app.prompt.has_focus_within)
        await user.decide("d", "deny")
        await user.sees("⊘ write out/a.txt", "I see.", "idle")
        assert user.app.prompt.has_focus_within

    with scripted_model(home, [WRITE], "I see."):
        run_with_screen(opens_real_session(project), steps)


# -- images --------------------------------------------------------------------------------------


@pytest.mark.requirement("S2-27")
def test_an_image_for_a_model_without_vision_is_recognised_with_a_notice(
    project: Path, home: Path
) -> None:
    (project / "plan.png").write_bytes(encode_png(draw_text("Ship it on Friday.")))

    async def steps(user: ScreenUser) -> None:
        await user.enter("When does @plan.png say?")
        seen = await user.sees("Friday.", "idle")
        assert "[image plan.png]" in seen
        text = " ".join(user.said(ItemKind.NOTICE))
        assert "recognising the text in " in text
        assert "the model does not accept images" in text

    with scripted_model(home, "Friday.", settings=WITHOUT_VISION) as model:
        run_with_screen(opens_real_session(project), steps)
    assert "Ship it on Friday." in last_text(model)


@pytest.mark.requirement("S2-28")
def test_a_failed_image_is_reported_and_can_be_retried(project: Path, home: Path) -> None:
    file = project / "shapes.png"

    async def steps(user: ScreenUser) -> None:
        file.write_bytes(b"no image at all")
        await user.enter("Which colour is @shapes.png?")
        await user.sees("✗ nothing was sent: image shapes.png: failed:", "/retry tries", "idle")
        await user.until(lambda: user.typed == "Which colour is @shapes.png?")
        failed = left_behind().payload
        assert isinstance(failed, Resolution)
        assert failed.status is ResolutionStatus.FAILED
        file.write_bytes(encode_image(red_image()))
        await user.press("escape")
        await user.enter("/retry")
        await user.sees("Red.", "idle")

    with scripted_model(home, "Red.", settings=WITH_VISION) as model:
        run_with_screen(opens_real_session(project), steps)
    assert len(last_images(model)) == 1
    found = [e.payload for e in record() if isinstance(e.payload, Resolution)]
    assert [one.status for one in found] == [ResolutionStatus.RESOLVED]


# -- branches and sessions -----------------------------------------------------------------------


def test_an_earlier_prompt_can_be_edited_in_a_new_branch(project: Path, home: Path) -> None:
    async def steps(user: ScreenUser) -> None:
        await user.enter("What is one?")
        await user.sees("First.", "idle")
        await user.enter("And two?")
        await user.sees("Second.", "idle")
        await user.press("ctrl+t")
        await user.sees("Tree of What is one?")
        await user.press("up", "e")
        await user.sees("Name of the new branch to edit")
        await user.press("enter")
        await user.until(lambda: user.typed == "And two?")
        await user.until(lambda: "⎇ edit" in user.status)
        assert "Second." not in user.text
        await user.press("ctrl+c")
        await user.enter("And three?")
        await user.sees("Third.", "idle", "First.")
        await user.press("ctrl+t")
        await user.sees("2 branches", "And two?", "And three?")
        await user.press("c")
        await user.sees("Compare", "And two?", "And three?")
        await user.press("escape", "escape")
        await user.until(lambda: len(user.app.screen_stack) == 1)

    with scripted_model(home, "First.", "Second.", "Third."):
        run_with_screen(opens_real_session(project), steps)


def test_sessions_are_picked_renamed_and_deleted(project: Path) -> None:
    async def steps(user: ScreenUser) -> None:
        await user.enter("read note.txt")
        await user.sees("forty-two", "idle")
        await user.enter("/new")
        await user.until(lambda: "forty-two" not in user.text)
        await user.enter("list the files")
        await user.sees("✓ glob", "idle")
        await user.enter("/resume")
        await user.sees("Sessions", "● list the files", "  read note.txt")
        await user.press("down", "f2")
        await user.sees("New title")
        await user.press("ctrl+u")
        await user.type("about a note")
        await user.press("enter")
        await user.sees("  about a note", "2 sessions")
        await user.press("enter")
        await user.until(lambda: len(user.app.screen_stack) == 1)
        await user.sees("forty-two")
        assert "about a note" in user.status
        await user.enter("/resume")
        await user.sees("● about a note", "  list the files")
        await user.type("glob")
        await user.until(lambda: "1 session" in user.text)
        await user.press("delete")
        await user.sees("Delete “list the files”")
        await user.type("y")
        await user.press("enter")
        await user.sees("no session contains these words")
        await user.press("escape")

    run_with_screen(opens_real_session(project, flags=OFFLINE), steps)
    with open_store() as store:
        assert len(list(store.headers())) == 1


def test_another_model_is_picked_from_a_list(project: Path, home: Path) -> None:
    async def steps(user: ScreenUser) -> None:
        assert "lab/tester" in user.status
        await user.enter("/model")
        await user.sees("● lab/tester", "type to filter")
        await user.type("offline")
        await user.press("enter")
        await user.sees("The model is offline/assistant from the next request on")
        await user.until(lambda: "offline/assistant" in user.status)

    with scripted_model(home, "Hello."):
        run_with_screen(opens_real_session(project), steps)


def test_a_resumed_session_continues_at_its_last_entry(project: Path) -> None:
    async def begin(user: ScreenUser) -> None:
        await user.enter("read note.txt")
        await user.sees("forty-two", "idle")
        await user.press("ctrl+d")
        await user.until_it_ends()

    async def go_on(user: ScreenUser) -> None:
        await user.sees("read note.txt", "forty-two")
        await user.press("up")
        assert user.typed == "read note.txt"

    history = project / "typed.jsonl"
    run_with_screen(opens_real_session(project, flags=OFFLINE), begin, history=history)
    run_with_screen(
        opens_real_session(project, flags=OFFLINE, continues=True), go_on, history=history
    )
