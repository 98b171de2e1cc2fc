"""Structs that keep what they have no name for: how every wire reads JSON.

The fast decoder is strict. What it stumbles over is read member by member: a member without a
name here, or of another shape than ours, goes into `rest` as the text it was. A wire takes what
it needs and loses nothing, however a server extends its format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import UnionType
from typing import Any, Final, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Raw, Struct

from steno.errors import ProtocolError
from steno.json_object import check_depth, replace_lone_escapes

T = TypeVar("T")
S = TypeVar("S", bound="Open")

Rest = dict[str, Raw]

_BOM: Final = b"\xef\xbb\xbf"

NOT_AS_EXPECTED: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""What decoding JSON may raise."""


class Open(Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """The base of what wires read."""

    rest: Rest | None = msgspec.field(default=None, name="$rest")
    """Members without a name here, as they came."""


def reader(cls: type[S], what: str) -> Callable[[bytes | Raw], S]:
    """Return a function that reads JSON as `cls`; `what` names it in a ProtocolError."""
    decode = msgspec.json.Decoder(cls).decode

    def read(data: bytes | Raw) -> S:
        try:
            return decode(data)
        except NOT_AS_EXPECTED:
            return _read_whole(data, cls, what)

    return read


def read_members(data: bytes | Raw | str, what: str) -> Rest:
    """Read any JSON object as its members, each as the text it was. Raises ProtocolError."""
    try:
        return _members(data)
    except NOT_AS_EXPECTED as exc:
        raise ProtocolError(f"{what}: {explain(exc)}") from None


def read_as(data: bytes | Raw | None, hint: type[T]) -> T | None:
    """Read a value if it is there and of that type."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=hint)
    except NOT_AS_EXPECTED:
        return None


def text_of(data: bytes | Raw) -> str:
    """Return the text of JSON that was decoded before, and so is UTF-8."""
    return bytes(data).decode()


def parsed(rest: Mapping[str, Raw] | None) -> dict[str, Any]:
    """Return members as Python values; what Python has no value for stays text."""
    return {name: _parsed(text) for name, text in (rest or {}).items()}


def _parsed(text: Raw) -> Any:
    try:
        return msgspec.json.decode(text)
    except NOT_AS_EXPECTED:  # nested too deeply, or a number beyond all bounds
        return bytes(text).decode(errors="replace")


def parsed_extras(rest: Mapping[str, Raw] | None) -> dict[str, Any]:
    """Return members as Python values that extras can hold; what is too deep for them stays text."""
    found = parsed(rest)
    for name, value in found.items():
        try:
            check_depth({"": {"": {"": value}}})  # so deep it may come to stand
        except RecursionError:
            found[name] = text_of((rest or {})[name])
    return found


def mend(data: bytes, what: str) -> bytes:
    """Return JSON that can be read to its last string: without lone surrogates.

    A byte order mark and blanks at the end go as well. Raises ProtocolError if it is not UTF-8.
    """
    try:
        data.decode()
    except UnicodeError as exc:
        raise ProtocolError(f"{what}: {explain(exc)}") from None
    return replace_lone_escapes(data.removeprefix(_BOM).rstrip())[0]


def text_with_halves(data: bytes, *path: str | int) -> str | None:
    """Return the text at a path as it was before `mend`: half a pair may be the next chunk's."""
    try:
        found = json.loads(data.removeprefix(_BOM))  # msgspec takes no halves
        for name in path:
            found = found[name]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    return found if isinstance(found, str) else None


def explain(exc: Exception) -> str:
    """Say why JSON could not be read, without quoting it."""
    if isinstance(exc, RecursionError):
        return "nested too deeply"
    if isinstance(exc, UnicodeError):
        return "not UTF-8"
    if isinstance(exc, msgspec.ValidationError):
        return f"not as expected: {exc}"
    return f"not JSON: {exc}"


# -- the slow path ---------------------------------------------------------------------------

_members = msgspec.json.Decoder(Rest).decode
_elements = msgspec.json.Decoder(list[Raw]).decode


class _Field(NamedTuple):
    """How to read one member."""

    attribute: str
    hint: Any
    nested: type[Open] | None
    is_list: bool
    is_required: bool


def _read_whole(data: bytes | Raw, cls: type[S], what: str) -> S:
    try:
        return _read_open(data, cls)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError) as exc:
        raise ProtocolError(f"{what}: {explain(exc)}") from None


def _read_open(data: bytes | Raw, cls: type[S]) -> S:
    fields = _fields(cls)
    known: dict[str, Any] = {}
    rest: Rest = {}
    for name, text in _members(data).items():
        field = fields.get(name)
        if field is None:
            rest[name] = text
            continue
        try:
            known[field.attribute] = _read_field(text, field)
        except msgspec.ValidationError:
            if field.is_required:
                raise
            rest[name] = text
    return cls(**known, rest=rest or None)


def _read_field(text: Raw, field: _Field) -> Any:
    if field.nested is None or bytes(text) == b"null":
        return msgspec.json.decode(text, type=field.hint)
    if field.is_list:
        return [_read_open(element, field.nested) for element in _elements(text)]
    return _read_open(text, field.nested)


@lru_cache(maxsize=128)
def _fields(cls: type[Open]) -> dict[str, _Field]:
    hints = get_type_hints(cls, include_extras=True)
    found: dict[str, _Field] = {}
    for info in msgspec.structs.fields(cls):
        if info.name == "rest":
            continue
        hint = hints[info.name]
        options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        lists = [get_args(option)[0] for option in options if get_origin(option) is list]
        nested = [o for o in (*options, *lists) if isinstance(o, type) and issubclass(o, Open)]
        found[info.encode_name] = _Field(
            info.name, hint, nested[0] if nested else None, bool(lists), info.required
        )
    return found


# -- back again ------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Return what was read as Python values, with the rest in its place and nothing made up."""
    if isinstance(value, Open):
        members = {
            name: plain(found)
            for attribute, name in zip(
                value.__struct_fields__, value.__struct_encode_fields__, strict=True
            )
            if attribute != "rest" and (found := getattr(value, attribute)) is not None
        }
        return {**members, **parsed(value.rest)}
    if isinstance(value, list):
        return [plain(element) for element in value]
    return value
