"""What a call would do that nobody was asked about yet, found out as soon as somebody looks at it."""

from __future__ import annotations

from typing import final

from steno.call import ToolCall
from steno.errors import StenoError
from steno.printable import on_one_line
from steno.tui.desk import Desk, Pending


@final
class Foresight:
    """Knows about one call at a time."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._call: ToolCall | None = None
        self.preview = ""
        """What the call would do, for people to read."""

    def select(self, shown: Pending | None) -> bool:
        """Take a call; tell whether to `look` what it would do. A question says so itself."""
        if shown is None or shown.request is not None or shown.call == self._call:
            return False
        self._call, self.preview = shown.call, ""
        return True

    async def load(self, desk: Desk, call: ToolCall) -> str:
        """Find out what a call would do; return why that cannot be told, or nothing."""
        try:
            preview = await desk.preview(call)
        except StenoError as exc:
            return f"it cannot be told what it would do: {on_one_line(str(exc))}"
        if self._call == call:
            self.preview = preview
        return ""
