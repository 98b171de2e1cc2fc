"""Passes words on at a pace that people can follow: some servers report progress without a pause."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, final

INTERVAL_S: Final = 0.1


@final
class Paced:
    """Tells somebody what it is told, while `with` lasts: of many words at once, the last.

    The first comes through at once, and the last for sure, at the end if not before.
    """

    def __init__(
        self, tell: Callable[[str], object], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._callback = tell
        self._now = now
        self._next_at = now()
        self._waiting: str | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, text: str) -> None:
        """Tell it, now or when it is time, unless something newer has come by then."""
        self._waiting = text
        left_s = self._next_at - self._now()
        if left_s <= 0:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(left_s, self._flush)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting is not None:
            text, self._waiting = self._waiting, None
            self._next_at = self._now() + INTERVAL_S
            self._callback(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._flush()
