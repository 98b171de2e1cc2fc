"""A server on loopback that speaks any of our protocols, and an agent that talks to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from steno import StopReason, Usage
from steno.messages.message import Message
from steno.providers import HttpProvider
from steno.testing.conformance.scripted_server import (
    NotExpressible,
    Script,
    ScriptedServer,
    ScriptLine,
    TurnEnd,
)
from steno.testing.conformance.servers import SERVERS
from tests.providers.provider_setup import make_provider
from tests.transport.http_server import END, Server, chunk, response_head, run_server

SERVER_OF_WIRE = {speaker.wire.NAME: speaker for speaker in SERVERS}
_LINES = frozenset({"ollama_chat", "chat"})
"""Protocols that send a line of JSON for each event."""
USAGE = Usage(input_tokens=20, output_tokens=7)


def server_response(wire: str, *lines: ScriptLine) -> list[bytes]:
    """Write an answer of a server, with the end that fits it."""
    speaker = SERVER_OF_WIRE[wire]
    kind = "application/x-ndjson" if wire in _LINES else "text/event-stream"
    start = response_head(content_type=kind, transfer_encoding="chunked")
    return [start, *map(chunk, _frames(speaker, lines)), END]


def _frames(speaker: ScriptedServer, lines: Script) -> list[bytes]:
    calls = any(type(line).__name__ == "WholeCall" for line in lines)
    reason = StopReason.TOOL_USE if calls else StopReason.END_TURN
    try:
        return speaker.frames([*lines, TurnEnd(reason, USAGE)])
    except NotExpressible:
        return speaker.frames([*lines, TurnEnd(usage=USAGE)])


@asynccontextmanager
async def run_provider(
    wire: str, *answers: list[bytes], **fields: Any
) -> AsyncGenerator[tuple[Server, HttpProvider]]:
    """Run a server with these answers, and a provider that asks it over a wire."""
    path = {"path": "/chat"} if wire == "chat" else {}
    settings = {"model": "m", "wire": wire, "name": wire} | path | fields
    async with run_server(*answers) as server, make_provider(server.url, **settings) as provider:
        yield server, provider


def messages_sent_to(server: Server, wire: str) -> list[tuple[Message, ...]]:
    """Return the messages of each request, as the wire reads them."""
    decode = SERVER_OF_WIRE[wire].wire.decode_request
    return [decode(seen.body).messages for seen in server.seen]
