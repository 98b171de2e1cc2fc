"""The themes of the full-screen interface.

There are a dark and a light theme of steno, and the themes of Textual. In the themes of steno,
every text colour has a contrast of at least 4.5 to 1 with each of its backgrounds. The first paint
waits for this module, so it imports nothing slow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, final

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import BUILTIN_THEMES, Theme

_MIN_CONTRAST: Final = 0.35
"""The difference in brightness above which a background stands out from the screen."""
STENO_DARK: Final = Theme(
    name="steno-dark",
    primary="#82aaff",
    secondary="#a3b0d0",
    accent="#c8a2ff",
    success="#7fd88f",
    warning="#e8b968",
    error="#ff8f94",
    foreground="#e4e7ee",
    background="#14161b",
    surface="#1b1e25",
    panel="#252a34",
    dark=True,
    variables={
        "footer-key-foreground": "#82aaff",
        "text-muted": "auto 70%",
        "foreground-muted": "#e4e7eeb3",
        "scrollbar": "#4a505e",
        "scrollbar-hover": "#6b7283",
        "scrollbar-background": "#14161b",
    },
)
STENO_LIGHT: Final = Theme(
    name="steno-light",
    primary="#1a4f9f",
    secondary="#46527a",
    accent="#7436b0",
    success="#17632f",
    warning="#7d4a00",
    error="#a8231c",
    foreground="#0d0f14",
    background="#fbfbfc",
    surface="#f2f4f7",
    panel="#eaecf1",
    dark=False,
    variables={
        "footer-key-foreground": "#1a4f9f",
        "text-muted": "auto 75%",
        "foreground-muted": "#0d0f14bf",
        "scrollbar": "#b9bfcb",
        "scrollbar-hover": "#8f97a8",
        "scrollbar-background": "#fbfbfc",
    },
)
THEMES: Final = (STENO_DARK, STENO_LIGHT)
_THEME_BY_SHORT_NAME: Final = {"dark": STENO_DARK.name, "light": STENO_LIGHT.name}
_LIGHT_BACKGROUNDS: Final = frozenset({"7", "9", "10", "11", "12", "13", "14", "15"})
"""The numbers of the light colours among the 16 colours of a terminal. Colour 8 is dark grey."""


@final
class NoColorFilter(LineFilter):
    """Removes all colours; a background that stands out becomes reverse video."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments without colours."""
        return [
            Segment(text, None if style is None else _without_color(style, background), control)
            for text, style, control in segments
        ]


@lru_cache(maxsize=1024)
def _without_color(style: Style, background: Color) -> Style:
    color, stands_out = style.bgcolor, False
    if color is not None and not color.is_default:
        brightness = Color.from_rich_color(color).brightness
        stands_out = abs(brightness - background.brightness) > _MIN_CONTRAST
    return Style(
        bold=style.bold,
        dim=style.dim,
        italic=style.italic,
        underline=style.underline,
        strike=style.strike,
        reverse=bool(style.reverse) is not stands_out,
        meta=style.meta or None,
    )


def all_theme_names() -> Sequence[str]:
    """Return the names of all themes: those of steno, then those of Textual."""
    return [*(theme.name for theme in THEMES), *sorted(BUILTIN_THEMES)]


def theme_named(name: str) -> str | None:
    """Return the full name of a theme; None if the theme is unknown.

    `dark` and `light` are the short names of the themes of steno.
    """
    name = name.strip().lower()
    name = _THEME_BY_SHORT_NAME.get(name, name)
    return name if name in all_theme_names() else None


def default_theme(environ: Mapping[str, str]) -> str:
    """Return the theme to use if the settings do not name a theme.

    The choice follows COLORFGBG, which some terminals set to their colours (`15;0` is white on
    black). If COLORFGBG is not set, the theme is dark.
    """
    background = environ.get("COLORFGBG", "").rpartition(";")[2].strip()
    return _THEME_BY_SHORT_NAME["light" if background in _LIGHT_BACKGROUNDS else "dark"]
