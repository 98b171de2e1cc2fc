"""Encode and decode messages, tools, entries and documents: fast and whole, else part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar, get_args

import msgspec

from steno.codec.document import Document
from steno.codec.lossless import (
    NotUnderstood,
    read_entry,
    read_union,
    read_value,
    write_lossless,
)
from steno.codec.migrate import migrate
from steno.codec.scan import check_syntax, clean_input, one_line, split_array, split_object
from steno.content import Opaque
from steno.entry import FORMAT_VERSION, Entry, Payload
from steno.errors import InvalidDocument, InvalidValue, UnsupportedVersion
from steno.json_object import JsonObject, expose
from steno.message import ChatMessage, Message
from steno.record import Header, Record
from steno.tool import ToolDefinition
from steno.value import PRECHECKED

T = TypeVar("T")

AnyMessage: TypeAlias = Message | Opaque
"""What a stored message loads as: a message, or what a newer steno put in its place."""

_NOT_WHOLE = (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError)


_MESSAGE_TYPES: frozenset[type] = frozenset(get_args(AnyMessage))


class _Verbatim(Exception):
    """The fast encoder met something that has to be written as it was."""


def _encode_ours(value: object) -> Any:
    if type(value) is JsonObject:
        return expose(value)
    raise _Verbatim


def _loading(decode: Callable[[bytes | str], T]) -> Callable[[bytes | str], T]:
    """Let values trust what msgspec's decoder has checked."""

    def load(data: bytes | str) -> T:
        token = PRECHECKED.set(True)
        try:
            return decode(data)
        finally:
            PRECHECKED.reset(token)

    return load


_encode = msgspec.json.Encoder(enc_hook=_encode_ours).encode
_decode_message: Callable[[bytes | str], AnyMessage] = _loading(
    msgspec.json.Decoder(AnyMessage).decode
)
_decode_messages: Callable[[bytes | str], tuple[AnyMessage, ...]] = _loading(
    msgspec.json.Decoder(tuple[AnyMessage, ...]).decode
)
_decode_entry = _loading(msgspec.json.Decoder(Entry).decode)
_decode_document = _loading(msgspec.json.Decoder(Document).decode)
_decode_header = _loading(msgspec.json.Decoder(Header).decode)
_decode_record = _loading(msgspec.json.Decoder(Record).decode)
_decode_tool = msgspec.json.Decoder(ToolDefinition).decode


# -- messages --------------------------------------------------------------------------------


def encode_message(message: ChatMessage | Opaque) -> bytes:
    """Encode one message as canonical JSON."""
    _check_kind(message, (ChatMessage, Opaque))
    return _encode_value(message)


def decode_message(data: bytes | str) -> AnyMessage:
    """Decode one message; an unknown one comes back as `Opaque`, and a warning is logged.

    Raises InvalidDocument if `data` is not JSON, or not an object.
    """
    try:
        return _decode_message(data)
    except _NOT_WHOLE:
        raw = _read_input(data)
    if not raw.lstrip().startswith(b"{"):
        raise InvalidDocument("a message is an object with a type")
    return _read_message(raw, "$")


def encode_messages(messages: Iterable[ChatMessage | Opaque]) -> bytes:
    """Encode messages as one canonical JSON array."""
    found = tuple(messages)
    if not _MESSAGE_TYPES.issuperset(map(type, found)):
        raise InvalidValue("cannot encode what is not a message")
    try:
        return _encode(found)
    except _Verbatim:
        return b"[" + b",".join(map(_encode_value, found)) + b"]"


def decode_messages(data: bytes | str) -> tuple[AnyMessage, ...]:
    """Decode a JSON array of messages. Raises InvalidDocument if it is not one."""
    try:
        return _decode_messages(data)
    except _NOT_WHOLE:
        parts = split_array(_read_input(data))
    if parts is None:
        raise InvalidDocument("not an array of messages; decode_document reads whole sessions")
    return tuple([_decode_part(part, f"$[{number}]") for number, part in enumerate(parts)])


def _decode_part(raw: bytes, place: str) -> AnyMessage:
    try:
        return _decode_message(raw)
    except _NOT_WHOLE:
        return _read_message(raw, place)


def _read_message(raw: bytes, place: str) -> AnyMessage:
    message: AnyMessage = read_union(raw, AnyMessage, place, _warn)
    return message


# -- tools -----------------------------------------------------------------------------------


