"""Canonical JSON: the stored format, every older version of it, and unknown data of newer ones.

msgspec encodes and decodes at full speed. Where a value holds data that this version does not
understand, the lossless path takes over and keeps it unchanged.
"""

from steno.codec.canonical_json import (
    AnyMessage,
    Document,
    decode_document,
    decode_entry,
    decode_header,
    decode_message,
    decode_messages,
    decode_record,
    decode_tool,
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
    "decode_document",
    "decode_entry",
    "decode_header",
    "decode_message",
    "decode_messages",
    "decode_record",
    "decode_tool",
    "encode_document",
    "encode_entry",
    "encode_header",
    "encode_message",
    "encode_messages",
    "encode_payload",
    "encode_record",
    "encode_tool",
]
