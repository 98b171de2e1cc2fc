"""Benchmark: the memory of a message without its content.

All strings are created before counting starts, so only the objects of the library count, and for
calls the parsed arguments.
"""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable

from langchain_core.messages import AIMessage, HumanMessage
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, UserPromptPart

from bench.findings import Finding, below, compare
from bench.harness import Stopwatch, Timing
from steno import ChatMessage, ToolCall

COUNT = 10_000
LIMIT_BYTES = 1_000


def run(watch: Stopwatch) -> list[Finding]:
    """Measure the memory of 10,000 distinct messages of each kind."""
    watch.progress.show("memory", 0, 1)
    texts = [f"Message number {number}: please look at the parser." for number in range(COUNT)]
    ids = [f"call_{number:08d}" for number in range(COUNT)]
    arguments = [json.dumps({"path": "src/a.py", "start_line": n}) for n in range(COUNT)]
    user, *user_peers = (
        _weigh("steno", lambda n: ChatMessage.user(texts[n])),
        _weigh("pydantic-ai", lambda n: ModelRequest(parts=[UserPromptPart(texts[n])])),
        _weigh("langchain-core", lambda n: HumanMessage(texts[n])),
    )
    call, empty_call, *call_peers = (
        _weigh("steno", lambda n: _make_turn(ids[n], arguments[n])),
        _weigh("steno", lambda n: _make_turn(ids[n], "{}")),
        _weigh(
            "pydantic-ai (not parsed)",
            lambda n: ModelResponse(parts=[ToolCallPart("read_file", arguments[n], ids[n])]),
        ),
        _weigh("langchain-core", lambda n: _make_langchain_turn(ids[n], arguments[n])),
    )
    watch.progress.clear()
    with_call = "memory: assistant message with a call"
    return [
        below("memory: user message", user, LIMIT_BYTES, unit="B"),
        *compare("memory: user message", user, *user_peers, unit="B"),
        below(with_call, call, LIMIT_BYTES, unit="B"),
        *compare(with_call, call, *call_peers, unit="B"),
        below(f"{with_call}, no arguments", empty_call, LIMIT_BYTES, unit="B"),
    ]


def _make_turn(call_id: str, arguments: str) -> ChatMessage:
    return ChatMessage.assistant(
        calls=(ToolCall(id=call_id, name="read_file", arguments=arguments),)
    )


def _make_langchain_turn(call_id: str, arguments: str) -> object:
    call = {"name": "read_file", "args": json.loads(arguments), "id": call_id}
    return AIMessage(content="", tool_calls=[call])


def _weigh(name: str, make: Callable[[int], object]) -> Timing:
    make(0)
    kept: list[object] = [None] * COUNT
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(COUNT):
        kept[number] = make(number)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    each = (after - before) / COUNT
    return Timing(name, each, each)
