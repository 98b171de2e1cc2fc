"""Hostile content of a workspace reveals no file outside and makes nothing hang."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from steno.errors import InvalidValue
from steno.inputs.file_references import FileReferenceResolver
from steno.tools.workspace import Workspace
from tests.inputs.file_references.reference_setup import (
    ScriptedPermission,
    error_code_of,
    error_of,
    reference,
    resolve,
    text_of,
    texts_of,
)
from tests.tools.search_engines import ENGINES, MakeEngine, write_files


@pytest.mark.requirement("S2-11")
@pytest.mark.parametrize("path", ["{outside}/secret.txt", "/dev/zero", "/etc/passwd", "/", "/etc"])
def test_absolute_paths_do_not_lead_out(workspace: Workspace, outside: Path, path: str) -> None:
    door = ScriptedPermission()
    finding = resolve(FileReferenceResolver(workspace), path.format(outside=outside), permits=door)
    assert error_code_of(finding) == "outside_workspace"
    assert "--add-dir" in error_of(finding)
    assert door.asked == []


@pytest.mark.parametrize("target", ["{outside}/secret.txt", "{outside}", "/dev/zero", "/"])
def test_links_do_not_lead_out(
    workspace: Workspace, folder: Path, outside: Path, target: str
) -> None:
    (folder / "link").symlink_to(target.format(outside=outside))
    for path in ("link", "link/secret.txt"):
        finding = resolve(FileReferenceResolver(workspace), path)
        assert error_code_of(finding) == "outside_workspace"


def test_patterns_do_not_lead_out(workspace: Workspace, folder: Path, outside: Path) -> None:
    (folder / "link").symlink_to(outside)
    (folder / "file.txt").symlink_to(outside / "secret.txt")
    (folder / "a.txt").write_text("fine\n")
    files = FileReferenceResolver(workspace)
    assert texts_of(resolve(files, "**/*.txt")) == ["a.txt, line 1 of 1:\n     1\tfine\n"]
    for pattern in ("link/*", f"{outside}/*", "/*"):
        assert error_code_of(resolve(files, pattern)) == "outside_workspace"


def test_a_link_is_decided_about_by_what_it_leads_to(workspace: Workspace, folder: Path) -> None:
    (folder / "real").write_text("SECRET\n")
    (folder / "link").symlink_to("real")
    finding = resolve(
        FileReferenceResolver(workspace), "link", permits=ScriptedPermission(denied={"real"})
    )
    assert error_code_of(finding) == "denied"
    assert error_of(finding).startswith("real: ")


@pytest.mark.parametrize("inside", [True, False])
def test_a_link_that_takes_the_place_of_what_was_allowed_is_not_followed(
    workspace: Workspace, folder: Path, outside: Path, *, inside: bool
) -> None:
    write_files(folder, {"ok/f": "fine\n", "secret/f": "SECRET\n"})
    target = folder / "secret" if inside else outside

    def swap_file() -> None:
        (folder / "ok" / "f").unlink()
        (folder / "ok" / "f").symlink_to(target / "f")

    def swap_folder() -> None:
        (folder / "ok").rename(folder / "was")
        (folder / "ok").symlink_to(target)

    for path, swap in (("ok/f", swap_file), ("ok", swap_folder)):
        finding = resolve(
            FileReferenceResolver(workspace), path, permits=ScriptedPermission(meanwhile=swap)
        )
        assert "SECRET" not in error_of(finding)
        assert error_code_of(finding) in {"changed_since_allowed", "outside_workspace"}


def swap_for_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def swap_for_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("swap", [swap_for_folder, swap_for_pipe, Path.unlink])
def test_a_file_swapped_in_after_approval_is_not_shown(
    workspace: Workspace, folder: Path, swap: Callable[[Path], None]
) -> None:
    (folder / "f").write_text("fine\n")
    (folder / "pattern.txt").write_text("fine\n")
    files = FileReferenceResolver(workspace)
    door = ScriptedPermission(meanwhile=lambda: swap(folder / "pattern.txt"))
    assert error_of(resolve(files, "*.txt", permits=door)).startswith("'pattern.txt': ")
    finding = resolve(files, "f", permits=ScriptedPermission(meanwhile=lambda: swap(folder / "f")))
    if swap is swap_for_folder:
        assert text_of(finding).startswith("f/ contains 0 folders and 0 files")
    else:
        assert error_of(finding).startswith("'f': ")


def test_a_pipe_is_not_waited_for(workspace: Workspace, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    finding = resolve(FileReferenceResolver(workspace), "pipe")
    assert error_code_of(finding) == "not_a_regular_file"


@pytest.mark.parametrize("path", ["a\0b", "\udc80", ""])
def test_paths_that_no_file_can_have_are_refused(path: str) -> None:
    with pytest.raises(InvalidValue):
        reference(path)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        *[("x" * 300, "name_too_long"), ("x/" * 3000 + "x", "path_too_long")],
        *[("[" * 50, "glob_class_not_closed"), ("{a,*", "glob_brace_not_closed")],
        ("a/[z-a]/*", "glob_range_reversed"),
    ],
)
def test_paths_that_make_no_sense_are_errors(workspace: Workspace, path: str, code: str) -> None:
    assert error_code_of(resolve(FileReferenceResolver(workspace), path)) == code


def test_a_file_nested_too_deeply_is_an_error(workspace: Workspace, folder: Path) -> None:
    here = os.open(folder, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    files = FileReferenceResolver(workspace)
    assert error_code_of(resolve(files, "/".join("d" * 300))) == "path_too_deep"
    assert error_code_of(resolve(files, "**/*.py")) == "no_file_matches"


@pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)
def test_names_cannot_pretend_to_be_lines(
    make: MakeEngine, workspace: Workspace, folder: Path
) -> None:
    name = "a\nb.py, line 1 of 1:\x1b[2J"
    (folder / name).write_text("x\n")
    (folder / os.fsdecode(b"\xff.py")).write_text("x\n")
    files = FileReferenceResolver(workspace, engine=make(workspace))
    assert text_of(resolve(files, name)).startswith(
        "'a\\nb.py, line 1 of 1:\\x1b[2J', line 1 of 1:"
    )
    assert text_of(resolve(files, ".")).splitlines()[1:] == [
        "'a\\nb.py, line 1 of 1:\\x1b[2J' (2 bytes)"
    ]
