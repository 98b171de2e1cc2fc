"""Logs to build requests from."""

from __future__ import annotations

from itertools import count
from typing import Any

from steno import ChatMessage, ToolCall
from steno.context import BuiltRequest, ContextBuilder, ModelTarget
from steno.messages.content import FileReference, Image, ImageData, Resource, Text
from steno.messages.message import AssistantMessage, Message, ToolResultMessage, UserMessage
from steno.messages.order import Severity, check_order
from steno.messages.request import Request
from steno.records.entry import Entry, Payload

PNG = Image(source=ImageData(b"png"), mime_type="image/png")


def log(*payloads: Payload | ChatMessage, start: int = 1) -> tuple[Entry, ...]:
    """Return entries with the ids e1, e2, …"""
    numbers = count(start)
    made: list[Entry] = []
    for payload in payloads:
        number = next(numbers)
        parent = None if number == 1 else f"e{number - 1}"
        some: Any = payload
        made.append(Entry(id=f"e{number}", parent=parent, payload=some))
    return tuple(made)


def turn(call_id: str, result: str = "ok") -> list[Message]:
    """Return a call and its result."""
    return [
        ChatMessage.assistant(None, [ToolCall(id=call_id, name="read")]),
        ChatMessage.tool_result(call_id, result),
    ]


def build(entries: tuple[Entry, ...], target: ModelTarget | None = None) -> BuiltRequest:
    """Build a request with a builder of its own."""
    return ContextBuilder().build(entries, ModelTarget() if target is None else target)


def codes(built: BuiltRequest) -> list[tuple[str, str | None]]:
    """Return the code and the entry of each change."""
    return [(change.code.value, change.entry) for change in built.changes]


def only_user_message(*blocks: Text | Image | FileReference | Resource) -> UserMessage:
    """Return a message of these blocks."""
    return ChatMessage.user(blocks)


def texts(request: Request) -> list[str | None]:
    """Return the text of each message of a request."""
    return [message.text for message in request.messages]


def check_whole(request: Request) -> None:
    """Refuse a request that a provider would refuse: every call has exactly one result, in place."""
    assert [
        issue for issue in check_order(request.messages) if issue.severity is Severity.ERROR
    ] == []
    outstanding: list[str] = []
    for message in request.messages:
        if isinstance(message, ToolResultMessage):
            outstanding.remove(message.tool_call_id)
            continue
        assert outstanding == []
        if isinstance(message, AssistantMessage):
            outstanding = [call.id for call in message.tool_calls]
    assert outstanding == []
