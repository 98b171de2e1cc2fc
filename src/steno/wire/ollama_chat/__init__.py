"""Ollama's protocol `/api/chat`: one JSON object per line, calls whole, arguments as objects."""

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
