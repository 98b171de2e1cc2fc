"""Files of a workspace are read and written as a whole, and unseen content is never overwritten."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from steno.errors import InvalidValue, ToolFailed
from steno.tools.workspace import Fingerprint, Workspace, run_to_completion
from tests.raised_errors import raises_code


def everything(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


# -- folders ---------------------------------------------------------------------------------


def test_a_workspace_needs_a_folder_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with raises_code(InvalidValue, "no_folder", place="workspace"):
        Workspace([])
    missing, file = tmp_path / "missing", tmp_path / "file"
    with raises_code(InvalidValue, "folder_unusable"):
        Workspace([tmp_path, missing])
    with raises_code(InvalidValue, "not_a_folder"):
        Workspace(file)
    with raises_code(InvalidValue, "folder_not_a_path"):
        Workspace([7])  # type: ignore[list-item] # as people do
    with raises_code(InvalidValue, "folder_unusable"):
        Workspace("a\0b")


def test_a_folder_may_be_given_alone_and_as_text(tmp_path: Path) -> None:
    for given in (tmp_path, str(tmp_path), [str(tmp_path)], iter([tmp_path])):
        assert Workspace(given).roots == (tmp_path.resolve(),)


def test_a_folder_is_known_by_its_real_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").touch()
    (tmp_path / "link").symlink_to("real")
    workspace = Workspace([tmp_path / "link"])
    assert workspace.root == tmp_path / "real"
    assert workspace.relative(str(tmp_path / "link" / "file")) == "file"


# -- one spelling ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "src/a.py",
        "./src//a.py",
        "src/./a.py",
        "src/../src/a.py",
        "lib/a.py",
        "alias.py",
        "{}/src/a.py",
    ],
)
def test_a_file_has_one_spelling_however_it_is_named(
    workspace: Workspace, folder: Path, path: str
) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "a.py").touch()
    (folder / "lib").symlink_to("src")
    (folder / "alias.py").symlink_to(folder / "lib" / "a.py")
    assert workspace.relative(path.format(folder)) == "src/a.py"


def test_the_working_folder_itself_is_a_dot(workspace: Workspace, folder: Path) -> None:
    assert workspace.relative(".") == workspace.relative(str(folder)) == "."


def test_a_missing_path_has_a_canonical_spelling(workspace: Workspace) -> None:
    assert workspace.relative("new/deep/file.py") == "new/deep/file.py"


def test_a_file_in_another_folder_is_absolute(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "x").write_bytes(b"x")
    (folder / "link").symlink_to(other / "x")
    workspace = Workspace([folder, other])
    assert workspace.relative("../other/x") == workspace.relative("link") == str(other / "x")
    assert workspace.read_file(workspace.relative("link")) == b"x"


def test_a_folder_inside_another_is_no_way_around_it(tmp_path: Path, outside: Path) -> None:
    inner = tmp_path / "work" / "inner"
    inner.mkdir(parents=True)
    workspace = Workspace([inner, tmp_path / "work"])
    assert workspace.relative("../x") == str(tmp_path / "work" / "x")
    inner.rmdir()
    inner.symlink_to(outside)
    with raises_code(ToolFailed, "outside_workspace"):
        workspace.read_file("secret.txt")


# -- files -----------------------------------------------------------------------------------


def test_files_are_named_in_order_without_links(workspace: Workspace, folder: Path) -> None:
    for name in ("b/2", "b/1", "a", "b-c", "c/d/e", ".hidden"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / "b" / "up").symlink_to("..")
    (folder / "link").symlink_to("a")
    os.mkfifo(folder / "pipe")
    assert list(workspace.files()) == [".hidden", "a", "b/1", "b/2", "b-c", "c/d/e"]
    assert list(workspace.files("b/up/c")) == ["c/d/e"]
    assert list(workspace.files("a")) == ["a"]
    assert list(workspace.files("pipe")) == []


def test_files_of_a_folder_that_is_not_there_are_an_error(workspace: Workspace) -> None:
    with raises_code(ToolFailed, "file_not_found"):
        list(workspace.files("missing/too"))


def test_names_that_no_model_could_say_are_left_out(workspace: Workspace, folder: Path) -> None:
    (folder / os.fsdecode(b"bad\xff")).touch()
    (folder / "good").touch()
    assert list(workspace.files()) == ["good"]


# -- reading ---------------------------------------------------------------------------------


def test_a_folder_is_not_read(workspace: Workspace, folder: Path) -> None:
    (folder / "src").mkdir()
    with raises_code(ToolFailed, "is_a_folder", place="'src'"):
        workspace.read_file("src")


def test_a_file_that_is_too_large_is_not_read(workspace: Workspace, folder: Path) -> None:
    (folder / "big").write_bytes(b"x" * 101)
    assert len(workspace.read_file("big", max_bytes=101)) == 101
    with raises_code(ToolFailed, "file_too_large"):
        workspace.read_file("big", max_bytes=100)


# -- writing ---------------------------------------------------------------------------------


def test_a_new_file_is_made_with_its_folders(workspace: Workspace, folder: Path) -> None:
    workspace.write_file("a/b/c.txt", b"new", expected=None)
    assert (folder / "a" / "b" / "c.txt").read_bytes() == b"new"
    assert everything(folder) == ["a", "a/b", "a/b/c.txt"]


def test_a_new_file_has_the_mode_that_the_umask_leaves(workspace: Workspace, folder: Path) -> None:
    before = os.umask(0o027)
    try:
        workspace.write_file("file", b"", expected=None)
    finally:
        os.umask(before)
    assert (folder / "file").stat().st_mode & 0o7777 == 0o640


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o664])
def test_a_file_that_is_replaced_keeps_its_mode(
    workspace: Workspace, folder: Path, mode: int
) -> None:
    file = folder / "file"
    file.write_bytes(b"old")
    file.chmod(mode)
    workspace.write_file("file", b"new", expected=Fingerprint.of(b"old"))
    assert (file.read_bytes(), file.stat().st_mode & 0o7777) == (b"new", mode)


def test_a_link_stays_a_link_when_its_file_is_written(workspace: Workspace, folder: Path) -> None:
    (folder / "real").write_bytes(b"old")
    (folder / "link").symlink_to("real")
    workspace.write_file("link", b"new", expected=Fingerprint.of(b"old"))
    assert (folder / "link").is_symlink()
    assert (folder / "real").read_bytes() == b"new"


def test_a_file_that_differs_from_the_expected_content_is_not_replaced(
    workspace: Workspace, folder: Path
) -> None:
    (folder / "file").write_bytes(b"other")
    for path, expected, code in (
        ("file", None, "already_exists"),
        ("file", Fingerprint.of(b"old"), "changed_since_read"),
        ("gone", Fingerprint.of(b"old"), "removed_since_read"),
        ("new/folder/gone", Fingerprint.of(b"old"), "removed_since_read"),
    ):
        with raises_code(ToolFailed, code):
            workspace.write_file(path, b"new", expected=expected)
    assert (folder / "file").read_bytes() == b"other"
    assert everything(folder) == ["file"]


def test_a_file_cannot_be_written_where_a_folder_or_a_pipe_is(
    workspace: Workspace, folder: Path
) -> None:
    (folder / "src").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "file").touch()
    for path, code in (
        ("src", "is_a_folder"),
        (".", "is_a_folder"),
        ("pipe", "not_a_regular_file"),
        ("file/below", "not_a_folder"),
    ):
        with raises_code(ToolFailed, code):
            workspace.write_file(path, b"new", expected=None)
    assert everything(folder) == ["file", "pipe", "src"]


FULL_DISK = """
import resource, sys
from pathlib import Path
from steno.errors import ToolFailed
from steno.tools.workspace import Fingerprint, Workspace

