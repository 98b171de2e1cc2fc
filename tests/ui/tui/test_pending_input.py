"""What the person has said and is not on record: it is seen, in its order, and never lost."""

from __future__ import annotations

import pytest

from steno import ChatMessage, Conversation
from steno.agent import EntryRecorded, RunEnded
from steno.agent.events import EndReason, RunResult
from steno.app.session import InputReturned, PromptInput
from steno.errors import Unresolved
from steno.messages.content import FileReference, Image, ImageFile, Text
from steno.messages.message import UserMessage
from steno.messages.usage import Usage
from steno.records.entry import Resolution, ResolutionStatus
from steno.render.items import CallState, ItemKind
from steno.ui.tui.transcript_state import TranscriptState
from tests.ui.tui.item_recorder import ItemRecorder, make_transcript_state, read_back

pytestmark = pytest.mark.requirement("S4-15")


def test_what_the_person_says_meanwhile_is_shown_until_it_is_heard() -> None:
    told, sheet = make_transcript_state()
    conversation = Conversation([ChatMessage.user("Go.")])
    told.load(conversation.entries())
    told.pending_input.add(PromptInput("stop that"), steers=True)
    (queued,) = [block for block in sheet.blocks if block.state is CallState.WAITING]
    assert queued.body == "stop that"
    conversation.append(ChatMessage.assistant("Done."))
    entry = conversation.append(ChatMessage.user("stop that"))
    told.apply(EntryRecorded(entry))
    assert [block.body for block in sheet.of(ItemKind.USER)] == ["Go.", "stop that"]
    assert not [block for block in sheet.blocks if block.state is CallState.WAITING]


def test_what_is_said_is_heard_in_its_order_whatever_the_record_calls_it() -> None:
    told, sheet = make_transcript_state()
    conversation = Conversation()
    told.pending_input.add(PromptInput("/docs:greet Ann"), steers=False)
    told.pending_input.add(PromptInput("and be brief"), steers=True)
    told.apply(
        EntryRecorded(conversation.append(ChatMessage.user("$ ls\n"), audit={"shell": "ls"}))
    )
    assert [one.body for one in sheet.of(ItemKind.USER)] == ["/docs:greet Ann", "and be brief"]
    told.apply(EntryRecorded(conversation.append(ChatMessage.user("Say hello to Ann."))))
    assert [one.body for one in sheet.of(ItemKind.USER)] == ["and be brief", "Say hello to Ann."]
    conversation.append(ChatMessage.assistant("Hello."))
    told.apply(EntryRecorded(conversation.append(ChatMessage.user("and be brief"))))
    assert [one.state for one in sheet.of(ItemKind.USER)] == [None, None]


def test_what_comes_back_is_what_was_taken_last() -> None:
    told, sheet = make_transcript_state()
    first, second, third = [
        told.pending_input.add(PromptInput(text), steers=True)
        for text in ("first", "second", "third")
    ]
    told.pending_input.accept(first)
    told.pending_input.accept(second)
    told.apply(InputReturned((PromptInput("second"),)))
    assert sheet.blocks == [first, third]
    told.pending_input.reject(third)
    assert told.pending_input.abandon() == [PromptInput("first")]
    assert sheet.blocks == []


def test_what_could_not_be_sent_and_comes_back_is_shown_where_it_came_back_to() -> None:
    told, sheet = make_transcript_state()
    conversation = Conversation([ChatMessage.user("Go."), ChatMessage.assistant("Gone.")])
    told.load(conversation.entries())
    words = PromptInput("@nosuch.txt what")
    told.pending_input.add(words, steers=False)
    said = conversation.append(UserMessage((Text(words.text), FileReference(path="nosuch.txt"))))
    assert said.parent is not None
    told.apply(EntryRecorded(said))
    failed = Resolution(target=said.id, block=1, status=ResolutionStatus.FAILED, error="not there")
    told.apply(EntryRecorded(conversation.append(failed)))
    told.apply(EntryRecorded(conversation.rewind(said.parent)))
    result = RunResult(EndReason.FAILED, None, 0, Usage(), error=Unresolved("nothing was sent: x"))
    told.apply(RunEnded(result))
    told.apply(InputReturned((words,)))
    assert [one.body for one in sheet.of(ItemKind.USER)] == ["Go."]
    assert [one.body for one in sheet.of(ItemKind.ERROR)] == [
        "nothing was sent: file nosuch.txt: failed: not there; /retry tries again"
    ]
    assert not sheet.of(ItemKind.MARK)
    told.pending_input.keep_returned(words)  # somebody types something else there
    assert "/retry" in sheet.blocks[-1].head


def test_what_is_not_on_record_stays_when_everything_is_shown_anew() -> None:
    told, sheet = make_transcript_state()
    told.pending_input.keep_returned(PromptInput("not now", (b"png",)))
    told.pending_input.add(PromptInput("wait"), steers=False)
    told.load(Conversation([ChatMessage.user("Go.")]).entries())
    assert [one.body for one in sheet.blocks] == ["Go.", "not now", "wait"]
    assert told.pending_input.take_back(sheet.blocks[0]) is None
    assert told.pending_input.take_back(sheet.blocks[1]) == PromptInput("not now", (b"png",))
    assert [one.body for one in sheet.blocks] == ["Go.", "wait"]


