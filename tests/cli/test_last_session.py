"""`last` is the session that was written to last, even if it is damaged."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from steno import ChatMessage
from steno.store import open_store
from tests.cli.program import run_steno, sample_session

READING = (
    ["audit", "last"],
    ["replay", "last"],
    ["explain", "last"],
    ["approvals", "last"],
    ["sessions", "tree", "last"],
    ["sessions", "show", "last"],
    ["sessions", "export", "last"],
    ["sessions", "label", "last", "2", "here"],
)


def keep(address: str, *names: str) -> None:
    with open_store(address) as store:
        for name in names:
            sample_session(store, id=name)


def damage(address: str, name: str, *, line: int) -> None:
    """Spoil a record of a session; records are counted from 1."""
    kind, _, place = address.partition(":")
    if kind == "jsonl":
        (file,) = [path for path in Path(place).rglob("*") if name in path.name]
        lines = file.read_bytes().split(b"\n")
        file.write_bytes(b"\n".join([*lines[:line], b"rubbish", *lines[line + 1 :]]))
        return
    with closing(sqlite3.connect(place)) as db, db:
        (key,) = db.execute("SELECT key FROM session WHERE id = ?", (name,)).fetchone()
        changed = db.execute("UPDATE record SET data = x'00' WHERE key = ?", (key << 32 | line,))
        assert changed.rowcount == 1


@pytest.mark.requirement("P-10")
@pytest.mark.parametrize("line", [1, 5])
def test_the_last_session_is_verified_also_if_it_is_damaged(address: str, line: int) -> None:
    keep(address, "older", "newer")
    damage(address, "newer", line=line)
    output = run_steno("verify", "last")
    assert (output.status, output.out) == (1, "")
    assert output.named_place == "session newer"
    assert output.err.count("\n") == 1


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_reading_commands_name_the_damaged_session(address: str, command: list[str]) -> None:
    keep(address, "older", "newer")
    damage(address, "newer", line=5)
    output = run_steno(*command)
    assert (output.status, output.out) == (1, "")
    assert (output.code, output.place) == ("checksum_mismatch", "session newer")
    assert "`steno verify newer`" in output.err
    assert "older" not in output.err


def test_the_only_session_is_the_last_one_damaged_or_not(address: str) -> None:
    keep(address, "only")
    damage(address, "only", line=1)
    for command in (["verify", "last"], ["audit", "last"], ["sessions", "show", "last"]):
        output = run_steno(*command)
        assert output.status == 1
        assert output.named_place == "session only"


def test_the_readable_end_of_a_damaged_session_dates_it(
    tmp_path: Path,
) -> None:
    address = f"sqlite:{tmp_path / 'store.db'}"
    keep(address, "resumed", "begun-later")
    with open_store(address) as store:
        store.open("resumed").append(ChatMessage.assistant("It goes on."))
    damage(address, "resumed", line=1)
    output = run_steno("verify", "last", "--store", address)
    assert output.status == 1
    assert output.named_place == "session resumed"


def test_verify_reports_a_damaged_session_that_may_be_the_last(tmp_path: Path) -> None:
    address = f"jsonl:{tmp_path / 'store'}"
    keep(address, "older", "newer")
    damage(address, "older", line=1)
    output = run_steno("verify", "last", "--store", address)
    assert output.status == 1
    assert output.out.startswith("intact  newer  ")
    assert output.named_place == "session older"
    assert output.err.count("\n") == 1
    shown = run_steno("sessions", "show", "last", "--store", address)
    assert shown.status == 0
    assert "session newer\n" in shown.out
    assert shown.err == output.err
