"""Compare HTTP clients: events per CPU-second over loopback with steno's decoder, and their share.

`python -m bench.transport` starts a server in a separate process, so that only the CPU time of the
client counts. Every client reads the same response in alternating rounds:

    burst    one event per HTTP chunk, as fast as the connection allows
    pieces   2 KB per HTTP chunk, as fast as the connection allows
    paced    one event per packet, with pauses, as from a model

The share of a client is the total cost without the cost of decoding the same pieces from memory.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from statistics import median

from bench.loopback_server import HOST, Body, server
from steno import Assembler, ChatMessage, Request
from steno.wire.openai_chat import StreamDecoder

PIECE = 2_048
EVENTS = {"burst": 20_000, "pieces": 20_000, "paced": 3_000}
REQUEST = Request(model="m", messages=(ChatMessage.user("Speak."),))


# -- the answer ------------------------------------------------------------------------------


def answer(mode: str) -> list[bytes]:
    """Return the body of a response in the pieces in which it is sent."""
    head = b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",'
    events = [
        head
        + b'"choices":[{"index":0,"delta":{"content":" word%d"},"finish_reason":null}]}\n\n' % n
        for n in range(EVENTS[mode])
    ]
    end = head + b'"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    if mode != "pieces":
        return [*events, end]
    whole = b"".join([*events, end])
    return [whole[start : start + PIECE] for start in range(0, len(whole), PIECE)]


# -- the clients -----------------------------------------------------------------------------

Pieces = AsyncGenerator[bytes]
BODY = b'{"model":"m","messages":[]}'


async def read_raw(port: int, mode: str) -> Pieces:
    """Read from a bare socket, and parse the HTTP chunks in Python."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(
        b"POST /%b/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b"
        % (mode.encode(), len(BODY), BODY)
    )
    await reader.readuntil(b"\r\n\r\n")
    waiting = b""
    while not waiting.startswith(b"0\r\n\r\n"):
        waiting += await reader.read(262_144)
        found = []
        while (end := waiting.find(b"\r\n")) > 0:
            size = int(waiting[:end], 16)
            if not size or len(waiting) < end + size + 4:
                break
            found.append(waiting[end + 2 : end + 2 + size])
            waiting = waiting[end + size + 4 :]
        if found:
            yield b"".join(found)
    writer.close()


async def read_aiohttp(port: int, mode: str) -> Pieces:
    import aiohttp

    url = f"http://{HOST}:{port}/{mode}/chat/completions"
    async with aiohttp.ClientSession() as session, session.post(url, data=BODY) as response:
        while piece := await response.content.readany():
            yield piece


async def read_httpx(port: int, mode: str) -> Pieces:
    import httpx

    url = f"http://{HOST}:{port}/{mode}/chat/completions"
    async with httpx.AsyncClient() as client, client.stream("POST", url, content=BODY) as response:
        async for piece in response.aiter_raw():
            yield piece


async def read_httpx2(port: int, mode: str) -> Pieces:
    import httpx2

    url = f"http://{HOST}:{port}/{mode}/chat/completions"
    async with httpx2.AsyncClient() as client, client.stream("POST", url, content=BODY) as response:
        async for piece in response.aiter_raw():
            yield piece


CLIENTS: dict[str, Callable[[int, str], Pieces]] = {
    "raw asyncio": read_raw,
    "aiohttp": read_aiohttp,
    "httpx": read_httpx,
    "httpx2": read_httpx2,
}


# -- measuring -------------------------------------------------------------------------------


@dataclass
class Result:
    """The CPU seconds of one client in one mode, round by round."""

    total: list[float] = field(default_factory=list)
    decoding: list[float] = field(default_factory=list)
    """The CPU seconds to decode the same pieces from memory."""


def decode(pieces: list[bytes]) -> int:
    """Decode and assemble pieces as the provider does; return the number of events."""
    decoder, assembler, count = StreamDecoder(), Assembler(), 0
    for piece in pieces:
        for event in decoder.feed(piece):
            count += len(assembler.feed(event))
    for event in decoder.close():
        count += len(assembler.feed(event))
    assembler.message()
    return count


async def read_and_decode(pieces: Pieces) -> int:
    """Decode the pieces of a client as they arrive."""
    decoder, assembler, count = StreamDecoder(), Assembler(), 0
    async with aclosing(pieces) as body:
        async for piece in body:
            for event in decoder.feed(piece):
                count += len(assembler.feed(event))
    for event in decoder.close():
        count += len(assembler.feed(event))
    assembler.message()
    return count


async def read_provider(port: int, mode: str) -> int:
    """Read with the provider itself: client, timeouts, decoder, assembly, iteration."""
    from steno.providers import connect

    url = f"http://{HOST}:{port}/{mode}"
    count = 0
    async with (
        connect("llama.cpp", base_url=url) as provider,
        provider.stream(REQUEST) as stream,
    ):
        async for _ in stream:
            count += 1
    stream.message()
    return count


def timed(work: Callable[[], int], expected: int) -> float:
    """Return the CPU seconds of `work`."""
    gc.collect()
    start = time.process_time()
    found = work()
    spent = time.process_time() - start
    assert found == expected, f"{found} events instead of {expected}"
    return spent


def measure(port: int, mode: str, rounds: int) -> dict[str, Result]:
    """Measure the clients in alternating rounds; the first round is a warm-up."""
    works: dict[str, Callable[[], int]] = {
        name: partial(_read, read, port, mode) for name, read in CLIENTS.items()
    }
    works["steno"] = lambda: asyncio.run(read_provider(port, mode))
    pieces = {name: asyncio.run(_collect(read(port, mode))) for name, read in CLIENTS.items()}
    results = {name: Result() for name in works}
    expected = EVENTS[mode] + 1
    for number in range(rounds + 1):
        for name, work in works.items():
            total = timed(work, expected)
            decoding = timed(partial(decode, pieces.get(name, pieces["aiohttp"])), expected)
            if number:
                results[name].total.append(total)
                results[name].decoding.append(decoding)
    return results


def _read(read: Callable[[int, str], Pieces], port: int, mode: str) -> int:
    return asyncio.run(read_and_decode(read(port, mode)))


async def _collect(pieces: Pieces) -> list[bytes]:
    return [piece async for piece in pieces]


def main() -> None:
    """Measure all modes and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.transport", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=EVENTS, action="append")
    arguments = parser.parse_args()
    print(*(f"{name} {version(name)}" for name in ("aiohttp", "httpx", "httpx2")), sep=", ")
    bodies = {mode: Body(answer(mode), is_paced=mode == "paced") for mode in EVENTS}
    with server(bodies) as port:
        for mode in arguments.only or EVENTS:
            print(f"\n{mode:14}{'events per CPU-second':>22}{'µs per event':>20}{'client':>9}")
            for name, result in measure(port, mode, arguments.rounds).items():
                count = EVENTS[mode] + 1
                best, middle = (pick(result.total) for pick in (min, median))
                share = 1 - min(result.decoding) / best
                rate, cost = (
                    f"{count / best:,.0f}",
                    f"{best / count * 1e6:.2f} ({middle / count * 1e6:.2f})",
                )
                print(f"{name:14}{rate:>22}{cost:>20}{share:>9.0%}", flush=True)


if __name__ == "__main__":
    main()
