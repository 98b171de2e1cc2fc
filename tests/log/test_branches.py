"""Branches: forked, switched to, rewound, cloned; sharing a past and nothing else."""

from __future__ import annotations

import pytest

from steno import ChatMessage, OutOfOrder, ToolResult
from steno.errors import Missing
from steno.log.conversation import Conversation
from steno.log.queries import EntryKind, content_types, entry_kinds
from steno.records.entry import BranchSwitch, Mode, ModeChange, Rewind
from steno.records.stored_record import MAIN_BRANCH
from tests.log.journals import Journal
from tests.log.sample_talk import TALK

stored = pytest.mark.parametrize("is_stored", [False, True])


def begun(is_stored: bool) -> Conversation:
    return Conversation(TALK, journal=Journal() if is_stored else None)


@pytest.mark.requirement("S3-06")
@stored
def test_after_a_fork_neither_branch_sees_entries_of_the_other(is_stored: bool) -> None:
    conversation = begun(is_stored)
    past = conversation.entries()
    conversation.fork("idea")
    assert conversation.branch == MAIN_BRANCH
    conversation.append(ChatMessage.user("on main"))
    conversation.append(ChatMessage.user("on idea"), branch="idea")
    conversation.append(ChatMessage.assistant("still on idea"), branch="idea")
    assert [m.text for m in conversation.messages()[6:]] == ["on main"]
    assert [m.text for m in conversation.messages("idea")[6:]] == ["on idea", "still on idea"]
    assert conversation.entries()[:6] == conversation.entries("idea")[:6] == past
    assert all(a is b for a, b in zip(conversation.entries(), past, strict=False))


@stored
def test_a_fork_may_begin_anywhere_and_knows_the_outstanding_calls_there(is_stored: bool) -> None:
    conversation = begun(is_stored)
    conversation.fork("early", at=conversation.entries()[2].id)
    assert conversation.messages("early") == TALK[:3]
    with pytest.raises(OutOfOrder):
        conversation.append(ChatMessage.user("Well?"), branch="early")
    for message in TALK[3:5]:
        conversation.append(message, branch="early")
    conversation.append(ChatMessage.user("Well?"), branch="early")
    assert conversation.messages(MAIN_BRANCH) == TALK


@stored
def test_a_fork_of_nothing_is_empty(is_stored: bool) -> None:
    conversation = Conversation(journal=Journal() if is_stored else None)
    conversation.fork("idea")
    assert conversation.branches == {MAIN_BRANCH: None, "idea": None}
    conversation.append(ChatMessage.user("first"), branch="idea")
    assert (len(conversation.entries()), len(conversation.entries("idea"))) == (0, 1)


@stored
def test_a_fork_may_begin_after_an_entry_of_another_branch(is_stored: bool) -> None:
    conversation = begun(is_stored)
    conversation.fork("one")
    entry = conversation.append(ChatMessage.user("on one"), branch="one")
    conversation.fork("two", at=entry.id)
    assert conversation.messages("two") == conversation.messages("one")
    assert conversation.messages() == TALK


@pytest.mark.requirement("S2-23")
@stored
def test_a_switch_is_recorded_with_both_names_where_it_happened(is_stored: bool) -> None:
    conversation = begun(is_stored)
    conversation.fork("idea")
    entry = conversation.switch("idea")
    assert conversation.branch == "idea"
    assert entry.payload == BranchSwitch(old=MAIN_BRANCH, new="idea")
    assert conversation.entries("idea")[-1] is entry
    assert entry not in conversation.entries(MAIN_BRANCH)
    assert conversation.messages("idea") == TALK
    assert entry_kinds(entry) == (EntryKind.SYSTEM_CONTEXT,)
    assert [str(kind) for kind in content_types(entry)] == ["system_control"]
    back = conversation.switch(MAIN_BRANCH)
    assert back.payload == BranchSwitch(old="idea", new=MAIN_BRANCH)
    conversation.append(ChatMessage.user("here"))
    assert conversation.messages(MAIN_BRANCH)[-1].text == "here"


