"""Cases about trust: what was changed is found, what is taken out is gone, what is asked is found."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from steno.call import ToolCall
from steno.codec import encode_record
from steno.entry import Label, Payload, Redacted, Redaction
from steno.errors import InvalidValue, Missing
from steno.identity import new_id
from steno.message import ChatMessage
from steno.record import Record
from steno.store import MemoryStore, convert_store
from steno.testing.stores.expecting import (
    MORNING,
    TALK,
    expect,
    expect_intact,
    expect_refusal,
    fresh_header,
    linked,
    require,
    talked,
)
from steno.testing.stores.subject import Subject


def verify_names_the_first_bad(subject: Subject) -> None:
    """A record that was written over with another is found, by its number and its entry."""
    with subject.open() as store:
        conversation = talked(store)
        session = conversation.id
        records = list(store.records(session))
        for record in (records[3], records[1]):
            assert record.entry is not None
            forged = replace(record.entry, payload=ChatMessage.user("Something else?"))
            store.replace(session, replace(record, entry=forged))
        found = store.verify(session)
        require(found.bad is not None, "a record that was changed must be found")
        assert found.bad is not None
        expect(found.bad.seq, 2, "the number of the first record that was changed")
        expect(found.bad.entry_id, conversation.entries()[1].id, "the entry that was changed")
        store.replace(session, records[1])
        bad = store.verify(session).bad
        expect(None if bad is None else bad.seq, 4, "the next one, after the first was mended")
        store.replace(session, records[3])
        expect_intact(store, session, entries=5)
        expect(list(store.records(session)), records, "records, after all was mended")


def replaced_record_is_read_everywhere(subject: Subject) -> None:
    """A record that was written over is the new one wherever it is read, also after a reopening."""
    with subject.open() as store:
        session = talked(store).id
        records = list(store.records(session))
        entry = records[1].entry
        assert entry is not None
        changed = replace(records[1], entry=replace(entry, payload=ChatMessage.user("Replaced.")))
        store.replace(session, changed)
        head = store.heads(session)
    with subject.open() as store:
        expect(list(store.records(session))[1], changed, "the record")
        back = {entry.id: entry for entry, _ in store.read_back(session, head["main"] or "")}
        expect(back[entry.id], changed.entry, "the entry, read back")
        expect(store.open(session).messages()[1].text, "Replaced.", "the message")
        expect(dict(store.heads(session)), dict(head), "heads")


def redaction_keeps_the_chain(subject: Subject) -> None:
    """What is redacted is nowhere any more, the chain holds, and it is told by whom and why."""
    word = f"secret{new_id().replace('-', '')}"
    with subject.open() as store:
        conversation = store.new([*TALK, ChatMessage.user(f"My key is {word}.")])
        session = conversation.id
        target = conversation.append(
            ChatMessage.assistant(
                "Thanks.", [ToolCall(id="c2", name="keep", arguments=f'{{"k":"{word}"}}')]
            ),
            audit={"note": word},
        )
        conversation.append(ChatMessage.tool_result("c2", "Kept."))
        digests = [record.digest for record in store.records(session)]
        for entry_id in (conversation.entries()[5].id, target.id):
            store.redact(session, entry_id, actor="officer", reason="a key")
    with subject.open() as store:
        records = list(store.records(session))
        require(
            not any(word.encode() in encode_record(record) for record in records),
            "no record may hold what was redacted",
        )
        expect(store.search(word), [], "what a search finds of it")
        expect([record.digest for record in records][:8], digests, "digests")
        kinds = [type(record.entry.payload) for record in records if record.entry is not None]
        expect(kinds[5:], [Redacted, Redacted, kinds[7], Redaction, Redaction], "payloads")
        told = records[-1].entry
        assert told is not None
        wanted = Redaction(target=target.id, actor="officer", reason="a key")
        expect(told.payload, wanted, "the last entry")
        found = store.verify(session)
        require(found.is_intact, f"the chain must hold: {found.bad}")
        expect(found.redacted, 2, "entries that were redacted")
        expect(len(store.open(session).messages()), 6, "messages that are left")
        store.open(session).append(ChatMessage.user("Going on."))
        expect_intact(store, session, entries=11)
        before = list(store.records(session))
        store.redact(session, target.id, actor="a", reason="b")
        expect(list(store.records(session)), before, "records after redacting it again")
        expect_refusal(
            InvalidValue,
            "redacting the reason",
            lambda: store.redact(session, told.id, actor="a", reason="b"),
        )
        expect_refusal(
            Missing,
            "redacting what is not there",
            lambda: store.redact(session, new_id(), actor="a", reason="b"),
        )


# -- finding -----------------------------------------------------------------------------------


def search_finds_words(subject: Subject) -> None:
    """Every store finds the same: all words, in any case and order, the newest first."""
    tag = f"tag{new_id().replace('-', '')}"
    texts = (
        *("alpha beta", "Alpha BETA gamma", "alphabet", "beta, alpha!", "read_file alpha"),
        *("Straße", "STRASSE", "日本語 alpha", "naïve café", "cafe\u0301", "don't", "x y\0z", "_"),
        *(
            '"alpha beta"',
            "alpha AND beta",
            "alpha\u2028beta",
            "a*b",
            "NEAR(alpha, beta)",
            "ΣΊΣΥΦΟΣ",
        ),
        *("ﬁne", "İstanbul", "100% sure", "c++ -alpha", "\U00020000", "12.50", "longer " * 300),
    )
    queries = (
        *("alpha", "ALPHA beta", "beta alpha", "alph", "alpha -beta", '"alpha beta"', "read file"),
        *(
            "read_file",
            "strasse",
            "STRAẞE",
            "日本",
            "語",
            "cafe",
            "café",
            "naive",
            "don't",
            "don t",
        ),
        *("near(alpha", "alpha*", "a*", "alpha OR beta", "NOT alpha", "z", "100%", "%", "_", "y z"),
        *("σίσυφος", "fine", "istanbul", "c++", "alpha:", "^alpha", "\U00020000", "50", "12.5"),
        *("gamma", "run_tests", "path", "here", "longer", "nothing_like_it"),
    )
    payloads = [ChatMessage.user(f"{tag} {text}") for text in texts]
    call = ToolCall(id="c1", name="run_tests", arguments=f'{{"path":"{tag}"}}')
    steps: list[Payload] = [
        *payloads,
        ChatMessage.assistant(None, [call]),
        Label(target="a", text=f"{tag} here"),
    ]
    records = list(linked(steps))
    records[0] = _without_time(records[0])
    headers = [fresh_header(), fresh_header()]
    with subject.open() as store, MemoryStore() as memory:
        store.add_session(headers[0], records)
        store.add_session(headers[1], linked(payloads, start=MORNING + timedelta(days=1)))
        for header in headers:
            memory.add_session(header, store.records(header.id))
        for query in queries:
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
        expect(len(store.search(tag, limit=3)), 3, "hits, where three are asked for")
        for nothing in ("", " ", "%", "_", "*"):
            expect(store.search(nothing), [], f"hits for {nothing!r}, which has no word")


def _without_time(record: Record) -> Record:
    assert record.entry is not None
    return replace(record, entry=replace(record.entry, time=None))


def search_follows_what_is_written(subject: Subject) -> None:
    """What was just written is found, in every session, and by every opening of the store."""
    word = f"word{new_id().replace('-', '')}"
    with subject.open() as store, subject.open() as other, MemoryStore() as memory:
        conversation = talked(store)
        entry = conversation.append(ChatMessage.user(f"A {word} to find."))
        for one in (store, other):
            expect([hit.entry for hit in one.search(word)], [entry], "hits after one entry")
        twin = other.clone(conversation.id)
        found = {hit.session for hit in other.search(word.upper())}
        expect(found, {conversation.id, twin.id}, "sessions found after a clone")
        memory.add_session(other.header(twin.id), other.records(twin.id))
        store.remove(twin.id)
        convert_store(memory, store, [twin.id])
        expect(len(store.search(word)), 2, "hits after a session went and came back")
