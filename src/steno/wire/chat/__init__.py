"""The flat chat JSON of steno, which no provider uses.

    {"role": "system", "content": "You fix code."}
    {"role": "user", "content": "Is it broken?"}
    {"role": "assistant",
     "tool_calls": [{"id": "c1", "name": "run_tests", "arguments": {"path": "tests"}}]}
    {"role": "tool", "tool_call_id": "c1", "content": "3 passed"}
    {"role": "assistant", "content": "All green."}

Null members are accepted. A role may be in upper or lower case, arguments may be a string, and a
call may have OpenAI's nested `function`. The result of a failed call has `"is_error": true`.

A request is an object with `messages` and the settings of a `Request` under their field names; a
bare list of messages is also accepted. A tool has a name, a description and parameters, and
`"strict": false` if it is not strict. A response is one assistant message, which may have a
`stop_reason` and a `usage` with the fields of `Usage`.

A stream has one JSON object per line, with more of the message (`{"content": "All"}`) or a fragment
of a call (`{"index": 0, "id": "c1", "name": "run_tests", "arguments_delta": "{"}`). The last line
has a `stop_reason`.
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
