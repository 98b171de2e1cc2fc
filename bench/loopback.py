"""Benchmark: read a streamed response over loopback with the real provider, and the shares of it.

The server is a separate process (`loopback_server`), so only the CPU time of the client counts,
including the kernel time of its reads. The cost of the provider is compared with its two parts,
each measured alone: the transport that reads and discards the bytes, and the decoding of the same
bytes from memory, up to the message.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial

import openai

from bench.findings import Finding, compare
from bench.harness import Case, Stopwatch
from bench.loopback_server import HOST, Body, server
from bench.wire_answers import Answer, cut, in_openai_chat, make_answer
from bench.wire_http import LIMIT, MODEL, QUESTION, DecodedAnswer, join_chunks, reading
from bench.wires import to_message
from steno import AssistantMessage, ChatMessage, Request
from steno.ports import HttpRequest
from steno.providers import connect
from steno.transport.http import HttpTransport
from steno.wire import load_wire

WORDS, PACED_WORDS = 2_000, 300
ROUNDS, ROUND_S = 5, 0.05  # a paced response takes a fixed time on the clock, whatever its CPU time
WIRE = load_wire("openai_chat")
REQUEST = Request(model=MODEL, messages=(ChatMessage.user(QUESTION),), max_tokens=LIMIT)


@dataclass(frozen=True)
class Manner:
    """A way in which a server sends the events of a response."""

    label: str
    answer: Answer
    count: int
    body: Body


def run(watch: Stopwatch) -> list[Finding]:
    """Read a response in each mode, also with the OpenAI SDK from the same server."""
    own = watch.settings
    shorter = replace(own, rounds=min(own.rounds, ROUNDS), round_s=min(own.round_s, ROUND_S))
    watch = Stopwatch(shorter, watch.progress)
    answer, short = make_answer(WORDS), make_answer(PACED_WORDS)
    events, few = in_openai_chat(answer), in_openai_chat(short)
    manners = {
        "pieces": Manner("1 to 4 KB in a chunk", answer, len(events), Body(cut(events))),
        "events": Manner("one in a chunk", answer, len(events), Body(events)),
        "paced": Manner("one in a packet, paced", short, len(few), Body(few, is_paced=True)),
    }
    bodies = {name: manner.body for name, manner in manners.items()}
    with server(bodies) as port, asyncio.Runner() as runner:
        loop = runner.get_loop()
        return [
            found
            for name, manner in manners.items()
            for found in _measure(watch, loop, f"http://{HOST}:{port}/{name}", manner)
        ]


def _measure(
    watch: Stopwatch, loop: asyncio.AbstractEventLoop, url: str, manner: Manner
) -> list[Finding]:
    clients = _Clients(url)
    finish = loop.run_until_complete
    pieces = finish(clients.read_bytes())
    assert b"".join(pieces) == b"".join(manner.body.pieces)
    read = partial(reading, loop=loop, answer=manner.answer, count=manner.count)
    whole, carried, decoded, sdk = watch.measure(
        f"loopback: {manner.label}",
        [
            read("steno", clients.read_provider),
            Case(
                "its transport alone, bytes only",
                lambda: finish(clients.read_bytes()),
                manner.count,
            ),
            Case("its decoding alone, from memory", lambda: to_message(WIRE, pieces), manner.count),
            read("openai SDK, chunks joined by hand", clients.read_sdk),
        ],
    )
    finish(clients.close())
    client, decoding = (part.best / whole.best for part in (carried, decoded))
    work = f"loopback: an event, {manner.label}"
    return [
        *compare(work, whole, carried, decoded, sdk),
        Finding(
            f"loopback: events per CPU-second, {manner.label}",
            f"{1 / whole.best:,.0f} ({1 / whole.median:,.0f})",
        ),
        Finding(
            f"loopback: share of the client, {manner.label}",
            f"{client:.0%}, of decoding {decoding:.0%}",
        ),
    ]


class _Clients:
    """All clients that read from one address, on persistent connections."""

    def __init__(self, url: str) -> None:
        self._provider = connect("llama.cpp", base_url=url)
        self._transport = HttpTransport()
        headers = {"content-type": "application/json"}
        body = WIRE.encode_request(REQUEST, stream=True).body
        self._outgoing = HttpRequest("POST", f"{url}/chat/completions", headers, body)
        # As the SDK creates it, but without a proxy, which loopback does not need.
        http = openai.DefaultAsyncHttpx2Client(trust_env=False)
        self._sdk = openai.AsyncOpenAI(api_key="none", base_url=url, http_client=http)

    async def read_provider(self) -> DecodedAnswer:
        """Read with the provider: client, timeouts, decoder and assembly, event by event."""
        async with self._provider.stream(REQUEST) as stream:
            async for _ in stream:
                pass
        message: AssistantMessage = stream.message()
        return message.text, [(call.name, call.arguments) for call in message.tool_calls]

    async def read_bytes(self) -> list[bytes]:
        """Read with the transport of the provider, and nothing else."""
        answer, pieces = await self._transport.open(self._outgoing), list[bytes]()
        while piece := await answer.read():
            pieces.append(piece)
        answer.close()
        return pieces

    async def read_sdk(self) -> DecodedAnswer:
        """Read with the SDK of OpenAI."""
        return await join_chunks(self._sdk)

    async def close(self) -> None:
        """Close all connections."""
        await self._provider.close()
        await self._transport.close()
        await self._sdk.close()
