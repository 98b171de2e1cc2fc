"""What a wire made of a request, and what it could not say."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar, final

import msgspec

from steno.values import RedactedRepr


class LossCode(StrEnum):
    """What kind of thing a wire had no words for."""

    SEAL = "seal"
    """A seal of another model, which this one would refuse."""
    THINKING = "thinking"
    """Thinking, where the target has no place for it."""
    CALL_ID = "call_id"
    """A call id that the target forbids, replaced by a hash of it."""
    TOOL_NAME = "tool_name"
    """A tool name that the target forbids, replaced by a name of ours."""
    EXTRAS = "extras"
    """Members that only another wire has a name for, or that contradict the request itself."""
    OPAQUE = "opaque"
    """A block of another wire that is not understood."""
    IMAGE = "image"
    """An image, where the target takes none, or not here."""
    REFERENCE = "reference"
    """A file or resource that was not resolved, sent as its name."""
    OUTCOME = "outcome"
    """That a call failed, where the target has no flag for it."""
    INVALID_CALL = "invalid_call"
    """A call that cannot be run, sent with its raw text as its only argument."""
    SYSTEM = "system"
    """A system message in a place where the target takes none."""
    ORDER = "order"
    """Neighbours that had to be merged, or the order of blocks in a message."""
    BLANK = "blank"
    """Text without a word in it, which the target refuses."""
    TOOL = "tool"
    """Something of a tool definition that the target does not know."""
    SETTING = "setting"
    """A setting of the request that the target does not know."""


@final
class Loss(RedactedRepr, frozen=True):
    """One thing that the target will not see as it was."""

    shown: ClassVar[frozenset[str]] = frozenset({"place", "done"})

    code: LossCode
    place: str
    """Where in the request: `messages[3].content[1]`."""
    done: str
    """What was done about it, in words."""

    def __str__(self) -> str:
        return f"{self.place}: {self.done} ({self.code})"


@final
class LossCollector:
    """Collects what gets lost, with the place that is being written."""

    def __init__(self) -> None:
        self.found: list[Loss] = []
        self.place = ""

    def note(self, code: LossCode, done: str, *, at: str = "") -> None:
        """Note a loss at the current place, or at a part of it."""
        self.found.append(Loss(code, f"{self.place}{at}", done))


@final
class EncodedRequest(RedactedRepr, frozen=True):
    """A request in the words of a provider: the body to send, and what got lost on the way."""

    body: bytes
    losses: tuple[Loss, ...] = ()

    @property
    def json(self) -> dict[str, Any]:
        """The body as Python values."""
        decoded: dict[str, Any] = msgspec.json.decode(self.body)
        return decoded
