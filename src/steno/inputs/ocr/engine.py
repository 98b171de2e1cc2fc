"""What recognises text in an image looks like from outside."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Recognised(NamedTuple):
    """What stands in an image, as far as an engine can tell."""

    text: str
    """Line by line, from the top; empty if there is none."""
    confidence: float | None
    """How sure the engine is, from 0 to 1, each line by its length; None if it does not say."""


class Engine(Protocol):
    """Recognises text. May be called from any thread, by one at a time."""

    @property
    def name(self) -> str:
        """What the record calls it, with its version: `rapidocr 3.10.0`."""
        ...

    def recognise(self, image: bytes) -> Recognised:
        """Recognise what stands in an upright PNG or JPEG image.

        Raises Unrecognised if that cannot be done, which says what to do; the first call may take
        long, since models are loaded.
        """
        ...


class Unrecognised(Exception):
    """An engine is not installed, or failed; the message says what to do."""
