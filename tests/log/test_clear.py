"""A cleared conversation: an empty context, and a log that still has everything."""

from __future__ import annotations

from typing import Any

import pytest

from steno import ChatMessage, Conversation, OutOfOrder, ToolCall, ToolResult
from steno.context import ContextBuilder, ModelTarget, compaction_point
from steno.errors import Missing
from steno.log.queries import pending_approvals, total_usage
from steno.messages.content import FileReference, Image, ImageData, Text
from steno.messages.message import Message
from steno.messages.usage import Usage
from steno.records import (
    ApprovalStatus,
    Clear,
    Compaction,
    Feedback,
    Mode,
    Redacted,
    Resolution,
    ShellCommand,
)
from steno.records.entry import ResolutionStatus
from steno.store import MemoryStore
from tests.context.sample_logs import PNG, codes
from tests.log.journals import Journal
from tests.log.sample_talk import CALLS, TALK

stored = pytest.mark.parametrize("is_stored", [False, True])
NEXT = (ChatMessage.user("Anew."), ChatMessage.assistant("Yes?"))


def begun(is_stored: bool = False, messages: Any = TALK) -> Conversation:
    return Conversation(messages, journal=Journal() if is_stored else None)


def sent(conversation: Conversation, **target: Any) -> tuple[Message, ...]:
    entries = conversation.entries()
    return ContextBuilder().build(entries, ModelTarget(**target)).request.messages


# -- the log ---------------------------------------------------------------------------------------


@pytest.mark.requirement("S3-05")
@stored
def test_a_clear_empties_the_context_and_keeps_the_log(is_stored: bool) -> None:
    conversation = begun(is_stored)
    before = conversation.entries()
    entry = conversation.clear()
    assert (entry.payload, entry.v, entry.message) == (Clear(), 3, None)
    assert conversation.entries() == (*before, entry)
    assert conversation.messages() == TALK[:1]
    for message in NEXT:
        conversation.append(message)
    assert conversation.messages() == sent(conversation) == (TALK[0], *NEXT)
    assert len(conversation) == len(before) + 3


@pytest.mark.requirement("S3-05")
def test_a_conversation_without_a_system_message_is_empty_after_a_clear() -> None:
    conversation = Conversation(TALK[1:])
    conversation.clear()
    assert conversation.messages() == ()
    conversation.append(ChatMessage.system("Be kind."))
    conversation.append(NEXT[0])
    conversation.clear()
    assert conversation.messages() == (ChatMessage.system("Be kind."),)


def test_a_later_system_message_is_cleared_as_well() -> None:
    conversation = Conversation([*TALK[:2], ChatMessage.system("Be brief.")])
    conversation.clear()
    assert conversation.messages() == TALK[:1]


@pytest.mark.requirement("S3-05")
@stored
def test_calls_without_a_result_do_not_wait_after_a_clear(is_stored: bool) -> None:
    conversation = begun(is_stored, TALK[:3])
    conversation.decide("c1", ApprovalStatus.PENDING)
    conversation.clear()
    assert not conversation.outstanding
    assert pending_approvals(conversation.entries()) == ()
    with pytest.raises(OutOfOrder):
        conversation.append(ToolResult.success("c1", "late"))
    with pytest.raises(Missing):
        conversation.decide("c1", ApprovalStatus.APPROVED, actor="ada")
    conversation.append(NEXT[0])
    conversation.append(ChatMessage.assistant(None, CALLS[:1]))
    assert conversation.outstanding == ("c1",)


@stored
def test_the_mode_the_model_and_the_labels_stay(is_stored: bool) -> None:
    conversation = begun(is_stored)
    conversation.change_mode(Mode.PLAN)
    conversation.change_model("a/model")
    conversation.label(conversation.entries()[1], "start")
    conversation.clear()
    assert (conversation.mode, conversation.model) == (Mode.PLAN, "a/model")
    assert list(conversation.labels) == ["start"]


@pytest.mark.requirement("S3-05", "S3-06", "P-06")
@stored
def test_branches_and_clones_from_before_a_clear_keep_their_context(is_stored: bool) -> None:
    conversation = begun(is_stored)
    twin = conversation.clone()
    conversation.fork("idea")
    conversation.clear()
    assert twin.messages() == conversation.messages("idea") == TALK
    conversation.fork("late")
    assert conversation.messages("late") == conversation.clone().messages() == TALK[:1]


