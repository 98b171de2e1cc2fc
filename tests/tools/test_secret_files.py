"""File tools ask about protected paths and secrets, and searches leave secrets out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from steno import JsonObject, ToolCall
from steno.errors import ToolFailed
from steno.ports import Subject, Tool, ToolOutput
from steno.tools.edit import EditTool
from steno.tools.read import ReadTool
from steno.tools.search_tools import GlobTool, GrepTool
from steno.tools.workspace import Workspace
from steno.tools.write import WriteTool
from tests.raised_errors import raises_code
from tests.tools.fake_tool_context import FakeToolContext
from tests.tools.search_engines import ENGINES, MakeEngine, write_files

pytestmark = pytest.mark.requirement("P-28")

both = pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)
LIMIT_S = 60.0


def subject_of(tool: Tool, **arguments: Any) -> Subject:
    (subject,) = tool.subjects(ToolCall.create(tool.definition.name, arguments))
    assert isinstance(subject, Subject)
    return subject


def run(tool: Tool, context: FakeToolContext | None = None, **arguments: Any) -> ToolOutput:
    call = ToolCall.create(tool.definition.name, arguments)
    work = tool.run(call, context or FakeToolContext())
    return asyncio.run(asyncio.wait_for(work, LIMIT_S))


def text_of(output: ToolOutput) -> str:
    return "".join(getattr(block, "text", "") for block in output.content)


@pytest.mark.parametrize(
    ("path", "is_protected"),
    [
        *[(".git/hooks/pre-commit", True), (".GIT/hooks/x", True), ("a/../.envrc", True)],
        *[("./sub/./.vscode/tasks.json", True), ("AGENTS.md", True), (".env", True)],
        *[("link/tasks.json", True), ("hooks", True), ("src/app.py", False), ("config", False)],
    ],
)
def test_a_change_of_a_protected_path_needs_approval_however_it_is_spelled(
    workspace: Workspace, folder: Path, path: str, *, is_protected: bool
) -> None:
    write_files(folder, {"a/": "", ".vscode/": "", ".git/hooks/": ""})
    (folder / "link").symlink_to(".vscode")
    (folder / "hooks").symlink_to(".git/hooks")
    for spelling in (path, f"{folder}/{path}"):
        write = subject_of(WriteTool(workspace), path=spelling, content="")
        edit = subject_of(EditTool(workspace), path=spelling, old="a", new="b")
        assert (write.is_protected, edit.is_protected) == (is_protected, is_protected)


def test_reading_is_protected_only_for_secrets(workspace: Workspace, folder: Path) -> None:
    write_files(folder, {".env": "KEY=1", ".vscode/tasks.json": "{}", ".git/config": ""})
    (folder / "notes.txt").symlink_to(".env")
    tools: list[tuple[Tool, dict[str, str]]] = [
        (ReadTool(workspace), {}),
        (GrepTool(workspace), {"pattern": "x"}),
        (GlobTool(workspace), {"pattern": "*"}),
    ]
    for tool, more in tools:
        assert subject_of(tool, path=".env", **more).is_protected
        linked = subject_of(tool, path="notes.txt", **more)
        assert (linked.text, linked.is_protected) == (".env", True)
        assert not subject_of(tool, path=".vscode/tasks.json", **more).is_protected
        assert not subject_of(tool, path=".git/config", **more).is_protected


def test_an_approved_protected_file_is_written(workspace: Workspace, folder: Path) -> None:
    tool = WriteTool(workspace)
    approved = subject_of(tool, path=".envrc", content="")
    context = FakeToolContext(subjects=(approved,))
    run(tool, context, path=".envrc", content="use nix\n")
    assert (folder / ".envrc").read_text() == "use nix\n"
    edit = EditTool(workspace)
    approved = subject_of(edit, path=".envrc", old="nix", new="flake")
    run(edit, FakeToolContext(subjects=(approved,)), path=".envrc", old="nix", new="flake")
    assert (folder / ".envrc").read_text() == "use flake\n"


def test_an_approval_of_another_path_does_not_cover_a_protected_one(
    workspace: Workspace, folder: Path
) -> None:
    """The protection is checked again when the file is opened."""
    tool = WriteTool(workspace)
    subject = Subject(text=".envrc", capability=tool.capability)
    with raises_code(ToolFailed, "protected_path"):
        run(tool, FakeToolContext(subjects=(subject,)), path=".envrc", content="x")
    assert not (folder / ".envrc").exists()
    with raises_code(ToolFailed, "protected_path"):
        workspace.write_file(".git/hooks/x", b"", expected=None)


def test_a_second_name_of_a_protected_file_keeps_its_content_to_itself(
    workspace: Workspace, folder: Path
) -> None:
    """A write replaces the file, so that a hard link does not lead into the protected one."""
    write_files(folder, {".git/config": "old\n"})
    (folder / "x").hardlink_to(folder / ".git" / "config")
    run(ReadTool(workspace), path="x")
    run(WriteTool(workspace), path="x", content="evil\n")
    assert (folder / ".git" / "config").read_text() == "old\n"


@both
@pytest.mark.parametrize("tool", ["grep", "glob"])
def test_a_search_leaves_secrets_out_and_counts_them(
    make: MakeEngine, folder: Path, workspace: Workspace, *, tool: str
) -> None:
    write_files(
        folder,
        {
            ".env": "KEY=1\n",
            "a/.env.local": "KEY=2\n",
            "id_rsa": "KEY=3\n",
            ".env.example": "KEY=\n",
            "a/b.py": "KEY\n",
            ".x": "KEY\n",
        },
    )
    engine = make(workspace)
    if tool == "grep":
        output = run(GrepTool(workspace, engine=engine), pattern="KEY", glob="{*,.*}")
    else:
        output = run(GlobTool(workspace, engine=engine), pattern="{*,.*}")
    text, details = text_of(output), JsonObject(output.details)
    assert details["files"] == 3
    assert (details["left_out"], details["secrets_left_out"]) == (0, 3)
    assert "id_rsa" not in text
    assert "KEY=1" not in text
    assert ".env.example" in text


@both
def test_a_secret_is_searched_by_its_own_path(
    make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    write_files(folder, {".env": "KEY=1\n", ".ssh/config": "Host KEY\n"})
    tool = GrepTool(workspace, engine=make(workspace))
    for path in (".env", ".ssh/config", ".ssh"):
        output = run(tool, pattern="KEY", path=path)
        assert JsonObject(output.details)["matches"] == 1
