"""The rows of a SQLite file, in new files and in those that an earlier steno wrote."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from zlib import crc32

import pytest

from steno import ChatMessage
from steno.codec import encode_entry, encode_record
from steno.errors import Conflict, Damaged, UnsupportedVersion
from steno.records.entry import Entry
from steno.records.stored_record import MAIN_BRANCH, Header, Record
from steno.store import MemoryStore
from steno.store.base import convert_store
from steno.store.sqlite.layout import INDEX_INTERVAL
from steno.store.sqlite.store import SqliteStore

_GOLDEN = Path(__file__).with_name("sqlite_layout_3.sql")
_DIGEST = "0" * 64


def _id(number: int) -> str:
    return f"0190a5e0-0000-7000-8000-{number:012x}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(file: Path) -> Iterator[SqliteStore]:
    with SqliteStore(file) as store:
        yield store


@pytest.fixture
def golden(file: Path) -> Path:
    """A file of layout 3: 34 messages, a branch, a redaction; and a session with plain ids."""
    with closing(sqlite3.connect(file)) as db:
        db.executescript(_GOLDEN.read_text())
    return file


def _rows(file: Path) -> list[tuple[str, str, bytes, bytes | None]]:
    with closing(sqlite3.connect(file)) as db:
        query = "SELECT typeof(id), branch, data, digest FROM record ORDER BY key"
        return db.execute(query).fetchall()


# -- files that an earlier steno wrote -------------------------------------------------------


def test_a_file_of_layout_3_is_read_and_verified(golden: Path) -> None:
    with SqliteStore(golden) as store:
        assert [store.verify(name).is_intact for name in ("ours", "theirs")] == [True, True]
        texts = [message.text for message in store.open("ours").messages(MAIN_BRANCH)]
        assert (texts[:4], texts[-1]) == (
            ["Question 0?", "Answer 0.", "Question 1?", "Answer 1."],
            "Answer 16.",
        )
        assert set(store.heads("ours")) == {MAIN_BRANCH, "other"}
        assert store.header("ours").title == "Written by version 2"
        assert [hit.entry.id for hit in store.search("question 3")] == [_id(7)]


def test_a_session_of_layout_3_is_continued(golden: Path) -> None:
    with SqliteStore(golden) as store:
        conversation = store.open("ours")
        conversation.switch(MAIN_BRANCH)
        for number in range(2 * INDEX_INTERVAL):
            conversation.append(ChatMessage.user(f"More {number}."))
        conversation.append(ChatMessage.user("Elsewhere again."), branch="other")
    with SqliteStore(golden) as store:
        again = store.open("ours")
        assert [message.text for message in again.messages(MAIN_BRANCH)][32:35] == [
            "Answer 16.",
            "More 0.",
            "More 1.",
        ]
        assert [message.text for message in again.messages("other")][-2:] == [
            "Elsewhere.",
            "Elsewhere again.",
        ]
        assert store.verify("ours").is_intact


@pytest.mark.parametrize("number", [1, INDEX_INTERVAL, INDEX_INTERVAL + 1, 35])
def test_an_id_in_a_file_of_layout_3_is_taken(golden: Path, number: int) -> None:
    with SqliteStore(golden) as store:
        head = store.heads("ours")["other"]
        entry = Entry(id=_id(number), parent=head, payload=ChatMessage.user("Twice."))
        with pytest.raises(Conflict) as caught:
            store.append("ours", entry, branch="other", digest=_DIGEST, expected=head)
        assert caught.value.code == "entry_exists"
        store.begin_branch("ours", f"from {number}", _id(number))
        assert store.heads("ours")[f"from {number}"] == _id(number)


def test_a_file_of_layout_3_can_be_redacted_and_copied(golden: Path) -> None:
    with SqliteStore(golden) as store:
        store.redact("ours", _id(2), actor="me", reason="a wish")
        store.redact("theirs", "plain-id", actor="me", reason="a wish")
        assert store.verify("ours").redacted == 2
        assert store.verify("ours").is_intact
        assert b"Answer 0." not in golden.read_bytes()
        memory = MemoryStore()
        assert convert_store(store, memory) == 2
        for name in ("ours", "theirs"):
            assert list(memory.records(name)) == list(store.records(name))


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_unreleased_layout_is_refused(file: Path, version: int) -> None:
    """HOUSE 2.12: layouts 1 and 2 were never released."""
    with SqliteStore(file):
        pass
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"PRAGMA user_version = {version}")
    before = file.read_bytes()
    with pytest.raises(UnsupportedVersion) as caught:
        SqliteStore(file)
    assert caught.value.code == "layout_too_old"
    assert file.read_bytes() == before


def test_a_session_with_ids_as_text_is_refused(store: SqliteStore, file: Path) -> None:
    """A development version has converted files of layout 2 and left such sessions in them."""
    entry = store.new([ChatMessage.user("hello")], id="s").entries()[-1]
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE session SET has_text_ids = 1")
        db.execute("UPDATE record SET id = ?", (entry.id,))
    for act in (store.heads, store.records, store.summary, store.verify):
        with pytest.raises(UnsupportedVersion) as caught:
            act("s")
        assert caught.value.code == "layout_too_old"


# -- content of a row ------------------------------------------------------------------------


def test_a_row_stores_its_entry_without_repetition(store: SqliteStore, file: Path) -> None:
    conversation = store.new([ChatMessage.user("hello"), ChatMessage.assistant("yes")], id="s")
    entries = conversation.entries()
    assert _rows(file) == [
        ("blob", MAIN_BRANCH, encode_entry(entry), bytes.fromhex(conversation.digest(entry)))
        for entry in entries
    ]


def test_a_file_grows_by_less_than_half_more_than_its_entries(file: Path) -> None:
    """Most entries are short and some are long, so that pages are filled as they come."""
    random = Random(1)
    with SqliteStore(file, durability="normal") as store:
        store.new(id="s")
    empty = file.stat().st_size
    with SqliteStore(file, durability="normal") as store:
        conversation = store.open("s")
        for _ in range(20 * INDEX_INTERVAL):
            length = int(random.lognormvariate(6.4, 1.1))  # half of them below 600
            conversation.append(ChatMessage.user("x" * min(length, 60_000)))
        entries = sum(len(encode_entry(entry)) for entry in conversation.entries())
    assert file.stat().st_size - empty < 1.4 * entries


@pytest.mark.parametrize(
    "id",
    ["plain", _id(10).upper(), _id(10).replace("-", ""), f"{_id(10)}\n", f"{{{_id(10)}}}", "é"],
)
def test_an_id_that_is_not_a_plain_uuid_is_stored_as_text(
    store: SqliteStore, file: Path, id: str
) -> None:
    first = Entry(id=_id(10), payload=ChatMessage.user("a"))
    second = Entry(id=id, parent=_id(10), payload=ChatMessage.user("b"))
    store.add_session(Header(id="s"))
    store.append("s", first, branch=MAIN_BRANCH, digest=_DIGEST, expected=None)
    store.append("s", second, branch=MAIN_BRANCH, digest=_DIGEST, expected=first.id)
    assert [entry for entry, _ in store.read_back("s", id)] == [second, first]
    assert [record.entry for record in store.records("s")] == [first, second]
    assert store.heads("s") == {MAIN_BRANCH: id}
    assert [kind for kind, *_ in _rows(file)] == ["blob", "text"]


# -- rows that were changed ------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "digest = zeroblob(32)",
        "digest = NULL",
        "digest = 7",
        "digest = 'text'",
        "branch = 'zz'",
        "branch = x'6d61696e'",
        "data = CAST(data AS TEXT)",
        "checksum = checksum + 1",
        "(checksum, data, digest) = (SELECT checksum, data, digest FROM record LIMIT 1)",
    ],
)
def test_a_row_that_another_program_changed_is_damaged(
    store: SqliteStore, file: Path, change: str
) -> None:
    conversation = store.new([ChatMessage.user("one"), ChatMessage.user("two")], id="s")
    head = conversation.entries()[-1].id
    with closing(sqlite3.connect(file)) as db, db:
        db.execute(f"UPDATE record SET {change} WHERE key & 0xFFFF = 2")
    for read in (store.records("s"), store.read_back("s", head)):
        with pytest.raises(Damaged) as caught:
            list(read)
        assert (caught.value.code, caught.value.place) == ("checksum_mismatch", "record 2")
    with pytest.raises(Damaged) as caught:
        store.verify("s")
    assert (caught.value.code, caught.value.place) == ("checksum_mismatch", "record 2")


def test_a_whole_record_in_the_place_of_another_is_damaged(store: SqliteStore, file: Path) -> None:
    conversation = store.new([ChatMessage.user("one"), ChatMessage.user("two")], id="s")
    first, second = store.records("s")
    data = encode_record(
        Record(seq=1, branch=MAIN_BRANCH, entry=second.entry, digest=second.digest)
    )
    with closing(sqlite3.connect(file)) as db, db:
        values = (data, crc32(data))
        db.execute(
            "UPDATE record SET data = ?, checksum = ?, digest = NULL WHERE key & 0xFFFF = 2", values
        )
    assert next(store.records("s")) == first
    for read in (store.records("s"), store.read_back("s", conversation.entries()[-1].id)):
        with pytest.raises(Damaged) as caught:
            list(read)
        assert (caught.value.code, caught.value.place) == ("record_misplaced", "record 2")
