"""Google's generateContent, of the Gemini API and of Vertex."""

from steno.wire.fault import decode_error
from steno.wire.gemini.answer import StreamDecoder, decode_response
from steno.wire.gemini.history import decode_request
from steno.wire.gemini.request import Encoder, encode_request
from steno.wire.gemini.shapes import NAME

__all__ = [
    "NAME",
    "Encoder",
    "StreamDecoder",
    "decode_error",
    "decode_request",
    "decode_response",
    "encode_request",
]
