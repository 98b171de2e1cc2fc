"""Read annotations and classes with named fields, as input for a JSON Schema.

Metadata of `Annotated` is read by attribute name, not by class: msgspec's `Meta`, annotated-types,
pydantic's `FieldInfo` and PEP 727's `Doc` use the same names. Annotations are resolved by
`typing.get_type_hints`; an error about an unresolved annotation names the parameter or field.
A class is recognised by the attribute that its library sets, so attrs, dataclasses and pydantic
need not be imported. The fields and their JSON names are those that `msgspec.convert` expects,
because it converts the arguments.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Container, Iterable, Mapping
from math import isfinite
from types import SimpleNamespace
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NotRequired,
    Protocol,
    Required,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import NODEFAULT, UNSET, Struct

from steno.errors import InvalidTool
from steno.json_object import is_array, is_mapping

# -- metadata of Annotated --------------------------------------------------------------------


_QUALIFIERS = {Required: "Required", NotRequired: "NotRequired", Final: "Final"}

# Maps an attribute of the metadata to its schema keyword and the types accepted as its value.
_METADATA_KEYWORDS: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "title": ("title", str),
    "description": ("description", str),
    "documentation": ("description", str),
    "examples": ("examples", list),
    "pattern": ("pattern", str),
    "ge": ("minimum", (int, float)),
    "gt": ("exclusiveMinimum", (int, float)),
    "le": ("maximum", (int, float)),
    "lt": ("exclusiveMaximum", (int, float)),
    "multiple_of": ("multipleOf", (int, float)),
    "min_length": ("min_length", int),
    "max_length": ("max_length", int),
}

# JSON Schema has separate length keywords for strings, arrays and objects.
_LENGTH_KEYWORDS = {
    "string": {"min_length": "minLength", "max_length": "maxLength"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}


def strip_annotations(hint: Any) -> tuple[Any, tuple[Any, ...], frozenset[str]]:
    """Split a hint into its bare type, its metadata (outermost last) and its qualifiers."""
    metadata: tuple[Any, ...] = ()
    qualifiers: set[str] = set()
    while (origin := get_origin(hint)) is not None:
        if origin is Annotated:
            metadata = (*hint.__metadata__, *metadata)
            hint = hint.__origin__
        # `ReadOnly` is new in 3.13; before that it is in typing_extensions, recognised by name.
        elif getattr(origin, "_name", None) == "ReadOnly":
            hint = get_args(hint)[0]
        elif not isinstance(origin, type) and (qualifier := _QUALIFIERS.get(origin)):
            qualifiers.add(qualifier)
            hint = get_args(hint)[0]
        else:
            break
    return hint, metadata, frozenset(qualifiers)


def read_metadata(metadata: Iterable[Any]) -> dict[str, Any]:
    """Return the schema keywords for the metadata of `Annotated`; later metadata has precedence."""
    notes: dict[str, Any] = {}
    for item in metadata:
        if isinstance(item, str):
            notes["description"] = item
            continue
        for attribute, (keyword, carried) in _METADATA_KEYWORDS.items():
            fact = getattr(item, attribute, None)
            if isinstance(fact, carried):
                notes[keyword] = fact
        # pydantic stores the constraints of a field in a separate list.
        inner = getattr(item, "metadata", None)
        if is_array(inner):
            notes |= read_metadata(inner)
        extra = getattr(item, "extra_json_schema", None)
        if is_mapping(extra):
            notes |= extra
    return notes


def add_keywords(schema: dict[str, Any], notes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the schema with the keywords in `notes` added.

    A `$ref` is first wrapped in an `anyOf` of one schema, because drafts before 2019-09 ignore
    keywords next to a reference, and OpenAI's strict mode rejects a tool that has them.
    """
    if not notes:
        return schema
    result = {"anyOf": [schema]} if "$ref" in schema else dict(schema)
    for keyword, fact in notes.items():
        if keyword in ("min_length", "max_length"):
            result |= _length_keywords(schema, keyword, fact)
        else:
            result[keyword] = fact
    return result


