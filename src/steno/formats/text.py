"""JSON of others as text: cut up and put together without reading what need not be read.

What is kept of a file to write it back as it was are the members that we would write otherwise,
each as the text that stood there.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import msgspec

from steno.codec import decode_entry
from steno.codec.scan import check_syntax, clean_input, split_array, split_object
from steno.content import Opaque
from steno.entry import Payload
from steno.errors import InvalidDocument, InvalidValue
from steno.json_object import JsonObject, is_json_text, skim_object
from steno.value import NOTHING, Verbatim

Object: TypeAlias = dict[str, bytes]
"""The members of a JSON object, each as text; of two that share a name, the second."""

ZERO_TIME: Final = b'"0001-01-01T00:00:00Z"'
"""How a time is written that was never set."""

write: Final = msgspec.json.encode
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)


# -- reading ---------------------------------------------------------------------------------


def read_input(data: bytes) -> bytes:
    """Return what is to be read, as UTF-8. Raises InvalidDocument if it is not JSON."""
    raw = clean(data)
    check_syntax(raw)
    return raw


def clean(data: bytes) -> bytes:
    """Return UTF-8 without a byte order mark; halves of surrogate pairs are replaced, and told."""
    raw, replaced = clean_input(data)
    if replaced:
        import logging  # noqa: PLC0415 - only when needed, as in the codec

        logging.getLogger("steno.formats").warning("replaced %d lone surrogates", replaced)
    return raw


def object_at(raw: bytes, place: str) -> Object:
    """Return the members of an object. Raises InvalidDocument."""
    members = split_object(raw)
    if members is None:
        raise InvalidDocument(f"{place}: must be an object")
    return {name: value for name, _, value in members}


def array_at(raw: bytes, place: str) -> list[bytes]:
    """Return the elements of an array. Raises InvalidDocument."""
    parts = split_array(raw)
    if parts is None:
        raise InvalidDocument(f"{place}: must be an array")
    return parts


def string_at(raw: bytes | None, place: str) -> str | None:
    """Return a string; None for null and for what is not there. Raises InvalidDocument."""
    if raw is None or raw == b"null":
        return None
    try:
        return msgspec.json.decode(raw, type=str)
    except _UNREADABLE:
        raise InvalidDocument(f"{place}: must be a string") from None


def time_at(raw: bytes | None, place: str) -> datetime | None:
    """Return a moment; None where it was never set. Raises InvalidDocument."""
    if raw is None or raw in (b"null", b'""', ZERO_TIME):
        return None
    moment = moment_of(raw)
    if moment is None:
        raise InvalidDocument(f"{place}: must be a time with a zone, as 2026-02-18T12:00:00Z")
    return moment


def moment_of(raw: bytes) -> datetime | None:
    """Return the moment that a string names; None if it names none."""
    try:
        text = msgspec.json.decode(raw, type=str)
        moment = _rfc3339(raw) or datetime.fromisoformat(text)
        return None if moment.tzinfo is None else moment.astimezone(UTC)
    except (*_UNREADABLE, ValueError, OverflowError):
        return None


def _rfc3339(raw: bytes) -> datetime | None:
    try:
        return msgspec.json.decode(raw, type=datetime)
    except msgspec.MsgspecError:
        return None


def json_at(members: Object, place: str) -> JsonObject:
    """Return members as JSON that is read-only. Raises InvalidDocument."""
    with reading(place):
        return JsonObject.parse(write_object(members))


def payload_at(raw: bytes, place: str) -> Payload:
    """Return a payload from its canonical JSON. Raises InvalidDocument."""
    entry = decode_entry(b'{"v":2,"id":"payload","payload":' + raw + b"}")
    if not entry.is_understood:
        raise InvalidDocument(f"{place}: is no payload of an entry")
    return entry.payload


@contextmanager
def reading(place: str) -> Generator[None]:
    """Let what breaks a rule of the vocabulary be a fault of the document at this place."""
    try:
        yield
    except InvalidDocument:
        raise
    except InvalidValue as exc:
        raise InvalidDocument(f"{place}: {exc}") from None


def words_of_others(payload: Payload, origin: str) -> bytes | None:
    """Return the JSON of a payload that only the format it came from understands."""
    if isinstance(payload, Opaque) and payload.origin == origin and is_json_text(payload.raw):
        return payload.raw.strip().encode()
    return None


def as_object(value: Mapping[str, object] | None) -> JsonObject:
    """Return a mapping as JSON; one that is not there as an empty object."""
    return value if isinstance(value, JsonObject) else JsonObject(value)


# -- writing ---------------------------------------------------------------------------------


def write_object(members: Mapping[str, bytes], unknown: Verbatim = NOTHING) -> bytes:
    """Put members together; what came with a value and has no name of ours stands last."""
    theirs = unknown_names(unknown) if unknown else ()
    parts = [write(name) + b":" + value for name, value in members.items() if name not in theirs]
    if unknown:
        parts.append(unknown.text.encode())
    return b"{" + b",".join(parts) + b"}"


def unknown_names(unknown: Verbatim) -> frozenset[str]:
    """Return the names of what came with a value and has no name of ours."""
    members = split_object(b"{" + unknown.text.encode() + b"}") or []
    return frozenset(member.name for member in members)


def write_array(parts: Iterable[bytes]) -> bytes:
    """Put elements together."""
    return b"[" + b",".join(parts) + b"]"


def write_time(moment: datetime | None) -> bytes:
    """Write a moment in UTC, or the time that was never set."""
    return ZERO_TIME if moment is None else write(moment)


def object_text(arguments: str) -> bytes | None:
    """Return the arguments of a call as the object that they are; None if they are none."""
    try:
        skim_object(arguments)
    except _UNREADABLE:
        return None
    return arguments.encode().strip()


# -- what would be written otherwise ---------------------------------------------------------


def differences(original: Object, plain: Object) -> dict[str, str | None]:
    """Return the members that `plain` does not say as they were; None for those not there."""
    return {
        name: None if name not in original else original[name].decode()
        for name in (*original, *(name for name in plain if name not in original))
        if name not in original or name not in plain or not _is_same(original[name], plain[name])
    }


def put_back(plain: Object, kept: Any) -> Object | None:
    """Undo what `differences` found; None if `kept` is not something that it returned."""
    if not isinstance(kept, Mapping):
        return None
    restored = dict(plain)
    for name, text in kept.items():
        if text is None:
            restored.pop(name, None)
        elif isinstance(text, str) and is_json_text(text):
            restored[name] = text.encode()
        else:
            return None
    return restored


def _is_same(one: bytes, other: bytes) -> bool:
    return one == other or _canonical(one) == _canonical(other)


def _canonical(raw: bytes) -> bytes:
    try:
        return write(msgspec.json.decode(raw), order="sorted")
    except _UNREADABLE:
        return raw
