"""The context of slash commands for tests: real settings, a real store, tools and servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from steno import Conversation
from steno.app.compose import open_environment
from steno.app.models import choose_model
from steno.app.session_state import CommandContext
from steno.app.settings_loader import load_settings
from steno.store import Store, open_store

T = TypeVar("T")

ACTOR = "ada"


@asynccontextmanager
async def open_context(
    folder: Path,
    *,
    store: Store,
    conversation: Conversation | None = None,
    keeps: bool = True,
    **flags: Any,
) -> AsyncGenerator[CommandContext]:
    """Open a context with the offline assistant; its servers end with it."""
    loaded = load_settings(folder, flags={"model": "offline", **flags})
    found = await choose_model(loaded)
    async with open_environment(loaded, found, folder, None) as equipment:
        at_hand = store.new() if conversation is None else conversation
        yield CommandContext(loaded, folder, store, keeps, equipment, at_hand, ACTOR)


def with_context(
    folder: Path,
    work: Callable[[CommandContext], Awaitable[T]],
    *,
    begin: Callable[[Store], Conversation] | None = None,
    limit_s: float = 60,
    **flags: Any,
) -> T:
    """Run something in a context with a store on disk; `begin` may start a session before."""

    async def main() -> T:
        with open_store(f"sqlite:{folder.parent / 'context.db'}") as store:
            conversation = None if begin is None else begin(store)
            async with (
                asyncio.timeout(limit_s),
                open_context(folder, store=store, conversation=conversation, **flags) as context,
            ):
                return await work(context)

    return asyncio.run(main())
