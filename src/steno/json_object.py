"""JSON objects that are read-only at every level, and the functions that read and write them.

`JsonObject` is the type of tool arguments, details and schemas. This module does not depend on
the types that use it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType, NoneType
from typing import Any, Final, NoReturn, TypeAlias, TypeGuard, final

import msgspec

from steno.errors import InvalidValue

MAX_DEPTH: Final = 200
"""The maximum depth of JSON that steno parses; the limit of msgspec depends on the call stack."""

MAX_SHALLOW_LENGTH: Final = 2 * MAX_DEPTH
"""Text up to this length cannot be nested too deeply, because every level takes two characters."""

OBJECT_DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError)
"""The errors that `decode_object`, `check_object_syntax` and `check_depth` raise."""

_CONTAINERS: Final = frozenset({dict, list})

JsonValue: TypeAlias = "bool | int | float | str | tuple[JsonValue, ...] | JsonObject | None"


@final
class JsonObject(Mapping[str, JsonValue]):
    """An immutable JSON object whose members are scalars, tuples and further JsonObjects.

    Two objects are equal if they have the same members, in any order. A plain mapping with the
    same members is equal, too.

    The constructor also accepts values that are not plain JSON and converts them like msgspec:
    bytes become base64 strings, times and dates become ISO 8601 strings, sets become arrays, and
    structs and dataclasses become objects.
    """

    __slots__ = ("_members",)
    _members: dict[str, Any]

    def __init__(self, members: Mapping[str, object] | None = None) -> None:
        """Copy `members`. Raises InvalidValue if JSON cannot represent a value, such as NaN."""
        if members is not None and not isinstance(members, Mapping):
            raise InvalidValue(
                f"not a JSON object: {type(members).__name__} is not a mapping",
                code="not_a_mapping",
            )
        copied = parse_object(encode_json({} if members is None else members))
        object.__setattr__(self, "_members", copied)

    @classmethod
    def parse(cls, text: str | bytes) -> JsonObject:
        """Parse the text of a JSON object. Raises InvalidValue if the text is anything else."""
        return wrap_members(parse_object(text))

    @property
    def text(self) -> str:
        """The object as compact JSON, with the members in their original order."""
        return msgspec.json.encode(self._members).decode()

    def to_dict(self) -> dict[str, Any]:
        """Return a deep copy of the members as plain dictionaries and lists."""
        return {name: copy_json(value) for name, value in self._members.items()}

    def __getitem__(self, name: str) -> JsonValue:
        value: JsonValue = freeze_json(self._members[name])
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, JsonObject):
            return self._canonical_bytes() == other._canonical_bytes()
        if not isinstance(other, Mapping):
            return NotImplemented
        try:
            return self == JsonObject(other)
        except InvalidValue:
            return False

    def __hash__(self) -> int:
        return hash(self._canonical_bytes())

    def _canonical_bytes(self) -> bytes:
        return msgspec.json.encode(self._members, order="sorted")

    def __repr__(self) -> str:
        count = len(self._members)
        return f"<JSON object of {count} {'member' if count == 1 else 'members'}>"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("immutable type: 'JsonObject'")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("immutable type: 'JsonObject'")

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return JsonObject.parse, (self.text,)


def wrap_members(members: dict[str, Any]) -> JsonObject:
    """Wrap newly parsed members without copying; the caller must not retain a reference to them."""
    adopted = _new_instance(JsonObject)
    _set_members(adopted, members)
    return adopted


_new_instance = object.__new__
_set_members = JsonObject.__dict__["_members"].__set__  # faster than object.__setattr__


def raw_members(value: JsonObject) -> dict[str, Any]:
    """Return the members without a copy, for an encoder that only reads them."""
    return value._members  # pyright: ignore[reportPrivateUsage] - the only use outside the class


def to_plain(value: object) -> object:
    """Convert a mapping to a dictionary, which msgspec can encode; used as an `enc_hook`.

    Raises InvalidValue if the value is not a mapping.
    """
    if isinstance(value, JsonObject):
        return raw_members(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise InvalidValue(
        f"not representable as JSON: a value of type {type(value).__name__}",
        code="unsupported_type",
    )


def wrap_parsed(members: Any) -> JsonObject:
    """Wrap members that a decoder returned. Raises InvalidValue if they are nested too deeply."""
    if type(members) is JsonObject:
        return members
    if not _CONTAINERS.isdisjoint(map(type, members.values())):
        try:
            check_depth(members)
        except RecursionError as exc:
            raise not_object_error(exc) from None
    return wrap_members(members)


def as_json_object(members: Mapping[str, Any]) -> JsonObject:
    """Return `members` as a JsonObject. Raises InvalidValue if they are not JSON."""
    return members if type(members) is JsonObject else JsonObject(members)


# -- reading ---------------------------------------------------------------------------------

decode_object: Callable[[str | bytes], dict[str, Any]] = msgspec.json.Decoder(dict[str, Any]).decode
"""Parse the text of a JSON object. Raises one of OBJECT_DECODE_ERRORS for anything else."""


class _AnyObject(msgspec.Struct):
    """A JSON object whose members are parsed and discarded."""


check_object_syntax: Callable[[str | bytes], object] = msgspec.json.Decoder(_AnyObject).decode
"""Raise one of OBJECT_DECODE_ERRORS if text is not a JSON object; no values are created."""


def check_depth(members: Mapping[str, Any]) -> None:
    """Raise RecursionError if the members are nested more than MAX_DEPTH levels deep."""
    level: list[Any] = [members]
    for _ in range(MAX_DEPTH):
        parts = [part if type(part) is list else part.values() for part in level]
        level = [value for part in parts for value in part if type(value) in (dict, list)]
        if not level:
            return
    raise RecursionError


def not_object_error(exc: Exception, text: str | bytes = "") -> InvalidValue:
    """Convert one of OBJECT_DECODE_ERRORS to an InvalidValue that does not quote the text."""
    if isinstance(exc, RecursionError):
        rule = f"unsupported JSON: nested more than {MAX_DEPTH} levels deep"
        return InvalidValue(rule, code="too_deep")
    if isinstance(exc, UnicodeError):
        rule = "unsupported JSON: contains a lone surrogate, or bytes that are not UTF-8"
        return InvalidValue(rule, code="lone_surrogate")
    if isinstance(exc, TypeError):
        return InvalidValue("not a JSON object: expected str or bytes", code="not_text")
    if _is_object_except_lone_surrogates(text):
        rule = "unsupported JSON: contains a lone surrogate"
        return InvalidValue(rule, code="lone_surrogate")
    # msgspec has no exception classes for these cases.
    if str(exc).startswith("Number out of range"):
        return InvalidValue(
            "unsupported JSON: contains a number that is out of range", code="not_json_object"
        )
    code = "truncated_json" if "truncated" in str(exc) else "not_json_object"
    return InvalidValue(f"not a JSON object: {exc}", code=code)


def _is_object_except_lone_surrogates(text: str | bytes) -> bool:
    """Return whether escaped lone surrogates are the only error in the text of a JSON object."""
    clean, replaced = replace_lone_surrogate_escapes(
        text.encode() if isinstance(text, str) else text
    )
    try:
        check_object_syntax(clean)
    except OBJECT_DECODE_ERRORS:
        return False
    return replaced > 0


_BACKSLASH: Final = ord("\\")
"""The byte as an int, because `in` finds an int many times faster than a bytes object."""
_SURROGATE_ESCAPE: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\."
)


def replace_lone_surrogate_escapes(raw: bytes) -> tuple[bytes, int]:
    """Replace escaped lone surrogates in JSON with U+FFFD.

    Return the resulting JSON and the number of replacements.
    """
    if _BACKSLASH not in raw or b"\\u" not in raw:
        return raw, 0
    replaced = 0

    def keep_or_replace(match: re.Match[bytes]) -> bytes:
        nonlocal replaced
        if match.lastgroup != "half":
            return match.group()
        replaced += 1
        return rb"\ufffd"

    return _SURROGATE_ESCAPE.sub(keep_or_replace, raw), replaced


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Parse the text of a JSON object.

    Raises InvalidValue, which does not quote the text, if the text is not a JSON object or is
    nested too deeply.
    """
    try:
        members = decode_object(text)
        if len(text) > MAX_SHALLOW_LENGTH:
            check_depth(members)
    except OBJECT_DECODE_ERRORS as exc:
        raise not_object_error(exc, text) from None
    return members


