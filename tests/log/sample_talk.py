"""One short talk with two tool calls, for the tests of logs."""

from __future__ import annotations

from steno import ChatMessage, ToolCall, ToolResult

CALLS = [ToolCall(id="c1", name="read", arguments='{"path":"a"}'), ToolCall(id="c2", name="read")]
TALK = (
    ChatMessage.system("Mend."),
    ChatMessage.user("Broken?"),
    ChatMessage.assistant("I look.", CALLS),
    ToolResult.success("c1", "fine"),
    ToolResult.error("c2", "gone"),
    ChatMessage.assistant("One is gone."),
)
