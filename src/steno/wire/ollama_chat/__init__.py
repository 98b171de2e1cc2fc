"""Ollama's own protocol, `/api/chat`: one JSON object a line, calls whole, arguments as objects."""

from steno.wire.fault import decode_error
from steno.wire.ollama_chat.answer import StreamDecoder, decode_response
from steno.wire.ollama_chat.history import decode_request
from steno.wire.ollama_chat.request import Encoder, encode_request
from steno.wire.ollama_chat.shapes import NAME

__all__ = [
    "NAME",
    "Encoder",
    "StreamDecoder",
    "decode_error",
    "decode_request",
    "decode_response",
    "encode_request",
]
