"""A folder is listed, a pattern shows every matching file; both leave out ignored files."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from steno.inputs.file_references import FileLimits, FileReferenceResolver
from steno.ports import Capability
from steno.tools.search import FileMatch, SearchRequest
from steno.tools.workspace import Workspace
from tests.inputs.file_references.reference_setup import (
    ScriptedPermission,
    changes,
    details_of,
    error_code_of,
    error_of,
    resolve,
    text_of,
    texts_of,
)
from tests.tools.search_engines import ENGINES, MakeEngine, write_files

both = pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)


def test_a_folder_is_listed_without_what_is_hidden_or_ignored(
    workspace: Workspace, folder: Path
) -> None:
    write_files(
        folder,
        {
            ".git/": "",
            ".gitignore": "build/\n*.log\n",
            "src/.ignore": "left/\n",
            "src/left/x.py": "",
            "src/build/x.py": "",
            "build/out": "x",
            "src/b.py": "x" * 1234,
            "src/a.py": "",
            "src/x.log": "",
            "src/.hidden": "",
            "src/zoo/deep/er.py": "",
            "src/lib/c.py": "",
        },
    )
    door = ScriptedPermission()
    finding = resolve(FileReferenceResolver(workspace), "src", permits=door)
    assert text_of(finding) == (
        "src/ contains 2 folders and 2 files; hidden and ignored files are not listed:\n"
        "lib/\nzoo/\na.py (0 bytes)\nb.py (1,234 bytes)\n"
    )
    sha256 = hashlib.sha256(text_of(finding).encode()).hexdigest()
    assert details_of(finding) == {
        "kind": "folder",
        "path": "src",
        "sha256": sha256,
        "left_out": 0,
        "allowed_by": "the test",
    }
    assert door.asked == [("read", Capability.READ, "src")]
    assert finding.notice == ""


def test_the_working_folder_and_an_added_one_are_listed_too(folder: Path, outside: Path) -> None:
    write_files(folder, {"a": "", "sub/b": ""})
    workspace = Workspace([folder, outside])
    files = FileReferenceResolver(workspace)
    assert text_of(resolve(files, ".")).splitlines()[1:] == ["sub/", "a (0 bytes)"]
    listed = text_of(resolve(files, str(outside))).splitlines()
    assert listed[0].startswith(f"{outside}/ contains 0 folders and 1 file;")
    assert listed[1:] == ["secret.txt (7 bytes)"]


def test_links_are_listed_by_their_names_alone(
    workspace: Workspace, folder: Path, outside: Path
) -> None:
    write_files(folder, {"src/a.py": "", "src/lib/b.py": "", "src/.ignore": "*.log\n"})
    for name, target in {
        "current": "lib",
        "away": str(outside / "secret.txt"),
        "broken": "nowhere",
        ".hidden": "a.py",
        "x.log": "a.py",
    }.items():
        (folder / "src" / name).symlink_to(target)
    files = FileReferenceResolver(workspace)
    finding = resolve(files, "src")
    assert text_of(finding) == (
        "src/ contains 1 folder, 1 file and 3 links; hidden and ignored files are not listed:\n"
        "lib/\na.py (0 bytes)\naway (link)\nbroken (link)\ncurrent (link)\n"
    )
    assert changes(files, "src", finding) == ()
    (folder / "src" / "broken").unlink()
    assert changes(files, "src", finding) == ("src has changed since it was shown",)
    few = resolve(FileReferenceResolver(workspace, limits=FileLimits(max_listed=3)), "src")
    assert text_of(few).splitlines()[1:] == [
        *("lib/", "a.py (0 bytes)", "away (link)", "[... 1 more ...]"),
    ]


def test_links_of_the_working_folder_and_of_an_added_one_are_listed(
    folder: Path, outside: Path
) -> None:
    (folder / "here").symlink_to("nowhere")
    (outside / "there").symlink_to("nowhere")
    files = FileReferenceResolver(Workspace([folder, outside]))
    assert text_of(resolve(files, ".")).splitlines()[1:] == ["here (link)"]
    listed = text_of(resolve(files, str(outside))).splitlines()
    assert listed[1:] == ["secret.txt (7 bytes)", "there (link)"]


def test_of_a_large_folder_the_rest_is_counted(workspace: Workspace, folder: Path) -> None:
    write_files(folder, {f"{number:02}": "" for number in range(30)} | {"sub/x": ""})
    finding = resolve(FileReferenceResolver(workspace, limits=FileLimits(max_listed=4)), ".")
    assert text_of(finding).splitlines()[1:] == [
        "sub/",
        "00 (0 bytes)",
        "01 (0 bytes)",
        "02 (0 bytes)",
        "[... 27 more ...]",
    ]
    assert finding.notice == ".: 27 more entries are not shown"


class NoEngine:
    """An engine that fails a test that searches with it."""

    async def files(self, under: str, *, hidden: bool) -> list[str]:
        raise AssertionError("nobody has to look deeper")

    def search(self, search: SearchRequest) -> AsyncGenerator[FileMatch, None]:
        raise NotImplementedError


def test_listing_a_folder_does_not_read_its_subfolders(workspace: Workspace, folder: Path) -> None:
    write_files(folder, {"src/a.py": "", "src/lib/b.py": "", "src/empty/": ""})
    (folder / "src" / "lib").chmod(0)
    try:
        finding = resolve(FileReferenceResolver(workspace, engine=NoEngine()), "src")
        assert changes(FileReferenceResolver(workspace, engine=NoEngine()), "src", finding) == ()
    finally:
        (folder / "src" / "lib").chmod(0o700)
    assert text_of(finding).splitlines()[1:] == ["empty/", "lib/", "a.py (0 bytes)"]


def test_rules_above_the_workspace_count_for_a_folder(folder: Path) -> None:
    write_files(folder, {".git/": "", ".gitignore": "*.log\n", "sub/a.log": "", "sub/a.py": ""})
    files = FileReferenceResolver(Workspace([folder / "sub"]))
    assert text_of(resolve(files, ".")).splitlines()[1:] == ["a.py (0 bytes)"]


def test_an_empty_folder_is_a_folder(workspace: Workspace, folder: Path) -> None:
    (folder / "empty").mkdir()
    assert "contains 0 folders and 0 files" in text_of(
        resolve(FileReferenceResolver(workspace), "empty")
    )


def test_a_folder_that_is_denied_is_not_listed(workspace: Workspace, folder: Path) -> None:
    write_files(folder, {"secret/key": ""})
    error = error_of(
        resolve(
            FileReferenceResolver(workspace),
            "secret",
            permits=ScriptedPermission(denied={"secret"}),
        )
    )
    assert "key" not in error


@pytest.mark.requirement("S2-13")
@pytest.mark.parametrize("path", ["sub", "*.py"])
def test_folders_and_patterns_have_no_lines(workspace: Workspace, folder: Path, path: str) -> None:
    write_files(folder, {"sub/": "", "a.py": "x\n"})
    finding = resolve(FileReferenceResolver(workspace), path, 1, 2)
    assert error_code_of(finding) == "has_no_lines"


# -- patterns --------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.py", ["top.py"]),
        ("src/*.py", ["src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/sub/b.py"]),
        ("**/*.{py,ts}", ["src/a.py", "src/sub/b.py", "src/sub/c.ts", "top.py"]),
        ("s*/sub/?.ts", ["src/sub/c.ts"]),
        ("{folder}/src/*.py", ["src/a.py"]),
        (".env*", [".env.txt"]),
    ],
)
def test_a_pattern_shows_every_file_that_fits(
    make: MakeEngine, workspace: Workspace, folder: Path, pattern: str, names: list[str]
) -> None:
    write_files(
        folder,
        {
            ".git/": "",
            ".gitignore": "out\n",
            ".env.txt": "x\n",
            "top.py": "x\n",
            "src/a.py": "x\n",
            "src/sub/b.py": "x\n",
            "src/sub/c.ts": "x\n",
            "src/out/d.py": "x\n",
        },
    )
    door = ScriptedPermission()
    files = FileReferenceResolver(workspace, engine=make(workspace))
    finding = resolve(files, pattern.replace("{folder}", str(folder)), permits=door)
    assert texts_of(finding) == [f"{name}, line 1 of 1:\n     1\tx\n" for name in names]
    assert [subject for _, _, subject in door.asked] == names
    details = details_of(finding)
    assert details["kind"] == "pattern"
    assert [(file["path"], file["sha256"], file["bytes"]) for file in details["files"]] == [
        (name, hashlib.sha256(b"x\n").hexdigest(), 2) for name in names
    ]
    for name in names:
        workspace.check_unchanged_since_read(name, b"x\n")


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(
    workspace: Workspace, folder: Path
) -> None:
    write_files(folder, {"[id].tsx": "one\n", "i.tsx": "other\n"})
    assert "one" in text_of(resolve(FileReferenceResolver(workspace), "[id].tsx"))


def test_a_pattern_that_nothing_fits_is_an_error(workspace: Workspace, folder: Path) -> None:
    write_files(folder, {"a.py": "x"})
    files = FileReferenceResolver(workspace)
    assert error_code_of(resolve(files, "*.rs")) == "no_file_matches"
    assert error_code_of(resolve(files, "none/*.py")) == "file_not_found"
    assert error_code_of(resolve(files, "a.py/*")) == "not_a_folder"


def test_too_many_files_are_an_error_before_permission_is_requested(
    workspace: Workspace, folder: Path
) -> None:
    write_files(folder, {f"{number}.py": "x" for number in range(5)})
    door = ScriptedPermission()
    files = FileReferenceResolver(workspace, limits=FileLimits(max_files=4))
    assert error_code_of(resolve(files, "*.py", permits=door)) == "too_many_files"
    assert door.asked == []


def test_files_that_are_too_long_together_are_an_error(workspace: Workspace, folder: Path) -> None:
    write_files(folder, {f"{number}.py": "x" * 100 for number in range(4)})
    files = FileReferenceResolver(workspace, limits=FileLimits(max_bytes=400))
    assert error_code_of(resolve(files, "*.py")) == "files_too_long"
    assert len(texts_of(resolve(files, "[01].py"))) == 2


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("big.png", b"\x89PNG\r\n\x1a\n", "not_text"),
        ("x.bin", b"\0\1\2\3", "not_text"),
        ("huge.txt", b"x" * 600, "extract_too_long"),
    ],
)
def test_a_pattern_that_matches_an_unreadable_file_names_that_file(
    workspace: Workspace, folder: Path, name: str, data: bytes, code: str
) -> None:
    write_files(folder, {"a.py": "x", name: data})
    files = FileReferenceResolver(workspace, limits=FileLimits(max_bytes=500))
    finding = resolve(files, "*")
    assert error_code_of(finding) == code
    assert error_of(finding).startswith(f"'*': matches {name}, ")


@pytest.mark.parametrize("bad", ["denied", "binary"])
def test_one_file_that_cannot_be_shown_spoils_the_whole_pattern(
    workspace: Workspace, folder: Path, bad: str
) -> None:
    write_files(folder, {"a.py": "x", "b.py": b"\0\1\2\3" if bad == "binary" else "x"})
    door = ScriptedPermission(denied={"b.py"} if bad == "denied" else ())
    assert "b.py" in error_of(resolve(FileReferenceResolver(workspace), "*.py", permits=door))
