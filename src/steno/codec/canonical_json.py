"""Encode and decode messages, tool calls, tools, entries, records and documents.

msgspec decodes a value as a whole; if that fails, `lossless` reads it part by part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, TypeVar, final, get_args

import msgspec
from msgspec.structs import replace

from steno.codec.json_scanner import (
    check_syntax,
    clean_input,
    replace_line_breaks,
    sort_members,
    split_array,
    split_object,
)
from steno.codec.lossless import (
    UnreadablePart,
    WarningCallback,
    encode_lossless,
    ignore_warning,
    read_entry,
    read_union,
    read_value,
)
from steno.codec.migrations import migrate_call, migrate_document, migrate_message
from steno.errors import InvalidDocument, InvalidValue, UnsupportedVersion
from steno.json_object import JsonObject, raw_members
from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall
from steno.messages.content import Opaque
from steno.messages.message import ChatMessage, Message, as_messages
from steno.messages.tool import ToolDefinition
from steno.records.entry import BASE_VERSION, Entry, Payload
from steno.records.stored_record import Header, Record
from steno.values import PRECHECKED, RawJson, Value, is_prechecked

T = TypeVar("T")

_ENTRY_PLACE: Final = re.compile(r"\$\.entries\[(?P<number>\d+)\](\.payload)?")

AnyMessage: TypeAlias = Message | Opaque
"""A decoded message; `Opaque` for a message that this version of steno cannot read."""

_OPTIONAL_DOCUMENT_FIELDS = frozenset({"id", "created_at", "updated_at"})
"""The members of a document that are preserved as unknown data if they cannot be read."""


# -- messages ---------------------------------------------------------------------------------


def encode_message(message: ChatMessage | Opaque) -> bytes:
    """Encode one message as canonical JSON."""
    return _encode_value(message, (ChatMessage, Opaque))


def decode_message(data: bytes | str) -> AnyMessage:
    """Decode one message, also of an older version, such as `{"role": "user", "content": "Hi"}`.

    If the message cannot be read, it is returned as `Opaque`, and a warning is logged. Raises
    InvalidDocument if `data` is not a JSON object.
    """
    try:
        return _decode_message(data)
    except _DECODE_ERRORS:
        raw = _read_input(data)
    if not raw.lstrip().startswith(b"{"):
        raise InvalidDocument("a message must be a JSON object", code="not_an_object")
    return _read_message(raw, "$")


def encode_messages(messages: Iterable[ChatMessage | Opaque]) -> bytes:
    """Encode messages as one canonical JSON array."""
    try:
        items = iter(messages)
    except TypeError:
        rule = f"pass messages, not {type(messages).__name__}"
        raise InvalidValue(rule, code="not_encodable") from None
    found = tuple(items)
    if not _MESSAGE_TYPES.issuperset(map(type, found)):
        raise InvalidValue("every item must be a message", code="not_encodable")
    try:
        return _encode_fast(found)
    except _NeedsLosslessEncoder:
        return b"[" + b",".join(map(encode_message, found)) + b"]"


def decode_messages(data: bytes | str) -> tuple[AnyMessage, ...]:
    """Decode a JSON array of messages, each as `decode_message` does.

    Raises InvalidDocument if `data` is not a JSON array.
    """
    try:
        return _decode_messages(data)
    except _DECODE_ERRORS:
        parts = split_array(_read_input(data))
    if parts is None:
        raise InvalidDocument(
            "not an array of messages; use decode_document for a session", code="not_an_array"
        )
    return tuple([_decode_message_part(part, f"$[{number}]") for number, part in enumerate(parts)])


def _decode_message_part(raw: bytes, place: str) -> AnyMessage:
    try:
        return _decode_message(raw)
    except _DECODE_ERRORS:
        return _read_message(raw, place)


def _read_message(raw: bytes, place: str) -> AnyMessage:
    migrated = migrate_message(raw)
    if migrated is not None:
        try:
            return _with_unknown(_decode_message(migrated.known), migrated.unknown.decode())
        except _DECODE_ERRORS:
            pass
    current = raw if migrated is None else migrated.raw
    message: AnyMessage = read_union(current, AnyMessage, place, log_warning)
    return replace(message, raw=raw.decode()) if isinstance(message, Opaque) else message


def _with_unknown(message: AnyMessage, unknown: str) -> AnyMessage:
    return replace(message, unknown=RawJson(unknown)) if unknown else message


# -- tool calls -------------------------------------------------------------------------------


def encode_call(call: AnyToolCall) -> bytes:
    """Encode one tool call as canonical JSON."""
    return _encode_value(call, (ToolCall, InvalidToolCall))


def decode_call(data: bytes | str) -> AnyToolCall:
    """Decode one tool call: a stored call, a flat call, or a call with OpenAI's `function`.

    The arguments may be text or an object. A call that cannot run is returned as InvalidToolCall.
    Raises InvalidDocument if `data` is not a call with an id, or if its name is not text.
    """
    try:
        return _decode_call(data)
    except _DECODE_ERRORS:
        raw = migrate_call(_read_input(data))
    try:
        return _decode_call(raw)
    except _DECODE_ERRORS:
        pass
    try:
        call: AnyToolCall = read_union(raw, AnyToolCall, "$", log_warning)
    except UnreadablePart as exc:
        raise InvalidDocument(f"not a tool call: {exc}", code="not_a_call") from None
    return call


# -- tools ------------------------------------------------------------------------------------


def encode_tool(tool: ToolDefinition) -> bytes:
    """Encode a tool definition."""
    return _encode_value(tool, ToolDefinition)


def decode_tool(data: bytes | str) -> ToolDefinition:
    """Decode a tool definition. Raises InvalidDocument if `data` is not a valid definition."""
    try:
        return _decode_tool(data)
    except _DECODE_ERRORS:
        raw = _read_input(data)
    try:
        return read_value(raw, ToolDefinition, "$", log_warning, is_trusted=False)
    except UnreadablePart as exc:
        raise InvalidDocument(f"not a tool definition: {exc}", code="not_a_tool") from None


# -- entries and documents --------------------------------------------------------------------


def encode_entry(entry: Entry) -> bytes:
    """Encode one log entry, on one line unless its unknown data contains line breaks."""
    return _encode_value(entry, Entry)


def decode_entry(data: bytes | str) -> Entry:
    """Decode one entry and preserve its unknown data.

    An entry that cannot be read is returned with an `Opaque` payload. Raises InvalidDocument if
    `data` is not JSON.
    """
    try:
        return _decode_entry(data)
    except _DECODE_ERRORS:
        return read_entry(_read_input(data), "$", log_warning)


def decode_entry_silently(data: bytes) -> Entry:
    """Decode one entry as `decode_entry` does, but do not log a warning about unknown data."""
    try:
        return _decode_entry(data)
    except _DECODE_ERRORS:
        return read_entry(_read_input(data), "$", ignore_warning)


@final
class Document(Value, frozen=True, tag_field="version", tag=BASE_VERSION, kw_only=True):
    """A whole conversation in one JSON document: its id, its times and its entries."""

    shown: ClassVar[frozenset[str]] = frozenset({"id"})
    error_class: ClassVar[type[InvalidValue]] = InvalidDocument

    id: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    entries: tuple[Entry, ...] = ()

    @classmethod
    def of(cls, messages: Iterable[ChatMessage], *, id: str | None = None) -> Document:
        """Create a document with one entry for each message, in order.

        The entries have the ids `m1`, `m2` and so on, and no times.
        """
        entries: list[Entry] = []
        for number, message in enumerate(as_messages(messages), start=1):
            parent = entries[-1].id if entries else None
            entries.append(Entry(id=f"m{number}", parent=parent, payload=message))
        return cls(id=id, entries=tuple(entries))

    def append(self, message: ChatMessage, *, time: datetime | None = None) -> Document:
        """Return a copy of the document with a message appended after the last entry."""
        taken = {entry.id for entry in self.entries}
        number = len(self.entries) + 1
        while f"m{number}" in taken:
            number += 1
        (payload,) = as_messages((message,))
        parent = self.entries[-1].id if self.entries else None
        entry = Entry(id=f"m{number}", parent=parent, time=time, payload=payload)
        return replace(self, entries=(*self.entries, entry))

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages in order; entries that are not messages, such as approvals, are left out."""
        found = (entry.message for entry in self.entries)
        return tuple([message for message in found if message is not None])


