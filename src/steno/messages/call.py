"""Tool calls, both valid and invalid ones.

The arguments are stored as the JSON text that was received, because providers cache prompts by
their bytes. Creating a call checks that the text is a JSON object; the text is parsed on first
use. This module does not depend on tool definitions or tool results.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, Final, NoReturn, TypeAlias, TypeVar, final, overload

from msgspec.structs import force_setattr

from steno.errors import InvalidArguments, InvalidMessage, InvalidTool, InvalidValue, Problem
from steno.json_object import (
    OBJECT_DECODE_ERRORS,
    JsonObject,
    check_object_syntax,
    encode_json,
    not_object_error,
    raw_members,
)
from steno.schema.convert import convert_value
from steno.values import (
    NOTHING,
    NonEmptyStr,
    Sendable,
    Value,
    check_fields,
    is_prechecked,
    is_utf8_text,
    refuse,
    replace_lone_surrogates,
)

T = TypeVar("T")
D = TypeVar("D")

MAX_TOOL_NAME_LENGTH = 64
BUILTIN_TOOL_NAMES: Final = (
    *("read", "write", "edit", "glob", "grep"),
    *("bash", "bash_output", "bash_kill"),
)
"""The names of the built-in tools, which permission rules may contain."""
MCP_TOOL_PREFIX: Final = "mcp__"
"""The prefix of the names of MCP tools."""
NO_ARGUMENTS: Final = "{}"
TOOL_NAME_RULE: Final = f"name must be 1 to {MAX_TOOL_NAME_LENGTH} letters, digits and underscores"
_TOOL_NAME = re.compile(rf"[A-Za-z0-9_]{{1,{MAX_TOOL_NAME_LENGTH}}}")
_EXTERNAL_TOOL_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_INVALID_NAME_CHARACTER = re.compile(r"[^A-Za-z0-9_]")

_known_names: set[str] = set()
"""A cache of valid names, because a session uses a few dozen names thousands of times."""
_MAX_KNOWN_NAMES = 4096


def is_tool_name(name: str) -> bool:
    """Return whether `name` follows `TOOL_NAME_RULE`."""
    if name in _known_names:
        return True
    if _TOOL_NAME.fullmatch(name) is None:
        return False
    if len(_known_names) < _MAX_KNOWN_NAMES:
        _known_names.add(name)
    return True


def map_tool_name(outside: str) -> str:
    """Return a valid tool name for an external name such as `fs.read` or `get-sum`.

    A valid name is returned unchanged. Any other name becomes a readable stem and a hash of the
    original, so that `a.b`, `a-b` and `a_b` remain distinct. Raises InvalidTool unless the external
    name consists of 1 to 128 letters, digits and any of `_ . : / -`.
    """
    if type(outside) is str and is_tool_name(outside):
        return outside
    if type(outside) is not str or _EXTERNAL_TOOL_NAME.fullmatch(outside) is None:
        message = "must be 1 to 128 letters, digits and any of _ . : / -"
        raise InvalidTool(message, code="invalid_external_name", place="tool name")
    import hashlib  # noqa: PLC0415 - it loads OpenSSL, and most programs never need it

    digest = hashlib.sha256(outside.encode()).hexdigest()[:8]
    stem = _INVALID_NAME_CHARACTER.sub("_", outside)[: MAX_TOOL_NAME_LENGTH - 9]
    return f"{stem}_{digest}"


def new_call_id() -> str:
    """Return a fresh call id that every provider accepts."""
    return "call_" + os.urandom(12).hex()


@final
class Seal(Value, frozen=True, kw_only=True):
    """An opaque token that a model adds to its output, such as a signature or encrypted reasoning.

    Only the model that created a seal can read it, so a seal is never sent to another model.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"provider", "api", "model"})

    data: NonEmptyStr
    provider: str
    api: str
    model: str

    def __post_init__(self) -> None:
        if is_prechecked():
            return
        check_fields(self)
        if not self.data:
            refuse(self, "data must not be empty", code="empty", field="data")


