"""Structs that preserve unknown members, and functions that decode JSON to them.

The fast decoder is strict. JSON that it rejects is read member by member: a member that the struct
does not declare, or whose type differs from the declared one, is stored in `rest` as JSON text. So
no member is lost if a server extends its format. A required member of another type is an error.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Container, Mapping
from functools import lru_cache
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
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
from msgspec import Meta, Raw, Struct

from steno.errors import ProtocolError
from steno.json_object import check_depth, replace_lone_surrogate_escapes
from steno.values import FORM_KEY
from steno.wire.extras import Members, is_nonempty

T = TypeVar("T")
S = TypeVar("S", bound="TolerantStruct")

RawMembers = dict[str, Raw]
BlockIndex: TypeAlias = Annotated[int, Meta(ge=0)]
"""The index of a block or a call; a negative number counts as a member of another type."""

DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""The exceptions that decoding JSON may raise."""
NULL: Final = Raw(b"null")

decode_members: Final = msgspec.json.Decoder(RawMembers).decode
decode_elements: Final = msgspec.json.Decoder(list[Raw]).decode

if TYPE_CHECKING:
    _NeverDecoded: TypeAlias = RawMembers | None
else:

    class _NeverDecoded:
        """A type that no JSON decodes to, so that a JSON member named `rest` counts as unknown."""


