"""Import the MCP SDK, which is optional and takes a second to load, and interpret its errors.

No other module imports the SDK.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any, Final, NamedTuple

from steno.errors import ServerFailed, install_command

MAX_MESSAGE_BYTES: Final = 32 * 1024 * 1024
"""The size limit of one message from a server."""
_CLOSED_MESSAGE: Final = "Connection closed"
_TERMINATED_MESSAGE: Final = "Session terminated"
_BROKEN_STREAM_PREFIX: Final = "SSE stream"


class McpSdk(NamedTuple):
    """The parts of the SDK and of its dependencies that steno uses."""

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
    """Import the SDK on first use. Raises ServerFailed if the SDK is not installed."""
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
        message = f"MCP servers need the MCP SDK: {install_command('mcp')}"
        raise ServerFailed(message, code="missing_extra", place="mcp") from exc
    # Log records of the SDK quote servers. Without a handler, Python prints them unescaped.
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


# The SDK uses one code for a closed connection and for other errors, so compare its messages.


def is_connection_closed(error: Any) -> bool:
    """Return whether an `MCPError` means that the server closed the connection."""
    return bool(error.message == _CLOSED_MESSAGE)


def is_session_gone(error: Any) -> bool:
    """Return whether an `MCPError` means that the server closed or no longer knows the session."""
    return error.message in (_CLOSED_MESSAGE, _TERMINATED_MESSAGE)


def is_stream_broken(error: Any, sdk: McpSdk) -> bool:
    """Return whether an `MCPError` means that one response was cut off."""
    is_closed = error.code == sdk.types.CONNECTION_CLOSED
    return is_closed and bool(error.message.startswith(_BROKEN_STREAM_PREFIX))
