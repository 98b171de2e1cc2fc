"""Anthropic's Messages API, which vLLM, llama.cpp, Ollama and gateways also implement.

The protocol requires a token limit, so a request without one is sent with `DEFAULT_MAX_TOKENS`.
"""

from steno.wire.anthropic_messages.payload import DEFAULT_MAX_TOKENS, NAME
from steno.wire.anthropic_messages.request_decoder import decode_request
from steno.wire.anthropic_messages.request_encoder import Encoder, encode_request
from steno.wire.anthropic_messages.response_decoder import StreamDecoder, decode_response
from steno.wire.errors import decode_error

__all__ = [
    "DEFAULT_MAX_TOKENS",
    "NAME",
    "Encoder",
    "StreamDecoder",
    "decode_error",
    "decode_request",
    "decode_response",
    "encode_request",
]
