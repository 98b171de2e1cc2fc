"""OpenAI's Chat Completions, which vLLM, llama.cpp, OpenRouter and many others speak as well.

What they do differently is a row in `DIALECTS`.
"""

from steno.wire.fault import decode_error
from steno.wire.openai_chat.answer import StreamDecoder, decode_response
from steno.wire.openai_chat.dialect import DIALECTS, Dialect
from steno.wire.openai_chat.history import decode_request
from steno.wire.openai_chat.request import Encoder, encode_request
from steno.wire.openai_chat.shapes import NAME

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
