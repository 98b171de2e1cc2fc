"""A client for the tests of the HTTP transport."""

from __future__ import annotations

import socket
from collections.abc import Awaitable
from typing import Any

import pytest

from steno.errors import StenoError
from steno.ports import HttpRequest, HttpResponse
from steno.transport.http import (
    HttpTransport,
)


def build_transport(**settings: Any) -> HttpTransport:
    """Return a transport that ignores the environment."""
    return HttpTransport(**{"environ": {}} | settings)


def post(url: str, body: bytes = b"{}") -> HttpRequest:
    """Return a request with JSON."""
    return HttpRequest("POST", url, {"content-type": "application/json"}, body)


async def read_all(response: HttpResponse) -> bytes:
    """Read a body to its end."""
    chunks = []
    while chunk := await response.read():
        chunks.append(chunk)
    return b"".join(chunks)


async def error_of(action: Awaitable[object]) -> StenoError:
    """Return the error that an action raises."""
    with pytest.raises(StenoError) as caught:
        await action
    return caught.value


def free_port() -> int:
    """Return a port that no server listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
