"""A workspace with files that one can mention."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno.tools.workspace import Workspace
from tests.tools.engines import plant


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that the workspace is."""
    folder = tmp_path / "work"
    plant(
        folder,
        {
            "a.py": "x\n",
            "src/main.py": "x\n",
            "my notes.md": "x\n",
            "it's": "x\n",
            "Makefile": "x\n",
            "shot.PNG": "x\n",
            "odd.": "x\n",
            "odd:10": "x\n",
            "what?!": "x\n",
            "copy(1).txt": "x\n",
            "[id].png": "x\n",
        },
    )
    return folder


@pytest.fixture
def workspace(folder: Path) -> Workspace:
    return Workspace([folder])
