"""Send a history that something went wrong with: the record stays, the repair is reported."""

from steno import ChatMessage, ToolCall, ToolResult, check_order, repair

history = [
    ChatMessage.user("Build it."),
    ChatMessage.assistant(None, [ToolCall(id="a", name="make"), ToolCall(id="b", name="lint")]),
    ToolResult.success("b", "clean"),
    ToolResult.success("b", "clean"),
    ChatMessage.user("And?"),
    ToolResult.success("z", "from another session"),
]

for issue in check_order(history):
    print(f"[{issue.severity}] message {issue.position}: {issue.code} - {issue.remedy}")

repaired = repair(history)
for message in repaired.messages:
    print(f"{message.role:9} {message.tool_call_id or '':2} {message.text}")
print("needs nothing more:", repair(repaired.messages).issues == ())
