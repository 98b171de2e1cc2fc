"""The SQLite store: one file, many writers; no entry is lost and no removed content remains."""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from multiprocessing.synchronize import Event
from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from steno import ChatMessage
from steno.codec import decode_record
from steno.errors import (
    Conflict,
    Damaged,
    InvalidDocument,
    InvalidValue,
    LogError,
    Missing,
    StenoError,
    Unavailable,
    UnsupportedVersion,
)
from steno.log.chain import entry_digest, redact_entry
from steno.records.entry import Entry, Label
from steno.records.stored_record import MAIN_BRANCH, Header, Record
from steno.store import MemoryStore, Store, open_store
from steno.store.sqlite.layout import APPLICATION_ID, INDEX_INTERVAL, LAYOUT_VERSION
from steno.store.sqlite.store import SqliteStore
from tests.store.sqlite import child_process

_PROGRAM = child_process.__file__
_TIME = datetime(2024, 5, 1, tzinfo=UTC)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "store.db"


@pytest.fixture
def store(file: Path) -> Iterator[SqliteStore]:
    with SqliteStore(file) as store:
        yield store


def _line(number: int, text: str = "hello") -> list[Record]:
    """Return the records of a session with this number of entries on its main branch."""
    records: list[Record] = []
    parent, digest = None, None
    for seq in range(1, number + 1):
        entry = Entry(
            id=f"e{seq}",
            parent=parent,
            time=_TIME + timedelta(seconds=seq),
            payload=ChatMessage.user(f"{text} {seq}"),
        )
        parent, digest = entry.id, entry_digest(entry, digest)
        records.append(Record(seq=seq, branch=MAIN_BRANCH, entry=entry, digest=digest))
    return records


def _entry(id: str, parent: str | None, text: str = "hi") -> Entry:
    return Entry(id=id, parent=parent, time=_TIME, payload=ChatMessage.user(text))


def _all_bytes(file: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(file.parent.glob(f"{file.name}*")))


def _log_of(file: Path) -> Path:
    return file.with_name(f"{file.name}-wal")


