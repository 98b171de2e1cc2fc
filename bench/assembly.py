"""Benchmark: assemble a tool call from many fragments. The cost per fragment must not grow."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.ai import add_ai_message_chunks
from pydantic_ai._parts_manager import ModelResponsePartsManager
from pydantic_ai.models import ModelRequestParameters

from bench.findings import Finding, compare
from bench.harness import Case, Stopwatch
from steno import Assembler, Event, Finished, StopReason, ToolCallDelta

SIZES = (1_000, 4_000, 16_000)
FLAT = 1.5  # for sixteen times the fragments; any cost that is not linear misses this by far
MOST_ADDED_ONE_BY_ONE = 2_000  # langchain-core is quadratic there: 16,000 would take minutes


def run(watch: Stopwatch) -> list[Finding]:
    """Time one call of 1,000, 4,000 and 16,000 fragments, each about as long as a token."""
    small, middle, large = (_split(size) for size in SIZES)
    chunks = _as_langchain(small)
    more_chunks = _as_langchain(_split(MOST_ADDED_ONE_BY_ONE))
    few, some, many, manager, manager_many, joined, added, added_more = watch.measure(
        "assemble: 1,000 to 16,000 fragments",
        [
            _steno(small),
            _steno(middle),
            _steno(large),
            _pydantic_ai(small),
            _pydantic_ai(large),
            Case(
                "langchain-core, all at once, 1,000",
                lambda: add_ai_message_chunks(*chunks),
                units=len(chunks),
            ),
            Case("langchain-core +, 1,000", lambda: _add(chunks), units=len(chunks)),
            Case("langchain-core +, 2,000", lambda: _add(more_chunks), units=len(more_chunks)),
        ],
    )
    return [
        *compare("a fragment of a call of 1,000", few, manager, joined, added),
        *compare("a fragment of a call of 4,000", some, few, slower=FLAT),
        *compare("a fragment of a call of 16,000", many, few, slower=FLAT),
        *compare("a fragment of a call of 16,000", many, manager_many, added_more),
    ]


def _split(count: int) -> list[str]:
    """Return the text of a JSON object in `count` pieces of four characters or so."""
    text = json.dumps({"path": "src/http/header.py", "new_text": "x = 1\n" * count})
    size = len(text) / count
    return [text[round(n * size) : round((n + 1) * size)] for n in range(count)]


def _steno(fragments: list[str]) -> Case:
    first, *rest = fragments
    events: list[Event] = [
        ToolCallDelta(0, "call_1", "edit_file", first),
        *(ToolCallDelta(0, arguments_delta=fragment) for fragment in rest),
        Finished(StopReason.TOOL_USE),
    ]

    def assemble() -> object:
        assembler = Assembler()
        for event in events:
            assembler.feed(event)
        return assembler.message()

    return Case(f"steno, {len(fragments):,}", assemble, units=len(fragments))


def _pydantic_ai(fragments: list[str]) -> Case:
    """Do what the model classes of pydantic-ai do for each piece of a stream."""
    first, *rest = fragments
    parameters = ModelRequestParameters()

    def assemble() -> object:
        manager = ModelResponsePartsManager(model_request_parameters=parameters)
        manager.handle_tool_call_delta(
            vendor_part_id=0, tool_name="edit_file", args=first, tool_call_id="call_1"
        )
        for fragment in rest:
            manager.handle_tool_call_delta(vendor_part_id=0, args=fragment)
        return manager.get_parts()

    return Case(f"pydantic-ai, {len(fragments):,}", assemble, units=len(fragments))


def _as_langchain(fragments: list[str]) -> list[Any]:
    first, *rest = fragments
    heads = [{"name": "edit_file", "args": first, "id": "call_1", "index": 0}]
    tails = [{"name": None, "args": fragment, "id": None, "index": 0} for fragment in rest]
    return [AIMessageChunk(content="", tool_call_chunks=[chunk]) for chunk in heads + tails]


def _add(chunks: list[Any]) -> Any:
    """Add up chunks, as the documentation of langchain-core shows."""
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    return whole
