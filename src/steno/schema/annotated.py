"""What `Annotated` and its neighbours say about a type, as JSON Schema keywords.

Metadata is read by attribute name, not by class: msgspec's `Meta`, annotated-types,
pydantic's `FieldInfo` and PEP 727's `Doc` spell the same facts the same way, and none
of them has to be imported for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, NotRequired, Required, get_args, get_origin

from steno.schema.shapes import is_array, is_mapping

_QUALIFIERS = {Required: "Required", NotRequired: "NotRequired", Final: "Final"}

# attribute of the metadata → keyword, and the types that JSON can carry there
_ATTRIBUTES: dict[str, tuple[str, type | tuple[type, ...]]] = {
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

# The two lengths are one Python word for three keywords each.
_LENGTHS = {
    "string": {"min_length": "minLength", "max_length": "maxLength"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}


def peel(hint: Any) -> tuple[Any, tuple[Any, ...], frozenset[str]]:
    """Return the bare type, its metadata (outermost last) and its qualifiers."""
    metadata: tuple[Any, ...] = ()
    qualifiers: set[str] = set()
    while (origin := get_origin(hint)) is not None:
        if origin is Annotated:
            metadata = (*hint.__metadata__, *metadata)
            hint = hint.__origin__
        elif qualifier := _qualifier(origin):
            qualifiers.add(qualifier)
            hint = get_args(hint)[0]
        else:
            break
    return hint, metadata, frozenset(qualifiers)


def _qualifier(origin: Any) -> str | None:
    # `ReadOnly` came with 3.13; before, it is the one of typing_extensions, known by name.
    if getattr(origin, "_name", None) == "ReadOnly":
        return "ReadOnly"
    return _QUALIFIERS.get(origin) if not isinstance(origin, type) else None


def read_notes(metadata: Iterable[Any]) -> dict[str, Any]:
    """Return the keywords that the metadata of an `Annotated` stands for; the last one wins."""
    notes: dict[str, Any] = {}
    for item in metadata:
        if isinstance(item, str):
            notes["description"] = item
            continue
        for attribute, (keyword, carried) in _ATTRIBUTES.items():
            fact = getattr(item, attribute, None)
            if isinstance(fact, carried):
                notes[keyword] = fact
        # pydantic keeps the constraints of a field in a list of their own
        inner = getattr(item, "metadata", None)
        if is_array(inner):
            notes |= read_notes(inner)
        extra = getattr(item, "extra_json_schema", None)
        if is_mapping(extra):
            notes |= extra
    return notes


def beside(schema: dict[str, Any], notes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with more keywords beside what it already says.

    A `$ref` is put into an `anyOf` of one first: drafts before 2019 ignore what stands
    beside a reference, and OpenAI's strict mode refuses the whole tool for it.
    """
    if not notes:
        return schema
    result = {"anyOf": [schema]} if "$ref" in schema else dict(schema)
    for keyword, fact in notes.items():
        if keyword in ("min_length", "max_length"):
            result |= _lengths(schema, keyword, fact)
        else:
            result[keyword] = fact
    return result


def _lengths(schema: dict[str, Any], attribute: str, length: int) -> dict[str, int]:
    if schema.get("contentEncoding") == "base64":  # three bytes are four characters
        length = 4 * -(-length // 3)
    kinds = [branch.get("type") for branch in schema.get("anyOf", [schema])]
    return {_LENGTHS[kind][attribute]: length for kind in kinds if kind in _LENGTHS}
