"""Schemas and values that have a fair chance to fit each other."""

from __future__ import annotations

import typing as t

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "c", "x1", "a/b", "~", "properties"])
PATTERNS = st.sampled_from(["^a", "b$", "1", "^[a-c]*$", "", "x.*y"])
TEXTS = st.sampled_from(["", "a", "b", "abc", "x1y", "ä", "🙂"]) | st.text(max_size=4)
# Quarters and halves are exact in binary, so that multiples are no matter of taste.
NUMBERS = st.integers(-8, 8) | st.integers(-32, 32).map(lambda n: n / 4)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS

Schema: t.TypeAlias = dict[str, t.Any]


def values() -> st.SearchStrategy[t.Any]:
    return st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
        max_leaves=6,
    )


SIZES = st.integers(0, 3)
TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])
REFS = st.sampled_from(["#/$defs/A", "#/$defs/B", "#/%24defs/A", "#/$defs/A~1b"])

PLAIN: dict[str, st.SearchStrategy[t.Any]] = {
    "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
    "enum": st.lists(values(), min_size=1, max_size=3),
    "const": values(),
    "minimum": NUMBERS,
    "maximum": NUMBERS,
    "exclusiveMinimum": NUMBERS,
    "exclusiveMaximum": NUMBERS,
    "multipleOf": st.sampled_from([1, 2, 3, 0.25, 0.5, 2.0]),
    "minLength": SIZES,
    "maxLength": SIZES,
    "pattern": PATTERNS,
    "minItems": SIZES,
    "maxItems": SIZES,
    "uniqueItems": st.booleans(),
    "minContains": SIZES,
    "maxContains": SIZES,
    "minProperties": SIZES,
    "maxProperties": SIZES,
    "required": st.lists(NAMES, max_size=2, unique=True),
    "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2),
    "format": st.sampled_from(["date", "nonsense"]),
    "description": TEXTS,
    "default": values(),
}  # fmt: skip


def _nested(inner: st.SearchStrategy[t.Any]) -> dict[str, st.SearchStrategy[t.Any]]:
    several = st.lists(inner, min_size=1, max_size=3)
    return {
        "properties": st.dictionaries(NAMES, inner, max_size=3),
        "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
        "additionalProperties": inner,
        "propertyNames": inner,
        "items": inner,
        "prefixItems": several,
        "contains": inner,
        "allOf": several,
        "anyOf": several,
        "oneOf": several,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
    }


def _some_of(keywords: dict[str, st.SearchStrategy[t.Any]]) -> st.SearchStrategy[Schema]:
    names = st.lists(st.sampled_from(sorted(keywords)), max_size=4, unique=True)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({k: keywords[k] for k in chosen}))


def parts(*, with_references: bool) -> st.SearchStrategy[t.Any]:
    leaves = st.booleans() | _some_of(PLAIN)
    if with_references:
        leaves |= REFS.map(lambda ref: {"$ref": ref})
    return st.recursive(
        leaves, lambda inner: leaves | _some_of({**PLAIN, **_nested(inner)}), max_leaves=5
    )


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Return a schema with definitions that it may refer to."""
    flat = parts(with_references=False)
    root: t.Any = draw(parts(with_references=True))
    if isinstance(root, bool):
        root = {"not": not root}
    return {**root, "$defs": {"A": draw(flat), "B": draw(flat), "A/b": draw(flat)}}


@st.composite
def object_schemas(draw: st.DrawFn) -> Schema:
    return {**draw(schemas()), "type": "object"}
