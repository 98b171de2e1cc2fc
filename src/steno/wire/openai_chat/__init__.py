"""OpenAI's Chat Completions API, which vLLM, llama.cpp, OpenRouter and many others implement.

`DIALECTS` describes the differences between these servers.
"""

from steno.wire.errors import decode_error
from steno.wire.openai_chat.dialect import DIALECTS, Dialect
from steno.wire.openai_chat.payload import NAME
from steno.wire.openai_chat.request_decoder import decode_request
from steno.wire.openai_chat.request_encoder import Encoder, encode_request
from steno.wire.openai_chat.response_decoder import StreamDecoder, decode_response

__all__ = [
    "DIALECTS",
    "NAME",
    "Dialect",
    "Encoder",
    "StreamDecoder",
    "decode_error",
    "decode_request",
    "decode_response",
    "encode_request",
]
