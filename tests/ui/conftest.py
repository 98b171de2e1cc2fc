"""What holds for every test of a face: whoever presses a key waits until everything came of it."""

from __future__ import annotations

import pytest

from tests.ui.idle_clock import wait_until_idle


@pytest.fixture(autouse=True)
def nothing_takes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no pilot guess from how busy the process is, and nothing slide to where it belongs."""
    for module in ("textual.app", "textual.pilot"):
        monkeypatch.setattr(f"{module}.wait_for_idle", wait_until_idle)
    monkeypatch.setattr("textual.constants.TEXTUAL_ANIMATIONS", "none")
