"""Encoders of conversations that may continue: the next body reuses the bytes of the last one.

Nothing here knows vendors or networks; only bytes decide how long an encoder is cached.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, final

from steno.messages.request import Request
from steno.wire import EncodedRequest, Encoder

MAX_BYTES: Final = 64 * 1024 * 1024
"""Of bodies, images included. The messages are held too, usually by the caller as well."""
MAX_ENCODERS: Final = 32
"""Each is compared with a request, so their number has a bound even where they are small."""


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
    """Encodes requests, each with the encoder that has encoded most of it already.

    That is the one whose messages are the longest prefix of the request, for the same model; if
    there is none, a new one starts. So conversations with the same beginning do not disturb each
    other. The bodies of all encoders together are at most `max_bytes`: the longest unused go first,
    and the newest stays whatever its size.
    """

    def __init__(self, new_encoder: Callable[[], Encoder], *, max_bytes: int = MAX_BYTES) -> None:
        self._new_encoder = new_encoder
        self._max_bytes = max_bytes
        self._cached: list[_CachedEncoder] = []
        """The newest last."""

    def encode(self, request: Request) -> EncodedRequest:
        """Encode a request for a stream. Raises InvalidRequest."""
        encoder = self._take_longest(request) or self._new_encoder()
        encoded = encoder.encode(request, stream=True)
        self._cached.append(_CachedEncoder(encoder, request.model, len(encoded.body)))
        self._evict()
        return encoded

    def clear(self) -> None:
        """Forget all encoders; conversations that continue are encoded anew."""
        self._cached.clear()

    def _take_longest(self, request: Request) -> Encoder | None:
        """Take the encoder with the longest prefix out of the cache: one that fails stays out."""
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
