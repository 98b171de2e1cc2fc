"""Open a session as the command line describes it."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from steno.agent import AllowingApprover
from steno.app.mcp import McpOptions
from steno.app.session import AgentSession
from steno.app.settings import load_settings
from steno.cli.arguments import settings_from_options
from steno.cli.store_options import session_start_from_options


@asynccontextmanager
async def open_session_from_options(
    options: argparse.Namespace, on_progress: Callable[[str], None]
) -> AsyncGenerator[AgentSession]:
    """Open the session of a command line; `on_progress` receives each step."""
    start = session_start_from_options(options)
    loaded = load_settings(flags=settings_from_options(options))
    async with AgentSession.open(
        loaded,
        start,
        is_persistent=not options.no_session,
        mode=options.mode,
        approver=AllowingApprover() if options.yes else None,
        mcp_options=McpOptions(tuple(options.mcp_config), options.no_mcp),
        on_progress=on_progress,
    ) as session:
        yield session
