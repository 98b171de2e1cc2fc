"""Google's generateContent protocol, which the Gemini API and Vertex AI use."""

from steno.wire.errors import decode_error
from steno.wire.gemini.payload import NAME
from steno.wire.gemini.request_decoder import decode_request
from steno.wire.gemini.request_encoder import Encoder, encode_request
from steno.wire.gemini.response_decoder import StreamDecoder, decode_response

__all__ = [
    "NAME",
    "Encoder",
    "StreamDecoder",
    "decode_error",
    "decode_request",
    "decode_response",
    "encode_request",
]
