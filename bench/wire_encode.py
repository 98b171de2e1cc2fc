"""Benchmark: encode the request body of turn 1,000; all but its last message were sent before.

steno keeps its encoder from turn to turn. The peers keep no bytes: they convert every message to
OpenAI's format again, and dump it.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
from langchain_core.messages import convert_to_openai_messages
from openai._models import FinalRequestOptions
from openai._utils import maybe_transform
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from bench.conversation import make_conversation
from bench.findings import Finding, compare
from bench.harness import Case, Stopwatch
from bench.peers import in_langchain, in_pydantic_ai, in_steno
from steno import Request
from steno.wire import openai_chat

TURNS = 1_000
MORE = 50
"""The number of consecutive turns that are timed, each with one more message."""
MODEL = "gpt-4o"
KEY = "none"


def run(watch: Stopwatch) -> list[Finding]:
    """Encode the same conversation with all candidates."""
    turns = make_conversation(TURNS + MORE)
    ours = in_steno(turns)
    requests = [
        Request(model=MODEL, messages=ours[:count]) for count in range(TURNS, TURNS + MORE + 1)
    ]
    first, *next_ = requests
    whole = openai_chat.encode_request(first, stream=True).body
    messages: list[Any] = json.loads(whole)["messages"]

    def start() -> openai_chat.Encoder:
        encoder = openai_chat.Encoder()
        encoder.encode(first, stream=True)
        return encoder

    def go_on(encoder: openai_chat.Encoder) -> None:
        for request in next_:
            encoder.encode(request, stream=True)

    with asyncio.Runner() as runner:
        kept, fresh, *peers = watch.measure(
            f"wires: encode turn {TURNS:,}",
            [
                Case("steno", go_on, units=MORE, prepare=start),
                Case("steno, all anew", lambda: openai_chat.encode_request(first, stream=True)),
                _pydantic_ai(in_pydantic_ai(turns[:TURNS]), runner.get_loop()),
                _langchain(in_langchain(turns[:TURNS])),
                _openai(messages),
            ],
        )
    fastest = min(peers, key=lambda peer: peer.best)
    work = f"encode the body of turn {TURNS:,} ({len(whole) / 1e6:.1f} MB)"
    return [
        *compare(work, kept, fastest, faster=50),
        *compare(work, kept, *(peer for peer in peers if peer is not fastest), fresh),
    ]


def _pydantic_ai(messages: list[Any], loop: asyncio.AbstractEventLoop) -> Case:
    client = openai.AsyncOpenAI(api_key=KEY)
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))
    parameters = ModelRequestParameters()

    def encode() -> bytes:
        mapped = loop.run_until_complete(model._map_messages(messages, parameters))
        return _dump({"model": MODEL, "stream": True, "messages": mapped})

    return Case("pydantic-ai, mapped and dumped", encode)


def _langchain(messages: list[Any]) -> Case:
    def encode() -> bytes:
        mapped = convert_to_openai_messages(messages)
        return _dump({"model": MODEL, "stream": True, "messages": mapped})

    return Case("langchain-core, converted and dumped", encode)


def _openai(messages: list[Any]) -> Case:
    """Do what `chat.completions.create` does with messages that are already OpenAI dicts."""
    client = openai.OpenAI(api_key=KEY)

    def encode() -> bytes:
        members = {"model": MODEL, "stream": True, "messages": messages}
        data = maybe_transform(members, CompletionCreateParamsStreaming)
        options = FinalRequestOptions.construct(
            method="post", url="/chat/completions", json_data=data
        )
        body = client._build_request(options).content
        assert isinstance(body, bytes)
        return body

    return Case("openai SDK, from dicts", encode)


def _dump(body: dict[str, Any]) -> bytes:
    """Encode JSON as httpx and the openai SDK do."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
