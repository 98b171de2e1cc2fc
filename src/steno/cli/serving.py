"""What every `steno mcp` command has around it: servers to ask, and a way to be stopped."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from steno.cli.configuration import load_settings
from steno.cli.folders import working_folder
from steno.cli.nearest import advice
from steno.cli.paper import note
from steno.cli.servers import FoundServers, find_servers
from steno.cli.stopping import Stopping
from steno.cli.waiting import Waiting
from steno.errors import ServerFailed
from steno.inputs.mcp.connection import Connection
from steno.inputs.mcp.servers import Servers
from steno.printable import on_one_line

_FAILED: Final = 1


class Inquiry(NamedTuple):
    """What a command asks: servers are started with the first question, and ended behind it."""

    options: argparse.Namespace
    servers: Servers
    wait_indicator: Waiting

    @property
    def connections(self) -> tuple[Connection, ...]:
        """The server that is named on the command line, or all that can be used.

        Raises ServerFailed if the one that is named cannot be used.
        """
        named: str | None = self.options.server
        if named is not None and named not in self.servers.specs:
            known = advice(named, self.servers.specs) if self.servers.specs else "there are none"
            raise ServerFailed(f"mcp {on_one_line(named)}: no server has this name; {known}")
        names = self.servers.names if named is None else (named,)
        return tuple([self.servers.get(name) for name in names])

    @contextmanager
    def show_wait(self, what: str) -> Generator[None]:
        """Show what is waited for as long as a block lasts."""
        self.wait_indicator.start(what)
        try:
            yield
        finally:
            self.wait_indicator.stop()

    def print_progress(self, text: str) -> None:
        """Tell something on stderr while the waiting goes on."""
        self.wait_indicator.clear()
        note(on_one_line(text))


Work: TypeAlias = Callable[[Inquiry], Awaitable[int]]


def find(options: argparse.Namespace) -> FoundServers:
    """Return all servers that there are, and tell what there is to know of them."""
    loaded = load_settings(working_folder())
    found = find_servers(loaded, os.environ, files=options.mcp_config)
    for text in (*loaded.notes, *found.notes):
        note(on_one_line(text))
    if not found.specs:
        note("no MCP server is configured; name one in .mcp.json or in your settings")
    return found


def ask_servers(options: argparse.Namespace, work: Work) -> int:
    """Ask servers, and return the exit status."""
    found = find(options)
    if found.specs and not any(spec.is_usable for spec in found.specs):
        note("no MCP server can be used; 'steno mcp list' says why")
        if options.server is None:
            return _FAILED
    return ask_these(found, options, work)


def ask_these(found: FoundServers, options: argparse.Namespace, work: Work) -> int:
    """Ask servers that were found before."""
    return asyncio.run(_ask(found, options, work))


async def _ask(found: FoundServers, options: argparse.Namespace, work: Work) -> int:
    specs, timeout_s = found.specs, getattr(options, "timeout", None)
    if timeout_s is not None:
        specs = tuple([replace(spec, call_timeout_s=timeout_s) for spec in specs])
    with Stopping() as stopping:
        try:
            async with Servers(specs, folder=working_folder()) as servers:
                return await work(Inquiry(options, servers, Waiting()))
        except asyncio.CancelledError:
            if stopping.status is None:
                raise
            return stopping.status
