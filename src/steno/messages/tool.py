"""Tool definitions: the descriptions of tools that a model receives.

The parameters are a JSON Schema with type "object"; `from_type` and `from_function` generate it
from Python types, signatures and docstrings. This module does not run tools.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, final

from msgspec.structs import force_setattr

from steno.errors import InvalidArguments, InvalidTool, InvalidValue, Problem
from steno.json_object import JsonObject, as_json_object, raw_members, wrap_members
from steno.messages.call import (
    TOOL_NAME_RULE,
    AnyToolCall,
    InvalidToolCall,
    is_tool_name,
    map_tool_name,
)
from steno.schema import (
    close_objects,
    schema_of_function,
    schema_of_type,
    validate_schema,
    validate_value,
)
from steno.values import PRECHECKED, Sendable, check_fields, is_prechecked, is_utf8_text, refuse

MAX_DESCRIPTION_LENGTH = 1024


class LongDescriptionWarning(UserWarning):
    """The warning for a tool description that is longer than some providers accept."""


@final
class ToolDefinition(Sendable, frozen=True, kw_only=True):
    """A tool as a model sees it: a name, a description, and the schema of its arguments.

    `strict` closes the schema: its objects accept only members that the schema declares.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"name", "original_name"})
    error_class: ClassVar[type[InvalidValue]] = InvalidTool

    name: str
    description: str
    parameters: Mapping[str, Any]
    strict: bool = True
    original_name: str | None = None
    """The external name of the tool, if it is not a valid tool name."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not is_tool_name(self.name):
            rule = f"{TOOL_NAME_RULE}; map an external name with map_tool_name()"
            refuse(self, rule, code="invalid_name", field="name")
        if not self.description.strip():
            refuse(self, "description must not be blank", code="blank", field="description")
        if len(self.description) > MAX_DESCRIPTION_LENGTH:
            warnings.warn(
                f"tool {self.name}: the description has more than {MAX_DESCRIPTION_LENGTH} "
                "characters, which some providers refuse",
                LongDescriptionWarning,
                stacklevel=2,
            )
        if self.parameters.get("type") != "object":
            rule = 'parameters must be a JSON Schema with type "object"'
            refuse(self, rule, code="not_an_object_schema", field="parameters")
        if not is_prechecked():
            _check_schema(self)
        if self.strict:
            closed = close_objects(raw_members(as_json_object(self.parameters)))
            force_setattr(self, "parameters", wrap_members(closed))

    @classmethod
    def from_type(
        cls,
        type: Any,
        *,
        name: str | None = None,
        description: str | None = None,
        strict: bool = True,
    ) -> ToolDefinition:
        """Describe a tool whose arguments are the fields of `type`.

        `type` is a msgspec Struct, dataclass, TypedDict, attrs class or pydantic model; its name
        and docstring are the defaults of `name` and `description`. Raises InvalidTool if there is
        no description, or if JSON Schema cannot represent `type`.
        """
        schema = schema_of_type(type)
        found = schema.pop("description", "")
        return cls._from_schema(
            _tool_name_of_type(type) if name is None else name,
            _require_description(found) if description is None else description,
            schema,
            strict=strict,
        )

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        strict: bool = True,
    ) -> ToolDefinition:
        """Describe a plain or async function by its parameters and its docstring.

        Raises InvalidTool for a lambda, for a parameter that cannot be passed by name (such as
        `*args`), and for a missing docstring if `description` is None.
        """
        found = schema_of_function(function)
        return cls._from_schema(
            found.name if name is None else name,
            _require_description(found.description) if description is None else description,
            found.parameters,
            strict=strict,
        )

    @classmethod
    def _from_schema(
        cls, name: str, description: str, schema: dict[str, Any], *, strict: bool
    ) -> ToolDefinition:
        """Create a definition from a generated schema, which needs no validation as a schema.

        The schema may contain values that JSON cannot represent, such as examples of the caller.
        """
        try:
            parameters = JsonObject(schema)
        except InvalidValue as exc:
            raise InvalidTool(
                f"parameters: {exc}", code=exc.code, place="tool definition", field="parameters"
            ) from None
        if not (is_utf8_text(name) and is_utf8_text(description) and type(strict) is bool):
            return cls(name=name, description=description, parameters=parameters, strict=strict)
        before = is_prechecked()
        try:
            PRECHECKED.set(True)
            return cls(name=name, description=description, parameters=parameters, strict=strict)
        finally:
            PRECHECKED.set(before)

    def check(self, call: AnyToolCall) -> tuple[Problem, ...]:
        """Return every problem of the call's arguments; empty if they fit the parameters.

        An invalid call and a call to another tool are problems, too.
        """
        if isinstance(call, InvalidToolCall):
            return (Problem("", call.reason),)
        if call.name != self.name:
            return (Problem("", f"must be a call to {self.name}, not to another tool"),)
        try:
            arguments = call.parsed
        except InvalidArguments as exc:
            return exc.problems
        return validate_value(raw_members(arguments), raw_members(as_json_object(self.parameters)))

    def check_arguments(self, call: AnyToolCall) -> None:
        """Raise InvalidArguments unless the call's arguments fit the parameters."""
        problems = self.check(call)
        if problems:
            raise InvalidArguments(problems)


def _check_schema(tool: ToolDefinition) -> None:
    problems = validate_schema(raw_members(as_json_object(tool.parameters)))
    if problems:
        rule = f"parameters are not a JSON Schema: {problems[0]}"
        refuse(tool, rule, code="invalid_schema", field="parameters")


def _require_description(found: str) -> str:
    if not found:
        message = "no description; add a docstring or pass description="
        raise InvalidTool(message, code="no_description", place="tool definition")
    return found


def _tool_name_of_type(type: Any) -> str:
    name = getattr(type, "__name__", None)
    if not isinstance(name, str):
        message = "the type has no name; pass a class, or set name="
        raise InvalidTool(message, code="no_name", place="tool definition")
    return map_tool_name(name)
