"""Revoked grants of a session: the revocation is recorded, and their calls are asked about again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from steno import ChatMessage, Conversation
from steno.agent import CallbackApprover, Gate
from steno.agent.permissions.grants import GrantSigner, Revocations, SessionGrants
from steno.agent.permissions.rules import PermissionRule
from steno.agent.recorder import RunRecorder, ignore_event, rewind_branch
from steno.agent.replay.verify import replay
from steno.agent.resolve_references import build_input_authorizer
from steno.errors import Unavailable
from steno.log.queries import as_version_2
from steno.ports import ApprovalDecision, ApprovalRequest, Capability, GrantScope
from steno.records.entry import Entry, GrantRevoked, Redacted, Repair, Rewind
from steno.store import MemoryStore
from tests.agent.agent_setup import AgentHarness, call, run, turn_with_calls, write_tool
from tests.log.journals import Journal, do_nothing

pytestmark = pytest.mark.requirement("S2-18")
RULE = PermissionRule.parse("write(a)")
TRUSTING = GrantSigner(trusts_record=True)


class Person:
    """Allows what it is asked about for the session, and remembers it (`Approver`)."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequest] = []

    def __call__(self, question: ApprovalRequest) -> ApprovalDecision:
        self.asked.append(question)
        return ApprovalDecision(allowed=True, actor="eva", scope=GrantScope.SESSION)

    @property
    def gate(self) -> Gate:
        return Gate(approver=CallbackApprover(self), sign_text=lambda text: f"sealed {text}")


def talk(gate: Gate) -> AgentHarness:
    """Return a harness whose model writes the same file in every run."""
    turns = [turn for n in range(3) for turn in (turn_with_calls(call(f"c{n}", "write")), "Done.")]
    return AgentHarness(turns, write_tool(subjects=["a"]), gate=gate)


def test_a_revoked_rule_is_asked_about_again_and_can_be_granted_again() -> None:
    person = Person()
    gate = person.gate
    harness = talk(gate)
    run(harness.run())
    assert gate.session_rules(harness.conversation) == (RULE,)
    assert len(gate.revoke(RULE, harness.conversation, actor="eva")) == 1
    assert gate.session_rules(harness.conversation) == ()
    run(harness.run())
    assert [question.call.id for question in person.asked] == ["c0", "c1"]
    assert gate.session_rules(harness.conversation) == (RULE,)
    run(harness.run())
    assert len(person.asked) == 2


def test_a_revocation_is_recorded_with_its_actor_and_holds_after_reopening() -> None:
    gate = Person().gate
    harness = talk(gate)
    run(harness.run())
    [granted] = [e for e in harness.conversation.entries() if "grant" in (e.audit or {})]
    [entry] = gate.revoke(RULE, harness.conversation, actor="eva")
    assert entry.payload == GrantRevoked(grant="write(a)", target=granted.id)
    assert (entry.decision, entry.audit) == ("revoked", {"actor": "eva", "scope": "session"})
    again = harness.store.open(harness.conversation.id)
    assert Person().gate.session_rules(again) == ()
    harness.check()


def test_a_session_with_a_grant_that_was_taken_back_is_replayed_and_is_the_same() -> None:
    gate = Person().gate
    harness = talk(gate)
    run(harness.run())
    gate.revoke(RULE, harness.conversation, actor="eva")
    run(harness.run())
    assert run(replay(harness.store.records(harness.conversation.id))).is_same


def test_revoking_a_grant_for_references_records_nothing() -> None:
    person = Person()
    gate, conversation = person.gate, Conversation([ChatMessage.system("Work.")])
    permits = build_input_authorizer(gate, RunRecorder(conversation, ignore_event))
    url = "https://pictures.example/a.png"
    run(permits("fetch", Capability.NETWORK, url))
    [rule] = gate.session_rules(conversation)
    before = len(conversation)
    assert gate.revoke(rule, conversation, actor="eva") == []
    assert (gate.session_rules(conversation), len(conversation)) == ((), before)
    run(permits("fetch", Capability.NETWORK, url))
    assert len(person.asked) == 2


def test_a_revocation_of_version_2_holds() -> None:
    harness = granted(Person().gate)
    [grant] = grants_in(harness.conversation)
    revoked = Entry(id="r", payload=GrantRevoked(grant=str(RULE), target=grant))
    harness.conversation.append(as_version_2(revoked).payload, decision="revoked")
    assert SessionGrants(harness.conversation.entries(), signer=TRUSTING).rules == ()


