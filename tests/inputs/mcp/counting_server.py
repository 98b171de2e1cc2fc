"""A server that sets no TTL, and appends the URI of each resource that is read to a file."""

from __future__ import annotations

import sys
from pathlib import Path

from mcp.server import MCPServer

READS = Path(sys.argv[1])
server = MCPServer("counting", log_level="CRITICAL")


@server.resource("note://{name}", mime_type="text/plain")
def note(name: str) -> str:
    """Return a text that differs in each read."""
    with READS.open("a", encoding="utf-8") as file:
        file.write(f"note://{name}\n")
    number = len(READS.read_text(encoding="utf-8").splitlines())
    return f"edition {number} of {name}"


server.run()