def encode_tool(tool: ToolDefinition) -> bytes:
    """Encode a tool definition."""
    _check_kind(tool, ToolDefinition)
    return _encode_value(tool)


def decode_tool(data: bytes | str) -> ToolDefinition:
    """Decode a tool definition. Raises InvalidDocument if it is none."""
    try:
        return _decode_tool(data)
    except _NOT_WHOLE:
        raw = _read_input(data)
    try:
        return read_value(raw, ToolDefinition, "$", _warn, is_trusted=False)
    except NotUnderstood as exc:
        raise InvalidDocument(f"not a tool definition: {exc}") from None


# -- entries and documents -------------------------------------------------------------------


def encode_entry(entry: Entry) -> bytes:
    """Encode one record of the log: one line, unless kept text came with line breaks."""
    _check_kind(entry, Entry)
    return _encode_value(entry)


def decode_entry(data: bytes | str) -> Entry:
    """Decode one record; what is not understood stays in it. Raises InvalidDocument."""
    try:
        return _decode_entry(data)
    except _NOT_WHOLE:
        return read_entry(_read_input(data), "$", _warn)


def encode_document(document: Document) -> bytes:
    """Encode a whole conversation in the current version."""
    _check_kind(document, Document)
    return _encode_value(document)


def decode_document(data: bytes | str) -> Document:
    """Decode a conversation of any version: ours, a session of version 1, a flat chat list.

    Raises InvalidDocument if it is neither, UnsupportedVersion if it is too new.
    """
    try:
        return _decode_document(data)
    except _NOT_WHOLE:
        raw = migrate(_read_input(data))
    try:
        return _decode_document(raw)
    except _NOT_WHOLE:
        pass
    try:
        return read_value(raw, Document, "$", _warn, may_be_odd=_HEADER)
    except NotUnderstood as exc:
        raise InvalidDocument(f"document: {exc}") from None


_HEADER = frozenset({"id", "created_at", "updated_at"})
"""What a conversation can be read without."""


# -- records ---------------------------------------------------------------------------------


def encode_payload(payload: Payload) -> bytes:
    """Encode what an entry carries, on one line: the bytes that its digest is made of."""
    return one_line(_encode_value(payload))


def encode_header(header: Header) -> bytes:
    """Encode the header of a session, on one line."""
    _check_kind(header, Header)
    return one_line(_encode_value(header))


def decode_header(data: bytes | str) -> Header:
    """Decode the header of a session. Raises InvalidDocument, UnsupportedVersion if it is newer."""
    try:
        return _decode_header(data)
    except _NOT_WHOLE:
        raw = _read_input(data)
    try:
        header = read_value(raw, Header, "$", _warn, may_be_odd=frozenset({"created_at", "title"}))
    except NotUnderstood as exc:
        raise InvalidDocument(f"header of a session: {exc}") from None
    version = next((member.value for member in split_object(raw) or () if member.name == "v"), b"")
    if version != str(FORMAT_VERSION).encode():
        raise UnsupportedVersion(
            f"header of a session: this steno reads format {FORMAT_VERSION}; upgrade it"
        )
    return header


def encode_record(record: Record) -> bytes:
    """Encode one step of a session, on one line."""
    _check_kind(record, Record)
    return one_line(_encode_value(record))


def decode_record(data: bytes | str) -> Record:
    """Decode one step of a session; what is not understood stays in it. Raises InvalidDocument."""
    try:
        return _decode_record(data)
    except _NOT_WHOLE:
        raw = _read_input(data)
    try:
        return read_value(raw, Record, "$", _warn)
    except NotUnderstood as exc:
        raise InvalidDocument(f"record: {exc}") from None


# -- both ------------------------------------------------------------------------------------


def _check_kind(value: object, kind: type | tuple[type, ...]) -> None:
    """Refuse what is not ours to write, before it overwrites something that is."""
    if not isinstance(value, kind):
        raise InvalidValue(
            f"cannot encode {type(value).__name__} here; a history is Document.of(it)"
        )


def _encode_value(value: object) -> bytes:
    try:
        return _encode(value)
    except _Verbatim:
        return write_lossless(value)


def _read_input(data: bytes | str) -> bytes:
    raw, replaced = clean_input(data)
    if replaced:
        _warn("$", f"replaced {replaced} lone surrogates by U+FFFD")
    check_syntax(raw)
    return raw


def _warn(place: str, found: str) -> None:
    import logging  # noqa: PLC0415 - only when needed: it is a third of `import steno`

    logging.getLogger("steno.codec").warning("%s: %s", place, found)
