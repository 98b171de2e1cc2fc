"""Images: large ones are stored apart from the records, and are read back unchanged."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from steno import ChatMessage, Image, ImageBlob, ImageData, Request, Text, UserMessage
from steno.codec import encode_record
from steno.errors import Missing
from steno.store import open_store
from steno.wire import openai_chat

LARGE = bytes(range(256)) * 128


def image(data: bytes) -> Image:
    return Image(source=ImageData(data), mime_type="image/png")


@pytest.mark.requirement("S4-18")
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_a_large_image_is_stored_as_a_blob(kind: str, tmp_path: Path) -> None:
    message = ChatMessage.user([Text("Look:"), image(LARGE), image(b"small")])
    with open_store(f"{kind}:{tmp_path / 'store'}") as store:
        conversation = store.new([message])
        assert conversation.messages() == (message,)
        kept = conversation.entries()[0].payload
        assert isinstance(kept, UserMessage)
        sources = [block.source for block in kept.content if isinstance(block, Image)]
        assert [type(source) for source in sources] == [ImageBlob, ImageData]
        [record] = store.records(conversation.id)
        assert len(encode_record(record)) < 1_000
        assert store.restore_blobs(kept) == message
        assert store.open(conversation.id).messages() == (message,)
        sent = openai_chat.encode_request(Request(model="m", messages=conversation.messages()))
        assert sent.losses == ()


@pytest.mark.requirement("S4-18")
def test_an_image_is_removed_when_no_record_refers_to_it() -> None:
    with open_store("memory:") as store:
        conversation = store.new([ChatMessage.user([image(LARGE)])])
        kept = conversation.entries()[0].payload
        assert isinstance(kept, UserMessage)
        assert store.collect_garbage(older_than=timedelta(0)) == 0
        store.remove(conversation.id)
        assert store.collect_garbage() == 0, "a writer may be about to refer to it"
        assert store.collect_garbage(older_than=timedelta(0)) == len(LARGE)
        with pytest.raises(Missing):
            store.restore_blobs(kept)


def test_a_message_whose_image_is_missing_can_be_read() -> None:
    with open_store("memory:") as store:
        conversation = store.new([ChatMessage.user([Text("Look:"), image(LARGE)])])
        [blob] = store.blobs()
        store.remove_blob(blob.sha256)
        [message] = conversation.messages()
        assert message == conversation.entries()[0].payload
        bad = store.verify(conversation.id).bad
        assert bad is not None
        assert bad.seq == 1


def test_a_redaction_removes_the_image_of_the_entry() -> None:
    with open_store("memory:") as store:
        conversation = store.new([ChatMessage.user([image(LARGE)])])
        store.redact(conversation.id, conversation.entries()[0].id, actor="ada", reason="a face")
        assert list(store.blobs()) == []
        assert store.verify(conversation.id).is_intact
