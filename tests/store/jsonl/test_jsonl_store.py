"""The JSONL store: a folder of session files that other programs can read."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from zlib import crc32

import pytest
from msgspec.structs import replace

from steno import ChatMessage
from steno.errors import Conflict, Damaged, InvalidDocument, Missing, Unavailable
from steno.records.stored_record import MAIN_BRANCH, Header, Record
from steno.store import open_store
from steno.store.jsonl import JsonlStore
from steno.store.jsonl.session_file import decode_line, encode_line
from tests.store.jsonl.sample_sessions import (
    chained_records,
    ids_in,
    lines_of,
    put_lines,
    user_message,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


@pytest.fixture
def store(folder: Path) -> JsonlStore:
    return JsonlStore(folder)


# -- lines -----------------------------------------------------------------------------------


def test_a_line_is_json_with_the_checksum_of_what_follows_it() -> None:
    record = chained_records(["hello"])[0]
    for content, name in ((Header(id="s", title="ü\u2028"), "session"), (record, "record")):
        line = encode_line(content)
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        assert list(json.loads(line)) == ["crc", name]
        assert line[:18] == b'{"crc":"%08x",' % crc32(line[18:-1])
        assert decode_line(line) == decode_line(line[:-1]) == content


def test_the_format_of_a_line_is_stable() -> None:
    assert encode_line(Header(id="s")) == b'{"crc":"2b8b7ff0","session":{"v":2,"id":"s"}}\n'
    line = encode_line(Record(seq=1, branch="main"))
    assert line == b'{"crc":"b45a7ae1","record":{"seq":1,"branch":"main"}}\n'


@pytest.mark.parametrize("rest", [b'"other":{}}', b'"record":{"seq":0}}', b'"record":7', b"", b"}"])
def test_a_line_with_a_valid_checksum_and_other_content_is_an_invalid_document(rest: bytes) -> None:
    with pytest.raises(InvalidDocument):
        decode_line(b'{"crc":"%08x",' % crc32(rest) + rest)


@pytest.mark.parametrize("line", [b"", b"\n", b"{}", b'{"crc":"', encode_line(Header(id="s"))[1:]])
def test_a_line_without_its_checksum_is_damaged(line: bytes) -> None:
    with pytest.raises(Damaged):
        decode_line(line)


# -- files -----------------------------------------------------------------------------------


def test_entries_are_read_back_when_the_folder_is_opened_again(folder: Path) -> None:
    with open_store(f"jsonl:{folder}") as store:
        conversation = store.new([ChatMessage.user("one")], id="s", title="T")
        conversation.fork("side")
        conversation.append(ChatMessage.user("two"))
        conversation.append(ChatMessage.user("three"), branch="side")
    with JsonlStore(folder) as again:
        assert [header.title for header in again.headers()] == ["T"]
        opened = again.open("s")
        assert opened.branch == "side"
        assert opened.entries("side") == conversation.entries("side")
        assert opened.entries(MAIN_BRANCH) == conversation.entries(MAIN_BRANCH)
        assert again.verify("s").is_intact
        assert [record.seq for record in again.records("s")] == [1, 2, 3, 4]


@pytest.fixture
def open_to_all() -> Iterator[None]:
    """Set the umask to 0, so that files get all permissions that are requested."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_to_all")
def test_the_file_of_a_session_has_its_id_and_only_its_owner_may_read_it(folder: Path) -> None:
    store = JsonlStore(folder)
    store.new([ChatMessage.user("one")], id="Notes_of-2026.1")
    store.put_blob(b"data")
    assert {path.name for path in folder.iterdir()} == {"Notes_of-2026.1.jsonl", "blobs"}
    for path in (folder, *folder.rglob("*")):
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected


HOSTILE = [
    "../../x",
    "/etc/passwd",
    "a\0b",
    "a/b",
    "..",
    ".hidden.draft",
    "s\n",
    "x" * 101,
    "y" * 5_000,
    "名前",
    " ",
    "-rf",
]


