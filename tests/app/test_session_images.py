"""The images of a session, found by the entry and the block that they are at."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno.app.session import SessionImages
from steno.log.blobs import MIN_IMAGE_BLOB_BYTES
from steno.log.conversation import Conversation
from steno.messages.content import Image, ImageData, ImageFile, Text
from steno.messages.message import ChatMessage, UserMessage
from steno.records.entry import Entry, Resolution, ResolutionStatus
from steno.store import MemoryStore, open_store

RED, GREEN = bytes([1]) * MIN_IMAGE_BLOB_BYTES, b"green"


def resolved(conversation: Conversation, entry: Entry, data: bytes | None) -> None:
    content = (
        (Text("no image"),)
        if data is None
        else (Text("see"), Image(source=ImageData(data), mime_type="image/png"))
    )
    conversation.append(
        Resolution(target=entry.id, block=1, status=ResolutionStatus.RESOLVED, content=content)
    )


def found_by(
    pictures: SessionImages, conversation: Conversation, entry: str, block: int
) -> bytes | None:
    read = pictures.find(conversation, entry, block)
    return None if read is None else read()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def conversation(store: MemoryStore) -> Conversation:
    return store.new([ChatMessage.system("x")])


def test_an_image_is_found_in_the_message_or_beside_it(
    store: MemoryStore, conversation: Conversation
) -> None:
    entry = conversation.append(
        UserMessage(
            (
                Image(source=ImageData(GREEN), mime_type="image/png"),
                Image(source=ImageData(RED), mime_type="image/png"),
            )
        )
    )
    pictures = SessionImages(store.blob)
    assert [found_by(pictures, conversation, entry.id, number) for number in range(3)] == [
        GREEN,
        RED,
        None,
    ]


def test_a_reference_has_its_latest_content_on_the_branch(
    store: MemoryStore, conversation: Conversation
) -> None:
    entry = conversation.append(UserMessage((Text("@a.png"), Image(source=ImageFile("a.png")))))
    pictures = SessionImages(store.blob)

    def found() -> bytes | None:
        return found_by(pictures, conversation, entry.id, 1)

    assert found() is None
    for data in (RED, GREEN):
        resolved(conversation, entry, data)
        assert found() == data
    conversation.fork("aside", at=conversation.entries()[2].id)
    resolved(conversation, entry, None)
    assert found() is None
    conversation.switch("aside")
    assert found() == RED
    conversation.rewind(entry.id)
    assert found() is None


def test_images_are_looked_up_without_reading_entries_twice(
    store: MemoryStore, conversation: Conversation
) -> None:
    entry = conversation.append(UserMessage((Text("@a.png"), Image(source=ImageFile("a.png")))))
    resolved(conversation, entry, GREEN)
    pictures = SessionImages(store.blob)
    found_by(pictures, conversation, entry.id, 1)
    read = pictures._read_position
    conversation.append(ChatMessage.user("more"))
    assert found_by(pictures, conversation, entry.id, 1) == GREEN
    assert pictures._read_position[0] == read[0] + 1


def test_an_image_in_a_store_that_fails_is_not_at_hand(tmp_path: Path) -> None:
    with open_store(f"sqlite:{tmp_path / 'log.db'}") as store:
        conversation = store.new([ChatMessage.system("x")])
        image = Image(source=ImageData(RED), mime_type="image/png")
        entry = conversation.append(UserMessage((image,)))
        conversation = store.open(conversation.id)
        pictures = SessionImages(store.blob)
        assert found_by(pictures, conversation, entry.id, 0) == RED
    assert found_by(pictures, conversation, entry.id, 0) is None
