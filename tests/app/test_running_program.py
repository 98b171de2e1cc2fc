"""Steno in a workspace, as in an environment of the project: nobody changes it unasked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import steno
from steno.app.commands.context import CommandContext
from steno.tools.protected_paths import PathPolicy
from tests.app.command_setup import state_of, with_context

pytestmark = pytest.mark.requirement("P-27")


def test_the_program_is_protected_where_it_is_in_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project"
    package = folder / "src/steno"
    environment = folder / ".venv"
    for each in (package, environment):
        each.mkdir(parents=True)
    monkeypatch.setattr(steno, "__path__", [*steno.__path__, str(package)])
    monkeypatch.setattr(sys, "prefix", str(environment))

    async def find_policy(context: CommandContext) -> PathPolicy:
        environment = state_of(context).environment
        assert environment is not None
        return environment.workspace.policy

    policy = with_context(folder, find_policy)
    for path in (package / "tools/main.py", environment / "pyvenv.cfg", environment / "lib/a.pth"):
        assert policy.is_read_only(str(path))
        assert not policy.is_secret(str(path))
    assert not policy.is_read_only(str(folder / "src/app.py"))