def _length_keywords(schema: dict[str, Any], attribute: str, length: int) -> dict[str, int]:
    if schema.get("contentEncoding") == "base64":  # 4 characters encode 3 bytes
        length = 4 * -(-length // 3)
    kinds = [branch.get("type") for branch in schema.get("anyOf", [schema])]
    return {_LENGTH_KEYWORDS[kind][attribute]: length for kind in kinds if kind in _LENGTH_KEYWORDS}


# -- annotations of functions and classes -----------------------------------------------------


# The errors that evaluating an annotation raises if a name in it is unknown or misused.
_HINT_ERRORS = (NameError, AttributeError, SyntaxError, TypeError)


def function_hints(function: Any, names: Container[str], *, at: str) -> dict[str, Any]:
    """Return the types of the parameters in `names`.

    Other parameters are ignored, because their annotations need not be resolvable. Raises
    InvalidTool if an annotation cannot be resolved; `at` is the prefix of the parameter name in the
    error.
    """
    module, own = getattr(function, "__globals__", {}), _type_parameters(function)
    hints: dict[str, Any] = {}
    for name, annotation in _raw_annotations(function).items():
        if name in names:
            holder = SimpleNamespace(__annotations__={name: annotation})
            try:
                hints |= get_type_hints(holder, module, own, include_extras=True)
            except _HINT_ERRORS as exc:
                raise unresolved_error(at + name, getattr(exc, "name", None)) from exc
    return hints


def _class_hints(cls: type, arguments: tuple[Any, ...], at: str) -> dict[str, Any]:
    """Return the type of every annotated field of a class, with type variables substituted.

    Raises InvalidTool if an annotation cannot be resolved.
    """
    try:
        hints = get_type_hints(cls, include_extras=True)
    except _HINT_ERRORS:
        # A class defined inside a function is not in the module namespace, so a reference to the
        # class in its own annotations needs this local namespace.
        own = {cls.__name__: cls, **_type_parameters(cls)}
        try:
            hints = get_type_hints(cls, None, {**vars(cls), **own}, include_extras=True)
        except _HINT_ERRORS as exc:
            raise _unresolved_field_error(cls, exc, at) from exc
    if not hasattr(cls, "__orig_bases__") and not arguments:
        return hints
    bindings = _type_variable_bindings(cls, arguments)
    resolved: dict[str, Any] = {}
    for name, hint in hints.items():
        scopes = (scope for owner, scope in bindings.items() if name in _raw_annotations(owner))
        resolved[name] = substitute_type_variables(hint, next(scopes))
    return resolved


def unresolved_error(at: str, name: str | None) -> InvalidTool:
    """Return the error for an annotation that cannot be resolved.

    `name` is the name in the annotation that is not defined; None if it is not known.
    """
    which = f"the name {name!r} in the annotation" if name else "a name in the annotation"
    return InvalidTool(
        f"{which} cannot be resolved; define or import it at module level"
        " (not under TYPE_CHECKING, not inside a function)",
        code="unresolved_annotation",
        place=at,
    )


def _unresolved_field_error(cls: type, exc: BaseException, at: str) -> InvalidTool:
    """Return the error for a class that has an unresolved annotation, naming the field if known."""
    name = getattr(exc, "name", None)
    for base in cls.__mro__:
        for field, annotation in _raw_annotations(base).items():
            if name and name in str(annotation):
                return unresolved_error(f"{at}.{field}", name)
    return unresolved_error(at, name)


def substitute_type_variables(hint: Any, binding: Mapping[Any, Any]) -> Any:
    """Return the hint with its type variables replaced by the types in `binding`."""
    if isinstance(hint, TypeVar):
        return binding.get(hint, hint)
    if isinstance(hint, type) or not (parameters := getattr(hint, "__parameters__", ())):
        return hint
    return hint[tuple(binding.get(parameter, parameter) for parameter in parameters)]


def _raw_annotations(owner: Any) -> Mapping[str, Any]:
    """Return the annotations of a function, or of a class but not its bases.

    Forward references in them may be unresolved.
    """
    # From 3.14 on, reading `__annotations__` evaluates the annotations (PEP 649).
    if sys.version_info >= (3, 14):  # pragma: no cover
        import annotationlib  # noqa: PLC0415 - new in 3.14

        return annotationlib.get_annotations(owner, format=annotationlib.Format.FORWARDREF)
    return getattr(owner, "__annotations__", {})


def _type_parameters(owner: Any) -> dict[str, Any]:
    # The T of `def f[T](…)` and `class C[T]` (PEP 695) is not in a module or class namespace.
    return {parameter.__name__: parameter for parameter in getattr(owner, "__type_params__", ())}


def _type_variable_bindings(cls: type, arguments: tuple[Any, ...]) -> dict[type, dict[Any, Any]]:
    """Return the types bound to the type variables of a class and of each of its bases."""
    bound: dict[type, dict[Any, Any]] = {}

    def bind(generic: type, given: tuple[Any, ...]) -> None:
        scope = dict(zip(getattr(generic, "__parameters__", ()), given, strict=False))
        bound[generic] = scope
        for base in vars(generic).get("__orig_bases__", generic.__bases__):
            origin = get_origin(base) or base
            if isinstance(origin, type) and origin not in (Generic, Protocol, object):
                bind(origin, tuple(substitute_type_variables(a, scope) for a in get_args(base)))

    bind(cls, arguments)
    return bound


# -- fields of classes ------------------------------------------------------------------------


class InputField(Struct, frozen=True):
    """A parameter of a function or a field of a class, with its JSON name, type and default."""

    name: str
    type: Any
    required: bool = True
    default: Any = UNSET
    """A JSON value, or UNSET if there is no default or JSON cannot represent it."""
    attribute: str = ""
    """The Python name of a struct field, which may differ from `name`; empty for other inputs."""


class ClassFields(Struct, frozen=True):
    """The fields of a class, in source order."""

    fields: list[InputField]
    is_closed: bool = False
    """Whether unknown fields are forbidden."""
    is_positional: bool = False
    """Whether JSON represents the class as an array, as for a named tuple."""


def read_class_fields(
    hint: Any, cls: type, arguments: tuple[Any, ...], at: str
) -> ClassFields | None:
    """Return the fields of a class; None if it is not a class with named fields.

    `hint` is the class or, for a generic class, its alias `cls[arguments]`.
    Raises InvalidTool for an `array_like` struct, for a dataclass with an `InitVar`, or if an
    annotation cannot be resolved.
    """
    for marker, read in _FIELD_READERS.items():
        if hasattr(cls, marker):
            return read(hint, cls, arguments, at)
    return None


def json_default(default: Any) -> Any:
    """Return a default as a JSON value, or UNSET if JSON cannot represent it."""
    if default is UNSET:
        return UNSET
    try:
        plain = msgspec.to_builtins(
            default, str_keys=True, order="deterministic", enc_hook=os.fspath
        )
        return msgspec.json.decode(msgspec.json.encode(plain)) if _is_finite(plain) else UNSET
    except (TypeError, ValueError, RecursionError):
        return UNSET


def _is_finite(plain: Any) -> bool:
    match plain:
        case float():
            return isfinite(plain)
        case list() | tuple():
            return all(map(_is_finite, cast("list[Any]", plain)))
        case dict():
            return all(map(_is_finite, cast("dict[str, Any]", plain).values()))
        case _:
            return True


# Other factories are not called, because they may depend on the clock or on random numbers.
_EMPTY_DEFAULTS: dict[Any, Any] = {list: [], tuple: [], set: [], frozenset: [], dict: {}}


def _factory_default(factory: Any) -> Any:
    """Return the default of a factory that builds an empty container; UNSET for other factories."""
    return _EMPTY_DEFAULTS.get(factory, UNSET) if isinstance(factory, type) else UNSET


def _read_struct(hint: Any, cls: Any, _arguments: tuple[Any, ...], at: str) -> ClassFields:
    config = cls.__struct_config__
    if config.array_like:
        raise InvalidTool(
            f"{cls.__name__} is array_like, but arguments are passed by name;"
            " use a struct without array_like",
            code="array_like",
            place=at,
        )
    try:
        found = msgspec.structs.fields(hint)
    except _HINT_ERRORS as exc:
        raise _unresolved_field_error(cls, exc, at) from exc
    fields = [
        InputField(
            f.encode_name,
            f.type,
            f.required,
            _factory_default(f.default_factory)
            if f.default is NODEFAULT
            else json_default(f.default),
            attribute=f.name,
        )
        for f in found
    ]
    if config.tag is not None:
        fields.insert(0, InputField(config.tag_field, Literal[config.tag]))
    return ClassFields(fields, is_closed=config.forbid_unknown_fields)


def _read_dataclass(_hint: Any, cls: Any, arguments: tuple[Any, ...], at: str) -> ClassFields:
    # Imported here, so that only programs that use dataclasses pay for the import.
    from dataclasses import MISSING, InitVar, fields  # noqa: PLC0415

    hints = _class_hints(cls, arguments, at)
    for name, found in hints.items():
        if isinstance(found, InitVar):
            message = "an InitVar cannot be read from JSON; use a field instead"
            raise InvalidTool(message, code="init_var", place=f"{at}.{name}")
    return ClassFields(
        [
            InputField(
                f.name,
                hints[f.name],
                f.default is MISSING and f.default_factory is MISSING,
                _factory_default(f.default_factory)
                if f.default is MISSING
                else json_default(f.default),
            )
            for f in fields(cls)
            if f.init
        ]
    )


def _read_attrs(_hint: Any, cls: Any, arguments: tuple[Any, ...], at: str) -> ClassFields:
    nothing = sys.modules["attr"].NOTHING  # already imported, because attrs built the class
    hints = _class_hints(cls, arguments, at)
    found: list[InputField] = []
    for f in cls.__attrs_attrs__:
        hint = hints.get(f.name, f.type or Any)
        if f.default is nothing and f.init:
            found.append(InputField(f.name, hint))
        elif f.init:
            factory = getattr(f.default, "factory", None)
            default = _factory_default(factory) if factory else json_default(f.default)
            found.append(InputField(f.name, hint, False, default))
    return ClassFields(found)


def _read_typed_dict(_hint: Any, cls: Any, arguments: tuple[Any, ...], at: str) -> ClassFields:
    fields: list[InputField] = []
    for name, found in _class_hints(cls, arguments, at).items():
        _, _, qualifiers = strip_annotations(found)
        # `__required_keys__` misses qualifiers in string annotations (PEP 563).
        required = "Required" in qualifiers or (
            name in cls.__required_keys__ and "NotRequired" not in qualifiers
        )
        fields.append(InputField(name, found, required))
    return ClassFields(fields)


def _read_named_tuple(_hint: Any, cls: Any, arguments: tuple[Any, ...], at: str) -> ClassFields:
    hints = _class_hints(cls, arguments, at)
    defaults = cls._field_defaults
    fields = [
        InputField(
            name,
            hints.get(name, Any),
            name not in defaults,
            json_default(defaults.get(name, UNSET)),
        )
        for name in cls._fields
    ]
    return ClassFields(fields, is_positional=True)


_FieldReader: TypeAlias = Callable[[Any, type, tuple[Any, ...], str], ClassFields]

_FIELD_READERS: dict[str, _FieldReader] = {
    "__struct_config__": _read_struct,
    "__dataclass_fields__": _read_dataclass,
    "__attrs_attrs__": _read_attrs,
    "__required_keys__": _read_typed_dict,
    "_field_defaults": _read_named_tuple,
}
