"""What every value of the vocabulary shares: frozen, comparable, silent about its content.

`Value` is the base of all structs. `JsonObject` is JSON from elsewhere, read-only all the way
down. `Verbatim` holds what this version of steno does not understand, so that it can be written
back unchanged. This file knows no message, no block and no format.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeAlias, final

import msgspec
from msgspec import Struct

from steno.errors import InvalidValue

_MOST_PARTS_SHOWN = 8


def replace_lone_surrogates(text: str) -> str:
    """Return `text` with surrogate pairs joined and every lone surrogate replaced by U+FFFD.

    Half a surrogate pair cannot be written as UTF-8; providers refuse it, and a history that
    holds one can never be sent again. Values refuse it, so clean foreign text at the door.
    """
    if is_text(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def is_text(value: object) -> bool:
    """Tell whether `value` is a string that UTF-8 can carry."""
    if type(value) is not str:
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def explain_text(value: object) -> str:
    """Say why `is_text(value)` is false."""
    if type(value) is not str:
        return f"must be a string, not {type(value).__name__}"
    return "holds a lone surrogate; pass it through replace_lone_surrogates() first"


@final
class Verbatim:
    """JSON text that is kept as it came: members or records of a newer format.

    The class is deliberately unknown to msgspec, so the fast encoder stops at it and the
    slower, lossless one takes over.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    @property
    def text(self) -> str:
        """The JSON, character for character."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Verbatim) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"<{len(self.text)} characters kept verbatim>"

    def __reduce__(self) -> tuple[type[Verbatim], tuple[str]]:
        return Verbatim, (self.text,)


class Quiet(Struct, frozen=True):
    """A frozen struct whose `repr` says how much it holds and not what."""

    shown: ClassVar[frozenset[str]] = frozenset()
    """Names of the string fields whose text may appear in `repr`: labels, never content."""

    def __repr__(self) -> str:
        parts = ", ".join([f"{name}={outline}" for name, outline in self._parts()])
        return f"{type(self).__name__}({parts})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # msgspec defines this one too, and rich would print the content with it.
        return [(name, _Outline(outline)) for name, outline in self._parts()]

    def _parts(self) -> Iterator[tuple[str, str]]:
        defaults = self.__struct_defaults__
        fields = self.__struct_fields__
        first_default = len(fields) - len(defaults)
        for position, name in enumerate(fields):
            value = getattr(self, name)
            if position >= first_default and value == defaults[position - first_default]:
                continue
            yield name, _outline(value, name in self.shown)


class Value(Quiet, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The base of every value that is stored: immutable, equal by content, lossless."""

    unknown: Verbatim | None = None
    """Members that came with the stored JSON and that this version has no name for."""


class _Outline(str):
    """Text that is its own `repr`."""

    __slots__ = ()
    __repr__ = str.__str__


def _outline(value: object, show_text: bool) -> str:
    """Describe a field without telling what is in it."""
    if isinstance(value, str) and not hasattr(value, "value"):
        return repr(value) if show_text else f"<{len(value)} characters>"
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, tuple):
        parts = [_outline(part, show_text) for part in value[:_MOST_PARTS_SHOWN]]
        if len(value) > _MOST_PARTS_SHOWN:
            parts.append(f"… {len(value) - _MOST_PARTS_SHOWN} more")
        return f"({', '.join(parts)})"
    return str(value)


JsonValue: TypeAlias = "bool | int | float | str | tuple[JsonValue, ...] | JsonObject | None"


