"""What the tests of this folder need from the system."""

from __future__ import annotations

import shutil

import pytest


@pytest.fixture(autouse=True, scope="session")
def tmux() -> None:
    """Fail with the name of the package, where there is no tmux."""
    if shutil.which("tmux") is None:
        pytest.fail("these tests need tmux; Debian and Ubuntu: apt install tmux", pytrace=False)
