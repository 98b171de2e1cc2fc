"""The whole screen at a real desk: a model that follows a script, tools, files and a store."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from steno.messages.message import UserMessage
from steno.records.entry import (
    Approval,
    ApprovalStatus,
    Entry,
    Resolution,
    ResolutionStatus,
    Rewind,
)
from steno.render.items import CallState, ItemKind, TextForm
from steno.store import open_store
from tests.app.project_setup import scripted_model
from tests.app.scripted_vendor import Call, Thought
from tests.cli.reference_setup import WITH_VISION, WITHOUT_VISION, last_images, last_text
from tests.inputs.images.image_samples import encode_image, red_image
from tests.inputs.ocr.text_images import draw_text, encode_png
from tests.ui.tui.app.screen_user import OFFLINE, ScreenUser, opens_real_session, play_scene

pytestmark = pytest.mark.requirement("S4-15")
WRITE = Call("write", {"path": "out/a.txt", "content": "a\n"}, "c1")
EDIT = Call("edit", {"path": "note.txt", "old": "forty-two", "new": "forty-three"}, "c1")


def record() -> list[Entry]:
    """Return what is on record of the last session."""
    with open_store() as store:
        [*_, last] = store.headers()
        return list(store.open(last.id).entries())


def decisions() -> list[tuple[ApprovalStatus, str | None]]:
    payloads = [entry.payload for entry in record()]
    return [(one.status, one.reason) for one in payloads if isinstance(one, Approval)]


def left_behind() -> Entry:
    """Return the last entry of what was gone back from."""
    with open_store() as store:
        [*_, last] = store.headers()
        conversation = store.open(last.id)
        [rewind] = [e.payload for e in conversation.entries() if isinstance(e.payload, Rewind)]
        return conversation.entry(rewind.left)


# -- answering -----------------------------------------------------------------------------------


def test_a_model_thinks_answers_and_is_counted(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def scene(person: ScreenUser) -> None:
        await person.enter("Hello?")
        await person.sees("thinking · 2 words", "answering", "Good")
        gate.set()
        await person.sees("Good morning.", "idle", "↑10 ↓5 tok")

    with scripted_model(home, [Thought("who now?"), "Good ", gate, "**morning**."]):
        play_scene(opens_real_session(project), scene)


def test_a_command_of_the_person_is_on_record(project: Path) -> None:
    async def scene(person: ScreenUser) -> None:
        await person.enter("!echo one two | tr a-z A-Z")
        await person.sees("✓ $ echo one two", "ONE TWO", "idle")

    play_scene(opens_real_session(project, flags=OFFLINE), scene)
    [said] = [e.payload for e in record() if isinstance(e.payload, UserMessage)]
    assert "ONE TWO" in (said.text or "")


def test_a_command_of_the_person_that_fails_says_so(project: Path) -> None:
    async def scene(person: ScreenUser) -> None:
        await person.enter("!exit 3")
        await person.sees("✗ $ exit 3", "idle")

    play_scene(opens_real_session(project, flags=OFFLINE), scene)


def test_escape_stops_a_command_of_the_model_and_the_session_goes_on(project: Path) -> None:
    async def scene(person: ScreenUser) -> None:
        await person.enter("run sleep 60")
        await person.sees("● bash sleep 60")
        await person.press("escape")
        await person.sees("■ bash sleep 60", "interrupted", "idle")
        await person.enter("read note.txt")
        await person.sees("forty-two")

    play_scene(opens_real_session(project, flags={**OFFLINE, "allow": ["bash(sleep *)"]}), scene)


def test_what_is_said_during_a_turn_is_heard_at_the_next_step(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def scene(person: ScreenUser) -> None:
        await person.enter("Read it.")
        await person.sees("Let me see")
        await person.enter("And be brief.")
        await person.sees("And be brief.", "will be heard at the next step")
        gate.set()
        await person.sees("42.", "idle")
        assert "will be heard" not in person.text
        assert person.said(ItemKind.USER) == ["Read it.", "And be brief."]

    with scripted_model(home, ["Let me see", gate, Call("read", {"path": "note.txt"})], "42."):
        play_scene(opens_real_session(project), scene)


# -- approving -----------------------------------------------------------------------------------


@pytest.mark.requirement("S2-18")
def test_a_call_that_is_allowed_once_is_done_and_shown_as_a_diff(project: Path, home: Path) -> None:
    async def scene(person: ScreenUser) -> None:
        await person.enter("One more.")
        await person.sees("? edit note.txt", "-forty-two", "+forty-three", "asks you")
        assert decisions()[-1] == (ApprovalStatus.PENDING, None)
        await person.decide("o", "once")
        await person.sees("✓ edit note.txt", "Done.", "idle")
        _, call = person.blocks(ItemKind.CALL)
        assert (call.form, call.state) == (TextForm.DIFF, CallState.DONE)
        assert person.app.prompt.has_focus_within
        await person.press("ctrl+o")
        await person.sees("-forty-two", "+forty-three")

    read = Call("read", {"path": "note.txt"}, "c0")
    with scripted_model(home, [read], [EDIT], "Done."):
        play_scene(opens_real_session(project), scene)
    assert (project / "note.txt").read_text("utf-8") == "forty-three\n"
    assert [status for status, _ in decisions()] == ["approved", "pending", "approved"]


@pytest.mark.requirement("S2-18")
def test_a_call_that_is_denied_is_not_done(project: Path, home: Path) -> None:
    async def scene(person: ScreenUser) -> None:
        await person.enter("Write it.")
        await person.sees("? write out/a.txt")
        await person.decide("d", "deny")
        await person.sees("⊘ write out/a.txt", "I see.", "idle")

    with scripted_model(home, [WRITE], "I see."):
        play_scene(opens_real_session(project), scene)
    assert not (project / "out").exists()
    assert [status for status, _ in decisions()] == ["pending", "denied"]


@pytest.mark.requirement("S2-18")
def test_a_reason_goes_to_the_model(project: Path, home: Path) -> None:
    async def scene(person: ScreenUser) -> None:
        await person.enter("Write it.")
        await person.sees("? write out/a.txt")
        await person.sees("r deny with reason")
        await person.press("ctrl+g")
        person.let_pass()
        await person.press("r")
        await person.sees("why not?")
        await person.type("use the other folder")
        await person.until(lambda: "use the other folder" in person.text)
        person.let_pass()  # an Enter right behind a key is taken for a paste
        await person.press("enter")
        await person.sees("⊘ write out/a.txt", "I see.", "idle")

    with scripted_model(home, [WRITE], "I see.") as model:
        play_scene(opens_real_session(project), scene)
    assert "use the other folder" in last_text(model)
    assert decisions()[-1] == (ApprovalStatus.DENIED, "use the other folder")


@pytest.mark.requirement("S2-18")
def test_who_goes_back_to_the_prompt_has_decided_nothing(project: Path, home: Path) -> None:
    async def scene(person: ScreenUser) -> None:
        await person.enter("Write it.")
        await person.sees("? write out/a.txt")
        await person.press("ctrl+g")
        assert not person.app.prompt.has_focus_within
        await person.press("escape")
        await person.until(lambda: person.app.prompt.has_focus_within)
        await person.type("hm")
        assert person.typed == "hm"
        assert decisions() == [(ApprovalStatus.PENDING, None)]
        await person.press("ctrl+c", "escape")
        await person.sees("■ write out/a.txt", "interrupted")

    with scripted_model(home, [WRITE], "I see."):
        play_scene(opens_real_session(project), scene)
    assert not (project / "out").exists()


@pytest.mark.requirement("S2-18")
def test_a_question_comes_to_whoever_waits_and_to_nobody_who_types(
    project: Path, home: Path
) -> None:
    async def scene(person: ScreenUser) -> None:
        await person.enter("Write it.")
        await person.type("by the way")
        await person.sees("? write out/a.txt")
        await person.pilot.pause(1.5)  # long enough for whoever only waits
        assert person.app.prompt.has_focus_within
        await person.press("ctrl+c")
        await person.until(lambda: not person.app.prompt.has_focus_within)
        await person.decide("d", "deny")
        await person.sees("⊘ write out/a.txt", "I see.", "idle")
        assert person.app.prompt.has_focus_within

    with scripted_model(home, [WRITE], "I see."):
        play_scene(opens_real_session(project), scene)


# -- images --------------------------------------------------------------------------------------


@pytest.mark.requirement("S2-27")
def test_an_image_for_a_model_that_sees_none_is_read_and_the_person_is_told(
    project: Path, home: Path
) -> None:
    (project / "plan.png").write_bytes(encode_png(draw_text("Ship it on Friday.")))

    async def scene(person: ScreenUser) -> None:
        await person.enter("When does @plan.png say?")
        seen = await person.sees("Friday.", "idle")
        assert "[image plan.png]" in seen
        told = " ".join(person.said(ItemKind.NOTICE))
        assert "recognising the text in " in told
        assert "the model takes no images" in told

    with scripted_model(home, "Friday.", settings=WITHOUT_VISION) as model:
        play_scene(opens_real_session(project), scene)
    assert "Ship it on Friday." in last_text(model)


@pytest.mark.requirement("S2-28")
def test_an_image_that_fails_is_told_and_tried_again(project: Path, home: Path) -> None:
    file = project / "shapes.png"

    async def scene(person: ScreenUser) -> None:
        file.write_bytes(b"no image at all")
        await person.enter("Which colour is @shapes.png?")
        await person.sees("✗ nothing was sent: image shapes.png: failed:", "/retry tries", "idle")
        await person.until(lambda: person.typed == "Which colour is @shapes.png?")
        failed = left_behind().payload
        assert isinstance(failed, Resolution)
        assert failed.status is ResolutionStatus.FAILED
        file.write_bytes(encode_image(red_image()))
        await person.press("escape")
        await person.enter("/retry")
        await person.sees("Red.", "idle")

    with scripted_model(home, "Red.", settings=WITH_VISION) as model:
        play_scene(opens_real_session(project), scene)
    assert len(last_images(model)) == 1
    found = [e.payload for e in record() if isinstance(e.payload, Resolution)]
    assert [one.status for one in found] == [ResolutionStatus.RESOLVED]


# -- branches and sessions -----------------------------------------------------------------------


def test_an_earlier_message_is_said_otherwise_in_a_branch_of_its_own(
    project: Path, home: Path
) -> None:
    async def scene(person: ScreenUser) -> None:
        await person.enter("What is one?")
        await person.sees("First.", "idle")
        await person.enter("And two?")
        await person.sees("Second.", "idle")
        await person.press("ctrl+t")
        await person.sees("Tree of What is one?")
        await person.press("up", "e")
        await person.sees("otherwise, in a branch called")
        await person.press("enter")
        await person.until(lambda: person.typed == "And two?")
        await person.until(lambda: "⎇ edit" in person.status)
        assert "Second." not in person.text
        await person.press("ctrl+c")
        await person.enter("And three?")
        await person.sees("Third.", "idle", "First.")
        await person.press("ctrl+t")
        await person.sees("2 branches", "And two?", "And three?")
        await person.press("c")
        await person.sees("Compare", "And two?", "And three?")
        await person.press("escape", "escape")
        await person.until(lambda: len(person.app.screen_stack) == 1)

    with scripted_model(home, "First.", "Second.", "Third."):
        play_scene(opens_real_session(project), scene)


def test_sessions_are_picked_renamed_and_deleted(project: Path) -> None:
    async def scene(person: ScreenUser) -> None:
        await person.enter("read note.txt")
        await person.sees("forty-two", "idle")
        await person.enter("/new")
        await person.until(lambda: "forty-two" not in person.text)
        await person.enter("list the files")
        await person.sees("✓ glob", "idle")
        await person.enter("/resume")
        await person.sees("Sessions", "● list the files", "  read note.txt")
        await person.press("down", "f2")
        await person.sees("Another title")
        await person.press("ctrl+u")
        await person.type("about a note")
        await person.press("enter")
        await person.sees("  about a note", "2 sessions")
        await person.press("enter")
        await person.until(lambda: len(person.app.screen_stack) == 1)
        await person.sees("forty-two")
        assert "about a note" in person.status
        await person.enter("/resume")
        await person.sees("● about a note", "  list the files")
        await person.type("glob")
        await person.until(lambda: "1 session" in person.text)
        await person.press("delete")
        await person.sees("Delete “list the files”")
        await person.type("y")
        await person.press("enter")
        await person.sees("nothing holds these words")
        await person.press("escape")

    play_scene(opens_real_session(project, flags=OFFLINE), scene)
    with open_store() as store:
        assert len(list(store.headers())) == 1


def test_another_model_is_picked_from_a_list(project: Path, home: Path) -> None:
    async def scene(person: ScreenUser) -> None:
        assert "lab/tester" in person.status
        await person.enter("/model")
        await person.sees("● lab/tester", "type to filter")
        await person.type("offline")
        await person.press("enter")
        await person.sees("offline/assistant answers from here on")
        await person.until(lambda: "offline/assistant" in person.status)

    with scripted_model(home, "Hello."):
        play_scene(opens_real_session(project), scene)


def test_a_session_goes_on_where_it_was_left(project: Path) -> None:
    async def begin(person: ScreenUser) -> None:
        await person.enter("read note.txt")
        await person.sees("forty-two", "idle")
        await person.press("ctrl+d")
        await person.until_it_ends()

    async def go_on(person: ScreenUser) -> None:
        await person.sees("read note.txt", "forty-two")
        await person.press("up")
        assert person.typed == "read note.txt"

    history = project / "typed.jsonl"
    play_scene(opens_real_session(project, flags=OFFLINE), begin, history=history)
    play_scene(opens_real_session(project, flags=OFFLINE, continues=True), go_on, history=history)
