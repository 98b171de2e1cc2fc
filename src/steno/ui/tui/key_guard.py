"""The keys that count as a decision, and the moment at which a request takes the focus.

A user must not approve a call by accident. So a decision takes two steps, a letter and then Enter.
Neither counts when it looks like something else: prose typed for the prompt, a key that is held
down, or a key pressed before the request appeared.

This module imports no widget.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final, final

READING_TIME_S: Final = 0.6
"""The time that a request must be visible before a key counts, and the pause before a letter that
is a choice. Letters of prose follow each other faster."""
_PROSE_PAUSE_S: Final = 1.2
"""The same pause after a letter that chose nothing. A slow typist may stop to think, and the o of a
slow `no` is not a yes."""
_FOCUS_GRACE_S: Final = 0.3
"""The time in which keys may still be meant for the prompt after the panel took the focus."""
_REPEAT_PAUSE_S: Final = 0.2
"""The same letter after this pause repeats the choice."""
_MIN_ENTER_PAUSE_S: Final = 0.06
"""Faster keys are pasted or repeated; the user has not read anything in between."""
_PASTE_PAUSE_S: Final = 0.02
"""No user types as fast as this."""
_KEY_REPEAT_S: Final = 0.8
"""Longer than keyboards wait before they repeat a key that is held down."""
IDLE_S: Final = 1.0
"""The idle time of the prompt after which a request takes the focus."""


class KeyRefusal(StrEnum):
    """The reason why a key is ignored."""

    TOO_SOON = "too_soon"
    PROSE = "prose"
    PASTED_ENTER = "pasted_enter"
    DOUBLE_CLICK = "double_click"
    HELD_DOWN = "held_down"
    NO_CHOICE = "no_choice"
    NOTHING_CHOSEN = "nothing_chosen"
    PASTE = "paste"

    @property
    def text(self) -> str:
        """The message for the user."""
        return _REFUSAL_TEXTS[self]


_REFUSAL_TEXTS: Final = {
    KeyRefusal.TOO_SOON: "ignored: that came before there was time to read; once more, please",
    KeyRefusal.PROSE: (
        "nothing is chosen: letters close together are taken for prose; pause, then one letter"
    ),
    KeyRefusal.PASTED_ENTER: "ignored: Enter came at once behind another key, as in a paste",
    KeyRefusal.DOUBLE_CLICK: "ignored: that was the second half of a double click",
    KeyRefusal.HELD_DOWN: (
        "ignored: Enter may still have been held down; wait a second, then once more"
    ),
    KeyRefusal.NO_CHOICE: "nothing is chosen: that key stands for no choice",
    KeyRefusal.NOTHING_CHOSEN: "nothing is chosen: first a letter or ← →, then Enter",
    KeyRefusal.PASTE: "nothing is chosen: a paste decides nothing; Esc leads to the prompt",
}


@final
class KeyGuard:
    """Separates keys that are a decision from keys that were meant for something else.

    Every key is recorded. Each check returns a refusal, or None if the key counts.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """Take a clock in seconds."""
        self._now = now
        self._appeared_at = now()
        self._taken_at = self._letter_at = self._key_at = self._click_at = float("-inf")
        self._recent_letters = ""
        """The letters that came without a pause, each once."""
        self._is_prose = False
        """Whether the last letter was no choice."""
        self._is_enter = False
        """Whether the last key was Enter; a key that is held down sends nothing else."""

    def content_changed(self) -> None:
        """Record that the screen now shows something else."""
        self._appeared_at = self._now()

    def focus_taken(self) -> None:
        """Record that keys arrive here from now on without a request by the user."""
        self._taken_at = self._now()

    def check_letter(self, letter: str, *, is_choice: bool = True) -> KeyRefusal | None:
        """Check whether a character is a choice: it stands alone, or repeats the last one.

        A letter that is no choice counts as the beginning of prose for the letters after it.
        """
        pause_s = self._now() - self._letter_at
        if pause_s >= (_PROSE_PAUSE_S if self._is_prose else READING_TIME_S):
            self._recent_letters = ""
        is_alone = not self._recent_letters or (
            letter == self._recent_letters and pause_s >= _REPEAT_PAUSE_S
        )
        self._recent_letters += letter if letter not in self._recent_letters else ""
        self._letter_at = self._now()
        refusal = self.check_key() or (None if is_alone else KeyRefusal.PROSE)
        self._is_prose = refusal is not None or not is_choice
        return refusal

    def check_key(self) -> KeyRefusal | None:
        """Check whether a key that is no letter refers to the visible request."""
        self._record_key(is_enter=False)
        return self._check_read()

    def check_enter(self, *, allows_quick_enter: bool = False) -> KeyRefusal | None:
        """Check whether Enter is a decision."""
        pause_s = self._now() - self._key_at
        was_enter = self._is_enter
        self._record_key(is_enter=True)
        if was_enter and pause_s < _KEY_REPEAT_S:
            return KeyRefusal.HELD_DOWN
        if pause_s < (_PASTE_PAUSE_S if allows_quick_enter else _MIN_ENTER_PAUSE_S):
            return KeyRefusal.PASTED_ENTER
        return self._check_read()

    def check_click(self) -> KeyRefusal | None:
        """Check whether a click counts; of a double click only the first half does."""
        now = self._now()
        pause_s, self._click_at = now - self._click_at, now
        if now - self._appeared_at < READING_TIME_S:
            return KeyRefusal.TOO_SOON
        return KeyRefusal.DOUBLE_CLICK if pause_s < READING_TIME_S else None

    def _record_key(self, *, is_enter: bool) -> None:
        self._key_at, self._is_enter = self._now(), is_enter

    def _check_read(self) -> KeyRefusal | None:
        now = self._now()
        is_read = (
            now - self._appeared_at >= READING_TIME_S and now - self._taken_at >= _FOCUS_GRACE_S
        )
        return None if is_read else KeyRefusal.TOO_SOON


# -- focus ------------------------------------------------------------------------------------


@final
class FocusPolicy:
    """Decides when a new request may take the focus: once, and never while the user types."""

    def __init__(self, idle_s: Callable[[], float]) -> None:
        """Take the idle time of the prompt in seconds; 0 while it holds text."""
        self._idle_s = idle_s
        self._asked_ids: frozenset[str] = frozenset()
        self.is_pending: bool = False
        """Whether there is a request that the user has not focused yet."""

    def update(self, asked: frozenset[str], *, has_focus: bool) -> bool:
        """Take the ids of the requests; return whether any of them is new.

        `has_focus` is True if the panel has the focus already.
        """
        is_new = not asked <= self._asked_ids
        self.is_pending = bool(asked) and not has_focus and (self.is_pending or is_new)
        self._asked_ids = asked
        return is_new

    def mark_focused(self) -> None:
        """Record that the panel has the focus; a user who leaves it is not called back."""
        self.is_pending = False

    @property
    def is_due(self) -> bool:
        """Whether the panel may take the focus now."""
        return self.is_pending and self._idle_s() >= IDLE_S