@pytest.mark.requirement("P-06")
@stored
def test_a_rewind_to_before_a_clear_undoes_it(is_stored: bool) -> None:
    conversation = begun(is_stored, TALK[:3])
    call = conversation.entries()[-1]
    conversation.clear()
    conversation.append(NEXT[0])
    conversation.rewind(call)
    assert conversation.messages() == TALK[:3]
    assert conversation.outstanding == ("c1", "c2")
    conversation.append(TALK[3])
    assert sent(conversation)[:4] == TALK[:4]


@pytest.mark.requirement("S3-05")
def test_a_clear_is_read_from_a_store_and_replaces_what_another_writer_knows() -> None:
    store = MemoryStore()
    conversation = store.new(TALK[:3])
    other = store.open(conversation.id)
    conversation.clear()
    other.refresh()
    for found in (other, store.open(conversation.id)):
        assert (found.messages(), found.outstanding) == (TALK[:1], ())
        assert found.entries() == conversation.entries()
    assert store.verify(conversation.id).is_intact


def test_a_redacted_clear_is_still_a_clear() -> None:
    store = MemoryStore()
    conversation = store.new(TALK[:3])
    entry = conversation.append(Clear(), audit={"why": "a secret"})
    store.redact(conversation.id, entry.id, actor="ada", reason="private")
    found = store.open(conversation.id)
    assert isinstance(found.entry(entry.id).payload, Redacted)
    assert (found.messages(), found.outstanding) == (TALK[:1], ())
    found.append(NEXT[0])
    assert sent(found) == (TALK[0], NEXT[0])


@pytest.mark.parametrize(
    "payload",
    [
        ChatMessage.user("A secret."),
        ChatMessage.assistant("A secret."),
        ShellCommand(command="env", output="A secret."),
        "feedback",
    ],
)
def test_a_redaction_does_not_send_a_cleared_system_message_again(payload: Any) -> None:
    """ADR 36: redaction must not send content again that was cleared."""
    store = MemoryStore()
    conversation = store.new(TALK[:1])
    if payload == "feedback":
        payload = Feedback(target=conversation.entries()[0].id, text="A secret.")
    entry = conversation.append(payload)
    conversation.append(ChatMessage.system("Be brief."))
    conversation.clear()
    conversation.append(NEXT[0])
    store.redact(conversation.id, entry.id, actor="ada", reason="private")
    found = store.open(conversation.id)
    assert isinstance(found.entry(entry.id).payload, Redacted)
    assert found.messages() == sent(found) == (TALK[0], NEXT[0])


@pytest.mark.parametrize("kind", ["system", "summary"])
def test_a_redacted_system_message_or_summary_keeps_the_next_one(kind: str) -> None:
    store = MemoryStore()
    conversation = store.new(TALK[:1])
    entry = conversation.entries()[0]
    if kind == "summary":
        entry = conversation.append(Compaction(through=entry.id, summary="They met."))
    conversation.append(ChatMessage.system("Be brief."))
    conversation.clear()
    before = conversation.messages()
    store.redact(conversation.id, entry.id, actor="ada", reason="private")
    found = store.open(conversation.id)
    assert before == (TALK[0], ChatMessage.system("Be brief."))
    assert found.messages() == sent(found) == (before[1:] if kind == "system" else before)


def test_search_and_usage_cover_what_was_cleared() -> None:
    store = MemoryStore()
    used = Usage(input_tokens=5, output_tokens=2)
    conversation = store.new([ChatMessage.user("milk"), ChatMessage.assistant("Yes.", usage=used)])
    conversation.clear()
    assert [hit.snippet for hit in store.search("milk")] == ["milk"]
    assert total_usage(conversation.entries()) == used


# -- the context -----------------------------------------------------------------------------------


