"""The words of one block as far as they were told: text, thinking, arguments or a refusal.

They come in deltas, and again when a part of them is done, when the item is done, and at the end.
What a later telling has behind what was told is told then; where it differs, the first one stands.

Thinking has two places in its item, the summary and the content. Some servers say the same in
both, and it is told once. So what comes in the second place waits as long as it may be a
repetition; what differs from the first goes on as it comes.
"""

from __future__ import annotations

from typing import Final, TypeAlias, final

from steno.value import replace_lone_surrogates
from steno.wire.openai_responses.shapes import THOUGHT

Part: TypeAlias = tuple[str, int | None]
"""The place of a thought, and the number of the part there, if it has one."""

THE_ONLY_ONE: Final[Part] = ("", None)
"""The part of what is no thought."""


@final
class Said:
    """Knows what was told of a block."""

    __slots__ = (
        *("_first", "_from", "_heard", "_held", "_held_at", "_is_different", "_latest"),
        *("_told_at", "block", "kind", "told"),
    )

    def __init__(self, kind: str, block: int) -> None:
        """Start without a word."""
        self.kind = kind
        self.block = block
        self.told: list[str] = []
        """All that was told, in pieces; none of them is empty."""
        self._heard: set[Part | str] = {"", THE_ONLY_ONE}
        """The parts of which there was more, and their places."""
        self._first: str | None = None
        self._latest = THE_ONLY_ONE
        self._from = 0  # the piece that the latest part begins with
        self._held: list[str] = []
        self._is_different = False
        # How far the two places were compared: the number of a piece, and how much of it.
        self._told_at = self._held_at = (0, 0)

    def add_delta(self, text: str, part: Part = THE_ONLY_ONE) -> str:
        """Take more of a part; return what is to be told of it now."""
        place, _ = part
        if part != self._latest:
            self._latest, self._from = part, len(self.told)
            self._heard |= {part, place}
        if self._first is None:
            self._first = place
        if place != self._first and not self._is_different:
            self._held.append(text)
            if self._may_repeat():
                return ""
            text = "".join(self._held)
            self._held, self._is_different = [], True
        self._append(text)
        return text

    def find_part_end(self, whole: str, part: Part = THE_ONLY_ONE) -> str | None:
        """Return what a part that is done has more; None if nothing was told of it.

        A part without a number is the latest.
        """
        place, number = part
        parts = {place} if number is None else {part, (place, None)}
        if self._heard.isdisjoint(parts):
            return None
        is_latest = self._latest in parts or (number is None and self._latest[0] == place)
        # What is behind another part already, or waits itself, is left to the item.
        return self._find_untold_end(whole) if is_latest and not self._held else ""

    def take_remaining(self, whole: str | None = None) -> str:
        """Return what is left to tell: of the `whole` that the item says, else of what waits."""
        told, held = "".join(self.told), "".join(self._held)
        if whole is not None and whole.startswith(told):
            left = whole[len(told) :]
        elif whole is not None and self.kind == THOUGHT and whole.endswith(told):
            left = whole[: -len(told)]  # the place that it was told of is the second one
        elif held.startswith(told):
            left = held[len(told) :]
        else:
            left = "" if told.startswith(held) else held
        self._held, self._told_at, self._held_at = [], (0, 0), (0, 0)
        self._append(left)
        return left

    def _append(self, text: str) -> None:
        """Note what is told, with the halves of a character put together."""
        if self.told and "\udc00" <= text[:1] <= "\udfff":
            pair = replace_lone_surrogates(self.told[-1][-1] + text[0])
            if len(pair) == 1:
                self.told[-1:] = [self.told[-1][:-1], pair] if len(self.told[-1]) > 1 else [pair]
                text = text[1:]
        if text:
            self.told.append(text)

    def _find_untold_end(self, whole: str) -> str:
        """Return what the latest part has behind what was told of it; nothing where it differs."""
        # Piece by piece, so that this costs what the whole is long and not what was told.
        at = 0
        for number in range(self._from, len(self.told)):
            piece = self.told[number]
            if not whole.startswith(piece, at):
                return ""
            at += len(piece)
        return whole[at:]

    def _may_repeat(self) -> bool:
        """Tell whether what waits is what was told, as far as both go; no letter is read twice."""
        (told, told_from), (held, held_from) = self._told_at, self._held_at
        while told < len(self.told) and held < len(self._held):
            one, other = self.told[told], self._held[held]
            size = min(len(one) - told_from, len(other) - held_from)
            if one[told_from : told_from + size] != other[held_from : held_from + size]:
                return False
            told_from, held_from = told_from + size, held_from + size
            if told_from == len(one):
                told, told_from = told + 1, 0
            if held_from == len(other):
                held, held_from = held + 1, 0
        self._told_at, self._held_at = (told, told_from), (held, held_from)
        return True
