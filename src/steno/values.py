"""The base classes of all values, which are frozen and comparable and have a redacted `repr`.

`Value` is the base class of all stored structs and checks its fields against their annotations.
`RawJson` holds JSON that this version of steno does not understand, so that it can be written
back unchanged. This module does not depend on messages, blocks or formats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sized
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    NamedTuple,
    NoReturn,
    TypeAlias,
    Union,
    final,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from steno.errors import InvalidMessage, InvalidValue
from steno.json_object import as_json_object, is_json_text, wrap_parsed

_MAX_PARTS_SHOWN: Final = 8
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_SCAN_LENGTH: Final = 16_384
"""Longer text is scanned in slices, so that the memory for the scan does not grow with the text."""

NonEmptyStr: TypeAlias = Annotated[str, Meta(min_length=1)]
"""A string of at least one character; msgspec checks this on decoding, steno on construction."""

PRECHECKED: Final = ContextVar("steno_prechecked", default=False)
"""True while values are created from parts that msgspec's decoder or steno has already checked.

Types, UTF-8 and annotation constraints are then not checked again, only the other rules. Call `set`
inside `try`, and restore the previous value with `set` instead of `reset`: an interrupt may arrive
as soon as `set` returns, before its token is stored.
"""
is_prechecked: Callable[[], bool] = PRECHECKED.get


# -- text ------------------------------------------------------------------------------------


def is_utf8_text(value: object) -> bool:
    """Return whether `value` is a string that UTF-8 can encode."""
    if type(value) is not str:
        return False
    if value.isascii() or is_prechecked():
        return True
    if len(value) > _SCAN_LENGTH:
        starts = range(0, len(value), _SCAN_LENGTH)
        return all(is_utf8_text(value[start : start + _SCAN_LENGTH]) for start in starts)
    try:
        # UTF-32 refuses the same characters as UTF-8, and CPython encodes it several times faster.
        value.encode("utf-32")
    except UnicodeEncodeError:
        return False
    return True


def replace_lone_surrogates(text: str) -> str:
    """Return `text` with surrogate pairs joined and every lone surrogate replaced by U+FFFD.

    A lone surrogate cannot be encoded as UTF-8. Providers reject it, so a history that contains one
    could never be sent again, and values reject it, too. Call this function on external text.
    Raises InvalidValue if `text` is not a string.
    """
    if is_utf8_text(text):
        return text
    if not isinstance(text, str):
        error = not_text_error(text)
        raise InvalidValue(error.message, code=error.code, place="text")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def join_surrogates(text: str) -> str:
    """Return `text` with the halves of surrogate pairs joined; lone surrogates are preserved."""
    if is_utf8_text(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


# -- structs ---------------------------------------------------------------------------------


@final
class RawJson:
    """JSON text that is preserved unchanged, such as members or records of a newer format.

    msgspec deliberately cannot encode this class, so that the fast encoder fails and the slower,
    lossless encoder is used instead.
    """

    __slots__ = ("text",)
    text: str
    """The JSON, character for character."""

    def __init__(self, text: str) -> None:
        if not is_utf8_text(text):
            error = not_text_error(text)
            raise InvalidValue(error.message, code=error.code, place="RawJson")
        object.__setattr__(self, "text", text)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("immutable type: 'RawJson'")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("immutable type: 'RawJson'")

    def __bool__(self) -> bool:
        return bool(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RawJson) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"<{_count(self.text, 'character')} kept verbatim>"

    def __reduce__(self) -> str | tuple[type[RawJson], tuple[str]]:
        # Pickle NOTHING by name: values compare it by identity, so it must not be copied.
        return (RawJson, (self.text,)) if self.text else "NOTHING"


NOTHING: Final = RawJson("")


class RedactedRepr(Struct, frozen=True, gc=False):
    """A frozen struct whose `repr` shows the size of its content, never the content.

    Immutable values cannot form cycles, so the garbage collector need not visit them.
    """

    shown: ClassVar[frozenset[str]] = frozenset()
    """Names of the string fields whose text may appear in `repr`: labels, never content."""

    def __repr__(self) -> str:
        parts = ", ".join([f"{name}={outline}" for name, outline in self._repr_parts()])
        return f"{type(self).__name__}({parts})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # msgspec defines this method, too, and rich would print the content with it.
        return [(name, _ReprText(outline)) for name, outline in self._repr_parts()]

    def non_default_fields(self) -> Iterator[tuple[str, Any]]:
        """Yield the name and the value of each field that differs from its default, in order."""
        defaults = self.__struct_defaults__
        fields = self.__struct_fields__
        first_default = len(fields) - len(defaults)
        for position, name in enumerate(fields):
            value = getattr(self, name)
            if position < first_default or value != defaults[position - first_default]:
                yield name, value

    def _repr_parts(self) -> Iterator[tuple[str, str]]:
        for name, value in self.non_default_fields():
            yield name, _summarize_for_repr(value, name in self.shown)


class Value(
    RedactedRepr, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The base class of stored values, which are immutable and preserve unknown JSON members."""

    error_class: ClassVar[type[InvalidValue]] = InvalidMessage
    """The exception that is raised if a field breaks a rule."""

    unknown: RawJson = NOTHING
    """Members of the stored JSON that this version of steno does not know.

    A stored member named "unknown" is itself an unknown member, because no JSON decodes to a
    `RawJson`.
    """

    def __post_init__(self) -> None:
        check_fields(self)

    def has_valid_unknown(self) -> bool:
        """Return whether the text of `unknown` is valid as the members of a JSON object."""
        return is_json_text("{" + self.unknown.text + "}")


