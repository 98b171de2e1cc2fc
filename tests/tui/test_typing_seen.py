"""Whatever screen asks for a line: what is typed into it can be seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.screen import Screen

from steno.tui.desk import Candidate, Reply
from steno.tui.screens.asking import LineScreen
from steno.tui.screens.pager import PagerScreen
from steno.tui.screens.picking import PickScreen
from steno.tui.screens.sessions import SessionsScreen
from tests.tui.fake_desk import FakeDesk
from tests.tui.tree_stage import Play, play

SCREENS: dict[str, tuple[Callable[[], Screen[Any]], tuple[str, ...]]] = {
    "line": (lambda: LineScreen("Call it", str), ()),
    "pick": (lambda: PickScreen("model", [Candidate("offline")]), ()),
    "sessions": (lambda: SessionsScreen(FakeDesk()), ()),
    "pager": (lambda: PagerScreen(Reply("a text")), ("slash",)),
}


@pytest.mark.requirement("S4-15")
@pytest.mark.parametrize("name", SCREENS)
def test_what_is_typed_can_be_seen(name: str) -> None:
    make, keys = SCREENS[name]

    async def scene(play: Play) -> None:
        await play.press(*keys)
        await play.type("seen")
        assert "seen" in play.text

    play(make(), scene, size=(60, 20))