def test_ids_that_are_not_file_names_are_stored_under_their_digest(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    store = JsonlStore(folder)
    for id in HOSTILE:
        store.new([ChatMessage.user("one")], id=id)
        digest = sha256(id.encode()).hexdigest()
        store.new(id=digest)  # whose own file is another one
    again = JsonlStore(folder)
    assert {header.id for header in again.headers()}.issuperset(HOSTILE)
    assert all(len(again.open(id)) == 1 for id in HOSTILE)
    assert len(list(folder.iterdir())) == 2 * len(HOSTILE)
    assert [path for path in tmp_path.rglob("*") if path.parent != folder] == [
        folder.parent,
        folder,
    ]
    for id in HOSTILE:
        again.remove(id)
    assert len(list(folder.iterdir())) == len(HOSTILE)


@pytest.mark.parametrize("id", ["nobody", "../x", "\ud800", "a\0b", ""])
def test_a_missing_session_raises_missing(store: JsonlStore, folder: Path, id: str) -> None:
    entry = chained_records(["one"])[0].entry
    assert entry is not None
    for act in (
        lambda: store.header(id),
        lambda: store.open(id),
        lambda: store.records(id),
        lambda: store.heads(id),
        lambda: list(store.read_back(id, "e1")),
        lambda: store.append(id, entry, branch=MAIN_BRANCH, digest="0" * 64, expected=None),
        lambda: store.begin_branch(id, "side", None),
        lambda: store.replace(id, Record(seq=1, branch=MAIN_BRANCH)),
        lambda: store.remove(id),
    ):
        with pytest.raises(Missing):
            act()
    assert list(folder.iterdir()) == []


def test_a_session_file_with_a_wrong_name_is_skipped(
    store: JsonlStore, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put_lines(folder, lines_of(chained_records(["one"])), id="copy")
    with pytest.raises(Missing):
        store.open("copy")
    with pytest.raises(Missing):
        store.remove("copy")
    with pytest.raises(Conflict):
        store.add_session(Header(id="copy"))
    assert list(store.headers()) == []
    assert "copy.jsonl" in caplog.text


def test_other_files_in_the_folder_are_unchanged(store: JsonlStore, folder: Path) -> None:
    store.new(id="s")
    (folder / "notes.txt").write_text("mine")
    (folder / "sub.jsonl").mkdir()
    (folder / "blobs").mkdir()
    (folder / "blobs" / "notes.txt").write_text("mine")
    (folder / "blobs" / "ab").mkdir()
    (folder / "blobs" / "ab" / ("0" * 64)).write_text("in the wrong place")
    assert [header.id for header in store.headers()] == ["s"]
    assert list(store.blobs()) == []


@pytest.mark.parametrize("name", ["file", "file/below", "a\0b"])
def test_a_folder_that_cannot_be_created_is_unavailable(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(Unavailable):
        JsonlStore(tmp_path / name)


def test_a_removed_folder_is_not_an_empty_store(store: JsonlStore, folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    with pytest.raises(Unavailable):
        list(store.headers())
    with pytest.raises(Unavailable):
        store.new()
    with pytest.raises(Missing):
        store.open("s")
    folder.write_text("a file now")
    with pytest.raises(Unavailable):
        list(store.headers())
    with pytest.raises(Unavailable):
        store.header("s")
    with pytest.raises(Unavailable):
        store.put_blob(b"data")


def test_a_store_does_not_depend_on_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = JsonlStore(Path("sessions"))
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    store.new(id="s")
    assert (tmp_path / "sessions" / "s.jsonl").is_file()


# -- sessions as a whole ---------------------------------------------------------------------


def test_a_session_is_added_completely_or_not_at_all(store: JsonlStore, folder: Path) -> None:
    def cut_short() -> Iterator[Record]:
        yield from chained_records(["one", "two"])
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.add_session(Header(id="s"), cut_short())
    assert list(folder.iterdir()) == []
    store.add_session(Header(id="s"), chained_records(["one", "two"]))
    assert ids_in(store) == ["e1", "e2"]


def test_a_session_is_never_written_over(store: JsonlStore, folder: Path) -> None:
    store.add_session(Header(id="s"), chained_records(["one"]))
    before = (folder / "s.jsonl").read_bytes()
    with pytest.raises(Conflict):
        store.add_session(Header(id="s"), chained_records(["another"]))
    assert (folder / "s.jsonl").read_bytes() == before
    assert len(list(folder.iterdir())) == 1


def test_drafts_are_not_sessions_and_are_removed_when_they_are_old(folder: Path) -> None:
    folder.mkdir()
    old, new = (folder / f".{name}.draft" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"".join(lines_of(chained_records(["one"]))))
    two_hours_ago = (datetime.now(UTC) - timedelta(hours=2)).timestamp()
    os.utime(old, (two_hours_ago, two_hours_ago))
    os.utime(put_lines(folder, lines_of([])), (two_hours_ago, two_hours_ago))
    store = JsonlStore(folder)
    assert not old.exists()
    assert new.exists()
    assert [header.id for header in store.headers()] == ["s"]


def test_redacted_content_is_in_no_file(store: JsonlStore, folder: Path) -> None:
    conversation = store.new([ChatMessage.user("one"), ChatMessage.user("secret")], id="s")
    other = JsonlStore(folder).open("s")
    store.redact("s", conversation.entries()[1].id, actor="me", reason="asked for")
    assert not any(b"secret" in path.read_bytes() for path in folder.rglob("*.*"))
    assert len(list(folder.iterdir())) == 1
    assert store.verify("s").is_intact
    assert store.verify("s").redacted == 1
    with pytest.raises(Conflict):
        other.append(ChatMessage.user("two"))  # the redaction came first
    other.refresh()
    other.append(ChatMessage.user("two"))
    assert store.verify("s").entries == 4


def test_a_missing_record_cannot_be_replaced(store: JsonlStore, folder: Path) -> None:
    store.add_session(Header(id="s"), chained_records(["one"]))
    with pytest.raises(Missing):
        store.replace("s", replace(chained_records(["one"])[0], seq=2))
    assert len(list(folder.iterdir())) == 1


def test_a_closed_store_raises_store_closed(store: JsonlStore) -> None:
    store.add_session(Header(id="s"), chained_records(["one"]))
    digest = store.put_blob(b"data")
    store.close()
    store.close()
    record = chained_records(["one", "two"])[1]
    entry = record.entry
    assert entry is not None
    for act in (
        lambda: store.add_session(Header(id="t")),
        lambda: list(store.headers()),
        lambda: store.header("s"),
        lambda: store.append("s", entry, branch=MAIN_BRANCH, digest="0" * 64, expected="e1"),
        lambda: store.begin_branch("s", "side", None),
        lambda: store.heads("s"),
        lambda: list(store.read_back("s", "e1")),
        lambda: store.records("s"),
        lambda: store.replace("s", record),
        lambda: store.remove("s"),
        lambda: store.put_blob(b"data"),
        lambda: store.blob(digest),
        lambda: store.blobs(),
        lambda: store.remove_blob(digest),
    ):
        with pytest.raises(Unavailable) as caught:
            act()
        assert caught.value.code == "store_closed"


def test_others_notice_that_a_file_was_replaced(store: JsonlStore, folder: Path) -> None:
    records = chained_records(["one", "two " * 50, "three"])
    store.add_session(Header(id="s"), records)
    others = [JsonlStore(folder) for _ in range(3)]
    assert all(ids_in(other) == ["e1", "e2", "e3"] for other in others)
    half_read = others[0].read_back("s", "e3")
    assert next(half_read)[0].id == "e3"
    entry = records[1].entry
    assert entry is not None
    store.replace("s", replace(records[1], entry=replace(entry, payload=user_message("2"))))
    assert [entry.id for entry, _ in half_read] == ["e2", "e1"]
    assert [entry.message.text for entry, _ in others[0].read_back("s", "e2") if entry.message] == [
        "2",
        "one",
    ]
    fourth = chained_records(["one", "two", "three", "four"])[3].entry
    assert fourth is not None
    others[1].append("s", fourth, branch=MAIN_BRANCH, digest="0" * 64, expected="e3")
    assert all(ids_in(opened) == ["e1", "e2", "e3", "e4"] for opened in (store, *others))


def texts_in(store: JsonlStore) -> list[str | None]:
    read = [entry for entry, _ in store.read_back("s", "e5")][::-1]
    assert [entry.id for entry in read] == ["e1", "e2", "e3", "e4", "e5"]
    return [entry.message.text for entry in read if entry.message]


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(["aaaa", "bb", "cccc", "dd", "e"], id="the last line is where it was"),
        pytest.param(["a" * 99, "b" * 99, "c", "d", "e"], id="it is behind where it was"),
        pytest.param(["a", "b", "c", "d", "e"], id="it is before where it was"),
    ],
)
def test_a_file_rewritten_in_place_is_read_again(
    store: JsonlStore, folder: Path, texts: list[str]
) -> None:
    """The inode stays the same, as may happen when a file is removed and another one created."""
    before = ["aa", "bbbb", "cc", "dddd", "e"]
    path = put_lines(folder, lines_of(chained_records(before)))
    inode = path.stat().st_ino
    assert texts_in(store) == before
    put_lines(folder, lines_of(chained_records(texts)))
    assert path.stat().st_ino == inode
    assert texts_in(store) == texts
    put_lines(folder, lines_of(chained_records(before)))
    assert store.open("s").append(ChatMessage.user("more")).parent == "e5"
    assert store.verify("s").is_intact


def test_an_entry_is_not_mistaken_for_an_earlier_one_at_its_offset(
    store: JsonlStore, folder: Path
) -> None:
    header, first, second, third, *rest = lines_of(chained_records(["a", "b", "c", "d", "e"]))
    put_lines(folder, [header, first, second, third, *rest])
    assert texts_in(store) == ["a", "b", "c", "d", "e"]
    put_lines(folder, [header, first, third, second, *rest])
    assert texts_in(store) == ["a", "b", "c", "d", "e"]


def test_a_new_file_is_read_again_even_if_it_ends_like_the_old_one(
    store: JsonlStore, folder: Path
) -> None:
    first, last = chained_records(["one", "two"])
    for name in ("aa", "bb"):
        records = [first, Record(seq=2, branch=name, at="e1"), replace(last, seq=3)]
        put_lines(folder / "new", lines_of(records)).replace(folder / "s.jsonl")
        assert store.heads("s") == {name: "e1", MAIN_BRANCH: "e2"}


def test_others_notice_that_a_session_was_removed(store: JsonlStore, folder: Path) -> None:
    conversation = store.new([ChatMessage.user("one")], id="s")
    other = JsonlStore(folder)
    other.remove("s")
    with pytest.raises(Missing):
        conversation.append(ChatMessage.user("two"))
    with pytest.raises(Missing):
        store.heads("s")
    assert list(store.headers()) == []
    other.new(id="s")
    assert store.heads("s") == {}
    with pytest.raises(Conflict):
        conversation.append(ChatMessage.user("two"))


# -- appending and reading -------------------------------------------------------------------


def test_an_append_is_refused_as_in_every_store(store: JsonlStore, folder: Path) -> None:
    records = chained_records(["one", "two"])
    store.add_session(Header(id="s"), records[:1])
    first, second = (record.entry for record in records)
    assert first is not None
    assert second is not None
    before = (folder / "s.jsonl").read_bytes()
    digest = "0" * 64
    with pytest.raises(Conflict):
        store.append("s", second, branch=MAIN_BRANCH, digest=digest, expected=None)
    with pytest.raises(Conflict):
        store.append("s", first, branch=MAIN_BRANCH, digest=digest, expected="e1")
    with pytest.raises(Missing):
        store.append("s", second, branch="side", digest=digest, expected=None)
    with pytest.raises(Conflict):
        store.begin_branch("s", MAIN_BRANCH, None)
    with pytest.raises(Missing):
        store.begin_branch("s", "side", "e2")
    with pytest.raises(Missing):
        list(store.read_back("s", "e2"))
    assert (folder / "s.jsonl").read_bytes() == before


def test_the_branch_last_written_to_comes_last(store: JsonlStore) -> None:
    conversation = store.new([ChatMessage.user("one")], id="s")
    conversation.fork("side")
    assert list(store.heads("s")) == ["side", MAIN_BRANCH]
    conversation.append(ChatMessage.user("two"), branch="side")
    assert list(store.heads("s")) == [MAIN_BRANCH, "side"]
    conversation.append(ChatMessage.user("three"))
    assert list(store.heads("s")) == ["side", MAIN_BRANCH]


def test_circular_parents_are_damage(store: JsonlStore) -> None:
    records = chained_records(["one", "two", "three"])
    entry = records[0].entry
    assert entry is not None
    store.add_session(
        Header(id="s"), [replace(records[0], entry=replace(entry, parent="e3")), *records[1:]]
    )
    with pytest.raises(Damaged):
        list(store.read_back("s", "e3"))


def test_a_reader_may_write_at_the_same_time(store: JsonlStore) -> None:
    conversation = store.new([ChatMessage.user("one"), ChatMessage.user("two")], id="s")
    head = conversation.entries()[-1].id
    for _ in store.headers():
        conversation.append(ChatMessage.user("more"))
    for _ in store.records("s"):
        conversation.append(ChatMessage.user("more"))
    for _ in store.read_back("s", head):
        conversation.append(ChatMessage.user("more"))
    store.add_session(Header(id="t"), store.records("s"))
    assert len(store.open("t")) == len(store.open("s")) == 8


def test_threads_write_and_read_at_once(folder: Path) -> None:
    store = JsonlStore(folder)
    store.new(id="s")

    def write(number: int) -> None:
        conversation = (store if number % 2 else JsonlStore(folder)).open("s")
        for _ in range(10):
            while True:
                try:
                    conversation.append(ChatMessage.user(f"from {number}"))
                    break
                except Conflict:
                    conversation.refresh()

    def read(_: int) -> None:
        for _ in range(40):
            known = len(list(store.records("s")))
            assert len(store.open("s")) >= known

    with ThreadPoolExecutor(6) as threads:
        list(
            threads.map(lambda task: task[0](task[1]), [*((write, n) for n in range(4)), (read, 0)])
        )
    assert store.verify("s").is_intact
    assert store.verify("s").entries == 40


def test_no_descriptor_stays_open_however_many_sessions_there_are(folder: Path) -> None:
    for number in range(3_000):
        put_lines(folder, lines_of(chained_records(["one"]), id=f"s{number}"), id=f"s{number}")
    store = JsonlStore(folder)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(3_000):
        assert store.heads(f"s{number}") == {MAIN_BRANCH: "e1"}
    half_read = store.read_back("s0", "e1")
    next(half_read)
    del half_read
    never_read = store.records("s0")
    del never_read
    assert store.open("s0").append(ChatMessage.user("two")).parent == "e1"
    assert len(list(store.headers())) == 3_000
    assert len(list(Path("/proc/self/fd").iterdir())) == before


# -- blobs -----------------------------------------------------------------------------------


def test_blobs_are_files_named_by_their_digest(store: JsonlStore, folder: Path) -> None:
    digest = store.put_blob(b"data")
    path = folder / "blobs" / digest[:2] / digest
    assert path.read_bytes() == store.blob(digest) == b"data"
    assert JsonlStore(folder).blob(digest) == b"data"
    (found,) = store.blobs()
    assert (found.sha256, found.size) == (digest, 4)
    assert found.stored_at == datetime.fromtimestamp(path.stat().st_mtime, UTC)
    store.remove_blob(digest)
    store.remove_blob(digest)
    assert list(store.blobs()) == []
    with pytest.raises(Missing):
        store.blob(digest)


def test_a_blob_stored_again_has_a_new_time(store: JsonlStore, folder: Path) -> None:
    digest = store.put_blob(b"data")
    path = folder / "blobs" / digest[:2] / digest
    os.utime(path, (1, 1))
    assert next(store.blobs()).stored_at.year == 1970
    assert store.collect_garbage() == 4
    store.put_blob(b"data")
    os.utime(path, (1, 1))
    store.put_blob(b"data")
    assert store.collect_garbage() == 0


def test_a_damaged_blob_is_never_returned_and_can_be_stored_again(
    store: JsonlStore, folder: Path
) -> None:
    digest = store.put_blob(b"data")
    (folder / "blobs" / digest[:2] / digest).write_bytes(b"dada")
    with pytest.raises(Damaged):
        store.blob(digest)
    store.put_blob(b"data")
    assert store.blob(digest) == b"data"


@pytest.mark.parametrize("digest", ["", "..", "../../x", "a" * 63, "A" * 64, "a" * 64 + "\n", "\0"])
def test_a_name_that_is_not_a_digest_raises_missing(
    store: JsonlStore, folder: Path, digest: str
) -> None:
    (folder / "x").write_text("not a blob")
    with pytest.raises(Missing):
        store.blob(digest)
    with pytest.raises(Missing):
        store.blob(store.put_blob(b"data") + f"/{digest}")
    store.remove_blob(digest)
    assert (folder / "x").exists()