def test_what_could_not_be_sent_can_be_used_again_and_the_rest_is_as_on_record() -> None:
    told, sheet = make_transcript_state()
    conversation = Conversation([ChatMessage.user("Go."), ChatMessage.assistant("Gone.")])
    told.load(conversation.entries())
    words = PromptInput("What is @shot.png?")
    told.pending_input.add(words, steers=False)
    image = Image(source=ImageFile("shot.png"))
    message = UserMessage((Text("What is @shot.png?"), image))
    said = conversation.append(message)
    assert said.parent is not None
    told.apply(EntryRecorded(said))
    failed = Resolution(target=said.id, block=1, status=ResolutionStatus.FAILED, error="no image")
    told.apply(EntryRecorded(conversation.append(failed)))
    told.apply(EntryRecorded(conversation.rewind(said.parent)))
    assert sheet.seen() == read_back(conversation).seen()
    (unsent,) = [one for one in sheet.of(ItemKind.USER) if one.state is CallState.STOPPED]
    assert (unsent.body, "/retry" in unsent.head) == ("What is @shot.png?", True)
    assert "no image" in sheet.of(ItemKind.ERROR)[0].body
    told.apply(EntryRecorded(conversation.append(message)))
    assert unsent not in sheet.blocks
    assert sheet.seen() == read_back(conversation).seen()
    told.apply(EntryRecorded(conversation.append(ChatMessage.assistant("A cat."))))
    assert sheet.seen() == read_back(conversation).seen()


def unsent(words: PromptInput, told: TranscriptState, conversation: Conversation) -> UserMessage:
    """Say something that cannot be sent, and return what is on record of it."""
    told.pending_input.add(words, steers=False)
    message = UserMessage((Text(words.text), FileReference(path="nosuch.txt")))
    said = conversation.append(message)
    assert said.parent is not None
    told.apply(EntryRecorded(said))
    told.apply(EntryRecorded(conversation.rewind(said.parent)))
    return message


def heads(sheet: ItemRecorder) -> dict[str, str]:
    """Return what is said of each thing that was not said."""
    return {one.body: one.head for one in sheet.of(ItemKind.USER) if one.state is CallState.STOPPED}


def test_words_typed_while_something_is_tried_again_wait_until_they_are_heard_themselves() -> None:
    told, sheet = make_transcript_state()
    conversation = Conversation([ChatMessage.user("Go."), ChatMessage.assistant("Gone.")])
    told.load(conversation.entries())
    message = unsent(PromptInput("@nosuch.txt what"), told, conversation)
    told.pending_input.add(PromptInput("and be brief"), steers=True)
    told.apply(EntryRecorded(conversation.append(message)))
    assert heads(sheet) == {}
    assert [one.body for one in sheet.of(ItemKind.USER) if one.state is CallState.WAITING] == [
        "and be brief"
    ]
    told.apply(EntryRecorded(conversation.append(ChatMessage.user("and be brief"))))
    assert sheet.seen() == read_back(conversation).seen()
    assert all(one.entry is not None for one in sheet.of(ItemKind.USER))


def test_what_is_tried_again_is_known_also_where_its_words_are_not_shown_any_more() -> None:
    told, sheet = make_transcript_state()
    conversation = Conversation([ChatMessage.user("Go."), ChatMessage.assistant("Gone.")])
    told.load(conversation.entries())
    words = PromptInput("@nosuch.txt what")
    message = unsent(words, told, conversation)
    told.apply(InputReturned((words,)))  # to the prompt, where somebody clears it
    waiting = told.pending_input.add(PromptInput("and be brief"), steers=True)
    told.apply(EntryRecorded(conversation.append(message)))
    assert waiting in sheet.blocks


def test_what_could_not_be_sent_and_is_typed_again_is_not_shown_twice() -> None:
    told, sheet = make_transcript_state()
    conversation = Conversation([ChatMessage.user("Go."), ChatMessage.assistant("Gone.")])
    told.load(conversation.entries())
    words = PromptInput("@nosuch.txt what")
    message = unsent(words, told, conversation)
    told.pending_input.add(words, steers=False)
    told.apply(EntryRecorded(conversation.append(message)))
    assert [one.entry is None for one in sheet.of(ItemKind.USER)] == [False, False]


def test_only_what_would_be_tried_again_says_so() -> None:
    told, sheet = make_transcript_state()
    conversation = Conversation([ChatMessage.user("Go."), ChatMessage.assistant("Gone.")])
    told.load(conversation.entries())
    unsent(PromptInput("first"), told, conversation)
    assert "/retry" in heads(sheet)["first"]
    unsent(PromptInput("second"), told, conversation)
    assert {body: "/retry" in head for body, head in heads(sheet).items()} == {
        "first": False,
        "second": True,
    }
    told.pending_input.add(PromptInput("third"), steers=False)
    told.apply(EntryRecorded(conversation.append(ChatMessage.user("third"))))
    assert [head.partition(" ·")[0] for head in heads(sheet).values()] == ["not said", "not said"]


def test_what_could_not_be_sent_in_one_session_is_not_tried_again_in_another() -> None:
    told, sheet = make_transcript_state()
    conversation = Conversation([ChatMessage.user("Go."), ChatMessage.assistant("Gone.")])
    told.load(conversation.entries())
    unsent(PromptInput("first"), told, conversation)
    told.load(())
    assert heads(sheet)["first"].startswith("not said")
