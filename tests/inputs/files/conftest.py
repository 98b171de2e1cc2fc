"""A workspace beside a folder that nobody may touch."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno.tools.workspace import Workspace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that the workspace is."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside it, with a secret."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("SECRET\n")
    return outside


@pytest.fixture
def workspace(folder: Path) -> Workspace:
    return Workspace([folder])