def encode_document(document: Document) -> bytes:
    """Encode a whole conversation in the current version of the format."""
    return _encode_value(document, Document)


def decode_document(data: bytes | str) -> Document:
    """Decode a conversation from a current document, a session of version 1 or a flat chat list.

    Raises InvalidDocument if `data` is in none of these formats, and UnsupportedVersion if it has a
    newer version.
    """
    try:
        return _decode_document(data)
    except _DECODE_ERRORS:
        raw = _read_input(data)
    return decode_conversation(raw, "$.messages[{}]" if split_array(raw) is None else "$[{}]")


def decode_conversation(raw: bytes, place: str, warn: WarningCallback | None = None) -> Document:
    """Decode valid JSON as `decode_document` does, with warnings that name places in a file.

    `place` is the place of a message of an older version in the file, with `{}` for its number.
    `warn` receives the warnings; by default, they are logged.
    """
    warn = warn or log_warning
    current = migrate_document(raw)
    try:
        return _decode_document(current)
    except _DECODE_ERRORS:
        pass
    if current is not raw:
        warn = _warning_callback(raw, place, warn)
    try:
        return read_value(current, Document, "$", warn, optional=_OPTIONAL_DOCUMENT_FIELDS)
    except UnreadablePart as exc:
        raise InvalidDocument(str(exc), code="document_unreadable", place="document") from None


