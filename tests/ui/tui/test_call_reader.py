"""The description of a call fits the panel, and its layout is stable."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from tests.ui.idle_clock import settle
from tests.ui.tui.approval_app import ApprovalApp, pending_call, queued_call, run_steps
from tests.ui.tui.screen_app import SIZES

pytestmark = pytest.mark.requirement("S2-18")


class Layouts:
    """A screen that counts its layouts."""

    def __init__(self, screen: Screen[Any]) -> None:
        self.count = 0
        screen.screen_layout_refresh_signal.subscribe(screen.app, self._note, immediate=True)

    def _note(self, _: Screen[Any]) -> None:
        self.count += 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rows", [1, 7, 200])
def test_to_be_laid_out_is_no_reason_to_be_laid_out_again(rows: int, size: tuple[int, int]) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        layouts = Layouts(app.screen)
        await app.come_here(pilot)
        for key in ("v", "down", "end", "ctrl+n", "ctrl+p", "v", "escape"):
            await app.press(pilot, key)
            await settle(app)
            layouts.count = 0
            app.screen.refresh(layout=True)
            await settle(app)
            assert 1 <= layouts.count <= 2, key

    preview = "\n".join([f"line {number}" for number in range(rows)])
    run_steps(ApprovalApp(pending_call(preview=preview), queued_call("call_2")), steps, size=size)


def test_a_panel_without_a_question_is_not_laid_out_all_the_time() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        assert not app.panel.display
        layouts = Layouts(app.screen)
        app.screen.refresh(layout=True)
        await settle(app)
        assert 1 <= layouts.count <= 2

    run_steps(ApprovalApp(), steps)
