"""While another widget has the focus, the prompt shows how to return to it."""

from __future__ import annotations

from textual.events import AppBlur, AppFocus
from textual.pilot import Pilot
from textual.widgets import Static

from tests.ui.tui.prompt.prompt_app import PromptApp, run_steps, type_in

_BACK = "focus is above · Esc back to the prompt"


def hint(app: PromptApp) -> str:
    """Return the text that the prompt shows."""
    region = app.prompt.region
    row = app.screen._compositor.render_strips()[region.y]
    return row.text.strip()


def test_the_hint_says_where_keys_go_until_they_come_back() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        app.prompt.hint = "type a prompt"
        above = app.query_one("#above", Static)
        above.can_focus = True
        await pilot.pause()
        assert hint(app) == "> type a prompt"
        above.focus()
        await pilot.pause()
        assert hint(app) == f"> {_BACK}"
        app.prompt.hint = "say something else"
        await pilot.pause()
        assert hint(app) == f"> {_BACK}"
        app.prompt.focus()
        await pilot.pause()
        assert hint(app) == "> say something else"

    run_steps(flow)


def test_the_draft_stays_visible() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "half")
        above = app.query_one("#above", Static)
        above.can_focus = True
        above.focus()
        await pilot.pause()
        assert hint(app) == "> half"

    run_steps(flow)


def test_the_hint_stays_when_the_terminal_loses_focus() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        app.prompt.hint = "type a prompt"
        app.post_message(AppBlur())
        await pilot.pause()
        assert hint(app) == "> type a prompt"
        app.post_message(AppFocus())
        await pilot.pause()
        assert hint(app) == "> type a prompt"

    run_steps(flow)
