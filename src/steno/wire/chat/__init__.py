"""The flat chat JSON: role, content, tool_calls and tool_call_id, and no provider's habits.

    {"role": "system", "content": "You mend code."}
    {"role": "user", "content": "Is it broken?"}
    {"role": "assistant",
     "tool_calls": [{"id": "c1", "name": "run_tests", "arguments": {"path": "tests"}}]}
    {"role": "tool", "tool_call_id": "c1", "content": "3 passed"}
    {"role": "assistant", "content": "All green."}

What is null is left out when it is written, and may be there when it is read; roles are read in
any case, arguments also as a string, calls also with OpenAI's `function` inside. A result that
failed has `"is_error": true`.

A request is an object with `messages` and the settings of a `Request` under their own names; a
bare list of messages is read as well. A tool has name, description and parameters, and
`"strict": false` if it is not. An answer is one assistant message, which may carry `stop_reason`
and `usage` as we name them.

No server speaks this. For those who want to stream it: one JSON object a line, each with more of
the message (`{"content": "All"}`), or a fragment of a call
(`{"index": 0, "id": "c1", "name": "run_tests", "arguments_delta": "{"}`); the line with a
`stop_reason` is the last one.
"""

from steno.wire.chat.payload import NAME
from steno.wire.chat.request_decoder import decode_request
from steno.wire.chat.request_encoder import Encoder, encode_request
from steno.wire.chat.response_decoder import StreamDecoder, decode_response
from steno.wire.errors import decode_error

__all__ = [
    "NAME",
    "Encoder",
    "StreamDecoder",
    "decode_error",
    "decode_request",
    "decode_response",
    "encode_request",
]
