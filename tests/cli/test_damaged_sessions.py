"""One session that cannot be read does not stand in the way of the others."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from steno.store import open_store
from tests.cli.program import run_steno, sample_session


def spoil_record(lines: list[bytes]) -> list[bytes]:
    return [*lines[:3], b"rubbish", *lines[4:]]


def spoil_header(lines: list[bytes]) -> list[bytes]:
    return [b"rubbish", *lines[1:]]


@pytest.fixture(params=[spoil_record, spoil_header])
def worn(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a store of three sessions, the second of which is damaged."""
    address = f"jsonl:{tmp_path / 'store'}"
    with open_store(address) as store:
        for name in ("one", "worn", "two"):
            sample_session(store, id=name)
        store.put_blob(b"unreferenced")
    for file in (tmp_path / "store").rglob("*"):
        if "worn" in file.name:
            spoil: Callable[[list[bytes]], list[bytes]] = request.param
            file.write_bytes(b"\n".join(spoil(file.read_bytes().split(b"\n"))))
        if file.is_file():
            os.utime(file, (1_000_000_000, 1_000_000_000))
    monkeypatch.setenv("STENO_STORE", address)
    return address


def names_it(err: str) -> bool:
    lines = err.splitlines()
    return len(lines) == 1 and lines[0].startswith("steno: ") and "worn" in lines[0]


def test_the_others_are_listed_and_found(worn: str) -> None:
    listed = run_steno("sessions", "list", "--json")
    assert {json.loads(line)["id"] for line in listed.out.splitlines()} == {"one", "two"}
    assert listed.status == 1
    assert names_it(listed.err)
    assert run_steno("sessions", "show", "tw").status == 0
    assert "session two\n" in run_steno("sessions", "show", "last").out
    assert run_steno("store", "info").status == 1


def test_the_others_are_searched(worn: str) -> None:
    output = run_steno("sessions", "search", "once", "more", "--json")
    assert {json.loads(line)["session"] for line in output.out.splitlines()} == {"one", "two"}
    assert output.status == 1
    assert names_it(output.err)


def test_the_others_are_checked(worn: str) -> None:
    output = run_steno("verify", "--all")
    assert output.out == "intact  one  12 entries\nintact  two  12 entries\n"
    assert output.status == 1
    assert names_it(output.err)


def test_the_others_are_copied(worn: str, tmp_path: Path) -> None:
    target = f"sqlite:{tmp_path / 'copy.db'}"
    output = run_steno("store", "convert", worn, target)
    assert output.out.startswith("2 sessions copied")
    assert output.status == 1
    assert names_it(output.err)
    with open_store(target) as store:
        assert {header.id for header in store.headers()} == {"one", "two"}
    again = run_steno("store", "convert", worn, target, "--skip-existing")
    assert again.out.startswith("0 sessions copied")
    assert names_it(again.err)


def test_no_blob_is_removed_that_might_be_named(worn: str) -> None:
    output = run_steno("store", "gc")
    assert (output.status, output.out) == (1, "")
    first, second = output.err.splitlines()
    assert first.startswith("steno: gc: ")
    assert names_it(second)
    with open_store(worn) as store:
        assert len(list(store.blobs())) == 1


def test_if_no_session_can_be_read_that_is_reported(tmp_path: Path) -> None:
    address = f"jsonl:{tmp_path / 'store'}"
    with open_store(address) as store:
        sample_session(store, id="worn")
    (file,) = [path for path in (tmp_path / "store").rglob("*") if "worn" in path.name]
    file.write_bytes(b"\n".join(spoil_header(file.read_bytes().split(b"\n"))))
    for command in (["sessions", "list"], ["sessions", "search", "more"], ["verify", "--all"]):
        output = run_steno(*command, "--store", address)
        assert (output.status, output.out) == (1, "")
        assert names_it(output.err)