def _warning_callback(raw: bytes, message_place: str, report: WarningCallback) -> WarningCallback:
    """Return a callback that replaces the place of an entry by that of its message in `raw`."""
    members = {name: value for name, _, value in split_object(raw) or ()}
    prompts = 0 if members.get("system_prompt", b"null") in (b'""', b"null") else 1

    def warn(place: str, code: str, text: str, *, tag: str = "") -> None:
        if found := _ENTRY_PLACE.match(place):
            number = int(found["number"]) - prompts
            inner = place[found.end() :]
            place = "$.system_prompt" if number < 0 else message_place.format(number) + inner
        report(place, code, text, tag=tag)

    return warn


# -- records ----------------------------------------------------------------------------------


def encode_payload(payload: Payload) -> bytes:
    """Encode the payload of an entry on one line."""
    return replace_line_breaks(_encode_value(payload, Value))


def encode_sorted(value: Payload | JsonObject) -> bytes:
    """Encode a value with its members sorted by name; digests are computed from these bytes."""
    try:
        return _encode_sorted(value)
    except _NeedsLosslessEncoder:
        return sort_members(replace_line_breaks(encode_lossless(value)))


def encode_header(header: Header) -> bytes:
    """Encode the header of a session on one line."""
    return replace_line_breaks(_encode_value(header, Header))


def decode_header(data: bytes | str) -> Header:
    """Decode the header of a session.

    Raises InvalidDocument if `data` is not a header, and UnsupportedVersion if steno does not
    support the version of the header.
    """
    try:
        return _decode_header(data)
    except _DECODE_ERRORS:
        raw = _read_input(data)
    try:
        header = read_value(
            raw, Header, "$", log_warning, optional=frozenset({"created_at", "title"})
        )
    except UnreadablePart as exc:
        raise InvalidDocument(
            str(exc), code="header_unreadable", place="header of a session"
        ) from None
    version = next((member.value for member in split_object(raw) or () if member.name == "v"), b"")
    if version != str(BASE_VERSION).encode():
        raise UnsupportedVersion(
            f"unsupported version: this version of steno supports headers of version {BASE_VERSION}; "
            "upgrade steno",
            place="header of a session",
        )
    return header


def encode_record(record: Record) -> bytes:
    """Encode one record of a session on one line."""
    return replace_line_breaks(_encode_value(record, Record))


def decode_record(data: bytes | str) -> Record:
    """Decode one record of a session and preserve its unknown data.

    Raises InvalidDocument if `data` is not a record.
    """
    try:
        return _decode_record(data)
    except _DECODE_ERRORS:
        raw = _read_input(data)
    try:
        return read_value(raw, Record, "$", log_warning)
    except UnreadablePart as exc:
        raise InvalidDocument(str(exc), code="record_unreadable", place="record") from None


