"""Which keys do what in the approval panel, besides the letters of its choices."""

from __future__ import annotations

from typing import Final

from textual.binding import Binding, BindingType

KEYS: Final[tuple[BindingType, ...]] = (
    Binding("enter", "confirm", "confirm", show=False),
    Binding("escape", "back", "back", show=False),
    Binding("left", "highlight(-1)", "choice", show=False),
    Binding("right", "highlight(1)", "choice", show=False),
    Binding("tab", "edit", "edit the rule", show=False),
    Binding("ctrl+n", "move(1)", "next call", show=False),
    Binding("ctrl+p", "move(-1)", "previous call", show=False),
    Binding("ctrl+f", "enlarge", "more room", show=False),
    *[
        Binding(where.replace("_", ""), f"read('{where}')", "scroll", show=False)
        for where in ("up", "down", "page_up", "page_down", "home", "end")
    ],
)
