"""A record may be forged: an approval in it counts only with our signature."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from steno import ChatMessage, Outcome
from steno.agent import (
    ApprovalDecision,
    ApprovalRequest,
    CallbackApprover,
    Gate,
    Notice,
    Permissions,
)
from steno.agent.permissions.gate import decide_later
from steno.agent.permissions.grants import (
    GrantSigner,
    SessionGrants,
    SignatureState,
    SignText,
    build_access_audit,
)
from steno.log.conversation import Conversation
from steno.ports import AccessKind, GrantScope, SandboxAccess
from steno.records.entry import Approval, ApprovalStatus, Entry, GrantRevoked
from steno.store import MemoryStore, open_store
from tests.agent.agent_setup import AgentHarness, call, run, turn_with_calls, write_tool

pytestmark = pytest.mark.requirement("P-36")


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


def granting_entry(conversation: Conversation) -> Entry:
    """Return the entry that grants a rule."""
    [entry] = [one for one in conversation.entries() if "grant" in (one.audit or {})]
    return entry


def changed_payload(entry: Entry, **fields: object) -> Entry:
    return replace(entry, payload=replace(entry.payload, **fields))


def changed_audit(entry: Entry, **members: object) -> Entry:
    return replace(entry, audit={**(entry.audit or {}), **members})


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize(
    "forge",
    [
        lambda entry: changed_audit(entry, scope="user"),
        lambda entry: changed_audit(entry, grant="bash"),
        lambda entry: changed_audit(entry, deferred=True),
        lambda entry: changed_audit(entry, tool="bash"),
        lambda entry: changed_audit(entry, seal="*"),
        lambda entry: changed_payload(entry, status=ApprovalStatus.DENIED),
        lambda entry: changed_payload(entry, call_id="c9"),
        lambda entry: changed_payload(entry, arguments_sha256="0" * 64),
        lambda entry: changed_payload(entry, actor="mallory"),
        lambda entry: changed_payload(entry, reason="because"),
        lambda entry: replace(entry, id="e9"),
        lambda entry: replace(entry, parent="e9"),
        lambda entry: replace(entry, parent=None),
        lambda entry: replace(entry, time=entry.time + timedelta(microseconds=1)),
        lambda entry: replace(entry, time=None),
        lambda entry: replace(entry, decision="denied"),
    ],
)
def test_a_signed_grant_cannot_be_changed_copied_or_moved(forge: Callable[[Entry], Entry]) -> None:
    store = MemoryStore()
    session = granted(store, OURS).id
    signer, entry = GrantSigner(session, OURS), granting_entry(store.open(session))
    assert {"scope", "grant", "tool", "seal"} == (entry.audit or {}).keys()
    assert signer.has_valid_signature(entry)
    forged = forge(entry)
    assert not signer.has_valid_signature(forged)
    assert signer.signature_state(forged) is SignatureState.INVALID


def test_a_copied_grant_does_not_return_after_its_revocation() -> None:
    """Revocations compare times, so a copy with a later time would grant the rule again."""
    store = MemoryStore()
    conversation = granted(store, OURS)
    entry = granting_entry(conversation)
    asking, _ = gate(False)
    [rule] = asking.session_rules(conversation)
    asking.revoke(rule, conversation, actor="eva")
    conversation.append(entry.payload, decision=entry.decision, audit=entry.audit)
    assert asking.session_rules(conversation) == ()
    _, asked = go_on(store.open(conversation.id))
    assert len(asked) == 1


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
    assert SessionGrants([entry]).rules == ()
    trusting = GrantSigner(conversation.id, trusts_record=True)
    assert [str(rule) for rule in SessionGrants([entry], signer=trusting).rules] == ["write"]


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


@pytest.mark.parametrize("kind", ["memory:", "sqlite:", "jsonl:"])
def test_a_signature_covers_the_access_and_is_valid_in_every_store(
    kind: str, tmp_path: Path
) -> None:
    address = kind if kind == "memory:" else f"{kind}{tmp_path / 'store.db'}"
    with open_store(address) as store:
        conversation = store.new([ChatMessage.user("Go."), turn_with_calls(call("c1", "write"))])
        signer = GrantSigner(conversation.id, OURS)
        given = [SandboxAccess(AccessKind.NETWORK, "pypi.org")]
        audit = signer.sign_audit(
            {**build_access_audit(given), "scope": "session", "grant": "x"}, tool="write"
        )
        conversation.decide("c1", ApprovalStatus.APPROVED, actor="eva", reason="é", audit=audit)
        stored = store.open(conversation.id).entries()[-1]
    assert signer.signature_state(stored) is SignatureState.VALID
    wider = build_access_audit([SandboxAccess(AccessKind.NETWORK, "*")])
    assert signer.signature_state(changed_audit(stored, **wider)) is SignatureState.INVALID


# -- gates without a signer ------------------------------------------------------------------------


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("trusts", [False, True])
def test_a_gate_without_a_signer_counts_a_recorded_grant_only_if_it_trusts_the_record(
    trusts: bool,
) -> None:
    store = MemoryStore()
    conversation = store.open(granted(store, OURS).id)
    assert bool(Gate(trust_record=trusts).session_rules(conversation)) is trusts


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("trusts", [False, True])
def test_a_gate_without_a_signer_acts_on_a_deferred_approval_only_if_it_trusts_the_record(
    trusts: bool,
) -> None:
    tool = write_tool()
    conversation = MemoryStore().new(
        [ChatMessage.user("Go."), turn_with_calls(call("c1", "write"))]
    )
    decide_later(conversation, "c1", allowed=True, actor="eva")
    harness = AgentHarness(
        ["Done."], tool, conversation=conversation, gate=Gate(trust_record=trusts)
    )
    run(harness.run(None))
    assert bool(tool.calls) is trusts


def test_a_gate_without_a_signer_counts_the_grants_that_it_records_itself() -> None:
    """It adds no signature to the log, and no other gate counts these grants."""
    store, (asking, asked) = MemoryStore(), gate(for_the_session(), None)
    turns = [turn_with_calls(call("c1", "write")), turn_with_calls(call("c2", "write")), "Done."]
    harness = AgentHarness(turns, write_tool(), store=store, gate=asking)
    run(harness.run())
    assert len(asked) == 1
    assert (granting_entry(harness.conversation).audit or {}).keys() == {"scope", "grant"}
    again = store.open(harness.conversation.id)
    assert len(asking.session_rules(again)) == 1
    assert Gate().session_rules(again) == ()


# -- decisions that the user reviews ---------------------------------------------------------------


def decisions_in(conversation: Conversation) -> list[Entry]:
    return [one for one in conversation.entries() if isinstance(one.payload, Approval)]


@pytest.mark.parametrize("verdict", [True, False])
def test_every_decision_of_an_approver_is_signed(verdict: bool) -> None:
    asking, _ = gate(verdict)
    harness = AgentHarness(
        [turn_with_calls(call("c1", "write")), "Done."], write_tool(), gate=asking
    )
    run(harness.run())
    conversation = harness.conversation
    ours, theirs = (GrantSigner(conversation.id, sign) for sign in (OURS, seal_with("theirs")))
    pending, decided = decisions_in(conversation)
    assert ours.signature_state(pending) is SignatureState.NOT_REQUIRED
    assert ours.signature_state(decided) is SignatureState.VALID
    assert theirs.signature_state(decided) is SignatureState.INVALID
    assert ours.signature_state(replace(decided, audit=None)) is SignatureState.MISSING


def test_an_approval_by_a_rule_is_signed_so_that_a_forger_cannot_claim_one() -> None:
    signed = Gate(Permissions.of(allow=["write"]), sign_text=OURS)
    unsigned = Gate(Permissions.of(allow=["write"]))
    for deciding, state in ((signed, SignatureState.VALID), (unsigned, SignatureState.MISSING)):
        turns = [turn_with_calls(call("c1", "write")), "Done."]
        harness = AgentHarness(turns, write_tool(), gate=deciding)
        run(harness.run())
        [decided] = decisions_in(harness.conversation)
        signer = GrantSigner(harness.conversation.id, OURS)
        assert signer.signature_state(decided) is state


def test_a_denial_by_a_rule_needs_no_signature() -> None:
    denying = Gate(Permissions.of(deny=["write"]))
    turns = [turn_with_calls(call("c1", "write")), "Done."]
    harness = AgentHarness(turns, write_tool(), gate=denying)
    run(harness.run())
    [decided] = decisions_in(harness.conversation)
    signer = GrantSigner(harness.conversation.id, OURS)
    assert signer.signature_state(decided) is SignatureState.NOT_REQUIRED


def test_a_deferred_approval_does_not_count_for_another_tool_with_the_same_arguments() -> None:
    conversation = MemoryStore().new(
        [ChatMessage.user("Go."), turn_with_calls(call("c1", "write"))]
    )
    entry = decide_later(conversation, "c1", allowed=True, actor="eva", sign_text=OURS)
    grants = SessionGrants([entry], signer=GrantSigner(conversation.id, OURS))
    assert grants.earlier_decision(call("c1", "write")) is entry
    assert grants.earlier_decision(call("c1", "bash")) is None


def test_a_repeated_denial_is_signed_only_if_it_was_signed_before() -> None:
    for sign, state in ((OURS, SignatureState.VALID), (None, SignatureState.MISSING)):
        conversation = MemoryStore().new(
            [ChatMessage.user("Go."), turn_with_calls(call("c1", "write"))]
        )
        decide_later(conversation, "c1", allowed=False, actor="eva", sign_text=sign)
        allowing, _ = gate(True)
        run(AgentHarness(["Done."], write_tool(), conversation=conversation, gate=allowing).run())
        decided = decisions_in(conversation)[-1]
        assert GrantSigner(conversation.id, OURS).signature_state(decided) is state


# -- grants of older versions ----------------------------------------------------------------------


def granted_by_older_version(store: MemoryStore) -> Conversation:
    """Return a session with a grant whose signature covers neither the id nor the time."""
    conversation = store.new([ChatMessage.user("Go."), turn_with_calls(call("c1", "write"))])
    pending = conversation.decide("c1", ApprovalStatus.PENDING).payload
    assert isinstance(pending, Approval)
    parts = [conversation.id, "c1", pending.arguments_sha256, "approved", "session", "write", None]
    conversation.decide(
        "c1",
        ApprovalStatus.APPROVED,
        actor="eva",
        audit={"scope": "session", "grant": "write", "seal": OURS(json.dumps(parts))},
    )
    conversation.answer_outstanding()
    return conversation


def notice_codes(harness: AgentHarness) -> list[str]:
    return [event.code for event in harness.events if isinstance(event, Notice)]


def test_grants_of_older_versions_are_dropped_with_one_notice() -> None:
    store = MemoryStore()
    session = granted_by_older_version(store).id
    harness, asked = go_on(store.open(session))
    assert (len(asked), notice_codes(harness)) == (1, ["grants_outdated"])
    entry = granting_entry(store.open(session))
    revoked = [one.payload for one in store.open(session).entries()]
    assert GrantRevoked(grant="write", target=entry.id) in revoked
    again, asked = go_on(store.open(session))
    assert (len(asked), notice_codes(again)) == (1, [])


def test_grants_that_were_signed_elsewhere_are_listed_and_stay_in_the_log() -> None:
    """They may count on the machine of another user of the same store."""
    store = MemoryStore()
    session = granted(store, seal_with("theirs")).id
    harness, _ = go_on(store.open(session))
    assert notice_codes(harness) == ["grants_unsigned"]
    theirs, _ = gate(False, seal_with("theirs"))
    assert len(theirs.session_rules(store.open(session))) == 1
