"""A workspace, and a folder next to it that no test may change."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno.tools.workspace import Workspace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the workspace."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder next to the workspace, with a secret."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("SECRET\n")
    return outside


@pytest.fixture
def workspace(folder: Path) -> Workspace:
    return Workspace([folder])
