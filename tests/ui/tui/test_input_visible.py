"""Text typed into the input of any screen is visible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.screen import Screen

from steno.app.commands.report import text_report
from steno.app.commands.table import Suggestion
from steno.ui.tui.screens.pager import PagerScreen
from steno.ui.tui.screens.sessions_screen import SessionsScreen
from steno.ui.tui.screens.widgets import InputScreen, PickerScreen
from tests.ui.fake_session import FakeSession
from tests.ui.tui.tree_app import TreeUser, run_steps

SCREENS: dict[str, tuple[Callable[[], Screen[Any]], tuple[str, ...]]] = {
    "line": (lambda: InputScreen("Call it", str), ()),
    "pick": (lambda: PickerScreen("model", [Suggestion("offline")]), ()),
    "sessions": (lambda: SessionsScreen(FakeSession()), ()),
    "pager": (lambda: PagerScreen(text_report("a text")), ("slash",)),
}


@pytest.mark.requirement("S4-15")
@pytest.mark.parametrize("name", SCREENS)
def test_typed_text_is_visible(name: str) -> None:
    make, keys = SCREENS[name]

    async def steps(user: TreeUser) -> None:
        await user.press(*keys)
        await user.type("seen")
        assert "seen" in user.text

    run_steps(make(), steps, size=(60, 20))
