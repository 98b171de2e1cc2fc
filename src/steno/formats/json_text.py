"""Split and join the JSON of other programs as text, decoding only the values that are needed.

Members that steno would write differently are stored as text, so that an imported file is
exported unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from steno.codec.canonical_json import (
    Document,
    decode_conversation,
    decode_entry_silently,
    log_warning,
    warn_about_surrogates,
)
from steno.codec.json_scanner import check_syntax, clean_input, split_array, split_object
from steno.errors import InvalidDocument, InvalidValue
from steno.json_object import JsonObject, check_object_syntax, is_json_text
from steno.messages.content import Opaque
from steno.records.entry import Entry, Payload
from steno.schema.msgspec_errors import read_syntax_error
from steno.values import NOTHING, RawJson

JsonMembers: TypeAlias = dict[str, bytes]
"""The members of a JSON object, by name, as JSON text; the last of duplicate members is used."""
UNSET_TIME: Final = b'"0001-01-01T00:00:00Z"'
"""The JSON of a time that is not set, which is the zero time of Go programs."""
write_json: Final = msgspec.json.encode
_ELEMENT_PLACE: Final = re.compile(r"\$?(?:\.entries)?\[(\d+)\](?:\.payload)?\.?(.*)", re.DOTALL)
"""The place of an element of an array, or of the entry that it becomes in a document."""
_DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)


# -- reading ---------------------------------------------------------------------------------


class JsonInput(NamedTuple):
    """The JSON of a file, as UTF-8 without lone surrogates."""

    raw: bytes
    """The JSON; an array if the file has one object on each line."""
    lines: Sequence[int] = ()
    """The number of the line of each element; empty if the file is not a file of lines."""

    def find_place(self, place: str) -> str:
        """Return the place in the file for a place in the JSON, such as `line 2: message`."""
        found = _ELEMENT_PLACE.match(place) if self.lines else None
        if found is None:
            return place
        return ": ".join(filter(None, (f"line {self.lines[int(found[1])]}", found[2])))


def read_json_input(data: bytes) -> bytes:
    """Return the JSON of a file, as `read_json_file` does."""
    return read_json_file(data).raw


def read_json_file(data: bytes) -> JsonInput:
    """Read the JSON of a file; objects on separate lines become an array.

    If lone surrogates are replaced, a warning is logged. Raises InvalidDocument, with the place, if
    the file is empty or not JSON.
    """
    raw, replaced = clean_input(data)
    if replaced:
        warn_about_surrogates(replaced)
    if not raw.strip():
        raise InvalidDocument("the file is empty", code="input_empty")
    try:
        check_syntax(raw)
    except InvalidDocument:
        if not _has_object_lines(raw):
            raise
    else:
        return JsonInput(raw)
    parts: list[bytes] = []
    lines: list[int] = []
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if line.strip():
            _check_line(line, number)
            parts.append(line.strip())
            lines.append(number)
    return JsonInput(write_array(parts), lines)


def _check_line(line: bytes, number: int) -> None:
    """Raise InvalidDocument, with the number of the line, if a line is not JSON."""
    if is_json_text(line.decode()):
        return
    rule = "syntax error in deeply nested data"
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except RecursionError:
        pass
    except msgspec.DecodeError as exc:
        rule, byte = read_syntax_error(exc)
        if byte is not None:
            rule += f" (column {len(line[:byte].decode(errors='replace')) + 1})"
    raise InvalidDocument(f"not valid JSON: {rule}", code="not_json", place=f"line {number}")


def _has_object_lines(raw: bytes) -> bool:
    """Return whether there are several lines, and the first one is an object."""
    first, _, rest = raw.strip().partition(b"\n")
    return bool(rest) and first.startswith(b"{") and is_json_text(first.decode())


def decode_messages_of_file(file: JsonInput, raw: bytes, place: str) -> Document:
    """Decode messages as `decode_conversation` does; warnings name the lines of a file of lines.

    `raw` is a document or an array with the messages of the file.
    """

    def warn(place: str, code: str, text: str, *, tag: str = "") -> None:
        log_warning(file.find_place(place), code, text, tag=tag)

    return decode_conversation(raw, "$[{}]" if file.lines else place, warn)


def parse_object(raw: bytes, place: str) -> JsonMembers:
    """Return the members of a JSON object. Raises InvalidDocument if `raw` is not an object."""
    members = split_object(raw)
    if members is None:
        raise InvalidDocument("must be an object", code="not_an_object", place=place)
    return {name: value for name, _, value in members}


def parse_array(raw: bytes, place: str) -> list[bytes]:
    """Return the elements of a JSON array. Raises InvalidDocument if `raw` is not an array."""
    parts = split_array(raw)
    if parts is None:
        raise InvalidDocument("must be an array", code="not_an_array", place=place)
    return parts


def parse_string(raw: bytes | None, place: str) -> str | None:
    """Return a JSON string, or None if it is null or missing.

    Raises InvalidDocument if the value has another type.
    """
    return None if raw is None or raw == b"null" else require_string(raw, place)


def require_string(raw: bytes | None, place: str) -> str:
    """Return a JSON string. Raises InvalidDocument if it is null, missing or of another type."""
    try:
        return msgspec.json.decode(raw or b"null", type=str)
    except _DECODE_ERRORS:
        raise InvalidDocument("must be a string", code="not_a_string", place=place) from None


def parse_time(raw: bytes | None, place: str) -> datetime | None:
    """Return a time in UTC; None if it is missing, null, empty or `UNSET_TIME`.

    Raises InvalidDocument if the value is not a time with a time zone.
    """
    if raw is None or raw in (b"null", b'""', UNSET_TIME):
        return None
    moment = try_parse_time(raw)
    if moment is None:
        raise InvalidDocument(
            "must be a time with a time zone, such as 2026-02-18T12:00:00Z",
            code="time_invalid",
            place=place,
        )
    return moment


def try_parse_time(raw: bytes) -> datetime | None:
    """Return the time in a JSON string, in UTC.

    Return None for `UNSET_TIME` and for a value that is not a time with a time zone.
    """
    if raw == UNSET_TIME:
        return None
    try:
        text = msgspec.json.decode(raw, type=str)
        try:
            moment = msgspec.json.decode(raw, type=datetime)
        except msgspec.MsgspecError:  # msgspec accepts only RFC 3339
            moment = datetime.fromisoformat(text)
        return None if moment.tzinfo is None else moment.astimezone(UTC)
    except (*_DECODE_ERRORS, ValueError, OverflowError):
        return None


def build_json_object(members: JsonMembers, place: str) -> JsonObject:
    """Return members as a read-only JSON object. Raises InvalidDocument if it is invalid."""
    with report_invalid_at(place):
        return JsonObject.parse(write_object(members))


def parse_payload(raw: bytes) -> Payload | None:
    """Decode a payload in the stored format; None if it is invalid."""
    entry = decode_entry_silently(b'{"v":2,"id":"payload","payload":' + raw + b"}")
    return entry.payload if entry.is_understood else None


@contextmanager
def report_invalid_at(place: str) -> Generator[None]:
    """Convert an InvalidValue that is raised inside the block to InvalidDocument at `place`."""
    try:
        yield
    except InvalidDocument:
        raise
    except InvalidValue as exc:
        raise InvalidDocument(str(exc), code=exc.code, place=place) from None


def opaque_entry(entry: Entry, raw: bytes, origin: str) -> Entry:
    """Return a copy of an entry whose payload stores `raw`, the JSON of an unknown message.

    `origin` names the format that wrote the JSON.
    """
    payload = entry.payload
    kind = payload.kind if isinstance(payload, Opaque) else ""
    return Entry(
        id=entry.id,
        parent=entry.parent,
        time=entry.time,
        payload=Opaque(kind=kind, raw=raw.decode(), origin=origin),
    )


def foreign_json(payload: Payload, origin: str) -> bytes | None:
    """Return the JSON of an opaque payload of the format `origin`; None for any other payload."""
    if isinstance(payload, Opaque) and payload.origin == origin and is_json_text(payload.raw):
        return payload.raw.strip().encode()
    return None


# -- writing ---------------------------------------------------------------------------------


def write_object(members: Mapping[str, bytes], unknown: RawJson = NOTHING) -> bytes:
    """Join members into a JSON object, followed by the unknown members of a value.

    An unknown member replaces a member of the same name.
    """
    foreign = unknown_names(unknown) if unknown else ()
    parts = [
        write_json(name) + b":" + value for name, value in members.items() if name not in foreign
    ]
    if unknown:
        parts.append(unknown.text.encode())
    return b"{" + b",".join(parts) + b"}"


def unknown_names(unknown: RawJson) -> frozenset[str]:
    """Return the names of the unknown members of a value."""
    members = split_object(b"{" + unknown.text.encode() + b"}") or []
    return frozenset(member.name for member in members)


def write_array(parts: Iterable[bytes]) -> bytes:
    """Join JSON texts into an array."""
    return b"[" + b",".join(parts) + b"]"


def write_time(moment: datetime | None) -> bytes:
    """Write a time in UTC; None is written as `UNSET_TIME`."""
    return UNSET_TIME if moment is None else write_json(moment)


def arguments_object(arguments: str) -> bytes | None:
    """Return the arguments of a call as JSON; None if they are not a JSON object."""
    try:
        check_object_syntax(arguments)
    except _DECODE_ERRORS:
        return None
    return arguments.encode().strip()


# -- members that would be written differently -----------------------------------------------


def changed_members(original: JsonMembers, plain: JsonMembers) -> dict[str, str | None]:
    """Return the original text of the members that differ from `plain`.

    The value is None for a member that only `plain` has.
    """
    changed: dict[str, str | None] = {}
    for name in original | plain:
        before, after = original.get(name), plain.get(name)
        if before is None:
            changed[name] = None
        elif after is None or (before != after and normalize_json(before) != normalize_json(after)):
            changed[name] = before.decode()
    return changed


def restore_members(plain: JsonMembers, changed: Any) -> JsonMembers | None:
    """Apply `changed`, a result of `changed_members`, to `plain`; None if `changed` is invalid."""
    if not isinstance(changed, Mapping):
        return None
    restored = dict(plain)
    for name, text in changed.items():
        if text is None:
            restored.pop(name, None)
        elif isinstance(text, str) and is_json_text(text):
            restored[name] = text.encode()
        else:
            return None
    return restored


def normalize_json(raw: bytes) -> bytes:
    """Return JSON without white space and with sorted members; unchanged if it is too deep."""
    try:
        return write_json(msgspec.json.decode(raw), order="sorted")
    except _DECODE_ERRORS:
        return raw
