"""The one place that loads the SDK of the protocol: it is optional, and takes a second to load."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any, Final, NamedTuple

from steno.errors import ServerFailed

MAX_MESSAGE_BYTES: Final = 32 * 1024 * 1024
"""How many bytes a server may say in one message."""


class McpSdk(NamedTuple):
    """What we use of the SDK and of what it is built on."""

    types: Any
    anyio: Any
    httpx2: Any
    ClientSession: Any
    JSONRPCDispatcher: Any
    SessionMessage: Any
    MCPError: Any
    ValidationError: Any
    streamable_http_client: Any
    get_default_environment: Any


@lru_cache(maxsize=1)
def load_mcp_sdk() -> McpSdk:
    """Load the SDK, once. Raises ServerFailed if it is not installed."""
    # ruff: noqa: PLC0415 - all of it is optional, and most sessions never need it
    try:
        import anyio
        import httpx2
        import mcp_types
        from mcp.client.session import ClientSession
        from mcp.client.stdio import get_default_environment
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared.exceptions import MCPError
        from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
        from mcp.shared.message import SessionMessage
        from pydantic import ValidationError
    except ImportError as exc:
        raise ServerFailed("mcp: servers need a part more: pip install 'steno[mcp]'") from exc
    # What the SDK logs quotes servers. Without a handler, Python would print it as it is.
    for name in ("mcp", "client"):
        logging.getLogger(name).addHandler(logging.NullHandler())
    return McpSdk(
        types=mcp_types,
        anyio=anyio,
        httpx2=httpx2,
        ClientSession=ClientSession,
        JSONRPCDispatcher=JSONRPCDispatcher,
        SessionMessage=SessionMessage,
        MCPError=MCPError,
        ValidationError=ValidationError,
        streamable_http_client=streamable_http_client,
        get_default_environment=get_default_environment,
    )
