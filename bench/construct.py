"""Benchmark: construct a checked message. The goal is a time, not a ratio."""

from __future__ import annotations

import json

from langchain_core.messages import AIMessage, HumanMessage
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, UserPromptPart

from bench.findings import Finding, below, compare
from bench.floor import BareAssistantMessage, BareText, BareToolCall, BareUserMessage
from bench.harness import Case, Stopwatch
from steno import AssistantMessage, ChatMessage, Text, ToolCall, UserMessage

LIMIT_S = 1e-6
TEXT = "Please find out why the parser fails on a header without a colon."
ARGUMENTS = '{"path": "src/http/header.py", "start_line": 100, "end_line": 180}'
# langchain-core expects parsed arguments; they are parsed before the clock starts.
PARSED = json.loads(ARGUMENTS)


def run(watch: Stopwatch) -> list[Finding]:
    """Time the factories and the constructors."""
    return [*_user_message(watch), *_message_with_call(watch)]


def _user_message(watch: Stopwatch) -> list[Finding]:
    factory, direct, *peers = watch.measure(
        "construct: user message",
        [
            Case("steno factory", lambda: ChatMessage.user(TEXT)),
            Case("steno constructor", lambda: UserMessage((Text(TEXT),))),
            Case("msgspec, no checks", lambda: BareUserMessage(content=(BareText(text=TEXT),))),
            Case("pydantic-ai", lambda: ModelRequest(parts=[UserPromptPart(TEXT)])),
            Case("langchain-core", lambda: HumanMessage(TEXT)),
        ],
    )
    work = "make a user message"
    return [
        below(work, factory, LIMIT_S),
        *compare(work, factory, *peers),
        below(f"{work} (constructor)", direct, LIMIT_S),
    ]


def _message_with_call(watch: Stopwatch) -> list[Finding]:
    factory, direct, *peers = watch.measure(
        "construct: assistant message with one call",
        [
            Case(
                "steno factory",
                lambda: ChatMessage.assistant(
                    calls=(ToolCall(id="call_1", name="read_file", arguments=ARGUMENTS),)
                ),
            ),
            Case(
                "steno constructor",
                lambda: AssistantMessage(
                    content=(ToolCall(id="call_1", name="read_file", arguments=ARGUMENTS),)
                ),
            ),
            Case(
                "msgspec, no checks",
                lambda: BareAssistantMessage(
                    content=(BareToolCall(id="call_1", name="read_file", arguments=ARGUMENTS),)
                ),
            ),
            Case(
                "pydantic-ai",
                lambda: ModelResponse(parts=[ToolCallPart("read_file", ARGUMENTS, "call_1")]),
            ),
            Case(
                "langchain-core",
                lambda: AIMessage(
                    content="", tool_calls=[{"name": "read_file", "args": PARSED, "id": "call_1"}]
                ),
            ),
        ],
    )
    work = "make an assistant message with a call"
    return [
        below(work, factory, LIMIT_S),
        *compare(work, factory, *peers),
        below(f"{work} (constructor)", direct, LIMIT_S),
    ]
