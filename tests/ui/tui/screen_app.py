"""An empty app to show a screen or a widget, and functions to inspect the result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from textual.app import App, ComposeResult
from textual.color import Color
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from steno.ui.tui.themes import THEMES
from tests.ui.idle_clock import wait_until

T = TypeVar("T")
SIZES: Final = ((60, 20), (80, 24), (120, 30))
HOSTILE: Final = (
    "\x1b[2J\x1b]8;;http://evil\x07[bold red]x[/] [@click=app.quit]q[/]\nsecond\r\u202eline\x9b1m"
)
"""What a name must not do to a screen: clear it, link, mark up, break lines, turn them around."""


class ScreenApp(App[None]):
    """An empty app."""

    def __init__(self, *widgets: Widget, theme: str = "steno-dark") -> None:
        super().__init__()
        self._widgets = widgets
        self._wanted = theme
        self.results: list[Any] = []
        """What screens were left with."""

    def compose(self) -> ComposeResult:
        yield from self._widgets

    def on_mount(self) -> None:
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = self._wanted

    @property
    def strips(self) -> list[Strip]:
        """The lines of the screen."""
        return self.screen._compositor.render_strips()

    @property
    def lines(self) -> list[str]:
        return [strip.text for strip in self.strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def show(
    screen: Screen[Any],
    steps: Callable[[ScreenApp, Pilot[None]], Awaitable[T]],
    *,
    size: tuple[int, int] = (100, 30),
    theme: str = "steno-dark",
) -> T:
    """Show a screen and run steps; its result is in `results` of the app."""

    async def run() -> T:
        app = ScreenApp(theme=theme)
        async with app.run_test(size=size) as pilot:
            app.push_screen(screen, app.results.append)
            await wait_until(pilot, lambda: app.screen is screen)
            await pilot.pause()
            return await steps(app, pilot)

    return asyncio.run(run())


def is_harmless(app: ScreenApp) -> bool:
    """Return whether the screen has no control characters, links or bidirectional overrides."""
    segments = [segment for strip in app.strips for segment in strip]
    return all(
        segment.text.isprintable() and not (segment.style and segment.style.link)
        for segment in segments
    ) and not any("@click" in (segment.style.meta if segment.style else {}) for segment in segments)


# -- colours -----------------------------------------------------------------------------------


def contrast(ink: Color, ground: Color) -> float:
    """Return the contrast of two colours as defined by WCAG, from 1 to 21."""
    low, high = sorted((luminance(ground + ink), luminance(ground)))
    return (high + 0.05) / (low + 0.05)


def luminance(color: Color) -> float:
    red, green, blue = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in color.normalized
    ]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def least_contrast(app: ScreenApp) -> float:
    """Return the least contrast of any text on the screen with its background."""
    found = [21.0]
    for strip in app.strips:
        for segment in strip:
            style = segment.style
            if (
                segment.text.strip(" ▁▂▃▄▅▆▇█▔▊▎╭╮╰╯─│━")
                and style
                and style.color
                and style.bgcolor
            ):
                ink, ground = map(Color.from_rich_color, (style.color, style.bgcolor))
                found.append(contrast(ink, ground))
    return min(found)
