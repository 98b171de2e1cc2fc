"""A screen that covers the approval panel shows that an approval is pending."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from steno.app.commands.report import text_report
from steno.ui.tui.screens.compare_screen import CompareScreen
from steno.ui.tui.screens.pager import PagerScreen
from steno.ui.tui.screens.sessions_screen import SessionsScreen
from steno.ui.tui.screens.tree_screen import TreeScreen
from tests.ui.fake_session import FakeSession
from tests.ui.idle_clock import wait_until
from tests.ui.tui.approval_app import ApprovalApp, pending_call, queued_call, run_steps

pytestmark = pytest.mark.requirement("S4-15", "S2-18")
TOLD = "A tool call needs your approval · Esc back to it"


class Ringing(ApprovalApp):
    """An app that counts its bells."""

    rung = 0

    def bell(self) -> None:
        self.rung += 1


def compared(session: FakeSession) -> Screen[Any]:
    session.conversation.fork("other")
    return CompareScreen(session, session.branches.all_rows(), "main", "other")


PAGES: dict[str, Callable[[FakeSession], Screen[Any]]] = {
    "pager": lambda _: PagerScreen(text_report("a page", "help")),
    "tree": TreeScreen,
    "sessions": SessionsScreen,
    "compare": compared,
}


@pytest.mark.parametrize("size", [(60, 20), (100, 30)])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_that_a_question_waits_as_soon_as_it_does(
    page: str, size: tuple[int, int]
) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        assert isinstance(app, Ringing)
        app.push_screen(PAGES[page](app.session))
        await wait_until(pilot, lambda: len(app.screen_stack) == 2)
        assert TOLD not in app.seen
        app.ask(pending_call())
        await wait_until(pilot, lambda: TOLD in app.seen)
        assert app.rung == 1
        app.ask(pending_call(), queued_call("call_2"))
        assert app.rung == 1
        app.ask()
        await wait_until(pilot, lambda: TOLD not in app.seen)

    run_steps(Ringing(), steps, size)


def test_a_page_that_is_opened_later_says_it_too_and_escape_leads_to_the_question() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        assert isinstance(app, Ringing)
        assert app.rung == 0  # it is in sight
        app.push_screen(PagerScreen(text_report("a page", "help")))
        await wait_until(pilot, lambda: TOLD in app.seen)
        app.idle_s = 60.0
        await app.press(pilot, "escape")
        await wait_until(pilot, lambda: app.focused is app.panel)
        assert TOLD not in app.seen

    run_steps(Ringing(pending_call()), steps)
