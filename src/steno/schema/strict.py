"""Strict mode: copy a schema so that every record in it is closed.

A closed object allows no undeclared properties. A record is an object schema that declares
properties, or that has no keyword about properties. A mapping (`additionalProperties` without
declared properties) stays open, because a closed mapping could only be empty.

Several schemas may describe the same object, as with `allOf`, or with `properties` next to
an `anyOf`. Closing one of these schemas alone would forbid the properties that another declares,
so each schema also allows the names of the others. Alternatives without other keywords beside
them (`anyOf` alone) are closed independently. Conditions (`not`, `if`, `contains`, …) are copied
unchanged, because closing a condition would change which values match it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from steno.errors import InvalidTool
from steno.json_object import check_depth, is_array, is_mapping
from steno.schema.validate import resolve_schema_ref

_MAPPED_KEYWORDS = ("properties", "patternProperties", "$defs", "definitions")
_LISTED_KEYWORDS = ("items", "prefixItems")
_ALTERNATIVE_KEYWORDS = ("anyOf", "oneOf")
_SAME_OBJECT_KEYWORDS = ("allOf", *_ALTERNATIVE_KEYWORDS)
_CONDITIONAL_KEYWORDS = ("then", "else")
_MAX_INLINED = 1000
_NO_NAMES: frozenset[str] = frozenset()


def close_objects(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy that allows no undeclared property at any level, except in mappings.

    Raises InvalidTool if the schema is nested too deeply or would inline too many definitions.
    """
    try:
        check_depth(schema)
        closed: dict[str, Any] = _ObjectCloser(schema).close(schema, _NO_NAMES)
    except RecursionError:
        raise InvalidTool(
            "nested too deeply for strict mode", code="schema_too_deep", place="schema"
        ) from None
    return closed


class _ObjectCloser:
    """Closes the objects of one root schema, resolving references to its definitions."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._inlined = 0

    def close(self, schema: Any, around: frozenset[str]) -> Any:
        """Return a closed copy of a schema.

        `around` holds the property names that other schemas declare for the same object.
        """
        if not is_mapping(schema):
            return schema
        if isinstance(ref := schema.get("$ref"), str):
            if len(schema) == 1:
                return self._close_reference(ref, around)
            if around or self._names(schema, without=("$ref",)):
                # The reference becomes one more part of the same object.
                rest = {keyword: part for keyword, part in schema.items() if keyword != "$ref"}
                parts = schema.get("allOf", ())
                parts = [*(parts if is_array(parts) else ()), {"$ref": ref}]
                return self.close({**rest, "allOf": parts}, around)
        closed = {
            keyword: self._close_part(keyword, part, schema, around)
            for keyword, part in schema.items()
        }
        if self._is_record(schema):
            own = closed.get("properties")
            own = own if is_mapping(own) else {}
            if others := sorted((around | self._names(schema)).difference(own)):
                closed["properties"] = {**own, **dict.fromkeys(others, True)}
            closed["additionalProperties"] = False
        return closed

    def _close_part(
        self, keyword: str, part: Any, schema: Mapping[str, Any], around: frozenset[str]
    ) -> Any:
        if keyword in _MAPPED_KEYWORDS and is_mapping(part):
            return {name: self.close(inner, _NO_NAMES) for name, inner in part.items()}
        if keyword in _LISTED_KEYWORDS and is_array(part):
            return [self.close(inner, _NO_NAMES) for inner in part]
        if keyword in ("items", "additionalProperties"):
            return self.close(part, _NO_NAMES)
        if keyword in _SAME_OBJECT_KEYWORDS and is_array(part):
            names = self._names_around(keyword, schema, around)
            return [self.close(inner, names) for inner in part]
        return _copy_schema(part)

    def _is_record(self, schema: Mapping[str, Any]) -> bool:
        if schema.get("properties"):
            return True
        kind = schema.get("type")
        is_object = kind == "object" or (is_array(kind) and "object" in kind)
        if "additionalProperties" in schema or not (is_object or "properties" in schema):
            return False
        # If only subschemas (`allOf`, `anyOf`) declare properties, closing those is enough.
        return not self._names(schema, without=_CONDITIONAL_KEYWORDS)

    def _names_around(
        self, keyword: str, schema: Mapping[str, Any], around: frozenset[str]
    ) -> frozenset[str]:
        """Return the names that the subschemas of a keyword must allow besides their own."""
        if keyword in _ALTERNATIVE_KEYWORDS and not around | self._names(
            schema, without=(keyword,)
        ):
            return _NO_NAMES
        return around | self._names(schema)

    def _close_reference(self, ref: str, around: frozenset[str]) -> Any:
        """Return the reference, or its closed target if `around` has names the target lacks."""
        target = resolve_schema_ref(self._root, ref)
        if not is_mapping(target) or around <= self._names(target):
            return {"$ref": ref}
        self._inlined += 1
        if self._inlined > _MAX_INLINED:
            message = f"strict mode would inline more than {_MAX_INLINED} definitions"
            raise InvalidTool(message, code="schema_too_entangled", place="schema")
        part = {k: v for k, v in target.items() if k not in ("$defs", "definitions")}
        return self.close(part, around)

    def _names(
        self, schema: Any, *, without: Container[str] = (), seen: set[str] | None = None
    ) -> frozenset[str]:
        if not is_mapping(schema):
            return _NO_NAMES
        seen = set() if seen is None else seen
        names: set[str] = set()
        for keyword, part in schema.items():
            if keyword in without:
                continue
            if keyword == "properties" and is_mapping(part):
                names |= part.keys()
            elif keyword == "$ref" and isinstance(part, str) and part not in seen:
                seen.add(part)
                names |= self._names(resolve_schema_ref(self._root, part), seen=seen)
            elif keyword in _CONDITIONAL_KEYWORDS:
                names |= self._names(part, seen=seen)
            elif keyword in _SAME_OBJECT_KEYWORDS and is_array(part):
                names.update(*(self._names(inner, seen=seen) for inner in part))
        return frozenset(names)


def _copy_schema(value: Any) -> Any:
    if is_mapping(value):
        return {name: _copy_schema(part) for name, part in value.items()}
    return [_copy_schema(part) for part in value] if is_array(value) else value