@final
class JsonObject(Mapping[str, JsonValue]):
    """A JSON object that cannot be changed: members are scalars, tuples and further JsonObjects.

    Two of them are equal when they are the same JSON, whatever the order of their members; so
    is a plain mapping with the same content.
    """

    __slots__ = ("_members",)
    _members: dict[str, Any]

    def __init__(self, members: Mapping[str, object] | None = None) -> None:
        """Copy `members`. Raises InvalidValue if they are not JSON (NaN is not)."""
        self._members = decode_object(encode_json({} if members is None else members))

    @classmethod
    def parse(cls, text: str | bytes) -> JsonObject:
        """Read the text of a JSON object. Raises InvalidValue if it is anything else."""
        try:
            return cls.adopt(decode_object(text))
        except NOT_AN_OBJECT as exc:
            raise InvalidValue(explain_not_object(exc)) from None

    @classmethod
    def adopt(cls, members: dict[str, Any]) -> JsonObject:
        """Wrap freshly parsed members without a copy; nobody else may keep a reference."""
        self = cls.__new__(cls)
        self._members = members
        return self

    @property
    def text(self) -> str:
        """The object as compact JSON, members in their original order."""
        return msgspec.json.encode(self._members).decode()

    def convert(self, name: str, type: Any) -> Any:
        """Return the member `name` as `type`. Raises KeyError and msgspec.ValidationError."""
        value = self._members[name]
        return _freeze(value) if type is Any else msgspec.convert(_copy(value), type)

    def thaw(self) -> dict[str, Any]:
        """Return a dictionary of the same content that shares nothing mutable with this one."""
        return {name: _copy(value) for name, value in self._members.items()}

    def __getitem__(self, name: str) -> JsonValue:
        value: JsonValue = _freeze(self._members[name])
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, JsonObject):
            return self._sorted() == other._sorted()
        if not isinstance(other, Mapping):
            return NotImplemented
        try:
            return self == JsonObject(other)
        except InvalidValue:
            return False

    def __hash__(self) -> int:
        return hash(self._sorted())

    def _sorted(self) -> bytes:
        return msgspec.json.encode(self._members, order="sorted")

    def __repr__(self) -> str:
        return f"<JSON object of {len(self._members)} members>"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return JsonObject.parse, (self.text,)


def expose(value: JsonObject) -> dict[str, Any]:
    """Return the members themselves, for an encoder that only reads them."""
    return value._members  # pyright: ignore[reportPrivateUsage] - the one place that looks inside


def freeze_mapping(members: Mapping[str, Any]) -> JsonObject:
    """Return `members` as a JsonObject. Raises InvalidValue if they are not JSON."""
    return members if type(members) is JsonObject else JsonObject(members)


decode_object = msgspec.json.Decoder(dict[str, Any]).decode
"""Read the text of a JSON object; anything else raises one of NOT_AN_OBJECT."""

NOT_AN_OBJECT = (msgspec.MsgspecError, UnicodeError, RecursionError)


def explain_not_object(exc: Exception) -> str:
    """Say why `decode_object` raised, without quoting the text."""
    if isinstance(exc, RecursionError):
        return "not a JSON object: nested too deeply"
    if isinstance(exc, UnicodeError):
        return "not a JSON object: a lone surrogate, or bytes that are not UTF-8"
    return f"not a JSON object: {exc}"


def encode_json(value: object) -> bytes:
    """Encode a plain Python value as JSON. Raises InvalidValue where JSON cannot say it."""
    try:
        encoded = msgspec.json.encode(value, enc_hook=_plain)
    except (TypeError, msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        raise InvalidValue(f"not representable as JSON: {_reason(exc)}") from None
    # msgspec writes NaN and the infinities as null, which would be a silent change.
    if b"null" in encoded and _has_no_json_number(value):
        raise InvalidValue("not representable as JSON: NaN or an infinity")
    return encoded


def _reason(exc: Exception) -> str:
    if isinstance(exc, RecursionError):
        return "nested too deeply"
    if isinstance(exc, UnicodeError):
        return "a lone surrogate"
    return str(exc)


def _plain(value: object) -> object:
    """Give msgspec something it knows for the mappings it does not."""
    if isinstance(value, JsonObject):
        return expose(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"values of type {type(value).__name__}")


def _has_no_json_number(value: object) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(map(_has_no_json_number, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(_has_no_json_number, value))
    return False


def _copy(value: Any) -> Any:
    if type(value) is dict:
        return {name: _copy(member) for name, member in value.items()}
    if type(value) is list:
        return [_copy(member) for member in value]
    return value


def _freeze(value: Any) -> Any:
    if type(value) is dict:
        return JsonObject.adopt(value)
    if type(value) is list:
        return tuple(map(_freeze, value))
    return value
