"""Files, images, resources and feedback, as a model sees them."""

from __future__ import annotations

import pytest

from steno import ChatMessage, Conversation
from steno.context import ChangeCode, ContextBuilder, ModelTarget, embed_references
from steno.context.builder import RequestImage
from steno.messages.content import FileReference, Image, ImageFile, Resource, Text
from steno.messages.message import UserMessage
from steno.records.entry import Feedback, Resolution, ResolutionStatus
from tests.acceptance.costs import memory_of
from tests.context.sample_logs import (
    PNG,
    build,
    check_whole,
    codes,
    log,
    only_user_message,
    texts,
    turn,
)

# -- references and images -------------------------------------------------------------------------


def test_references_are_replaced_by_their_resolutions() -> None:
    asked = only_user_message(Text("see "), FileReference(path="a.txt"), PNG)
    found = Resolution(
        target="e1", block=1, status=ResolutionStatus.RESOLVED, content=(Text("A"), Text("B"))
    )
    built = build(log(asked, found))
    # Not every API keeps texts from one another.
    shown = (Text("see "), Text("\n\nA"), Text("\n\nB"), PNG)
    assert built.request.messages[0].content == shown
    assert codes(built) == [("resolved", "e1")]
    assert built.images == (RequestImage(0, 3, "e1", 2),)


@pytest.mark.requirement("P-11")
def test_embedded_references_are_sent_like_those_of_the_log() -> None:
    entries = log(
        only_user_message(
            Text("see"), FileReference(path="a.txt"), Image(source=ImageFile("a.png"))
        ),
        Resolution(target="e1", block=1, status=ResolutionStatus.RESOLVED, content=(Text("A"),)),
        Resolution(target="e1", block=2, status=ResolutionStatus.RESOLVED, content=(PNG,)),
    )
    embedded = embed_references(entries)
    (message,) = [entry.message for entry in embedded if entry.message is not None]
    assert build(embedded).request.messages == build(entries).request.messages == (message,)
    assert PNG in message.content


def test_a_built_request_does_not_change_with_the_log() -> None:
    builder = ContextBuilder()
    found = Resolution(
        target="e2", block=1, status=ResolutionStatus.RESOLVED, content=(Text("A"), PNG)
    )
    asked = only_user_message(Text("see"), FileReference(path="a.txt"), PNG)
    entries = log(ChatMessage.user("Hello."), asked, found)
    built = builder.build(entries[:2], ModelTarget())
    assert builder.build(entries, ModelTarget()).images == (
        RequestImage(1, 2, "e2", 1),
        RequestImage(1, 3, "e2", 2),
    )
    assert built.images == (RequestImage(1, 2, "e2", 2),)


def test_a_request_copies_nothing_for_the_images_of_earlier_prompts() -> None:
    def memory(count: int) -> int:
        builder, entries = ContextBuilder(), log(*[only_user_message(Text("see"), PNG)] * count)
        return memory_of(lambda: builder.build(entries, ModelTarget())).kept

    assert memory(1_000) < 2 * memory(10)


def test_an_unreadable_reference_becomes_a_note() -> None:
    failed = Resolution(target="e1", block=0, status=ResolutionStatus.FAILED, error="no such\nfile")
    built = build(log(only_user_message(FileReference(path="a.txt")), failed))
    assert texts(built.request) == ["[file a.txt could not be read: no such file]"]
    assert codes(built) == [("unreadable", "e1")]


def test_an_unresolved_reference_stays_and_is_reported() -> None:
    asked = only_user_message(
        FileReference(path="a.txt"),
        Resource(server="s", uri="s://a"),
        Resource(server="s", uri="s://b", text="here"),
        Image(source=ImageFile("a.png")),
    )
    pending = Resolution(target="e1", block=0, status=ResolutionStatus.PENDING)
    built = build(log(asked, pending))
    [sent] = built.request.messages
    assert (*sent.content[:2], *sent.content[3:]) == (*asked.content[:2], *asked.content[3:])
    assert codes(built) == [("unresolved", "e1")] * 3


