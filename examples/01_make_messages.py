"""Make messages and read them.

Values are frozen, equal by content, and strict: what breaks a rule raises before it exists.
"""

from steno import ChatMessage, FileReference, InvalidMessage, MessageRole, Text, ToolCall

question = ChatMessage.user([Text("What does this do?"), FileReference(path="src/./app.py")])
call = ToolCall.create("read_file", {"path": "src/app.py", "lines": [1, 20]}, id="call_1")
answer = ChatMessage.assistant("Let me look.", [call])
result = ChatMessage.tool_result("call_1", "print('hello')")

for message in (question, answer, result):
    print(f"{message.role:9} {message.text!r} calls={len(message.tool_calls)}")

print("path:", call.get("path", str))
print("lines:", call.get("lines", tuple[int, int]))
print("not given:", call.get("encoding", str, "utf-8"))
print("equal:", ChatMessage.user("hi") == ChatMessage.user("hi"))
print("role:", MessageRole.parse("Assistant"), int(MessageRole.ASSISTANT))

# repr and errors tell sizes and rules, never content: they end up in logs.
print(repr(question))
try:
    ChatMessage.user("   ")
except InvalidMessage as error:
    print("refused:", error)
