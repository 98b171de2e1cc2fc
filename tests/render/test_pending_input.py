"""What the person has said and is not on record: it is seen, in its order, and never lost."""

from __future__ import annotations

import pytest

from steno import ChatMessage, Conversation
from steno.agent import EntryRecorded, PromptInput, RunEnded
from steno.agent.events import EndReason, RunResult
from steno.agent.session_events import InputReturned
from steno.errors import Unresolved
from steno.messages.content import FileReference, Image, ImageFile, Text
from steno.messages.message import UserMessage
from steno.messages.usage import Usage
from steno.records.entry import Resolution, ResolutionStatus
from steno.render.items import CallState, ItemHint, ItemKind
from steno.render.live_items import LiveItems
from tests.render.item_recorder import ItemRecorder, make_live_items, read_back

pytestmark = pytest.mark.requirement("S4-15")


def test_a_queued_prompt_is_shown_until_it_is_sent() -> None:
    state, recorder = make_live_items()
    conversation = Conversation([ChatMessage.user("Go.")])
    state.load(conversation.entries())
    state.pending_input.add(PromptInput("stop that"), is_steering=True)
    (queued,) = [item for item in recorder.blocks if item.state is CallState.WAITING]
    assert queued.body == "stop that"
    conversation.append(ChatMessage.assistant("Done."))
    entry = conversation.append(ChatMessage.user("stop that"))
    state.apply(EntryRecorded(entry))
    assert [item.body for item in recorder.of(ItemKind.USER)] == ["Go.", "stop that"]
    assert not [item for item in recorder.blocks if item.state is CallState.WAITING]


def test_recorded_messages_replace_pending_prompts_in_order() -> None:
    state, recorder = make_live_items()
    conversation = Conversation()
    state.pending_input.add(PromptInput("/docs:greet Ann"), is_steering=False)
    state.pending_input.add(PromptInput("and be brief"), is_steering=True)
    state.apply(
        EntryRecorded(conversation.append(ChatMessage.user("$ ls\n"), audit={"shell": "ls"}))
    )
    assert [one.body for one in recorder.of(ItemKind.USER)] == ["/docs:greet Ann", "and be brief"]
    state.apply(EntryRecorded(conversation.append(ChatMessage.user("Say hello to Ann."))))
    assert [one.body for one in recorder.of(ItemKind.USER)] == ["and be brief", "Say hello to Ann."]
    conversation.append(ChatMessage.assistant("Hello."))
    state.apply(EntryRecorded(conversation.append(ChatMessage.user("and be brief"))))
    assert [one.state for one in recorder.of(ItemKind.USER)] == [None, None]


def test_a_returned_prompt_removes_its_own_item() -> None:
    state, recorder = make_live_items()
    first, second, third = [
        state.pending_input.add(PromptInput(text), is_steering=True)
        for text in ("first", "second", "third")
    ]
    state.pending_input.accept(first)
    state.pending_input.accept(second)
    state.apply(InputReturned((PromptInput("second"),)))
    assert recorder.blocks == [first, third]
    state.pending_input.reject(third)
    assert state.pending_input.abandon() == [PromptInput("first")]
    assert recorder.blocks == []


def test_a_returned_prompt_is_shown_in_the_session_it_returned_to() -> None:
    state, recorder = make_live_items()
    conversation = Conversation([ChatMessage.user("Go."), ChatMessage.assistant("Gone.")])
    state.load(conversation.entries())
    prompt = PromptInput("@nosuch.txt what")
    state.pending_input.add(prompt, is_steering=False)
    entry = conversation.append(UserMessage((Text(prompt.text), FileReference(path="nosuch.txt"))))
    assert entry.parent is not None
    state.apply(EntryRecorded(entry))
    failed = Resolution(target=entry.id, block=1, status=ResolutionStatus.FAILED, error="not there")
    state.apply(EntryRecorded(conversation.append(failed)))
    state.apply(EntryRecorded(conversation.rewind(entry.parent)))
    result = RunResult(EndReason.FAILED, None, 0, Usage(), error=Unresolved("nothing was sent: x"))
    state.apply(RunEnded(result))
    state.apply(InputReturned((prompt,)))
    assert [one.body for one in recorder.of(ItemKind.USER)] == ["Go."]
    assert [one.body for one in recorder.of(ItemKind.ERROR)] == [
        "nothing was sent: file nosuch.txt: failed: not there"
    ]
    assert not recorder.of(ItemKind.MARKER)
    state.pending_input.show_returned(prompt)  # somebody types something else there
    assert recorder.blocks[-1].hint is ItemHint.RETRY_OR_EDIT


def test_unrecorded_items_stay_after_a_reload() -> None:
    state, recorder = make_live_items()
    state.pending_input.show_returned(PromptInput("not now", (b"png",)))
    state.pending_input.add(PromptInput("wait"), is_steering=False)
    state.load(Conversation([ChatMessage.user("Go.")]).entries())
    assert [one.body for one in recorder.blocks] == ["Go.", "not now", "wait"]
    assert state.pending_input.take_back(recorder.blocks[0]) is None
    assert state.pending_input.take_back(recorder.blocks[1]) == PromptInput("not now", (b"png",))
    assert [one.body for one in recorder.blocks] == ["Go.", "wait"]