workspace = Workspace([Path(sys.argv[1])])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for path, expected in (("old", Fingerprint.of(b"old")), ("a/b/new", None)):
    try:
        workspace.write_file(path, b"x" * 100_000, expected=expected)
    except ToolFailed as exc:
        print(exc.place, exc.code)
"""


def test_nothing_is_left_behind_when_there_is_no_room(folder: Path) -> None:
    (folder / "old").write_bytes(b"old")
    ran = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stdout.splitlines() == [
        "'old' file_too_large",
        "'a/b/new' file_too_large",
    ]
    assert everything(folder) == ["old"]
    assert (folder / "old").read_bytes() == b"old"


READ_ONLY = """
import os, sys
from pathlib import Path
from steno.errors import ToolFailed
from steno.tools.workspace import Fingerprint, Workspace

workspace = Workspace([Path(sys.argv[1])])
if os.geteuid() == 0:  # whom nothing is forbidden
    os.setuid(65534)
for path, expected in (("file", Fingerprint.of(b"old")), ("closed/new", None)):
    try:
        workspace.write_file(path, b"new", expected=expected)
    except ToolFailed as exc:
        print(exc.place, exc.code)
"""


def test_a_read_only_file_is_not_replaced() -> None:
    with tempfile.TemporaryDirectory() as name:  # not below a folder of the user alone
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "closed").mkdir(mode=0o555)
        (folder / "file").write_bytes(b"old")
        (folder / "file").chmod(0o444)
        ran = subprocess.run(
            [sys.executable, "-c", READ_ONLY, name],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert ran.stdout.splitlines() == [
            "'file' permission_denied",
            "'closed/new' permission_denied",
        ]
        assert everything(folder) == ["closed", "file"]
        assert (folder / "file").read_bytes() == b"old"


def test_a_reader_sees_the_old_content_or_the_new_during_a_write(
    workspace: Workspace, folder: Path
) -> None:
    contents = [bytes([65 + n]) * 200_000 for n in range(2)]
    workspace.write_file("file", contents[0], expected=None)
    seen: set[bytes] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.add((folder / "file").read_bytes())

    looker = threading.Thread(target=look)
    looker.start()
    try:
        for n in range(40):
            before, after = contents[n % 2], contents[1 - n % 2]
            workspace.write_file("file", after, expected=Fingerprint.of(before))
    finally:
        done.set()
        looker.join(60)
    assert seen
    assert seen <= set(contents)


# -- what was seen ---------------------------------------------------------------------------


def test_a_file_is_known_once_it_was_read_until_it_changes(
    workspace: Workspace, folder: Path
) -> None:
    file = folder / "file"
    file.write_bytes(b"one")
    with raises_code(ToolFailed, "not_read_yet"):
        workspace.check_unchanged_since_read("file", b"one")
    workspace.mark_as_read("./file", b"one")
    workspace.check_unchanged_since_read("file", workspace.read_file("file"))
    file.write_bytes(b"two")
    with raises_code(ToolFailed, "changed_since_read"):
        workspace.check_unchanged_since_read("file", workspace.read_file("file"))


def test_a_file_that_was_only_touched_has_not_changed(workspace: Workspace, folder: Path) -> None:
    (folder / "file").write_bytes(b"one")
    workspace.mark_as_read("file", b"one")
    os.utime(folder / "file", (1, 1))
    workspace.check_unchanged_since_read("file", workspace.read_file("file"))


def test_a_written_file_counts_as_read(workspace: Workspace) -> None:
    workspace.write_file("file", b"one", expected=None)
    workspace.check_unchanged_since_read("file", workspace.read_file("file"))


# -- cancel ----------------------------------------------------------------------------------


def test_work_that_was_begun_is_over_when_a_cancelled_call_ends() -> None:
    begun, go_on = threading.Event(), threading.Event()
    ended: list[bool] = []

    def work() -> None:
        begun.set()
        ended.append(go_on.wait(60))

    async def cancel() -> None:
        task = asyncio.create_task(run_to_completion(work))
        assert await asyncio.to_thread(begun.wait, 60)
        for _ in range(2):  # a second cancellation
            task.cancel()
            done, _ = await asyncio.wait({task}, timeout=0)
            assert not done
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 60)
        assert ended == [True]

    asyncio.run(cancel())
