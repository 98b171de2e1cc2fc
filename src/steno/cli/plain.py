"""`steno --plain`: a person works at the terminal line by line."""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path

from steno.cli.open_session import open_session_from_options
from steno.cli.signals import StopSignals
from steno.ui.plain.session import run_plain


def run_plain_mode(options: argparse.Namespace, history: Path | None) -> int:
    """Let a person work until they leave, and return the exit status."""
    return asyncio.run(_run_session(options, history))


async def _run_session(options: argparse.Namespace, history: Path | None) -> int:
    # Ctrl-C is for whoever reads the lines: it interrupts, and twice it leaves.
    with StopSignals((signal.SIGTERM, signal.SIGHUP)) as stopping:
        try:
            # What is waited for is not shown: a line that changes is read out again and again.
            async with open_session_from_options(options, lambda _: None) as desk:
                return await run_plain(
                    desk, history=history, is_verbose=options.verbose, first=options.words or ""
                )
        except asyncio.CancelledError:
            if stopping.status is None:
                raise
            return stopping.status
