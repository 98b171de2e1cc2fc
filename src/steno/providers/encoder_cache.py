"""A cache of encoders, so that a request reuses the encoded bytes of the previous request.

This module does not know vendors or networks. Encoders are evicted by the total size of their
bodies, and by their number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, final

from steno.messages.request import Request
from steno.wire import EncodedRequest, Encoder

MAX_BYTES: Final = 64 * 1024 * 1024
"""The maximum total size of the cached bodies, images included.

The cache also references the messages, which the caller usually references as well.
"""
MAX_ENCODERS: Final = 32
"""The maximum number of encoders, since each is compared with every request."""


class _CachedEncoder(NamedTuple):
    encoder: Encoder
    model: str
    size: int

    def is_prefix_of(self, request: Request) -> bool:
        """Return whether the request continues the messages of this encoder."""
        written = self.encoder.messages
        return (
            self.model == request.model
            and len(written) <= len(request.messages)
            and request.messages[: len(written)] == written
        )


@final
class EncoderCache:
    """Encodes each request with the encoder that has already encoded most of it.

    That is the encoder for the same model whose messages are the longest prefix of the request; if
    there is none, a new encoder is used. So conversations with the same beginning do not evict
    each other. There are at most `MAX_ENCODERS` encoders, whose bodies have at most `max_bytes` in
    total: the least recently used encoders are evicted first, and the newest is never evicted.
    """

    def __init__(self, new_encoder: Callable[[], Encoder], *, max_bytes: int = MAX_BYTES) -> None:
        self._new_encoder = new_encoder
        self._max_bytes = max_bytes
        self._cached: list[_CachedEncoder] = []
        """The cached encoders, the most recently used last."""

    def encode(self, request: Request) -> EncodedRequest:
        """Encode a request for a streamed response.

        Raises InvalidRequest if the request cannot be encoded.
        """
        encoder = self._take_longest(request) or self._new_encoder()
        encoded = encoder.encode(request, stream=True)
        self._cached.append(_CachedEncoder(encoder, request.model, len(encoded.body)))
        self._evict()
        return encoded

    def clear(self) -> None:
        """Remove all encoders; the next request of a conversation is encoded in full."""
        self._cached.clear()

    def _take_longest(self, request: Request) -> Encoder | None:
        """Remove and return the encoder whose messages are the longest prefix of a request.

        Returns None if there is no such encoder. The caller adds the encoder again after it has
        encoded the request; an encoder that fails is not added again.
        """
        longest_first = sorted(self._cached, key=lambda cached: -len(cached.encoder.messages))
        found = next((cached for cached in longest_first if cached.is_prefix_of(request)), None)
        if found is None:
            return None
        self._cached = [cached for cached in self._cached if cached is not found]
        return found.encoder

    def _evict(self) -> None:
        size = sum(cached.size for cached in self._cached)
        while len(self._cached) > 1 and (
            size > self._max_bytes or len(self._cached) > MAX_ENCODERS
        ):
            size -= self._cached.pop(0).size
