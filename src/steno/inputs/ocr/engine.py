"""What recognises text in an image looks like from outside, and what comes of it."""

from __future__ import annotations

from typing import NamedTuple, Protocol, final

from steno.errors import Unrecognised

__all__ = ["Engine", "EngineFailed", "Reading", "Recognised", "Unrecognised", "rounded_down"]


class Recognised(NamedTuple):
    """What stands in an image, as far as an engine can tell."""

    text: str
    """Line by line, from the top; empty if there is none."""
    confidence: float | None
    """How sure the engine is, from 0 to 1, each line by its length; None if it does not say."""


class Reading(NamedTuple):
    """The text in an image, and for the record how it was found."""

    text: str
    confidence: float | None
    """From 0 to 1; None if the engine does not say, or there is no text."""
    language: str | None
    """`en`, `de`, `zh`; None if it cannot be told."""
    engine: str
    duration_s: float


@final
class EngineFailed(Unrecognised):
    """An engine was at work and failed; for the record, which one."""

    def __init__(self, reason: str, engine: str) -> None:
        super().__init__(reason)
        self.engine = engine


class Engine(Protocol):
    """Recognises text. May be called from any thread, by one at a time."""

    @property
    def name(self) -> str:
        """What the record calls it, with its version: `rapidocr 3.10.0`."""
        ...

    def recognise(self, image: bytes) -> Recognised:
        """Recognise what stands in an upright PNG or JPEG image.

        Raises Unrecognised if that cannot be done, which says what to do; the first call may take
        long, since models are loaded. One that works in steps calls `check_wanted` in between
        (`steno.inputs.ocr.apart`), so that it ends where nobody waits for it any more.
        """
        ...


def rounded_down(confidence: float) -> str:
    """Return how sure an engine is, in words: what is not certain is never 1.00."""
    return f"{int(confidence * 10_000 + 0.5) // 100 / 100:.2f}"
