"""Cases about what is kept: everything, as it was, also what this version does not understand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from steno.call import InvalidToolCall
from steno.chain import digest_of
from steno.codec import decode_header, decode_record, encode_record
from steno.content import FileReference, Opaque, Resource, Text, Thinking
from steno.entry import (
    Approval,
    ApprovalStatus,
    Compaction,
    Entry,
    Feedback,
    Label,
    Mode,
    ModeChange,
    ModelChange,
    Payload,
    Repair,
    Resolution,
    ResolutionStatus,
)
from steno.errors import InvalidValue
from steno.identity import new_id
from steno.message import AssistantMessage, ChatMessage, UserMessage
from steno.outcome import Failure, Outcome
from steno.record import MAIN, Record
from steno.store import MemoryStore, convert_store
from steno.testing.stores.expecting import (
    TALK,
    expect,
    expect_intact,
    expect_kept,
    expect_refusal,
    fresh_header,
    kept,
    linked,
    require,
    talked,
)
from steno.testing.stores.subject import Subject
from steno.usage import StopReason, Usage

_TEXTS: Final = (
    *("NUL \0 inside", "\u2028 and \u2029", "\x85", "\ufeffBOM", "\r\n\n", "\x1b[31m", "\x7f"),
    *("\U0001f600\U0010ffff", "e\u0301", "\u202e", "\\u0000", "\\", '"', "'", "%s", "{}"),
    *("\u0000", "</script>", "$1", "NULL", "\ufffd", "\ufffe"),
)
_LARGE: Final = 5_000_000
_PAYLOADS: Final[tuple[Payload, ...]] = (
    ModeChange(old=Mode.PLAN, new=Mode.ACT),
    ModelChange(old="", new="model-2"),
    Label(target="a", text="here"),
    Compaction(through="a", summary="much was said"),
    Approval(call_id="c1", status=ApprovalStatus.PENDING, arguments_sha256="0" * 64),
    Resolution(target="a", block=0, status=ResolutionStatus.RESOLVED, content=(Text("found"),)),
    Feedback(target="a", text="better"),
    Repair(code="call_unanswered", explanation="answered"),
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


def every_payload(subject: Subject) -> None:
    """Whatever an entry may carry comes back equal, with decision and audit."""
    with subject.open() as store:
        conversation = store.new()
        for payload in _PAYLOADS:
            conversation.append(payload, decision="as it is", audit={"by": "kit", "n": 1.50})
        entries = conversation.entries()
        before = kept(store, conversation.id)
    with subject.open() as store:
        expect_kept(store, conversation.id, before, "after it was opened again")
        found = store.open(conversation.id).entries()
        for one, other in zip(found, entries, strict=True):
            expect(one, other, f"an entry with {type(other.payload).__name__}")
        expect_intact(store, conversation.id, entries=len(_PAYLOADS))


# -- what is not understood --------------------------------------------------------------------


def unknown_entry_kept(subject: Subject) -> None:
    """Members and entries of a newer steno survive at every level, byte for byte."""
    header = decode_header(f'{{"v":2,"id":"{new_id()}","later":[1.50]}}')
    lines = tuple(_newer_lines())
    with subject.open() as store, MemoryStore() as memory:
        store.add_session(header, map(decode_record, lines))
        before = kept(store, header.id)
        for number, (found, wanted) in enumerate(zip(before.records, lines, strict=True), 1):
            require(found == wanted, f"record {number} must be, byte for byte, what was added")
        convert_store(store, memory, [header.id])
        store.remove(header.id)
        convert_store(memory, store, [header.id])
    with subject.open() as store:
        expect_kept(store, header.id, before, "after it went to another store and back")
        expect(store.verify(header.id).foreign, 1, "entries of a newer version")
        conversation = store.open(header.id)
        conversation.append(ChatMessage.user("Going on."))
        require(
            kept(store, header.id).records[:-1] == lines,
            "records of a newer steno must stay as they are when a session goes on",
        )
        expect(len(conversation.messages()), 2, "messages that this version understands")


def _newer_lines() -> Iterator[bytes]:
    """Write records as a newer steno may, each with its digest."""
    first, second, third = new_id(), new_id(), new_id()
    block = '{"type":"text","text":"\\u0041\u2028","glow":1.50}'
    known = (
        f'{{"v":2,"id":"{first}","time":"2024-05-17T06:30:00Z","payload":{{"type":"user",'
        f'"content":[{block},{{"type":"hologram","size":1e400}}],"tone":{{"b":[ ]}}}},'
        '"audit":{"by":"kit"},"seen":"\\ud83d\\ude00"}'
    )
    newer = f'{{"v":3,"parent":"{first}","id":"{second}","what":{{"is":"this"}} , "n":-0.0}}'
    call = (
        f'{{"v":2,"id":"{third}","parent":"{second}","payload":{{"type":"telepathy","x":[1,2]}}}}'
    )
    digest: str | None = None
    for seq, text in enumerate((known, newer, call), 1):
        draft = f'{{"seq":{seq},"branch":"main","entry":{text},"digest":"{"0" * 64}","ink":0.10}}'
        entry = decode_record(draft).entry
        assert entry is not None
        digest = digest_of(entry, digest)
        # Our own encoder says in which order the members stand; the text of each is as it was.
        yield encode_record(decode_record(draft.replace("0" * 64, digest)))


# -- text --------------------------------------------------------------------------------------


def odd_text(subject: Subject) -> None:
    """Any text that UTF-8 can carry comes back as it was, and no other gets in."""
    with subject.open() as store:
        conversation = talked(store)
        for text in _TEXTS:
            conversation.append(ChatMessage.user(f"<{text}>"), decision=text, audit={text: text})
        before = kept(store, conversation.id)
        expect_refusal(
            InvalidValue,
            "half a surrogate pair",
            lambda: conversation.append(ChatMessage.user("fine"), decision="\ud800"),
        )
        expect_kept(store, conversation.id, before, "after half a character was refused")
    with subject.open() as store:
        found = store.open(conversation.id).entries()[len(TALK) :]
        for entry, text in zip(found, _TEXTS, strict=True):
            expect(entry.message, ChatMessage.user(f"<{text}>"), f"a message with {text!r}")
            expect((entry.decision, entry.audit), (text, {text: text}), f"the rest of {text!r}")
        expect_intact(store, conversation.id)


def large_text(subject: Subject) -> None:
    """Text of five million characters is an entry like any other."""
    text = "0123456789\u2028 ä\U0001f600 line\n" * (_LARGE // 20)
    with subject.open() as store:
        conversation = talked(store)
        conversation.append(ChatMessage.user(text))
        conversation.append(ChatMessage.assistant("Long."))
    with subject.open() as store:
        found = store.open(conversation.id).messages()
        require(found[-2] == ChatMessage.user(text), "a large text must come back as it was")
        expect_intact(store, conversation.id, entries=7)


def odd_ids(subject: Subject) -> None:
    """Entries from elsewhere may have any id and no time."""
    ids = ("a", "A", "a ", "1", "日本", "'", "\u2028", "../a", "long" * 500, "%")
    header = fresh_header()
    parent: str | None = None
    digest: str | None = None
    records: list[Record] = []
    for seq, id in enumerate(ids, 1):
        entry = Entry(id=id, parent=parent, payload=ChatMessage.user(f"entry {seq}"))
        digest = digest_of(entry, digest)
        parent = id
        records.append(Record(seq=seq, branch=MAIN, entry=entry, digest=digest))
    with subject.open() as store:
        store.add_session(header, records)
        expect(list(store.records(header.id)), records, "records")
        found = store.open(header.id)
        expect([entry.id for entry in found.entries()], list(ids), "ids in order")
        for id in ids:
            expect(next(store.read_back(header.id, id))[0].id, id, "an entry that is asked for")


def convert_keeps_digests(subject: Subject) -> None:
    """A session that goes to another store and back is the same, digests included."""
    with subject.open() as store, MemoryStore() as memory:
        conversation = talked(store)
        session = conversation.id
        conversation.fork("idea", at=conversation.entries()[1].id)
        conversation.switch("idea")
        conversation.append(ChatMessage.assistant("Another."))
        conversation.rewind(conversation.entries()[0].id)
        before = kept(store, session)
        expect(convert_store(store, memory, [session]), 1, "sessions that were copied")
        expect_kept(memory, session, before, "in memory")
        expect(memory.verify(session), store.verify(session), "what verify says of both")
        store.remove(session)
        convert_store(memory, store, [session])
    with subject.open() as store:
        expect_kept(store, session, before, "back again")
        expect_intact(store, session)


def records_are_numbered(subject: Subject) -> None:
    """Entries and beginnings of branches are counted together, from 1 and without gaps."""
    with subject.open() as store:
        header = fresh_header()
        store.add_session(header, linked(TALK))
        conversation = store.open(header.id)
        conversation.fork("idea")
        conversation.append(ChatMessage.user("more"), branch="idea")
        conversation.fork("other")
    with subject.open() as store:
        store.open(header.id).append(ChatMessage.user("yet more"), branch=MAIN)
        found = [record.seq for record in store.records(header.id)]
        expect(found, list(range(1, 10)), "seq of the records")
