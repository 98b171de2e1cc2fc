"""`steno store convert`, `gc` and `info`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from steno import ChatMessage
from steno.messages.content import Image, ImageData
from steno.records.stored_record import Header, Record
from steno.store import Store, open_store
from tests.cli.program import on_terminal, run_steno, sample_session, store_sample_session


def stored_session(store: Store, session: str) -> tuple[Header, list[Record], list[str]]:
    return store.header(session), list(store.records(session)), list(store.heads(session))


PICTURE = Image(source=ImageData(b"\x89PNG" * 8_000), mime_type="image/png")


def test_everything_arrives_in_another_kind_of_store_and_back(tmp_path: Path) -> None:
    addresses = [
        f"sqlite:{tmp_path / 'a.db'}",
        f"jsonl:{tmp_path / 'b'}",
        f"sqlite:{tmp_path / 'c'}",
    ]
    with open_store(addresses[0]) as store:
        sample_session(store)
        store.new([ChatMessage.user([PICTURE])], id="seen")
        wanted = [stored_session(store, id) for id in ("talk", "seen")]
    for source, target in pairwise(addresses):
        assert run_steno("store", "convert", source, target) == (0, "2 sessions copied\n", "")
    with open_store(addresses[2]) as store:
        assert [stored_session(store, id) for id in ("talk", "seen")] == wanted
        (blob,) = store.blobs()
        assert store.blob(blob.sha256) == b"\x89PNG" * 8_000


def test_a_session_goes_to_postgresql_and_is_worked_with_there(
    tmp_path: Path, postgres_address: str
) -> None:
    source = f"sqlite:{tmp_path / 'a.db'}"
    store_sample_session(source)
    assert run_steno("store", "convert", source, postgres_address) == (0, "1 session copied\n", "")
    there = ("--store", postgres_address)
    assert "Mend the build" in run_steno("sessions", "list", *there).out
    assert (
        run_steno("verify", "talk", *there).out
        == run_steno("verify", "talk", "--store", source).out
    )
    assert run_steno("sessions", "fork", "last", "--name", "new", *there).status == 0
    assert "<- new (active)" in run_steno("sessions", "tree", "talk", *there).out
    info = run_steno("store", "info", *there).out
    assert "sessions  1\n" in info
    assert "password" not in info


def test_only_what_is_named_is_copied(tmp_path: Path) -> None:
    source, target = f"jsonl:{tmp_path / 'a'}", f"sqlite:{tmp_path / 'b.db'}"
    with open_store(source) as store:
        for name in ("one", "two", "three"):
            sample_session(store, id=name)
    arguments = ("--session", "on", "--session", "one", "--session", "last")
    assert run_steno("store", "convert", source, target, *arguments).out == "2 sessions copied\n"
    with open_store(target) as store:
        assert {header.id for header in store.headers()} == {"one", "three"}


def test_a_session_in_the_target_is_a_conflict_unless_it_is_skipped(tmp_path: Path) -> None:
    source, target = f"jsonl:{tmp_path / 'a'}", f"sqlite:{tmp_path / 'b.db'}"
    store_sample_session(source)
    assert run_steno("store", "convert", source, target).status == 0
    output = run_steno("store", "convert", source, target)
    assert (output.status, output.code, output.place) == (1, "session_exists", "session talk")
    assert "--skip-existing" in output.err
    output = run_steno("store", "convert", source, target, "--skip-existing")
    assert output == (0, "0 sessions copied, 1 skipped\n", "")


def test_a_source_that_is_not_there_makes_no_target(tmp_path: Path) -> None:
    source, target = f"jsonl:{tmp_path / 'a'}", f"sqlite:{tmp_path / 'b.db'}"
    output = run_steno("store", "convert", source, target)
    assert (output.status, output.code, output.place) == (1, "store_missing", "store")
    assert source in output.err
    assert list(tmp_path.glob("[ab]*")) == []


def test_a_broken_session_is_not_copied(tmp_path: Path) -> None:
    source, target = f"jsonl:{tmp_path / 'a'}", f"sqlite:{tmp_path / 'b.db'}"
    store_sample_session(source)
    (file,) = [path for path in (tmp_path / "a").rglob("*") if "talk" in path.name]
    lines = file.read_bytes().split(b"\n")
    file.write_bytes(b"\n".join([*lines[:2], *lines[3:]]))
    output = run_steno("store", "convert", source, target)
    assert output.status == 1
    with open_store(target) as store:
        assert list(store.headers()) == []


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    address = "postgresql://ada:secret@127.0.0.1:1/none?connect_timeout=2"
    output = run_steno("sessions", "list", "--store", address)
    assert output.status == 1
    assert output.err.count("\n") == 1
    assert "secret" not in output.err


WITHOUT_DRIVER = """\
import sys
sys.modules["psycopg"] = None
from steno.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("command", ["sessions list", "verify --all", "store info"])
def test_a_missing_driver_is_reported_in_one_line(command: str) -> None:
    address = "postgresql://127.0.0.1:1/none"
    output = subprocess.run(
        [sys.executable, "-c", WITHOUT_DRIVER, *command.split(), "--store", address],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (output.returncode, output.stdout, output.stderr.count(b"\n")) == (1, b"", 1)
    assert output.stderr.endswith(b": pip install 'steno-agent[postgres]'\n")


def test_nothing_is_copied_to_where_it_is_gone_at_once(address: str) -> None:
    store_sample_session(address)
    output = run_steno("store", "convert", address, "memory:")
    assert (output.status, output.code, output.place) == (2, "store_not_kept", "convert")


def test_nothing_of_a_progress_bar_is_left_on_a_terminal(tmp_path: Path) -> None:
    source, target = f"jsonl:{tmp_path / 'a'}", f"sqlite:{tmp_path / 'b.db'}"
    store_sample_session(source)
    shown = on_terminal("store", "convert", source, target).out
    assert shown == "1 session copied\n"


LONG_WORK = """\
import sys
from steno.render.progress import show_progress
total = int(sys.argv[1]) or None
with show_progress("copying", total, delay_s=0) as shown:
    assert list(shown.track("abc")) == ["a", "b", "c"]
"""


UNCOUNTED_WORK = """\
import threading
from steno.render.progress import show_activity
with show_activity("copying", delay_s=0):
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and isinstance(thread, threading.Timer):
            thread.join()
"""


@pytest.mark.parametrize("has_rich", [True, False])
@pytest.mark.parametrize(
    ("work", "total"), [(LONG_WORK, "3"), (LONG_WORK, "0"), (UNCOUNTED_WORK, "")]
)
def test_long_work_is_shown_on_a_terminal_and_wiped_away(
    has_rich: bool, work: str, total: str
) -> None:
    blocked = "" if has_rich else "import sys; sys.modules['rich'] = None\n"
    command = [sys.executable, "-c", blocked + work, total]
    shown = on_terminal(command=command)
    assert shown.status == 0
    assert "copying" in shown.out
    assert shown.out.endswith("\x1b[2K" if has_rich else "\r\x1b[K")
    piped = subprocess.run(command, capture_output=True, check=True, timeout=60)
    assert (piped.stdout, piped.stderr) == (b"", b"")


# -- gc and info ---------------------------------------------------------------------------------


def test_old_unreferenced_blobs_are_removed(tmp_path: Path) -> None:
    address = f"jsonl:{tmp_path / 'store'}"
    with open_store(address) as store:
        store.new([ChatMessage.user([PICTURE])], id="seen")
        lost = store.put_blob(b"unreferenced blob")
        fresh = store.put_blob(b"not referenced yet")
    for file in (tmp_path / "store").rglob(f"*{lost[8:]}*"):
        os.utime(file, (1_000_000_000, 1_000_000_000))
    assert run_steno("store", "gc", "--store", address) == (0, "17 bytes freed\n", "")
    with open_store(address) as store:
        left = {blob.sha256 for blob in store.blobs()}
    assert fresh in left
    assert lost not in left
    assert len(left) == 2


def test_store_info_counts_the_content(address: str) -> None:
    with open_store(address) as store:
        sample_session(store)
        store.new([ChatMessage.user([PICTURE])], id="seen")
    output = run_steno("store", "info")
    assert output.status == 0
    lines = output.out.splitlines()
    assert lines[:4] == [
        f"store     {address}",
        "sessions  2",
        "entries   13",
        "blobs     1 (32,000 bytes)",
    ]
    assert re.fullmatch(r"on disk   [\d,]+ bytes", lines[4])
    found = json.loads(run_steno("store", "info", "--json").out)
    assert found.pop("disk_bytes") > 0
    assert found == {
        "store": address,
        "exists": True,
        "sessions": 2,
        "entries": 13,
        "blobs": 1,
        "blob_bytes": 32_000,
    }


def test_store_info_reports_a_missing_store(home: Path) -> None:
    output = run_steno("store", "info")
    assert output.status == 0
    assert output.out.startswith(
        f"store     sqlite:{home}/.local/share/steno/steno.db (does not exist yet)\n"
    )
    assert run_steno("store", "gc").out == "0 bytes freed\n"
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("arguments", [[], ["convert"], ["convert", "a"], ["burn"]])
def test_a_command_that_makes_no_sense_is_explained(arguments: list[str]) -> None:
    output = run_steno("store", *arguments)
    assert output.status == 2
    assert "usage: steno store" in output.err


def test_sessions_for_programs_survive_the_journey(tmp_path: Path) -> None:
    source, target = f"jsonl:{tmp_path / 'a'}", f"sqlite:{tmp_path / 'b.db'}"
    store_sample_session(source)
    run_steno("store", "convert", source, target)
    listed = [
        json.loads(run_steno("sessions", "list", "--json", "--store", place).out)
        for place in (source, target)
    ]
    assert listed[0] == listed[1]
