"""The operations that every candidate of the terminal benchmark has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias

from textual.app import App

from bench.conversation import Turn


class Candidate(Protocol):
    """A terminal that shows a conversation."""

    @property
    def drawn(self) -> int | None:
        """The number of drawings of items so far; None if the candidate does not count them."""
        ...

    def prepare(self, turns: Sequence[Turn]) -> Any:
        """Return the argument of `show`."""
        ...

    async def show(self, record: Any) -> None:
        """Replace the content with messages, and wait until they are painted."""
        ...

    async def stream(self, text: str) -> None:
        """Stream a piece of the answer."""
        ...

    async def finish(self) -> None:
        """Wait until the whole answer is visible."""
        ...

    async def page_up(self) -> None:
        """Scroll, and wait until the screen is painted."""
        ...


Act: TypeAlias = Callable[[Candidate], Awaitable[None]]


async def painted(app: App[Any]) -> None:
    """Wait until all changes are on the screen."""
    for _ in range(2):  # scrolling and scroll bars are updated after the first refresh
        done = asyncio.Event()
        app.call_after_refresh(done.set)
        await done.wait()
