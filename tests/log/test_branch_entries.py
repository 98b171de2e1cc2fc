"""The entries of a branch without a copy: they do not change when the conversation continues."""

from __future__ import annotations

import pytest

from steno import ChatMessage
from steno.log.conversation import Conversation


def talk(length: int) -> Conversation:
    return Conversation([ChatMessage.user(f"{number}") for number in range(length)])


@pytest.mark.parametrize("length", [0, 1, 5])
def test_a_view_equals_the_entries(length: int) -> None:
    conversation = talk(length)
    past, entries = conversation.entries_view(), conversation.entries()
    assert (tuple(past), len(past), len(conversation)) == (entries, length, length)
    assert tuple(reversed(past)) == entries[::-1]
    for start in range(-length - 1, length + 2):
        assert past[start:] == entries[start:]
        assert past[:start:2] == entries[:start:2]
        assert past[start::-1] == entries[start::-1]


def test_an_entry_is_found_by_its_number_from_either_end() -> None:
    conversation = talk(3)
    past, entries = conversation.entries_view(), conversation.entries()
    assert [past[number] for number in range(-3, 3)] == [*entries, *entries]
    for number in (3, -4):
        with pytest.raises(IndexError):
            past[number]


def test_a_view_does_not_contain_later_entries() -> None:
    conversation = talk(2)
    past, entries = conversation.entries_view(), conversation.entries()
    conversation.append(ChatMessage.user("later"))
    assert (tuple(past), past[-1], past[1:]) == (entries, entries[-1], entries[1:])
    with pytest.raises(IndexError):
        past[2]
    assert len(conversation.entries_view()) == 3


def test_a_branch_that_goes_back_leaves_it_as_it_was() -> None:
    conversation = talk(3)
    past, entries = conversation.entries_view(), conversation.entries()
    conversation.rewind(entries[0])
    conversation.append(ChatMessage.user("otherwise"))
    assert tuple(past) == entries
    assert tuple(conversation.entries_view()) == conversation.entries()


def test_other_branches_have_their_own() -> None:
    conversation = talk(2)
    conversation.fork("idea", at=conversation.entries()[0])
    assert tuple(conversation.entries_view("idea")) == conversation.entries("idea")
    assert repr(conversation.entries_view("idea")) == "PrefixView(1)"
