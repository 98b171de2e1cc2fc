"""How many rows of the screen the approval panel takes, and what it leaves to the conversation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from textual.widget import Widget

_SHARE: Final = 0.6
"""How much of the screen it takes at most, unless somebody wants to see more."""
_CONVERSATION: Final = 4
"""How many rows of the conversation stay in view even then."""
_TITLE: Final = 1
_ROOMY: Final = 28
"""How many rows the screen has to have for two of them to stay empty: around what to decide."""
_GAPS: Final = 2


class Room(NamedTuple):
    """The rows that are left for what is to be read."""

    share: int
    most: int
    """Where somebody wants to see as much as possible."""
    has_margin: bool
    """Whether there is room to leave some of them empty."""


def room_in(panel: Widget, parts: Iterable[Widget], width: int) -> Room:
    """Return the rows that the other parts of the panel leave, where it is so many columns wide."""
    screen = panel.app.size
    taken = [part.get_content_height(screen, screen, width) for part in parts if part.display]
    is_roomy = screen.height >= _ROOMY
    taken_up = _TITLE + sum(taken) + (_GAPS if is_roomy else 0)
    share = int(screen.height * _SHARE) - taken_up
    return Room(share, _rows_beside(panel) - taken_up, is_roomy)


def _rows_beside(panel: Widget) -> int:
    """Return how many rows it may take of its screen: of what can shrink, enough stays in view."""
    others = [one for one in panel.screen.children if one is not panel and one.display]
    fixed = [one.outer_size.height for one in others if not _can_shrink(one)]
    return panel.app.size.height - _CONVERSATION - sum(fixed)


def _can_shrink(widget: Widget) -> bool:
    height = widget.styles.height
    return height is not None and height.is_fraction
