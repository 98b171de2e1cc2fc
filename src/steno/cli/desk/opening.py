"""Open a desk as the command line asks for it."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from steno.agent import AllowingApprover
from steno.cli.configuration import load_settings
from steno.cli.desk.desk import opened_desk
from steno.cli.folders import working_folder
from steno.cli.headless import flags_of
from steno.cli.opening import Outside
from steno.cli.session import Start
from steno.tui.desk import Desk


@asynccontextmanager
async def opened_for(
    options: argparse.Namespace, say: Callable[[str], None]
) -> AsyncGenerator[Desk]:
    """Open the desk that a command line asks for, and say meanwhile what is done."""
    start = Start(
        working_folder(), resume=options.resume, continues=options.continues, fork=options.fork
    )
    loaded = load_settings(flags=flags_of(options))
    async with opened_desk(
        loaded,
        start,
        keeps=not options.no_session,
        mode=options.mode,
        approver=AllowingApprover() if options.yes else None,
        outside=Outside(tuple(options.mcp_config), options.no_mcp),
        verbose=options.verbose,
        say=say,
    ) as desk:
        yield desk
