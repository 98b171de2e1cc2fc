"""Start a conversation with one provider and continue it with another.

Each wire reports what it cannot send.
"""

from steno import Assembler, ChatMessage, Request, ToolResult
from steno.render import format_change
from steno.wire import anthropic_messages, gemini, openai_chat

# A recorded response of Anthropic's server: thinking, then a tool call.
RECORDED = b"""\
event: message_start
data: {"type":"message_start","message":{"id":"msg_1","role":"assistant","content":[],
data: "model":"claude-x","usage":{"input_tokens":25,"cache_read_input_tokens":100,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"A file. "}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2VhbA=="}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1",
data: "name":"read_file","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\\"path\\": \\"a.py\\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":30}}

event: message_stop
data: {"type":"message_stop"}

"""

assembler = Assembler()
decoder = anthropic_messages.StreamDecoder(model="claude-x")
for event in (*decoder.feed(RECORDED), *decoder.close()):
    for assembled in assembler.feed(event):
        print(assembled)
response = assembler.message()

request = Request(
    model="claude-x",
    messages=(
        ChatMessage.system("You read code."),
        ChatMessage.user("What is in a.py?"),
        response,
        ToolResult.success("toolu_1", "print('hello')"),
    ),
)
for wire in (anthropic_messages, openai_chat, gemini):
    encoded = wire.encode_request(request)
    print(f"\n{wire.NAME}: {len(encoded.body)} bytes")
    for loss in encoded.losses:
        print(f"  {format_change(loss)}")
