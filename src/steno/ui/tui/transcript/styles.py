"""The styles of a transcript, from the theme of the app.

The fields of `TranscriptStyles` are also the component classes of the view, so that a theme or a
style sheet can set each of them (`.transcript--heading`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rich.style import Style


class TranscriptStyles(NamedTuple):
    """One style for each part of a transcript."""

    user_text: Style
    """The user's text."""
    user_mark: Style
    """The mark before it."""
    dim: Style
    """Less important text: thinking, hints, rules."""
    output: Style
    """The output of a tool or a command."""
    head: Style
    heading: Style
    link: Style
    code: Style
    """Code and its background."""
    waiting: Style
    running: Style
    done: Style
    failed: Style
    stopped: Style
    notice: Style
    error: Style
    added: Style
    removed: Style
    hunk: Style
    frame: Style
    selected: Style
    """The mark of the selected item."""
    base: Style = Style()
    """The style of the view itself."""
    is_dark: bool = True


STYLE_PREFIX: Final = "transcript--"
STYLE_PARTS: Final = tuple(
    name for name in TranscriptStyles._fields if name not in TranscriptStyles._field_defaults
)
"""The fields that a style sheet can set."""

STYLE_SHEET: Final = """
Transcript {
    background: $background;
    color: $foreground;
    overflow-x: hidden;
    overflow-y: auto;
    scrollbar-gutter: stable;
    scrollbar-size-vertical: 1;
    & > .transcript--user_text { background: $panel; color: $foreground; }
    & > .transcript--user_mark { background: $panel; color: $primary; text-style: bold; }
    & > .transcript--dim { color: $foreground 60%; }
    & > .transcript--output { color: $foreground 75%; }
    & > .transcript--head { text-style: bold; }
    & > .transcript--heading { color: $primary; text-style: bold; }
    & > .transcript--link { color: $primary; text-style: underline; }
    & > .transcript--code { background: $surface; color: $foreground; }
    & > .transcript--waiting { color: $warning; text-style: bold; }
    & > .transcript--running { color: $primary; text-style: bold; }
    & > .transcript--done { color: $success; }
    & > .transcript--failed { color: $error; text-style: bold; }
    & > .transcript--stopped { color: $warning; }
    & > .transcript--notice { color: $warning; }
    & > .transcript--error { color: $error; }
    & > .transcript--added { color: $success; }
    & > .transcript--removed { color: $error; }
    & > .transcript--hunk { color: $primary; text-style: bold; }
    & > .transcript--frame { color: $primary; }
    & > .transcript--selected { color: $primary; text-style: bold; }
}
"""
