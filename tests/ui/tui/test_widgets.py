"""The shared widgets of screens: balanced rows, and key hints at the bottom."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from steno.app.commands.report import text_report
from steno.render.terminal_text import terminal_line
from steno.ui.tui.screens.compare_screen import CompareScreen
from steno.ui.tui.screens.pager import PagerScreen
from steno.ui.tui.screens.sessions_screen import SessionsScreen
from steno.ui.tui.screens.tree_screen import TreeScreen
from steno.ui.tui.screens.widgets import KeyHints, Title, balance_rows
from tests.ui.fake_session import FakeSession
from tests.ui.idle_clock import wait_until
from tests.ui.tui.screen_app import SIZES, ScreenApp, show


def pieces(widths: list[int], room: int, gap: int = 0) -> list[list[int]]:
    return [widths[row] for row in balance_rows(widths, room, gap=gap)]


def test_parts_that_fit_are_in_one_row_with_gaps_only_between_them() -> None:
    assert pieces([3, 3, 3], 11, gap=1) == [[3, 3, 3]]
    assert pieces([3, 3, 3], 10, gap=1) == [[3, 3], [3]]
    assert pieces([], 10) == []


def test_rows_are_as_few_as_can_be_and_filled_alike() -> None:
    assert pieces([4, 4, 4, 4, 4, 4], 20) == [[4, 4, 4], [4, 4, 4]]
    assert pieces([9, 1, 1, 1, 1], 10) == [[9], [1, 1, 1, 1]]


def test_a_part_that_is_too_wide_has_its_own_row() -> None:
    assert pieces([2, 30, 2], 10) == [[2], [30], [2]]


def comparing() -> Screen[Any]:
    session = FakeSession()
    session.branches.fork("other")
    return CompareScreen(session, asyncio.run(session.branches.rows()), "main", "other")


SCREENS: dict[str, Callable[[], Screen[Any]]] = {
    "tree": lambda: TreeScreen(FakeSession()),
    "compare": comparing,
    "sessions": lambda: SessionsScreen(FakeSession()),
    "pager": lambda: PagerScreen(text_report("\n".join(map(str, range(99))), "numbers")),
}


@pytest.mark.requirement("S4-15")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SCREENS)
def test_every_screen_says_at_its_bottom_how_to_leave_it(name: str, size: tuple[int, int]) -> None:
    screen = SCREENS[name]()

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        foot = screen.query_one(KeyHints)
        assert foot.region.bottom == size[1]
        assert foot.region.width == size[0]
        said = app.lines[foot.region.y :]
        assert said[-1].rstrip().endswith(" · Esc close")
        # Nothing is broken but between two keys.
        assert all(line.strip() and line.rstrip()[-1] != "·" for line in said)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is not screen

    show(screen, steps, size=size)


@pytest.mark.parametrize("is_said_later", [False, True])
def test_a_title_is_always_shown_escaped_and_on_one_line(is_said_later: bool) -> None:
    hostile = "[bold]a\x1b[2J\nb[/bold]"

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        title = Title("before" if is_said_later else hostile)
        await app.screen.mount(title)
        if is_said_later:
            title.text = hostile
        line = f" {terminal_line(hostile)}"
        await wait_until(pilot, lambda: line in [one.rstrip() for one in app.lines])

    show(SessionsScreen(FakeSession()), steps)


def test_key_hints_wrap_to_the_width() -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        foot = app.screen.query_one(KeyHints)
        assert foot.size.height == 1
        narrow = [
            "Enter resume · F2 rename · Del delete",
            "Ctrl+N new · Tab folder/all · Esc close",
        ]
        await pilot.resize_terminal(60, 20)
        await wait_until(pilot, lambda: [line.strip() for line in app.lines[-2:]] == narrow)

    show(SessionsScreen(FakeSession()), steps)
