"""What carries bytes for a provider: one request out, its answer back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit


class Outgoing(NamedTuple):
    """One HTTP request. Its `repr` leaves out what is secret or long."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def address(self) -> str:
        """Where it goes, for messages: the URL without user, password, query and fragment."""
        return without_secrets(self.url) or "http"

    def __repr__(self) -> str:
        return f"Outgoing({self.method} {self.address}, <{len(self.body)} bytes>)"


def without_secrets(url: str) -> str | None:
    """Return a URL without user, password, query and fragment; None if it has no host."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return None
    return f"{parts.scheme}://{host}{parts.path}" if host and url.isprintable() else None


class Answer(Protocol):
    """An HTTP response whose head has arrived."""

    @property
    def status(self) -> int:
        """The status code."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, names in lower case."""
        ...

    async def read(self) -> bytes:
        """Return the next bytes of the body as they arrived; none at its end.

        Raises Unreachable if the connection breaks or stays silent too long, ProtocolError if
        the body is larger than allowed.
        """
        ...

    def close(self) -> None:
        """Drop what is left of the body. A read that waits ends at once, with or without an error.

        A connection whose body was read to its end is kept for the next request.
        """
        ...


class Transport(Protocol):
    """Carries requests to servers and their answers back; never follows a redirect."""

    async def open(self, outgoing: Outgoing) -> Answer:
        """Send a request and wait for the head of its answer.

        Raises Unreachable if there is none. When cancelled it leaves no connection behind.
        """
        ...

    async def close(self) -> None:
        """Let go of all connections."""
        ...