def is_json_text(text: str) -> bool:
    """Return whether `text` is one JSON value of any depth, without creating Python values."""
    try:
        _decode_raw(text)
    except msgspec.MsgspecError:
        return False
    except RecursionError:
        return is_deep_json(text)
    return True


_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode

_CLOSABLE_STATES: Final = frozenset({"after", "first value", "first name"})
_JSON_TOKEN: Final = re.compile(
    r'[ \t\r\n]*+(?:(?P<scalar>"[^"\\\x00-\x1f]*+'
    r'(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*"'
    r"|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null)"
    r"|(?P<mark>[\[\]{},:]))"
)


def is_deep_json(text: str) -> bool:
    """Return whether `text` is one JSON value of any depth.

    This function does not use recursion, so it also works for values that are nested too deeply for
    msgspec.
    """
    text = text.rstrip(" \t\r\n")
    closers: list[str] = []
    state, position = "value", 0
    while position < len(text):
        match = _JSON_TOKEN.match(text, position)
        if match is None or (state == "after" and not closers):
            return False
        position = match.end()
        mark, scalar = match["mark"], match["scalar"]
        if mark is not None and closers and mark == closers[-1] and state in _CLOSABLE_STATES:
            closers.pop()
            state = "after"
        elif scalar is not None and state in ("value", "first value"):
            state = "after"
        elif scalar is not None and scalar.startswith('"') and state in ("name", "first name"):
            state = "colon"
        elif mark in ("[", "{") and state in ("value", "first value"):
            closers.append("]" if mark == "[" else "}")
            state = "first value" if mark == "[" else "first name"
        elif mark == ":" and state == "colon":
            state = "value"
        elif mark == "," and state == "after":
            state = "value" if closers[-1] == "]" else "name"
        else:
            return False
    return state == "after" and not closers


