"""Structs that keep what they have no name for: how every wire reads JSON.

The fast decoder is strict. What it stumbles over is read member by member: a member without a
name here, or of another shape than ours, goes into `rest` as the text it was. A wire takes what
it needs and loses nothing, however a server extends its format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping
from functools import lru_cache
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    final,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Raw, Struct

from steno.errors import ProtocolError
from steno.json_object import check_depth, replace_lone_surrogate_escapes
from steno.wire.extras import FORM_KEY

T = TypeVar("T")
S = TypeVar("S", bound="TolerantStruct")

RawMembers = dict[str, Raw]

_BOM: Final = b"\xef\xbb\xbf"

DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""What decoding JSON may raise."""

if TYPE_CHECKING:
    _NeverDecoded: TypeAlias = RawMembers | None
else:

    class _NeverDecoded:
        """What no JSON is read as: what a server calls `rest` is without a name here as well."""


class TolerantStruct(Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """The base of what wires read."""

    rest: _NeverDecoded = None
    """Members without a name here, as they came."""


def build_reader(cls: type[S], what: str) -> Callable[[bytes | Raw], S]:
    """Return a function that reads JSON as `cls`; `what` names it in a ProtocolError."""
    decode = msgspec.json.Decoder(cls).decode
    read_by_member = build_slow_reader(cls, what)

    def read(data: bytes | Raw) -> S:
        try:
            return decode(data)
        except DECODE_ERRORS:
            return read_by_member(data)

    return read


def build_slow_reader(cls: type[S], what: str) -> Callable[[bytes | Raw], S]:
    """Return the same for what the strict decoder is known to stumble over: it is not tried."""

    def read(data: bytes | Raw) -> S:
        try:
            return _read_by_member(data, cls)
        except (*DECODE_ERRORS, TypeError) as exc:
            raise ProtocolError(f"{what}: {explain_decode_error(exc)}") from None

    return read


def read_members(data: bytes | Raw | str, what: str) -> RawMembers:
    """Read any JSON object as its members, each as the text it was. Raises ProtocolError."""
    try:
        return _decode_members(data)
    except DECODE_ERRORS as exc:
        raise ProtocolError(f"{what}: {explain_decode_error(exc)}") from None


def read_as(data: bytes | Raw | None, hint: type[T]) -> T | None:
    """Read a value if it is there and of that type."""
    if data is None:
        return None
    decode: Callable[[bytes | Raw], T] = _cached_decoder(cast("Any", hint))
    try:
        return decode(data)
    except DECODE_ERRORS:
        return None


@lru_cache(maxsize=128)
def _cached_decoder(hint: Any) -> Callable[[bytes | Raw], Any]:
    return msgspec.json.Decoder(hint).decode


def raw_text(data: bytes | Raw) -> str:
    """Return the text of JSON that was decoded before, and so is UTF-8."""
    return bytes(data).decode()


def parse_members(rest: Mapping[str, Raw] | None) -> dict[str, Any]:
    """Return members as Python values; what Python has no value for stays text."""
    return {name: _parse_value(text) for name, text in (rest or {}).items()}


def _parse_value(text: Raw) -> Any:
    try:
        return msgspec.json.decode(text)
    except DECODE_ERRORS:  # nested too deeply, or a number beyond all bounds
        return bytes(text).decode(errors="replace")


def parse_extras(rest: Mapping[str, Raw] | None) -> dict[str, Any]:
    """Return members as Python values that extras can hold; what is too deep for them stays text.

    Raises ProtocolError for a name of ours, under which notes of ours would be looked for.
    """
    found = parse_members(rest)
    check_reserved_names(found)
    for name, value in found.items():
        try:
            check_depth({"": {"": {"": value}}})  # so deep it may come to stand
        except RecursionError:
            found[name] = raw_text((rest or {})[name])
    return found


def check_reserved_names(members: Container[str]) -> None:
    """Refuse members of an answer that would be taken for ours. Raises ProtocolError."""
    if FORM_KEY in members:
        raise ProtocolError(f"answer: a member of the name {FORM_KEY} is ours alone")


def repair_json(data: bytes, what: str) -> bytes:
    """Return JSON that can be read to its last string: without lone surrogates.

    A byte order mark and blanks at the end go as well. Raises ProtocolError if it is not UTF-8.
    """
    try:
        data.decode()
    except UnicodeError as exc:
        raise ProtocolError(f"{what}: {explain_decode_error(exc)}") from None
    return replace_lone_surrogate_escapes(data.removeprefix(_BOM).rstrip())[0]


@final
class SplitSurrogates:
    """JSON as it was before `repair_json`: half of a pair in it may be waiting for the next chunk."""

    def __init__(self, data: bytes) -> None:
        """Read it once, whatever is looked for in it."""
        try:
            self._found: Any = json.loads(data.removeprefix(_BOM))  # msgspec takes no halves
        except (ValueError, RecursionError):
            self._found = None

    def text_at(self, *path: str | int) -> str | None:
        """Return the text at a path; None if there is none."""
        found = self._found
        try:
            for name in path:
                found = found[name]
        except (LookupError, TypeError):
            return None
        return found if isinstance(found, str) else None


def read_split_text(data: bytes, *path: str | int) -> str | None:
    """Return the only text that is looked for in JSON, as it was before `repair_json`."""
    return SplitSurrogates(data).text_at(*path)


def explain_decode_error(exc: Exception) -> str:
    """Say why JSON could not be read, without quoting it."""
    if isinstance(exc, RecursionError):
        return "nested too deeply"
    if isinstance(exc, UnicodeError):
        return "not UTF-8"
    if isinstance(exc, msgspec.ValidationError):
        return f"not as expected: {exc}"
    return f"not JSON: {exc}"


# -- the slow path ---------------------------------------------------------------------------

NULL: Final = Raw(b"null")

_decode_members = msgspec.json.Decoder(RawMembers).decode
_decode_elements = msgspec.json.Decoder(list[Raw]).decode


class _FieldReader(NamedTuple):
    """How to read one member."""

    attribute: str
    read: Callable[[Raw], Any]
    is_required: bool


def _read_by_member(data: bytes | Raw, cls: type[S]) -> S:
    fields = _field_readers(cls)
    known: dict[str, Any] = {}
    rest: RawMembers = {}
    for name, text in _decode_members(data).items():
        field = fields.get(name)
        if field is None:
            rest[name] = text
            continue
        try:
            known[field.attribute] = field.read(text)
        except msgspec.ValidationError:
            if field.is_required:
                raise
            rest[name] = text
    return cls(**known, rest=rest or None)


@lru_cache(maxsize=128)
def _field_readers(cls: type[TolerantStruct]) -> dict[str, _FieldReader]:
    hints = get_type_hints(cls, include_extras=True)
    return {
        info.encode_name: _FieldReader(
            info.name, _build_field_reader(hints[info.name]), info.required
        )
        for info in msgspec.structs.fields(cls)
        if info.name != "rest"
    }


def _build_field_reader(hint: Any) -> Callable[[Raw], Any]:
    decode = _cached_decoder(hint)
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    lists = [get_args(option)[0] for option in options if get_origin(option) is list]
    nested = [
        o for o in (*options, *lists) if isinstance(o, type) and issubclass(o, TolerantStruct)
    ]
    if not nested:
        return decode
    cls = nested[0]

    def read(text: Raw) -> Any:
        if text == NULL:
            return decode(text)
        if lists:
            return [_read_by_member(element, cls) for element in _decode_elements(text)]
        return _read_by_member(text, cls)

    return read


# -- back again ------------------------------------------------------------------------------


def to_builtins(value: Any) -> Any:
    """Return what was read as Python values, with the rest in its place and nothing made up."""
    if isinstance(value, TolerantStruct):
        members = {
            name: to_builtins(found)
            for attribute, name in zip(
                value.__struct_fields__, value.__struct_encode_fields__, strict=True
            )
            if attribute != "rest" and (found := getattr(value, attribute)) is not None
        }
        return {**members, **parse_members(value.rest)}
    if isinstance(value, list):
        return [to_builtins(element) for element in value]
    return value
