"""Build the JSON Schema of Python types and functions.

Every class with named fields is described once, under `$defs`, and is otherwise a reference, so
that recursive classes terminate. Enums, literals and aliases are small and are written inline, so
that servers that drop `$ref` (Ollama) still receive them. The properties of a function schema are
read from the signature, and their descriptions from the docstring.
"""

from __future__ import annotations

import re
from collections import OrderedDict, abc, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from types import FunctionType, MethodType, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    ForwardRef,
    Literal,
    LiteralString,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from steno.errors import InvalidTool
from steno.json_object import is_array, is_mapping
from steno.schema.docstrings import read_docstring
from steno.schema.type_hints import (
    ClassFields,
    InputField,
    add_keywords,
    function_hints,
    json_default,
    read_class_fields,
    read_metadata,
    strip_annotations,
    substitute_type_variables,
    unresolved_error,
)

if TYPE_CHECKING:
    from inspect import Parameter


Schema: TypeAlias = dict[str, Any]
_BuildSchema: TypeAlias = Callable[[Any, str], Schema]
"""Builds the schema of a type; the second argument is the place that an error names."""

_REFERENCE_PREFIX: Final = "#/$defs/"
_MAX_TYPE_DEPTH: Final = 100


def schema_of_type(hint: Any) -> Schema:
    """Return the JSON Schema of a type, with the classes that it refers to under `$defs`.

    Raises InvalidTool, which names the field, if JSON cannot represent the type.
    """
    builder = _SchemaBuilder()
    base, metadata, _ = strip_annotations(hint)
    schema = builder.build(base, _type_name(base))
    return builder.finish(add_keywords(builder.inline(schema), read_metadata(metadata)))


class FunctionSchema(Struct, frozen=True):
    """The name, description and parameters of a function."""

    name: str
    description: str
    """The docstring up to its first section; empty if there is no docstring."""
    parameters: dict[str, Any]
    """A JSON Schema of type object, with one property for each parameter."""


def schema_of_function(function: Any) -> FunctionSchema:
    """Return the name, description and parameters of a function or other callable object.

    Parameters that a `functools.partial` has bound are left out.
    Raises InvalidTool if a parameter cannot be passed by name or JSON cannot represent its type.
    """
    target, given, named = function, (), set[str]()
    while isinstance(target, partial):
        given = (*target.args, *given)
        named |= target.keywords.keys()
        target = cast("Any", target.func)
    name = getattr(target, "__name__", type(target).__name__)
    if isinstance(target, type) or not callable(target):
        raise InvalidTool(
            "not a function; use from_type for a class", code="not_a_function", place=name
        )
    if name == "<lambda>":
        raise InvalidTool("a lambda has no name; define the function with def", code="lambda")
    written: str | None = target.__doc__
    if not hasattr(target, "__name__"):  # an object with a __call__
        written = type(target).__call__.__doc__ or written
    doc = read_docstring(written)
    builder = _SchemaBuilder()
    parameters = builder.build_object(
        _parameter_fields(target, _parameters(target, given, named, name), name),
        entries=doc.entries,
        description="",
        at=f"{name}: parameter ",
    )
    return FunctionSchema(name, doc.text, builder.finish(parameters))


def _parameters(
    target: Any, given: tuple[Any, ...], named: set[str], name: str
) -> dict[str, Parameter]:
    """Return the parameters of a callable that `given` and `named` do not bind.

    Raises InvalidTool if the signature cannot be read or a parameter cannot be passed by name.
    """
    # Imported here, because inspect takes longer to load than this whole package.
    from inspect import signature  # noqa: PLC0415

    try:
        # A new partial is needed because `signature` follows the `__wrapped__` attribute that
        # `update_wrapper` sets, and then ignores the bound arguments.
        found = signature(partial(target, *given) if given else target).parameters
    except (TypeError, ValueError) as exc:
        raise InvalidTool("the signature cannot be read", code="no_signature", place=name) from exc
    parameters = {key: value for key, value in found.items() if key not in named}
    for i, parameter in enumerate(parameters.values()):
        _check_parameter_kind(parameter, name, is_first=i == 0)
    return parameters