# -- shared -----------------------------------------------------------------------------------


class _NeedsLosslessEncoder(Exception):
    """The fast encoder found a value that must be written unchanged."""


def _encode_json_object(value: object) -> Any:
    if type(value) is JsonObject:
        return raw_members(value)
    raise _NeedsLosslessEncoder


_encode_fast = msgspec.json.Encoder(enc_hook=_encode_json_object).encode
_encode_sorted = msgspec.json.Encoder(enc_hook=_encode_json_object, order="sorted").encode


def _encode_value(value: object, kind: type | tuple[type, ...]) -> bytes:
    # Refuse other types before their bytes can overwrite a valid file.
    if not isinstance(value, kind):
        message = (
            f"this function cannot encode {type(value).__name__}; "
            "to encode a list of messages, use encode_messages() or Document.of()"
        )
        raise InvalidValue(message, code="not_encodable")
    try:
        return _encode_fast(value)
    except _NeedsLosslessEncoder:
        return encode_lossless(value)


def _prechecked_decoder(decode: Callable[[bytes | str], T]) -> Callable[[bytes | str], T]:
    """Wrap a msgspec decoder so that its values skip the checks that msgspec has already made."""

    def load(data: bytes | str) -> T:
        before = is_prechecked()
        try:
            PRECHECKED.set(True)
            return decode(data)
        finally:
            PRECHECKED.set(before)

    return load


_decode_message: Callable[[bytes | str], AnyMessage] = _prechecked_decoder(
    msgspec.json.Decoder(AnyMessage).decode
)
_decode_messages: Callable[[bytes | str], tuple[AnyMessage, ...]] = _prechecked_decoder(
    msgspec.json.Decoder(tuple[AnyMessage, ...]).decode
)
_decode_call: Callable[[bytes | str], AnyToolCall] = _prechecked_decoder(
    msgspec.json.Decoder(AnyToolCall).decode
)
_decode_entry = _prechecked_decoder(msgspec.json.Decoder(Entry).decode)
_decode_document = _prechecked_decoder(msgspec.json.Decoder(Document).decode)
_decode_header = _prechecked_decoder(msgspec.json.Decoder(Header).decode)
_decode_record = _prechecked_decoder(msgspec.json.Decoder(Record).decode)
_decode_tool = msgspec.json.Decoder(ToolDefinition).decode

_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError)
_MESSAGE_TYPES: frozenset[type] = frozenset(get_args(AnyMessage))


def _read_input(data: bytes | str) -> bytes:
    raw, replaced = clean_input(data)
    if replaced:
        warn_about_surrogates(replaced)
    check_syntax(raw)
    return raw


def warn_about_surrogates(count: int) -> None:
    """Log a warning about lone surrogates that were replaced."""
    surrogates = "1 lone surrogate" if count == 1 else f"{count} lone surrogates"
    log_warning("$", "surrogates_replaced", f"replaced {surrogates} with U+FFFD")


class CodecWarning(NamedTuple):
    """A warning about a part of a file that was kept or replaced."""

    place: str
    """The place in the file, such as `$.messages[2]`."""
    code: str
    tag: str
    """The type of the part; empty if it has none."""


_collected: Final[ContextVar[list[CodecWarning] | None]] = ContextVar(
    "steno_codec_warnings", default=None
)


@contextmanager
def collect_warnings() -> Generator[list[CodecWarning]]:
    """Collect the warnings of decoding in this thread or task, which are then not logged."""
    found: list[CodecWarning] = []
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def log_warning(place: str, code: str, text: str, *, tag: str = "") -> None:
    """Log a warning about a part of a file; programs read its place, code and tag."""
    found = _collected.get()
    if found is not None:
        found.append(CodecWarning(place, code, tag))
        return
    import logging  # noqa: PLC0415 - slow: a third of the time of `import steno`

    facts = {"code": code, "place": place, "tag": tag}
    logging.getLogger("steno.codec").warning("%s: %s", place, text, extra=facts)