class TolerantStruct(Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """The base class of the structs that wires decode from JSON, with unknown members in `rest`."""

    growing: ClassVar[tuple[str, ...]] = ()
    """The names of text members that arrive in chunks, which may split a surrogate pair."""
    rest: _NeverDecoded = None
    """Members that are not declared, or of another type, as JSON text; None if there are none."""


# -- reading ---------------------------------------------------------------------------------


def build_reader(cls: type[S], place: str) -> Callable[[bytes | Raw], S]:
    """Return a function that decodes JSON as `cls`.

    The function raises ProtocolError, with this `place`, if the JSON cannot be decoded.
    """
    decode = msgspec.json.Decoder(cls).decode
    read_by_member = build_slow_reader(cls, place)

    def read(data: bytes | Raw) -> S:
        try:
            return decode(data)
        except DECODE_ERRORS:
            return read_by_member(data)

    return read


def build_slow_reader(cls: type[S], place: str) -> Callable[[bytes | Raw], S]:
    """Return a function that decodes JSON as `cls` member by member.

    Use it for JSON that the strict decoder has rejected.
    """

    def read(data: bytes | Raw) -> S:
        try:
            return _read_by_member(data, cls)
        except (*DECODE_ERRORS, TypeError) as exc:
            raise build_protocol_error(exc, place) from None

    return read


def read_members(data: bytes | Raw | str, place: str) -> RawMembers:
    """Return the members of an object as JSON text. Raises ProtocolError for any other data."""
    try:
        return decode_members(data)
    except DECODE_ERRORS as exc:
        raise build_protocol_error(exc, place) from None


def read_as(data: bytes | Raw | None, hint: type[T]) -> T | None:
    """Decode JSON as the type `hint`; None if it is absent or of another type."""
    if data is None:
        return None
    decode: Callable[[bytes | Raw], T] = _cached_decoder(cast("Any", hint))
    try:
        return decode(data)
    except DECODE_ERRORS:
        return None


def take_member(members: RawMembers, name: str, hint: type[T]) -> T | None:
    """Remove and return a member if it has the type `hint`; otherwise keep it and return None."""
    value = read_as(members.get(name), hint)
    if value is not None:
        del members[name]
    return value


def take_index(members: RawMembers) -> int | None:
    """Remove and return the index of a block; None if it is missing or not a valid index."""
    return take_member(members, "index", cast("type[int]", BlockIndex))


@lru_cache(maxsize=128)
def _cached_decoder(hint: Any) -> Callable[[bytes | Raw], Any]:
    return msgspec.json.Decoder(hint).decode


def raw_text(data: bytes | Raw) -> str:
    """Return JSON as text; it was decoded before, so it is valid UTF-8."""
    return bytes(data).decode()


def read_arguments_text(raw: Raw) -> str:
    """Return the arguments of a complete call as JSON text; empty for null.

    Some servers send the arguments as an object, others as a string that contains JSON.
    """
    text = raw_text(raw)
    if text == "null":
        return ""
    return read_as(raw, str) or "" if text.startswith('"') else text


class _FieldReader(NamedTuple):
    """The attribute that stores a member, its decoder, and whether the member is required."""

    attribute: str
    read: Callable[[Raw], Any]
    is_required: bool


def _read_by_member(data: bytes | Raw, cls: type[S]) -> S:
    fields = _field_readers(cls)
    known: Members = {}
    rest: RawMembers = {}
    for name, text in decode_members(data).items():
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
            return [_read_by_member(element, cls) for element in decode_elements(text)]
        return _read_by_member(text, cls)

    return read


# -- Python values ---------------------------------------------------------------------------


def parse_value(text: Raw) -> Any:
    """Decode JSON to a Python value; return its text if it cannot be decoded."""
    try:
        return msgspec.json.decode(text)
    except DECODE_ERRORS:  # nested too deeply, or a number out of range
        return bytes(text).decode(errors="replace")


def parse_members(members: Mapping[str, Raw] | None) -> Members:
    """Return members as Python values."""
    return {name: parse_value(text) for name, text in (members or {}).items()}


def parse_extras(members: Mapping[str, Raw] | None) -> Members:
    """Return members as Python values for extras; JSON nested too deeply for extras stays text.

    Raises ProtocolError if a member has a name that is reserved for steno.
    """
    found = parse_members(members)
    check_reserved_names(found)
    for name, value in found.items():
        try:
            check_depth({"": {"": {"": value}}})  # the levels that extras may add around a value
        except RecursionError:
            found[name] = raw_text((members or {})[name])
    return found


def check_reserved_names(members: Container[str]) -> None:
    """Raise ProtocolError if a member of a response has a name that is reserved for steno."""
    if FORM_KEY in members:
        raise ProtocolError(
            f"the member name {FORM_KEY} is reserved for steno",
            code="reserved_name",
            place="answer",
        )


def to_builtins(value: Any) -> Any:
    """Convert a struct to Python values, including `rest`; members that are None are omitted."""
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


# -- metadata in parts -----------------------------------------------------------------------

_EMPTY_JSON: Final = frozenset({b"", b"null", b'""', b"[]", b"{}"})
_MAX_EMPTY_LENGTH: Final = 80
"""JSON above this length counts as nonempty; no server pads an empty value with as much space."""


@final
class MergedExtras:
    """Merges response metadata that arrives in several chunks, such as log probabilities.

    Objects are merged and lists are appended; for any other value, the latest part is used. An
    empty part changes nothing. Parts stay JSON text until they are merged.
    """

    def __init__(self, *, repeated: Collection[str] = (), growing: Collection[str] = ()) -> None:
        """Start without parts.

        For a member in `repeated`, servers may send all earlier parts again. `growing` contains the
        names of texts inside a member; each part continues the text of the previous part.
        """
        self._parts: dict[str, list[Raw]] = {}
        self._repeated = repeated
        self._growing = growing
        self._growing_marks = (b"[", *(name.encode() for name in growing))
        """Byte strings that mark a part as new content, even if it equals the previous part."""

    def __contains__(self, name: str) -> bool:
        return name in self._parts

    def add(self, members: Mapping[str, Raw] | None) -> None:
        """Add parts of members, each as JSON text."""
        for name, text in (members or {}).items():
            parts = self._parts.get(name)
            if parts is None or (is_nonempty_json(text) and bytes(text)[:1] not in b"[{"):
                self._parts[name] = [text]
            elif not self._is_unchanged_member(name, text):
                parts.append(text)

    def is_unchanged(self, members: Mapping[str, Raw] | None) -> bool:
        """Return whether adding the members would change nothing."""
        return all(self._is_unchanged_member(name, text) for name, text in (members or {}).items())

    def merged(self, names: Collection[str] | None = None) -> Members:
        """Return the merged members, or only those in `names`, as values for extras."""
        return {
            name: self._merge_parts(name, parts)
            for name, parts in self._parts.items()
            if names is None or name in names
        }

    def _is_unchanged_member(self, name: str, text: Raw) -> bool:
        parts = self._parts.get(name)
        if parts is None or not is_nonempty_json(text):
            return parts is not None
        return parts[-1] == text and not any(mark in bytes(text) for mark in self._growing_marks)

    def _merge_parts(self, name: str, parts: list[Raw]) -> Any:
        found = None
        grown: dict[str, list[str]] = {}
        for part in parse_extras({str(at): text for at, text in enumerate(parts)}).values():
            for growing in self._growing if isinstance(part, dict) else ():
                if isinstance(part.get(growing), str):
                    grown.setdefault(growing, []).append(part[growing])
            found = merge_values(found, part, is_repeated=name in self._repeated)
        if isinstance(found, dict):
            found |= {growing: "".join(texts) for growing, texts in grown.items()}
        return found


def is_nonempty_json(text: Raw) -> bool:
    """Return whether JSON is neither null nor an empty string, list or object."""
    if len(text) > _MAX_EMPTY_LENGTH:
        return True
    return b"".join(bytes(text).split()) not in _EMPTY_JSON


def merge_values(before: Any, more: Any, *, is_repeated: bool = False) -> Any:
    """Merge objects member by member, append lists, and replace any other value by the later one.

    With `is_repeated`, a list that starts with the earlier list replaces it. An empty `more` is
    ignored. `before` may be modified.
    """
    if not is_nonempty(more):
        return more if before is None else before
    if isinstance(before, dict) and isinstance(more, dict):
        for name, part in more.items():
            before[name] = (
                merge_values(before[name], part, is_repeated=is_repeated)
                if name in before
                else part
            )
        return before
    if not isinstance(before, list) or not isinstance(more, list):
        return more
    if is_repeated and more[: len(before)] == before:
        return more
    before += more
    return before


# -- split surrogates ------------------------------------------------------------------------


def repair_json(data: bytes, place: str) -> bytes:
    """Return JSON with lone surrogates replaced, and without BOM and trailing whitespace.

    Raises ProtocolError if the data is not UTF-8.
    """
    try:
        data.decode()
    except UnicodeError as exc:
        raise build_protocol_error(exc, place) from None
    return replace_lone_surrogate_escapes(data.removeprefix(BOM_UTF8).rstrip())[0]


def restore_surrogates(value: TolerantStruct, data: bytes) -> None:
    """Restore the lone surrogates in the `growing` members of a struct from the original JSON.

    Servers that count UTF-16 code units may split a text inside a surrogate pair; the second half
    of the pair arrives with the next chunk. Nested structs are included.
    """
    pending: list[tuple[Any, Any]] = [(value, parse_with_surrogates(data))]
    while pending:
        match pending.pop():
            case TolerantStruct() as struct, dict() as members:
                fields = zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
                for attribute, name in fields:
                    if attribute not in struct.growing:
                        pending.append((getattr(struct, attribute), members.get(name)))
                    elif isinstance(members.get(name), str):
                        setattr(struct, attribute, members[name])
            case list() as elements, list() as originals:
                pending += zip(elements, originals, strict=False)
            case _:
                pass


def parse_with_surrogates(data: bytes) -> Any:
    """Parse JSON that may contain lone surrogates, which msgspec rejects; None if it is invalid."""
    try:
        return json.loads(data.removeprefix(BOM_UTF8))
    except (ValueError, RecursionError):
        return None


# -- errors ----------------------------------------------------------------------------------


class DecodeProblem(NamedTuple):
    """The reason why JSON could not be decoded; the message does not quote the JSON."""

    code: str
    message: str


def explain_decode_error(exc: Exception) -> DecodeProblem:
    """Return the reason for a decoding error, or for the TypeError of a missing member."""
    if isinstance(exc, RecursionError):
        return DecodeProblem("nested_too_deeply", "the JSON is nested too deeply")
    if isinstance(exc, UnicodeError):
        return DecodeProblem("not_utf8", "the text is not valid UTF-8")
    if isinstance(exc, msgspec.ValidationError):
        return DecodeProblem("unexpected_type", f"unexpected JSON: {exc}")
    if isinstance(exc, TypeError):  # a struct was built without a required member
        return DecodeProblem("missing_member", f"unexpected JSON: {exc}")
    return DecodeProblem("not_json", f"invalid JSON: {exc}")


def build_protocol_error(exc: Exception, place: str) -> ProtocolError:
    """Build the error for a response whose JSON could not be decoded."""
    code, message = explain_decode_error(exc)
    return ProtocolError(message, code=code, place=place)
