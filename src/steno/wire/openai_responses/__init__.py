"""OpenAI's Responses API, which vLLM, llama.cpp, xAI, OpenRouter and others also implement."""

from steno.wire.errors import decode_error
from steno.wire.openai_responses.payload import NAME
from steno.wire.openai_responses.request_decoder import decode_request
from steno.wire.openai_responses.request_encoder import Encoder, encode_request
from steno.wire.openai_responses.response_decoder import StreamDecoder, decode_response

__all__ = [
    "NAME",
    "Encoder",
    "StreamDecoder",
    "decode_error",
    "decode_request",
    "decode_response",
    "encode_request",
]
