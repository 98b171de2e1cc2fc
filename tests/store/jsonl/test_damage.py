"""Damage by crashes, disks and other programs: repaired where that is safe, else reported."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from zlib import crc32

import pytest

from steno import ChatMessage
from steno.codec import encode_record
from steno.errors import Conflict, Damaged, Missing, UnsupportedVersion
from steno.records.stored_record import Header, Record
from steno.store.jsonl import JsonlStore
from steno.store.jsonl.session_file import encode_line
from tests.store.jsonl.sample_sessions import chained_records, ids_in, lines_of, put_lines

RECORDS = chained_records(["one", "two", "three"])
LINES = lines_of(RECORDS)
WHOLE = b"".join(LINES)
ENDS = [len(b"".join(LINES[: number + 1])) for number in range(len(LINES))]
"""Where each line ends: a file that is cut here is one to which less was written."""


@pytest.fixture
def store(tmp_path: Path) -> JsonlStore:
    return JsonlStore(tmp_path)


# -- torn tails ------------------------------------------------------------------------------


TAILS = {
    "half a line": LINES[3][:40],
    "a line without its break": LINES[3][:-1],
    "zeros": bytes(5_000),
    "a long gap": bytes(1 << 17),
    "half a line and zeros": LINES[3][:40] + bytes(100),
    "rubbish": b"\xff\xfe\x80",
}


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
def test_readers_ignore_a_torn_tail_and_the_next_writer_truncates_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, tail: bytes
) -> None:
    path = put_lines(tmp_path, [*LINES[:3], tail])
    store = JsonlStore(tmp_path)
    assert list(store.records("s")) == RECORDS[:2]
    assert ids_in(store) == ["e1", "e2"]
    conversation = store.open("s")
    assert path.read_bytes() == b"".join(LINES[:3]) + tail
    conversation.append(ChatMessage.user("more"))
    assert [(record.name, record.levelno, record.message) for record in caplog.records] == [
        ("steno.store", logging.WARNING, f"s.jsonl: {text}")
        for text in (
            "ignored an incomplete record at its end",  # once for all readers
            "truncated an incomplete record at its end",
        )
    ]
    assert b"".join(LINES[:3]) == path.read_bytes()[: ENDS[2]]
    assert path.read_bytes().count(b"\n") == 4
    assert [record.seq for record in JsonlStore(tmp_path).records("s")] == [1, 2, 3]
    assert store.verify("s").is_intact


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
def test_a_torn_tail_is_handled_while_the_store_is_open(
    store: JsonlStore, tmp_path: Path, tail: bytes
) -> None:
    path = put_lines(tmp_path, LINES[:2])
    conversation = store.open("s")
    with path.open("ab") as file:
        file.write(LINES[2] + tail)
    assert ids_in(store) == ["e1", "e2"]
    with pytest.raises(Conflict):
        conversation.append(ChatMessage.user("more"))
    assert path.read_bytes() == b"".join(LINES[:3])
    conversation.refresh()
    conversation.append(ChatMessage.user("more"))
    assert store.verify("s").entries == 3


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
def test_a_session_whose_first_line_is_torn_does_not_exist(
    store: JsonlStore, tmp_path: Path, tail: bytes
) -> None:
    put_lines(tmp_path, [tail])
    assert list(store.headers()) == []
    for act in (store.header, store.open, store.records, store.heads, store.remove):
        with pytest.raises(Missing):
            act("s")
    with pytest.raises(Missing):
        store.begin_branch("s", "side", None)
    store.add_session(Header(id="s"), RECORDS)
    assert list(store.records("s")) == RECORDS
    assert [path.name for path in tmp_path.iterdir()] == ["s.jsonl"]


@pytest.mark.parametrize("moved", [0, 1])
def test_sectors_of_the_last_line_that_did_not_reach_the_disk_are_a_torn_tail(
    store: JsonlStore, tmp_path: Path, moved: int
) -> None:
    whole = b"".join(lines_of(chained_records(["one", "two", "long " * 1_000])))
    begin = ENDS[2]
    first = -(-begin // 512) * 512
    for start, end in ((begin, first), (begin, first + 512), (first, first + 1024)):
        hole = slice(start + (moved if start > begin else 0), end + moved)
        data = whole[: hole.start] + bytes(hole.stop - hole.start) + whole[hole.stop :]
        put_lines(tmp_path, [data])
        if moved:  # no disk does this, and so it may be anything
            with pytest.raises(Damaged) as caught:
                store.open("s")
            assert (caught.value.code, caught.value.place) == (
                "checksum_mismatch",
                "s.jsonl, line 4",
            )
        else:
            assert ids_in(store) == ["e1", "e2"]


def test_a_file_that_became_shorter_is_read_anew(store: JsonlStore, tmp_path: Path) -> None:
    for length in (len(WHOLE) - 3, ENDS[2], ENDS[1]):
        put_lines(tmp_path, LINES)
        assert ids_in(store) == ["e1", "e2", "e3"]
        path = put_lines(tmp_path, [WHOLE[:length]])
        stored = sum(end <= length for end in ENDS) - 1
        assert ids_in(store) == ["e1", "e2"][:stored]
        store.begin_branch("s", "side", None)
        assert path.read_bytes().startswith(WHOLE[: ENDS[stored]] + b'{"crc":"')


# -- damage ----------------------------------------------------------------------------------


@contextmanager
def changed(path: Path, position: int, byte: int) -> Generator[None]:
    """Change one byte of a file for a while, without writing the others again."""
    with path.open("r+b", buffering=0) as file:
        for content in (byte, WHOLE[position]):
            file.seek(position)
            file.write(bytes([content]))
            if content == byte:
                yield


def test_a_changed_bit_never_yields_other_content(store: JsonlStore, tmp_path: Path) -> None:
    path = put_lines(tmp_path, LINES)
    for position in range(len(WHOLE)):
        for bit in range(8):
            with changed(path, position, WHOLE[position] ^ 1 << bit):
                found = _records_or_none(store)
            # Without its line break the last line may as well be torn.
            assert found is None or (found == RECORDS[:2] and position == len(WHOLE) - 1)
    assert list(store.records("s")) == RECORDS


def _records_or_none(store: JsonlStore) -> list[Record] | None:
    try:
        return list(store.records("s"))
    except Damaged:
        return None


OTHER = lines_of(chained_records(["elsewhere"]), id="t")
SPLICED = {
    "a changed line": ([LINES[0], LINES[1].replace(b"one", b"two"), *LINES[2:]], 2),
    "a line that goes on with another": ([*LINES[:2], LINES[2][:50], LINES[3]], 3),
    "a line break that is missing": ([*LINES[:2], LINES[2][:-1], LINES[3]], 3),
    "another file behind it": ([*LINES, *OTHER], 5),
    "no header": (LINES[1:], 1),
    "a broken header": ([LINES[0][:-5], b"\n", *LINES[1:]], 1),
    "a header without its line break": ([LINES[0][:-1], LINES[1]], 1),
    "an empty line": ([*LINES[:2], b"\n", *LINES[2:]], 3),
    "zeros": ([*LINES[:2], bytes(100), *LINES[2:]], 3),
    "line breaks of another system": ([line.replace(b"\n", b"\r\n") for line in LINES], 1),
    "a changed line at the end": ([*LINES[:3], LINES[3].replace(b"three", b"trees")], 4),
    "a hole where none can be": ([*LINES[:3], LINES[3][:40] + bytes(30) + LINES[3][70:]], 4),
    "the same and zeros": ([*LINES[:3], LINES[3].replace(b"three", b"trees"), bytes(100)], 4),
    "an empty line at the end": ([*LINES, b"\n"], 5),
    "a changed header that stands alone": ([LINES[0].replace(b'"s"', b'"t"')], 1),
    "two lines that are not whole": ([*LINES[:2], LINES[2][1:], LINES[3][1:]], 3),
}


@pytest.mark.parametrize(("lines", "number"), SPLICED.values(), ids=SPLICED)
def test_damage_is_named_by_its_line(
    store: JsonlStore, tmp_path: Path, lines: list[bytes], number: int
) -> None:
    path = put_lines(tmp_path, lines)
    place = f"s.jsonl, line {number}"
    is_header_at_fault = lines[0] == LINES[1] or len(lines) > len(LINES) + 1
    code = "header_misplaced" if is_header_at_fault else "checksum_mismatch"
    with pytest.raises(Damaged) as caught:
        list(store.records("s"))
    assert (caught.value.code, caught.value.place) == (code, place)
    for act in (store.open, store.verify, store.heads):
        with pytest.raises(Damaged) as caught:
            act("s")
        assert (caught.value.code, caught.value.place) == (code, place)
    with pytest.raises(Damaged) as caught:
        store.begin_branch("s", "side", None)
    assert (caught.value.code, caught.value.place) == (code, place)
    assert path.read_bytes() == b"".join(lines)


def test_lines_before_the_damage_are_returned_first(store: JsonlStore, tmp_path: Path) -> None:
    put_lines(tmp_path, [*LINES[:2], b"?\n", *LINES[2:]])
    records = store.records("s")
    assert next(records) == RECORDS[0]
    with pytest.raises(Damaged) as caught:
        next(records)
    assert (caught.value.code, caught.value.place) == ("checksum_mismatch", "s.jsonl, line 3")


def test_a_missing_line_is_found_by_verify(store: JsonlStore, tmp_path: Path) -> None:
    put_lines(tmp_path, [*LINES[:2], LINES[3]])
    problem = store.verify("s").bad
    assert problem is not None
    assert problem.seq == 3
    with pytest.raises(Missing):
        store.open("s").entries()


def test_damage_that_happens_while_the_store_is_open_is_not_read(
    store: JsonlStore, tmp_path: Path
) -> None:
    path = put_lines(tmp_path, LINES)
    assert ids_in(store) == ["e1", "e2", "e3"]
    path.write_bytes(WHOLE.replace(b"two", b"2wo"))
    read = store.read_back("s", "e3")
    assert next(read)[0].id == "e3"
    with pytest.raises(Damaged) as caught:
        next(read)
    assert (caught.value.code, caught.value.place) == ("checksum_mismatch", "s.jsonl, line 3")


def test_a_complete_line_of_another_program_is_damage_also_at_the_end(
    store: JsonlStore, tmp_path: Path
) -> None:
    rest = b'"record":{"seq":"many"}}'
    put_lines(tmp_path, [*LINES, b'{"crc":"%08x",' % crc32(rest) + rest + b"\n"])
    with pytest.raises(Damaged) as caught:
        store.open("s")
    assert (caught.value.code, caught.value.place) == ("record_unreadable", "s.jsonl, line 5")


def test_one_damaged_session_does_not_hide_the_others(store: JsonlStore, tmp_path: Path) -> None:
    for name in ("a", "c"):
        put_lines(tmp_path, lines_of([], id=name), id=name)
    put_lines(tmp_path, [b"?\n", *LINES[1:]])
    store.put_blob(b"data")
    headers = store.headers()
    assert {next(headers).id, next(headers).id} == {"a", "c"}
    with pytest.raises(Damaged) as caught:
        next(headers)
    assert (caught.value.code, caught.value.place) == ("checksum_mismatch", "s.jsonl, line 1")
    with pytest.raises(Damaged):
        store.collect_garbage(older_than=-timedelta(hours=1))  # what it names is not known
    with pytest.raises(Damaged):
        store.add_session(Header(id="s"))
    store.remove("s")
    assert {header.id for header in store.headers()} == {"a", "c"}


def test_files_of_other_programs_are_skipped_and_unchanged(
    store: JsonlStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put_lines(tmp_path, LINES)
    notes = put_lines(tmp_path, [b'{"note":"mine"}\n', b'{"note":"mine, too"}\n'], id="notes")
    other = put_lines(tmp_path, [b'{"note":"mine"}\n'], id="other")
    before = notes.read_bytes(), other.read_bytes()
    assert [header.id for header in store.headers()] == ["s"]
    assert {record.name for record in caplog.records} == {"steno.store"}
    assert "notes.jsonl" in caplog.text
    assert "other.jsonl" in caplog.text
    for name in ("notes", "other"):
        with pytest.raises(Damaged) as caught:
            store.add_session(Header(id=name))
        assert (caught.value.code, caught.value.place) == ("foreign_file", f"{name}.jsonl")
        with pytest.raises(Damaged) as caught:
            store.remove(name)
        assert (caught.value.code, caught.value.place) == ("foreign_file", f"{name}.jsonl")
    assert (notes.read_bytes(), other.read_bytes()) == before
    assert store.collect_garbage() == 0


def test_a_changed_byte_does_not_make_a_session_a_foreign_file(
    store: JsonlStore, tmp_path: Path
) -> None:
    for position in range(len(LINES[0]) - 1):
        line = bytearray(LINES[0])
        line[position] ^= 1
        put_lines(tmp_path, [bytes(line)])
        with pytest.raises(Damaged):
            list(store.headers())


def test_a_session_of_a_newer_version_is_left_as_it_is(store: JsonlStore, tmp_path: Path) -> None:
    rest = b'"session":{"v":99,"id":"s"}}'
    newer = b'{"crc":"%08x",' % crc32(rest) + rest + b"\n"
    path = put_lines(tmp_path, [newer, *LINES[1:]])
    for act in (store.header, store.open, lambda _: list(store.headers())):
        with pytest.raises(UnsupportedVersion):
            act("s")
    with pytest.raises(UnsupportedVersion):
        store.begin_branch("s", "side", None)
    assert path.read_bytes() == newer + b"".join(LINES[1:])


def test_entries_of_a_newer_version_are_kept(store: JsonlStore, tmp_path: Path) -> None:
    raw = encode_record(RECORDS[1]).replace(b'"v":2', b'"v":99')
    rest = b'"record":' + raw + b"}"
    newer = b'{"crc":"%08x",' % crc32(rest) + rest + b"\n"
    path = put_lines(tmp_path, [*LINES[:2], newer])
    conversation = store.open("s")
    conversation.append(ChatMessage.user("more"))
    assert store.verify("s").foreign == 1
    store.redact("s", "e1", actor="me", reason="asked for")
    assert newer in path.read_bytes()
    assert encode_line(list(store.records("s"))[1]) == newer