@pytest.mark.parametrize(
    ("code", "target"), [("grant_revoked", None), ("grant_revoked", "other"), ("mended", "")]
)
def test_revoking_an_unknown_grant_changes_nothing(code: str, target: str | None) -> None:
    harness = granted(Person().gate)
    [grant] = grants_in(harness.conversation)
    repair = Repair(code=code, explanation="?", target=grant if target == "" else target)
    entry = Entry(id="r", payload=repair, decision="revoked", audit={"revoked": "write(a)"})
    assert SessionGrants((*harness.conversation.entries(), entry), signer=TRUSTING).rules == (RULE,)


# -- on every branch -----------------------------------------------------------------------------


def granted(gate: Gate) -> AgentHarness:
    """Return a harness with a granted rule."""
    harness = talk(gate)
    run(harness.run())
    assert gate.session_rules(harness.conversation) == (RULE,)
    return harness


def grants_in(conversation: Conversation) -> list[str]:
    return [entry.id for entry in conversation.entries() if "grant" in (entry.audit or {})]


def rules_of(harness: AgentHarness) -> tuple[PermissionRule, ...]:
    """Return what another program would allow that opens the session now."""
    again = harness.store.open(harness.conversation.id)
    assert again.branch == harness.conversation.branch
    return Person().gate.session_rules(again)


def fork_from_before(harness: AgentHarness, last: str) -> None:
    harness.conversation.fork("other", at=last)
    harness.conversation.switch("other")


def go_back_after(harness: AgentHarness, last: str) -> None:
    rewind_branch(harness.conversation, last)


def rewind_alone(harness: AgentHarness, last: str) -> None:
    harness.conversation.rewind(last)


def go_back_twice(harness: AgentHarness, last: str) -> None:
    harness.conversation.rewind(last)
    harness.conversation.rewind(grants_in(harness.conversation)[0])


LEAVING = [fork_from_before, go_back_after, rewind_alone, go_back_twice]


@pytest.mark.parametrize("leave", LEAVING)
def test_a_revoked_grant_stays_revoked_on_an_earlier_branch(
    leave: Callable[[AgentHarness, str], None],
) -> None:
    person = Person()
    gate = person.gate
    harness = granted(gate)
    last = harness.conversation.entries()[-1].id
    gate.revoke(RULE, harness.conversation, actor="eva")
    leave(harness, last)
    assert gate.session_rules(harness.conversation) == rules_of(harness) == ()
    run(harness.run())
    assert [question.call.id for question in person.asked] == ["c0", "c1"]
    assert gate.session_rules(harness.conversation) == rules_of(harness) == (RULE,)
    harness.check()


def test_it_is_taken_back_on_all_branches_that_it_was_granted_on() -> None:
    gate = Person().gate
    harness = talk(gate)
    start = harness.conversation.entries()[0].id
    run(harness.run())
    fork_from_before(harness, start)
    assert gate.session_rules(harness.conversation) == ()
    run(harness.run())
    grants = set[str]()
    harness.conversation.switch("main")
    revoked = gate.revoke(RULE, harness.conversation, actor="eva")
    assert len(revoked) == 2
    for name in ("main", "other"):
        harness.conversation.switch(name)
        assert gate.session_rules(harness.conversation) == rules_of(harness) == ()
        grants |= set(grants_in(harness.conversation))
    targets = {one.payload.target for one in revoked if isinstance(one.payload, GrantRevoked)}
    assert targets == grants
    assert gate.revoke(RULE, harness.conversation, actor="eva") == []


def test_a_grant_of_another_rule_outlasts_it_on_the_branches_that_have_it() -> None:
    person = Person()
    gate = person.gate
    turns = [turn for n in "ab" for turn in (turn_with_calls(call(n, f"write_{n}")), "Done.")]
    harness = AgentHarness(
        turns, *[write_tool(f"write_{n}", subjects=["x"]) for n in "ab"], gate=gate
    )
    run(harness.run())
    run(harness.run())
    first, second = gate.session_rules(harness.conversation)
    gate.revoke(first, harness.conversation, actor="eva")
    fork_from_before(harness, grants_in(harness.conversation)[-1])
    assert gate.session_rules(harness.conversation) == rules_of(harness) == (second,)


