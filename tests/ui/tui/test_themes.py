"""The themes of steno have enough contrast, and the default fits the terminal."""

from __future__ import annotations

import asyncio

import pytest
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from steno.ui.tui.themes import THEMES, all_theme_names, default_theme, theme_named
from tests.ui.tui.screen_app import ScreenApp, contrast

GROUNDS = ("background", "surface", "panel")
COLOURS = ("primary", "secondary", "accent", "success", "warning", "error")
INKS = (
    *("text", "text-muted", "foreground", "foreground-muted", "footer-key-foreground"),
    *COLOURS,
    *(f"text-{name}" for name in COLOURS),
)


def contrast_of(theme: Theme, ink: str, ground: str) -> float:
    values = theme.to_color_system().generate()
    below = Color.parse(values["background"]) + Color.parse(values[ground])
    if values[ink].startswith("auto"):
        share = float(values[ink].removeprefix("auto").removesuffix("%")) / 100
        return contrast(below.get_contrast_text(share), below)
    return contrast(Color.parse(values[ink]), below)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
@pytest.mark.parametrize("ground", GROUNDS)
def test_every_colour_for_words_can_be_read_on_every_ground(theme: Theme, ground: str) -> None:
    found = {ink: contrast_of(theme, ink, ground) for ink in INKS}
    assert {ink: value for ink, value in found.items() if value < 4.5} == {}


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_the_row_under_the_cursor_is_readable(theme: Theme) -> None:
    assert contrast_of(theme, "block-cursor-foreground", "block-cursor-background") >= 4.5
    blurred = "block-cursor-blurred"
    assert contrast_of(theme, f"{blurred}-foreground", f"{blurred}-background") >= 4.5


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_words_that_are_drawn_weaker_can_still_be_read(theme: Theme) -> None:
    values = theme.to_color_system().generate()
    weak = Color.parse(values["foreground"]).with_alpha(0.6)
    assert min(contrast(weak, Color.parse(values[ground])) for ground in GROUNDS) >= 4.5


def test_our_themes_come_first_and_no_theme_is_missing() -> None:
    names = all_theme_names()
    assert names[:2] == ["steno-dark", "steno-light"]
    assert set(names[2:]) == set(BUILTIN_THEMES)
    assert len(names) == len(set(names))


@pytest.mark.requirement("S4-15")
def test_every_theme_can_be_worn() -> None:
    async def wear() -> list[str]:
        app = ScreenApp()
        async with app.run_test() as pilot:
            worn: list[str] = []
            for name in all_theme_names():
                app.theme = name
                await pilot.pause()
                worn.append(app.current_theme.name)
            return worn

    assert asyncio.run(wear()) == all_theme_names()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("dark", "steno-dark"),
        (" Light ", "steno-light"),
        ("nord", "nord"),
        ("steno-light", "steno-light"),
        ("", None),
        ("mauve", None),
    ],
)
def test_a_theme_is_found_by_its_name_or_by_a_short_one(typed: str, meant: str | None) -> None:
    assert theme_named(typed) == meant


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "steno-dark"),
        ({"COLORFGBG": "15;0"}, "steno-dark"),
        ({"COLORFGBG": "0;15"}, "steno-light"),
        ({"COLORFGBG": "0;default;15"}, "steno-light"),
        ({"COLORFGBG": "0;7"}, "steno-light"),
        ({"COLORFGBG": "7;8"}, "steno-dark"),
        ({"COLORFGBG": "default;default"}, "steno-dark"),
        ({"COLORFGBG": "nonsense"}, "steno-dark"),
        # Whether somebody has chosen one is for whoever starts the terminal to find out.
        ({"STENO_THEME": "nord", "COLORFGBG": "0;15"}, "steno-light"),
    ],
)
def test_without_a_setting_the_theme_follows_the_terminal(
    environ: dict[str, str], expected: str
) -> None:
    assert default_theme(environ) == expected