def test_an_unsent_prompt_can_be_reused_and_the_transcript_matches_the_log() -> None:
    state, recorder = make_live_items()
    conversation = Conversation([ChatMessage.user("Go."), ChatMessage.assistant("Gone.")])
    state.load(conversation.entries())
    prompt = PromptInput("What is @shot.png?")
    state.pending_input.add(prompt, is_steering=False)
    image = Image(source=ImageFile("shot.png"))
    message = UserMessage((Text("What is @shot.png?"), image))
    entry = conversation.append(message)
    assert entry.parent is not None
    state.apply(EntryRecorded(entry))
    failed = Resolution(target=entry.id, block=1, status=ResolutionStatus.FAILED, error="no image")
    state.apply(EntryRecorded(conversation.append(failed)))
    state.apply(EntryRecorded(conversation.rewind(entry.parent)))
    assert recorder.seen() == read_back(conversation).seen()
    (unsent,) = [one for one in recorder.of(ItemKind.USER) if one.state is CallState.STOPPED]
    assert (unsent.body, unsent.hint) == ("What is @shot.png?", ItemHint.RETRY_OR_EDIT)
    assert "no image" in recorder.of(ItemKind.ERROR)[0].body
    state.apply(EntryRecorded(conversation.append(message)))
    assert unsent not in recorder.blocks
    assert recorder.seen() == read_back(conversation).seen()
    state.apply(EntryRecorded(conversation.append(ChatMessage.assistant("A cat."))))
    assert recorder.seen() == read_back(conversation).seen()


def unsent(prompt: PromptInput, state: LiveItems, conversation: Conversation) -> UserMessage:
    """Say something that cannot be sent, and return what is on record of it."""
    state.pending_input.add(prompt, is_steering=False)
    message = UserMessage((Text(prompt.text), FileReference(path="nosuch.txt")))
    entry = conversation.append(message)
    assert entry.parent is not None
    state.apply(EntryRecorded(entry))
    state.apply(EntryRecorded(conversation.rewind(entry.parent)))
    return message


def hints(recorder: ItemRecorder) -> dict[str, ItemHint | None]:
    """Return the hints of prompts that were not sent, by text."""
    return {
        one.body: one.hint for one in recorder.of(ItemKind.USER) if one.state is CallState.STOPPED
    }


def test_prompts_typed_during_a_retry_wait_until_they_are_sent() -> None:
    state, recorder = make_live_items()
    conversation = Conversation([ChatMessage.user("Go."), ChatMessage.assistant("Gone.")])
    state.load(conversation.entries())
    message = unsent(PromptInput("@nosuch.txt what"), state, conversation)
    state.pending_input.add(PromptInput("and be brief"), is_steering=True)
    state.apply(EntryRecorded(conversation.append(message)))
    assert hints(recorder) == {}
    assert [one.body for one in recorder.of(ItemKind.USER) if one.state is CallState.WAITING] == [
        "and be brief"
    ]
    state.apply(EntryRecorded(conversation.append(ChatMessage.user("and be brief"))))
    assert recorder.seen() == read_back(conversation).seen()
    assert all(one.entry is not None for one in recorder.of(ItemKind.USER))


def test_a_retried_prompt_is_recognised_even_if_it_is_no_longer_shown() -> None:
    state, recorder = make_live_items()
    conversation = Conversation([ChatMessage.user("Go."), ChatMessage.assistant("Gone.")])
    state.load(conversation.entries())
    prompt = PromptInput("@nosuch.txt what")
    message = unsent(prompt, state, conversation)
    state.apply(InputReturned((prompt,)))  # to the prompt, where somebody clears it
    waiting = state.pending_input.add(PromptInput("and be brief"), is_steering=True)
    state.apply(EntryRecorded(conversation.append(message)))
    assert waiting in recorder.blocks


def test_an_unsent_prompt_that_is_typed_again_is_not_shown_twice() -> None:
    state, recorder = make_live_items()
    conversation = Conversation([ChatMessage.user("Go."), ChatMessage.assistant("Gone.")])
    state.load(conversation.entries())
    prompt = PromptInput("@nosuch.txt what")
    message = unsent(prompt, state, conversation)
    state.pending_input.add(prompt, is_steering=False)
    state.apply(EntryRecorded(conversation.append(message)))
    assert [one.entry is None for one in recorder.of(ItemKind.USER)] == [False, False]


def test_only_what_would_be_tried_again_says_so() -> None:
    state, recorder = make_live_items()
    conversation = Conversation([ChatMessage.user("Go."), ChatMessage.assistant("Gone.")])
    state.load(conversation.entries())
    unsent(PromptInput("first"), state, conversation)
    assert hints(recorder) == {"first": ItemHint.RETRY_OR_EDIT}
    unsent(PromptInput("second"), state, conversation)
    assert hints(recorder) == {"first": ItemHint.EDIT, "second": ItemHint.RETRY_OR_EDIT}
    state.pending_input.add(PromptInput("third"), is_steering=False)
    state.apply(EntryRecorded(conversation.append(ChatMessage.user("third"))))
    assert set(hints(recorder).values()) == {ItemHint.EDIT}


def test_an_unsent_prompt_is_not_retried_in_another_session() -> None:
    state, recorder = make_live_items()
    conversation = Conversation([ChatMessage.user("Go."), ChatMessage.assistant("Gone.")])
    state.load(conversation.entries())
    unsent(PromptInput("first"), state, conversation)
    state.load(())
    assert hints(recorder) == {"first": ItemHint.EDIT}
