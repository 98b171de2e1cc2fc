"""A line that says on a page that steno asks something below it.

Pages cover the conversation, and with it the question. Whoever asks says so by a class of the app,
so neither knows the other, and a page that is opened later shows it, too.
"""

from __future__ import annotations

from typing import Final, final

from textual.app import App
from textual.widgets import Static

_ASKED: Final = "-asked"
_TOLD: Final = "steno asks you about a call: Esc leads there"


def tell_pages(app: App[object], *, is_asked: bool) -> None:
    """Let all pages say that a question waits, or no longer."""
    if app.has_class(_ASKED) != is_asked:
        app.set_class(is_asked, _ASKED)


@final
class Waiting(Static):
    """Stands above the keys of a page; there is nothing to see unless a question waits."""

    DEFAULT_CSS = f"""
    Waiting {{
        display: none; height: 1; padding: 0 1;
        background: $panel; color: $text-warning; text-style: bold;
        text-wrap: nowrap; text-overflow: ellipsis;
    }}
    App.{_ASKED} Waiting {{ display: block; }}
    """

    SCOPED_CSS = False  # it depends on a class of the app

    def __init__(self) -> None:
        """Say always the same."""
        super().__init__(_TOLD, markup=False)
