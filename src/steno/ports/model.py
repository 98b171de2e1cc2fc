"""What answers requests: a provider, and the stream of one answer."""

from __future__ import annotations

from typing import Protocol, Self

from steno.event import Event
from steno.message import AssistantMessage
from steno.request import Request


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

    Two more attributes are looked at where a stream has them: `losses`, what the model does not
    see as it is in the request, each with a `str`; and `envelope`, a mapping in which `id` and
    `model` are what the provider calls its answer and its model.
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
