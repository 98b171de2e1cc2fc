"""A real MCP server that runs while tests read its resources."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from steno import Resource
from steno.inputs import McpServers, McpServerSpec

SERVER = Path(__file__).with_name("resource_server.py")
T = TypeVar("T")


class Library:
    """A connection to the server, and the resources that it was asked for.

    The server states a time to live of `ttl_ms`, or none. `ttl_s` are the seconds that the user has
    set for types of resources.
    """

    def __init__(self, folder: Path, ttl_s: Mapping[str, float], *, ttl_ms: int = 0) -> None:
        self._reads = folder / "reads"
        self._reads.touch()
        self._loop = asyncio.Runner()
        arguments = (str(SERVER), str(self._reads), str(ttl_ms))
        spec = McpServerSpec(name="library", command=sys.executable, args=arguments, ttl_s=ttl_s)
        self.servers = McpServers([spec], folder=folder)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the event loop of the connection."""
        return self._loop.run(coroutine)

    def count_reads(self, link: Resource) -> int:
        """Return how many times the server was asked for a resource."""
        return self._reads.read_text(encoding="utf-8").splitlines().count(link.uri)

    def close(self) -> None:
        """End the server."""
        self._loop.run(self.servers.aclose())
        self._loop.close()


def link(path: str) -> Resource:
    """Return a reference to a resource of the server, without its content."""
    return Resource(server="library", uri=f"library://{path}")
