"""Grants of a session that are taken back: it is on record, and what they covered is asked again."""

from __future__ import annotations

import pytest

from steno import ChatMessage, Conversation
from steno.agent import CallbackApprover, Gate
from steno.agent.admission import permits_of
from steno.agent.notebook import Notebook, watch_nothing
from steno.agent.permission import SessionGrants, is_revocation
from steno.agent.replay import replay
from steno.agent.rules import Rule
from steno.entry import Repair
from steno.ports import Capability, Question, Scope, Verdict
from tests.agent.working import Desk, call, calling, run, writer

pytestmark = pytest.mark.requirement("S2-18")
RULE = Rule.parse("write(a)")


class Person:
    """Allows what it is asked about for the session, and remembers it (`Approver`)."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> Verdict:
        self.asked.append(question)
        return Verdict(allowed=True, actor="eva", scope=Scope.SESSION)

    @property
    def gate(self) -> Gate:
        return Gate(approver=CallbackApprover(self), seal=lambda text: f"sealed {text}")


def talk(gate: Gate) -> Desk:
    """Return a desk at which the model writes the same file in every run."""
    turns = [turn for n in range(3) for turn in (calling(call(f"c{n}", "write")), "Done.")]
    return Desk(turns, writer(subjects=["a"]), gate=gate)


def test_what_is_taken_back_is_asked_about_again_and_may_be_granted_again() -> None:
    person = Person()
    gate = person.gate
    desk = talk(gate)
    run(desk.run())
    assert gate.session_rules(desk.conversation) == (RULE,)
    entry = gate.revoke(RULE, desk.conversation, actor="eva")
    assert entry is not None
    assert gate.session_rules(desk.conversation) == ()
    run(desk.run())
    assert [question.call.id for question in person.asked] == ["c0", "c1"]
    assert gate.session_rules(desk.conversation) == (RULE,)
    run(desk.run())
    assert len(person.asked) == 2


def test_it_is_on_record_who_took_it_back_and_counts_for_whoever_reads_that_later() -> None:
    gate = Person().gate
    desk = talk(gate)
    run(desk.run())
    [granted] = [e for e in desk.conversation.entries() if "grant" in (e.audit or {})]
    entry = gate.revoke(RULE, desk.conversation, actor="eva")
    assert entry is not None
    assert is_revocation(entry)
    assert isinstance(entry.payload, Repair)
    assert (entry.payload.target, entry.decision) == (granted.id, "revoked")
    assert entry.audit == {"actor": "eva", "scope": "session", "revoked": "write(a)"}
    again = desk.store.open(desk.conversation.id)
    assert Person().gate.session_rules(again) == ()
    desk.check()


def test_a_session_with_a_grant_that_was_taken_back_is_replayed_and_is_the_same() -> None:
    gate = Person().gate
    desk = talk(gate)
    run(desk.run())
    gate.revoke(RULE, desk.conversation, actor="eva")
    run(desk.run())
    assert run(replay(desk.store.records(desk.conversation.id))).is_same


def test_what_was_allowed_for_what_people_point_at_is_forgotten_and_nothing_is_recorded() -> None:
    person = Person()
    gate, conversation = person.gate, Conversation([ChatMessage.system("Work.")])
    permits = permits_of(gate, Notebook(conversation, watch_nothing))
    url = "https://pictures.example/a.png"
    run(permits("fetch", Capability.NETWORK, url))
    [rule] = gate.session_rules(conversation)
    before = len(conversation)
    assert gate.revoke(rule, conversation, actor="eva") is None
    assert (gate.session_rules(conversation), len(conversation)) == ((), before)
    run(permits("fetch", Capability.NETWORK, url))
    assert len(person.asked) == 2


@pytest.mark.parametrize("noted", ["write(", 7, None])
def test_what_names_no_rule_takes_nothing_back(noted: object) -> None:
    desk = talk(Person().gate)
    run(desk.run())
    audit = {"scope": "session", "revoked": noted}
    desk.conversation.append(Repair(code="grant_revoked", explanation="?"), audit=audit)
    assert SessionGrants(desk.conversation.entries()).rules == (RULE,)
