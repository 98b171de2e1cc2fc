"""PostgresStore on a real server, compared with MemoryStore."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest

from steno import ChatMessage, ToolCall, ToolResult
from steno.errors import (
    Damaged,
    InvalidValue,
    LogError,
    Missing,
    Unavailable,
    UnsupportedVersion,
)
from steno.log.chain import entry_digest
from steno.messages.content import Image, ImageData
from steno.messages.message import UserMessage
from steno.records.entry import Entry, Redacted
from steno.records.stored_record import MAIN_BRANCH, Header, Record
from steno.store import MemoryStore, Store, convert_store, open_store
from steno.store.postgres.store import PostgresStore
from tests.store.postgres.postgres_server import Server

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def store(postgres_address: str) -> Iterator[PostgresStore]:
    with PostgresStore(postgres_address) as opened:
        yield opened


def user_message(text: str) -> UserMessage:
    message = ChatMessage.user(text)
    assert isinstance(message, UserMessage)
    return message


def branched() -> MemoryStore:
    """Return a store with two sessions, one of which has branches, a rewind, calls and a redaction."""
    memory = MemoryStore()
    conversation = memory.new([ChatMessage.user("Is the Größe of read_file broken?")], id="talk")
    conversation.append(ChatMessage.assistant("I look.", [ToolCall.create("look", {}, id="c")]))
    conversation.append(ToolResult.success("c", "3 passed, 日本語 too"))
    first = conversation.entries()[0].id
    conversation.fork("other", at=first)
    conversation.fork("empty-handed")
    conversation.switch("other")
    conversation.append(ChatMessage.user("Or is it not broken at all?"))
    conversation.switch(MAIN_BRANCH)
    conversation.rewind(first)
    conversation.append(ChatMessage.assistant("It is not."), decision="kept", audit={"actor": "me"})
    memory.redact("talk", conversation.entries("other")[-1].id, actor="me", reason="a secret")
    memory.new([ChatMessage.user("broken again")], id="later", title="Later", about={"in": "/tmp"})
    return memory


def replay(source: Store, target: Store) -> None:
    """Repeat all operations on a store step by step."""
    for header in source.headers():
        target.add_session(header)
        for record in source.records(header.id):
            if record.entry is None:
                target.begin_branch(header.id, record.branch, record.at)
            else:
                assert record.digest is not None
                target.append(
                    header.id,
                    record.entry,
                    branch=record.branch,
                    digest=record.digest,
                    expected=target.heads(header.id).get(record.branch),
                )


def everything_in(store: Store) -> dict[str, object]:
    found: dict[str, object] = {}
    for header in store.headers():
        heads = store.heads(header.id)
        found[header.id] = (
            header,
            store.header(header.id),
            list(store.records(header.id)),
            list(heads.items()),
            store.summary(header.id),
            store.verify(header.id),
            {head: list(store.read_back(header.id, head)) for head in heads.values() if head},
        )
    queries = [
        "broken",
        "BROKEN not",
        "grösse",
        "file read",
        "日",
        "3 passed",
        "nothing",
        "",
        "secret",
    ]
    for query in queries:
        found[f"?{query}"] = store.search(query)
    return found


@pytest.mark.parametrize("copy", [replay, convert_store])
def test_all_content_is_the_same_as_in_memory(
    store: PostgresStore, copy: Callable[[Store, Store], object]
) -> None:
    memory = branched()
    copy(memory, store)
    assert everything_in(store) == everything_in(memory)


def test_a_reopened_conversation_continues_where_it_ended(store: PostgresStore) -> None:
    conversation = store.new([ChatMessage.user("one")])
    conversation.fork("side")
    conversation.switch("side")
    opened = store.open(conversation.id)
    assert opened.branch == "side"
    opened.append(ChatMessage.assistant("two"))
    conversation.refresh()
    assert [message.text for message in conversation.messages()] == ["one", "two"]
    assert store.verify(conversation.id).is_intact


def entry(id: str, parent: str | None = None, text: str = "hello") -> Entry:
    return Entry(id=id, parent=parent, time=NOON, payload=user_message(text))


def add(
    store: Store, one: Entry, *, branch: str = MAIN_BRANCH, expected: str | None = None
) -> None:
    store.append("s", one, branch=branch, digest=entry_digest(one, None), expected=expected)


@pytest.mark.parametrize(
    "act",
    [
        lambda store: store.header("nobody"),
        lambda store: store.heads("nobody"),
        lambda store: store.records("nobody"),
        lambda store: list(store.read_back("nobody", "e")),
        lambda store: list(store.read_back("s", "nothing")),
        lambda store: store.remove("nobody"),
        lambda store: store.replace("nobody", Record(seq=1, branch=MAIN_BRANCH)),
        lambda store: store.summary("nobody"),
        lambda store: store.append(
            "nobody", entry("x"), branch=MAIN_BRANCH, digest="0" * 64, expected=None
        ),
        lambda store: add(store, entry("x"), branch="nowhere"),
        lambda store: add(store, entry("x"), expected=None),
        lambda store: add(store, entry("x"), expected="other"),
        lambda store: add(store, entry("e"), expected="e"),
        lambda store: store.begin_branch("nobody", "b", None),
        lambda store: store.begin_branch("s", MAIN_BRANCH, None),
        lambda store: store.begin_branch("s", "side", "nothing"),
        lambda store: store.add_session(Header(id="s")),
        lambda store: store.header("\ud800"),
        lambda store: store.blob("0" * 64),
        lambda store: store.blob("no digest"),
    ],
)
def test_invalid_operations_raise_the_same_errors_as_in_memory(
    store: PostgresStore, act: Callable[[Store], object]
) -> None:
    memory = MemoryStore()
    refusals: list[str] = []
    for compared in (memory, store):
        compared.add_session(Header(id="s"))
        add(compared, entry("e"))
        with pytest.raises(LogError) as refused:
            act(compared)
        refusals.append(repr(refused.value))
    assert refusals[0] == refusals[1]
    assert everything_in(store) == everything_in(memory)


def test_a_missing_parent_is_missing_and_one_after_its_child_is_damage(
    store: PostgresStore,
) -> None:
    store.add_session(Header(id="s"))
    add(store, entry("e", parent="lost"))
    back = store.read_back("s", "e")
    assert next(back)[0].id == "e"
    with pytest.raises(Missing):
        next(back)
    add(store, entry("lost"), expected="e")
    with pytest.raises(Damaged):
        list(store.read_back("s", "e"))


def test_a_removed_session_leaves_nothing(
    store: PostgresStore, postgres_server: Server, postgres_address: str
) -> None:
    convert_store(branched(), store)
    store.remove("talk")
    assert [header.id for header in store.headers()] == ["later"]
    assert [hit.session for hit in store.search("broken")] == ["later"]
    store.remove("later")
    for table in ("session", "record", "branch"):
        assert not postgres_server.execute(f"SELECT 1 FROM steno.{table}", postgres_address)


# -- odd content -----------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["UTF8", "SQL_ASCII", "LATIN1"])
def test_any_text_and_any_name_is_kept_in_a_database_of_any_encoding(
    postgres_server: Server, encoding: str
) -> None:
    name = f"odd_{encoding.lower()}"
    postgres_server.execute(
        f"CREATE DATABASE {name} TEMPLATE template0 ENCODING {encoding} LOCALE 'C'"
    )
    memory = MemoryStore()
    odd = "s\0ß"
    long = "".join(
        sha256(str(number).encode()).hexdigest() for number in range(300)
    )  # that no one can compress
    conversation = memory.new(id=odd + long, title="\0")
    conversation.append(ChatMessage.user("NUL \0 in a text, an 😀 and " + long + " 日本"))
    conversation.fork(odd + long)
    conversation.switch(odd + long)
    with PostgresStore(postgres_server.address(name)) as store:
        replay(memory, store)
        assert everything_in(store) == everything_in(memory)
        assert store.search(long) == memory.search(long) != []
        assert store.search(long[:-1]) == []
        assert store.search("日本 nul") == memory.search("日本 nul") != []


def test_times_at_the_ends_of_the_calendar_are_kept(store: PostgresStore) -> None:
    store.add_session(Header(id="s"))
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    for number, time in enumerate([first, last, None]):
        one = Entry(id=f"e{number}", time=time, payload=user_message("hi"))
        add(store, one, expected=f"e{number - 1}" if number else None)
    assert store.summary("s").updated_at == last
    assert [hit.entry.id for hit in store.search("hi")] == ["e1", "e0", "e2"]


def test_search_is_newest_first_and_stops_at_its_limit_as_in_memory(store: PostgresStore) -> None:
    memory = MemoryStore()
    for compared in (memory, store):
        for session in ("a", "b"):
            compared.add_session(
                Header(id=session),
                [
                    Record(
                        seq=seq,
                        branch=MAIN_BRANCH,
                        entry=Entry(
                            id=f"{session}{seq}",
                            time=None if seq % 5 == 0 else NOON + timedelta(hours=seq % 4),
                            payload=user_message(f"word {seq}"),
                        ),
                        digest="0" * 64,
                    )
                    for seq in range(1, 21)
                ],
            )
    for limit in (0, 1, 7, 20, 100):
        assert store.search("word", limit=limit) == memory.search("word", limit=limit)


def test_large_records_are_read_in_small_pages(store: PostgresStore) -> None:
    memory = MemoryStore()
    conversation = memory.new(id="s")
    for letter in "abcdef":
        conversation.append(ChatMessage.user(letter * 3_000_000))
    convert_store(memory, store)
    assert everything_in(store) == everything_in(memory)


# -- many entries ----------------------------------------------------------------------------


def test_fifty_thousand_entries_arrive_and_are_read_both_ways(store: PostgresStore) -> None:
    def chain() -> Iterator[Record]:
        digest: str | None = None
        for seq in range(1, 50_001):
            parent = f"e{seq - 1}" if seq > 1 else None
            one = Entry(
                id=f"e{seq}", parent=parent, time=NOON, payload=user_message(f"question {seq}")
            )
            digest = entry_digest(one, digest)
            yield Record(seq=seq, branch=MAIN_BRANCH, entry=one, digest=digest)

    store.add_session(Header(id="s"), chain())
    assert [record.seq for record in store.records("s")] == list(range(1, 50_001))
    back = [found.id for found, _ in store.read_back("s", "e50000")]
    assert back == [f"e{seq}" for seq in range(50_000, 0, -1)]
    assert store.verify("s").is_intact
    assert store.summary("s")[1:4] == ("question 1", 50_000, (MAIN_BRANCH,))
    assert [hit.entry.id for hit in store.search("question 49321")] == ["e49321"]
    store.open("s").append(ChatMessage.user("one more"))
    assert store.summary("s").entries == 50_001


# -- redaction -------------------------------------------------------------------------------


def test_a_redaction_leaves_nothing_in_the_row_and_its_index(
    store: PostgresStore, postgres_server: Server, postgres_address: str
) -> None:
    conversation = store.new([ChatMessage.user("the password is swordfish")], id="s")
    index_content = "SELECT pg_read_binary_file(pg_relation_filepath('steno.record_words'))"
    postgres_server.execute(
        "VACUUM steno.record", postgres_address
    )  # moves the pending list of the GIN index into the index itself
    postgres_server.execute("CHECKPOINT", postgres_address)
    assert b"swordfish" in postgres_server.execute(index_content, postgres_address)[0][0]
    store.redact("s", conversation.entries()[0].id, actor="me", reason="a secret")
    postgres_server.execute("CHECKPOINT", postgres_address)
    assert b"swordfish" not in postgres_server.execute(index_content, postgres_address)[0][0]
    vacuums = "SELECT vacuum_count FROM pg_stat_all_tables WHERE relid = 'steno.record'::regclass"
    assert postgres_server.execute(vacuums, postgres_address) == [(2,)]
    assert store.search("swordfish") == []
    assert isinstance(next(store.records("s")).entry.payload, Redacted)  # type: ignore[union-attr] # it is an entry
    assert store.verify("s").is_intact
    assert store.summary("s").title == ""


def test_a_missing_record_cannot_be_replaced(store: PostgresStore) -> None:
    store.add_session(Header(id="s"))
    with pytest.raises(Missing):
        store.replace("s", Record(seq=1, branch=MAIN_BRANCH))


# -- blobs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 4 * 1024 * 1024, 9_000_001])
def test_blobs_are_read_back_unchanged(store: PostgresStore, size: int) -> None:
    data = bytes(range(251)) * (size // 251) + bytes(size % 251)
    digest = store.put_blob(data)
    assert store.blob(digest) == data
    assert [(blob.sha256, blob.size) for blob in store.blobs()] == [(digest, size)]


def test_a_blob_stored_again_counts_as_new_and_is_stored_once(store: PostgresStore) -> None:
    digest = store.put_blob(b"data")
    (first,) = store.blobs()
    store.put_blob(b"data")
    (second,) = store.blobs()
    assert second.stored_at > first.stored_at
    store.remove_blob(digest)
    store.remove_blob(digest)
    assert list(store.blobs()) == []
    with pytest.raises(Missing):
        store.blob(digest)


def test_a_changed_blob_is_damaged(
    store: PostgresStore, postgres_server: Server, postgres_address: str
) -> None:
    digest = store.put_blob(b"data")
    postgres_server.execute("UPDATE steno.blob_part SET data = 'date'", postgres_address)
    with pytest.raises(Damaged) as caught:
        store.blob(digest)
    assert (caught.value.code, caught.value.place) == ("blob_damaged", f"blob {digest}")


def test_images_are_blobs_until_no_record_refers_to_them(store: PostgresStore) -> None:
    picture = Image(source=ImageData(b"\x89PNG\r\n\x1a\n" + bytes(40_000)), mime_type="image/png")
    conversation = store.new([ChatMessage.user([picture])], id="s")
    assert store.restore_blobs(conversation.entries()[0].payload) == ChatMessage.user([picture])
    assert store.collect_garbage(older_than=timedelta()) == 0
    store.remove("s")
    assert store.collect_garbage(older_than=timedelta()) == 40_008


# -- damage ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "act"),
    [
        (
            "UPDATE steno.record SET body = '{'",
            lambda store: list(store.records("s")),
        ),
        (
            "UPDATE steno.record SET body = '{'",
            lambda store: list(store.read_back("s", "e")),
        ),
        ("UPDATE steno.session SET header = '[]'", lambda store: store.header("s")),
    ],
)
def test_an_unreadable_row_raises_damaged(
    postgres_server: Server,
    postgres_address: str,
    statement: str,
    act: Callable[[Store], object],
) -> None:
    with PostgresStore(postgres_address) as store:
        store.add_session(Header(id="s"))
        add(store, entry("e"))
        postgres_server.execute(statement, postgres_address)
        with pytest.raises(Damaged):
            act(store)


# -- reading without an open transaction -----------------------------------------------------


def test_a_reader_that_stops_early_leaves_no_transaction_or_connection_in_use(
    store: PostgresStore, postgres_server: Server, postgres_address: str
) -> None:
    conversation = store.new(map(ChatMessage.user, map(str, range(600))), id="s")
    last = conversation.entries()[-1].id
    readers = [*(store.records("s") for _ in range(9)), *(store.read_back("s", last) for _ in "ab")]
    for reader in readers:
        next(iter(reader))
    busy = """
        SELECT count(*) FROM pg_stat_activity
        WHERE application_name = 'steno' AND state <> 'idle' AND datname = current_database()
    """
    assert postgres_server.execute(busy, postgres_address) == [(0,)]
    conversation.append(ChatMessage.assistant("and still"))
    assert len(list(readers[0])) == 599  # as many as there were when it began
    assert len(list(readers[-1])) == 599


def test_reading_a_session_that_is_being_removed_raises_missing(
    store: PostgresStore,
) -> None:
    conversation = store.new(map(ChatMessage.user, map(str, range(300))), id="s")
    forward, back = store.records("s"), store.read_back("s", conversation.entries()[-1].id)
    next(forward)
    next(back)
    store.remove("s")
    store.new(map(ChatMessage.user, map(str, range(300))), id="s")
    for reader in (forward, back):
        with pytest.raises(Missing):
            list(reader)


# -- opening ---------------------------------------------------------------------------------


def test_an_address_of_postgresql_opens_this_store(postgres_address: str) -> None:
    with open_store(postgres_address) as store:
        assert isinstance(store, PostgresStore)
    with open_store(postgres_address.replace("postgresql:", "postgres:")) as store:
        assert list(store.headers()) == []


def test_schemas_do_not_see_each_other(postgres_address: str) -> None:
    with (
        PostgresStore(postgres_address) as one,
        PostgresStore(f"{postgres_address}&schema=select") as other,
    ):
        one.new([ChatMessage.user("hello")])
        assert list(other.headers()) == []
        assert other.search("hello") == []


@pytest.mark.parametrize("schema", ["", "a.b", 'a"b', "A", "a" * 64, "1"])
def test_a_schema_is_a_plain_word(postgres_address: str, schema: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        PostgresStore(f"{postgres_address}&schema={schema}")
    assert caught.value.code == "schema_name_invalid"


def test_tables_of_a_newer_version_are_refused(
    postgres_server: Server, postgres_address: str
) -> None:
    PostgresStore(postgres_address).close()
    postgres_server.execute("UPDATE steno.version SET number = 7", postgres_address)
    with pytest.raises(UnsupportedVersion) as caught:
        PostgresStore(postgres_address)
    assert caught.value.code == "unsupported_version"


def test_a_closed_store_raises_store_closed_and_may_be_closed_again(postgres_address: str) -> None:
    store = PostgresStore(postgres_address)
    store.close()
    store.close()
    with pytest.raises(Unavailable) as caught:
        store.header("s")
    assert caught.value.code == "store_closed"


def test_without_psycopg_the_error_names_the_extra() -> None:
    program = """
import sys
sys.modules["psycopg"] = None
from steno.store import open_store
open_store("postgresql://localhost/x")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (
        "MissingExtra: PostgresStore needs psycopg: pip install 'steno-agent[postgres]'"
        in done.stderr
    )
