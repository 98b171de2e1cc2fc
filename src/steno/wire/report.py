"""The result of encoding a request: the body to send, and a change for each loss on the way."""

from __future__ import annotations

from typing import Any, final

import msgspec

from steno.messages.change import Change, ChangeCode
from steno.values import RedactedRepr


@final
class ChangeCollector:
    """Collects changes, each with the place that is being written."""

    def __init__(self) -> None:
        self.found: list[Change] = []
        self.place = ""

    def note(
        self,
        code: ChangeCode,
        reason: str,
        *,
        at: str = "",
        value: str = "",
        names: tuple[str, ...] = (),
        number: int | None = None,
    ) -> None:
        """Note a change at the current place, or at a part of it."""
        self.found.append(Change(code, reason, self.place + at, None, value, names, number))


@final
class EncodedRequest(RedactedRepr, frozen=True):
    """A request as a provider reads it: the body to send, and what it does not hold."""

    body: bytes
    losses: tuple[Change, ...] = ()

    @property
    def json(self) -> dict[str, Any]:
        """The body as Python values."""
        decoded: dict[str, Any] = msgspec.json.decode(self.body)
        return decoded
