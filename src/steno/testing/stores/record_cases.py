"""Cases about records and blobs: content, unusual text and ids, verification, redaction, search.

A store preserves every entry unchanged, including the parts that this version of steno does not
know. Blobs are bytes that a store keeps separately from the records, under their SHA-256 digest.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from typing import Final

from msgspec.structs import replace

from steno.codec import decode_header, decode_record, encode_record
from steno.errors import InvalidValue, Missing
from steno.formats import build_records
from steno.ids import new_id, utc_now
from steno.log.chain import entry_digest
from steno.messages.call import InvalidToolCall, ToolCall
from steno.messages.content import (
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    Opaque,
    Resource,
    Text,
    Thinking,
)
from steno.messages.message import AssistantMessage, ChatMessage, ToolResult, UserMessage
from steno.messages.outcome import Failure, Outcome
from steno.messages.usage import StopReason, Usage
from steno.records.entry import (
    Approval,
    ApprovalStatus,
    Clear,
    Compaction,
    Entry,
    Feedback,
    GrantRevoked,
    ImageAnalysis,
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
)
from steno.records.stored_record import MAIN_BRANCH
from steno.store import MemoryStore, convert_store
from steno.testing.case_results import expect, require
from steno.testing.stores.store_harness import (
    SAMPLE_MESSAGES,
    START_TIME,
    StoreHarness,
    allow_log_error,
    chain_records,
    expect_intact,
    expect_raises,
    expect_stored,
    new_header,
    new_sample_session,
    read_session,
)

_ODD_TEXTS: Final = (
    *("NUL \0 inside", "\u2028 and \u2029", "\x85", "\ufeffBOM", "\r\n\n", "\x1b[31m", "\x7f"),
    *("\U0001f600\U0010ffff", "e\u0301", "\u202e", "\\u0000", "\\", '"', "'", "%s", "{}"),
    *("\u0000", "</script>", "$1", "NULL", "\ufffd", "\ufffe"),
)
_SEARCHED_TEXTS: Final = (
    "alpha beta|Alpha BETA gamma|alphabet|beta, alpha!|read_file alpha|Straße|STRASSE|日本語 alpha"
    '|naïve café|cafe\u0301|don\'t|x y\0z|_|"alpha beta"|alpha AND beta|alpha\u2028beta|a*b'
    "|NEAR(alpha, beta)|ΣΊΣΥΦΟΣ|ﬁne|İstanbul|100% sure|c++ -alpha|\U00020000|12.50"
)
_SEARCH_QUERIES: Final = (
    'alpha|ALPHA beta|beta alpha|alph|alpha -beta|"alpha beta"|read file|read_file|strasse|STRAẞE'
    "|日本|語|cafe|café|naive|don't|don t|near(alpha|alpha*|a*|alpha OR beta|NOT alpha|z|100%|%|_"
    "|y z|σίσυφος|fine|istanbul|c++|alpha:|^alpha|\U00020000|50|12.5|gamma|run_tests|path|here"
    "|longer|nothing_like_it"
)
_HOSTILE_BLOB_NAMES: Final = (
    *("", ".", "..", "../" * 20 + "etc/passwd", "/etc/passwd", "a/b", "\0", "a\0", "~", "*", "%"),
    *("0" * 63, "0" * 65, "G" * 64, "A" * 64, "0" * 63 + "/", "0" * 64 + "\n", "日" * 64),
    "' or 1=1 --",
)
_ANY_AGE: Final = timedelta(0)
_LARGE_TEXT_CHARACTERS: Final = 5_000_000


# -- content -----------------------------------------------------------------------------------


def every_payload(harness: StoreHarness) -> None:
    """Check that payloads of many kinds are read back unchanged, with decision and audit data."""
    with harness.open() as store:
        conversation = store.new()
        target = conversation.append(ChatMessage.user("Read a.py."))
        for payload in _sample_payloads(target.id):
            conversation.append(payload, decision="as it is", audit={"by": "kit", "n": 1.50})
        entries = conversation.entries()
        before = read_session(store, conversation.id)
    with harness.open() as store:
        expect_stored(store, conversation.id, before, "after reopening")
        found = store.open(conversation.id).entries()
        for entry, expected in zip(found, entries, strict=True):
            expect(entry, expected, f"an entry with {type(expected.payload).__name__}")
        expect_intact(store, conversation.id, entries=len(entries))


def _sample_payloads(target: str) -> tuple[Payload, ...]:
    """Return payloads of many kinds; those that refer to an entry refer to `target`."""
    return (
        ModeChange(old=Mode.PLAN, new=Mode.ACT),
        ModelChange(old="", new="model-2"),
        Label(target=target, text="here"),
        Compaction(through=target, summary="a summary"),
        Clear(),
        Approval(call_id="c1", status=ApprovalStatus.PENDING, arguments_sha256="0" * 64),
        Resolution(
            target=target, block=0, status=ResolutionStatus.RESOLVED, content=(Text("found"),)
        ),
        ImageAnalysis(target=target, block=0, answer=target),
        Feedback(target=target, text="better"),
        Repair(code="call_unanswered", explanation="answered"),
        GrantRevoked(grant="bash(ls)", target=target),
        Opaque(kind="hologram", raw='{"type":"hologram","n":1.50}', origin="steno"),
        UserMessage((FileReference(path="a.py", start_line=1), Resource(server="s", uri="u:1"))),
        AssistantMessage(
            content=(Thinking("hm"), InvalidToolCall(id="c1", arguments="{", reason="cut")),
            stop_reason=StopReason.TOOL_USE,
            raw_stop_reason="tool_calls",
            usage=Usage(input_tokens=1, output_tokens=2),
        ),
        ChatMessage.tool_result(
            "c1", "no", outcome=Outcome.ERROR, failure=Failure(message="no"), duration_s=0.25
        ),
    )


def unknown_entry_kept(harness: StoreHarness) -> None:
    """Check that unknown members and entries of a newer steno are preserved byte for byte."""
    header = decode_header(f'{{"v":2,"id":"{new_id()}","later":[1.50]}}')
    lines = tuple(_newer_version_lines())
    with harness.open() as store, MemoryStore() as memory:
        store.add_session(header, map(decode_record, lines))
        before = read_session(store, header.id)
        for number, (found, wanted) in enumerate(zip(before.records, lines, strict=True), 1):
            require(found == wanted, f"record {number} differs from the record that was added")
        convert_store(store, memory, [header.id])
        store.remove(header.id)
        convert_store(memory, store, [header.id])
    with harness.open() as store:
        expect_stored(store, header.id, before, "after copying to another store and back")
        expect(store.verify(header.id).foreign, 1, "entries of a newer version")
        conversation = store.open(header.id)
        conversation.append(ChatMessage.user("Continue."))
        is_same = read_session(store, header.id).records[:-1] == lines
        require(is_same, "records of a newer steno must not change when a session continues")
        expect(len(conversation.messages()), 2, "messages that this version understands")


def _newer_version_lines() -> Iterator[bytes]:
    """Yield records as a newer version of steno may write them, with valid digests."""
    first, second, third = new_id(), new_id(), new_id()
    block = '{"type":"text","text":"\\u0041\u2028","glow":1.50}'
    known = (
        f'{{"v":2,"id":"{first}","time":"2024-05-17T06:30:00Z","payload":{{"type":"user",'
        f'"content":[{block},{{"type":"hologram","size":1e400}}],"tone":{{"b":[ ]}}}},'
        '"audit":{"by":"kit"},"seen":"\\ud83d\\ude00"}'
    )
    newer = f'{{"v":4,"parent":"{first}","id":"{second}","what":{{"is":"this"}} , "n":-0.0}}'
    call = (
        f'{{"v":2,"id":"{third}","parent":"{second}","payload":{{"type":"telepathy","x":[1,2]}}}}'
    )
    digest: str | None = None
    for seq, text in enumerate((known, newer, call), 1):
        draft = f'{{"seq":{seq},"branch":"main","entry":{text},"digest":"{"0" * 64}","ink":0.10}}'
        entry = decode_record(draft).entry
        assert entry is not None
        digest = entry_digest(entry, digest)
        # The encoder may reorder the members, but does not change the text of their values.
        yield encode_record(decode_record(draft.replace("0" * 64, digest)))


# -- text and ids ------------------------------------------------------------------------------


def odd_text(harness: StoreHarness) -> None:
    """Check that text that UTF-8 can encode is read back unchanged, and other text is rejected."""
    with harness.open() as store:
        conversation = new_sample_session(store)
        for text in _ODD_TEXTS:
            conversation.append(ChatMessage.user(f"<{text}>"), decision=text, audit={text: text})
        before = read_session(store, conversation.id)
        with expect_raises(InvalidValue, "a lone surrogate"):
            conversation.append(ChatMessage.user("fine"), decision="\ud800")
        expect_stored(store, conversation.id, before, "after a lone surrogate was rejected")
    with harness.open() as store:
        found = store.open(conversation.id).entries()[len(SAMPLE_MESSAGES) :]
        for entry, text in zip(found, _ODD_TEXTS, strict=True):
            expect(entry.message, ChatMessage.user(f"<{text}>"), f"a message with {text!r}")
            expect(
                (entry.decision, entry.audit), (text, {text: text}), f"decision and audit {text!r}"
            )
        expect_intact(store, conversation.id)


def large_text(harness: StoreHarness) -> None:
    """Check that a text of five million characters is read back unchanged."""
    text = "0123456789\u2028 ä\U0001f600 line\n" * (_LARGE_TEXT_CHARACTERS // 20)
    with harness.open() as store:
        conversation = new_sample_session(store)
        conversation.append(ChatMessage.user(text))
        conversation.append(ChatMessage.assistant("Long."))
    with harness.open() as store:
        found = store.open(conversation.id).messages()
        require(found[-2] == ChatMessage.user(text), "a large text must be read back unchanged")
        expect_intact(store, conversation.id, entries=7)


def odd_ids(harness: StoreHarness) -> None:
    """Check that imported entries may have any id and need no time."""
    ids = ("a", "A", "a ", "1", "日本", "'", "\u2028", "../a", "long" * 500, "%")
    header = new_header()
    records = build_records(Entry(id=id, payload=ChatMessage.user(f"entry {id}")) for id in ids)
    with harness.open() as store:
        store.add_session(header, records)
        expect(tuple(store.records(header.id)), records, "records")
        found = store.open(header.id)
        expect([entry.id for entry in found.entries()], list(ids), "ids in order")
        for id in ids:
            expect(next(store.read_back(header.id, id))[0].id, id, "the id of an entry, read back")


# -- numbers and copies ------------------------------------------------------------------------


def records_are_numbered(harness: StoreHarness) -> None:
    """Check that entries and branch starts share one numbering, from 1 and without gaps."""
    with harness.open() as store:
        header = new_header()
        store.add_session(header, chain_records(SAMPLE_MESSAGES))
        conversation = store.open(header.id)
        conversation.fork("idea")
        conversation.append(ChatMessage.user("more"), branch="idea")
        conversation.fork("other")
    with harness.open() as store:
        store.open(header.id).append(ChatMessage.user("yet more"), branch=MAIN_BRANCH)
        found = [record.seq for record in store.records(header.id)]
        expect(found, list(range(1, 10)), "seq of the records")


def convert_keeps_digests(harness: StoreHarness) -> None:
    """Check that a session is unchanged, including digests, after copying to a store and back."""
    with harness.open() as store, MemoryStore() as memory:
        conversation = new_sample_session(store)
        session = conversation.id
        conversation.fork("idea", at=conversation.entries()[1].id)
        conversation.switch("idea")
        conversation.append(ChatMessage.assistant("Another."))
        conversation.rewind(conversation.entries()[0].id)
        before = read_session(store, session)
        expect(convert_store(store, memory, [session]), 1, "sessions that were copied")
        expect_stored(memory, session, before, "in memory")
        expect(memory.verify(session), store.verify(session), "the result of verify in both")
        store.remove(session)
        convert_store(memory, store, [session])
    with harness.open() as store:
        expect_stored(store, session, before, "after copying back")
        expect_intact(store, session)


# -- blobs -------------------------------------------------------------------------------------


def blob_round_trip(harness: StoreHarness) -> None:
    """Check that blobs are stored once, read back by SHA-256, listed and removed."""
    pieces = [b"", b"\0", _new_bytes(100), _new_bytes(3_000_000)]
    with harness.open() as store:
        for data in pieces:
            digest = sha256(data).hexdigest()
            expect(store.put_blob(data), digest, "the digest that put_blob returns")
            expect(store.put_blob(data), digest, "the digest of the same blob, stored again")
    with harness.open() as store:
        known = {blob.sha256: blob for blob in store.blobs()}
        for data in pieces:
            digest = sha256(data).hexdigest()
            require(store.blob(digest) == data, "a blob must be read back unchanged")
            found = known.get(digest)
            require(found is not None, "every blob must be listed")
            assert found is not None
            expect(found.size, len(data), "the size of a blob")
            age = utc_now() - found.stored_at
            require(abs(age) < timedelta(hours=12), "stored_at must be the current time in UTC")
        expect(len(list(store.blobs())), len(known), "blobs in the list, each once")
        digest = sha256(pieces[2]).hexdigest()
        store.remove_blob(digest, put_before=utc_now() - timedelta(hours=24))
        require(
            store.blob(digest) == pieces[2], "a blob stored after put_before must not be removed"
        )
        store.remove_blob(digest)
        store.remove_blob(digest)
        with expect_raises(Missing, "a blob that was removed"):
            store.blob(digest)


def missing_blob(harness: StoreHarness) -> None:
    """Check that reading a missing blob raises Missing, and that removing it does nothing."""
    with harness.open() as store:
        digest = sha256(new_id().encode()).hexdigest()
        with expect_raises(Missing, "a blob that was never stored"):
            store.blob(digest)
        store.remove_blob(digest)
        with expect_raises(Missing, "a blob that was removed"):
            store.blob(digest)


def hostile_blob_names(harness: StoreHarness) -> None:
    """Check that a name that is not a digest raises Missing, and that no blob is removed by it."""
    with harness.open() as store:
        data = _new_bytes(40)
        digest = store.put_blob(data)
        for name in (*_HOSTILE_BLOB_NAMES, digest.upper(), digest + " ", digest[:-1]):
            with expect_raises(Missing, "a name that is not a digest"):
                store.blob(name)
            with allow_log_error("removing a name that is not a digest: expected no other error"):
                store.remove_blob(name)
        require(
            store.blob(digest) == data, "removing a name that is not a digest must remove nothing"
        )


def images_as_blobs(harness: StoreHarness) -> None:
    """Check that large images are stored as blobs and small images in the record."""
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
        expect(found.content, (Text("Look:"), reference, _image(small)), "the stored content")
        require(store.blob(digest) == large, "a large image must be stored as a blob")
        expect(store.restore_blobs(found), message, "the message with its images restored")
        expect(reopened.messages()[-1], message, "the message to send")
        expect_intact(store, conversation.id, entries=6)
        convert_store(store, memory, [conversation.id])
        require(memory.blob(digest) == large, "a blob must be copied with its session")


def long_results_as_blobs(harness: StoreHarness) -> None:
    """Check that a very long result is stored as a blob and restored in messages to send."""
    text = "a long line of output\n" * 20_000
    call = ToolCall(id="call", name="run")
    with harness.open() as store:
        conversation = new_sample_session(store)
        conversation.append(ChatMessage.assistant(None, [call]))
        conversation.append(ToolResult.success("call", text))
        expect(conversation.messages()[-1].text, text, "the result to send")
    with harness.open() as store:
        [*_, record] = store.records(conversation.id)
        require(len(encode_record(record)) < 2_000, "a record must not contain a very long result")
        store.collect_garbage(older_than=timedelta(0))
        expect(store.open(conversation.id).messages()[-1].text, text, "the result after reopening")
        expect_intact(store, conversation.id, entries=7)
        store.remove_blob(sha256(text.encode()).hexdigest())
        require(not store.verify(conversation.id).is_intact, "verify must report a missing blob")
        found = store.open(conversation.id).messages()[-1]
        expect(found.tool_call_id, "call", "the call of a result whose blob is missing")


def garbage_collection(harness: StoreHarness) -> None:
    """Check that garbage collection removes only old blobs that no record refers to."""
    with harness.open() as store:
        named, nameless = _new_bytes(40_000), _new_bytes(70)
        conversation = new_sample_session(store)
        conversation.append(ChatMessage.user([_image(named)]), branch=MAIN_BRANCH)
        lost = store.put_blob(nameless)
        store.collect_garbage()
        require(store.blob(lost) == nameless, "a recent blob must not be removed")
        size = store.collect_garbage(older_than=_ANY_AGE)
        require(size >= len(nameless), "collect_garbage must return the number of bytes it removed")
        with expect_raises(Missing, "a blob that no record refers to"):
            store.blob(lost)
        kept_digest = sha256(named).hexdigest()
        is_kept = store.blob(kept_digest) == named
        require(is_kept, "a blob that a record refers to must not be removed")
        last = store.open(conversation.id).entries()[-1]
        store.redact(conversation.id, last.id, actor="kit", reason="test")
        store.collect_garbage(older_than=_ANY_AGE)
        with expect_raises(Missing, "a blob whose entry was redacted"):
            store.blob(kept_digest)


# -- verification and redaction ----------------------------------------------------------------


def verify_reports_first_bad_record(harness: StoreHarness) -> None:
    """Check that `verify` reports the number and the entry of the first changed record."""
    with harness.open() as store:
        conversation = new_sample_session(store)
        session = conversation.id
        records = list(store.records(session))
        for record in (records[3], records[1]):
            assert record.entry is not None
            forged = replace(record.entry, payload=ChatMessage.user("Something else?"))
            store.replace(session, replace(record, entry=forged))
        found = store.verify(session)
        require(found.bad is not None, "verify must report a changed record")
        assert found.bad is not None
        expect(found.bad.seq, 2, "the number of the first changed record")
        expect(found.bad.entry_id, conversation.entries()[1].id, "the changed entry")
        store.replace(session, records[1])
        bad = store.verify(session).bad
        expect(None if bad is None else bad.seq, 4, "the number of the second changed record")
        store.replace(session, records[3])
        expect_intact(store, session, entries=5)
        expect(list(store.records(session)), records, "records, after all were restored")


def read_replaced_record(harness: StoreHarness) -> None:
    """Check that every read method returns the new version of a replaced record."""
    with harness.open() as store:
        session = new_sample_session(store).id
        records = list(store.records(session))
        entry = records[1].entry
        assert entry is not None
        changed = replace(records[1], entry=replace(entry, payload=ChatMessage.user("Replaced.")))
        store.replace(session, changed)
        head = store.heads(session)
    with harness.open() as store:
        expect(list(store.records(session))[1], changed, "the record")
        back = {entry.id: entry for entry, _ in store.read_back(session, head["main"] or "")}
        expect(back[entry.id], changed.entry, "the entry, read back")
        expect(store.open(session).messages()[1].text, "Replaced.", "the message")
        expect(dict(store.heads(session)), dict(head), "heads")


def redaction_keeps_chain_valid(harness: StoreHarness) -> None:
    """Check that redaction removes content, keeps the chain valid, and records actor and reason."""
    word = f"secret{new_id().replace('-', '')}"
    with harness.open() as store:
        conversation = store.new([*SAMPLE_MESSAGES, ChatMessage.user(f"My key is {word}.")])
        session = conversation.id
        call = ToolCall(id="c2", name="keep", arguments=f'{{"k":"{word}"}}')
        thanks = ChatMessage.assistant("Thanks.", [call])
        target = conversation.append(thanks, audit={"note": word})
        conversation.append(ChatMessage.tool_result("c2", "Kept."))
        digests = [record.digest for record in store.records(session)]
        for entry_id in (conversation.entries()[5].id, target.id):
            store.redact(session, entry_id, actor="officer", reason="a key")
    with harness.open() as store:
        records = list(store.records(session))
        is_gone = not any(word.encode() in encode_record(record) for record in records)
        require(is_gone, "no record may contain redacted content")
        expect(store.search(word), [], "search hits for redacted content")
        expect([record.digest for record in records][:8], digests, "digests")
        kinds = [type(record.entry.payload) for record in records if record.entry is not None]
        expect(kinds[5:], [Redacted, Redacted, kinds[7], Redaction, Redaction], "payloads")
        redaction = records[-1].entry
        assert redaction is not None
        wanted = Redaction(target=target.id, actor="officer", reason="a key")
        expect(redaction.payload, wanted, "the last entry")
        found = store.verify(session)
        require(found.is_intact, f"the hash chain must be valid: {found.bad}")
        expect(found.redacted, 2, "redacted entries")
        expect(len(store.open(session).messages()), 6, "remaining messages")
        store.open(session).append(ChatMessage.user("Continue."))
        expect_intact(store, session, entries=11)
        before = list(store.records(session))
        store.redact(session, target.id, actor="a", reason="b")
        expect(list(store.records(session)), before, "records after redacting an entry again")
        with expect_raises(InvalidValue, "redacting a redaction"):
            store.redact(session, redaction.id, actor="a", reason="b")
        with expect_raises(Missing, "redacting a missing entry"):
            store.redact(session, new_id(), actor="a", reason="b")


# -- search ------------------------------------------------------------------------------------


def search_finds_words(harness: StoreHarness) -> None:
    """Check that a search finds entries with all words, in any case and order, newest first."""
    tag = f"tag{new_id().replace('-', '')}"
    texts = [*_SEARCHED_TEXTS.split("|"), "longer " * 300]
    payloads = [ChatMessage.user(f"{tag} {text}") for text in texts]
    call = ToolCall(id="c1", name="run_tests", arguments=f'{{"path":"{tag}"}}')
    label = Label(target="a", text=f"{tag} here")
    records = list(chain_records([*payloads, ChatMessage.assistant(None, [call]), label]))
    first = records[0]
    assert first.entry is not None
    records[0] = replace(first, entry=replace(first.entry, time=None))
    headers = [new_header(), new_header()]
    with harness.open() as store, MemoryStore() as memory:
        store.add_session(headers[0], records)
        store.add_session(headers[1], chain_records(payloads, start=START_TIME + timedelta(days=1)))
        for header in headers:
            memory.add_session(header, store.records(header.id))
        for query in _SEARCH_QUERIES.split("|"):
            found = store.search(f"{tag} {query}", limit=100)
            wanted = memory.search(f"{tag} {query}", limit=100)
            expect(
                [(hit.session, hit.entry.id) for hit in found],
                [(hit.session, hit.entry.id) for hit in wanted],
                f"entries found for {query!r}",
            )
            expect(
                [h.snippet for h in found], [h.snippet for h in wanted], f"snippets for {query!r}"
            )
            expect([h.entry for h in found], [h.entry for h in wanted], f"entries for {query!r}")
        expect(len(store.search(tag, limit=3)), 3, "hits with limit=3")
        for wordless in ("", " ", "%", "_", "*"):
            expect(store.search(wordless), [], f"hits for {wordless!r}, which contains no word")


def search_finds_new_entries(harness: StoreHarness) -> None:
    """Check that a search finds new entries immediately, in all sessions and open stores."""
    word = f"word{new_id().replace('-', '')}"
    with harness.open() as store, harness.open() as other, MemoryStore() as memory:
        conversation = new_sample_session(store)
        entry = conversation.append(ChatMessage.user(f"A {word} to find."))
        for searched in (store, other):
            expect([hit.entry for hit in searched.search(word)], [entry], "hits after one entry")
        twin = other.clone(conversation.id)
        found = {hit.session for hit in other.search(word.upper())}
        expect(found, {conversation.id, twin.id}, "sessions found after a clone")
        memory.add_session(other.header(twin.id), other.records(twin.id))
        store.remove(twin.id)
        convert_store(memory, store, [twin.id])
        expect(len(store.search(word)), 2, "hits after a session was removed and copied back")


def _new_bytes(size: int) -> bytes:
    """Return bytes that are different in every call."""
    return (new_id().encode() + bytes(range(256)) * (size // 256 + 1))[:size]


def _image(data: bytes) -> Image:
    return Image(source=ImageData(data), mime_type="image/png")
