"""An MCP server with resources, written with the official SDK.

Run it with the name of a file, to which it appends the URI of each resource that it is asked for,
and with the time to live of its resources in milliseconds; with 0 it sets none.
Each content has the number of the read, so a test can see which read a text comes from.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mcp.server import CacheHint, MCPServer

LIFE = CacheHint(ttl_ms=int(sys.argv[2]))
server = MCPServer("library", cache_hints={"resources/read": LIFE})


def record_read(uri: str) -> int:
    """Append the URI to the file, and return the number of reads so far."""
    file = Path(sys.argv[1])
    with file.open("a", encoding="utf-8") as reads:
        reads.write(uri + "\n")
    return len(file.read_text(encoding="utf-8").splitlines())


@server.resource("library://note/{name}", mime_type="text/plain")
def note(name: str) -> str:
    """Return a short text."""
    return f"note {name}, read number {record_read(f'library://note/{name}')}"


@server.resource("library://table/{name}", mime_type="application/json")
def table(name: str) -> str:
    """Return a text of another type."""
    return f'{{"table": "{name}", "read": {record_read(f"library://table/{name}")}}}'


@server.resource("library://shelf/{name}", mime_type="text/plain")
def shelf(name: str) -> str:
    """Return a text of about 4,000 characters."""
    record_read(f"library://shelf/{name}")
    return "\n".join(f"{name}, book {number:03} of the shelf" for number in range(130))


@server.resource("library://archive/{name}", mime_type="text/plain")
def archive(name: str) -> str:
    """Return a text of about 60,000 characters."""
    record_read(f"library://archive/{name}")
    return "\n".join(f"{name}, document {number:04}" for number in range(2_500))


if __name__ == "__main__":
    server.run()
