"""A record may be forged: an approval in it counts only with our signature."""

from __future__ import annotations

import hashlib

import pytest

from steno import ChatMessage, Outcome
from steno.agent import ApprovalDecision, ApprovalRequest, CallbackApprover, Gate
from steno.agent.permissions.gate import decide_later
from steno.agent.permissions.grants import GrantSigner, SessionGrants, SignText
from steno.log.conversation import Conversation
from steno.ports import GrantScope
from steno.records.entry import Approval, ApprovalStatus, Entry
from steno.store import MemoryStore
from tests.agent.agent_setup import AgentHarness, call, run, turn_with_calls, write_tool


def seal_with(secret: str) -> SignText:
    return lambda text: hashlib.sha256(f"{secret}{text}".encode()).hexdigest()


OURS = seal_with("ours")


def gate(
    verdict: ApprovalDecision | bool, seal: SignText | None = OURS
) -> tuple[Gate, list[ApprovalRequest]]:
    """Return a gate, and the questions that it asks."""
    asked: list[ApprovalRequest] = []

    def answer(question: ApprovalRequest) -> ApprovalDecision | bool:
        asked.append(question)
        return verdict

    return Gate(approver=CallbackApprover(answer), sign_text=seal), asked


def for_the_session(rule: str = "write") -> ApprovalDecision:
    return ApprovalDecision(allowed=True, actor="eva", scope=GrantScope.SESSION, rule=rule)


def granted(store: MemoryStore, seal: SignText | None) -> Conversation:
    """Return a session in which the user allowed every call of `write`."""
    asking, _ = gate(for_the_session(), seal)
    harness = AgentHarness(
        [turn_with_calls(call("c1", "write")), "Done."], write_tool(), store=store, gate=asking
    )
    run(harness.run())
    return harness.conversation


def go_on(
    conversation: Conversation, seal: SignText | None = OURS
) -> tuple[AgentHarness, list[ApprovalRequest]]:
    """Continue a session with another call that no approver allows."""
    refusing, asked = gate(False, seal)
    turns = [turn_with_calls(call("c2", "write")), "Done."]
    harness = AgentHarness(turns, write_tool(), conversation=conversation, gate=refusing)
    run(harness.run())
    return harness, asked


def test_a_signed_grant_applies_after_a_restart() -> None:
    store = MemoryStore()
    session = granted(store, OURS).id
    harness, asked = go_on(store.open(session))
    assert (asked, harness.results[-1].outcome) == ([], Outcome.OK)


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("seal", [None, seal_with("theirs")])
def test_a_grant_signed_elsewhere_is_asked_about_again(seal: SignText | None) -> None:
    store = MemoryStore()
    session = granted(store, seal).id
    harness, asked = go_on(store.open(session))
    assert (len(asked), harness.results[-1].outcome) == (1, Outcome.DENIED)


def test_a_grant_does_not_count_in_a_copy_that_is_another_session() -> None:
    store = MemoryStore()
    copy = store.clone(granted(store, OURS).id)
    _, asked = go_on(copy)
    assert len(asked) == 1


def test_one_gate_separates_two_sessions() -> None:
    store, (asking, asked) = MemoryStore(), gate(for_the_session())
    for _ in range(2):
        harness = AgentHarness(
            [turn_with_calls(call("c1", "write")), "Done."], write_tool(), store=store, gate=asking
        )
        run(harness.run())
    assert len(asked) == 2


@pytest.mark.parametrize("forged", ["scope", "grant", "seal", "status", "call_id"])
def test_a_sealed_grant_cannot_be_changed(forged: str) -> None:
    conversation = granted(MemoryStore(), OURS)
    signet = GrantSigner(conversation.id, OURS)
    entry = next(
        entry
        for entry in conversation.entries()
        if isinstance(entry.payload, Approval) and entry.audit is not None
    )
    assert signet.has_valid_signature(entry)
    audit, approval = dict(entry.audit or {}), entry.payload
    assert isinstance(approval, Approval)
    assert {"scope", "grant", "seal"} == audit.keys()
    if forged in audit:
        audit[forged] = "*"
    changed = Approval(
        call_id="c9" if forged == "call_id" else approval.call_id,
        status=ApprovalStatus.DENIED if forged == "status" else approval.status,
        arguments_sha256=approval.arguments_sha256,
        actor=approval.actor,
    )
    assert not signet.has_valid_signature(Entry(id="e", payload=changed, audit=audit))


@pytest.mark.parametrize("proof", [None, True, "", "\u00e9", {"a": 1}, ["x"]])
def test_an_invalid_seal_is_not_a_valid_signature(proof: object) -> None:
    conversation = MemoryStore().new(
        [ChatMessage.user("Go."), turn_with_calls(call("c1", "write"))]
    )
    entry = conversation.decide(
        "c1",
        ApprovalStatus.APPROVED,
        actor="eva",
        audit={"scope": "session", "grant": "write", "seal": proof},
    )
    assert not GrantSigner(conversation.id, OURS).has_valid_signature(entry)
    assert [str(rule) for rule in SessionGrants([entry]).rules] == [
        "write"
    ]  # where all of a record counts


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize(
    ("seal", "is_ours"), [(OURS, True), (None, False), (seal_with("x"), False)]
)
def test_a_yes_from_meanwhile_is_acted_on_only_under_our_seal(
    seal: SignText | None, is_ours: bool
) -> None:
    store, tool = MemoryStore(), write_tool()
    conversation = store.new([ChatMessage.user("Go."), turn_with_calls(call("c1", "write"))])
    decide_later(conversation, "c1", allowed=True, actor="eva", sign_text=seal)
    refusing, asked = gate(False)
    harness = AgentHarness(["Done."], tool, store=store, conversation=conversation, gate=refusing)
    run(harness.run(None))
    assert (len(tool.calls), len(asked)) == ((1, 0) if is_ours else (0, 1))
    harness.check()


def test_a_denial_from_meanwhile_holds_for_any_actor() -> None:
    tool = write_tool()
    conversation = MemoryStore().new(
        [ChatMessage.user("Go."), turn_with_calls(call("c1", "write"))]
    )
    decide_later(conversation, "c1", allowed=False, actor="mallory")
    allowing, asked = gate(True)
    run(AgentHarness(["Done."], tool, conversation=conversation, gate=allowing).run(None))
    assert (tool.calls, asked) == ([], [])
