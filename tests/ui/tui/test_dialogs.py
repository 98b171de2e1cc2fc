"""One of several things is picked, and a line is typed, with the keyboard alone."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from steno.app.session import Suggestion
from steno.ui.tui.screens.dialogs import InputScreen, PickerScreen
from tests.ui.idle_clock import wait_until
from tests.ui.tui.screen_app import HOSTILE, SIZES, ScreenApp, is_harmless, least_contrast, show

MODELS = [
    Suggestion("offline/steno", "no model"),
    Suggestion("ollama/qwen3", "32k"),
    Suggestion("anthropic/claude", "200k, vision"),
    Suggestion("openrouter/anthropic/claude", "200k, vision"),
]


def marked(stage: ScreenApp) -> str:
    """Return the line that the cursor is on: it is marked by more than a colour."""
    [line] = [
        strip.text
        for strip in stage.strips
        if any(one.style and one.style.bold and one.text.strip() for one in strip)
    ]
    return line.strip("│ ")


@pytest.mark.requirement("S4-15")
@pytest.mark.parametrize("size", SIZES)
def test_the_cursor_begins_on_what_holds_now_and_enter_picks(size: tuple[int, int]) -> None:
    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        assert "● ollama/qwen3" in marked(stage)
        assert "32k" in marked(stage)
        assert all(one.text[:20] in stage.text for one in MODELS)
        await pilot.press("down", "enter")
        await wait_until(pilot, lambda: stage.results)
        assert stage.results == ["anthropic/claude"]

    show(PickerScreen("model", MODELS, "ollama/qwen3"), play, size=size)


def test_what_is_typed_filters_and_what_begins_like_it_comes_first() -> None:
    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press(*"anth")
        await wait_until(pilot, lambda: "2 of 4" in stage.text)
        assert marked(stage).startswith("anthropic/claude")
        assert "qwen3" not in stage.text
        await pilot.press("space", *"openr", "enter")
        await wait_until(pilot, lambda: stage.results)
        assert stage.results == ["openrouter/anthropic/claude"]

    show(PickerScreen("model", list(reversed(MODELS)), "ollama/qwen3"), play)


def test_what_is_said_about_things_can_be_searched_too() -> None:
    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press(*"VISION")
        await wait_until(pilot, lambda: "2 of 4" in stage.text)

    show(PickerScreen("model", MODELS), play)


def test_nothing_is_picked_where_nothing_fits_and_escape_leaves() -> None:
    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press(*"zzz")
        await wait_until(pilot, lambda: "nothing holds these words" in stage.text)
        await pilot.press("enter", "down", "up", "pagedown")
        assert stage.results == []
        await pilot.press("escape")
        await wait_until(pilot, lambda: stage.results)
        assert stage.results == [None]

    show(PickerScreen("model", MODELS), play)


def test_nothing_to_pick_from_is_no_trouble() -> None:
    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        assert "nothing holds these words" in stage.text
        await pilot.press("enter", "escape")
        await wait_until(pilot, lambda: stage.results)
        assert stage.results == [None]

    show(PickerScreen("model", []), play)


def test_a_thousand_things_are_walked_through_page_by_page() -> None:
    many = [Suggestion(f"model-{number:04}") for number in range(1_000)]

    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        assert "● model-0500" in marked(stage)
        await pilot.press("ctrl+end")
        await wait_until(pilot, lambda: "model-0999" in marked(stage))
        await pilot.press("pageup")
        await wait_until(pilot, lambda: "model-0999" not in marked(stage))
        await pilot.press("ctrl+home", "enter")
        await wait_until(pilot, lambda: stage.results)
        assert stage.results == ["model-0000"]

    show(PickerScreen("model", many, "model-0500"), play, size=(60, 20))


def test_things_may_have_the_same_name() -> None:
    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press("down", "enter")
        await wait_until(pilot, lambda: stage.results)
        assert stage.results == ["twin"]

    show(PickerScreen("model", [Suggestion("twin", "one"), Suggestion("twin", "two")]), play)


@pytest.mark.parametrize("size", SIZES)
def test_names_from_elsewhere_do_no_harm(size: tuple[int, int]) -> None:
    name = HOSTILE + "x" * 10_000

    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        assert is_harmless(stage)
        assert r"\x1b[2J" in stage.text
        assert "second" not in stage.lines[0]
        await pilot.press("enter")
        await wait_until(pilot, lambda: stage.results)
        assert stage.results == [name]

    show(PickerScreen(HOSTILE, [Suggestion(name, name)], name), play, size=size)


@pytest.mark.parametrize("theme", ["steno-dark", "steno-light"])
def test_everything_can_be_read_in_both_themes(theme: str) -> None:
    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        assert least_contrast(stage) >= 4.5

    show(PickerScreen("model", MODELS, "offline/steno"), play, theme=theme)


# -- a line ------------------------------------------------------------------------------------


def test_a_line_begins_with_what_there_is_and_is_taken_with_enter() -> None:
    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        assert "Another title?" in stage.text
        await pilot.press("space", *"two", "space", "enter")
        await wait_until(pilot, lambda: stage.results)
        assert stage.results == ["one two"]

    show(InputScreen("Another title?", str.strip, default="one", is_offer=False), play)


def test_a_line_is_left_alone_with_escape() -> None:
    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        assert is_harmless(stage)
        await pilot.press("x", "escape")
        await wait_until(pilot, lambda: stage.results)
        assert stage.results == [None]

    show(InputScreen(HOSTILE, str.strip, default=HOSTILE), play, size=(60, 20))