FORM_KEY: Final = "$form"
"""The extra with steno's notes on the recorded form of a value, if a format has several forms."""


class Sendable(Value, frozen=True, kw_only=True):
    """A value that is sent to providers and received from them."""

    extras: Mapping[str, Any] | None = None
    """Members that are specific to one wire, by the name of the wire that sends and receives them.

    Example: `{"anthropic_messages": {"cache_control": {"type": "ephemeral"}}}`
    """


class _ReprText(str):
    """A string whose `repr` is its own text, without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _count(content: Sized, noun: str) -> str:
    return f"{len(content)} {noun}" if len(content) == 1 else f"{len(content)} {noun}s"


def _summarize_for_repr(value: object, show_text: bool) -> str:
    if isinstance(value, str) and not hasattr(value, "value"):
        return repr(value) if show_text else f"<{_count(value, 'character')}>"
    if isinstance(value, bytes):
        return f"<{_count(value, 'byte')}>"
    if isinstance(value, tuple):
        parts = [_summarize_for_repr(part, show_text) for part in value[:_MAX_PARTS_SHOWN]]
        if len(value) > _MAX_PARTS_SHOWN:
            parts.append(f"… {len(value) - _MAX_PARTS_SHOWN} more")
        return f"({', '.join(parts)})"
    return str(value)


# -- fields ----------------------------------------------------------------------------------


class _FieldTypes(NamedTuple):
    """The types that the annotation of a field allows."""

    name: str
    types: frozenset[type]
    elements: frozenset[type]
    """The types of the elements, if the field is a tuple."""
    needs_normalizing: bool
    """Whether the field is a mapping or a time, which becomes a JsonObject or a time in UTC."""


def check_fields(value: Value) -> None:
    """Raise an error for a field with a wrong type, text that is not UTF-8, or a time without zone.

    Mappings are converted to JsonObjects, and times to UTC. Frequently created values check their
    common fields themselves, and call this function only if a rare field is set.
    """
    if is_prechecked():
        for field in _normalized_fields(type(value)):
            if getattr(value, field.name) is not None:
                _normalize_field(value, field)
        return
    unknown: object = value.unknown
    if isinstance(unknown, RawJson) and unknown and not value.has_valid_unknown():
        refuse(
            value,
            "unknown must contain the members of a JSON object as text",
            code="not_json_members",
            field="unknown",
        )
    for field in _field_types(type(value)):
        content: Any = getattr(value, field.name)
        kind = type(content)
        if field.needs_normalizing and content is not None:
            _normalize_field(value, field)
        elif kind is int and float in field.types:
            force_setattr(value, field.name, _as_float(value, field.name, content))
        elif kind not in field.types:
            _refuse_type(value, field.name, content, field.types)
        elif kind is str and not is_utf8_text(content):
            refuse_text(value, field.name, content)
        elif kind is tuple:
            check_elements(value, field.name, content, field.elements)


def check_elements(value: Value, name: str, content: Any, allowed: frozenset[type]) -> None:
    """Raise an error if an element has a type outside `allowed`, or is text that is not UTF-8."""
    for position, element in enumerate(content):
        if type(element) not in allowed:
            _refuse_type(value, f"{name}[{position}]", element, allowed)
        if type(element) is str and not is_utf8_text(element):
            refuse_text(value, f"{name}[{position}]", element)


def check_sha256(value: Value, name: str) -> None:
    """Raise an error if a field is not a SHA-256 in lower-case hexadecimal digits."""
    if _SHA256.fullmatch(getattr(value, name)) is None:
        rule = f"{name} must be 64 lower-case hexadecimal digits"
        refuse(value, rule, code="not_sha256", field=name)


def refuse(value: Value, rule: str, *, code: str, field: str = "") -> NoReturn:
    """Raise the error class of `value`; the message names the kind of value and the rule."""
    place = class_label(type(value))
    if field == place:  # `Text.text`: the message would begin with "text: text"
        rule = rule.removeprefix(f"{field} ")
    raise value.error_class(rule, code=code, place=place, field=field) from None


def refuse_text(value: Value, field: str, content: object) -> NoReturn:
    """Raise the error for a field for which `is_utf8_text` is false."""
    error = not_text_error(content)
    refuse(value, f"{field} {error.message}", code=error.code, field=field)


def _refuse_type(value: Value, field: str, content: object, allowed: frozenset[type]) -> NoReturn:
    names = sorted("None" if kind is type(None) else kind.__name__ for kind in allowed)
    rule = f"{field} must be {' or '.join(names)}, not {type(content).__name__}"
    refuse(value, rule, code="wrong_type", field=field)


def not_text_error(content: object) -> InvalidValue:
    """Return the error for a value for which `is_utf8_text` is false."""
    if type(content) is not str:
        return InvalidValue(f"must be a string, not {type(content).__name__}", code="wrong_type")
    rule = "contains a lone surrogate; pass the text through replace_lone_surrogates() first"
    return InvalidValue(rule, code="lone_surrogate")


@lru_cache(maxsize=128)
def class_label(cls: type) -> str:
    """Return the name of a class in lower-case words, such as "tool call" for `ToolCall`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", cls.__name__).lower()


