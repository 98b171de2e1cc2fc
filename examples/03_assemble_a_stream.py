"""Turn streamed events into a message; look at it at any time, cut it anywhere."""

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
    ThinkingDelta(0, "The file first."),
    TextDelta(1, "Reading "),
    TextDelta(1, "the file."),
    ToolCallDelta(0, id="call_1", name="read_file"),
    ToolCallDelta(0, arguments_delta='{"path": '),
    ToolCallDelta(0, arguments_delta='"app.py"'),
    # … and here the connection breaks.
]

assembler = Assembler()
for event in events:
    for told in assembler.feed(event):
        print(told)

message = assembler.message(StopReason.ABORTED)
print("said so far:", message.text)
for call in message.tool_calls:
    if isinstance(call, InvalidToolCall):
        print("cannot be run:", call.reason)
        print("kept as it came:", call.arguments)
