"""The references of a log: each entry is read once, however long it gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import pytest
from msgspec.structs import replace

from steno import ChatMessage, Conversation, Text
from steno.agent import EndReason
from steno.agent.resolve_references import ReferenceTracker, TrackedReference
from steno.messages.content import FileReference
from steno.messages.message import AssistantMessage, ToolResultMessage
from steno.messages.outcome import Outcome
from steno.records.entry import Compaction, Entry, Resolution, ResolutionStatus
from tests.agent.agent_setup import AgentHarness, call, read_tool, run, turn_with_calls
from tests.agent.reference_doubles import (
    NOTES,
    ScriptedResolver,
    file_reference,
    image_file,
    prompt_with,
)

RESOLVED, FAILED = ResolutionStatus.RESOLVED, ResolutionStatus.FAILED


class Counted(Sequence[Entry]):
    """A log that counts how many of its entries were read."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self.reads = 0

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, at: int) -> Entry: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Entry]: ...
    def __getitem__(self, at: int | slice) -> Entry | Sequence[Entry]:
        found = self._entries[at]
        self.reads += 1 if isinstance(found, Entry) else len(found)
        return found

    def __iter__(self) -> Iterator[Entry]:
        for number in range(len(self)):
            yield self[number]


def found(entry: Entry, block: int = 1, **fields: Any) -> Resolution:
    settings = {"status": RESOLVED, "content": (Text("what is there"),)} | fields
    return Resolution(target=entry.id, block=block, **settings)


def failed(entry: Entry, block: int = 1) -> Resolution:
    return found(entry, block, status=FAILED, content=(), error="gone")


def pointers_of(conversation: Conversation) -> ReferenceTracker:
    pointers = ReferenceTracker()
    pointers.read(conversation.entries_view())
    return pointers


def names(pointed: Sequence[TrackedReference]) -> list[str]:
    return [one.reference.path for one in pointed if isinstance(one.reference, FileReference)]


# -- what is found -------------------------------------------------------------------------------


def test_every_kind_of_reference_in_user_messages_is_found_with_its_place() -> None:
    conversation = Conversation([ChatMessage.system("Work.")])
    entry = conversation.append(
        prompt_with("Look.", file_reference("a"), image_file(), Text("and"), NOTES)
    )
    places = [(one.entry, one.block) for one in pointers_of(conversation).unanswered()]
    assert places == [(entry, 1), (entry, 2), (entry, 4)]


def test_the_last_that_was_found_out_counts() -> None:
    conversation = Conversation()
    entry = conversation.append(prompt_with("Look.", file_reference("a"), file_reference("b")))
    conversation.append(failed(entry))
    conversation.append(found(entry, 2))
    pointers = pointers_of(conversation)
    assert [one.is_resolved for one in pointers.unanswered()] == [False, True]
    conversation.append(found(entry))
    conversation.append(failed(entry, 2))
    pointers.read(conversation.entries_view())
    assert [one.is_resolved for one in pointers.unanswered()] == [True, False]
    assert names(pointers.resolved()) == ["a"]


def test_references_of_answered_prompts_are_not_opened_again_but_stay_in_context() -> None:
    conversation = Conversation()
    conversation.append(found(conversation.append(prompt_with("Look.", file_reference("a")))))
    conversation.append(ChatMessage.assistant("I see."))
    conversation.append(found(conversation.append(prompt_with("And?", file_reference("b")))))
    pointers = pointers_of(conversation)
    assert names(pointers.unanswered()) == ["b"]
    assert names(pointers.resolved()) == ["a", "b"]


@pytest.mark.parametrize("through", ["first", "last"])
def test_references_before_a_summary_are_dropped(through: str) -> None:
    conversation = Conversation()
    first = conversation.append(prompt_with("Look.", file_reference("a")))
    conversation.append(found(first))
    conversation.append(ChatMessage.assistant("I see."))
    last = conversation.append(prompt_with("And?", file_reference("b")))
    conversation.append(found(last))
    cut = first if through == "first" else last
    conversation.append(Compaction(through=cut.id, summary="They looked."))
    pointers = pointers_of(conversation)
    assert names(pointers.resolved()) == (["b"] if through == "first" else [])


def test_references_before_a_clear_are_dropped() -> None:
    conversation = Conversation()
    first = conversation.append(prompt_with("Look.", file_reference("a")))
    conversation.append(found(first))
    conversation.clear()
    assert pointers_of(conversation).unanswered() == ()
    last = conversation.append(prompt_with("And?", file_reference("b")))
    conversation.append(found(last))
    pointers = pointers_of(conversation)
    assert names(pointers.unanswered()) == names(pointers.resolved()) == ["b"]


