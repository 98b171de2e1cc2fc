"""Values, rules and checks that the tests of document S0 share."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from steno import (
    ChatMessage,
    ConversationHistory,
    Message,
    ToolCall,
    ToolCallDelta,
    ToolDefinition,
    ToolResult,
)

PROJECT = Path(__file__).parents[2]

SECRET = "hunter2-Zw9"
ARGUMENTS = '{"path": "a.py", "lines": [3, 9], "options": {"dry": true}}'
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}

SYSTEM = ChatMessage.system("You are helpful.")
USER = ChatMessage.user("Hello")
ANSWER = ChatMessage.assistant("Hi!")
CALL = ToolCall(id="call_1", name="write_file", arguments=ARGUMENTS)
CALLS = ChatMessage.assistant(None, [CALL])
RESULT = ToolResult.success("call_1", "written")
FAILURE = ToolResult.error("call_1", "disk full")
TOOL = ToolDefinition(name="write_file", description="Write a file.", parameters=SCHEMA)
DELTA = ToolCallDelta(0, id="call_1", name="write_file", arguments_delta='{"pa')

MESSAGES: Sequence[Message] = (SYSTEM, USER, ANSWER, CALLS, RESULT, FAILURE)
VALUES = (*MESSAGES, CALL, TOOL, DELTA)


def type_name(value: object) -> str:
    return type(value).__name__


def refuses(make: Callable[..., object], *arguments: object, **fields: object) -> Callable[[], Any]:
    """Return a call that has to fail; its arguments need not have the right types."""
    return partial(make, *arguments, **fields)


def attributes_of(value: object) -> list[str]:
    """Return the names of the public attributes of a value that are not methods."""
    names = [name for name in dir(value) if not name.startswith("_")]
    return [name for name in names if not callable(getattr(value, name))]


def assert_immutable(value: object) -> None:
    """Check that no attribute can be assigned or deleted, and that none can be added."""
    names = attributes_of(value)
    assert names
    for name in names:
        before = getattr(value, name)
        with pytest.raises(AttributeError):
            setattr(value, name, before)
        with pytest.raises(AttributeError):
            delattr(value, name)
        assert getattr(value, name) == before
    with pytest.raises(AttributeError):
        value.comment = "more"  # type: ignore[attr-defined]


def assert_read_only(value: object) -> None:
    """Check that parsed JSON contains nothing that can be changed, at any depth."""
    assert isinstance(value, Mapping | tuple | str | int | float | bool | None)
    if isinstance(value, Mapping):
        assert not hasattr(value, "__setitem__")
        assert not hasattr(value, "update")
        for member in value.values():
            assert_read_only(member)
    elif isinstance(value, tuple):
        for item in value:
            assert_read_only(item)


MANUAL: dict[str, dict[str, Any]] = {
    "user": {"role": "user", "content": "Write a hello world program"},
    "assistant": {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_001",
                "name": "write_file",
                "arguments": {
                    "path": "hello.cs",
                    "content": 'Console.WriteLine("Hello, World!");',
                },
            }
        ],
    },
    "tool": {"role": "tool", "tool_call_id": "call_001", "content": "File written successfully"},
}
"""The examples of the JSON format in the manual."""


@dataclass
class Options:
    dry: bool


@dataclass
class WriteFile:
    """Write lines to a file.

    Attributes:
        path: The file.
        lines: The first and the last line.
        mode: How to open it.
    """

    path: str
    lines: tuple[int, int]
    options: Options
    mode: Literal["w", "a"] = "w"


def define(**fields: Any) -> ToolDefinition:
    return ToolDefinition(**{"name": "do", "description": "Do.", "parameters": SCHEMA} | fields)


def history_of(*messages: Message) -> ConversationHistory:
    return ConversationHistory(messages)


def switch_threads_often() -> None:
    """Let another thread run at each call and return of this thread, so that races appear."""
    sys.setprofile(lambda frame, event, argument: time.sleep(0))
