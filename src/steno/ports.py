"""What the parts that touch the world look like from inside: protocols, and nothing that acts.

A `Provider` answers requests with a `Stream` of events; a `Transport` carries bytes for it. Who
writes one of these needs to know nothing else of steno, and who uses one nothing about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol, Self
from urllib.parse import urlsplit

from steno.entry import Entry, Payload
from steno.event import Event
from steno.message import AssistantMessage, Message
from steno.request import Request

# -- models ----------------------------------------------------------------------------------


class Stream(Protocol):
    """One answer of a model, pulled event by event.

        async with provider.stream(request) as stream:
            async for event in stream:
                ...
        message = stream.message()

    Nothing is sent before the first event is asked for. Events are told in full, as `Assembler`
    returns them. Faults of the provider, the protocol and the connection are raised where the
    next event was expected; whoever catches one still has what came before it. After the end,
    an error or `close`, iterating again ends at once.
    """

    def __aiter__(self) -> Self:
        """Return the stream itself: it is read once."""
        ...

    async def __anext__(self) -> Event:
        """Return the next event. Raises ProviderError, ProtocolError, and StopAsyncIteration."""
        ...

    async def __aenter__(self) -> Self:
        """Begin to use the stream; nothing is sent yet."""
        ...

    async def __aexit__(self, *exc: object) -> None:
        """Close the stream, however its use ended."""
        ...

    async def collect(self) -> AssistantMessage:
        """Read to the end and return the message; the events are not needed then."""
        ...

    def message(self) -> AssistantMessage:
        """Return what was said so far: all of it after the end, else as much as was read.

        Its stop reason is `error` after a fault and `aborted` after a cancelled read or `close`.
        Raises StenoError if nothing was read yet.
        """
        ...

    def close(self) -> None:
        """Drop the connection. A read that waits in another task ends at once."""
        ...


class Provider(Protocol):
    """Whatever answers requests: a vendor, a server of one's own, a script in a test."""

    def stream(self, request: Request) -> Stream:
        """Return the answer to a request, to be read.

        Raises InvalidRequest for what cannot be put into this provider's words.
        """
        ...


# -- bytes -----------------------------------------------------------------------------------


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


# -- what is kept ----------------------------------------------------------------------------


class Journal(Protocol):
    """The place where one conversation is kept. A `Conversation` writes to it and reads from it."""

    def put_aside(self, payload: Payload) -> Payload:
        """Return the payload as it is to be recorded: what is large lies elsewhere by then."""
        ...

    def bring_back(self, message: Message) -> Message:
        """Return a message with what was put aside in it again. Raises Missing, Damaged."""
        ...

    def append(self, entry: Entry, *, branch: str, digest: str, expected: str | None) -> None:
        """Put an entry at the end of a branch; it is there for good when this returns.

        `expected` is the last entry of the branch as the writer knows it. Raises Conflict if it
        is another, Unavailable if nothing can be written; then nothing was.
        """
        ...

    def begin_branch(self, name: str, at: str | None) -> None:
        """Let a branch begin behind an entry. Raises Conflict if there is one of that name."""
        ...

    def heads(self) -> Mapping[str, str | None]:
        """Return the last entry of every branch, the branch whose entry came last at the end."""
        ...

    def read_back(self, entry_id: str) -> Iterator[tuple[Entry, str]]:
        """Return an entry and its digest, then its parent and so on, up to the first.

        Raises Missing if there is no such entry, Damaged if what is stored cannot be read.
        """
        ...
