"""What every candidate can do at a terminal."""

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
        """How many drawings of what was said there were so far; None where nobody counts."""
        ...

    def prepare(self, turns: Sequence[Turn]) -> Any:
        """Return what is given to `show`."""
        ...

    async def show(self, record: Any) -> None:
        """Show what was said, and nothing else, until it is painted."""
        ...

    async def say(self, text: str) -> None:
        """Let the model say a little more."""
        ...

    async def finish(self) -> None:
        """Wait until all of it is to be seen."""
        ...

    async def page_up(self) -> None:
        """Scroll, until it is painted."""
        ...


Act: TypeAlias = Callable[[Candidate], Awaitable[None]]


async def painted(app: App[Any]) -> None:
    """Wait until what has changed is on the screen."""
    for _ in range(2):  # what is put off until after the first time: scrolling, scroll bars
        done = asyncio.Event()
        app.call_after_refresh(done.set)
        await done.wait()
