"""Addresses of stores: the store that each names, and the default."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno import ChatMessage, InvalidValue
from steno.errors import Conflict, InvalidDocument, Missing, Unavailable
from steno.records.stored_record import Record
from steno.store import MemoryStore, convert_store, default_address, open_store
from steno.store.locate import read_address


@pytest.mark.parametrize(
    ("address", "kind", "place"),
    [
        ("sqlite:a.db", "sqlite", Path("a.db")),
        ("a.db", "sqlite", Path("a.db")),
        ("a.sqlite", "sqlite", Path("a.sqlite")),
        (Path("a:b.db"), "sqlite", Path("a:b.db")),
        ("sqlite:c:/a.db", "sqlite", Path("c:/a.db")),
        ("sqlite:~/a.db", "sqlite", Path.home() / "a.db"),
        ("jsonl:folder", "jsonl", Path("folder")),
        ("jsonl:.", "jsonl", Path()),
        ("jsonl:///folder", "jsonl", Path("/folder")),
        ("memory:", "memory", ""),
        ("postgresql://host/db", "postgresql", "postgresql://host/db"),
    ],
)
def test_an_address_names_a_kind_and_a_place(
    address: str | Path, kind: str, place: str | Path
) -> None:
    assert read_address(address) == (kind, place)


@pytest.mark.parametrize(
    "address",
    [
        *("", "sqlite:", "memory:here", "mysql://x", "postgresql:x"),
        *("sqlite:/", "sqlite:.", "sqlite://host/a.db", "jsonl://folder"),
    ],
)
def test_any_other_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        open_store(address)
    assert caught.value.code == "store_address_invalid"


def test_a_plain_path_is_a_store_only_if_the_file_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidValue) as caught:
        open_store("foo")
    assert caught.value.code == "store_kind_missing"
    assert not list(tmp_path.iterdir())
    open_store("sqlite:foo").close()
    open_store("foo").close()


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_folders_are_created_only_for_the_default_store(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("STENO_STORE", raising=False)
    with pytest.raises(Unavailable) as caught:
        open_store(f"{kind}:{tmp_path}/no/kept")
    assert caught.value.code == "store_folder_missing"
    assert not list(tmp_path.iterdir())
    open_store().close()
    open_store(default_address()).close()
    assert (tmp_path / "data" / "steno" / "steno.db").is_file()


def test_a_file_of_another_program_is_refused_and_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "cart.py"
    file.write_text("print('hello')\n" * 100)
    with pytest.raises(InvalidDocument) as caught:
        open_store(f"sqlite:{file}")
    assert caught.value.code == "not_a_store"
    assert file.read_text() == "print('hello')\n" * 100
    file.write_text("")
    open_store(f"sqlite:{file}").close()


def test_an_address_is_shown_without_its_password() -> None:
    assert str(read_address("postgresql://ada:secret@host/db")) == "postgresql://host/db"


def test_the_default_store_is_a_file_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STENO_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_address().location == tmp_path / "steno" / "steno.db"
    monkeypatch.setenv("XDG_DATA_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_address().location == tmp_path / ".local" / "share" / "steno" / "steno.db"
    monkeypatch.setenv("STENO_STORE", "jsonl:here")
    assert default_address() == ("jsonl", Path("here"))


def test_a_store_is_created_unless_create_is_false(tmp_path: Path) -> None:
    address = f"sqlite:{tmp_path / 'a.db'}"
    with pytest.raises(Missing) as caught:
        open_store(address, create=False)
    assert caught.value.code == "store_missing"
    assert not list(tmp_path.iterdir())
    open_store(address).close()
    open_store(address, create=False).close()


def test_existing_sessions_can_be_skipped() -> None:
    source, target = MemoryStore(), MemoryStore()
    first = source.new([ChatMessage.user("one")])
    assert convert_store(source, target) == 1
    second = source.new([ChatMessage.user("two")])
    with pytest.raises(Conflict) as caught:
        convert_store(source, target)
    assert (caught.value.code, caught.value.place) == ("session_exists", f"session {first.id}")
    assert [header.id for header in target.headers()] == [first.id]
    assert convert_store(source, target, skip_existing=True) == 1
    assert target.open(second.id).messages() == second.messages()


def test_a_missing_record_cannot_be_replaced() -> None:
    store = MemoryStore()
    session = store.new().id
    with pytest.raises(Missing):
        store.replace(session, Record(seq=1, branch="main", at=None))
