"""Files that were shown are compared with their current content, and changes are reported."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from steno import Text
from steno.inputs.file_references import FileLimits, FileReferenceResolver
from steno.ports import ResolvedReference
from steno.records.entry import Resolution, ResolutionStatus
from steno.tools.search import FileMatch, SearchRequest
from steno.tools.workspace import Workspace
from tests.inputs.file_references.reference_setup import (
    changes,
    error_code_of,
    recorded,
    reference,
    resolve,
)
from tests.tools.search_engines import write_files


def test_a_file_that_is_as_it_was_has_not_changed(workspace: Workspace, folder: Path) -> None:
    (folder / "f").write_text("a\n")
    files = FileReferenceResolver(workspace)
    finding = resolve(files, "f")
    (folder / "f").write_text("b\n")
    (folder / "f").write_text("a\n")
    assert changes(files, "f", finding) == ()


@pytest.mark.parametrize("text", ["b\n", "longer\n", ""])
def test_a_changed_file_is_reported(workspace: Workspace, folder: Path, text: str) -> None:
    (folder / "notes.md").write_text("a\n")
    files = FileReferenceResolver(workspace)
    finding = resolve(files, "notes.md")
    (folder / "notes.md").write_text(text)
    assert changes(files, "notes.md", finding) == ("notes.md has changed since it was shown",)


def test_a_deleted_file_is_reported(workspace: Workspace, folder: Path) -> None:
    write_files(folder, {"sub/notes.md": "a\n"})
    files = FileReferenceResolver(workspace)
    finding = resolve(files, "sub/notes.md")
    shutil.rmtree(folder / "sub")
    assert changes(files, "sub/notes.md", finding) == ("sub/notes.md is gone",)


def test_a_replaced_file_is_not_read(workspace: Workspace, folder: Path, outside: Path) -> None:
    (folder / "f").write_text("SECRET\n")
    files = FileReferenceResolver(workspace)
    finding = resolve(files, "f")
    (folder / "f").unlink()
    (folder / "f").symlink_to(outside / "secret.txt")
    assert changes(files, "f", finding) == ("f cannot be read any more",)
    (folder / "f").unlink()
    (folder / "f").mkdir()
    assert changes(files, "f", finding) == ("f cannot be read any more",)


def test_a_folder_reports_whether_its_listing_changed(workspace: Workspace, folder: Path) -> None:
    write_files(folder, {"src/a": "x"})
    files = FileReferenceResolver(workspace)
    finding = resolve(files, "src")
    assert changes(files, "src", finding) == ()
    (folder / "src" / "b").touch()
    assert changes(files, "src", finding) == ("src has changed since it was shown",)
    shutil.rmtree(folder / "src")
    assert changes(files, "src", finding) == ("src is gone",)
    (folder / "src").touch()
    assert len(changes(files, "src", finding)) == 1


def test_a_listing_of_an_earlier_version_is_not_reported_as_changed(
    workspace: Workspace, folder: Path
) -> None:
    """Sessions store the digest of the text, whose heading had other words."""
    write_files(folder, {"src/a": "xy"})
    files = FileReferenceResolver(workspace)
    found = resolve(files, "src")
    former = "src/ holds 0 folders and 1 file, without what is hidden or ignored:\na (2 bytes)\n"
    (text,) = found.content
    assert isinstance(text, Text)
    assert text.text.partition("\n")[2] == former.partition("\n")[2]
    sha256 = hashlib.sha256(former.encode()).hexdigest()
    recorded_then = replace(found, details={**(found.details or {}), "sha256": sha256})
    assert changes(files, "src", recorded_then) == ()
    (folder / "src" / "b").touch()
    assert changes(files, "src", recorded_then) == ("src has changed since it was shown",)


def test_known_files_of_a_folder_are_not_reported(workspace: Workspace, folder: Path) -> None:
    write_files(folder, {"src/a.py": "x", "src/b.py": "x", "src/lib/c.py": "x"})
    files = FileReferenceResolver(workspace)
    news = ("src has changed since it was shown",)
    for path in ("src", str(folder / "src")):
        finding = resolve(files, path)
        write_files(folder, {"src/a.py": "longer", "src/new.py": "", "src/deep/er/d.py": ""})
        known = ("src/a.py", "src/new.py", "src/deep/er/d.py", "elsewhere/x.py")
        assert changes(files, path, finding, *known) == ()
        assert changes(files, path, finding, *known[1:]) == news
        write_files(folder, {"src/b.py": "longer"})
        assert changes(files, path, finding, *known) == news
        assert changes(files, path, finding, *known, "src/b.py") == ()
        (folder / "src" / "b.py").unlink()
        assert changes(files, path, finding, *known) == news
        shutil.rmtree(folder / "src")
        write_files(folder, {"src/a.py": "x", "src/b.py": "x", "src/lib/c.py": "x"})


def test_known_files_of_the_working_directory_are_not_reported(
    workspace: Workspace, folder: Path
) -> None:
    write_files(folder, {"a.py": "x"})
    files = FileReferenceResolver(workspace)
    finding = resolve(files, ".")
    write_files(folder, {"a.py": "longer"})
    assert changes(files, ".", finding, "a.py", "/elsewhere") == ()
    write_files(folder, {"b.py": ""})
    assert changes(files, ".", finding, "a.py") == (". has changed since it was shown",)


def test_known_files_do_not_displace_others_in_a_long_listing(
    workspace: Workspace, folder: Path
) -> None:
    write_files(folder, {f"{number}.py": "x" for number in range(9)})
    files = FileReferenceResolver(workspace, limits=FileLimits(max_listed=3))
    finding = resolve(files, ".")
    write_files(folder, {"00.py": "", "01.py": ""})
    assert changes(files, ".", finding, "00.py", "01.py") == ()
    assert changes(files, ".", finding) == (". has changed since it was shown",)
    (folder / "2.py").unlink()
    assert changes(files, ".", finding, "00.py", "01.py") == (". has changed since it was shown",)


class Endless:
    """An engine that searches until it is stopped."""

    async def files(self, under: str, *, hidden: bool) -> list[str]:
        await asyncio.Event().wait()
        return []

    def search(self, search: SearchRequest) -> AsyncGenerator[FileMatch, None]:
        raise NotImplementedError


def test_a_search_that_takes_too_long_does_not_report_deleted_files(
    workspace: Workspace, folder: Path
) -> None:
    write_files(folder, {"a.py": "x"})
    finding = resolve(FileReferenceResolver(workspace), "*.py")
    slow = FileReferenceResolver(workspace, limits=FileLimits(timeout_s=0.01), engine=Endless())
    assert changes(slow, "*.py", finding) == (
        "*.py could not be searched in time and may have changed",
    )
    assert error_code_of(resolve(slow, "*.py")) == "lookup_timeout"


def test_a_pattern_reports_changed_new_and_deleted_files(
    workspace: Workspace, folder: Path
) -> None:
    write_files(folder, {"src/a.py": "a", "src/b.py": "b", "src/c.py": "c"})
    files = FileReferenceResolver(workspace)
    finding = resolve(files, "src/*.py")
    assert changes(files, "src/*.py", finding) == ()
    write_files(folder, {"src/a.py": "A", "src/d.py": ""})
    (folder / "src" / "b.py").unlink()
    assert changes(files, "src/*.py", finding) == (
        "src/a.py has changed since it was shown",
        "src/b.py is gone",
        "src/d.py is new",
    )
    write_files(folder, {f"src/new{number:03}.py": "" for number in range(100)})
    assert changes(files, "src/*.py", finding)[-1] == "81 more files are new"
    shutil.rmtree(folder / "src")
    assert changes(files, "src/*.py", finding) == (
        "src/a.py is gone",
        "src/b.py is gone",
        "src/c.py is gone",
    )


def test_a_failed_reference_has_no_changes(workspace: Workspace) -> None:
    files = FileReferenceResolver(workspace)
    assert changes(files, "none", resolve(files, "none")) == ()


def test_without_a_workspace_nothing_is_known_to_have_changed(
    workspace: Workspace, folder: Path
) -> None:
    (folder / "f").write_text("a\n")
    finding: ResolvedReference = resolve(FileReferenceResolver(workspace), "f")
    (folder / "f").write_text("b\n")
    assert changes(FileReferenceResolver(None), "f", finding) == ()


@pytest.mark.parametrize(
    "details",
    [
        {},
        {"kind": "file"},
        {"kind": "image", "path": "f"},
        {"kind": "file", "path": 1, "sha256": None, "bytes": "x"},
        {"kind": "pattern", "files": [{"path": "f"}]},
    ],
)
def test_details_of_another_kind_say_nothing(workspace: Workspace, details: dict[str, Any]) -> None:
    finding = ResolvedReference(content=(), error="none", details=details)
    assert changes(FileReferenceResolver(workspace), "f", finding) == ()


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a\0b", "x" * 5000])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_details_that_name_anything_at_all_raise_nothing(
    workspace: Workspace, path: str, kind: str
) -> None:
    details = {"kind": kind, "path": path, "sha256": "0" * 64, "bytes": 1}
    resolution = Resolution(
        target="a", block=0, status=ResolutionStatus.FAILED, error="none", details=details
    )
    found = asyncio.run(FileReferenceResolver(workspace).changes(reference("f"), resolution))
    assert len(found) == 1
    assert found[0].endswith("cannot be read any more")


def test_a_resolution_says_the_same_after_it_was_stored(workspace: Workspace, folder: Path) -> None:
    (folder / "f").write_text("a\n")
    files = FileReferenceResolver(workspace)
    resolution = recorded(resolve(files, "f"))
    assert resolution.details is not None
    (folder / "f").write_text("b\n")
    assert asyncio.run(files.changes(reference("f"), resolution)) == (
        "f has changed since it was shown",
    )