def _check_parameter_kind(parameter: Parameter, name: str, *, is_first: bool) -> None:
    """Raise InvalidTool for a parameter that a model cannot pass by name."""
    at = f"{name}: parameter {parameter.name}"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise InvalidTool(
            "*args and **kwargs are not supported; name every parameter",
            code="variable_arguments",
            place=at,
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        message = "positional-only, but arguments are passed by name; remove the / marker"
        raise InvalidTool(message, code="positional_only", place=at)
    if is_first and parameter.name in ("self", "cls") and parameter.annotation is parameter.empty:
        raise InvalidTool(
            "the method is not bound; pass a method of an instance", code="unbound_method", place=at
        )


def _parameter_fields(
    target: Any, parameters: dict[str, Parameter], name: str
) -> Iterator[InputField]:
    from inspect import Parameter, unwrap  # noqa: PLC0415 - as above

    found = unwrap(target)
    if not isinstance(found, FunctionType | MethodType):
        found = unwrap(type(found).__call__)
    function = getattr(found, "__func__", found)
    hints = function_hints(function, parameters, at=f"{name}: parameter ")
    for parameter in parameters.values():
        hint, default = hints.get(parameter.name, parameter.annotation), parameter.default
        if hint is Parameter.empty:
            has_type = type(default) in _TYPED_BY_DEFAULT or isinstance(default, Enum)
            hint = type(default) if has_type else Any
        if default is Parameter.empty:
            yield InputField(parameter.name, hint)
        else:
            yield InputField(parameter.name, hint, False, json_default(default))


_TYPED_BY_DEFAULT = frozenset({bool, int, float, str, list, dict, tuple, set})


# -- builder ----------------------------------------------------------------------------------


class _SchemaBuilder:
    """Builds one schema and collects the definitions that the schema refers to."""

    def __init__(self) -> None:
        self._defs: dict[str, Schema] = {}
        self._names: dict[Hashable, str] = {}
        self._open_aliases: set[Hashable] = set()
        self._depth = 0
        self._pydantic_definitions = _PydanticDefinitions(self._defs, self._free_name)

    def build(self, hint: Any, at: str) -> Schema:
        """Return the schema of a type; `at` is the place that an error names."""
        # A generic class may refer to ever deeper forms of itself: Node[T], Node[list[T]], …
        if self._depth > _MAX_TYPE_DEPTH:
            message = f"types are nested more than {_MAX_TYPE_DEPTH} levels deep"
            raise InvalidTool(message, code="types_too_deep", place=at)
        self._depth += 1
        schema = self._build(hint, at)
        self._depth -= 1
        return schema

    def _build(self, hint: Any, at: str) -> Schema:
        origin = hint if isinstance(hint, type) else get_origin(hint) or hint
        try:
            hash(origin)
        except TypeError:
            raise _unsupported_type_error(hint, at) from None
        if (plain := _PLAIN_TYPES.get(origin)) is not None:
            return dict(plain)
        if (build_form := _TYPE_FORMS.get(origin)) is not None:
            return build_form(hint, self.build, at)
        if isinstance(origin, type):
            return self._build_class(hint, origin, at)
        if isinstance(hint, TypeVar):
            if hint.__constraints__:
                return _union_schema(hint.__constraints__, self.build, at)
            return self.build(hint.__bound__ or Any, at)
        if hasattr(origin, "__supertype__"):  # NewType
            return self.build(origin.__supertype__, at)
        if hasattr(origin, "__value__"):  # type X = …
            return self._build_alias(hint, origin, at)
        if isinstance(hint, str | ForwardRef):
            raise unresolved_error(at, hint if isinstance(hint, str) else hint.__forward_arg__)
        raise _unsupported_type_error(hint, at)

    def build_object(
        self, fields: Iterable[InputField], *, entries: Mapping[str, str], description: str, at: str
    ) -> Schema:
        """Return the schema of an object with these fields.

        `entries` maps field names to descriptions; errors prefix a field name with `at`.
        """
        properties: Schema = {}
        required: list[str] = []
        for field in fields:
            properties[field.name] = self._build_property(field, entries, at)
            if field.required:
                required.append(field.name)
        schema: Schema = {"type": "object"}
        if description:
            schema["description"] = description
        schema["properties"] = properties
        if required:
            schema["required"] = required
        return schema

    def inline(self, schema: Schema) -> Schema:
        """Return the target of a reference; return any other schema unchanged.

        The definition of the target is removed, unless a definition refers to it.
        """
        if "$ref" not in schema:
            return schema
        name = schema["$ref"].removeprefix(_REFERENCE_PREFIX)
        found = self._defs[name]
        if not _contains_reference(self._defs, schema["$ref"]):
            del self._defs[name]
        return found

    def finish(self, schema: Schema) -> Schema:
        return {**schema, "$defs": self._defs} if self._defs else schema

    def _build_property(self, field: InputField, entries: Mapping[str, str], at: str) -> Schema:
        base, metadata, _ = strip_annotations(field.type)
        notes: Schema = {}
        if description := entries.get(field.attribute or field.name):
            notes["description"] = description
        notes |= read_metadata(metadata)
        if field.default is not UNSET:
            notes["default"] = field.default
        return add_keywords(self.build(base, at + field.name), notes)

    # -- types with a definition ----

    def _build_class(self, hint: Any, cls: Any, at: str) -> Schema:
        if issubclass(cls, Enum):
            return _enum_schema(cls, at)
        key = _type_key(hint)
        if key not in self._names:
            if hasattr(cls, "model_json_schema"):
                self._names[key] = self._pydantic_definitions.add_model(cls, at)
            elif record := read_class_fields(hint, cls, get_args(hint), at):
                self._names[key] = self._free_name(_type_name(hint))
                self._define_class(self._names[key], record, cls, at)
            elif hasattr(cls, "__fspath__"):
                return {"type": "string"}
            else:
                raise _unsupported_type_error(hint, at)
        return {"$ref": _REFERENCE_PREFIX + self._names[key]}

    def _define_class(self, name: str, record: ClassFields, cls: type, at: str) -> None:
        self._defs[name] = {}  # reserves the position before the classes that `cls` refers to
        written = vars(cls).get("__doc__")
        if written and written.startswith(f"{cls.__name__}("):
            written = None  # generated by dataclasses or NamedTuple
        doc = read_docstring(written)
        if record.is_positional:
            items = [
                {"title": field.name, **self._build_property(field, doc.entries, f"{at}.")}
                for field in record.fields
            ]
            schema = _tuple_schema(items, sum(field.required for field in record.fields))
            self._defs[name] = add_keywords(schema, {"description": doc.text} if doc.text else {})
            return
        schema = self.build_object(
            record.fields, entries=doc.entries, description=doc.text, at=f"{at}."
        )
        self._defs[name] = add_keywords(
            schema, {"additionalProperties": False} if record.is_closed else {}
        )

    def _build_alias(self, hint: Any, alias: Any, at: str) -> Schema:
        """Return the schema of a `type X = …` alias, as a reference if the alias is recursive."""
        key = _type_key(hint)
        if key in self._open_aliases and key not in self._names:
            name = self._names[key] = self._free_name(_type_name(hint))
            self._defs[name] = {}
        if key not in self._names:
            self._open_aliases.add(key)
            binding = dict(zip(alias.__type_params__, get_args(hint), strict=False))
            schema = self.build(substitute_type_variables(alias.__value__, binding), at)
            self._open_aliases.discard(key)
            if key not in self._names:
                return schema
            self._defs[self._names[key]] = schema
        return {"$ref": _REFERENCE_PREFIX + self._names[key]}

    def _free_name(self, wanted: str) -> str:
        # The name is part of a URI fragment: `Page[int]` becomes `Page_int`.
        wanted = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "Type"
        name, count = wanted, 1
        while name in self._defs:
            count += 1
            name = f"{wanted}_{count}"
        return name


def _type_name(hint: Any) -> str:
    if isinstance(hint, type):
        return hint.__name__
    arguments = ", ".join(_type_name(argument) for argument in get_args(hint))
    return f"{_type_name(get_origin(hint))}[{arguments}]" if arguments else str(hint)


def _type_key(hint: Any) -> Hashable:
    """Return the hint as a dictionary key, or its repr if its metadata is not hashable."""
    try:
        hash(hint)
    except TypeError:
        return repr(hint)
    return cast("Hashable", hint)


def _contains_reference(schema: object, ref: str) -> bool:
    if is_mapping(schema):
        return any(_contains_reference(part, ref) for part in schema.values())
    if is_array(schema):
        return any(_contains_reference(part, ref) for part in schema)
    return schema == ref


def _unsupported_type_error(hint: Any, at: str) -> InvalidTool:
    return InvalidTool(
        f"JSON cannot represent {_type_name(hint)}; use a plain type, a list or dict of plain"
        " types, or a class with typed fields (msgspec, dataclass, TypedDict, attrs, pydantic)."
        " If the model should not pass this argument, bind it with functools.partial",
        code="unsupported_type",
        place=at,
    )


# -- types without a definition ---------------------------------------------------------------
#
# `Optional[X]` is `anyOf` of X and null, not a list of types, because only `anyOf` also works if X
# is a reference, an enum or an object. OpenAI's strict mode, Ollama and Gemini all accept it.


# The schema of the JSON that `msgspec.convert` accepts for each type.
_PLAIN_TYPES: dict[Any, Schema] = {
    Any: {},
    object: {},
    Raw: {},
    Final: {},
    str: {"type": "string"},
    LiteralString: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    NoneType: {"type": "null"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    bytearray: {"type": "string", "contentEncoding": "base64"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    time: {"type": "string", "format": "time"},
    timedelta: {"type": "string", "format": "duration"},
    UUID: {"type": "string", "format": "uuid"},
}


def _union_schema(members: Iterable[Any], build: _BuildSchema, at: str) -> Schema:
    """Return the schema of a union, without nested unions and duplicate members."""
    branches: list[Schema] = []
    for member in members:
        if member is UnsetType:  # in msgspec, it means that the field may be omitted
            continue
        schema = build(member, at)
        for branch in schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]:
            if branch not in branches:
                branches.append(branch)
    if {} in branches:
        return {}
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


def _tuple_schema(items: list[Schema], least: int) -> Schema:
    """Return the schema of an array with these items, of which the first `least` are required."""
    return {"type": "array", "prefixItems": items, "minItems": least, "maxItems": len(items)}


def _build_annotated(hint: Any, build: _BuildSchema, at: str) -> Schema:
    base, metadata, _ = strip_annotations(hint)
    return add_keywords(build(base, at), read_metadata(metadata))


def _build_array(hint: Any, build: _BuildSchema, at: str) -> Schema:
    arguments = get_args(hint)
    # `items` is set even if any item is allowed, because OpenAI rejects an array without it.
    return {"type": "array", "items": build(arguments[0], f"{at}[]") if arguments else {}}


def _build_tuple(hint: Any, build: _BuildSchema, at: str) -> Schema:
    arguments = get_args(hint)
    if arguments[1:] == (...,) or (not arguments and hint != tuple[()]):
        return _build_array(hint, build, at)
    items = [build(argument, f"{at}[{i}]") for i, argument in enumerate(arguments)]
    return (
        _tuple_schema(items, len(items)) if items else {"type": "array", "items": {}, "maxItems": 0}
    )


def _build_mapping(hint: Any, build: _BuildSchema, at: str) -> Schema:
    key, value = get_args(hint) or (Any, Any)
    schema: Schema = {"type": "object"}
    if names := _property_names(build(key, f"{at}{{key}}"), at):
        schema["propertyNames"] = names
    # Set even if any value is allowed, because `close_objects` recognises a mapping by it.
    schema["additionalProperties"] = build(value, f"{at}{{}}") or True
    return schema


def _property_names(key: Schema, at: str) -> Schema | None:
    """Return the schema for the property names of a mapping; None if any name is allowed.

    `key` is the schema of the keys. JSON has only strings as names, so integers become a pattern or
    a list of strings. Raises InvalidTool for keys of another type.
    """
    match key:
        case {"type": "integer", "enum": numbers}:
            return {"enum": [str(number) for number in numbers]}
        case {"type": "integer"}:
            return {"pattern": "^-?[0-9]+$"}
        case {"type": "string"}:
            return key if len(key) > 1 else None
        case {} if not key:
            return None
        case _:
            message = "the keys of a mapping must be str, int, or an enum of str or int"
            raise InvalidTool(message, code="unsupported_key_type", place=at)


_TYPE_FORMS: dict[Any, Callable[[Any, _BuildSchema, str], Schema]] = {
    **dict.fromkeys(
        (Union, UnionType), lambda hint, build, at: _union_schema(get_args(hint), build, at)
    ),
    Literal: lambda hint, _, at: _literal_schema(hint, at),
    Annotated: _build_annotated,
    Decimal: lambda _hint, _build, _at: {
        "anyOf": [{"type": "string", "format": "decimal"}, {"type": "number"}]
    },
    tuple: _build_tuple,
    **dict.fromkeys((list, set, frozenset, deque, abc.Sequence, abc.MutableSequence), _build_array),
    **dict.fromkeys((abc.Collection, abc.Iterable, abc.Set, abc.MutableSet), _build_array),
    **dict.fromkeys(
        (dict, OrderedDict, defaultdict, abc.Mapping, abc.MutableMapping), _build_mapping
    ),
}


# -- enums and literals -----------------------------------------------------------------------


def _enum_schema(enum: type[Enum], at: str) -> dict[str, Any]:
    """Return the schema of an enum.

    Raises InvalidTool unless the values are all str or all int, as msgspec requires.
    """
    values = [member.value for member in enum]
    kinds: set[type] = {str if isinstance(value, str) else type(value) for value in values}
    if kinds not in ({str}, {int}):
        message = f"the values of {enum.__name__} must be all str or all int"
        raise InvalidTool(message, code="mixed_enum_values", place=at)
    schema = {"type": _TYPE_NAMES[kinds.pop()], "enum": values}
    if text := read_docstring(enum.__doc__).text:
        schema["description"] = text
    return schema


def _literal_schema(literal: Any, at: str) -> dict[str, Any]:
    """Return the schema of a `Literal`; a `None` among its values becomes a null alternative."""
    values = list(_flatten_literal(get_args(literal)))
    kinds: set[type] = {type(value) for value in values}
    if not kinds <= {str, int, bool, NoneType}:
        message = "the values of a Literal must be str, int, bool, None or enum members"
        raise InvalidTool(message, code="unsupported_literal", place=at)
    choices = [value for value in values if value is not None]
    kinds.discard(NoneType)
    schema: dict[str, Any] = {"enum": choices}
    if len(kinds) == 1:
        schema = {"type": _TYPE_NAMES[kinds.pop()], "enum": choices}
    if len(choices) == len(values):
        return schema
    return {"anyOf": [schema, {"type": "null"}]} if choices else {"type": "null"}


def _flatten_literal(values: Iterable[Any]) -> Iterable[Any]:
    """Yield the plain values of a `Literal`.

    Unlike `typing`, this also flattens a nested `type X = Literal[…]`.
    """
    for value in values:
        inner = getattr(value, "__value__", value)
        if get_origin(inner) is Literal:
            yield from _flatten_literal(get_args(inner))
        else:
            yield inner.value if isinstance(inner, Enum) else inner


_TYPE_NAMES = {str: "string", int: "integer", bool: "boolean"}


# -- pydantic models --------------------------------------------------------------------------
#
# A pydantic model describes itself better than steno could, with its own `$defs`. These move
# to the root, under new names if their names are already taken.
# The code depends on the structure of `model_json_schema()` and does not import pydantic.


class _PydanticDefinitions:
    """Adds the definitions of pydantic models to `defs`, each definition once."""

    def __init__(self, defs: dict[str, Any], free_name: Callable[[str], str]) -> None:
        self._defs = defs
        self._free_name = free_name
        self._taken: dict[str, tuple[Any, str]] = {}

    def add_model(self, model: Any, at: str) -> str:
        """Add a model and all definitions that it refers to; return the model's key in `defs`.

        Raises InvalidTool if pydantic cannot build a schema for the model.
        """
        try:
            schema = model.model_json_schema()
        except (RuntimeError, NameError, TypeError) as exc:  # the base classes of pydantic's errors
            message = f"pydantic cannot build a schema for {model.__name__}"
            raise InvalidTool(message, code="no_pydantic_schema", place=at) from exc
        found: dict[str, Any] = schema.pop("$defs", {})
        # A recursive model refers to itself.
        key = schema.get("$ref", "").removeprefix(_REFERENCE_PREFIX)
        if not key:
            key = model.__name__
            # pydantic inlined this model, so a definition of that name is a different class.
            while key in found:
                key += "_"
            found[key] = schema
        # Definitions are reused only if every known name has the same definition, because a
        # definition may refer to another one that differs.
        known = all(self._taken.get(k, (v, ""))[0] == v for k, v in found.items())
        names = {k: self._taken[k][1] for k in found if known and k in self._taken}
        fresh = {k: v for k, v in found.items() if k not in names}
        for k in fresh:
            names[k] = self._free_name(k)
            self._defs[names[k]] = {}
        for k, v in fresh.items():
            self._taken[k] = (v, names[k])
            self._defs[names[k]] = _rename_references(v, names)
        return names[key]


def _rename_references(schema: Any, names: dict[str, str]) -> Any:
    """Return a copy in which references, including those in discriminators, use the new names."""
    if is_mapping(schema):
        return {keyword: _rename_references(part, names) for keyword, part in schema.items()}
    if is_array(schema):
        return [_rename_references(item, names) for item in schema]
    if isinstance(schema, str) and schema.startswith(_REFERENCE_PREFIX):
        name = schema.removeprefix(_REFERENCE_PREFIX)
        return _REFERENCE_PREFIX + names.get(name, name)
    return schema
