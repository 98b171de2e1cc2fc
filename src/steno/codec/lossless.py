"""The slow path of the codec, which preserves unknown data unchanged.

The reader preserves the smallest part that it does not understand: an unknown member is stored in
the `unknown` field of its value, and a block, message or payload that cannot be read becomes
`Opaque`. The writer puts these parts back in place. A tool call that breaks a rule becomes an
InvalidToolCall instead of `Opaque`, because a tool result may refer to its id.
"""

from __future__ import annotations

from functools import lru_cache
from typing import (
    Any,
    Final,
    NamedTuple,
    Protocol,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec.structs import fields

from steno.codec.json_scanner import replace_line_breaks, split_array, split_object
from steno.errors import InvalidValue
from steno.json_object import JsonObject, raw_members
from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall
from steno.messages.content import EMPTY_TEXT_KIND, OWN_FORMAT, Opaque, Text
from steno.records.entry import BASE_VERSION, FORMAT_VERSION, Entry
from steno.schema.msgspec_errors import read_validation_error
from steno.values import PRECHECKED, RawJson, Value, is_prechecked, union_members

ValueT = TypeVar("ValueT", bound=Value)
_PAYLOAD_TAG_FIELD: Final = "type"
_DEFAULT_VERSION: Final = b"%d" % BASE_VERSION
_ENTRY_VERSIONS: Final = [b"%d" % version for version in range(BASE_VERSION, FORMAT_VERSION + 1)]
_REASONS_WITHOUT_VALUE: Final = {
    "field_unknown": "it contains an unknown field",
    "invalid_value": "its value is invalid",
    "not_a_choice": "its value is unknown",
}
"""Replacements, by error code, for msgspec messages that quote the value."""
_MAX_TAG_CHARACTERS: Final = 80


class WarningCallback(Protocol):
    """A function that receives a warning.

    A warning has a place (`$.content[1]`), a code and a text. `tag` is the type of the part that
    the warning is about; empty if it has none.
    """

    def __call__(self, place: str, code: str, text: str, *, tag: str = "") -> None:
        """Receive a warning."""


class UnreadablePart(Exception):
    """A part of the data cannot be read, and `Opaque` is not allowed in its place."""


# -- writing ---------------------------------------------------------------------------------


def encode_lossless(value: object) -> bytes:
    """Encode a value that contains unknown data; the unknown data is written unchanged."""
    if isinstance(value, Opaque) and value.origin == OWN_FORMAT:
        return value.raw.encode()
    if isinstance(value, Entry) and not value.is_understood:
        return _encode_unchanged(value)
    if isinstance(value, Value):
        return b"{" + b",".join(_encode_members(value)) + b"}"
    if isinstance(value, tuple):
        return b"[" + b",".join(map(encode_lossless, cast("tuple[object, ...]", value))) + b"]"
    if isinstance(value, JsonObject):
        return msgspec.json.encode(raw_members(value))
    return msgspec.json.encode(value)


def _encode_unchanged(entry: Entry) -> bytes:
    raw = entry.unknown.text.encode()
    if read_entry(raw, "$", ignore_warning) != entry:
        message = "an entry in an unknown format cannot be changed"
        raise InvalidValue(message, code="unknown_entry_changed", place="entry")
    return raw


def ignore_warning(place: str, code: str, text: str, *, tag: str = "") -> None:
    """Ignore a warning, such as one that was logged when the entry was first read."""


def _encode_members(value: Value) -> list[bytes]:
    config = value.__struct_config__
    members: list[bytes] = []
    if config.tag_field is not None:
        members.append(_encode_member(config.tag_field, config.tag))
    members += [
        _encode_member(name, part) for name, part in value.non_default_fields() if name != "unknown"
    ]
    if value.unknown:
        members.append(value.unknown.text.encode())
    return members


def _encode_member(name: str, content: object) -> bytes:
    return msgspec.json.encode(name) + b":" + encode_lossless(content)


# -- reading ---------------------------------------------------------------------------------


class _NestedField(NamedTuple):
    """A field that holds one `Value` or a tuple of them, with the possible classes by tag."""

    by_tag: dict[object, type[Value]]
    tag_field: str | None
    is_tuple: bool
    takes_opaque: bool
    allows_empty_text: bool


def read_value(
    raw: bytes,
    cls: type[ValueT],
    place: str,
    warn: WarningCallback,
    *,
    optional: frozenset[str] = frozenset(),
    is_trusted: bool = True,
) -> ValueT:
    """Read a JSON object as a `cls`, and preserve the members that the class does not define.

    `optional` members that cannot be read are preserved, too. With `is_trusted=False`, the new
    value is validated like one that a caller creates. Raises UnreadablePart if the object is not a
    valid `cls`.
    """
    members = split_object(raw)
    if members is None:
        raise UnreadablePart("not an object")
    hints = _field_hints(cls)
    nested = _nested_fields(cls)
    known: dict[str, Any] = {}
    unknown: list[bytes] = []
    for name, key, content in members:
        if name == cls.__struct_config__.tag_field:
            continue
        if name not in hints or name == "unknown":
            unknown.append(key + b":" + content)
        elif name in nested and content != b"null":
            known[name] = _read_nested(content, nested[name], f"{place}.{name}", warn)
        else:
            try:
                known[name] = _read_plain(name, content, hints[name])
            except UnreadablePart:
                if name not in optional:
                    raise
                unknown.append(key + b":" + content)
    if unknown:
        known["unknown"] = RawJson(b",".join(unknown).decode())
    before = is_prechecked()
    try:
        PRECHECKED.set(is_trusted)  # every part was decoded as its type
        value = cls(**known)
    except InvalidValue as exc:
        raise UnreadablePart(str(exc)) from None
    except TypeError:
        required = [field.name for field in fields(cls) if field.required]
        missing = [name for name in required if name not in known]
        raise UnreadablePart(f"it has no {' and no '.join(missing)}") from None
    finally:
        PRECHECKED.set(before)
    if unknown:
        warn(place, "unknown_members", f"preserved unknown members ({len(unknown)})")
    return value


def read_union(raw: bytes, types: Any, place: str, warn: WarningCallback) -> Any:
    """Read an object as the union member that its tag selects, or as `Opaque` if that fails."""
    return _read_one(raw, _read_nested_field(types), place, warn)


def read_entry(raw: bytes, place: str, warn: WarningCallback) -> Entry:
    """Read a log entry; return an entry with an `Opaque` payload if it cannot be read.

    That entry has the original id and parent if they are readable. Otherwise, its id is a digest of
    the JSON, and its parent is None.
    """
    members = {name: value for name, _, value in split_object(raw) or ()}
    try:
        version = members.get("v", _DEFAULT_VERSION)
        if version not in _ENTRY_VERSIONS:
            number = version.decode() if version.isdigit() else "invalid"
            raise UnreadablePart(f"its version is {number[:_MAX_TAG_CHARACTERS]}")
        return read_value(raw, Entry, place, warn)
    except UnreadablePart as exc:
        tag = _read_tag(members.get("payload", b"null"), _PAYLOAD_TAG_FIELD) or ""
        warning = f"preserved an entry {_quote_tag(tag)} that cannot be read: {exc}"
        warn(place, "unknown_entry", warning, tag=tag)
        text = raw.decode()
        found_id, parent = (_read_string(members.get(name)) for name in ("id", "parent"))
        return Entry(
            id=found_id or _id_from_digest(raw),
            parent=parent or None,
            payload=Opaque(kind=tag, raw=text, origin=OWN_FORMAT),
            unknown=RawJson(text),
        )


def _id_from_digest(raw: bytes) -> str:
    import hashlib  # noqa: PLC0415 - it loads OpenSSL, and most programs never need it

    return hashlib.sha256(replace_line_breaks(raw)).hexdigest()  # a store keeps it on one line


def _read_nested(raw: bytes, nested: _NestedField, place: str, warn: WarningCallback) -> object:
    if not nested.is_tuple:
        return _read_one(raw, nested, place, warn)
    parts = split_array(raw)
    if parts is None:
        raise UnreadablePart("not an array")
    values = [
        _read_one(part, nested, f"{place}[{number}]", warn) for number, part in enumerate(parts)
    ]
    if not nested.allows_empty_text:
        _replace_empty_texts(values, parts, place, warn)
    return tuple(values)


def _replace_empty_texts(
    values: list[Value], parts: list[bytes], place: str, warn: WarningCallback
) -> None:
    """Replace each empty text of a message by an opaque block, unless all its text is blank.

    Earlier versions allowed an empty text next to other blocks. It is not a part that this version
    does not know, so it has a kind of its own.
    """
    if all(isinstance(value, Text) and not value.text.strip() for value in values):
        return
    for number, value in enumerate(values):
        if isinstance(value, Text) and not value.text:
            raw = parts[number].decode()
            values[number] = Opaque(kind=EMPTY_TEXT_KIND, raw=raw, origin=OWN_FORMAT)
            warn(f"{place}[{number}]", "empty_text", "preserved an empty text, which is not sent")


def _read_one(raw: bytes, nested: _NestedField, place: str, warn: WarningCallback) -> Value:
    if Entry in nested.by_tag.values():
        return read_entry(raw, place, warn)
    tag = _read_tag(raw, nested.tag_field)
    cls = nested.by_tag.get(tag)
    try:
        if cls is None:
            raise UnreadablePart("its type is unknown")
        if cls is ToolCall:
            return _read_call(raw, place, warn)
        return read_value(raw, cls, place, warn)
    except UnreadablePart as exc:
        if not nested.takes_opaque:
            raise
        kind = tag or ""
        text = f"preserved a part {_quote_tag(kind)} that cannot be read: {exc}"
        warn(place, "unknown_part", text, tag=kind)
        return Opaque(kind=kind, raw=raw.decode(), origin=OWN_FORMAT)


def _quote_tag(tag: str) -> str:
    """Return a phrase that names a type in one line; the tag may be any text."""
    return f"of the type {tag[:_MAX_TAG_CHARACTERS]!r}" if tag else "without a type"


def _read_call(raw: bytes, place: str, warn: WarningCallback) -> AnyToolCall:
    """Read a tool call; return an InvalidToolCall if the call breaks a rule.

    Arguments that are not a string are converted to JSON text. Raises UnreadablePart if the call
    cannot be read even as an InvalidToolCall.
    """
    try:
        return read_value(raw, ToolCall, place, warn)
    except UnreadablePart:
        members = split_object(raw) or []
    text = b",".join(
        key + b":" + (_quote_json(content) if name == "arguments" else content)
        for name, key, content in members
    )
    try:
        call = read_value(b"{" + text + b"}", ToolCall, place, warn)
    except UnreadablePart as exc:
        if any(member.name == "reason" for member in members):
            raise  # a `reason` of a newer format, which must not be overwritten
        reason = b',"reason":' + msgspec.json.encode(str(exc))
        invalid = read_value(b"{" + text + reason + b"}", InvalidToolCall, place, warn)
        warn(place, "invalid_call", f"read a tool call that cannot run: {exc}")
        return invalid
    warn(place, "arguments_as_text", "converted the arguments of a tool call to JSON text")
    return call


def _quote_json(raw: bytes) -> bytes:
    return raw if raw.startswith(b'"') else msgspec.json.encode(raw.decode())


def _read_tag(raw: bytes, tag_field: str | None) -> str | None:
    if tag_field is None:
        return None
    tags = [value for name, _, value in split_object(raw) or () if name == tag_field]
    return _read_string(tags[-1]) if tags else None


def _read_string(raw: bytes | None) -> str | None:
    try:
        return msgspec.json.decode(raw or b"null", type=str | None)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _read_plain(name: str, raw: bytes, hint: Any) -> Any:
    try:
        return msgspec.json.decode(raw, type=hint)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise UnreadablePart(f"{name} cannot be read: {_reason(exc)}") from None


def _reason(exc: Exception) -> str:
    """Return the reason why a member cannot be read, without quoting its value."""
    if isinstance(exc, RecursionError):
        return "nested too deeply"
    if not isinstance(exc, msgspec.ValidationError):
        return "not valid JSON"
    problem = read_validation_error(exc)
    return _REASONS_WITHOUT_VALUE.get(problem.code, problem.message)


# -- fields of classes -----------------------------------------------------------------------


@lru_cache(maxsize=64)
def _field_hints(cls: type[Value]) -> dict[str, Any]:
    fields = set(cls.__struct_fields__)
    return {
        name: hint
        for name, hint in get_type_hints(cls, include_extras=True).items()
        if name in fields
    }


@lru_cache(maxsize=64)
def _nested_fields(cls: type[Value]) -> dict[str, _NestedField]:
    allows_empty_text = getattr(cls, "allows_empty_text", True)
    found = {
        name: _read_nested_field(hint, allows_empty_text=allows_empty_text)
        for name, hint in _field_hints(cls).items()
    }
    return {name: nested for name, nested in found.items() if nested.by_tag}


def _read_nested_field(hint: Any, *, allows_empty_text: bool = True) -> _NestedField:
    is_tuple = get_origin(hint) is tuple
    inner = get_args(hint)[0] if is_tuple else hint
    values = [
        option
        for option in union_members(inner)
        if isinstance(option, type) and issubclass(option, Value)
    ]
    return _NestedField(
        by_tag={cls.__struct_config__.tag: cls for cls in values},
        tag_field=values[0].__struct_config__.tag_field if values else None,
        is_tuple=is_tuple,
        takes_opaque=Opaque in values,
        allows_empty_text=allows_empty_text,
    )
