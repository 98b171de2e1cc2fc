"""Python types as JSON Schema: `schema_of_type`, and the `Builder` behind it.

Every class with named fields is described once, under `$defs`, and referred to; that also
ends recursion. Enums, literals and aliases are small and are written in place, so that
servers which drop `$ref` (Ollama) still see them.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from enum import Enum
from typing import Any, ForwardRef, TypeVar, cast, get_args, get_origin

from msgspec import UNSET

from steno.errors import InvalidTool
from steno.schema.annotated import beside, peel, read_notes
from steno.schema.choices import schema_of_enum
from steno.schema.docstrings import read_docstring
from steno.schema.forms import Schema, any_of, schema_of_form, tuple_of
from steno.schema.hints import substitute, unresolved
from steno.schema.pydantic_models import Adopter
from steno.schema.records import Field, Record, read_record
from steno.schema.shapes import is_array, is_mapping

_REF = "#/$defs/"
_MAX_DEPTH = 100


def schema_of_type(hint: Any) -> Schema:
    """Return the JSON Schema of a type, with the classes it refers to under `$defs`.

    Raises InvalidTool, naming the field, for a type that JSON cannot carry.
    """
    builder = Builder()
    base, metadata, _ = peel(hint)
    schema = builder.build(base, _name(base))
    return builder.finish(beside(builder.inline(schema), read_notes(metadata)))


class Builder:
    """Builds one schema and collects the definitions that it needs on the way."""

    def __init__(self) -> None:
        self._defs: dict[str, Schema] = {}
        self._names: dict[Hashable, str] = {}
        self._open_aliases: set[Hashable] = set()
        self._depth = 0
        self._pydantic_definitions = Adopter(self._defs, self._free_name)

    def build(self, hint: Any, at: str) -> Schema:
        """Return the schema of a type; `at` is the place that an error names."""
        # A generic class may ask for ever new instances of itself: Node[T], Node[list[T]], …
        if self._depth > _MAX_DEPTH:
            raise InvalidTool(f"{at}: types are nested more than {_MAX_DEPTH} deep")
        self._depth += 1
        schema = self._build(hint, at)
        self._depth -= 1
        return schema

    def _build(self, hint: Any, at: str) -> Schema:
        origin = hint if isinstance(hint, type) else get_origin(hint) or hint
        try:
            hash(origin)
        except TypeError:
            raise _unsupported(hint, at) from None
        if (schema := schema_of_form(hint, origin, self.build, at)) is not None:
            return schema
        if isinstance(origin, type):
            return self._build_class(hint, origin, at)
        if isinstance(hint, TypeVar):
            if hint.__constraints__:
                return any_of(hint.__constraints__, self.build, at)
            return self.build(hint.__bound__ or Any, at)
        if hasattr(origin, "__supertype__"):  # NewType
            return self.build(origin.__supertype__, at)
        if hasattr(origin, "__value__"):  # type X = …
            return self._build_alias(hint, origin, at)
        if isinstance(hint, str | ForwardRef):
            raise unresolved(at, hint if isinstance(hint, str) else hint.__forward_arg__)
        raise _unsupported(hint, at)

    def build_object(
        self, fields: Iterable[Field], *, entries: Mapping[str, str], description: str, at: str
    ) -> Schema:
        """Return the schema of an object; `entries` describes its fields, `at` goes before them."""
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
        """Return what a reference refers to; the definition stays only if it is recursive."""
        if "$ref" not in schema:
            return schema
        name = schema["$ref"].removeprefix(_REF)
        found = self._defs[name]
        if not _mentions(self._defs, schema["$ref"]):
            del self._defs[name]
        return found

    def finish(self, schema: Schema) -> Schema:
        """Return the schema with all definitions below it."""
        return {**schema, "$defs": self._defs} if self._defs else schema

    def _build_property(self, field: Field, entries: Mapping[str, str], at: str) -> Schema:
        base, metadata, _ = peel(field.type)
        notes: Schema = {}
        if description := entries.get(field.attribute or field.name):
            notes["description"] = description
        notes |= read_notes(metadata)
        if field.default is not UNSET:
            notes["default"] = field.default
        return beside(self.build(base, at + field.name), notes)

    # -- what gets a definition ----

    def _build_class(self, hint: Any, cls: Any, at: str) -> Schema:
        if issubclass(cls, Enum):
            return schema_of_enum(cls, at)
        key = _key(hint)
        if key not in self._names:
            if hasattr(cls, "model_json_schema"):
                self._names[key] = self._pydantic_definitions.add_model(cls, at)
            elif record := read_record(hint, cls, get_args(hint), at):
                self._names[key] = self._free_name(_name(hint))
                self._define_class(self._names[key], record, cls, at)
            elif hasattr(cls, "__fspath__"):
                return {"type": "string"}
            else:
                raise _unsupported(hint, at)
        return {"$ref": _REF + self._names[key]}

    def _define_class(self, name: str, record: Record, cls: type, at: str) -> None:
        self._defs[name] = {}  # takes its place before the ones it refers to
        doc = read_docstring(_written_docstring(cls))
        if record.is_positional:
            items = [
                {"title": field.name, **self._build_property(field, doc.entries, f"{at}.")}
                for field in record.fields
            ]
            schema = tuple_of(items, sum(field.required for field in record.fields))
            self._defs[name] = beside(schema, {"description": doc.text} if doc.text else {})
            return
        schema = self.build_object(
            record.fields, entries=doc.entries, description=doc.text, at=f"{at}."
        )
        self._defs[name] = beside(
            schema, {"additionalProperties": False} if record.is_closed else {}
        )

    def _build_alias(self, hint: Any, alias: Any, at: str) -> Schema:
        """Return what `type X = …` stands for; it gets a definition if X is part of itself."""
        key = _key(hint)
        if key in self._open_aliases and key not in self._names:
            name = self._names[key] = self._free_name(_name(hint))
            self._defs[name] = {}
        if key not in self._names:
            self._open_aliases.add(key)
            binding = dict(zip(alias.__type_params__, get_args(hint), strict=False))
            schema = self.build(substitute(alias.__value__, binding), at)
            self._open_aliases.discard(key)
            if key not in self._names:
                return schema
            self._defs[self._names[key]] = schema
        return {"$ref": _REF + self._names[key]}

    def _free_name(self, wanted: str) -> str:
        # It stands in a URI fragment: `Page[int]` becomes `Page_int`.
        wanted = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "Type"
        name, count = wanted, 1
        while name in self._defs:
            count += 1
            name = f"{wanted}_{count}"
        return name


def _name(hint: Any) -> str:
    if isinstance(hint, type):
        return hint.__name__
    arguments = ", ".join(_name(argument) for argument in get_args(hint))
    return f"{_name(get_origin(hint))}[{arguments}]" if arguments else str(hint)


def _key(hint: Any) -> Hashable:
    """Return what two equal types have in common; metadata may not be hashable."""
    try:
        hash(hint)
    except TypeError:
        return repr(hint)
    return cast("Hashable", hint)


def _written_docstring(cls: type) -> str | None:
    """Return a class's own docstring, unless dataclasses or NamedTuple made it up."""
    doc = vars(cls).get("__doc__")
    return None if doc and doc.startswith(f"{cls.__name__}(") else doc


def _mentions(schema: object, ref: str) -> bool:
    if is_mapping(schema):
        return any(_mentions(part, ref) for part in schema.values())
    if is_array(schema):
        return any(_mentions(part, ref) for part in schema)
    return schema == ref


def _unsupported(hint: Any, at: str) -> InvalidTool:
    return InvalidTool(
        f"{at}: {_name(hint)} has no form in JSON; use a plain type, a list or dict of those,"
        " or a class with typed fields (msgspec, dataclass, TypedDict, attrs, pydantic)."
        " What no model should give can be bound with functools.partial"
    )