def _start(what: str, file: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, _PROGRAM, what, str(file), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _output(process: subprocess.Popen[str]) -> list[str]:
    """Let a process continue; return its output, and check that it exited with 0."""
    out, _ = process.communicate("\n", timeout=120)
    assert process.returncode == 0
    return out.split("\n")[:-1]


# -- the file --------------------------------------------------------------------------------


def test_files_and_folders_are_for_their_owner_only(store: SqliteStore, file: Path) -> None:
    store.new([ChatMessage.user("hello")])
    assert file.parent.stat().st_mode & 0o777 == 0o700
    files = sorted(file.parent.iterdir())
    assert [path.name for path in files] == ["store.db", "store.db-shm", "store.db-wal"]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_missing_parent_folders_are_created(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "a" / "b" / "store.db").close()
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


def test_an_address_opens_this_store(tmp_path: Path) -> None:
    with open_store(f"sqlite:{tmp_path / 'a #%?.db'}") as store:
        assert isinstance(store, SqliteStore)
    assert [path.name for path in tmp_path.iterdir()] == ["a #%?.db"]


def test_the_file_has_the_application_id(store: SqliteStore, file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert db.execute("PRAGMA user_version").fetchone() == (LAYOUT_VERSION,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_closing_leaves_one_file_with_everything_in_it(file: Path) -> None:
    with SqliteStore(file) as store:
        store.new([ChatMessage.user("hello")], id="s")
    assert [path.name for path in file.parent.iterdir()] == ["store.db"]
    with SqliteStore(file) as store:
        assert [message.text for message in store.open("s").messages()] == ["hello"]


def test_closing_while_others_are_open_moves_all_content_into_the_file(
    store: SqliteStore, file: Path
) -> None:
    with SqliteStore(file) as other:
        other.new([ChatMessage.user("needle")], id="s")
        assert b"needle" not in file.read_bytes()
    assert b"needle" in file.read_bytes()
    assert _log_of(file).stat().st_size == 0


def test_a_closed_store_raises_unavailable(store: SqliteStore) -> None:
    conversation = store.new([ChatMessage.user("hello")])
    store.close()
    store.close()
    with pytest.raises(Unavailable) as caught:
        conversation.append(ChatMessage.user("more"))
    assert caught.value.code == "store_closed"
    uses: list[Callable[[], object]] = [
        lambda: store.add_session(Header(id="s")),
        store.headers,
        lambda: store.header("s"),
        lambda: store.begin_branch("s", "b", None),
        lambda: store.heads("s"),
        lambda: next(store.read_back("s", "e1")),
        lambda: store.records("s"),
        lambda: store.replace("s", _line(1)[0]),
        lambda: store.remove("s"),
        lambda: store.summary("s"),
        lambda: store.verify("s"),
        lambda: store.search("hello"),
        lambda: store.put_blob(b""),
        lambda: store.blob("0" * 64),
        store.blobs,
        lambda: store.remove_blob("0" * 64),
        store.compact,
    ]
    for use in uses:
        with pytest.raises(Unavailable) as caught:
            use()
        assert caught.value.code == "store_closed"


def test_an_empty_file_becomes_a_store(file: Path) -> None:
    file.parent.mkdir()
    file.touch()
    with SqliteStore(file) as store:
        assert list(store.headers()) == []


def test_a_database_without_tables_becomes_a_store(file: Path) -> None:
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as db:
        db.execute("VACUUM")
    with SqliteStore(file) as store:
        store.new(id="s")
        assert store.header("s").id == "s"


def test_an_interrupted_creation_is_completed(file: Path) -> None:
    """The journal mode is set before the tables are created: a crash may come between the two."""
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    with SqliteStore(file) as store:
        assert list(store.headers()) == []


def test_a_database_of_another_program_is_left_alone(file: Path) -> None:
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE theirs (a)")
    before = file.read_bytes()
    with pytest.raises(InvalidDocument) as caught:
        SqliteStore(file)
    assert caught.value.code == "foreign_file"
    assert file.read_bytes() == before
    assert len(list(file.parent.iterdir())) == 1


def test_a_database_of_a_newer_version_is_refused(file: Path) -> None:
    SqliteStore(file).close()
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"PRAGMA user_version = {LAYOUT_VERSION + 1}")
    with pytest.raises(UnsupportedVersion) as caught:
        SqliteStore(file)
    assert caught.value.code == "unsupported_version"


def test_a_file_that_is_not_a_database_is_damaged(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"some other file, not short " * 100)
    with pytest.raises(Damaged) as caught:
        SqliteStore(file)
    assert isinstance(caught.value.__cause__, sqlite3.Error)


def test_a_path_where_no_file_can_be_created_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    places = {tmp_path / "file" / "store.db": "cannot_create", tmp_path / "folder": "cannot_open"}
    for place, code in places.items():
        with pytest.raises(Unavailable) as caught:
            SqliteStore(place)
        assert caught.value.code == code


def test_an_unknown_durability_is_refused(file: Path) -> None:
    SqliteStore(file, durability="normal").close()
    with pytest.raises(InvalidValue):
        SqliteStore(file, durability="none")  # type: ignore[arg-type]


# -- sessions and branches -------------------------------------------------------------------


def _use(store: Store) -> None:
    """Use every operation, often enough to write several blocks of records."""
    store.add_session(Header(id="s", created_at=_TIME))
    head: dict[str, str | None] = {MAIN_BRANCH: None}
    for number in range(3 * INDEX_INTERVAL):
        if number % 20 == 5:
            name = f"b{number}"
            store.begin_branch("s", name, head[MAIN_BRANCH])
            head[name] = head[MAIN_BRANCH]
        branch = list(head)[number * 7 % len(head)]
        entry = _entry(f"e{number:03}", head[branch], f"text {number}")
        store.append("s", entry, branch=branch, digest="0" * 64, expected=head[branch])
        head[branch] = entry.id
    store.begin_branch("s", "empty", None)
    store.begin_branch("s", "idle", "e003")
    store.add_session(Header(id="t", title="named"), _line(INDEX_INTERVAL - 1))
    store.append(
        "t",
        _entry("z", "e1"),
        branch=MAIN_BRANCH,
        digest="1" * 64,
        expected=f"e{INDEX_INTERVAL - 1}",
    )


def test_all_content_equals_that_of_the_store_in_memory(store: SqliteStore) -> None:
    memory = MemoryStore()
    _use(memory)
    _use(store)
    assert list(store.headers()) == list(memory.headers())
    for name in ("s", "t"):
        assert list(store.records(name)) == list(memory.records(name))
        assert list(store.heads(name).items()) == list(memory.heads(name).items())
        assert store.summary(name) == memory.summary(name)
        for head in memory.heads(name).values():
            if head is not None:
                assert list(store.read_back(name, head)) == list(memory.read_back(name, head))


def test_a_copied_session_has_the_same_content(store: SqliteStore) -> None:
    _use(store)
    copy = store.clone("s")
    assert list(store.records(copy.id)) == list(store.records("s"))
    assert list(store.heads(copy.id).items()) == list(store.heads("s").items())
    assert store.summary(copy.id)[2:] == store.summary("s")[2:]
    assert store.verify(store.clone("t").id).entries == INDEX_INTERVAL


@pytest.mark.parametrize(
    "before", [0, 1, INDEX_INTERVAL - 1, INDEX_INTERVAL, INDEX_INTERVAL + 1, 2 * INDEX_INTERVAL]
)
def test_a_refused_append_writes_nothing(store: SqliteStore, before: int) -> None:
    store.add_session(Header(id="s"), _line(before))
    head = f"e{before}" if before else None
    entry = _entry("new", head)

    def attempt(
        session: str, branch: str, expected: str | None, entry: Entry, error: type[StenoError]
    ) -> None:
        with pytest.raises(error):
            store.append(session, entry, branch=branch, digest="0" * 64, expected=expected)

    attempt("other", MAIN_BRANCH, head, entry, Missing)
    attempt("s", "other", head, entry, Missing)
    attempt("s", MAIN_BRANCH, "other", entry, Conflict)
    if before:
        attempt("s", MAIN_BRANCH, None, entry, Conflict)
        for taken in ("e1", f"e{before}"):
            attempt("s", MAIN_BRANCH, head, _entry(taken, head), Conflict)
    assert len(list(store.records("s"))) == before
    store.append("s", entry, branch=MAIN_BRANCH, digest="0" * 64, expected=head)
    assert len(list(store.records("s"))) == before + 1


def test_a_refused_branch_writes_nothing(store: SqliteStore) -> None:
    store.add_session(Header(id="s"), _line(2))
    with pytest.raises(Conflict):
        store.begin_branch("s", MAIN_BRANCH, None)
    with pytest.raises(Missing):
        store.begin_branch("s", "b", "other")
    with pytest.raises(Missing):
        store.begin_branch("other", "b", None)
    assert len(list(store.records("s"))) == 2


def test_a_session_with_an_existing_id_is_refused(store: SqliteStore) -> None:
    store.add_session(Header(id="s"), _line(2))
    with pytest.raises(Conflict):
        store.add_session(Header(id="s"), _line(3))
    assert len(list(store.records("s"))) == 2


def test_inconsistent_records_are_refused_as_a_whole(store: SqliteStore) -> None:
    first, second = _line(2)
    for records in ([second], [first, replace(first, seq=2)]):
        with pytest.raises(Damaged):
            store.add_session(Header(id="s"), records)
    assert list(store.headers()) == []


def test_an_error_in_the_source_of_records_stores_nothing(store: SqliteStore) -> None:
    def coming() -> Iterator[Record]:
        yield from _line(3)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.add_session(Header(id="s"), coming())
    assert list(store.headers()) == []


def test_a_missing_parent_raises_missing(store: SqliteStore) -> None:
    store.add_session(Header(id="s"))
    store.append("s", _entry("a", "unknown"), branch=MAIN_BRANCH, digest="0" * 64, expected=None)
    path = store.read_back("s", "a")
    assert next(path)[0].id == "a"
    with pytest.raises(Missing):
        next(path)
    with pytest.raises(Missing):
        next(store.read_back("s", "b"))


def test_names_with_a_lone_surrogate_raise_missing(store: SqliteStore) -> None:
    with pytest.raises(Missing):
        store.header("\ud800")


def test_records_of_a_newer_version_are_stored_unchanged(store: SqliteStore) -> None:
    record = decode_record(
        b'{"seq":1,"branch":"main","entry":{"v":99,"id":"n","x":[1.0]},'
        b'"digest":"%s","later":{"a":1}}' % (b"0" * 64)
    )
    store.add_session(Header(id="s"), [record])
    assert list(store.records("s")) == [record]
    assert store.heads("s") == {MAIN_BRANCH: "n"}


def test_a_removed_session_is_gone_and_others_are_not(store: SqliteStore) -> None:
    store.add_session(Header(id="s"), _line(200))
    store.add_session(Header(id="t"), _line(2))
    reading = store.records("s")
    next(reading)
    store.remove("s")
    for use in (store.header, store.heads, store.records, store.summary, store.remove):
        with pytest.raises(Missing):
            use("s")
    assert len(list(store.records("t"))) == 2
    store.add_session(Header(id="s"), _line(200))
    with pytest.raises(Missing) as caught:
        list(reading)
    assert caught.value.code == "session_removed"


def test_a_header_that_cannot_be_read_hides_no_other(store: SqliteStore, file: Path) -> None:
    for name in ("bad", "newer", "good"):
        store.add_session(Header(id=name), _line(2))
    with closing(sqlite3.connect(file)) as db, db:
        for name, header in (("bad", b"\0"), ("newer", b'{"v":99,"id":"newer"}')):
            values = (header, crc32(header), name)
            db.execute("UPDATE session SET header = ?, checksum = ? WHERE id = ?", values)
    for name, error in (("bad", Damaged), ("newer", UnsupportedVersion)):
        headers = store.headers()
        assert next(headers).id == "good"
        with pytest.raises(error):
            next(headers)
        store.remove(name)
    assert [header.id for header in store.headers()] == ["good"]


def _note(seq: int, branch: str) -> Record:
    """Return a record of a kind that only a newer version knows."""
    return decode_record(b'{"seq":%d,"branch":"%s","note":{"a":1}}' % (seq, branch.encode()))


@pytest.mark.parametrize(
    "before",
    [
        1,
        INDEX_INTERVAL - 3,
        INDEX_INTERVAL - 2,
        INDEX_INTERVAL - 1,
        INDEX_INTERVAL,
        2 * INDEX_INTERVAL,
    ],
)
@pytest.mark.parametrize("notes", [1, 2, INDEX_INTERVAL, 2 * INDEX_INTERVAL])
def test_a_record_without_entry_moves_no_branch_that_exists(
    store: SqliteStore, before: int, notes: int
) -> None:
    records = [
        *_line(before),
        Record(seq=before + 1, branch="idle", at="e1"),
        *[_note(before + 2 + number, (MAIN_BRANCH, "idle")[number % 2]) for number in range(notes)],
    ]
    store.add_session(Header(id="s"), records)
    assert list(store.records("s")) == records
    assert list(store.heads("s").items()) == [("idle", "e1"), (MAIN_BRANCH, f"e{before}")]
    assert store.summary("s")[2:4] == (before, ("idle", MAIN_BRANCH))
    with pytest.raises(Conflict):
        store.begin_branch("s", "idle", None)
    head = f"e{before}"
    for number in range(INDEX_INTERVAL):  # one by one, over the end of a block
        entry = _entry(f"n{number}", head)
        store.append("s", entry, branch=MAIN_BRANCH, digest="0" * 64, expected=head)
        head = entry.id
        assert list(store.heads("s").items()) == [("idle", "e1"), (MAIN_BRANCH, head)]
    store.append("s", _entry("i", "e1"), branch="idle", digest="0" * 64, expected="e1")
    assert list(store.heads("s").items()) == [(MAIN_BRANCH, head), ("idle", "i")]


# -- reading long sessions -------------------------------------------------------------------


def test_a_session_of_fifty_thousand_entries_opens_and_continues(store: SqliteStore) -> None:
    store.add_session(Header(id="s"), _line(50_000))
    conversation = store.open("s")
    assert len(conversation.entries()) == 50_000
    conversation.append(ChatMessage.user("one more"))
    assert store.verify("s").is_intact
    summary = store.summary("s")
    assert (summary.title, summary.entries, summary.branches) == ("hello 1", 50_001, (MAIN_BRANCH,))


def test_a_summary_and_a_short_branch_read_a_few_records_only(
    store: SqliteStore, file: Path
) -> None:
    """The other records are damaged, so reading them would raise."""
    store.add_session(Header(id="s"), _line(1000))
    store.begin_branch("s", "short", "e3")
    store.append("s", _entry("x", "e3"), branch="short", digest="0" * 64, expected="e3")
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE record SET data = x'00' WHERE key & 0xFFFF BETWEEN 9 AND 1000")
    assert [entry.id for entry, _ in store.read_back("s", "x")] == ["x", "e3", "e2", "e1"]
    assert store.summary("s").entries == 1001
    with pytest.raises(Damaged) as caught:
        list(store.records("s"))
    assert (caught.value.code, caught.value.place) == ("checksum_mismatch", "record 9")


def test_a_reader_sees_the_records_that_existed_when_it_began(
    store: SqliteStore, file: Path
) -> None:
    store.add_session(Header(id="s"), _line(200))
    reading, path = store.records("s"), store.read_back("s", "e200")
    next(reading)
    next(path)
    with SqliteStore(file) as other:
        other.open("s").append(ChatMessage.user("more"))
        other.redact("s", "e150", actor="me", reason="no")  # readers are no obstacle
    assert len(list(reading)) == 199
    assert len(list(path)) == 199


# -- bytes that are written ------------------------------------------------------------------


def _growth(store: SqliteStore, file: Path, text: str) -> int:
    """Return how many bytes a block of appends adds to the write-ahead log."""
    conversation = store.open("s")
    conversation.entries()
    before = _log_of(file).stat().st_size
    for _ in range(INDEX_INTERVAL):
        conversation.append(ChatMessage.user(text))
    return _log_of(file).stat().st_size - before


@pytest.mark.parametrize(("size", "most"), [(200, 5_000), (1700, 7_600)])
def test_an_append_writes_little_and_not_more_in_a_long_session(
    tmp_path: Path, size: int, most: int
) -> None:
    growth: list[int] = []
    for number in (INDEX_INTERVAL, 20_000 // INDEX_INTERVAL * INDEX_INTERVAL):
        file = tmp_path / f"{number}.db"
        with SqliteStore(file) as store:
            store.add_session(Header(id="s"), _line(number))
        with SqliteStore(file) as store:
            _growth(store, file, "x" * size)  # the first one also begins the log
            growth.append(_growth(store, file, "x" * size) // INDEX_INTERVAL)
    assert max(growth) < most
    assert growth[1] < growth[0] * 1.3  # a tree of pages may be one or two higher


def test_an_append_is_on_the_disk_when_it_returns(store: SqliteStore, file: Path) -> None:
    """The files hold everything at this moment, also for a copy of them."""
    store.new([ChatMessage.user("hello")], id="s")
    copy = file.parent / "copy.db"
    copy.write_bytes(file.read_bytes())
    _log_of(copy).write_bytes(_log_of(file).read_bytes())
    with SqliteStore(copy) as other:
        assert len(other.open("s").entries()) == 1
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)


# -- threads and processes -------------------------------------------------------------------


def test_threads_may_share_a_store(store: SqliteStore) -> None:
    store.add_session(Header(id="s"), _line(100))
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            store.new([ChatMessage.user("hello")], id=f"own {number}")
            store.begin_branch("s", f"b{number}", "e100")
            conversation = store.open("s")
            for _ in range(10):
                conversation.append(ChatMessage.user("hi"), branch=f"b{number}")
                assert len(list(store.records("s"))) > 100
                store.search("hello")
        except BaseException as exc:  # noqa: BLE001 - it is raised again by the test
            errors.append(exc)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert store.summary("s").entries == 160
    assert len(store.search("hi", limit=100)) == 60
    assert store.verify("s").is_intact


def test_several_processes_may_make_the_store_at_once(file: Path) -> None:
    for attempt in range(4):
        place = file.with_name(f"{attempt}.db")
        processes = [_start("create", place, f"s{number}") for number in range(4)]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        assert [_output(process) for process in processes] == [["done"]] * 4
        with SqliteStore(place) as store:
            assert sorted(header.id for header in store.headers()) == ["s0", "s1", "s2", "s3"]


def test_several_processes_may_append_to_the_same_and_to_other_branches(
    store: SqliteStore, file: Path
) -> None:
    conversation = store.new([ChatMessage.user("hello")], id="s")
    for name in ("b", "c"):
        conversation.fork(name)
    processes = [
        _start("append", file, name, "25") for name in (MAIN_BRANCH, MAIN_BRANCH, "b", "c")
    ]
    acknowledged = [_output(process)[1:] for process in processes]
    assert store.verify("s").is_intact
    for branch, ids in (
        (MAIN_BRANCH, [*acknowledged[0], *acknowledged[1]]),
        ("b", acknowledged[2]),
    ):
        path = [entry.id for entry in store.open("s").entries(branch)]
        assert set(ids) < set(path)
        assert len(path) == len(ids) + 1


def test_acknowledged_entries_survive_a_kill(file: Path) -> None:
    with SqliteStore(file) as store:
        store.new(id="s")
    acknowledged: list[str] = []
    for attempt in range(5):
        process = _start("append_for_ever", file)
        assert process.stdout is not None
        acknowledged += [process.stdout.readline().strip() for _ in range(20 + 7 * attempt)]
        process.kill()
        acknowledged += process.stdout.read().split()  # also what was read ahead
        process.communicate(timeout=60)
        with SqliteStore(file) as store:
            path = [entry.id for entry in store.open("s").entries()]
            assert store.verify("s").is_intact
            assert [id for id in path if id in set(acknowledged)] == acknowledged
            assert len(path) <= len(acknowledged) + attempt + 1


def _append_in_child(store: SqliteStore, is_writing: Event, is_closed: Event) -> None:
    store.open("s").append(ChatMessage.user("child"), branch="b")
    is_writing.set()
    assert is_closed.wait(60)
    store.open("s").append(ChatMessage.user("child again"), branch="b")


def test_a_store_may_be_used_on_both_sides_of_a_fork(store: SqliteStore, file: Path) -> None:
    conversation = store.new([ChatMessage.user("hello")], id="s")
    conversation.fork("b")
    reading = store.records("s")
    next(reading)
    context = multiprocessing.get_context("fork")
    is_writing, is_closed = context.Event(), context.Event()
    child = context.Process(target=_append_in_child, args=(store, is_writing, is_closed))
    child.start()
    assert len(list(reading)) == 1
    assert is_writing.wait(60)
    conversation.append(ChatMessage.user("parent"))
    store.close()  # takes the log away if it believes to be the last
    is_closed.set()
    child.join(60)
    assert child.exitcode == 0
    with SqliteStore(file) as again:
        texts = [message.text for message in again.open("s").messages("b")]
        assert texts == ["hello", "child", "child again"]
        assert len(list(again.records("s"))) == 5


def test_a_store_that_stays_locked_is_unavailable(file: Path) -> None:
    with SqliteStore(file, timeout_s=0.05) as store, closing(sqlite3.connect(file)) as other:
        conversation = store.new([ChatMessage.user("hello")], id="s")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable) as caught:
            conversation.append(ChatMessage.user("more"))
        assert caught.value.code == "locked"
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        assert len(store.open("s").entries()) == 1
        with SqliteStore(file, timeout_s=0.05) as impatient:
            assert len(impatient.search("hello")) == 1
        other.rollback()
        conversation.append(ChatMessage.user("more"))


def _interrupted(wait: Callable[[], object], use: Callable[[], object]) -> None:
    """Let a signal interrupt the use of a store as Ctrl-C does."""
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    main = threading.get_ident()

    def interrupt() -> None:
        wait()
        signal.pthread_kill(main, signal.SIGUSR1)

    thread = threading.Thread(target=interrupt)
    gc.disable()  # what others have to do then would be interrupted, and complain
    try:
        with suppress(KeyboardInterrupt):
            thread.start()
            use()
            thread.join(60)
    finally:
        with suppress(KeyboardInterrupt):
            thread.join(60)
        signal.signal(signal.SIGUSR1, before)
        gc.enable()


def test_an_interrupt_while_it_waits_for_others_leaves_nothing_open(
    store: SqliteStore, file: Path
) -> None:
    conversation = store.new([ChatMessage.user("hello")], id="s")
    with closing(sqlite3.connect(file, timeout=0, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.4, other.rollback)
        release.start()
        _interrupted(
            lambda: time.sleep(0.2),
            lambda: store.open("s").append(ChatMessage.user("interrupted")),
        )
        release.join(60)
        other.execute("BEGIN IMMEDIATE")
        other.rollback()
    assert [message.text for message in store.open("s").messages()] == ["hello"]
    conversation.append(ChatMessage.user("more"))


def test_an_interrupt_at_any_time_leaves_nothing_open(file: Path) -> None:
    random = Random(5)
    with (
        SqliteStore(file, durability="normal") as store,
        closing(sqlite3.connect(file, timeout=0)) as other,
    ):
        store.new(id="s")

        def work() -> None:
            for _ in range(5):
                store.open("s").append(ChatMessage.user("x"))
                store.heads("s")

        for _ in range(150):
            _interrupted(lambda: time.sleep(random.random() * 0.004), work)
            other.execute("BEGIN IMMEDIATE")
            other.rollback()
        assert store.verify("s").is_intact


# -- damaged files ---------------------------------------------------------------------------


def _noise(random: Random, data: bytes) -> bytes:
    spoiled = bytearray(data)
    match random.randrange(3):
        case 0:
            return bytes(spoiled[: random.randrange(1, len(spoiled))])
        case 1:
            place = random.randrange(len(spoiled))
            spoiled[place : place + 600] = random.randbytes(len(spoiled[place : place + 600]))
        case _:
            for _ in range(3):
                spoiled[random.randrange(len(spoiled))] ^= 1 << random.randrange(8)
    return bytes(spoiled)


def test_a_damaged_file_never_yields_wrong_records(file: Path) -> None:
    records = _line(120, text="hello " * 20)
    with SqliteStore(file) as store:
        store.add_session(Header(id="s"), records)
        store.search("hello")
    whole = file.read_bytes()
    expected = [(record.entry, record.digest) for record in reversed(records)]
    random, refused = Random(7), 0
    # Data derived from records may be wrong after damage, and must not raise.
    reads: list[Callable[[SqliteStore], bool]] = [
        lambda store: list(store.records("s")) == records,
        lambda store: list(store.read_back("s", "e120")) == expected,
        lambda store: len(store.search("hello")) >= 0,
        lambda store: len(store.summary("s").branches) >= 0,
        lambda store: len(store.heads("s")) >= 0,
        lambda store: len(list(store.blobs())) >= 0,
    ]
    for _ in range(150):
        file.write_bytes(_noise(random, whole))
        for read in reads:
            try:
                with SqliteStore(file, timeout_s=0.1) as store:
                    assert read(store)
            except (LogError, InvalidDocument):
                refused += 1
    assert refused > 100


def test_data_that_another_program_changed_is_damaged(store: SqliteStore, file: Path) -> None:
    store.add_session(Header(id="s"), _line(3))
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE record SET data = CAST(replace(data, 'hello 2', 'jello 2') AS BLOB)")
    for read in (store.records("s"), store.read_back("s", "e3")):
        with pytest.raises(Damaged) as caught:
            list(read)
        assert (caught.value.code, caught.value.place) == ("checksum_mismatch", "record 2")


def test_a_missing_record_is_damage(store: SqliteStore, file: Path) -> None:
    store.add_session(Header(id="s"), _line(100))
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("DELETE FROM record WHERE key & 0xFFFF = 80")
    with pytest.raises(Damaged) as caught:
        list(store.records("s"))
    assert caught.value.code == "record_lost"
    with pytest.raises(LogError):
        list(store.read_back("s", "e100"))


def test_errors_other_than_corruption_are_not_damage(store: SqliteStore, file: Path) -> None:
    store.add_session(Header(id="s"), _line(1))
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("DROP TABLE branch")
    with pytest.raises(Unavailable) as caught:
        store.heads("s")
    assert caught.value.code == "sqlite_refused"


@pytest.mark.parametrize(
    ("change", "seq"),
    [
        ("id = 'zz'", 20),
        ("id = NULL", 40),
        ("parent = 3", 20),
        ("parent = 999", 20),
        ("parent = NULL", 20),
        ("parent = 0", 20),
        ("parent = 0", 1),
        ("parent = 999", 1),
    ],
)
def test_columns_that_another_program_changed_are_damaged(
    store: SqliteStore, file: Path, change: str, seq: int
) -> None:
    store.add_session(Header(id="s"), _line(40))
    assert store.verify("s").is_intact
    with closing(sqlite3.connect(file)) as db, db:
        db.execute(f"UPDATE record SET {change} WHERE key & 0xFFFF = {seq}")
    with pytest.raises(Damaged) as caught:
        list(store.records("s"))
    assert (caught.value.code, caught.value.place) == ("columns_disagree", f"record {seq}")
    with pytest.raises(Damaged) as caught:
        store.verify("s")
    assert (caught.value.code, caught.value.place) == ("columns_disagree", f"record {seq}")


# -- erasing ---------------------------------------------------------------------------------

_SECRET = b"zanzibar"


def _with_secret(store: Store, number: int, size: int) -> None:
    records = _line(number)
    secret = f"{_SECRET.decode()}{size} " * (size // 10) + _SECRET.decode()
    for seq, record in enumerate(records, 1):
        text = secret if seq == 2 else "filler " * (size // 9 + seq)
        assert record.entry is not None
        entry = replace(record.entry, payload=ChatMessage.user(text))
        records[seq - 1] = replace(record, entry=entry)
    store.add_session(Header(id=f"s{size}"), records)


@pytest.mark.parametrize("size", [20, 300, 900, 5_000, 100_000])
@pytest.mark.parametrize("searched", [True, False])
@pytest.mark.parametrize("how", ["replace", "remove"])
def test_redacted_and_removed_content_is_in_no_file(
    file: Path, size: int, searched: bool, how: str
) -> None:
    with SqliteStore(file) as store:
        for other in ("30", "400", "1000"):
            store.add_session(Header(id=other), _line(10, text="x" * int(other)))
        _with_secret(store, 5, size)
        for _ in range(3):  # rows move when others come and go
            for other in ("30", "400", "1000"):
                conversation = store.open(other)
                for _ in range(5):
                    conversation.append(ChatMessage.user("y" * size))
        if searched:
            assert len(store.search(_SECRET.decode())) == 1
        assert _SECRET in _all_bytes(file)
        session = f"s{size}"
        if how == "replace":
            record = list(store.records(session))[1]
            assert record.entry is not None
            store.replace(session, replace(record, entry=redact_entry(record.entry)))
            assert [record.seq for record in store.records(session)] == [1, 2, 3, 4, 5]
        else:
            store.remove(session)
        assert _SECRET not in _all_bytes(file)
        assert store.search(_SECRET.decode()) == []
        assert len(store.search("filler", limit=10)) == (4 if how == "replace" else 0)


def test_moved_rows_leave_no_copies_of_removed_content(file: Path) -> None:
    """Pages that are split and joined must not keep copies of rows that moved to other pages."""
    random = Random(3)
    with SqliteStore(file) as store:
        for number in range(12):
            store.new(id=f"s{number}")
        places: list[tuple[str, str]] = []
        for number in range(150):
            name = f"s{random.randrange(12)}"
            text = f"{_SECRET.decode()}{number} " * random.randrange(1, 60)
            places.append((name, store.open(name).append(ChatMessage.user(text)).id))
        store.search(_SECRET.decode())
        random.shuffle(places)
        for name, entry_id in places:
            record = next(
                record
                for record in store.records(name)
                if record.entry is not None and record.entry.id == entry_id
            )
            assert record.entry is not None
            store.replace(name, replace(record, entry=redact_entry(record.entry)))
        assert _SECRET not in _all_bytes(file)


def test_the_file_shrinks_when_much_of_it_is_free(store: SqliteStore, file: Path) -> None:
    for name in ("s", "t"):
        store.add_session(Header(id=name), _line(100, text="x" * 1000))
    before = file.stat().st_size + _log_of(file).stat().st_size
    store.remove("s")
    assert file.stat().st_size < before * 0.6
    assert len(list(store.records("t"))) == 100


def test_redaction_keeps_the_chain(store: SqliteStore, file: Path) -> None:
    conversation = store.new([ChatMessage.user(_SECRET.decode())], id="s")
    store.redact("s", next(iter(conversation.entries())).id, actor="me", reason="a wish")
    assert store.verify("s").is_intact
    assert _SECRET not in _all_bytes(file)
    assert [hit.entry.payload.__class__.__name__ for hit in store.search("wish")] == ["Redaction"]


def _free_pages(file: Path) -> int:
    with closing(sqlite3.connect(file)) as db:
        found: int = db.execute("PRAGMA freelist_count").fetchone()[0]
    return found


def test_a_record_may_be_replaced_by_itself_and_all_is_erased_again(
    store: SqliteStore, file: Path
) -> None:
    store.add_session(Header(id="gone"), _line(20, text="x" * 300))
    store.add_session(Header(id="s"), _line(200, text="x" * 300))
    store.search("x")
    store.remove("gone")
    assert _free_pages(file) > 0
    records = list(store.records("s"))
    store.replace("s", records[1])
    assert _free_pages(file) == 0
    assert list(store.records("s")) == records


def test_an_interrupted_erasure_can_be_repeated(store: SqliteStore, file: Path) -> None:
    _with_secret(store, 5, 900)
    store.add_session(Header(id="gone"), _line(20, text="x" * 300))
    store.add_session(Header(id="filler"), _line(1000, text="x" * 1000))
    store.remove("gone")
    record = list(store.records("s900"))[1]
    assert record.entry is not None
    without = replace(record, entry=redact_entry(record.entry))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, limits[1]))
    try:
        with pytest.raises(Unavailable):
            store.replace("s900", without)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert _free_pages(file) > 0
    store.replace("s900", list(store.records("s900"))[1])
    assert list(store.records("s900"))[1] == without
    assert _free_pages(file) == 0
    assert _SECRET not in _all_bytes(file)


_COMPACT = """
import sqlite3, sys
from steno.store.sqlite.store import SqliteStore
sqlite3.connect(":memory:").execute("PRAGMA hard_heap_limit = 20000000")  # of the process, for good
with SqliteStore(sys.argv[1]) as store:
    store.compact()
"""


def test_rewriting_the_file_needs_little_memory(file: Path) -> None:
    with SqliteStore(file, durability="normal") as store:
        for _ in range(40):
            store.put_blob(os.urandom(1_000_000))
    assert subprocess.run([sys.executable, "-c", _COMPACT, str(file)], check=False).returncode == 0


def test_the_temporary_folder_is_set_only_while_the_file_is_rewritten(tmp_path: Path) -> None:
    folder = tmp_path / "it's"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    seen: set[tuple[str, ...]] = set()
    with (
        SqliteStore(folder / "store.db", durability="normal") as store,
        closing(sqlite3.connect(":memory:", check_same_thread=False)) as db,
    ):
        for _ in range(20):
            store.put_blob(os.urandom(1_000_000))
        db.execute(f"PRAGMA temp_store_directory = '{elsewhere}'")
        thread = threading.Thread(target=store.compact)
        thread.start()
        while thread.is_alive():
            seen.add(db.execute("PRAGMA temp_store_directory").fetchone())
            time.sleep(0.001)
        assert (str(folder),) in seen
        assert db.execute("PRAGMA temp_store_directory").fetchone() == (str(elsewhere),)
        db.execute("PRAGMA temp_store_directory = ''")
        store.compact()
        assert db.execute("PRAGMA temp_store_directory").fetchone() is None


def test_an_erasure_is_refused_while_another_program_reads_old_content(file: Path) -> None:
    with SqliteStore(file, timeout_s=0.05) as store, closing(sqlite3.connect(file)) as other:
        store.add_session(Header(id="s"), _line(2))
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM record").fetchone()
        store.add_session(Header(id="t"))
        before = list(store.records("s"))
        assert before[0].entry is not None
        without = replace(before[0], entry=redact_entry(before[0].entry))
        with pytest.raises(Unavailable) as caught:
            store.replace("s", without)
        assert caught.value.code == "erasure_blocked"
        with pytest.raises(Unavailable) as caught:
            store.remove("s")
        assert caught.value.code == "erasure_blocked"
        assert list(store.records("s")) == before
        other.rollback()
        store.replace("s", without)
        assert next(store.records("s")) == without


def test_only_an_existing_record_can_be_replaced(store: SqliteStore) -> None:
    first, second = _line(2)
    store.add_session(Header(id="s"), [first])
    for record in (second, replace(first, branch="b"), Record(seq=1, branch=MAIN_BRANCH)):
        with pytest.raises(Missing):
            store.replace("s", record)
    assert list(store.records("s")) == [first]


# -- searching -------------------------------------------------------------------------------

_texts = st.lists(
    st.text(
        st.sampled_from("abAßéÉ字漢한_- \"'*^2²\u0301ǅİ𝒳\u08a0\U00010d00"), min_size=1, max_size=12
    ),
    min_size=1,
    max_size=6,
)


@given(texts=_texts, queries=_texts)
def test_a_search_finds_the_same_as_in_memory(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], queries: list[str]
) -> None:
    memory = MemoryStore()
    file = tmp_path_factory.mktemp("search") / "store.db"
    with SqliteStore(file, durability="normal") as store:
        for number, text in enumerate(texts):
            times = [_TIME, None, _TIME + timedelta(seconds=number % 2)]
            entry = Entry(
                id="e", time=times[number % 3], payload=Label(target="t", text=f"{text} x")
            )
            record = Record(seq=1, branch=MAIN_BRANCH, entry=entry, digest="0" * 64)
            for compared in (store, memory):
                compared.add_session(Header(id=f"s{number}"), [record])
        for query in [*queries, *texts, "x"]:
            for limit in (20, 2):
                assert store.search(query, limit=limit) == memory.search(query, limit=limit)


def test_a_search_finds_entries_written_since_the_last_search(
    store: SqliteStore, file: Path
) -> None:
    _use(store)
    memory = MemoryStore()
    _use(memory)
    assert store.search("text", limit=500) == memory.search("text", limit=500)
    with SqliteStore(file) as other:
        other.open("s").append(ChatMessage.user("text and more"))
    assert [hit.session for hit in store.search("more")] == ["s"]
    assert len(store.search("text", limit=500)) == 3 * INDEX_INTERVAL + 1
    assert store.search(" ") == store.search("text", limit=0) == []


def test_an_append_does_not_update_the_search_index(store: SqliteStore, file: Path) -> None:
    store.new([ChatMessage.user("hello")], id="s")
    store.search("hello")
    store.open("s").append(ChatMessage.user("needle"))
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT words FROM found").fetchall() == [("hello",)]


def test_very_many_and_very_long_words_are_searched_for(store: SqliteStore) -> None:
    text = " ".join(f"w{number}" for number in range(3000))
    long = "x" * 40_000
    store.new([ChatMessage.user(text), ChatMessage.user(long + "a"), ChatMessage.user(long + "b")])
    assert len(store.search(text)) == 1
    assert store.search(f"{text} w3000") == []
    assert len(store.search(long + "a")) == 1


@pytest.mark.parametrize("indexed", [True, False])
def test_the_index_is_optional(file: Path, indexed: bool) -> None:
    with SqliteStore(file, indexed=indexed) as store:
        store.add_session(Header(id="s"), _line(700))
        assert [hit.entry.id for hit in store.search("hello", limit=3)] == ["e700", "e699", "e698"]
    with closing(sqlite3.connect(file)) as db:
        rows = db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'found'").fetchall()
    assert bool(rows) == indexed


def test_a_search_works_with_a_damaged_index(store: SqliteStore, file: Path) -> None:
    store.add_session(Header(id="s"), _line(3))
    store.search("hello")
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("DELETE FROM found_data WHERE id > 10")
    with SqliteStore(file) as other:
        assert len(other.search("hello")) == 3


# -- blobs -----------------------------------------------------------------------------------


def test_blobs_are_kept_under_their_digest(store: SqliteStore, file: Path) -> None:
    data = os.urandom(300_000)
    digest = store.put_blob(data)
    assert digest == sha256(data).hexdigest()
    assert store.blob(digest) == data
    assert store.blob(store.put_blob(b"")) == b""
    (first, _) = store.blobs()
    assert first[:2] == (digest, len(data))
    size = _log_of(file).stat().st_size
    assert store.put_blob(data) == digest
    assert _log_of(file).stat().st_size - size < 10_000
    assert next(store.blobs()).stored_at > first.stored_at
    for absent in (digest.upper(), "0" * 64, "", "x"):
        with pytest.raises(Missing):
            store.blob(absent)
        store.remove_blob(absent)


def test_a_removed_blob_is_in_no_file(store: SqliteStore, file: Path) -> None:
    digest = store.put_blob(_SECRET * 10_000)
    store.remove_blob(digest)
    assert _SECRET not in _all_bytes(file)
    assert list(store.blobs()) == []


def test_a_damaged_blob_is_detected_and_can_be_stored_again(store: SqliteStore, file: Path) -> None:
    digest = store.put_blob(b"some bytes")
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE blob_data SET data = x'00'")
    with pytest.raises(Damaged):
        store.blob(digest)
    store.put_blob(b"some bytes")
    assert store.blob(digest) == b"some bytes"
