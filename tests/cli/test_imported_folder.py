"""An imported session has no folder to work in until the user chooses one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from steno.app.session_lookup import FOLDER_KEY, session_folder
from steno.errors import Missing
from steno.store import open_store
from tests.app.project_setup import OFFLINE, make_project
from tests.app.session_setup import open_user_session, run
from tests.cli.program import run_steno

pytestmark = pytest.mark.requirement("S2-18")


@pytest.fixture
def project(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = make_project(tmp_path, monkeypatch)
    monkeypatch.setenv("STENO_STORE", address)
    return folder


def import_session(address: str, project: Path, format: str = "jsonl") -> str:
    """Import a session that was started in the project, and return its ID."""
    with open_store(address) as store:
        store.new(id="made", about={FOLDER_KEY: str(project)})
    assert run_steno("-r", "made", "-p", "Hi", *OFFLINE).status == 0
    exported = run_steno("sessions", "export", "made", "--format", format).out.encode()
    assert run_steno("sessions", "rm", "made", "--yes").status == 0
    output = run_steno("sessions", "import", "-", "--id", "theirs", data=exported)
    assert (output.status, output.out.strip()) == (0, "theirs"), output.err
    return "theirs"


@pytest.mark.parametrize("format", ["jsonl", "session", "audit"])
def test_an_imported_session_is_not_resumed_without_a_folder(
    address: str, project: Path, format: str
) -> None:
    session = import_session(address, project, format)
    with open_store(address) as store:
        assert session_folder(store.header(session)) is None
        before = list(store.records(session))
    output = run_steno("-r", session, "-p", "Go on", *OFFLINE)
    assert (output.status, output.code, output.place) == (1, "folder_not_chosen", "session")
    assert f"steno -r {session} --folder ." in output.err
    assert run_steno("-c", "-p", "Go on", *OFFLINE).code == "folder_without_session"
    with open_store(address) as store:
        assert list(store.records(session)) == before


def test_an_imported_session_works_in_the_folder_that_the_user_names(
    address: str, project: Path, tmp_path: Path
) -> None:
    session = import_session(address, project)
    other = tmp_path / "other"
    other.mkdir()
    (other / "note.txt").write_text("from the other folder\n")
    output = run_steno("-r", session, "-p", "read note.txt", "--folder", other, *OFFLINE)
    assert output.status == 0
    assert Path.cwd() == other
    shown = run_steno("sessions", "show", session, "--json").out
    assert "from the other folder" in shown


def test_a_clone_of_an_imported_session_needs_a_folder_too(address: str, project: Path) -> None:
    session = import_session(address, project)
    clone = run_steno("sessions", "fork", session, "--clone").out.strip()
    assert run_steno("-r", clone, "-p", "Go on", *OFFLINE).code == "folder_not_chosen"


def test_a_terminal_does_not_resume_an_imported_session(address: str, project: Path) -> None:
    session = import_session(address, project)

    async def main(*, is_chosen: bool) -> str:
        flags = {"model": "offline", "store": address}
        async with open_user_session(project, flags=flags, is_folder_chosen=is_chosen) as user:
            await user.session.session_list.resume(session)
            return user.session.status.session or ""

    with pytest.raises(Missing) as caught:
        run(main(is_chosen=False))
    assert caught.value.code == "folder_not_chosen"
    assert run(main(is_chosen=True)) == session


def test_a_new_run_on_an_imported_session_needs_a_folder(address: str, project: Path) -> None:
    session = import_session(address, project)
    replay = ("replay", session, "--model", "offline")
    assert run_steno(*replay).code == "folder_not_chosen"
    assert run_steno(*replay, "--folder", project, "--json").status == 0
    assert run_steno("replay", session, "--folder", project).status == 2


@pytest.mark.parametrize("folder", ["missing", "note.txt", "a\0b"])
def test_a_folder_that_cannot_be_entered_is_refused(project: Path, folder: str) -> None:
    output = run_steno("-p", "Hi", "--folder", folder, *OFFLINE)
    assert (output.status, output.code, output.place) == (2, "folder_missing", "--folder")
    assert Path.cwd() == project


def test_the_folder_of_a_new_session_may_be_named(
    address: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(project)
    assert run_steno("-p", "Hi", "--folder", os.path.relpath(other), *OFFLINE).status == 0
    [listed] = run_steno("sessions", "list", "--json").out.splitlines()
    assert json.loads(listed)["folder"] == str(other)
