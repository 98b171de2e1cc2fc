"""Encode and decode canonical JSON, the stored format, including its older versions.

msgspec encodes and decodes at full speed. A value that contains data unknown to this version is
handled by the slower lossless path, which preserves the unknown data unchanged.
"""

from steno.codec.canonical_json import (
    AnyMessage,
    Document,
    decode_call,
    decode_document,
    decode_entry,
    decode_header,
    decode_message,
    decode_messages,
    decode_record,
    decode_tool,
    encode_call,
    encode_document,
    encode_entry,
    encode_header,
    encode_message,
    encode_messages,
    encode_payload,
    encode_record,
    encode_tool,
)

__all__ = [
    "AnyMessage",
    "Document",
    "decode_call",
    "decode_document",
    "decode_entry",
    "decode_header",
    "decode_message",
    "decode_messages",
    "decode_record",
    "decode_tool",
    "encode_call",
    "encode_document",
    "encode_entry",
    "encode_header",
    "encode_message",
    "encode_messages",
    "encode_payload",
    "encode_record",
    "encode_tool",
]
