"""Several processes in one folder, disks that are full, folders that are read-only, and cost."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

import pytest

from steno import ChatMessage
from steno.errors import Unavailable
from steno.records.stored_record import MAIN_BRANCH, Header
from steno.store.jsonl import JsonlStore
from tests.store.jsonl.child_process import LAST_UID
from tests.store.jsonl.sample_sessions import chained_records, ids_in, lines_of, put_lines

ROOT = Path(__file__).parents[3]


class Child:
    """A child process that gets commands and prints results line by line."""

    def __init__(self, *words: object) -> None:
        command = [sys.executable, "-m", "tests.store.jsonl.child_process", *map(str, words)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.communicate()

    def tell(self, word: str) -> None:
        file = self._pipe(self.process.stdin)
        file.write(word + "\n")
        file.flush()

    def hear(self) -> str:
        return self._pipe(self.process.stdout).readline().strip()

    def rest(self) -> list[str]:
        """Return the rest of its output until it ends."""
        return self._pipe(self.process.stdout).read().splitlines()

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


@pytest.fixture
def store(tmp_path: Path) -> JsonlStore:
    return JsonlStore(tmp_path)


# -- several processes -----------------------------------------------------------------------


def test_of_two_processes_that_append_at_once_exactly_one_wins(
    store: JsonlStore, tmp_path: Path
) -> None:
    store.new([ChatMessage.user("first")], id="s")
    with Child("race", tmp_path) as one, Child("race", tmp_path) as two:
        for length in range(1, 26):
            for word, expected in (
                ("refresh", [f"ready {length}"] * 2),
                ("append", ["Conflict", "ok"]),
            ):
                for child in (one, two):
                    child.tell(word)
                assert sorted(child.hear() for child in (one, two)) == expected
    assert store.verify("s").is_intact
    assert len(store.open("s")) == 26


@pytest.mark.parametrize("branches", [(MAIN_BRANCH, MAIN_BRANCH), (MAIN_BRANCH, "side")])
def test_processes_that_retry_after_a_conflict_lose_nothing(
    store: JsonlStore, tmp_path: Path, branches: tuple[str, str]
) -> None:
    conversation = store.new([ChatMessage.user("first")], id="s")
    conversation.fork("side")
    with (
        Child("insist", tmp_path, branches[0], 50) as one,
        Child("insist", tmp_path, branches[1], 50) as two,
    ):
        for child in (one, two):
            assert child.hear() == "ready"
        for child in (one, two):
            child.tell("go")
        said = one.rest() + two.rest()
    assert len(set(said)) == 100
    records = list(store.records("s"))
    assert [record.seq for record in records] == list(range(1, 103))
    assert {record.entry.id for record in records if record.entry}.issuperset(said)
    assert store.verify("s").is_intact
    opened = JsonlStore(tmp_path).open("s")
    assert len(opened.entries(MAIN_BRANCH)) == (
        101 if branches == (MAIN_BRANCH, MAIN_BRANCH) else 51
    )
    conversation.refresh()
    assert conversation.branches == opened.branches


def test_a_process_that_waits_while_the_file_is_replaced_writes_to_the_new_one(
    store: JsonlStore, tmp_path: Path
) -> None:
    records = chained_records(["one", "two"])
    path = put_lines(tmp_path, lines_of(records[:1]))
    with Child("race", tmp_path) as child:
        child.tell("refresh")
        assert child.hear() == "ready 1"
        with path.open("rb") as old:
            fcntl.flock(old, fcntl.LOCK_EX)
            child.tell("append")
            _wait_until_open(child, path)
            put_lines(tmp_path / "new", lines_of(records)).replace(path)
        assert child.hear() == "Conflict"
        child.tell("refresh")
        child.tell("append")
        assert [child.hear(), child.hear()] == ["ready 2", "ok"]
    assert ids_in(store)[:2] == ["e1", "e2"]
    assert store.verify("s").entries == 3


def _wait_until_open(child: Child, path: Path) -> None:
    while path not in _files_open_in(child):
        assert child.process.poll() is None


def _files_open_in(child: Child) -> Iterator[Path]:
    for link in Path(f"/proc/{child.process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed after the listing
            yield link.readlink()


def test_waiting_for_a_lock_ends_at_the_timeout(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path, timeout_s=0.05)
    conversation = store.new([ChatMessage.user("one")], id="s")
    digest = store.put_blob(b"data")
    before = _descriptors()
    paths = [tmp_path / "s.jsonl", tmp_path / "blobs" / digest[:2] / digest]
    with ExitStack() as stack:
        for path in paths:
            fcntl.flock(stack.enter_context(path.open("rb")), fcntl.LOCK_EX)
        for act in (
            lambda: conversation.append(ChatMessage.user("two")),
            lambda: store.heads("s"),
            lambda: list(store.headers()),
            lambda: list(store.records("s")),
            lambda: store.add_session(Header(id="s")),
            lambda: store.remove("s"),
            lambda: store.put_blob(b"data"),
            lambda: store.remove_blob(digest),
        ):
            with pytest.raises(Unavailable) as caught:
                act()
            assert caught.value.code == "locked"
    assert _descriptors() == before
    conversation.append(ChatMessage.user("two"))
    assert store.verify("s").entries == 2


def test_threads_wait_for_each_other_until_the_timeout(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path, timeout_s=0.05)
    store.new(id="s")
    with (tmp_path / "s.jsonl").open("rb") as file, ThreadPoolExecutor(4) as threads:
        fcntl.flock(file, fcntl.LOCK_EX)
        for done in [threads.submit(store.heads, "s") for _ in range(8)]:
            assert isinstance(done.exception(), Unavailable)
    assert store.heads("s") == {}


def test_an_interrupt_while_waiting_leaves_no_lock_held(store: JsonlStore, tmp_path: Path) -> None:
    conversation = store.new(id="s")
    before = _descriptors()
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with (tmp_path / "s.jsonl").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(KeyboardInterrupt):
                conversation.append(ChatMessage.user("one"))
    finally:
        signal.signal(signal.SIGALRM, handler)
    assert _descriptors() == before
    with ThreadPoolExecutor(1) as threads:
        threads.submit(conversation.append, ChatMessage.user("one")).result()
    assert store.verify("s").entries == 1


def _descriptors() -> set[str]:
    return {link.name for link in Path("/proc/self/fd").iterdir()}


# -- forks -----------------------------------------------------------------------------------


def test_a_forked_process_has_no_lock_of_its_parent(store: JsonlStore, tmp_path: Path) -> None:
    store.new([ChatMessage.user("one")], id="s")
    with (tmp_path / "s.jsonl").open("rb") as file, Child("fork", tmp_path) as child:
        fcntl.flock(file, fcntl.LOCK_EX)
        child.tell("read")
        _wait_until_open(child, tmp_path / "s.jsonl")  # with the lock between threads held
        child.tell("fork")
        assert child.hear() == "forked"
        fcntl.flock(file, fcntl.LOCK_UN)
        assert child.rest() == ["0 ok"]
    assert store.verify("s").is_intact


def test_of_two_processes_that_create_a_session_exactly_one_does(
    store: JsonlStore, tmp_path: Path
) -> None:
    with Child("create", tmp_path) as one, Child("create", tmp_path) as two:
        for number in range(20):
            if number % 2:
                put_lines(tmp_path, [b"torn"], id=f"s{number}")
            for child in (one, two):
                child.tell(f"s{number}")
            heard = {child.hear(): child.process.pid for child in (one, two)}
            assert set(heard) == {"ok", "Conflict"}
            assert store.header(f"s{number}").title == str(heard["ok"])
    assert len(list(tmp_path.iterdir())) == 20


def test_acknowledged_entries_survive_the_end_of_the_process(
    store: JsonlStore, tmp_path: Path
) -> None:
    store.new(id="s")
    told: list[str] = []
    for length in (1, 7, 20, 3):
        with Child("write_for_ever", tmp_path) as child:
            told += [child.hear() for _ in range(length)]
            child.process.kill()
            told += child.rest()
    stored = ids_in(store)
    assert [id for id in stored if id in set(told)] == told
    assert len(stored) <= len(told) + 4  # each may have been ended before it could report that
    assert store.verify("s").is_intact


# -- disks and rights ------------------------------------------------------------------------


def test_a_write_to_a_full_disk_leaves_no_trace(store: JsonlStore, tmp_path: Path) -> None:
    store.new([ChatMessage.user("first")], id="s")
    with Child("full", tmp_path) as child:
        said = child.rest()
    assert said == [
        *["Unavailable", "same"] * 4,
        "Unavailable",
        "Unavailable",
        "blobs s.jsonl",
        "ok",
    ]
    assert store.verify("s").is_intact
    assert store.verify("s").entries == 2
    assert list(store.blobs()) == []


def test_a_failed_sync_leaves_no_trace(store: JsonlStore, tmp_path: Path) -> None:
    store.new([ChatMessage.user("first")], id="s")
    with Child("failing_sync", tmp_path) as child:
        assert child.rest() == ["Unavailable", "same", "ok"]
    assert [message.text for message in store.open("s").messages()] == ["first", "kept"]


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A folder that its owner may only read; outside of the test folder, which others cannot enter."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        folder = top / "sessions"
        store = JsonlStore(folder)
        store.new([ChatMessage.user("one"), ChatMessage.user("two")], id="s")
        store.put_blob(b"data")
        with (folder / "s.jsonl").open("ab") as file:
            file.write(b"torn")
        (folder / ".old.draft").touch()
        os.utime(folder / ".old.draft", (1, 1))
        for path in (*folder.rglob("*"), folder):
            if os.getuid() == 0:
                shutil.chown(path, LAST_UID)
            path.chmod(0o500 if path.is_dir() else 0o400)
        yield folder
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o700)


def test_a_read_only_folder_can_be_read(read_only: Path) -> None:
    before = {path: path.read_bytes() for path in read_only.rglob("*") if path.is_file()}
    with Child("read_only", read_only) as child:
        said = child.rest()
    assert said == ["2 2 1", "True 4", *["Unavailable"] * 6]
    assert {path: path.read_bytes() for path in before} == before


# -- cost ------------------------------------------------------------------------------------


def test_an_append_costs_the_same_however_long_the_session_is(
    store: JsonlStore, tmp_path: Path
) -> None:
    costs: list[list[int]] = []
    for length in (10, 20_000):
        put_lines(tmp_path, lines_of(chained_records(["word " * 20] * length)))
        with Child("cost", tmp_path) as child:
            costs.append([int(number) for number in child.hear().split()])
        store.remove("s")
    (read, written, reads, writes), long = costs
    assert reads == long[2]
    assert writes == long[3] == 10  # one each
    assert abs(written - long[1]) < 10 * 20  # a larger number is a few bytes longer
    assert abs(read - long[0]) < 200  # the counters themselves are read as well
    assert read < 10 * 16 + 1_000


def test_reading_back_takes_only_the_entries_asked_for(store: JsonlStore, tmp_path: Path) -> None:
    """Long entries of another branch must not be read."""
    conversation = store.new([ChatMessage.user("one")], id="s")
    conversation.fork("side")
    conversation.append(ChatMessage.user("x" * 2_000_000))
    head = conversation.append(ChatMessage.user("two"), branch="side").id
    before = _bytes_read()
    assert len(list(store.read_back("s", head))) == 2
    assert _bytes_read() - before < 100_000


def _bytes_read() -> int:
    return int(Path("/proc/self/io").read_text("ascii").split()[1])


def test_a_list_of_sessions_reads_the_beginning_of_each(tmp_path: Path) -> None:
    put_lines(tmp_path, [*lines_of([]), b"x" * 2_000_000])
    before = _bytes_read()
    assert list(JsonlStore(tmp_path).headers()) == [Header(id="s")]
    assert _bytes_read() - before < 200_000
