"""Helper programs are never taken from a project or from what a model wrote."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from steno.tools.bash import BashTool
from steno.tools.programs import find_program
from steno.tools.shell.sandbox import Sandbox, SandboxSetting, find_sandbox
from steno.tools.workspace import Workspace
from tests.tools.command_setup import call, every_sandbox, make_bash, run, text_of


def plant(folder: Path, name: str, script: str = "exit 0") -> Path:
    """Put a program into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def test_a_program_in_a_forbidden_folder_is_passed_by(folder: Path, outside: Path) -> None:
    inside, other = plant(folder / "bin", "tool"), plant(outside, "tool")
    path = f"{inside.parent}:{outside}"
    assert find_program("tool", path=path) == inside
    assert find_program("tool", path=path, outside=[folder]) == other
    assert find_program("tool", path=path, outside=[folder, outside]) is None


def test_a_link_to_a_forbidden_folder_is_passed_by(folder: Path, outside: Path) -> None:
    (outside / "tool").symlink_to(plant(folder, "tool"))
    (outside / "bin").symlink_to(folder)
    path = f"{outside}:{outside / 'bin'}"
    assert find_program("tool", path=path, outside=[folder]) is None


@pytest.mark.parametrize("path", ["", ".", "bin", "./bin", ":", "bin:."])
def test_programs_are_not_found_in_the_working_directory(
    folder: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(folder / "bin", "tool")
    plant(folder, "tool")
    monkeypatch.chdir(folder)
    assert find_program("tool", path=path) is None


def test_programs_of_the_system_count_wherever_one_works() -> None:
    assert find_program("sh", path=os.defpath, outside=[Path("/")]) is not None


@pytest.mark.parametrize("path", ["{folder}/bin", "./bin", "bin"])
def test_a_sandbox_that_a_project_brings_is_not_even_tried(
    folder: Path, tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(folder / "bin", "bwrap", f"touch '{tmp_path}/tried'\nexec \"$@\"")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{path.format(folder=folder)}:{os.environ['PATH']}")
    usual = find_sandbox(SandboxSetting.AUTO, outside=[folder])

    async def main() -> str:
        tool = BashTool(Workspace([folder]), environ={"PATH": os.environ["PATH"]})
        try:
            return (await tool.preview(call("true"))).text
        finally:
            await tool.aclose()

    assert f"sandbox: {usual.name}" in asyncio.run(main())
    assert not (tmp_path / "tried").exists()


@every_sandbox
def test_the_shell_is_not_one_of_the_project(
    workspace: Workspace, folder: Path, sandbox: Sandbox
) -> None:
    plant(folder / "bin", "bash", "echo FAKE")
    assert shutil.which("bash", path=str(folder / "bin")) is not None
    for path in (f"{folder}/bin", "./bin"):
        environ = {"PATH": f"{path}:{os.environ['PATH']}"}
        output = run(make_bash(workspace, sandbox, environ=environ), "echo real")
        assert text_of(output) == "real\n"
