"""The dialogs: picking from a list and typing a line, with the keyboard only."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from steno.app.commands.table import Suggestion
from steno.ui.tui.screens.widgets import InputScreen, PickerScreen
from tests.ui.idle_clock import wait_until
from tests.ui.tui.screen_app import HOSTILE, SIZES, ScreenApp, is_harmless, least_contrast, show

MODELS = [
    Suggestion("offline/steno", "no model"),
    Suggestion("ollama/qwen3", "32k"),
    Suggestion("anthropic/claude", "200k, vision"),
    Suggestion("openrouter/anthropic/claude", "200k, vision"),
]


def marked(app: ScreenApp) -> str:
    """Return the line under the cursor, which is marked by more than a colour."""
    [line] = [
        strip.text
        for strip in app.strips
        if any(one.style and one.style.bold and one.text.strip() for one in strip)
    ]
    return line.strip("│ ")


@pytest.mark.requirement("S4-15")
@pytest.mark.parametrize("size", SIZES)
def test_the_cursor_begins_on_what_holds_now_and_enter_picks(size: tuple[int, int]) -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        assert "● ollama/qwen3" in marked(app)
        assert "32k" in marked(app)
        assert all(one.text[:20] in app.text for one in MODELS)
        await pilot.press("down", "enter")
        await wait_until(pilot, lambda: app.results)
        assert app.results == ["anthropic/claude"]

    show(PickerScreen("model", MODELS, "ollama/qwen3"), steps, size=size)


def test_typing_filters_the_list_and_prefix_matches_come_first() -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press(*"anth")
        await wait_until(pilot, lambda: "2 of 4" in app.text)
        assert marked(app).startswith("anthropic/claude")
        assert "qwen3" not in app.text
        await pilot.press("space", *"openr", "enter")
        await wait_until(pilot, lambda: app.results)
        assert app.results == ["openrouter/anthropic/claude"]

    show(PickerScreen("model", list(reversed(MODELS)), "ollama/qwen3"), steps)


def test_descriptions_of_choices_can_be_searched_too() -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press(*"VISION")
        await wait_until(pilot, lambda: "2 of 4" in app.text)

    show(PickerScreen("model", MODELS), steps)


def test_nothing_is_picked_where_nothing_fits_and_escape_leaves() -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press(*"zzz")
        await wait_until(pilot, lambda: "no match" in app.text)
        await pilot.press("enter", "down", "up", "pagedown")
        assert app.results == []
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.results)
        assert app.results == [None]

    show(PickerScreen("model", MODELS), steps)


def test_nothing_to_pick_from_is_no_trouble() -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        assert "no match" in app.text
        await pilot.press("enter", "escape")
        await wait_until(pilot, lambda: app.results)
        assert app.results == [None]

    show(PickerScreen("model", []), steps)


def test_a_thousand_things_are_walked_through_page_by_page() -> None:
    many = [Suggestion(f"model-{number:04}") for number in range(1_000)]

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        assert "● model-0500" in marked(app)
        await pilot.press("ctrl+end")
        await wait_until(pilot, lambda: "model-0999" in marked(app))
        await pilot.press("pageup")
        await wait_until(pilot, lambda: "model-0999" not in marked(app))
        await pilot.press("ctrl+home", "enter")
        await wait_until(pilot, lambda: app.results)
        assert app.results == ["model-0000"]

    show(PickerScreen("model", many, "model-0500"), steps, size=(60, 20))


def test_things_may_have_the_same_name() -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press("down", "enter")
        await wait_until(pilot, lambda: app.results)
        assert app.results == ["twin"]

    show(PickerScreen("model", [Suggestion("twin", "one"), Suggestion("twin", "two")]), steps)


@pytest.mark.parametrize("size", SIZES)
def test_names_from_elsewhere_do_no_harm(size: tuple[int, int]) -> None:
    name = HOSTILE + "x" * 10_000

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        assert is_harmless(app)
        assert r"\x1b[2J" in app.text
        assert "second" not in app.lines[0]
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.results)
        assert app.results == [name]

    show(PickerScreen(HOSTILE, [Suggestion(name, name)], name), steps, size=size)


@pytest.mark.parametrize("theme", ["steno-dark", "steno-light"])
def test_everything_can_be_read_in_both_themes(theme: str) -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        assert least_contrast(app) >= 4.5

    show(PickerScreen("model", MODELS, "offline/steno"), steps, theme=theme)


# -- a line ------------------------------------------------------------------------------------


def test_a_line_begins_with_what_there_is_and_is_taken_with_enter() -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        assert "New title?" in app.text
        await pilot.press("space", *"two", "space", "enter")
        await wait_until(pilot, lambda: app.results)
        assert app.results == ["one two"]

    show(InputScreen("New title?", str.strip, default="one", replaces_default=False), steps)


def test_a_line_is_left_alone_with_escape() -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        assert is_harmless(app)
        await pilot.press("x", "escape")
        await wait_until(pilot, lambda: app.results)
        assert app.results == [None]

    show(InputScreen(HOSTILE, str.strip, default=HOSTILE), steps, size=(60, 20))
