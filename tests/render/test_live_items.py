"""What happens becomes blocks, and what is read back becomes the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from steno import ChatMessage, Conversation
from steno.agent import (
    Agent,
    AllowingApprover,
    DenyingApprover,
    EntryRecorded,
    Gate,
    LoopEvent,
    Notice,
    NoticeKind,
    Permissions,
    RunEnded,
    Runner,
)
from steno.agent.events import EndReason, RunResult
from steno.agent.session_events import ErrorRaised, ShellEnded, ShellOutput, ShellStarted
from steno.errors import Overloaded
from steno.messages.content import FileReference, Image, ImageData, ImageFile, Text, Thinking
from steno.messages.event import TextDelta
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.messages.usage import StopReason, Usage
from steno.records.entry import GrantRevoked, Mode, Repair, Resolution, ResolutionStatus
from steno.render.items import CallState, ImageLocation, ItemHint, ItemKind, TextForm
from steno.store import MemoryStore
from steno.testing import ScriptedProvider
from steno.tools import Toolbox, Workspace
from tests.agent.agent_setup import call, run, turn_with_calls
from tests.render.item_recorder import ItemRecorder, make_live_items, read_back


async def work(
    folder: Path,
    turns: Sequence[Any],
    prompt: str | UserMessage = "Go.",
    *,
    gate: Gate | None = None,
) -> tuple[ItemRecorder, Conversation]:
    """Let an agent work with real tools, and tell of it."""
    state, recorder = make_live_items()
    store = MemoryStore()
    conversation = store.new([ChatMessage.system("Work.")])
    state.load(conversation.entries())
    async with Toolbox(Workspace([folder])) as toolbox:
        agent = Agent(
            ScriptedProvider(turns),
            conversation,
            tools=toolbox.tools,
            gate=gate or Gate(Permissions(), AllowingApprover()),
            runner=Runner(store),
            model="scripted/one",
        )
        await agent.run(prompt, on_event=state.apply)
    return recorder, conversation


SCRIPTS: dict[str, list[Any]] = {
    "words": ["Hello *there*.\n\n```python\nprint(1)\n```"],
    "thinking": [
        AssistantMessage(content=(Thinking("hm, what?"), Text("Right.")), usage=Usage()),
    ],
    "a command": [
        turn_with_calls(call("1", "bash", command="echo one; echo two"), text="Let us see."),
        "So.",
    ],
    "a new file": [turn_with_calls(call("1", "write", path="a.py", content="x = 1\n")), "Written."],
    "a change": [
        turn_with_calls(call("1", "write", path="a.py", content="x = 1\ny = 2\n")),
        turn_with_calls(call("2", "edit", path="a.py", old="x = 1", new="x = 3")),
        "Changed.",
    ],
    "what is not there": [turn_with_calls(call("1", "read", path="nowhere.txt")), "Gone."],
    "what makes no sense": [turn_with_calls(call("1", "read", path=3), call("2", "fly")), "No."],
    "three at once": [
        turn_with_calls(*[call(str(n), "bash", command=f"echo {n}") for n in range(3)]),
        "Done.",
    ],
}


@pytest.mark.requirement("S4-15")
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=list(SCRIPTS))
def test_live_items_equal_the_items_of_the_stored_session(
    tmp_path: Path, script: list[Any]
) -> None:
    recorder, conversation = run(work(tmp_path, script))
    assert recorder.seen() == read_back(conversation).seen()
    assert not [item for item in recorder.blocks if item.is_open]


def test_a_denied_call_looks_the_same_after_reloading(tmp_path: Path) -> None:
    gate = Gate(Permissions(), DenyingApprover("not today", actor="ann"))
    script = [turn_with_calls(call("1", "bash", command="rm x")), "I see."]
    recorder, conversation = run(work(tmp_path, script, gate=gate))
    (item,) = recorder.of(ItemKind.CALL)
    assert item.state is CallState.DENIED
    assert "not today" in item.body
    assert recorder.seen() == read_back(conversation).seen()


def test_a_command_shows_its_head_and_what_it_printed(tmp_path: Path) -> None:
    recorder, _ = run(work(tmp_path, SCRIPTS["a command"]))
    kinds = [item.kind for item in recorder.blocks if item.kind is not ItemKind.MARKER]
    assert kinds == [ItemKind.USER, ItemKind.ANSWER, ItemKind.CALL, ItemKind.ANSWER]
    (item,) = recorder.of(ItemKind.CALL)
    assert item.head == "bash echo one; echo two"
    assert "one\ntwo" in item.body
    assert (item.state, item.is_folded) == (CallState.DONE, True)


def test_a_change_of_a_file_is_shown_as_a_diff(tmp_path: Path) -> None:
    recorder, _ = run(work(tmp_path, SCRIPTS["a change"]))
    write, edit = recorder.of(ItemKind.CALL)
    assert (write.form, edit.form) == (TextForm.DIFF, TextForm.DIFF)
    assert "-x = 1" in edit.body
    assert "+x = 3" in edit.body
    assert "+x = 1" in write.body


def test_a_short_diff_is_seen_at_once_and_a_long_one_when_it_is_asked_for(tmp_path: Path) -> None:
    long = "".join(f"line {number}\n" for number in range(40))
    script = [
        turn_with_calls(call("1", "write", path="a.py", content="x = 1\n")),
        turn_with_calls(call("2", "edit", path="a.py", old="x = 1", new="x = 3")),
        turn_with_calls(call("3", "write", path="b.py", content=long)),
        "Done.",
    ]
    recorder, _ = run(work(tmp_path, script))
    written, edited, much = recorder.of(ItemKind.CALL)
    assert [one.is_folded for one in (written, edited, much)] == [False, False, True]
    assert [one.note for one in (written, edited, much)] == ["+1 −0", "+1 −1", "+40 −0"]


def test_a_command_that_failed_says_how_it_ended() -> None:
    conversation = Conversation()
    message = ChatMessage.user("$ false\n")
    conversation.append(message, audit={"shell": "false", "status": 1})
    (item,) = read_back(conversation).of(ItemKind.SHELL)
    assert (item.head, item.note, item.state) == ("$ false", "exit 1", CallState.FAILED)


def test_an_answer_that_was_cut_off_says_by_what_and_how_to_go_on() -> None:
    state, recorder = make_live_items()
    cut_off = ChatMessage.assistant("Wel", stop_reason=StopReason.LENGTH)
    state.apply(RunEnded(RunResult(EndReason.DONE, cut_off, 1, Usage(), reason="it was cut off")))
    (notice,) = recorder.of(ItemKind.NOTICE)
    assert (notice.body, notice.hint) == ("it was cut off", ItemHint.RAISE_LIMIT)


def test_words_are_there_as_they_come() -> None:
    state, recorder = make_live_items()
    state.apply(TextDelta(0, "Hel"))
    state.apply(TextDelta(0, "lo"))
    (item,) = recorder.blocks
    assert (item.join_chunks(), item.is_open, item.entry) == ("Hello", True, None)


def test_words_of_a_turn_that_is_tried_again_are_taken_away() -> None:
    state, recorder = make_live_items()
    state.apply(TextDelta(0, "Hel"))
    state.apply(Notice(NoticeKind.RETRY, "overloaded; trying again", "turn_retried"))
    assert [item.kind for item in recorder.blocks] == [ItemKind.NOTICE]
    state.apply(TextDelta(0, "Hello"))
    assert [item.join_chunks() for item in recorder.of(ItemKind.ANSWER)] == ["Hello"]


def test_the_result_for_a_single_image_is_shown_with_its_name() -> None:
    conversation = Conversation()
    message = conversation.append(UserMessage((Image(source=ImageFile("shot.png")),)))
    failed = Resolution(target=message.id, block=0, status=ResolutionStatus.FAILED, error="gone")
    conversation.append(failed)
    (item,) = read_back(conversation).of(ItemKind.ERROR)
    assert item.body.startswith("image shot.png: failed: gone")


def test_an_image_is_only_pointed_at_until_it_is_drawn() -> None:
    conversation = Conversation()
    image = Image(source=ImageData(b"png"), mime_type="image/png")
    message = conversation.append(UserMessage((Text("?"), image)))
    (item,) = read_back(conversation).of(ItemKind.USER)
    assert item.images == (ImageLocation(message.id, 1),)


def test_an_item_is_redrawn_after_its_image_was_opened() -> None:
    state, recorder = make_live_items()
    conversation = Conversation()
    message = conversation.append(UserMessage((Image(source=ImageFile("shot.png")),)))
    state.apply(EntryRecorded(message))
    before = recorder.touched
    opened = Resolution(
        target=message.id, block=0, status=ResolutionStatus.RESOLVED, content=(Text("a cat"),)
    )
    state.apply(EntryRecorded(conversation.append(opened)))
    assert recorder.touched == before + 1


def test_the_diff_of_a_call_that_names_its_file_does_not_name_it_again(tmp_path: Path) -> None:
    recorder, _ = run(work(tmp_path, SCRIPTS["a change"]))
    for item in recorder.of(ItemKind.CALL):
        assert item.head.endswith(" a.py")
        assert item.body.startswith("@@ ")


def test_a_diff_below_another_name_keeps_its_own() -> None:
    conversation = Conversation([ChatMessage.user("Go.")])
    conversation.append(turn_with_calls(call("1", "patch", path="all")))
    diff = "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-x\n+y\n"
    conversation.append(
        ToolResultMessage(tool_call_id="1", content=(Text("ok"),), details={"diff": diff})
    )
    (item,) = read_back(conversation).of(ItemKind.CALL)
    assert item.body == diff


def ended(ending: EndReason, error: Any = None, reason: str = "") -> LoopEvent:
    return RunEnded(RunResult(ending, None, 1, Usage(), None, reason, error))


def test_a_failure_is_reported_with_a_remedy() -> None:
    state, recorder = make_live_items()
    state.apply(ended(EndReason.FAILED, Overloaded("busy")))
    (item,) = recorder.of(ItemKind.ERROR)
    assert "busy" in item.body
    assert item.hint is ItemHint.RETRY


def test_an_interruption_is_shown_and_no_call_seems_to_run() -> None:
    state, recorder = make_live_items()
    state.apply(TextDelta(0, "Hel"))
    state.apply(ended(EndReason.INTERRUPTED))
    assert [item.kind for item in recorder.blocks] == [ItemKind.NOTICE]


def test_a_command_of_the_person_is_shown_while_it_runs_and_as_it_is_on_record() -> None:
    state, recorder = make_live_items()
    conversation = Conversation()
    state.apply(ShellStarted("ls"))
    state.apply(ShellOutput("a.py\n"))
    (item,) = recorder.of(ItemKind.SHELL)
    assert (item.join_chunks(), item.state) == ("a.py\n", CallState.RUNNING)
    message = ChatMessage.user("$ ls\na.py\n")
    entry = conversation.append(message, audit={"shell": "ls", "status": 0})
    state.apply(EntryRecorded(entry))
    state.apply(ShellEnded(0))
    assert recorder.seen() == read_back(conversation).seen()
    (item,) = recorder.of(ItemKind.SHELL)
    assert (item.head, item.body, item.state) == ("$ ls", "a.py\n", CallState.DONE)


def test_a_grant_that_was_taken_back_is_a_change_of_course() -> None:
    conversation = Conversation([ChatMessage.user("Go.")])
    revoked = GrantRevoked(grant="write", target=conversation.entries()[0].id)
    conversation.append(revoked, decision="revoked", audit={"actor": "ada"})
    (item,) = read_back(conversation).of(ItemKind.MARKER)
    assert item.head == "write is no longer allowed for this session"


def test_a_repair_is_shown_as_one_whatever_its_decision() -> None:
    conversation = Conversation([ChatMessage.user("Go.")])
    mended = Repair(code="call_unanswered", explanation="a call was answered")
    conversation.append(mended, decision="cancelled", audit={"actor": "eva"})
    (item,) = read_back(conversation).of(ItemKind.NOTICE)
    assert item.body == "repaired: a call was answered"


def test_a_command_that_is_recorded_leaves_the_next_one_running() -> None:
    state, recorder = make_live_items()
    conversation = Conversation()
    for event in (ShellStarted("ls"), ShellEnded(0), ShellStarted("make"), ShellOutput("cc\n")):
        state.apply(event)
    message = ChatMessage.user("$ ls\na.py\n")
    state.apply(EntryRecorded(conversation.append(message, audit={"shell": "ls", "status": 0})))
    state.apply(ShellOutput("ld\n"))
    running, recorded = recorder.of(ItemKind.SHELL)
    assert (running.head, running.join_chunks(), running.state) == (
        "$ make",
        "cc\nld\n",
        CallState.RUNNING,
    )
    assert (recorded.head, recorded.state) == ("$ ls", CallState.DONE)
    state.apply(ShellEnded(2))
    assert (running.state, running.is_open) == (CallState.FAILED, False)


def test_a_command_that_was_stopped_says_so_while_it_is_seen_and_when_it_is_read_back() -> None:
    state, recorder = make_live_items()
    conversation = Conversation()
    state.apply(ShellStarted("sleep 60"))
    state.apply(ShellEnded(None))
    (item,) = recorder.of(ItemKind.SHELL)
    assert item.state is CallState.STOPPED
    message = ChatMessage.user("$ sleep 60\n[stopped]")
    state.apply(EntryRecorded(conversation.append(message, audit={"shell": "sleep 60"})))
    (item,) = recorder.of(ItemKind.SHELL)
    assert item.state is CallState.STOPPED
    assert recorder.seen() == read_back(conversation).seen()


@pytest.mark.requirement("S2-28")
def test_an_image_that_cannot_be_opened_is_reported_with_a_retry_hint() -> None:
    conversation = Conversation()
    image = Image(source=ImageFile("shot.png"))
    message = conversation.append(UserMessage((Text("What is it?"), image)))
    failed = Resolution(
        target=message.id, block=1, status=ResolutionStatus.FAILED, error="shot.png: is no image"
    )
    conversation.append(failed)
    (item,) = read_back(conversation).of(ItemKind.ERROR)
    assert "image shot.png" in item.body
    assert "is no image" in item.body
    assert item.hint is ItemHint.RETRY


@pytest.mark.requirement("S2-27")
def test_the_user_is_notified_that_the_model_gets_the_text_of_an_image() -> None:
    conversation = Conversation()
    message = conversation.append(UserMessage((Text("?"), Image(source=ImageFile("shot.png")))))
    read = Resolution(
        target=message.id,
        block=1,
        status=ResolutionStatus.RESOLVED,
        content=(Text("Friday"),),
        details={"kind": "image", "used": "ocr", "engine": "rapidocr"},
    )
    conversation.append(read)
    (item,) = read_back(conversation).of(ItemKind.NOTICE)
    assert "image shot.png: the model receives the recognised text" in item.body


def test_references_of_a_message_are_named() -> None:
    conversation = Conversation()
    pointer = FileReference(path="src/a.py", start_line=3, end_line=9)
    conversation.append(UserMessage((Text("Look."), pointer)))
    (item,) = read_back(conversation).blocks
    assert item.body == "Look.\n[file src/a.py:3-9]"


def test_changes_of_course_are_marked() -> None:
    conversation = Conversation([ChatMessage.user("Go.")])
    conversation.change_mode(Mode.PLAN)
    conversation.fork("other")
    conversation.switch("other")
    marks = [item.head for item in read_back(conversation).of(ItemKind.MARKER)]
    assert marks == ["plan mode", "branch other"]


def test_troubles_and_replies_are_put_at_the_end() -> None:
    state, recorder = make_live_items()
    state.apply(ErrorRaised("the disk is full"))
    state.add_text(ItemKind.REPLY, "| a | b |", head="usage")
    assert [(item.kind, item.head) for item in recorder.blocks] == [
        (ItemKind.ERROR, ""),
        (ItemKind.REPLY, "usage"),
    ]
