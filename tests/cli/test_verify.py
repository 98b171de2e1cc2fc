"""`steno verify`."""

from __future__ import annotations

import json
from pathlib import Path
from zlib import crc32

import pytest

from steno.codec import decode_entry
from steno.records.stored_record import Header, Record
from steno.store import open_store
from tests.cli.program import run_steno, sample_session, store_sample_session


def tamper(folder: Path, name: str, old: bytes, new: bytes) -> None:
    """Change a text in a session file, and the checksum of its line with it."""
    (file,) = [path for path in folder.rglob("*") if name in path.name]
    lines = file.read_bytes().split(b"\n")
    for number, line in enumerate(lines):
        if old in line:
            checked = line.split(b",", 1)[1].replace(old, new)
            lines[number] = b'{"crc":"%08x",' % crc32(checked) + checked
    file.write_bytes(b"\n".join(lines))


def test_an_intact_session_is_reported_with_its_heads(address: str) -> None:
    conversation = store_sample_session(address)
    output = run_steno("verify", "talk")
    heads = {name: conversation.digest(id or "") for name, id in conversation.branches.items()}
    assert (output.status, output.err) == (0, "")
    assert output.out.splitlines() == [
        "intact  talk  12 entries",
        f"  {heads['main']}  main",
        f"  {heads['other']}  other",
    ]
    found = json.loads(run_steno("verify", "talk", "--json").out)
    assert (found["intact"], found["entries"], found["heads"]) == (True, 12, heads)


def test_a_digest_that_was_saved_elsewhere_is_found_again(address: str) -> None:
    conversation = store_sample_session(address)
    second = conversation.digest(conversation.entries()[1].id)
    for given in (second, second.upper()):
        output = run_steno("verify", "talk", "--head", given)
        assert output.status == 0
        assert "record 2 has the digest" in output.out
    output = run_steno("verify", "talk", "--head", "0" * 64)
    assert (output.status, output.out, output.named_place) == (1, "", "session talk")
    assert run_steno("verify", "talk", "--head", second[:12]).status == 2


def test_the_first_bad_record_is_named(tmp_path: Path) -> None:
    address = f"jsonl:{tmp_path / 'store'}"
    conversation = store_sample_session(address)
    tamper(tmp_path / "store", "talk", b"Is it broken?", b"Is it mended?")
    output = run_steno("verify", "talk", "--store", address)
    entry = conversation.entries()[1].id
    assert (output.status, output.out) == (1, "")
    assert output.err.startswith(f"steno: session talk: record 2 (entry {entry}): ")
    again = run_steno("verify", "talk", "--json", "--store", address)
    assert again.status == 1
    found = json.loads(again.out)
    assert not found["intact"]
    assert (found["bad"]["seq"], found["bad"]["entry_id"]) == (2, entry)
    assert output.err.endswith(f": {found['bad']['problem']}\n")


def test_all_sessions_are_checked_and_the_bad_ones_named(tmp_path: Path) -> None:
    address = f"jsonl:{tmp_path / 'store'}"
    with open_store(address) as store:
        sample_session(store, id="one")
        sample_session(store, id="two")
        sample_session(store, id="three")
    tamper(tmp_path / "store", "two", b"Is it broken?", b"Is it mended?")
    (file,) = [path for path in (tmp_path / "store").rglob("*") if "three" in path.name]
    lines = file.read_bytes().split(b"\n")
    file.write_bytes(b"\n".join([*lines[:4], b"rubbish", *lines[5:]]))
    output = run_steno("verify", "--all", "--store", address)
    assert output.status == 1
    assert output.out == "intact  one  12 entries\n"
    three, two = output.err.splitlines()
    assert three.startswith("steno: session three: ")
    assert two.startswith("steno: session two: record 2 ")


@pytest.mark.parametrize(
    "arguments", [[], ["talk", "--all"], ["--all", "--head", "0" * 64], ["talk", "--head", "x"]]
)
def test_verify_needs_a_session_or_all(arguments: list[str]) -> None:
    output = run_steno("verify", *arguments)
    assert output.status == 2
    assert "usage: steno verify" in output.err


def test_in_a_store_without_sessions_all_is_well(home: Path) -> None:
    assert run_steno("verify", "--all") == (0, "", "")
    assert list(home.iterdir()) == []


def test_entries_of_a_newer_version_are_reported_as_unchecked(address: str) -> None:
    newer = decode_entry('{"v":4,"id":"n1","what":"is this"}')
    record = Record(seq=1, branch="main", entry=newer, digest="ab" * 32)
    with open_store(address) as store:
        store.add_session(Header(id="newer"), [record])
    output = run_steno("verify", "newer")
    assert output.status == 3
    assert output.named_place == "session newer"
    assert run_steno("verify", "newer", "--allow-newer").status == 0


def test_an_error_is_no_way_to_a_terminal(address: str) -> None:
    output = run_steno("sessions", "show", "\x1b]0;owned\x07id")
    assert output.status == 1
    assert "\x1b" not in output.err
    assert "\x07" not in output.err
