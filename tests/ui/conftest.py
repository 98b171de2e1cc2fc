"""Fixtures of all interface tests: after a key, the pilot waits until its effects are done."""

from __future__ import annotations

import pytest

from tests.ui.idle_clock import wait_until_idle


@pytest.fixture(autouse=True)
def nothing_takes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the pilot's idle check, and disable animations."""
    for module in ("textual.app", "textual.pilot"):
        monkeypatch.setattr(f"{module}.wait_for_idle", wait_until_idle)
    monkeypatch.setattr("textual.constants.TEXTUAL_ANIMATIONS", "none")
