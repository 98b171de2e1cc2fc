"""A workspace with files to mention."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno.tools.workspace import Workspace
from tests.tools.search_engines import write_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the workspace."""
    folder = tmp_path / "work"
    write_files(
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
