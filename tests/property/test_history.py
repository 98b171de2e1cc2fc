"""A history behaves like a list that refuses messages that are out of order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from steno import ChatMessage, ConversationHistory, Message, OutOfOrder, ToolCall
from steno.codec import Document, decode_document, encode_document
from steno.testing import assistant_messages, system_messages, user_messages

CALL_IDS = ("a", "b", "c")
calls = st.lists(st.sampled_from(CALL_IDS), max_size=3)


class HistoryMachine(RuleBasedStateMachine):
    """The rules of S0, written down once more in the plainest way, and a list."""

    @initialize()
    def begin(self) -> None:
        self.history = ConversationHistory()
        self.model: list[Any] = []
        self.waiting: list[str] = []
        self.snapshots: list[tuple[tuple[Message, ...], tuple[Message, ...]]] = []
        self.walks: list[tuple[Iterator[Message], list[Message]]] = []

    # -- adding ------------------------------------------------------------------------------

    def add(self, message: Any, *, allowed: bool) -> None:
        if not allowed:
            with pytest.raises(OutOfOrder):
                self.history.add(message)
            return
        self.history.add(message)
        self.model.append(message)

    @property
    def last_role(self) -> str | None:
        return self.model[-1].role if self.model else None

    @rule(message=system_messages())
    def add_system(self, message: Any) -> None:
        self.add(message, allowed=not self.model)

    @rule(message=user_messages())
    def add_user(self, message: Any) -> None:
        allowed = bool(self.model) and not self.waiting and self.last_role != "user"
        self.add(message, allowed=allowed)

    @rule(message=assistant_messages(st.nothing()))
    def add_words(self, message: Any) -> None:
        self.add(message, allowed=self.may_answer)

    @rule(ids=calls)
    def add_calls(self, ids: list[str]) -> None:
        message = ChatMessage.assistant("", [ToolCall(id=id, name="read") for id in ids])
        allowed = self.may_answer and len(set(ids)) == len(ids)
        self.add(message, allowed=allowed)
        if allowed:
            self.waiting = list(ids)

    @property
    def may_answer(self) -> bool:
        return bool(self.model) and not self.waiting and self.last_role != "assistant"

    @rule(id=st.sampled_from((*CALL_IDS, "nobody")))
    def add_result(self, id: str) -> None:
        self.add(ChatMessage.tool_result(id, "done"), allowed=id in self.waiting)
        if id in self.waiting:
            self.waiting.remove(id)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        self.add_result(data.draw(st.sampled_from(self.waiting)))

    @rule()
    def clear(self) -> None:
        self.history.clear()
        self.model.clear()
        self.waiting.clear()

    # -- reading -----------------------------------------------------------------------------

    @rule()
    def take_a_snapshot(self) -> None:
        self.snapshots.append((self.history.messages, tuple(self.model)))

    @rule()
    def begin_a_walk(self) -> None:
        self.walks.append((iter(self.history), list(self.model)))

    @precondition(lambda self: self.walks)
    @rule(data=st.data())
    def finish_a_walk(self, data: st.DataObject) -> None:
        walk, expected = self.walks.pop(data.draw(st.integers(0, len(self.walks) - 1)))
        assert list(walk) == expected

    @rule()
    def store_and_load(self) -> None:
        document = decode_document(encode_document(Document.of(self.history)))
        self.history = ConversationHistory(document.messages)

    @invariant()
    def it_is_the_list(self) -> None:
        if not hasattr(self, "history"):
            return
        assert self.history.messages == tuple(self.model)
        assert list(self.history) == self.model
        assert len(self.history) == len(self.model)
        assert self.history.last == (self.model[-1] if self.model else None)
        assert sorted(self.history.outstanding) == sorted(self.waiting)

    @invariant()
    def snapshots_do_not_change(self) -> None:
        assert all(taken == expected for taken, expected in getattr(self, "snapshots", ()))

    @invariant()
    def it_is_complete_if_nothing_waits(self) -> None:
        if not hasattr(self, "history"):
            return
        if self.model and not self.waiting:
            self.history.check_complete()
        else:
            with pytest.raises(OutOfOrder):
                self.history.check_complete()


@pytest.mark.requirement("FR-004a-101", "FR-004a-103", "FR-004a-104", "FR-004a-105", "FR-004a-106")
@pytest.mark.requirement("FR-004a-107", "FR-004a-108", "FR-004a-109", "FR-004a-110", "FR-004a-111")
@pytest.mark.requirement("FR-004a-112", "FR-004a-113", "FR-004a-114", "FR-004a-115")
def test_a_history_is_a_list_that_refuses_what_is_out_of_order() -> None:
    run_state_machine_as_test(HistoryMachine)
