"""A pipe, a socket or a device in place of a file never makes the program wait."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from steno.app.active_run import _load_image
from steno.app.permissions import GrantsFile, KeyFileSigner
from steno.app.settings import read_config_file
from steno.app.system_prompt import read_instructions
from steno.cli.arguments import ExitStatus
from steno.cli.recorded_body import read_recorded_body
from steno.cli.run import _read_user_settings
from steno.errors import StenoError
from steno.providers.embedded import read_model_file
from steno.regular_file import open_input, open_regular_file
from steno.store import open_store
from steno.tools.workspace import Workspace
from steno.ui.prompt_state import PromptHistory
from tests.cli.program import run_steno

BOUND_S: Final = 60.0
T = TypeVar("T")


def bounded(work: Callable[[], T]) -> T | None:
    """Return the result of work, or None if it raised an error; fail if it does not end."""
    results: list[T | None] = []

    def run() -> None:
        result = None
        with suppress(StenoError, OSError):
            result = work()
        results.append(result)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(BOUND_S)
    assert not thread.is_alive(), "the file was waited for"
    return results[0]


@pytest.fixture(params=["pipe", "socket", "device", "folder"])
def special(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file that is not a regular file."""
    path = tmp_path / "special"
    match request.param:
        case "pipe":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))
        case "device":
            path.symlink_to("/dev/zero")
        case _:
            path.mkdir()
    return path


def open_and_close(path: Path) -> bool:
    open_regular_file(path).close()
    return True


def read_image(path: Path) -> Any:
    workspace = path.parent / "workspace"
    workspace.mkdir()
    return _load_image(str(path), Workspace(workspace))


def read_settings(path: Path) -> Mapping[str, object] | None:
    folder = path.parent / "steno"
    folder.mkdir()
    (folder / "config.toml").symlink_to(path)
    return _read_user_settings({"XDG_CONFIG_HOME": str(path.parent)}) or None


def read_project_file(path: Path) -> Any:
    return read_config_file(path, inside=path.parent)


def read_agents_file(path: Path) -> Any:
    path.rename(path.with_name("AGENTS.md"))
    return read_instructions(path.parent, path.parent).files or None


def sign(path: Path) -> None:
    assert KeyFileSigner(path)("text")


READERS: Final[dict[str, Callable[[Path], object]]] = {
    "regular file": open_and_close,
    "image": read_image,
    "settings before the start": read_settings,
    "settings": lambda path: read_config_file(path, inside=None),
    "settings of the project": read_project_file,
    "instructions": read_agents_file,
    "grants": lambda path: GrantsFile(path.parent, file=path).read(),
    "signing key": sign,
    "model": read_model_file,
    "prompt history": lambda path: PromptHistory(path).entries() or None,
}


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_is_not_a_regular_file_is_not_read(name: str, special: Path) -> None:
    assert bounded(lambda: READERS[name](special)) is None


def test_a_regular_file_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    (tmp_path / "link").symlink_to("a")
    with open_regular_file(tmp_path / "link") as file:
        assert file.read() == b"content"
        assert os.get_inheritable(file.fileno()) is False


# -- stores -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_a_store_that_is_a_pipe_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "store"
    os.mkfifo(path)

    def read() -> list[str]:
        with open_store(f"{kind}:{path}") as store:
            return [header.id for header in store.headers()]

    assert not bounded(read)


def test_a_session_file_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    with open_store(f"jsonl:{tmp_path}") as store:
        store.new(id="a")
        os.mkfifo(tmp_path / "b.jsonl")
        assert bounded(lambda: [header.id for header in store.headers()]) == ["a"]
        assert bounded(lambda: store.open("b")) is None
        assert bounded(lambda: store.new(id="b")) is None


def test_a_blob_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    with open_store(f"jsonl:{tmp_path}") as store:
        digest = store.put_blob(b"content")
        (blob,) = (path for path in tmp_path.rglob("*") if path.name == digest)
        blob.unlink()
        os.mkfifo(blob)
        assert bounded(lambda: store.blob(digest)) is None
        bounded(lambda: store.put_blob(b"content"))


# -- files that the user names ----------------------------------------------------------------


def test_a_pipe_that_the_user_names_is_read_to_its_end(tmp_path: Path) -> None:
    """As in `steno sessions import <(command)`."""
    reader, writer = os.pipe()

    def write() -> None:
        with os.fdopen(writer, "wb") as stream:
            for _ in range(100):
                stream.write(b"x" * 10_000)

    thread = threading.Thread(target=write, daemon=True)
    with open_input(f"/dev/fd/{reader}") as file:
        os.close(reader)
        thread.start()
        assert len(bounded(file.read) or b"") == 1_000_000
    thread.join(BOUND_S)


def test_a_pipe_without_a_writer_is_empty(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with open_input(tmp_path / "pipe") as file:
        assert bounded(file.read) == b""
    assert bounded(lambda: read_recorded_body(str(tmp_path / "pipe"))) is None


def test_an_import_of_a_pipe_without_a_writer_ends(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    output = bounded(lambda: run_steno("sessions", "import", tmp_path / "pipe"))
    assert output is not None
    assert output.status != ExitStatus.OK
