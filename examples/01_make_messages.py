"""Create messages and read their fields.

Messages are immutable and equal by content; an invalid message raises an error at once.
"""

from steno import ChatMessage, FileReference, InvalidMessage, MessageRole, Text, ToolCall

prompt = ChatMessage.user([Text("What does this do?"), FileReference(path="src/./app.py")])
call = ToolCall.create("read_file", {"path": "src/app.py", "lines": [1, 20]}, id="call_1")
response = ChatMessage.assistant("I will read it.", [call])
result = ChatMessage.tool_result("call_1", "print('hello')")

for message in (prompt, response, result):
    print(f"{message.role:9} {message.text!r} calls={len(message.tool_calls)}")

print("path:", call.get("path", str))
print("lines:", call.get("lines", tuple[int, int]))
print("encoding (default):", call.get("encoding", str, "utf-8"))
print("equal:", ChatMessage.user("hi") == ChatMessage.user("hi"))
print("role:", MessageRole.parse("Assistant"), int(MessageRole.ASSISTANT))

# repr and error messages contain sizes and rules, but no content: they end up in logs.
print(repr(prompt))
try:
    ChatMessage.user("   ")
except InvalidMessage as error:
    print("error:", error)