@pytest.mark.requirement("S3-05")
def test_nothing_from_before_a_clear_is_sent() -> None:
    conversation = Conversation(TALK[:1])
    asked = conversation.append(
        ChatMessage.user([Text("See"), Image(source=ImageData(b"png"), mime_type="image/png")])
    )
    read = conversation.append(ChatMessage.user([FileReference(path="a.py")]))
    conversation.append(
        Resolution(
            target=read.id, block=0, status=ResolutionStatus.RESOLVED, content=(Text("code"),)
        )
    )
    conversation.append(Compaction(through=asked.id, summary="They met."))
    conversation.append(ChatMessage.assistant(None, CALLS[:1]))
    conversation.append(Feedback(target=asked.id, text="Really?"))
    cleared = conversation.clear()
    conversation.append(NEXT[0])
    built = ContextBuilder().build(conversation.entries(), ModelTarget(vision=False))
    assert built.request.messages == (TALK[0], NEXT[0])
    assert built.sources == (conversation.entries()[0].id, conversation.entries()[-1].id)
    assert codes(built) == [("cleared", cleared.id)]


def test_the_note_of_the_mode_stays_in_the_system_message() -> None:
    conversation = Conversation(TALK[:2])
    changed = conversation.change_mode(Mode.PLAN)
    conversation.clear()
    conversation.append(NEXT[0])
    built = ContextBuilder().build(conversation.entries(), ModelTarget())
    system, asked = built.request.messages
    assert (asked, system.role) == (NEXT[0], "system")
    assert system.text != TALK[0].text
    assert ("mode", changed.id) in codes(built)


@pytest.mark.parametrize("late", ["resolution", "summary"])
def test_an_entry_about_a_cleared_message_has_no_effect(late: str) -> None:
    conversation = Conversation(TALK[:1])
    asked = conversation.append(ChatMessage.user([FileReference(path="a.py")]))
    conversation.clear()
    for message in NEXT:
        conversation.append(message)
    content = (Text("code"),)
    conversation.append(
        Compaction(through=asked.id, summary="They met.")
        if late == "summary"
        else Resolution(target=asked.id, block=0, status=ResolutionStatus.RESOLVED, content=content)
    )
    assert sent(conversation) == (TALK[0], *NEXT)


@pytest.mark.requirement("S3-05")
@pytest.mark.parametrize(("context_tokens", "code"), [(12_000, "shortened"), (6_000, "left_out")])
def test_a_builder_that_has_reduced_the_context_begins_anew_after_a_clear(
    context_tokens: int, code: str
) -> None:
    """The room that the cleared messages took is free again: nothing is left out or shortened."""
    long = "word " * 600
    turns = [
        message
        for number in range(12)
        for message in (
            ChatMessage.assistant(None, [ToolCall(id=f"c{number}", name="read")]),
            ToolResult.success(f"c{number}", long),
        )
    ]
    conversation = Conversation([*TALK[:2], *turns])
    builder, target = ContextBuilder(), ModelTarget(context_tokens=context_tokens)
    reduced = builder.build(conversation.entries(), target)
    assert code in {found for found, _ in codes(reduced)}
    conversation.clear()
    conversation.append(NEXT[0])
    built = builder.build(conversation.entries(), target)
    for message in turns[:6]:
        conversation.append(message)
        built = builder.build(conversation.entries(), target)
    assert built == ContextBuilder().build(conversation.entries(), target)
    assert built.request.messages == (TALK[0], NEXT[0], *turns[:6])


def test_a_summary_never_covers_what_was_cleared() -> None:
    conversation = Conversation(TALK)
    conversation.clear()
    assert compaction_point(conversation.entries(), kept_groups=1) is None
    for message in NEXT:
        conversation.append(message)
    through = compaction_point(conversation.entries(), kept_groups=1)
    assert through == conversation.entries()[-2].id
    conversation.append(Compaction(through=str(through), summary="They met."))
    system, summary, answer = sent(conversation)
    assert (system, answer) == (TALK[0], NEXT[1])
    assert summary.text is not None
    assert summary.text.endswith("They met.")


def test_an_image_after_a_clear_is_sent() -> None:
    conversation = begun()
    conversation.clear()
    conversation.append(ChatMessage.user([PNG]))
    assert sent(conversation) == (TALK[0], ChatMessage.user([PNG]))
