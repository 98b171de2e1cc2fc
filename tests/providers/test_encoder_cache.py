"""The messages of a continued conversation are encoded once, and the cache is limited."""

from __future__ import annotations

import gc
from collections.abc import Callable
from weakref import ref

import pytest

from steno import ChatMessage, Request
from steno.errors import InvalidRequest
from steno.messages.message import Message
from steno.providers.encoder_cache import MAX_ENCODERS, EncoderCache
from steno.wire import EncodedRequest, Encoder
from steno.wire.openai_chat import Encoder as ChatEncoder
from steno.wire.request_encoder import MessageWriter, RequestTarget, ValueWriter
from tests.providers.provider_setup import make_provider
from tests.transport.http_server import run

BEGINNING: tuple[Message, ...] = (ChatMessage.system("S"), ChatMessage.user("U"))


class Workshop:
    """Creates encoders without keeping them alive."""

    def __init__(self, make: Callable[[], Encoder] = ChatEncoder) -> None:
        self._make = make
        self.made: list[ref[Encoder]] = []

    def __call__(self) -> Encoder:
        encoder = self._make()
        self.made.append(ref(encoder))
        return encoder

    @property
    def kept(self) -> list[int]:
        """The numbers of the encoders that are still alive."""
        gc.collect()
        return [number for number, found in enumerate(self.made) if found() is not None]


def ask(conversations: EncoderCache, *more: str, model: str = "m") -> EncodedRequest:
    messages = (*BEGINNING, *map(ChatMessage.user, more))
    return conversations.encode(Request(model=model, messages=messages))


def test_conversations_with_the_same_beginning_keep_an_encoder_each() -> None:
    workshop = Workshop()
    conversations = EncoderCache(workshop)
    for turns in range(1, 5):
        ask(conversations, *["a"] * turns)
        ask(conversations, *["b"] * turns)
    assert len(workshop.made) == 2


def test_the_encoder_with_the_longest_prefix_is_used() -> None:
    workshop = Workshop()
    conversations = EncoderCache(workshop)
    ask(conversations, "a", "b")
    ask(conversations, "x")
    ask(conversations)
    ask(conversations, "a", "b", "c")
    assert len(workshop.made) == 3
    ask(conversations, "a")  # uses the encoder of the common beginning
    assert len(workshop.made) == 3
    ask(conversations)
    assert len(workshop.made) == 4


def test_alternating_models_keep_an_encoder_each() -> None:
    workshop = Workshop()
    conversations = EncoderCache(workshop)
    for turns in range(3):
        for model in ("m", "n"):
            ask(conversations, *["a"] * turns, model=model)
    assert len(workshop.made) == 2


def test_the_cache_is_limited_in_bytes_and_evicts_the_oldest() -> None:
    workshop = Workshop()
    conversations = EncoderCache(workshop, max_bytes=2500)
    for text in "abcd":
        ask(conversations, text * 1000)
    assert workshop.kept == [2, 3]
    ask(conversations, "c" * 1000, "more")
    ask(conversations, "e" * 1000)
    assert workshop.kept == [2, 4]


def test_the_newest_encoder_stays_whatever_its_size() -> None:
    workshop = Workshop()
    conversations = EncoderCache(workshop, max_bytes=10)
    ask(conversations, "a")
    ask(conversations, "b")
    ask(conversations, "b", "c")
    assert workshop.kept == [1]


def test_the_number_of_encoders_is_limited() -> None:
    workshop = Workshop()
    conversations = EncoderCache(workshop)
    for number in range(MAX_ENCODERS + 3):
        ask(conversations, str(number))
    assert workshop.kept == [*range(3, MAX_ENCODERS + 3)]


def refuse(target: RequestTarget) -> MessageWriter:
    raise InvalidRequest("request: no")


class Refusing(Encoder):
    """An encoder that refuses every request."""

    def __init__(self) -> None:
        super().__init__("nobody", "nothing", refuse)

    def _body(
        self, request: Request, messages: bytes, values: ValueWriter, *, stream: bool | None
    ) -> bytes:
        raise AssertionError


def test_an_encoder_that_failed_is_not_cached() -> None:
    workshop = Workshop(Refusing)
    conversations = EncoderCache(workshop)
    for _ in range(2):
        with pytest.raises(InvalidRequest):
            ask(conversations)
    assert len(workshop.made) == 2
    assert workshop.kept == []


def test_a_closed_provider_caches_no_encoder() -> None:
    async def main() -> None:
        message = ChatMessage.user("Remember?")
        async with make_provider("http://lab.example") as provider:
            provider.stream(Request(model="m", messages=(message,)))
            assert any(encoder.messages == (message,) for encoder in encoders())
            await provider.close()
            assert not any(encoder.messages == (message,) for encoder in encoders())

    run(main())


def encoders() -> list[Encoder]:
    """Return the encoders that are alive."""
    gc.collect()
    return [found for found in gc.get_objects() if isinstance(found, Encoder)]
