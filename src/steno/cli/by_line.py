"""`steno --plain`: a person works at the terminal line by line."""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path

from steno.cli.desk.opening import opened_for
from steno.cli.stopping import Stopping
from steno.tui.plain.session import run_plain


def run_by_line(options: argparse.Namespace, history: Path | None) -> int:
    """Let a person work until they leave, and return the exit status."""
    return asyncio.run(_work(options, history))


async def _work(options: argparse.Namespace, history: Path | None) -> int:
    # Ctrl-C is for whoever reads the lines: it interrupts, and twice it leaves.
    with Stopping((signal.SIGTERM, signal.SIGHUP)) as stopping:
        try:
            # What is waited for is not shown: a line that changes is read out again and again.
            async with opened_for(options, lambda _: None) as desk:
                return await run_plain(
                    desk, history=history, is_verbose=options.verbose, first=options.words or ""
                )
        except asyncio.CancelledError:
            if stopping.status is None:
                raise
            return stopping.status