def test_findings_about_what_is_not_there_are_left_alone() -> None:
    conversation = Conversation()
    entry = conversation.append(prompt_with("Look.", file_reference("a")))
    for odd in (found(entry, 0), found(entry, 99)):
        conversation.append(odd)
    elsewhere = Entry(id="r", payload=replace(found(entry), target="no-such-entry"))
    pointers = ReferenceTracker()
    pointers.read((*conversation.entries(), elsewhere))
    assert pointers.resolved() == ()


# -- what the model knows since ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "is_error", "is_known"),
    [("src/a", False, True), ("src/b", False, False), ("src/a", True, False), (7, False, False)],
)
def test_a_file_that_a_tool_has_shown_or_changed_is_known(
    path: Any, is_error: bool, is_known: bool
) -> None:
    conversation = Conversation()
    entry = conversation.append(prompt_with("Look.", file_reference("./src/a")))
    conversation.append(found(entry, details={"path": "src/a"}))
    conversation.append(turn_with_calls(call("c1", "read")))
    outcome = Outcome.ERROR if is_error else Outcome.OK
    result = ToolResultMessage(
        tool_call_id="c1", content=(Text("Done."),), outcome=outcome, details={"path": path}
    )
    conversation.append(result)
    (one,) = pointers_of(conversation).resolved()
    assert ("src/a" in one.known_files) is is_known


def test_a_file_that_is_shown_again_is_news_again_only_where_it_was_shown_last() -> None:
    conversation = Conversation()
    for _ in range(3):
        entry = conversation.append(prompt_with("Look.", file_reference("a")))
        conversation.append(found(entry, details={"path": "a"}))
    known = ["a" in one.known_files for one in pointers_of(conversation).resolved()]
    assert known == [True, True, False]


# -- what it costs -------------------------------------------------------------------------------


def long_log(turns: int) -> Conversation:
    conversation = Conversation([ChatMessage.system("Work.")])
    for number in range(turns):
        conversation.append(
            found(conversation.append(prompt_with("Look.", file_reference(f"f{number}"))))
        )
        conversation.append(ChatMessage.assistant("I see."))
    return conversation


def test_only_what_is_new_is_read() -> None:
    conversation = long_log(100)
    pointers = ReferenceTracker()
    log = Counted(conversation.entries())
    pointers.read(log)
    assert log.reads >= len(log)
    conversation.append(found(conversation.append(prompt_with("And?", file_reference("new")))))
    longer = Counted(conversation.entries())
    pointers.read(longer)
    assert longer.reads <= 4  # two that are new, and where it stopped and stops
    assert names(pointers.unanswered()) == ["new"]
    unchanged = Counted(conversation.entries())
    pointers.read(unchanged)
    assert unchanged.reads <= 2


@pytest.mark.parametrize("back_to", [0, 1, 150])
def test_after_a_rewind_only_what_is_still_there_counts(back_to: int) -> None:
    conversation = long_log(100)
    pointers = pointers_of(conversation)
    conversation.rewind(conversation.entries()[back_to])
    for _ in range(200):  # longer than it was: the number of entries proves nothing
        conversation.append(ChatMessage.user("Well?"))
    pointers.read(conversation.entries_view())
    assert [*pointers.resolved()] == [*pointers_of(conversation).resolved()]


def test_another_branch_is_another_log() -> None:
    conversation = long_log(2)
    pointers = pointers_of(conversation)
    conversation.fork("side", at=conversation.entries()[0])
    conversation.switch("side")
    conversation.append(found(conversation.append(prompt_with("Look.", file_reference("side")))))
    for branch, expected in (("side", ["side"]), ("main", ["f0", "f1"]), ("side", ["side"])):
        pointers.read(conversation.entries_view(branch))
        assert names(pointers.resolved()) == expected


def test_a_run_asks_a_resolver_about_each_pointer_once_however_many_turns_it_takes() -> None:
    turns: list[AssistantMessage | str] = [turn_with_calls(call(f"c{n}", "look")) for n in range(5)]
    resolver = ScriptedResolver()
    harness = AgentHarness([*turns, "Done."], read_tool("look", *["Read."] * 5), resolver=resolver)
    assert (
        run(harness.run(prompt_with("Look.", file_reference("a"), file_reference("b")))).end_reason
        is EndReason.DONE
    )
    assert [pointer for pointer, _ in resolver.asked] == [file_reference("a"), file_reference("b")]
