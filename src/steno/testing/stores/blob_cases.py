"""Cases about blobs: bytes that a store keeps apart from the records, under their digest."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Final

from steno.codec import encode_record
from steno.errors import LogError, Missing
from steno.ids import new_id, utc_now
from steno.messages.call import ToolCall
from steno.messages.content import (
    Image,
    ImageBlob,
    ImageData,
    Text,
)
from steno.messages.message import ChatMessage, ToolResult, UserMessage
from steno.records.stored_record import MAIN_BRANCH
from steno.store import MemoryStore, Store, convert_store
from steno.testing.stores.sample_session import (
    CaseFailure,
    expect,
    expect_intact,
    expect_raises,
    new_sample_session,
    require,
)
from steno.testing.stores.store_harness import StoreHarness

_HOSTILE_BLOB_NAMES: Final = (
    *("", ".", "..", "../" * 20 + "etc/passwd", "/etc/passwd", "a/b", "\0", "a\0", "~", "*", "%"),
    *(
        "0" * 63,
        "0" * 65,
        "G" * 64,
        "A" * 64,
        "0" * 63 + "/",
        "0" * 64 + "\n",
        "' or 1=1 --",
        "日" * 64,
    ),
)
_ANY_AGE: Final = timedelta(0)


def blob_round_trip(harness: StoreHarness) -> None:
    """Bytes are read back under their SHA-256, however often they are stored."""
    pieces = [b"", b"\0", _new_bytes(100), _new_bytes(3_000_000)]
    with harness.open() as store:
        for data in pieces:
            digest = sha256(data).hexdigest()
            expect(store.put_blob(data), digest, "what a blob is kept under")
            expect(store.put_blob(data), digest, "the same blob once more")
    with harness.open() as store:
        known = {blob.sha256: blob for blob in store.blobs()}
        for data in pieces:
            digest = sha256(data).hexdigest()
            require(store.blob(digest) == data, "a blob must come back as it was")
            found = known.get(digest)
            require(found is not None, "every blob must be listed")
            assert found is not None
            expect(found.size, len(data), "the size of a blob")
            age = utc_now() - found.stored_at
            require(abs(age) < timedelta(hours=12), "a blob must know when it was stored, in UTC")
        expect(len(list(store.blobs())), len(known), "blobs that are listed, each once")
        digest = sha256(pieces[2]).hexdigest()
        store.remove_blob(digest, put_before=utc_now() - timedelta(hours=24))
        require(store.blob(digest) == pieces[2], "a blob that was put since must stay")
        store.remove_blob(digest)
        store.remove_blob(digest)
        expect_raises(Missing, "a blob that was removed", lambda: store.blob(digest))


def missing_blob(harness: StoreHarness) -> None:
    """Reading a missing blob raises Missing; removing it does nothing."""
    with harness.open() as store:
        digest = sha256(new_id().encode()).hexdigest()
        expect_raises(Missing, "a blob that was never put", lambda: store.blob(digest))
        store.remove_blob(digest)
        expect_raises(Missing, "a blob that was removed", lambda: store.blob(digest))


def hostile_blob_names(harness: StoreHarness) -> None:
    """A name that is no digest is Missing, and removing it removes nothing."""
    with harness.open() as store:
        data = _new_bytes(40)
        digest = store.put_blob(data)
        for name in (*_HOSTILE_BLOB_NAMES, digest.upper(), digest + " ", digest[:-1]):
            expect_raises(Missing, "a name that is no digest", partial(store.blob, name))
            try:
                store.remove_blob(name)
            except LogError:
                continue
            except Exception as exc:
                kind = type(exc).__name__
                raise CaseFailure(
                    f"removing what is no digest: expected nothing, got {kind}"
                ) from exc
        require(store.blob(digest) == data, "removing what is no digest must remove nothing")


def images_lie_beside(harness: StoreHarness) -> None:
    """Large images are stored as blobs, small ones in the record, and both are read back."""
    large, small = _new_bytes(40_000), _new_bytes(400)
    message = ChatMessage.user([Text("Look:"), _image(large), _image(small)])
    with harness.open() as store:
        conversation = new_sample_session(store)
        conversation.append(message)
    with harness.open() as store, MemoryStore() as memory:
        reopened = store.open(conversation.id)
        found = reopened.entries()[-1].payload
        assert isinstance(found, UserMessage)
        digest = sha256(large).hexdigest()
        blob = ImageBlob(sha256=digest, size=len(large))
        reference = Image(source=blob, mime_type="image/png")
        expect(found.content, (Text("Look:"), reference, _image(small)), "what the record holds")
        require(store.blob(digest) == large, "the image must lie in a blob")
        expect(store.restore_blobs(found), message, "the message with its images brought back")
        expect(reopened.messages()[-1], message, "the message as it is sent")
        expect_intact(store, conversation.id, entries=6)
        convert_store(store, memory, [conversation.id])
        require(memory.blob(digest) == large, "a blob must go to another store with its session")


def results_lie_beside(harness: StoreHarness) -> None:
    """A very long result is stored as a blob, named by the record, and complete when it is sent."""
    text = "a long line of output\n" * 20_000
    call = ToolCall(id="call", name="run")
    with harness.open() as store:
        conversation = new_sample_session(store)
        conversation.append(ChatMessage.assistant(None, [call]))
        conversation.append(ToolResult.success("call", text))
        expect(conversation.messages()[-1].text, text, "the result as it is sent")
    with harness.open() as store:
        [*_, record] = store.records(conversation.id)
        require(len(encode_record(record)) < 2_000, "a record must not hold a very long result")
        store.collect_garbage(older_than=timedelta(0))
        expect(store.open(conversation.id).messages()[-1].text, text, "the result, opened again")
        expect_intact(store, conversation.id, entries=7)
        store.remove_blob(sha256(text.encode()).hexdigest())
        require(not store.verify(conversation.id).is_intact, "verify must miss what lies beside")
        found = store.open(conversation.id).messages()[-1]
        expect(found.tool_call_id, "call", "the result of which the rest is gone")


def garbage_collection(harness: StoreHarness) -> None:
    """Blobs that no record names are removed once they are old enough; all others stay."""
    with harness.open() as store:
        named, nameless = _new_bytes(40_000), _new_bytes(70)
        conversation = new_sample_session(store)
        conversation.append(ChatMessage.user([_image(named)]), branch=MAIN_BRANCH)
        lost = store.put_blob(nameless)
        store.collect_garbage()
        require(store.blob(lost) == nameless, "a blob of this hour must stay")
        size = store.collect_garbage(older_than=_ANY_AGE)
        require(size >= len(nameless), "it must return how many bytes were removed")
        expect_raises(Missing, "a blob that no record names", lambda: store.blob(lost))
        kept_digest = sha256(named).hexdigest()
        require(store.blob(kept_digest) == named, "a blob that a record names must stay")
        _redact_last(store, conversation.id)
        store.collect_garbage(older_than=_ANY_AGE)
        expect_raises(Missing, "a blob whose entry was redacted", lambda: store.blob(kept_digest))


def _new_bytes(size: int) -> bytes:
    """Return bytes that no store has yet."""
    return (new_id().encode() + bytes(range(256)) * (size // 256 + 1))[:size]


def _image(data: bytes) -> Image:
    return Image(source=ImageData(data), mime_type="image/png")


def _redact_last(store: Store, session: str) -> None:
    last = store.open(session).entries()[-1]
    store.redact(session, last.id, actor="kit", reason="it is gone")
