"""The context of slash commands for tests: real settings, a real store, tools and servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from steno import Conversation
from steno.app.commands.context import CommandContext
from steno.app.commands.report import Report
from steno.app.commands.slash_commands import run_slash_command
from steno.app.compose import open_environment
from steno.app.mcp import DEFAULT_MCP_OPTIONS
from steno.app.models import choose_model
from steno.app.session import AgentSession
from steno.app.session_state import SessionConfig, SessionState
from steno.app.settings import load_settings
from steno.context import ModelTarget
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
        context = build_context(folder, store, at_hand, keeps=keeps, loaded=loaded)
        state_of(context).environment = equipment
        yield context


def build_context(
    folder: Path,
    store: Store,
    conversation: Conversation,
    *,
    keeps: bool = False,
    loaded: Any = None,
) -> CommandContext:
    """Return a context without a model and tools."""
    options = DEFAULT_MCP_OPTIONS
    state = SessionState(
        SessionConfig(loaded, folder, lambda: store, keeps, options, lambda _: None)
    )
    state._store = store  # it is open already
    state.actor, state.conversation = ACTOR, conversation
    state.environment = cast("Any", SimpleNamespace(target=ModelTarget(model="none")))
    return CommandContext(
        folder, lambda: nullcontext(store), is_persistent=keeps, session=AgentSession(state)
    )


def state_of(context: CommandContext) -> SessionState:
    """Return the state of the session that a context has."""
    assert context.session is not None
    return context.session.state


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


def run_with_context(
    folder: Path,
    name: str,
    argument: str = "",
    *,
    begin: Callable[[Store], Conversation] | None = None,
    **flags: Any,
) -> Report:
    """Run a slash command in a context with a store on disk."""

    async def work(context: CommandContext) -> Report:
        return await run_slash_command(context, name, argument)

    return with_context(folder, work, begin=begin, **flags)
