"""A line in which a decision is worded: the rule to store, or the reason for a denial."""

from __future__ import annotations

from typing import final

from textual.events import Key
from textual.message import Message

from steno.tui.screens.deciding import Attention, Doubt
from steno.tui.screens.furniture import Line


@final
class AnswerLine(Line):
    """Takes one line."""

    DEFAULT_CSS = "AnswerLine { background: $surface; }"

    @final
    class Ignored(Message):
        """Enter came, and nothing was done about it."""

        def __init__(self, doubt: Doubt) -> None:
            """Say why."""
            super().__init__()
            self.reason = doubt

    def __init__(self, attention: Attention) -> None:
        """Take who tells keys that are meant from others."""
        super().__init__(select_on_focus=False)
        self._key_guard = attention
        self.allows_quick_enter = False
        """Whether Enter counts right behind a key, unless it was pasted: to deny harms nobody."""

    def on_key(self, event: Key) -> None:
        """Note when keys come."""
        if event.key != "enter":  # see action_submit
            self._key_guard.check_key()

    async def action_submit(self) -> None:
        """Take what is written."""
        doubt = self._key_guard.check_enter(may_be_hasty=self.allows_quick_enter)
        if doubt is None:
            await super().action_submit()
        else:
            self.post_message(self.Ignored(doubt))
