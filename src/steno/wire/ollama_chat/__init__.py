"""Ollama's protocol for `/api/chat`, which streams one JSON object per line.

Tool calls always arrive whole, with their arguments as JSON objects.
"""

from steno.wire.errors import decode_error
from steno.wire.ollama_chat.payload import NAME
from steno.wire.ollama_chat.request_decoder import decode_request
from steno.wire.ollama_chat.request_encoder import Encoder, encode_request
from steno.wire.ollama_chat.response_decoder import StreamDecoder, decode_response

__all__ = [
    "NAME",
    "Encoder",
    "StreamDecoder",
    "decode_error",
    "decode_request",
    "decode_response",
    "encode_request",
]
