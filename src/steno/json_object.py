"""JSON from elsewhere, read-only all the way down.

`JsonObject` is what tool arguments, details and schemas are seen as. This file knows JSON and
nothing of what it is used for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn, TypeAlias, final

import msgspec

from steno.errors import InvalidValue

MAX_DEPTH: Final = 200
"""How deep JSON may be nested to be read. Fixed, so that it does not depend on the call stack."""

_CONTAINERS: Final = frozenset({dict, list})

OBJECT_DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError)

JsonValue: TypeAlias = "bool | int | float | str | tuple[JsonValue, ...] | JsonObject | None"


@final
class JsonObject(Mapping[str, JsonValue]):
    """A JSON object that cannot be changed: members are scalars, tuples and further JsonObjects.

    Two of them are equal when they are the same JSON, whatever the order of their members; so
    is a plain mapping with the same content.

    What it is made of need not be plain: as msgspec writes it, bytes become base64 text, times
    and dates ISO 8601 text, sets arrays, and structs and dataclasses objects.
    """

    __slots__ = ("_members",)
    _members: dict[str, Any]

    def __init__(self, members: Mapping[str, object] | None = None) -> None:
        """Copy `members`. Raises InvalidValue if they are not JSON (NaN is not)."""
        if members is not None and not isinstance(members, Mapping):
            raise InvalidValue(f"not a JSON object: {type(members).__name__} is not a mapping")
        copied = parse_object(encode_json({} if members is None else members))
        object.__setattr__(self, "_members", copied)

    @classmethod
    def parse(cls, text: str | bytes) -> JsonObject:
        """Read the text of a JSON object. Raises InvalidValue if it is anything else."""
        return wrap_members(parse_object(text))

    @property
    def text(self) -> str:
        """The object as compact JSON, members in their original order."""
        return msgspec.json.encode(self._members).decode()

    def to_dict(self) -> dict[str, Any]:
        """Return an ordinary dictionary of the same content that shares nothing with this."""
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
        return f"<JSON object of {len(self._members)} members>"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("immutable type: 'JsonObject'")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("immutable type: 'JsonObject'")

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return JsonObject.parse, (self.text,)


def wrap_members(members: dict[str, Any]) -> JsonObject:
    """Wrap freshly parsed members without a copy; nobody else may keep a reference."""
    adopted = _new_instance(JsonObject)
    _set_members(adopted, members)
    return adopted


_new_instance = object.__new__
_set_members = JsonObject.__dict__["_members"].__set__  # what object.__setattr__ would look up


def raw_members(value: JsonObject) -> dict[str, Any]:
    """Return the members themselves, for an encoder that only reads them."""
    return value._members  # pyright: ignore[reportPrivateUsage] - the one place that looks inside


def wrap_parsed(members: Any) -> JsonObject:
    """Wrap what a decoder made. Raises InvalidValue if it is nested too deeply."""
    if type(members) is JsonObject:
        return members
    if not _CONTAINERS.isdisjoint(map(type, members.values())):
        try:
            check_depth(members)
        except RecursionError as exc:
            raise InvalidValue(explain_not_object(exc)) from None
    return wrap_members(members)


def as_json_object(members: Mapping[str, Any]) -> JsonObject:
    """Return `members` as a JsonObject. Raises InvalidValue if they are not JSON."""
    return members if type(members) is JsonObject else JsonObject(members)


# -- reading ---------------------------------------------------------------------------------

decode_object = msgspec.json.Decoder(dict[str, Any]).decode
"""Read the text of a JSON object; anything else raises one of NOT_AN_OBJECT."""


class _AnyObject(msgspec.Struct):
    """An object whose members are looked at and left where they are."""


check_object_syntax = msgspec.json.Decoder(_AnyObject).decode
"""Check that text is a JSON object, without making values of it; raises one of NOT_AN_OBJECT."""

MAX_SHALLOW_LENGTH: Final = 2 * MAX_DEPTH
"""Text up to this length cannot be nested too deeply: every level takes two characters."""


def check_depth(members: Mapping[str, Any]) -> None:
    """Raise RecursionError, which is one of NOT_AN_OBJECT, for what is nested too deeply."""
    level: list[Any] = [members]
    for _ in range(MAX_DEPTH):
        parts = [part if type(part) is list else part.values() for part in level]
        level = [value for part in parts for value in part if type(value) in (dict, list)]
        if not level:
            return
    raise RecursionError


def explain_not_object(exc: Exception, text: str | bytes = "") -> str:
    """Say why `decode_object` or `check_object_syntax` raised, without quoting the text."""
    if isinstance(exc, RecursionError):
        return f"not a JSON object: nested more than {MAX_DEPTH} levels deep"
    if isinstance(exc, UnicodeError):
        return "not a JSON object: a lone surrogate, or bytes that are not UTF-8"
    if isinstance(exc, TypeError):
        return "not a JSON object: not text"
    if _is_object_except_lone_surrogates(text):
        return "not a JSON object: a lone surrogate"
    return f"not a JSON object: {exc}"


def _is_object_except_lone_surrogates(text: str | bytes) -> bool:
    """Tell whether escaped lone surrogates are all that is wrong: msgspec calls them many names."""
    mended, replaced = replace_lone_surrogate_escapes(
        text.encode() if isinstance(text, str) else text
    )
    try:
        check_object_syntax(mended)
    except OBJECT_DECODE_ERRORS:
        return False
    return replaced > 0


_BACKSLASH: Final = ord("\\")
"""As a number: a single byte is found many times faster than bytes."""
_SURROGATE_ESCAPE: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\."
)


def replace_lone_surrogate_escapes(raw: bytes) -> tuple[bytes, int]:
    """Replace escaped lone surrogates in JSON by U+FFFD; return how many there were, too."""
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
    """Read the text of a JSON object. Raises InvalidValue, which does not quote the text."""
    try:
        members = decode_object(text)
        if len(text) > MAX_SHALLOW_LENGTH:
            check_depth(members)
    except OBJECT_DECODE_ERRORS as exc:
        raise InvalidValue(explain_not_object(exc, text)) from None
    return members


def is_json_text(text: str) -> bool:
    """Tell whether `text` is one JSON value, of any depth, without reading it."""
    try:
        _decode_raw(text)
    except msgspec.MsgspecError:
        return False
    except RecursionError:
        return is_deep_json(text)
    return True


_JSON_TOKEN: Final = re.compile(
    r'[ \t\r\n]*+(?:(?P<scalar>"[^"\\\x00-\x1f]*+'
    r'(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*"'
    r"|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null)"
    r"|(?P<mark>[\[\]{},:]))"
)


def is_deep_json(text: str) -> bool:
    """Tell whether text that is nested deeper than msgspec follows is JSON: with a stack of ours."""
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


_CLOSABLE_STATES: Final = frozenset({"after", "first value", "first name"})


_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode


def pointer_step(step: object) -> str:
    """Return one step of a JSON pointer (RFC 6901): a name or an index, escaped."""
    return "/" + str(step).replace("~", "~0").replace("/", "~1")


# -- writing ---------------------------------------------------------------------------------


def encode_json(value: object) -> bytes:
    """Encode a plain Python value as JSON. Raises InvalidValue where JSON cannot say it."""
    try:
        # First to plain containers, then a look at what msgspec would change in silence.
        plain = msgspec.to_builtins(value, enc_hook=_plain_mapping)
        _check_representable(plain)
        return msgspec.json.encode(plain)
    except (TypeError, msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        raise InvalidValue(f"not representable as JSON: {_explain_encode_error(exc)}") from None


def _explain_encode_error(exc: Exception) -> str:
    if isinstance(exc, RecursionError):
        return "nested too deeply"
    if isinstance(exc, UnicodeError):
        return "a lone surrogate"
    return str(exc)


def _plain_mapping(value: object) -> object:
    """Give msgspec something it knows for the mappings it does not."""
    if isinstance(value, JsonObject):
        return raw_members(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"values of type {type(value).__name__}")


def _check_representable(value: object) -> None:
    """Refuse numbers that JSON has no words for, and names that are not text."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError("NaN or an infinity")
    elif isinstance(value, dict):
        for name, member in value.items():
            if type(name) is not str:
                raise TypeError(f"a name of type {type(name).__name__}")
            _check_representable(member)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for member in value:
            _check_representable(member)


def copy_json(value: Any) -> Any:
    """Return parsed JSON that shares no container with `value`."""
    if type(value) is dict:
        return {name: copy_json(member) for name, member in value.items()}
    if type(value) is list:
        return [copy_json(member) for member in value]
    return value


def freeze_json(value: Any) -> Any:
    """Return parsed JSON as a scalar, a tuple or a JsonObject, without a copy."""
    if type(value) is dict:
        return wrap_members(value)
    if type(value) is list:
        return tuple(map(freeze_json, value))
    return value