@lru_cache(maxsize=128)
def _field_types(cls: type[Value]) -> tuple[_FieldTypes, ...]:
    hints = get_type_hints(cls)
    return tuple([_read_field_types(name, hints[name]) for name in cls.__struct_fields__])


def _read_field_types(name: str, hint: Any) -> _FieldTypes:
    types: set[type] = set()
    elements: set[type] = set()
    for option in union_members(hint):
        if get_origin(option) is tuple:
            types.add(tuple)
            elements |= set(union_members(get_args(option)[0]))
        else:
            types.add(get_origin(option) or option)
    needs_normalizing = Mapping in types or datetime in types
    return _FieldTypes(name, frozenset(types), frozenset(elements), needs_normalizing)


def union_members(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union; for any other type, the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


@lru_cache(maxsize=128)
def _normalized_fields(cls: type[Value]) -> tuple[_FieldTypes, ...]:
    return tuple([field for field in _field_types(cls) if field.needs_normalizing])


def _normalize_field(value: Value, field: _FieldTypes) -> None:
    """Convert a mapping to a JsonObject, or a time to UTC."""
    content = getattr(value, field.name)
    if datetime in field.types:
        force_setattr(value, field.name, _as_utc(value, field.name, content))
        return
    try:
        frozen = wrap_parsed(content) if is_prechecked() else as_json_object(content)
    except InvalidValue as exc:
        refuse(value, f"{field.name}: {exc}", code=exc.code, field=field.name)
    force_setattr(value, field.name, frozen)


def _as_float(value: Value, name: str, number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        refuse(value, f"{name} is too large", code="number_too_large", field=name)


def _as_utc(value: Value, name: str, moment: object) -> datetime:
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        rule = f"{name} must be a time with a time zone"
        refuse(value, rule, code="no_time_zone", field=name)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        refuse(value, f"{name} is out of range in UTC", code="time_out_of_range", field=name)
