"""What servers and their tools are called here: `mcp__time`, `mcp__time__convert_time`.

The name of a server is the user's, that of a tool is the server's. Whatever the server makes of
it, the name begins with that of the server and two underscores, and no name of a server holds two
in a row: so no tool can pass for one of ours, or for one of another server. A name follows from
those two alone, never from what else there is or who answers first.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from steno.call import MAX_NAME_LENGTH, map_tool_name
from steno.errors import InvalidTool

_PREFIX: Final = "mcp__"
_BETWEEN: Final = "__"
_LONGEST_SERVER: Final = 32
"""Leaves room for something of the tool, and for a hash."""
_DIGITS: Final = 8
_NO_WORD: Final = re.compile(r"[^A-Za-z0-9]+")
_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9_]+")
_SENT_AS_IT_IS: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_NAME_LENGTH}}}")
"""What every provider takes for the name of a tool."""


def name_of_server(server: str) -> str:
    """Return what rules call a server: `mcp__`, and its name with one underscore for all else.

    `web-search` and `web_search` have the same one; who uses both at once has to tell them apart.
    """
    part = _NO_WORD.sub("_", server).strip("_")[:_LONGEST_SERVER].strip("_")
    return f"{_PREFIX}{part or 'server'}"


def name_of_tool(server: str, tool: str) -> str:
    """Return the name of a server's tool in our vocabulary, which begins with that of the server.

    A name that does not fit gets a hash of the original (`map_tool_name`). Two tools of one
    server can end up with the same only if the server wants that.
    """
    outside = _outside(server, tool)
    try:
        return map_tool_name(outside)
    except InvalidTool:  # characters, or a length, that nobody else would use
        digest = hashlib.sha256(outside.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
        stem = _NOT_IN_NAME.sub("_", outside)[: MAX_NAME_LENGTH - _DIGITS - 1]
        return f"{stem}_{digest}"


def name_for_models(server: str, tool: str) -> str | None:
    """Return the tool's own spelling behind that of the server, where models may be told that.

    It is mapped to ours when a model uses it. None where there is no other spelling, or it would
    not be taken by every provider.
    """
    outside = _outside(server, tool)
    if outside == name_of_tool(server, tool) or _SENT_AS_IT_IS.fullmatch(outside) is None:
        return None
    return outside


def _outside(server: str, tool: str) -> str:
    return f"{name_of_server(server)}{_BETWEEN}{tool}"
