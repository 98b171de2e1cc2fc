"""A conversation: entries that are appended, their order, and entries that are refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from steno import ChatMessage, InvalidMessage, OutOfOrder, StenoError, ToolCall, ToolResult
from steno.errors import Conflict, InvalidValue, Missing, Unavailable
from steno.log.conversation import Conversation
from steno.log.queries import approvals_of, current_model, pending_approvals
from steno.messages.content import Opaque
from steno.messages.order import OrderCode
from steno.messages.usage import StopReason
from steno.records.entry import (
    Approval,
    ApprovalStatus,
    Compaction,
    Entry,
    Feedback,
    GrantRevoked,
    Label,
    Mode,
    ModeChange,
    ModelChange,
    Payload,
    Redacted,
    Redaction,
    Repair,
    Resolution,
    ResolutionStatus,
    Rewind,
)
from steno.records.stored_record import MAIN_BRANCH
from tests.log.journals import Journal
from tests.log.sample_talk import CALLS, TALK

NOON = datetime(2024, 5, 17, 12, tzinfo=UTC)


def ticking() -> dict[str, Any]:
    """Ids and times that can be foretold."""
    numbers, seconds = count(1), count(0)
    return {
        "new_id": lambda: f"e{next(numbers)}",
        "now": lambda: NOON + timedelta(seconds=next(seconds)),
    }


# -- entries -----------------------------------------------------------------------------------


@pytest.mark.requirement("S1-04")
def test_an_entry_has_an_id_a_time_the_message_the_decision_and_the_audit() -> None:
    conversation = Conversation(id="talk", **ticking())
    entry = conversation.append(
        ChatMessage.user("Broken?"), decision="asked", audit={"actor": "ann", "ip": "::1"}
    )
    assert (entry.id, entry.parent, entry.time) == ("e1", None, NOON)
    assert entry.message == ChatMessage.user("Broken?")
    assert (entry.decision, entry.audit) == ("asked", {"actor": "ann", "ip": "::1"})
    later = conversation.append(ChatMessage.assistant("No."))
    assert (later.id, later.parent, later.time) == ("e2", "e1", NOON + timedelta(seconds=1))
    assert conversation.entries() == (entry, later)
    assert conversation.entry("e1") is entry


@pytest.mark.requirement("S1-04")
def test_ids_and_times_are_made_by_default() -> None:
    conversation = Conversation(TALK)
    entries = conversation.entries()
    assert len({entry.id for entry in entries} | {conversation.id}) == len(TALK) + 1
    assert all(entry.time is not None and entry.time.tzinfo is UTC for entry in entries)
    assert [entry.parent for entry in entries[1:]] == [entry.id for entry in entries[:-1]]


def test_messages_are_kept_in_order() -> None:
    conversation = Conversation(TALK, id="talk")
    assert conversation.id == "talk"
    assert conversation.messages() == TALK
    assert len(conversation) == len(TALK)
    assert (conversation.branch, list(conversation.branches)) == (MAIN_BRANCH, [MAIN_BRANCH])
    assert conversation.branches[MAIN_BRANCH] == conversation.entries()[-1].id


def test_an_empty_one_has_a_main_branch_with_nothing_in_it() -> None:
    conversation = Conversation()
    assert conversation.branches == {MAIN_BRANCH: None}
    assert not conversation.entries()
    assert not conversation.messages()
    assert not conversation.outstanding
    assert len(conversation) == 0


def test_a_read_snapshot_does_not_change_later() -> None:
    conversation = Conversation(TALK)
    entries, messages, branches = (
        conversation.entries(),
        conversation.messages(),
        conversation.branches,
    )
    conversation.append(ChatMessage.user("Thanks."))
    assert (len(entries), len(messages)) == (6, 6)
    assert branches[MAIN_BRANCH] == entries[-1].id


def test_its_repr_shows_no_content() -> None:
    conversation = Conversation([ChatMessage.user("my secret")], id="talk")
    assert repr(conversation) == "Conversation(id='talk', branch='main', branches=1)"


# -- order -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "message", "code"),
    [
        (TALK[:3], ChatMessage.user("Well?"), OrderCode.CALL_UNANSWERED),
        (TALK[:4], ChatMessage.assistant("Well."), OrderCode.CALL_UNANSWERED),
        (TALK[:3], ToolResult.success("c9", ""), OrderCode.RESULT_ORPHANED),
        (TALK[:4], ToolResult.success("c1", ""), OrderCode.RESULT_REPEATED),
        (TALK, ToolResult.success("c1", ""), OrderCode.RESULT_ORPHANED),
        ((), ToolResult.success("c1", ""), OrderCode.RESULT_ORPHANED),
        (TALK, ChatMessage.assistant(None, [CALLS[0]] * 2), OrderCode.CALL_ID_REPEATED),
    ],
)
@pytest.mark.parametrize("stored", [False, True])
def test_a_message_that_may_not_come_next_is_refused_and_changes_nothing(
    stored: bool, before: Any, message: Any, code: OrderCode
) -> None:
    journal = Journal() if stored else None
    conversation = Conversation(before, journal=journal)
    entries, outstanding = conversation.entries(), conversation.outstanding
    with pytest.raises(OutOfOrder) as refusal:
        conversation.append(message)
    assert refusal.value.code == code
    assert (conversation.entries(), conversation.outstanding) == (entries, outstanding)
    if journal is not None:
        assert journal.open().entries() == entries


def test_users_and_models_need_not_take_turns() -> None:
    messages = (ChatMessage.user("a"), ChatMessage.user("b"), ChatMessage.system("c"))
    assert Conversation(messages).messages() == messages


def test_other_payloads_than_messages_may_come_anywhere() -> None:
    conversation = Conversation(TALK[:3])
    conversation.change_mode(Mode.PLAN)
    conversation.append(Repair(code="x", explanation="y"))
    conversation.append(ToolResult.success("c1", ""))
    conversation.change_model("m")
    assert conversation.outstanding == ("c2",)


def test_the_first_messages_are_checked_too() -> None:
    with pytest.raises(OutOfOrder):
        Conversation([TALK[3]])


@pytest.mark.requirement("S1-07")
def test_a_blank_question_an_action_without_a_tool_and_a_result_without_a_call_are_refused() -> (
    None
):
    conversation = Conversation(TALK)
    acts: list[Callable[[], object]] = [
        lambda: conversation.append(ChatMessage.user(" \n\t")),
        lambda: conversation.append(ChatMessage.assistant(None, [ToolCall(id="c3", name="")])),
        lambda: conversation.append(ToolResult.success("", "done")),
        lambda: conversation.append(ToolResult.success("c7", "done")),
    ]
    for act in acts:
        with pytest.raises(InvalidValue):
            act()
    assert conversation.messages() == TALK


@pytest.mark.parametrize("thing", [None, 41, object(), b"bytes", {"a": "user"}])
@pytest.mark.parametrize("stored", [False, True])
def test_values_that_are_not_payloads_are_refused_without_being_quoted(
    stored: bool, thing: Any
) -> None:
    conversation = Conversation(journal=Journal() if stored else None)
    with pytest.raises(InvalidMessage) as caught:
        conversation.append(thing)
    assert caught.value.code == ("dictionary" if isinstance(thing, dict) else "wrong_type")
    assert type(thing).__name__ in caught.value.message
    assert f"{thing!r}," not in str(caught.value)
    assert conversation.entries() == ()


@pytest.mark.parametrize(
    "wrong",
    [{"decision": "\ud800"}, {"decision": 1}, {"audit": {"a": object()}}, {"audit": "text"}],
)
def test_an_invalid_decision_or_audit_is_refused(wrong: Any) -> None:
    journal = Journal()
    conversation = journal.open()
    with pytest.raises(InvalidValue):
        conversation.append(ChatMessage.user("a"), **wrong)
    assert conversation.entries() == journal.open().entries() == ()


# -- modes and models --------------------------------------------------------------------------


@pytest.mark.requirement("S2-22")
def test_a_change_of_mode_is_recorded_with_both_modes_and_never_sent() -> None:
    conversation = Conversation(TALK)
    conversation.change_mode(Mode.PLAN)
    entry = conversation.change_mode(Mode.ACT)
    assert entry.payload == ModeChange(old=Mode.PLAN, new=Mode.ACT)
    assert entry.message is None
    assert conversation.mode is Mode.ACT
    assert conversation.messages() == TALK


@pytest.mark.requirement("S2-22")
def test_the_mode_is_that_of_the_branch() -> None:
    conversation = Conversation(TALK)
    conversation.fork("idea")
    conversation.change_mode(Mode.PLAN)
    assert conversation.mode == "plan"
    conversation.switch("idea")
    assert conversation.mode == "act"


def test_a_change_of_model_is_recorded_with_both_models_and_never_sent() -> None:
    conversation = Conversation(TALK)
    assert current_model(conversation.entries()) is None
    assert conversation.change_model("a").payload == ModelChange(old="", new="a")
    assert conversation.change_model("b").payload == ModelChange(old="a", new="b")
    assert current_model(conversation.entries()) == "b"
    assert conversation.messages() == TALK
    with pytest.raises(InvalidMessage):
        conversation.change_model("")


@pytest.mark.requirement("S2-22")
@pytest.mark.parametrize("stored", [False, True])
def test_mode_and_model_are_those_of_the_active_branch(stored: bool) -> None:
    journal = Journal() if stored else None
    conversation = Conversation(journal=journal)
    assert (conversation.mode, conversation.model) == (Mode.ACT, None)
    first = conversation.append(ChatMessage.user("a"))
    conversation.change_model("small")
    planned = conversation.change_mode(Mode.PLAN)
    conversation.fork("before", at=first)
    conversation.fork("behind", at=planned)
    conversation.change_model("large")
    assert (conversation.mode, conversation.model) == (Mode.PLAN, "large")
    conversation.switch("before")
    assert (conversation.mode, conversation.model) == (Mode.ACT, None)
    conversation.switch("behind")
    assert (conversation.mode, conversation.model) == (Mode.PLAN, "small")
    conversation.append(ChatMessage.user("b"))
    for same in [conversation.clone(), *([] if journal is None else [journal.open()])]:
        assert (same.mode, same.model) == (Mode.PLAN, "small")
    conversation.rewind(first)
    assert (conversation.mode, conversation.model) == (Mode.ACT, None)
    assert current_model(conversation.entries()) is None


def test_a_label_names_an_entry_that_is_there() -> None:
    conversation = Conversation(TALK, **ticking())
    assert conversation.label("e3", "here").payload == Label(target="e3", text="here")
    with pytest.raises(Missing) as caught:
        conversation.label("e99", "there")
    assert (caught.value.place, caught.value.code) == ("conversation", "entry_missing")
    assert conversation.messages() == TALK


REFERRING: dict[str, Callable[[str], Payload]] = {
    "label": lambda id: Label(target=id, text="here"),
    "feedback": lambda id: Feedback(target=id, text="Reconsider."),
    "resolution": lambda id: Resolution(target=id, block=0, status=ResolutionStatus.PENDING),
    "compaction": lambda id: Compaction(through=id, summary="They met."),
    "repair": lambda id: Repair(code="x", explanation="y", target=id),
    "grant_revoked": lambda id: GrantRevoked(grant="bash(ls)", target=id),
    "redaction": lambda id: Redaction(target=id, actor="ann", reason="a key"),
    "rewind": lambda id: Rewind(left=id),
}


@pytest.mark.requirement("S1-12", "P-15")
@pytest.mark.parametrize("build", REFERRING.values(), ids=REFERRING)
@pytest.mark.parametrize("stored", [False, True])
def test_a_payload_about_an_unknown_entry_is_refused(
    build: Callable[[str], Payload], stored: bool
) -> None:
    conversation = Conversation(TALK, journal=Journal() if stored else None)
    with pytest.raises(Missing) as caught:
        conversation.append(build("no-such-entry"))
    assert caught.value.code == "entry_missing"
    assert len(conversation) == len(TALK)
    entry = conversation.append(build(conversation.entries()[0].id))
    assert conversation.entries()[-1] == entry


@pytest.mark.requirement("S1-12")
def test_feedback_may_be_about_an_entry_of_another_branch() -> None:
    conversation = Conversation(TALK)
    conversation.fork("idea", at=conversation.entries()[1])
    last = conversation.entries()[-1].id
    assert conversation.append(
        Feedback(target=last, text="No."), branch="idea"
    ).payload == Feedback(target=last, text="No.")


@pytest.mark.requirement("S3-08")
def test_nothing_but_messages_is_ever_among_the_messages() -> None:
    conversation = Conversation(TALK)
    conversation.append(Opaque(kind="usage", raw='{"n":1}', origin="steno"))
    conversation.append(Repair(code="x", explanation="y"))
    conversation.label(conversation.entries()[0].id, "here")
    conversation.fork("idea")
    conversation.switch("idea")
    conversation.rewind(conversation.entries()[5].id)
    assert conversation.messages() == TALK
    assert len(conversation) == 7


# -- decisions ---------------------------------------------------------------------------------


def test_a_decision_is_bound_to_the_arguments_and_names_its_actor() -> None:
    conversation = Conversation(TALK[:3])
    entry = conversation.decide("c1", ApprovalStatus.APPROVED, actor="ann", reason="fine")
    digest = sha256(b'{"path":"a"}').hexdigest()
    assert entry.payload == Approval(
        call_id="c1",
        status=ApprovalStatus.APPROVED,
        arguments_sha256=digest,
        actor="ann",
        reason="fine",
    )
    assert entry.decision == "approved"
    assert conversation.messages() == TALK[:3]
    rule = conversation.decide("c2", ApprovalStatus.DENIED, rule="no reading").payload
    assert isinstance(rule, Approval)
    assert rule.rule == "no reading"
    assert set(approvals_of(conversation.entries())) == {"c1", "c2"}


def test_a_decision_keeps_its_audit_data() -> None:
    conversation = Conversation(TALK[:3])
    granted = {"granted": {"tool": "read", "for": "session"}}
    entry = conversation.decide("c1", "approved", actor="ann", audit=granted)
    assert entry.audit == granted
    assert conversation.decide("c2", "pending").audit is None


def test_an_outstanding_call_is_found_after_later_entries() -> None:
    conversation = Conversation(TALK[:3])
    conversation.change_mode(Mode.PLAN)
    conversation.decide("c1", ApprovalStatus.PENDING)
    assert conversation.outstanding_call("c1") == CALLS[0]
    conversation.append(TALK[3])
    assert conversation.outstanding_call("c2") == CALLS[1]
    for answered in ("c1", "c3", ""):
        with pytest.raises(Missing):
            conversation.outstanding_call(answered)


def test_pending_approvals_end_with_a_decision_or_a_result() -> None:
    conversation = Conversation(TALK[:3])
    assert pending_approvals(conversation.entries()) == ()
    conversation.decide("c2", ApprovalStatus.PENDING)
    conversation.decide("c1", ApprovalStatus.PENDING)
    assert pending_approvals(conversation.entries()) == tuple(CALLS)
    conversation.decide("c1", ApprovalStatus.APPROVED, actor="ann")
    assert pending_approvals(conversation.entries()) == (CALLS[1],)
    conversation.append(TALK[3])
    conversation.append(TALK[4])
    assert pending_approvals(conversation.entries()) == ()


@pytest.mark.parametrize("before", [TALK, TALK[:2], ()])
def test_only_an_outstanding_call_can_be_decided_about(before: Any) -> None:
    conversation = Conversation(before)
    with pytest.raises(Missing) as caught:
        conversation.decide("c1", ApprovalStatus.PENDING)
    assert (caught.value.place, caught.value.code) == ("conversation", "no_outstanding_call")
    assert len(conversation) == len(before)


def test_a_decision_without_an_actor_or_rule_is_refused() -> None:
    conversation = Conversation(TALK[:3])
    with pytest.raises(InvalidValue):
        conversation.decide("c1", ApprovalStatus.APPROVED)
    with pytest.raises(InvalidValue):
        conversation.decide("c1", ApprovalStatus.PENDING, actor="ann")
    assert len(conversation) == 3


def test_an_id_that_is_used_again_is_another_call_with_a_decision_of_its_own() -> None:
    conversation = Conversation(TALK[:3])
    conversation.decide("c1", ApprovalStatus.APPROVED, actor="ann")
    for message in TALK[3:]:
        conversation.append(message)
    again = ToolCall(id="c1", name="delete", arguments='{"path":"/"}')
    conversation.append(ChatMessage.assistant(None, [again]))
    assert approvals_of(conversation.entries()) == {}
    pending = conversation.decide("c1", ApprovalStatus.PENDING).payload
    assert pending_approvals(conversation.entries()) == (again,)
    assert isinstance(pending, Approval)
    assert pending.arguments_sha256 == sha256(b'{"path":"/"}').hexdigest()


# -- journals ----------------------------------------------------------------------------------


def test_an_entry_that_cannot_be_stored_is_not_visible() -> None:
    journal = Journal()
    conversation = Conversation(TALK[:3], journal=journal)
    entries = conversation.entries()
    journal.is_full = True
    acts: list[Callable[[], object]] = [
        lambda: conversation.append(TALK[3]),
        lambda: conversation.switch(MAIN_BRANCH),
        lambda: conversation.rewind(entries[0].id),
        lambda: conversation.fork("idea"),
        lambda: conversation.decide("c1", ApprovalStatus.PENDING),
    ]
    for act in acts:
        with pytest.raises(Unavailable):
            act()
    assert conversation.entries() == entries
    assert list(conversation.branches) == [MAIN_BRANCH]
    assert conversation.outstanding == ("c1", "c2")
    journal.is_full = False
    conversation.append(TALK[3])
    assert journal.open().messages() == TALK[:4]
    assert journal.store.verify(journal.session).is_intact


def test_an_entry_is_stored_before_it_is_seen() -> None:
    journal = Journal()
    conversation = journal.open()
    seen: list[int] = []
    journal.before_append = lambda: seen.append(len(conversation))
    conversation.append(TALK[0])
    conversation.append(TALK[1])
    assert seen == [0, 1]


def test_the_loser_of_a_race_gets_a_conflict_and_can_continue_after_a_refresh() -> None:
    journal = Journal()
    first, second = journal.open(), journal.again().open()
    first.append(TALK[0])
    with pytest.raises(Conflict):
        second.append(TALK[0])
    assert second.entries() == ()
    second.refresh()
    assert second.messages() == TALK[:1]
    second.append(TALK[1])
    first.refresh()
    assert first.messages() == second.messages() == TALK[:2]


def test_a_refresh_brings_new_branches_and_leaves_the_active_one_active() -> None:
    journal = Journal()
    first = Conversation(TALK, journal=journal)
    second = journal.again().open()
    second.fork("idea")
    second.switch("idea")
    second.append(ChatMessage.user("elsewhere"))
    first.refresh()
    assert first.branch == MAIN_BRANCH
    assert set(first.branches) == {MAIN_BRANCH, "idea"}
    first.append(ChatMessage.user("here"))
    assert first.messages("idea")[-1].text == "elsewhere"
    assert first.messages(MAIN_BRANCH)[-1].text == "here"


def test_during_a_refresh_the_active_branch_is_the_active_one() -> None:
    journal = Journal()
    first = Conversation(TALK, journal=journal)
    first.fork("idea")
    first.append(ChatMessage.user("here"))
    seen: list[str] = []
    journal.between_heads = lambda: seen.append(first.branch)
    first.refresh()
    assert set(seen) == {MAIN_BRANCH}


def test_without_a_journal_a_refresh_does_nothing() -> None:
    conversation = Conversation(TALK)
    conversation.refresh()
    assert conversation.messages() == TALK


def test_a_session_opens_on_the_branch_that_was_written_to_last() -> None:
    journal = Journal()
    conversation = Conversation(TALK, journal=journal)
    conversation.fork("idea")
    conversation.append(ChatMessage.user("there"), branch="idea")
    assert journal.open().branch == "idea"
    conversation.append(ChatMessage.user("here"))
    assert journal.open().branch == MAIN_BRANCH
    assert journal.open().messages("idea")[-1].text == "there"


def test_a_reopened_session_knows_the_outstanding_calls() -> None:
    journal = Journal()
    Conversation(TALK[:4], journal=journal)
    found = journal.open()
    assert found.outstanding == ("c2",)
    with pytest.raises(OutOfOrder):
        found.append(ToolResult.success("c1", "again"))
    found.append(TALK[4])
    assert not found.outstanding


@pytest.mark.parametrize("stored", [False, True])
def test_unknown_branches_and_entries_are_missing(stored: bool) -> None:
    conversation = Conversation(TALK, journal=Journal() if stored else None)
    first = conversation.entries()[0].id
    acts: list[Callable[[], object]] = [
        lambda: conversation.entry("e99"),
        lambda: conversation.digest("e99"),
        lambda: conversation.entries("idea"),
        lambda: conversation.messages("idea"),
        lambda: conversation.append(TALK[1], branch="idea"),
        lambda: conversation.switch("idea"),
        lambda: conversation.rewind("e99"),
        lambda: conversation.rewind(first, branch="idea"),
        lambda: conversation.fork("idea", at="e99"),
    ]
    for act in acts:
        with pytest.raises(Missing):
            act()
    assert conversation.messages() == TALK
    assert list(conversation.branches) == [MAIN_BRANCH]


def test_refusals_are_steno_errors_without_content() -> None:
    conversation = Conversation(TALK)
    with pytest.raises(InvalidValue) as caught:
        conversation.fork(" ")
    assert (caught.value.place, caught.value.code) == ("fork", "blank")
    assert isinstance(caught.value, StenoError)
    conversation.fork("secret")
    with pytest.raises(Conflict) as conflict:
        conversation.fork("secret")
    assert conflict.value.code == "branch_exists"
    assert "secret" not in str(conflict.value)


@pytest.mark.requirement("S1-09")
def test_a_stop_reason_and_an_empty_turn_come_back_from_a_journal() -> None:
    journal = Journal()
    turn = ChatMessage.assistant(stop_reason=StopReason.LENGTH)
    Conversation([turn], journal=journal)
    assert journal.open().messages() == (turn,)


def test_content_is_not_taken_out_by_appending() -> None:
    conversation = Conversation([ChatMessage.user("Hello")])
    with pytest.raises(InvalidMessage) as caught:
        conversation.append(Redacted(kind="user", sha256="ab" * 32))
    assert caught.value.code == "redacted"
    assert len(conversation) == 1


def test_plain_text_is_refused_with_a_hint_at_the_factory() -> None:
    conversation = Conversation()
    text: Any = "my text"
    with pytest.raises(InvalidMessage) as caught:
        conversation.append(text)
    assert caught.value.code == "bare_text"
    assert "ChatMessage.user" in caught.value.message
    assert "my text" not in str(caught.value)


def test_an_entry_may_be_named_by_itself() -> None:
    conversation = Conversation([ChatMessage.user("one"), ChatMessage.assistant("two")])
    first, second = conversation.entries()
    conversation.fork("side", at=first)
    conversation.label(second, "the answer")
    conversation.rewind(first)
    assert conversation.entry(second) == second
    assert conversation.digest(second) == conversation.digest(second.id)
    assert [len(conversation.messages(name)) for name in ("side", "main")] == [1, 1]


def test_labels_are_found_on_every_branch() -> None:
    conversation = Conversation([ChatMessage.user("one"), ChatMessage.assistant("two")])
    first, second = conversation.entries()
    conversation.label(second, "the answer")
    conversation.fork("side", at=first)
    conversation.switch("side")
    conversation.label(first, "the question")
    assert conversation.labels == {"the answer": second.id, "the question": first.id}


def test_values_of_an_enumeration_are_accepted_and_others_refused() -> None:
    call = ToolCall(id="c1", name="read")
    conversation = Conversation([ChatMessage.assistant(None, [call])])
    conversation.decide("c1", "approved", actor="ann")
    conversation.change_mode("plan")
    assert conversation.mode == "plan"
    with pytest.raises(InvalidValue) as caught:
        conversation.decide("c1", "maybe", actor="ann")
    assert (caught.value.place, caught.value.code) == ("approval status", "unknown_value")
    with pytest.raises(InvalidValue) as caught:
        conversation.change_mode("sleep")
    assert (caught.value.place, caught.value.code) == ("mode", "unknown_value")


def test_an_interrupted_turn_can_be_answered_and_continued() -> None:
    calls = [ToolCall(id="c1", name="read"), ToolCall(id="c2", name="read")]
    conversation = Conversation([ChatMessage.assistant(None, calls)])
    conversation.append(ToolResult.success("c1", "done"))
    [entry] = conversation.answer_outstanding()
    assert entry.message is not None
    assert entry.message.tool_call_id == "c2"
    assert conversation.outstanding == ()
    conversation.append(ChatMessage.user("Go on."))
    assert conversation.answer_outstanding() == ()


def test_an_append_that_was_interrupted_after_it_was_written_is_known_to_the_next() -> None:
    journal = Journal()
    conversation = Conversation([ChatMessage.user("one")], journal=journal)

    class Interrupted(Journal):
        def append(self, entry: Entry, **place: Any) -> None:
            super().append(entry, **place)
            raise KeyboardInterrupt

    interrupted = Interrupted(journal.store, journal.session)
    other = Conversation(id=journal.session, journal=interrupted)
    with pytest.raises(KeyboardInterrupt):
        other.append(ChatMessage.user("two"))
    with pytest.raises(KeyboardInterrupt):
        other.append(ChatMessage.user("three"))
    other.refresh()
    assert [message.text for message in other.messages()] == ["one", "two", "three"]
    conversation.refresh()
    assert conversation.messages() == other.messages()


# -- audits that are built from their entry ------------------------------------------------------


def test_an_audit_may_be_built_from_the_id_the_time_and_the_place_of_its_entry() -> None:
    conversation = Conversation([ChatMessage.user("Hi")])
    seen: list[Entry] = []

    def build(entry: Entry) -> dict[str, str | None]:
        seen.append(entry)
        return {"of": entry.id}

    appended = conversation.append(
        Label(target=conversation.entries()[0].id, text="a"), audit=build
    )
    assert appended.audit == {"of": appended.id}
    assert seen == [replace(appended, audit=None)]
    assert seen[0].parent == conversation.entries()[0].id


def test_an_audit_that_cannot_be_built_changes_nothing() -> None:
    conversation = Conversation([ChatMessage.user("Hi")])

    def build(_: Entry) -> dict[str, str]:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - it is raised two lines above
        conversation.append(ChatMessage.assistant("Yo"), audit=build)
    assert len(conversation) == 1
    conversation.append(ChatMessage.assistant("Yo"))
