"""What tests of `steno -p` share: a project to work in, and a vendor that the settings name."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from steno.providers import CATALOG
from tests.app.scripted_vendor import ScriptedVendor, Turn, run_vendor
from tests.cli.program import ProgramOutput

OFFLINE = ("--model", "offline")


def make_project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project, change to it, and remove the settings of steno from the environment."""
    variables = {name for row in CATALOG.values() for name in row.key_variables}
    variables |= {name for name in os.environ if name.startswith("STENO_")} | {"XDG_CONFIG_HOME"}
    for name in variables:
        monkeypatch.delenv(name, raising=False)
    project = folder / "project"
    (project / ".git").mkdir(parents=True)
    (project / "note.txt").write_text("forty-two\n", encoding="utf-8")
    monkeypatch.chdir(project)
    return project


def write_settings(home: Path, text: str) -> Path:
    """Let the user's settings be these."""
    file = home / ".config" / "steno" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


@contextmanager
def scripted_model(home: Path, *turns: Turn, settings: str = "") -> Generator[ScriptedVendor]:
    """Run a model with scripted turns, and name it in the settings."""
    with run_vendor(*turns) as known:
        write_settings(home, f'model = "lab/tester"\n{settings}\n{known.settings}')
        yield known


def result_of(output: ProgramOutput) -> dict[str, Any]:
    """Return the last line of JSON, which is the result."""
    result: dict[str, Any] = json.loads(output.out.splitlines()[-1])
    assert result["type"] == "result"
    return result


def events_of(output: ProgramOutput) -> list[dict[str, Any]]:
    """Return the event of each line."""
    return [json.loads(line) for line in output.out.splitlines()]
