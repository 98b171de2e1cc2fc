"""Benchmark: read a streamed response through an HTTP client, up to the finished message.

There is no network: the client of each SDK uses a transport that has the response in memory, in
pieces of 1 to 4 KB. steno reads its bytes from the same client and transport.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

import anthropic
import httpx
import httpx2
import ollama
import openai
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from bench.findings import Finding, compare
from bench.harness import Case, Stopwatch
from bench.wire_answers import (
    Answer,
    cut,
    in_anthropic_messages,
    in_ollama_chat,
    in_openai_chat,
    make_answer,
)
from steno import Assembler, ChatMessage, Request
from steno.wire import load_wire

WORDS = 2_000
URL = "http://localhost"
QUESTION = "What fails, and why?"
MODEL = "a-model"
LIMIT = 4_096
ASKED: list[Any] = [{"role": "user", "content": QUESTION}]

DecodedAnswer = tuple[str | None, list[tuple[str, Any]]]
"""The text, and name and arguments of each call."""
Read = Callable[[], Awaitable[DecodedAnswer]]


class Reader(NamedTuple):
    """A way to read the response, and the goal: how many times faster steno must be."""

    name: str
    read: Read
    goal: float


def run(watch: Stopwatch) -> list[Finding]:
    """Read one response in three protocols, each with the clients made for it."""
    answer = make_answer(WORDS)
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        return [
            *_measure(watch, loop, answer, _OpenAI(in_openai_chat(answer))),
            *_measure(watch, loop, answer, _Anthropic(in_anthropic_messages(answer))),
            *_measure(watch, loop, answer, _Ollama(in_ollama_chat(answer))),
        ]


def _measure(
    watch: Stopwatch, loop: asyncio.AbstractEventLoop, answer: Answer, clients: _Clients
) -> list[Finding]:
    """Time every way to read the response; all must have the same result."""
    ours, *theirs = watch.measure(
        f"wires: {clients.wire} over HTTP",
        [
            reading("steno", clients.steno, loop, answer, clients.count),
            *(reading(r.name, r.read, loop, answer, clients.count) for r in clients.readers),
        ],
    )
    work = f"{clients.wire}: an event over HTTP in memory, to the message"
    return [
        found
        for timing, reader in zip(theirs, clients.readers, strict=True)
        for found in compare(work, ours, timing, faster=reader.goal)
    ]


def reading(
    name: str, read: Read, loop: asyncio.AbstractEventLoop, answer: Answer, count: int
) -> Case:
    """Return the case of a way to read the response, after its result was checked."""

    async def complete() -> DecodedAnswer:
        return await read()

    text, calls = loop.run_until_complete(complete())
    assert text == answer.text, f"{name}: other text"
    parsed = [(name, json.loads(a) if isinstance(a, str) else a) for name, a in calls]
    expected = [(call.name, json.loads(call.arguments)) for call in answer.calls]
    assert parsed == expected, f"{name}: other calls"
    return Case(name, lambda: loop.run_until_complete(complete()), units=count)


class _Clients:
    """All clients of a protocol, on one transport that responds with the same pieces."""

    wire: str
    content_type = "text/event-stream; charset=utf-8"
    library: Any = httpx2
    """The module of the HTTP client that the SDK uses."""
    readers: tuple[Reader, ...]

    def __init__(self, events: list[bytes]) -> None:
        self._wire = load_wire(self.wire)
        self.count = len(events)
        self._body = _body(self.library, cut(events))
        self.transport = self.library.MockTransport(self._respond)
        self.http = self.library.AsyncClient(transport=self.transport)

    def _respond(self, request: Any) -> Any:
        headers = {"content-type": self.content_type}
        return self.library.Response(200, headers=headers, stream=self._body)

    async def steno(self) -> DecodedAnswer:
        """Read the response with steno."""
        request = Request(model=MODEL, messages=(ChatMessage.user(QUESTION),), max_tokens=LIMIT)
        body = self._wire.encode_request(request, stream=True).body
        decoder, assembler = self._wire.StreamDecoder(), Assembler()
        async with self.http.stream("POST", URL, content=body) as response:
            async for piece in response.aiter_raw():
                assembler.feed_all(decoder.feed(piece))
        assembler.feed_all(decoder.close())
        message = assembler.message()
        return message.text, [(call.name, call.arguments) for call in message.tool_calls]


def _body(library: Any, pieces: list[bytes]) -> Any:
    class Body(library.AsyncByteStream):  # type: ignore[misc] # of either library
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece

    return Body()


# -- OpenAI's protocol -----------------------------------------------------------------------


class _OpenAI(_Clients):
    wire = "openai_chat"

    def __init__(self, events: list[bytes]) -> None:
        super().__init__(events)
        self._sdk: Any = openai.AsyncOpenAI(api_key="none", base_url=URL, http_client=self.http)
        self._model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=self._sdk))
        self.readers = (
            Reader("openai SDK, chunks joined by hand", partial(join_chunks, self._sdk), 60),
            Reader("openai SDK, its accumulator", self._accumulate, 120),
            Reader("pydantic-ai", self._pydantic_ai, 100),
        )

    async def _accumulate(self) -> DecodedAnswer:
        async with self._sdk.chat.completions.stream(
            model=MODEL, messages=ASKED, stream_options={"include_usage": True}
        ) as stream:
            async for _ in stream:
                pass
            completion = await stream.get_final_completion()
        message = completion.choices[0].message
        calls = [(call.function.name, call.function.arguments) for call in message.tool_calls]
        return message.content, calls

    async def _pydantic_ai(self) -> DecodedAnswer:
        messages = [ModelRequest.user_text_prompt(QUESTION)]
        async with model_request_stream(self._model, messages) as stream:
            async for _ in stream:
                pass
        response = stream.get()
        return response.text, [(call.tool_name, call.args) for call in response.tool_calls]


async def join_chunks(sdk: Any) -> DecodedAnswer:
    """Read the typed chunks of the openai SDK and join them by hand."""
    texts: list[str] = []
    names: dict[int, str] = {}
    arguments: dict[int, list[str]] = {}
    stream = await sdk.chat.completions.create(
        model=MODEL, messages=ASKED, stream=True, stream_options={"include_usage": True}
    )
    async for chunk in stream:
        for choice in chunk.choices:
            if choice.delta.content:
                texts.append(choice.delta.content)
            for call in choice.delta.tool_calls or ():
                if call.function.name:
                    names[call.index] = call.function.name
                arguments.setdefault(call.index, []).append(call.function.arguments)
    return "".join(texts), [(names[index], "".join(arguments[index])) for index in names]


# -- Anthropic's -----------------------------------------------------------------------------


class _Anthropic(_Clients):
    wire = "anthropic_messages"

    def __init__(self, events: list[bytes]) -> None:
        super().__init__(events)
        self._sdk: Any = anthropic.AsyncAnthropic(
            api_key="none", base_url=URL, http_client=self.http
        )
        self.readers = (
            Reader("anthropic SDK, raw events", self._join, 15),
            Reader("anthropic SDK, messages.stream()", self._accumulate, 45),
        )

    async def _join(self) -> DecodedAnswer:
        texts: list[str] = []
        names: dict[int, str] = {}
        inputs: dict[int, list[str]] = {}
        stream = await self._sdk.messages.create(
            model=MODEL, messages=ASKED, max_tokens=LIMIT, stream=True
        )
        async for event in stream:
            if event.type == "content_block_delta":
                if event.delta.type == "text_delta":
                    texts.append(event.delta.text)
                elif event.delta.type == "input_json_delta":
                    inputs[event.index].append(event.delta.partial_json)
            elif event.type == "content_block_start" and event.content_block.type == "tool_use":
                names[event.index], inputs[event.index] = event.content_block.name, []
        return "".join(texts), [(names[index], "".join(inputs[index])) for index in names]

    async def _accumulate(self) -> DecodedAnswer:
        async with self._sdk.messages.stream(
            model=MODEL, messages=ASKED, max_tokens=LIMIT
        ) as stream:
            async for _ in stream:
                pass
            message = await stream.get_final_message()
        texts = [block.text for block in message.content if block.type == "text"]
        calls = [(block.name, block.input) for block in message.content if block.type == "tool_use"]
        return "".join(texts), calls


# -- Ollama's --------------------------------------------------------------------------------


class _Ollama(_Clients):
    wire = "ollama_chat"
    content_type = "application/x-ndjson"
    library = httpx

    def __init__(self, events: list[bytes]) -> None:
        super().__init__(events)
        self._sdk: Any = ollama.AsyncClient(host=URL, transport=self.transport)
        self.readers = (Reader("ollama client", self._join, 5),)

    async def _join(self) -> DecodedAnswer:
        texts: list[str] = []
        calls: list[tuple[str, Any]] = []
        async for part in await self._sdk.chat(model=MODEL, messages=ASKED, stream=True):
            if part.message.content:
                texts.append(part.message.content)
            called = part.message.tool_calls or ()
            calls += [(call.function.name, call.function.arguments) for call in called]
        return "".join(texts), calls
