"""Keep a history in a valid order while several threads add to it.

A message that is out of order raises an error; an iterator reads a snapshot.
"""

from concurrent.futures import ThreadPoolExecutor

from steno import ChatMessage, ConversationHistory, OutOfOrder, ToolCall, ToolResult

history = ConversationHistory()
history.add(ChatMessage.system("You run tools."))
history.add(ChatMessage.user("Check all eight services."))
calls = [ToolCall.create("ping", {"service": n}, id=f"call_{n}") for n in range(8)]
history.add(ChatMessage.assistant(None, calls))

before = iter(history)
with ThreadPoolExecutor() as pool:
    list(pool.map(lambda call: history.add(ToolResult.success(call.id, "up")), calls))

print("snapshot:", len(list(before)), "messages; history now:", len(history))
print("calls without a result:", history.outstanding)
for attempt in (
    ToolResult.success("call_0", "again"),
    ToolResult.success("call_9", "unknown call"),
):
    try:
        history.add(attempt)
    except OutOfOrder as error:
        print("error:", error)
history.add(ChatMessage.assistant("All eight are up."))
history.check_complete()
print("last message:", history.last.text if history.last else None)
