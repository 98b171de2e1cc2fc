"""Reading a long JSONL file: the fast scan of its lines, and many entries with one read."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from steno import ChatMessage
from steno.codec import decode_record
from steno.records.entry import Entry
from steno.records.stored_record import MAIN_BRANCH, Header
from steno.store import MemoryStore, Store
from steno.store.jsonl import JsonlStore
from steno.store.jsonl.session_file import encode_line, scan_record_lines
from tests.store.jsonl.sample_sessions import chained_records, lines_of, put_lines

_DIGEST = "0" * 64
_LENGTHS = (1, 200, 3_000, 65_400, 65_536, 200_000)
"""The lengths of texts; some are longer than one read."""


def _write(store: Store, seed: int) -> None:
    """Write to three branches in turn: sometimes many lines to one, sometimes alternating."""
    random = Random(seed)
    store.add_session(Header(id="s"))
    heads: dict[str, str | None] = {MAIN_BRANCH: None}
    branch = MAIN_BRANCH
    for number in range(120):
        if number in (20, 30):
            store.begin_branch("s", f"b{number}", heads[MAIN_BRANCH])
            heads[f"b{number}"] = heads[MAIN_BRANCH]
        if random.random() < (0.1, 0.9)[number // 20 % 2]:
            branch = random.choice(list(heads))
        text = "x" * random.choice(_LENGTHS[:3] if number % 7 else _LENGTHS)
        entry = Entry(id=f"e{number}", parent=heads[branch], payload=ChatMessage.user(text))
        store.append("s", entry, branch=branch, digest=_DIGEST, expected=heads[branch])
        heads[branch] = entry.id


@pytest.mark.parametrize("seed", range(4))
def test_interleaved_branches_are_read_back(tmp_path: Path, seed: int) -> None:
    memory = MemoryStore()
    _write(memory, seed)
    with JsonlStore(tmp_path) as store:
        _write(store, seed)
    with JsonlStore(tmp_path) as store:
        assert list(store.heads("s").items()) == list(memory.heads("s").items())
        for head in memory.heads("s").values():
            assert head is not None
            assert list(store.read_back("s", head)) == list(memory.read_back("s", head))


def test_lines_after_one_that_the_scan_cannot_read_are_indexed(tmp_path: Path) -> None:
    first, second, _, fourth, last = chained_records(["a", "b", "c", "d", "e"])
    odd = decode_record(
        b'{"seq":3,"branch":"main","entry":{"v":99,"id":7},"digest":"%s"}' % _DIGEST.encode()
    )
    records = [first, second, odd, fourth, last]
    put_lines(tmp_path, lines_of(records))
    with JsonlStore(tmp_path) as store:
        assert list(store.records("s")) == records
        assert store.heads("s") == {MAIN_BRANCH: "e5"}
        assert [entry.id for entry, _ in store.read_back("s", "e2")] == ["e2", "e1"]
        more = Entry(id="more", parent="e2", payload=ChatMessage.user("more"))
        store.append("s", more, branch=MAIN_BRANCH, digest=_DIGEST, expected="e5")
        assert [entry.id for entry, _ in store.read_back("s", "more")] == ["more", "e2", "e1"]


def test_a_replaced_file_is_recognised_by_its_last_line(tmp_path: Path) -> None:
    """A new file may get the inode of the one it replaces, and differ from it only at the end."""
    records = chained_records(["a", "b", "c"])
    last = records[2].entry
    assert last is not None
    other = replace(records[2], entry=replace(last, id="f3"))
    put_lines(tmp_path, lines_of(records))
    with JsonlStore(tmp_path) as store:
        assert store.heads("s") == {MAIN_BRANCH: "e3"}
        put_lines(tmp_path, lines_of([*records[:2], other]))
        assert store.heads("s") == {MAIN_BRANCH: "f3"}


def test_the_scan_stops_at_a_line_that_is_not_plain() -> None:
    header = encode_line(Header(id="s"))
    first, second = map(encode_line, chained_records(["a", "b"]))
    assert [line for line, _ in scan_record_lines([first, second])] == [first, second]
    doubtful = [
        header,
        second[:-1],
        second[:-2],
        second[:40] + b"\n",
        b"\n",
        b"",
        b"{}\n",
        b"\0" * 9,
    ]
    for line in [*doubtful, second.replace(b'"b"', b'"c"')]:
        assert [raw for raw, _ in scan_record_lines([first, line, second])] == [first]
