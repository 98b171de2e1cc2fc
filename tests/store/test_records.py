"""The rules for records of a session: the same in every store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from steno import ChatMessage
from steno.codec import decode_record
from steno.errors import Damaged, Missing
from steno.records.stored_record import MAIN_BRANCH, Header, Record
from steno.store import MemoryStore, Store
from steno.store.jsonl import JsonlStore
from steno.store.postgres.store import PostgresStore
from tests.store.jsonl.sample_sessions import chained_records

NOTE = b'{"seq":%d,"branch":"%s","note":{"by":"a newer version"}}'


@pytest.fixture(params=["memory", "jsonl", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    match request.param:
        case "memory":
            opened: Store = MemoryStore()
        case "jsonl":
            opened = JsonlStore(tmp_path)
        case _:
            opened = PostgresStore(request.getfixturevalue("postgres_address"))
    with opened:
        yield opened


def test_a_record_without_an_entry_does_not_move_an_existing_branch(store: Store) -> None:
    records = [
        *chained_records(["one", "two"]),
        decode_record(NOTE % (3, b"main")),
        Record(seq=4, branch="side", at="e1"),
        decode_record(NOTE % (5, b"side")),
    ]
    store.add_session(Header(id="s"), records)
    assert list(store.records("s")) == records
    assert list(store.heads("s").items()) == [("side", "e1"), (MAIN_BRANCH, "e2")]
    conversation = store.open("s")
    assert conversation.branch == MAIN_BRANCH
    assert conversation.append(ChatMessage.user("three")).parent == "e2"
    assert conversation.append(ChatMessage.user("two"), branch="side").parent == "e1"
    assert store.clone("s").branches == conversation.branches


ONE, TWO, THREE = chained_records(["one", "two", "three"])
NO_SESSIONS = {
    "a gap": ([ONE, THREE], "record_misplaced", 2),
    "no beginning": ([TWO, THREE], "record_misplaced", 1),
    "another order": ([TWO, ONE], "record_misplaced", 1),
    "a record twice": ([ONE, ONE], "record_misplaced", 2),
    "an entry twice": ([ONE, replace(ONE, seq=2)], "entry_repeated", 2),
}


@pytest.mark.parametrize(("records", "code", "number"), NO_SESSIONS.values(), ids=NO_SESSIONS)
def test_inconsistent_records_are_refused_and_none_is_stored(
    store: Store, records: list[Record], code: str, number: int
) -> None:
    with pytest.raises(Damaged) as caught:
        store.add_session(Header(id="s"), records)
    assert (caught.value.code, caught.value.place) == (code, f"record {number}")
    assert list(store.headers()) == []
    store.add_session(Header(id="s"), [ONE, TWO])
    assert store.verify("s").is_intact


NO_REPLACEMENTS = {
    "another entry": replace(TWO, seq=1),
    "another branch": replace(ONE, branch="side"),
    "no entry": Record(seq=1, branch=MAIN_BRANCH),
    "another number": replace(ONE, seq=3),
}


@pytest.mark.parametrize("record", NO_REPLACEMENTS.values(), ids=NO_REPLACEMENTS)
def test_a_replacement_may_differ_in_content_only(store: Store, record: Record) -> None:
    store.add_session(Header(id="s"), [ONE, TWO])
    with pytest.raises(Missing) as caught:
        store.replace("s", record)
    assert caught.value.code == "record_missing"
    assert list(store.records("s")) == [ONE, TWO]


def test_a_store_in_memory_can_be_used_after_it_was_closed() -> None:
    store = MemoryStore()
    store.close()
    store.add_session(Header(id="s"), [ONE])
    store.close()
    assert store.heads("s") == {MAIN_BRANCH: "e1"}
