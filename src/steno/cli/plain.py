"""The command `steno --plain`, which runs a session at the terminal line by line.

This module is separate from `open_session` so that the full screen does not load `steno.ui.plain`.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path

from steno.cli.open_session import open_session_from_options
from steno.cli.signals import StopSignals
from steno.ui.plain.session import run_plain


def run_plain_mode(options: argparse.Namespace, history: Path | None) -> int:
    """Run a session line by line until the user leaves; return the exit status."""
    return asyncio.run(_run_session(options, history))


async def _run_session(options: argparse.Namespace, history: Path | None) -> int:
    # The line reader handles Ctrl-C, which interrupts the run; a second Ctrl-C exits.
    with StopSignals((signal.SIGTERM, signal.SIGHUP)) as signals:
        return await signals.run(_open_and_run(options, history))


async def _open_and_run(options: argparse.Namespace, history: Path | None) -> int:
    # No progress is printed, because a screen reader would read a changing line repeatedly.
    async with open_session_from_options(options, lambda _: None) as session:
        return await run_plain(
            session,
            history=history,
            is_verbose=options.verbose,
            first_prompt=options.first_prompt or "",
        )
