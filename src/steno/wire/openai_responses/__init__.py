"""OpenAI's Responses, which vLLM, llama.cpp, xAI, OpenRouter and others speak as well."""

from steno.wire.fault import decode_error
from steno.wire.openai_responses.answer import StreamDecoder, decode_response
from steno.wire.openai_responses.history import decode_request
from steno.wire.openai_responses.request import Encoder, encode_request
from steno.wire.openai_responses.shapes import NAME

__all__ = [
    "NAME",
    "Encoder",
    "StreamDecoder",
    "decode_error",
    "decode_request",
    "decode_response",
    "encode_request",
]
