"""Repair a history before it is sent: one result is missing, two do not belong there.

`repair` returns a copy and reports each issue; the history itself does not change.
"""

from steno import ChatMessage, ToolCall, ToolResult, check_order, repair

history = [
    ChatMessage.user("Build it."),
    ChatMessage.assistant(None, [ToolCall(id="a", name="make"), ToolCall(id="b", name="lint")]),
    ToolResult.success("b", "clean"),
    ToolResult.success("b", "clean"),
    ChatMessage.user("Is it ready?"),
    ToolResult.success("z", "from another session"),
]

for issue in check_order(history):
    print(f"[{issue.severity}] message {issue.position}: {issue.code} - {issue.remedy}")

repaired = repair(history)
for message in repaired.messages:
    print(f"{message.role:9} {message.tool_call_id or '':2} {message.text}")
print("valid now:", repair(repaired.messages).issues == ())
