"""What was written of conversations that may go on: the next body is a join of it and of what is new.

It knows neither vendors nor networks; how long anything is kept is a question of bytes only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, final

from steno.messages.message import Message
from steno.messages.request import Request
from steno.wire import EncodedRequest

MAX_BYTES: Final = 64 * 1024 * 1024
"""Of bodies, images included. The messages are held too, most often by the caller as well."""
MAX_ENCODERS: Final = 32
"""Each is compared with a request, so their number has a bound even where they are small."""


class ConversationEncoder(Protocol):
    """What `steno.wire.Encoder` is to us."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """What need not be written again."""
        ...

    def encode(self, request: Request, *, stream: bool | None = None) -> EncodedRequest:
        """Write a request."""
        ...


class _CachedEncoder(NamedTuple):
    """An encoder, whom it writes for, and how much it holds."""

    encoder: ConversationEncoder
    model: str
    size: int

    def is_prefix_of(self, request: Request) -> bool:
        """Tell whether the request goes on where this encoder has come to."""
        written = self.encoder.messages
        return (
            self.model == request.model
            and len(written) <= len(request.messages)
            and request.messages[: len(written)] == written
        )


@final
class EncoderCache:
    """Encodes requests, each with the encoder that has written most of it already.

    That is the one whose messages are the longest beginning of the request, for the same model;
    if there is none, a new one starts. So conversations that begin alike do not get into each
    other's way, and one that is told differently leaves the old one behind. What is kept holds
    messages and their bytes: the bodies of all together are at most `most_bytes`, the longest
    unused go first, and the newest stays whatever its size.
    """

    def __init__(
        self, new_encoder: Callable[[], ConversationEncoder], *, most_bytes: int = MAX_BYTES
    ) -> None:
        """Take what makes encoders, all for the same vendor."""
        self._new_encoder = new_encoder
        self._max_bytes = most_bytes
        self._cached: list[_CachedEncoder] = []
        """The newest last."""

    def encode(self, request: Request) -> EncodedRequest:
        """Write a request that asks for a stream. Raises InvalidRequest."""
        encoder = self._take_longest(request) or self._new_encoder()
        encoded = encoder.encode(request, stream=True)
        self._cached.append(_CachedEncoder(encoder, request.model, len(encoded.body)))
        self._evict()
        return encoded

    def clear(self) -> None:
        """Forget all conversations; those that go on are written anew."""
        self._cached.clear()

    def _take_longest(self, request: Request) -> ConversationEncoder | None:
        """Take out the encoder to go on with: one that fails is not kept."""
        longest_first = sorted(self._cached, key=lambda kept: -len(kept.encoder.messages))
        found = next((kept for kept in longest_first if kept.is_prefix_of(request)), None)
        if found is None:
            return None
        self._cached = [kept for kept in self._cached if kept is not found]
        return found.encoder

    def _evict(self) -> None:
        size = sum(kept.size for kept in self._cached)
        while len(self._cached) > 1 and (
            size > self._max_bytes or len(self._cached) > MAX_ENCODERS
        ):
            size -= self._cached.pop(0).size
