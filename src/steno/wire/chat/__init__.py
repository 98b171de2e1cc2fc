"""The flat chat JSON of steno, which belongs to no provider.

    {"role": "system", "content": "You fix code."}
    {"role": "user", "content": "Is it broken?"}
    {"role": "assistant",
     "tool_calls": [{"id": "c1", "name": "run_tests", "arguments": {"path": "tests"}}]}
    {"role": "tool", "tool_call_id": "c1", "content": "3 passed"}
    {"role": "assistant", "content": "All green."}

Null members are accepted and never written. Roles are accepted in any case, arguments also as a
string, calls also with OpenAI's `function` inside. A result of a failed call has
`"is_error": true`.

A request is an object with `messages` and the settings of a `Request` under their own names; a
bare list of messages is accepted as well. A tool has name, description and parameters, and
`"strict": false` if it is not strict. A response is one assistant message, which may have
`stop_reason` and `usage` under our names.

No server uses this protocol. A stream of it has one JSON object per line, each with more of
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