@final
class ToolCall(Sendable, frozen=True, tag_field="type", tag="tool_call", kw_only=True):
    """A request to run a tool. `arguments` is the text of a JSON object, as received."""

    shown: ClassVar[frozenset[str]] = frozenset({"id", "name", "original_name"})

    id: NonEmptyStr
    name: str
    arguments: str = NO_ARGUMENTS
    original_name: str | None = None
    """The name that the model used, if it is not a valid tool name."""
    seal: Seal | None = None

    def __post_init__(self) -> None:
        # Written inline for speed: this runs for every call of every loaded history.
        if not is_prechecked():
            self._check_types()
        if self.extras is not None:
            check_fields(self)
        if self.name not in _known_names and not is_tool_name(self.name):
            self._refuse_name()
        if self.arguments == NO_ARGUMENTS:
            # msgspec omits a field that *is* the default object; equal calls must encode equally.
            force_setattr(self, "arguments", NO_ARGUMENTS)
            return
        try:
            check_object_syntax(self.arguments)
        except OBJECT_DECODE_ERRORS as exc:
            error = not_object_error(exc, self.arguments)
            refuse(self, f"arguments are {error.message}", code=error.code, field="arguments")

    def _check_types(self) -> None:
        id = self.id
        if type(id) is not str or not id or not (id.isascii() or is_utf8_text(id)):
            refuse(self, "id must be a non-empty string", code="invalid_id", field="id")
        if type(self.name) is not str:
            self._refuse_name()
        if type(self.arguments) is not str:
            rule = "arguments must be a JSON object as str; ToolCall.create accepts a mapping"
            refuse(self, rule, code="wrong_type", field="arguments")
        if self.seal is not None or self.original_name is not None or self.unknown is not NOTHING:
            check_fields(self)

    def _refuse_name(self) -> NoReturn:
        refuse(self, TOOL_NAME_RULE, code="invalid_name", field="name")

    @classmethod
    def create(
        cls, name: str, arguments: Mapping[str, object] | None = None, *, id: str | None = None
    ) -> ToolCall:
        """Create a call from a mapping of arguments, with a new id if `id` is None.

        Raises InvalidMessage if the name is not a valid tool name or the arguments are not JSON.
        """
        try:
            text = encode_json({} if arguments is None else arguments).decode()
        except InvalidValue as exc:
            raise InvalidMessage(
                f"arguments are {exc}", code=exc.code, place="tool call", field="arguments"
            ) from None
        return cls(id=new_call_id() if id is None else id, name=name, arguments=text)

    @property
    def parsed(self) -> JsonObject:
        """The arguments, parsed on first use and read-only at every level.

        Raises InvalidArguments if they contain a number beyond the range of a double, or are
        nested deeper than `MAX_DEPTH`.
        """
        return _parse_cached(self.arguments)

    @overload
    def get(self, name: str) -> Any: ...
    @overload
    def get(self, name: str, type: type[T]) -> T | None: ...
    @overload
    def get(self, name: str, type: type[T], default: D) -> T | D: ...
    @overload
    def get(self, name: str, type: Any = ..., default: Any = ...) -> Any: ...
    def get(self, name: str, type: Any = Any, default: Any = None) -> Any:
        """Return the argument `name` as `type`, or `default` if the call does not have it.

        Raises InvalidArguments if the argument does not fit the type.
        """
        value = raw_members(_parse_cached(self.arguments)).get(name, _ABSENT)
        if value is _ABSENT:
            return default
        if value.__class__ is type and type in _UNCONVERTED_TYPES:
            return value
        return convert_value(value, type, at=(name,))

    def arguments_as(self, type: type[T]) -> T:
        """Return all arguments as a Struct, dataclass, TypedDict, attrs class or pydantic model.

        Raises InvalidArguments, with a JSON pointer to the mismatch, if they do not fit `type`.
        """
        converted: T = convert_value(raw_members(_parse_cached(self.arguments)), type)
        return converted


def _parse_cached(arguments: str) -> JsonObject:
    """Parse the arguments of a call, with a cache for each class of length."""
    if len(arguments) <= _MAX_SMALL:
        return _parse_small(arguments)
    return _parse_large(arguments) if len(arguments) <= _MAX_LARGE else _parse_huge(arguments)


def _parse(arguments: str) -> JsonObject:
    try:
        return JsonObject.parse(arguments)
    except InvalidValue as exc:
        raise InvalidArguments((Problem("", str(exc)),)) from None


# The calls of a run are parsed once: preview, permission, tool and display use one result. The
# caches are bounded, because a call of a long history is rarely parsed again, and parsed arguments
# can take thirty times as much memory as their text.
_MAX_SMALL: Final = 1_024
_MAX_LARGE: Final = 65_536
_parse_small = lru_cache(maxsize=1_024)(_parse)
_parse_large = lru_cache(maxsize=32)(_parse)
_parse_huge = lru_cache(maxsize=2)(_parse)
_ABSENT: Final = object()
_UNCONVERTED_TYPES: Final = frozenset({str, int, float, bool})


@final
class InvalidToolCall(
    Sendable, frozen=True, tag_field="type", tag="invalid_tool_call", kw_only=True
):
    """A tool call that cannot be run. It is stored unchanged and answered with an error."""

    shown: ClassVar[frozenset[str]] = frozenset({"id", "reason"})

    id: NonEmptyStr
    name: str = ""
    arguments: str = ""
    reason: str
    seal: Seal | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.id:
            refuse(self, "id must be a non-empty string", code="invalid_id", field="id")


AnyToolCall: TypeAlias = ToolCall | InvalidToolCall


def original_tool_name(call: AnyToolCall) -> str:
    """Return the tool name that the model sent, which may not be a valid tool name."""
    return (isinstance(call, ToolCall) and call.original_name) or call.name


def build_call(
    id: str,
    name: str,
    arguments: str,
    *,
    seal: Seal | None = None,
    extras: Mapping[str, Any] | None = None,
) -> AnyToolCall:
    """Build a ToolCall from the output of a model, or an InvalidToolCall if it cannot be run.

    Blank arguments become `{}`. An external name is mapped by `map_tool_name`.
    """
    try:
        ours = map_tool_name(name)
        return ToolCall(
            id=id,
            name=ours,
            arguments=arguments if arguments.strip() else NO_ARGUMENTS,
            original_name=None if ours == name else name,
            seal=seal,
            extras=extras,
        )
    except InvalidValue as exc:
        return InvalidToolCall(
            id=replace_lone_surrogates(id),
            name=replace_lone_surrogates(name),
            arguments=replace_lone_surrogates(arguments),
            reason=str(exc),
            seal=seal,
            extras=extras,
        )