def test_an_empty_reference_becomes_a_note() -> None:
    empty = Resolution(
        target="e1", block=0, status=ResolutionStatus.RESOLVED, content=(Text(" \n"),)
    )
    built = build(log(only_user_message(FileReference(path="a.txt")), empty))
    assert texts(built.request) == ["[file a.txt is empty]"]


def test_an_empty_text_of_a_resolution_is_left_out() -> None:
    content = (Text(""), Text("A"), Text(""))
    found = Resolution(target="e1", block=0, status=ResolutionStatus.RESOLVED, content=content)
    built = build(log(only_user_message(FileReference(path="a.txt")), found))
    assert texts(built.request) == ["A"]


def test_a_resolution_of_nothing_is_reported() -> None:
    found = Resolution(target="e1", block=0, status=ResolutionStatus.RESOLVED, content=(Text("A"),))
    built = build(log(ChatMessage.user("u"), found))
    assert texts(built.request) == ["u"]
    assert codes(built) == [("ignored", "e2")]


def test_a_late_resolution_changes_the_built_message() -> None:
    builder = ContextBuilder()
    found = Resolution(target="e1", block=0, status=ResolutionStatus.RESOLVED, content=(Text("A"),))
    asked = only_user_message(FileReference(path="a.txt"))
    entries = log(asked, ChatMessage.assistant("Where?"), found)
    assert builder.build(entries[:2], ModelTarget()).request.messages[0] is asked
    built = builder.build(entries, ModelTarget())
    assert texts(built.request) == ["A", "Where?"]
    assert codes(built) == [("resolved", "e1")]
    assert built.tokens == build(entries).tokens


def test_a_model_without_vision_gets_a_note_for_each_image() -> None:
    asked = only_user_message(Text("what is "), PNG)
    result = ChatMessage.tool_result("c", [PNG])
    entries = log(asked, turn("c")[0], result)
    seen = build(entries, ModelTarget(vision=True))
    assert seen.changes == ()
    blind = build(entries, ModelTarget(vision=False))
    note = "[image: image/png, not shown: this model does not accept images]"
    assert texts(blind.request) == [f"what is \n\n{note}", None, note]
    assert codes(blind) == [("image_left_out", "e1"), ("image_left_out", "e3")]


def test_a_model_without_vision_gets_the_recognised_text() -> None:
    text = Resolution(
        target="e1", block=0, status=ResolutionStatus.RESOLVED, content=(Text("STOP"),)
    )
    built = build(log(only_user_message(PNG), text), ModelTarget(vision=False))
    assert texts(built.request) == ["STOP"]
    assert codes(built) == [("resolved", "e1")]


# -- feedback --------------------------------------------------------------------------------------


@pytest.mark.requirement("S1-12")
def test_feedback_reaches_the_model_with_a_quotation() -> None:
    conversation = Conversation([ChatMessage.user("Is it broken?")])
    answer = conversation.append(ChatMessage.assistant("All\n green. " + "x" * 99))
    conversation.append(Feedback(target=answer.id, text="Please reconsider."))
    built = build(conversation.entries())
    message = built.request.messages[-1]
    assert isinstance(message, UserMessage)
    quote = ("All green. " + "x" * 99)[:79] + "…"
    assert message.text == (
        f'[Feedback on the assistant message that begins "{quote}"]\nPlease reconsider.'
    )
    assert [change.code for change in built.changes] == [ChangeCode.FEEDBACK]


@pytest.mark.requirement("S1-12")
def test_feedback_on_a_turn_without_text_names_the_entry() -> None:
    entries = log(ChatMessage.user("u"), *turn("c"), Feedback(target="e2", text="Why?"))
    assert texts(build(entries).request)[-1] == "[Feedback on the message of entry e2]\nWhy?"


@pytest.mark.requirement("S1-12")
def test_feedback_waits_until_all_calls_are_answered() -> None:
    call, result = turn("c")
    entries = log(ChatMessage.user("u"), call, Feedback(target="e1", text="Hurry."), result)
    built = build(entries)
    assert built.sources == ("e1", "e2", "e4", "e3")
    check_whole(built.request)
    unanswered = build(entries[:3])
    assert unanswered.sources == ("e1", "e2", None, "e3")
    check_whole(unanswered.request)