def test_only_new_records_are_read() -> None:
    conversation = granted(Person().gate).conversation
    revocations = Revocations()
    assert {one.id for one in revocations.read(conversation)} == {
        one.id for one in conversation.entries()
    }
    assert revocations.read(conversation) == []
    message = conversation.append(ChatMessage.user("And?"))
    conversation.fork("other")
    assert revocations.read(conversation) == [message]


def test_while_a_branch_cannot_be_read_nothing_counts_that_may_be_taken_back_there() -> None:
    gate = Person().gate
    harness = granted(gate)
    last = harness.conversation.entries()[-1].id
    gate.revoke(RULE, harness.conversation, actor="eva")
    fork_from_before(harness, last)
    assert isinstance(harness.store, MemoryStore)
    journal = Journal(harness.store, harness.conversation.id)
    conversation, gate = journal.open(), Person().gate
    assert conversation.entries()

    def fail() -> None:
        raise Unavailable("journal: the server is gone")

    journal.before_read = fail
    for _ in range(2):
        with pytest.raises(Unavailable):
            gate.session_rules(conversation)
    journal.before_read = do_nothing
    assert gate.session_rules(conversation) == ()


# -- redacted entries ------------------------------------------------------------------------------


def take_out(harness: AgentHarness, entry: str) -> None:
    harness.store.redact(harness.conversation.id, entry, actor="officer", reason="a key")
    assert harness.store.verify(harness.conversation.id).is_intact
    harness.conversation.refresh()


def test_a_grant_stays_taken_back_if_that_is_taken_out_of_the_record() -> None:
    gate = Person().gate
    harness = granted(gate)
    [revoked] = gate.revoke(RULE, harness.conversation, actor="eva")
    take_out(harness, revoked.id)
    assert gate.session_rules(harness.conversation) == rules_of(harness) == ()
    run(harness.run())
    assert gate.session_rules(harness.conversation) == rules_of(harness) == (RULE,)


@pytest.mark.parametrize("leave", LEAVING)
def test_it_stays_so_on_other_branches_too(leave: Callable[[AgentHarness, str], None]) -> None:
    gate = Person().gate
    harness = granted(gate)
    last = harness.conversation.entries()[-1].id
    [revoked] = gate.revoke(RULE, harness.conversation, actor="eva")
    leave(harness, last)
    take_out(harness, revoked.id)
    assert gate.session_rules(harness.conversation) == rules_of(harness) == ()


def test_a_grant_stays_revoked_if_the_rewound_entries_are_unknown() -> None:
    gate = Person().gate
    harness = granted(gate)
    last = harness.conversation.entries()[-1].id
    gate.revoke(RULE, harness.conversation, actor="eva")
    take_out(harness, harness.conversation.rewind(last).id)
    assert rules_of(harness) == ()
    run(harness.run())
    assert rules_of(harness) == (RULE,)


def test_a_grant_that_is_taken_out_of_the_record_is_gone() -> None:
    gate = Person().gate
    harness = granted(gate)
    [grant] = grants_in(harness.conversation)
    take_out(harness, grant)
    assert gate.session_rules(harness.conversation) == rules_of(harness) == ()


def test_a_grant_without_time_is_dropped_by_an_unreadable_entry() -> None:
    harness = granted(Person().gate)
    entries = list(harness.conversation.entries())
    gone = Redacted(kind="repair", sha256="0" * 64)
    timeless = [replace(entry, time=None) for entry in entries]
    for grants in (entries, timeless):
        for time in (entries[-1].time, None):
            taken_out = Entry(id="x", time=time, payload=gone, decision="revoked")
            assert SessionGrants([*grants, taken_out], signer=TRUSTING).rules == ()
    other = Entry(id="x", time=entries[-1].time, payload=gone)
    assert SessionGrants([*entries, other], signer=TRUSTING).rules == (RULE,)


def test_missing_rewound_entries_may_have_revoked_any_grant() -> None:
    gate = Gate(approver=CallbackApprover(Person()))
    harness = granted(gate)
    last = harness.conversation.entries()[-1].id
    gate.revoke(RULE, harness.conversation, actor="eva")
    harness.conversation.rewind(last)
    twin = harness.store.open(harness.conversation.id).clone()
    assert isinstance(twin.entries()[-1].payload, Rewind)
    assert Gate(trust_record=True).session_rules(twin) == ()
