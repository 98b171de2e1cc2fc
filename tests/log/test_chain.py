"""The chain: every change is found, redaction leaves it intact, and verify names the place."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from steno import ChatMessage, InvalidValue
from steno.codec import decode_entry, decode_record, encode_entry, encode_record
from steno.log.chain import entry_digest, redact_entry, verify_records
from steno.log.conversation import Conversation
from steno.messages.content import Opaque
from steno.records.entry import Entry, Redacted, Redaction, Rewind
from steno.records.stored_record import MAIN_BRANCH, Record
from steno.values import RawJson
from tests.log.journals import Journal
from tests.log.sample_talk import TALK

NOON = datetime(2024, 5, 17, 12, tzinfo=UTC)
ENTRY = Entry(
    id="e2",
    parent="e1",
    time=NOON,
    payload=ChatMessage.user("Broken?"),
    decision="asked",
    audit={"actor": "ann"},
)


def recorded() -> list[Record]:
    journal = Journal()
    conversation = Conversation(TALK, journal=journal)
    conversation.fork("idea", at=conversation.entries()[1].id)
    conversation.append(ChatMessage.assistant("An idea."), branch="idea")
    return list(journal.store.records(journal.session))


def entry_of(record: Record) -> Entry:
    assert record.entry is not None
    return record.entry


# -- digests -----------------------------------------------------------------------------------


def test_the_digest_is_the_one_that_is_documented() -> None:
    payload = sha256(b'{"content":[{"text":"Broken?","type":"text"}],"type":"user"}').hexdigest()
    audit = sha256(b'{"actor":"ann"}').hexdigest()
    link = [2, "d1", "e2", "e1", "2024-05-17T12:00:00Z", "asked", None, payload, audit]
    assert entry_digest(ENTRY, "d1") == sha256(msgspec.json.encode(link)).hexdigest()
    bare = Entry(id="e1", payload=ChatMessage.user("Broken?"))
    link = [2, None, "e1", None, None, None, None, payload, None]
    assert entry_digest(bare, None) == sha256(msgspec.json.encode(link)).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        {"id": "e3"},
        {"parent": "e0"},
        {"parent": None},
        {"time": NOON.replace(microsecond=1)},
        {"time": None},
        {"decision": "told"},
        {"decision": None},
        {"audit": {"actor": "bob"}},
        {"audit": None},
        {"payload": ChatMessage.user("Broken!")},
        {"payload": ChatMessage.system("Broken?")},
    ],
    ids=str,
)
def test_any_change_of_an_entry_changes_its_digest(change: dict[str, Any]) -> None:
    assert entry_digest(replace(ENTRY, **change), "d1") != entry_digest(ENTRY, "d1")


def test_the_digest_depends_on_that_of_the_parent() -> None:
    assert len({entry_digest(ENTRY, parent) for parent in ("d1", "d2", None)}) == 3


def test_an_unknown_member_is_part_of_the_digest_and_its_line_breaks_are_not() -> None:
    text = '{"v":2,"id":"e1","payload":{"type":"user","content":[{"type":"text","text":"a"}]}%s}'
    plain, other = decode_entry(text % ""), decode_entry(text % ',"x":1')
    broken = decode_entry(text % ',"x":[1,\n2]')
    flat = decode_entry(text % ',"x":[1, 2]')
    assert len({entry_digest(entry, None) for entry in (plain, other, broken)}) == 3
    assert entry_digest(broken, None) == entry_digest(flat, None)


def test_a_conversation_without_a_journal_has_the_same_digests() -> None:
    journal = Journal()
    stored = Conversation(TALK, journal=journal)
    fixed = iter(stored.entries())
    ids, times = zip(*[(entry.id, entry.time) for entry in fixed], strict=True)
    plain = Conversation(TALK, id="x", new_id=iter(ids).__next__, now=iter(times).__next__)
    for entry, record in zip(plain.entries(), journal.store.records(journal.session), strict=True):
        assert plain.digest(entry.id) == record.digest


# -- redaction ---------------------------------------------------------------------------------


def test_a_redacted_entry_has_no_content_and_the_same_digest() -> None:
    without = redact_entry(ENTRY)
    assert isinstance(without.payload, Redacted)
    assert without.payload.kind == "user"
    sorted_payload = b'{"content":[{"text":"Broken?","type":"text"}],"type":"user"}'
    assert without.payload.sha256 == sha256(sorted_payload).hexdigest()
    assert without.audit is None
    assert (without.id, without.time, without.decision) == ("e2", NOON, "asked")
    assert entry_digest(without, "d1") == entry_digest(ENTRY, "d1")


def test_members_that_are_not_understood_go_with_the_content() -> None:
    entry = decode_entry(
        '{"v":2,"id":"e1","payload":{"type":"user","content":[{"type":"text","text":"Hi"}]},"mood":"grim"}'
    )
    without = redact_entry(entry)
    assert b"grim" not in encode_entry(without)
    assert entry_digest(without, None) == entry_digest(entry, None)
    assert entry_digest(replace(entry, unknown=RawJson('"mood":"glad"')), None) != entry_digest(
        entry, None
    )


def test_the_order_of_members_does_not_matter_to_the_digest() -> None:
    ours = decode_entry(
        '{"v":2,"id":"e1","payload":{"type":"user","content":[{"type":"text","text":"Hi","lang":"en"}]}}'
    )
    theirs = decode_entry(
        '{"v":2,"id":"e1","payload":{"type":"user","content":[{"lang":"en","type":"text","text":"Hi"}]}}'
    )
    assert entry_digest(ours, None) == entry_digest(theirs, None)


def test_why_something_was_taken_out_stays() -> None:
    entry = Entry(id="e1", payload=Redaction(target="e0", actor="ann", reason="a key"))
    with pytest.raises(InvalidValue) as caught:
        redact_entry(entry)
    assert caught.value.code == "redaction_is_kept"


@pytest.mark.parametrize(
    "entry",
    [
        redact_entry(ENTRY),
        decode_entry('{"v":4,"id":"e1","what":"is this"}'),
        decode_entry('{"v":2,"id":"e1"}'),
    ],
)
def test_unknown_and_redacted_entries_cannot_be_redacted(entry: Entry) -> None:
    with pytest.raises(InvalidValue) as caught:
        redact_entry(entry)
    assert (caught.value.place, caught.value.code) == ("entry", "nothing_to_redact")


def test_a_payload_of_a_newer_version_can_be_redacted() -> None:
    entry = Entry(id="e1", payload=Opaque(kind="x", raw='{"type":"x"}', origin="steno"))
    assert entry_digest(redact_entry(entry), None) == entry_digest(entry, None)


# -- verification ------------------------------------------------------------------------------


def test_an_unchanged_session_is_intact_and_its_heads_are_reported() -> None:
    records = recorded()
    found = verify_records(records)
    assert found.is_intact
    assert found.bad is None
    assert (found.entries, found.redacted, found.foreign) == (7, 0, 0)
    assert found.heads == {MAIN_BRANCH: records[5].digest, "idea": records[7].digest}
    assert verify_records([]).is_intact


def test_an_empty_branch_has_no_digest() -> None:
    assert verify_records([Record(seq=1, branch="idea")]).heads == {"idea": None}


@pytest.mark.parametrize("number", range(6))
def test_the_first_record_that_was_changed_is_named(number: int) -> None:
    records = recorded()
    for later in (number, 7):
        record = records[later]
        records[later] = replace(record, entry=replace(entry_of(record), decision="forged"))
    bad = verify_records(records).bad
    assert bad is not None
    expected = (number + 1, entry_of(records[number]).id, "digest_mismatch")
    assert (bad.seq, bad.entry_id, bad.code) == expected
    assert str(bad) == f"record {number + 1} (entry {bad.entry_id}): {bad.problem}"


def test_a_forger_who_writes_a_new_digest_breaks_the_next_link() -> None:
    records = recorded()
    first, second = entry_of(records[0]), entry_of(records[1])
    forged = replace(second, payload=ChatMessage.user("Whole?"))
    assert records[0].digest is not None
    records[1] = replace(records[1], entry=forged, digest=entry_digest(forged, records[0].digest))
    bad = verify_records(records).bad
    assert bad is not None
    assert (bad.seq, first.id) == (3, entry_of(records[0]).id)


@pytest.mark.parametrize(
    ("change", "seq", "code"),
    [
        (lambda records: records.pop(0), 2, "wrong_seq"),
        (lambda records: records.pop(3), 5, "wrong_seq"),
        (lambda records: records.insert(2, records[1]), 2, "wrong_seq"),
        (lambda records: records.reverse(), 8, "wrong_seq"),
        (
            lambda records: records.append(replace(records[5], seq=9)),
            9,
            "repeated_id",
        ),
        (
            lambda records: records.append(replace(records[6], seq=9)),
            9,
            "branch_exists",
        ),
        (
            lambda records: records.append(Record(seq=9, branch="new", at="e99")),
            9,
            "missing_branch_start",
        ),
        (
            lambda records: records.append(
                Record(
                    seq=9,
                    branch=MAIN_BRANCH,
                    entry=Entry(id="e9", parent="e99", payload=TALK[0]),
                    digest="0" * 64,
                )
            ),
            9,
            "parent_missing",
        ),
        (
            lambda records: records.__setitem__(5, replace(records[5], branch="nowhere")),
            6,
            "branch_not_begun",
        ),
        (
            lambda records: records.__setitem__(5, replace(records[5], branch="idea")),
            6,
            "branch_not_begun",
        ),
        (
            lambda records: records.__setitem__(6, replace(records[6], at=None)),
            8,
            "not_after_head",
        ),
        (
            lambda records: records.__setitem__(7, replace(records[7], branch=MAIN_BRANCH)),
            8,
            "not_after_head",
        ),
    ],
)
def test_records_that_are_lost_doubled_or_moved_are_found(change: Any, seq: int, code: str) -> None:
    records = recorded()
    change(records)
    bad = verify_records(records).bad
    assert bad is not None
    assert (bad.seq, bad.code) == (seq, code)


def test_only_a_rewind_of_the_last_entry_may_continue_from_an_earlier_one() -> None:
    journal = Journal()
    conversation = Conversation(TALK, journal=journal)
    rewind = conversation.rewind(conversation.entries()[1].id)
    records = list(journal.store.records(journal.session))
    assert verify_records(records).is_intact
    forged = replace(rewind, payload=Rewind(left=conversation.entries()[0].id))
    digest = entry_digest(forged, records[1].digest)
    bad = verify_records([*records[:-1], replace(records[-1], entry=forged, digest=digest)]).bad
    assert bad is not None
    assert bad.code == "not_after_head"
    journal.store.redact(journal.session, rewind.id, actor="ann", reason="law")
    assert journal.store.verify(journal.session).is_intact


def test_a_bad_branch_is_named_without_an_entry() -> None:
    bad = verify_records([Record(seq=2, branch="idea")]).bad
    assert bad is not None
    assert (bad.seq, bad.entry_id, bad.code) == (2, None, "wrong_seq")
    assert str(bad) == f"record 2: {bad.problem}"


def test_redacted_entries_are_counted_and_need_a_redaction_record() -> None:
    records = recorded()
    gone, last = entry_of(records[1]), records[5]
    records[1] = replace(records[1], entry=redact_entry(gone))
    bad = verify_records(records).bad
    assert bad is not None
    assert (bad.seq, bad.code) == (2, "unexplained_redaction")
    why = Redaction(target=gone.id, actor="ann", reason="law")
    entry = Entry(id="e99", parent=entry_of(last).id, payload=why)
    record = Record(seq=9, branch=MAIN_BRANCH, entry=entry, digest=entry_digest(entry, last.digest))
    found = verify_records([*records, record])
    assert found.is_intact
    assert (found.entries, found.redacted) == (8, 1)


def test_entries_of_a_newer_version_are_counted_and_not_looked_into() -> None:
    records = recorded()
    newer = decode_entry(f'{{"v":4,"id":"n1","parent":"{entry_of(records[5]).id}","what":1}}')
    records.append(Record(seq=9, branch=MAIN_BRANCH, entry=newer, digest="1" * 64))
    late = Entry(id="n2", parent="n1", payload=TALK[0])
    records.append(
        Record(seq=10, branch=MAIN_BRANCH, entry=late, digest=entry_digest(late, "1" * 64))
    )
    found = verify_records(records)
    assert found.is_intact
    assert (found.entries, found.foreign) == (9, 1)


@pytest.mark.parametrize("version", ["2", "1", '"3"', "null", "3.5"])
def test_an_unreadable_record_does_not_count_as_a_newer_version(version: str) -> None:
    """If it counted as newer, a damaged record would not be found."""
    text = encode_record(recorded()[0]).decode()
    assert '"v":2' in text
    broken = text.replace('"v":2', f'"v":{version}').replace('"time":"2', '"time":"X')
    record = decode_record(broken)
    assert not entry_of(record).is_understood
    bad = verify_records([record]).bad
    assert bad is not None
    assert bad.code == "digest_mismatch"


def test_an_odd_record_that_was_stored_with_its_digest_is_intact() -> None:
    odd = decode_entry('{"v":2,"id":"e1","time":7,"payload":{}}')
    assert not odd.is_understood
    record = Record(seq=1, branch=MAIN_BRANCH, entry=odd, digest=entry_digest(odd, None))
    assert verify_records([record]).is_intact
    assert verify_records([record]).foreign == 0


def test_a_record_of_a_newer_version_is_not_damage() -> None:
    entry = Entry(id="e1", payload=ChatMessage.user("Hi"))
    first = Record(seq=1, branch=MAIN_BRANCH, entry=entry, digest=entry_digest(entry, None))
    newer = decode_record('{"seq":2,"branch":"main","note":{"of":"a newer version"}}')
    found = verify_records([first, newer])
    assert (found.bad, found.foreign, found.heads) == (None, 1, {MAIN_BRANCH: first.digest})
    again = Record(seq=2, branch=MAIN_BRANCH)
    bad = verify_records([first, again]).bad
    assert bad is not None
    assert (bad.seq, bad.entry_id, bad.code) == (2, None, "branch_exists")