@stored
def test_a_rewind_continues_from_an_earlier_entry_and_keeps_the_later_ones(is_stored: bool) -> None:
    conversation = begun(is_stored)
    past = conversation.entries()
    entry = conversation.rewind(past[1].id)
    assert entry.payload == Rewind(left=past[-1].id)
    assert entry.parent == past[1].id
    assert conversation.entries() == (*past[:2], entry)
    assert conversation.messages() == TALK[:2]
    assert conversation.entry(past[-1].id) is past[-1]
    conversation.append(ChatMessage.assistant("Another way."))
    assert [message.text for message in conversation.messages()][2:] == ["Another way."]


@stored
def test_after_a_rewind_the_order_is_that_of_the_place(is_stored: bool) -> None:
    conversation = begun(is_stored)
    entries = conversation.entries()
    conversation.rewind(entries[3].id)
    assert conversation.outstanding == ("c2",)
    with pytest.raises(OutOfOrder):
        conversation.append(ChatMessage.user("Well?"))
    conversation.append(ToolResult.success("c2", "found"))
    conversation.rewind(entries[-1].id)
    assert not conversation.outstanding
    assert conversation.messages() == TALK


@stored
def test_a_rewind_may_name_another_branch(is_stored: bool) -> None:
    conversation = begun(is_stored)
    conversation.fork("idea")
    conversation.rewind(conversation.entries()[0].id, branch="idea")
    assert conversation.branch == MAIN_BRANCH
    assert conversation.messages() == TALK
    assert conversation.messages("idea") == TALK[:1]


def test_an_empty_branch_cannot_be_rewound() -> None:
    with pytest.raises(Missing) as caught:
        Conversation().rewind("e1")
    assert (caught.value.place, caught.value.code) == ("rewind", "branch_empty")


# -- clones ------------------------------------------------------------------------------------


@pytest.mark.requirement("S3-05", "S3-06")
@stored
def test_after_a_clone_neither_sees_entries_of_the_other(is_stored: bool) -> None:
    conversation = begun(is_stored)
    conversation.fork("idea")
    twin = conversation.clone()
    assert twin.id != conversation.id
    assert (twin.branch, twin.branches) == (conversation.branch, conversation.branches)
    assert twin.entries() == conversation.entries()
    conversation.append(ChatMessage.user("original"))
    twin.append(ChatMessage.user("twin"))
    twin.fork("other")
    twin.switch("idea")
    twin.change_mode(Mode.PLAN)
    twin.rewind(twin.entries()[0].id, branch=MAIN_BRANCH)
    assert [m.text for m in conversation.messages()[6:]] == ["original"]
    assert set(conversation.branches) == {MAIN_BRANCH, "idea"}
    assert conversation.branch == MAIN_BRANCH
    assert not any(isinstance(e.payload, ModeChange) for e in conversation.entries("idea"))
    assert twin.messages(MAIN_BRANCH) == TALK[:1]
    assert twin.messages("idea") == TALK


@stored
def test_a_clone_has_the_same_digests(is_stored: bool) -> None:
    conversation = begun(is_stored)
    twin = conversation.clone()
    for entry in conversation.entries():
        assert twin.digest(entry.id) == conversation.digest(entry.id)


def test_a_clone_writes_to_no_journal() -> None:
    journal = Journal()
    twin = Conversation(TALK, journal=journal).clone()
    twin.append(ChatMessage.user("twin"))
    assert journal.open().messages() == TALK


def test_a_clone_of_branches_that_are_not_loaded_is_complete() -> None:
    journal = Journal()
    conversation = Conversation(TALK, journal=journal)
    conversation.fork("idea")
    conversation.append(ChatMessage.user("on idea"), branch="idea")
    twin = journal.open().clone()
    journal.store.remove(journal.session)
    assert twin.messages(MAIN_BRANCH) == TALK
    assert twin.messages("idea")[-1].text == "on idea"


def test_a_clone_holds_every_order_of_its_own() -> None:
    conversation = Conversation(TALK[:3])
    twin = conversation.clone()
    conversation.append(TALK[3])
    assert (conversation.outstanding, twin.outstanding) == (("c2",), ("c1", "c2"))
    twin.append(TALK[4])
    assert (conversation.outstanding, twin.outstanding) == (("c2",), ("c1",))


def test_ids_and_times_of_a_clone_come_from_where_those_of_the_original_do() -> None:
    numbers = iter(range(100))
    conversation = Conversation(TALK[:2], id="talk", new_id=lambda: f"e{next(numbers)}")
    assert conversation.clone().append(ChatMessage.user("more")).id == "e3"
