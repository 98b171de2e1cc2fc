"""Code with the colours of its language, by Pygments."""

from __future__ import annotations

from typing import Final

from rich.syntax import Syntax
from textual.strip import Strip

from steno.printable import printable
from steno.tui.transcript.lines import TAB, plain_console, strips
from steno.tui.transcript.look import Look

LONGEST: Final = 60_000
"""What is longer is shown without colours: they would take longer than anybody waits."""


def highlighted(code: str, language: str, look: Look) -> Syntax:
    """Return code to be drawn; a language that nobody knows has no colours."""
    behind = look.code.bgcolor
    has_ground = behind is not None and not behind.is_default
    return Syntax(
        code,
        (language if len(code) <= LONGEST else "") or "text",
        theme="github-dark" if look.is_dark else "tango",
        background_color=behind.get_truecolor().hex if behind and has_ground else "default",
        word_wrap=True,
        tab_size=TAB,
    )


def code_lines(text: str, language: str, width: int, look: Look) -> list[Strip]:
    """Return code as lines, on a ground of its own."""
    console = plain_console()
    options = console.options.update(width=width, height=None)
    syntax = highlighted(printable(text), language, look)
    return strips(console.render_lines(syntax, options, pad=False))
