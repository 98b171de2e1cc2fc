"""Assemble streamed events into a message, even if the stream breaks off.

A call with incomplete arguments becomes an `InvalidToolCall`, so nothing runs by mistake.
"""

from steno import (
    Assembler,
    Event,
    InvalidToolCall,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)

events: list[Event] = [
    ThinkingDelta(0, "Read the file first."),
    TextDelta(1, "Reading "),
    TextDelta(1, "the file."),
    ToolCallDelta(0, id="call_1", name="read_file"),
    ToolCallDelta(0, arguments_delta='{"path": '),
    ToolCallDelta(0, arguments_delta='"app.py"'),
    # The connection breaks here.
]

assembler = Assembler()
for event in events:
    for assembled in assembler.feed(event):
        print(assembled)

message = assembler.message(StopReason.ABORTED)
print("text so far:", message.text)
for call in message.tool_calls:
    if isinstance(call, InvalidToolCall):
        print("invalid call:", call.reason)
        print("received arguments:", call.arguments)