def json_pointer(steps: Iterable[object]) -> str:
    """Return a JSON pointer (RFC 6901) that consists of the given names and indexes."""
    return "".join(["/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps])


# -- the types of JSON values ------------------------------------------------------------------
#
# Read-only mappings and tuples count as objects and arrays, because steno's own values use them.

JSON_TYPES: dict[type, str] = {
    dict: "object",
    MappingProxyType: "object",
    list: "array",
    tuple: "array",
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
}


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value is a JSON object, mutable or read-only."""
    return isinstance(value, (dict, Mapping))


def is_array(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Return whether a value is a JSON array, mutable or read-only."""
    return isinstance(value, (list, tuple))


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a JSON number; a boolean is not a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def json_type_of(value: object) -> str:
    """Return the name of the JSON type of a value; the empty string if JSON has no such type."""
    for cls in type(value).__mro__:
        if kind := JSON_TYPES.get(cls):
            return kind
    return "object" if isinstance(value, Mapping) else ""


# -- writing ---------------------------------------------------------------------------------


def encode_json(value: object) -> bytes:
    """Encode a plain Python value as JSON. Raises InvalidValue if JSON cannot represent it."""
    try:
        # Check plain containers first: msgspec silently writes NaN as null, and keys as strings.
        plain = msgspec.to_builtins(value, enc_hook=to_plain)
        _check_representable(plain)
        return msgspec.json.encode(plain)
    except RecursionError:
        code, reason = "too_deep", "nested too deeply"
    except UnicodeError:
        code, reason = "lone_surrogate", "contains a lone surrogate"
    except (TypeError, msgspec.MsgspecError) as exc:
        code, reason = "unsupported_type", str(exc)
    raise InvalidValue(f"not representable as JSON: {reason}", code=code)


def _check_representable(value: object) -> None:
    """Raise InvalidValue for NaN, an infinity, or a member name that is not a string."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidValue("not representable as JSON: NaN or an infinity", code="not_finite")
    elif isinstance(value, dict):
        for name, member in value.items():
            if type(name) is not str:
                raise InvalidValue(
                    f"not representable as JSON: a member name of type {type(name).__name__}",
                    code="name_not_text",
                )
            _check_representable(member)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for member in value:
            _check_representable(member)


def copy_json(value: Any) -> Any:
    """Return a deep copy of parsed JSON."""
    if type(value) is dict:
        return {name: copy_json(member) for name, member in value.items()}
    if type(value) is list:
        return [copy_json(member) for member in value]
    return value


def freeze_json(value: Any) -> Any:
    """Return parsed JSON as a scalar, a tuple or a JsonObject, without copying objects."""
    if type(value) is dict:
        return wrap_members(value)
    if type(value) is list:
        return tuple(map(freeze_json, value))
    return value
