"""Whether a schema is one: JSON Schema described in itself, as far as we read it.

Keywords that we do not know are welcome, as the standard wants it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from steno.errors import Problem
from steno.schema.checks import check

_SCHEMA: Final = {"$ref": "#"}
_SCHEMAS: Final = {"type": "array", "items": _SCHEMA, "minItems": 1}
_NAMED_SCHEMAS: Final = {"type": "object", "additionalProperties": _SCHEMA}
_NAMES: Final = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
_KIND: Final = {"enum": ["string", "integer", "number", "boolean", "object", "array", "null"]}
_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_NUMBER: Final = {"type": "number"}
_COUNT: Final = {"type": "integer", "minimum": 0}

_KEYWORDS: Final[dict[str, dict[str, Any]]] = {
    "type": {"anyOf": [_KIND, {"type": "array", "items": _KIND, "minItems": 1}]},
    "enum": {"type": "array"},
    "required": _NAMES,
    "dependentRequired": {"type": "object", "additionalProperties": _NAMES},
    # Before 2020-12 an array was what is prefixItems now; servers still write it.
    "items": {"anyOf": [_SCHEMA, {"type": "array", "items": _SCHEMA}]},
    "multipleOf": {"type": "number", "exclusiveMinimum": 0},
    **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions"), _NAMED_SCHEMAS),
    **dict.fromkeys(("prefixItems", "anyOf", "oneOf", "allOf"), _SCHEMAS),
    **dict.fromkeys(("additionalProperties", "propertyNames", "contains"), _SCHEMA),
    **dict.fromkeys(("not", "if", "then", "else"), _SCHEMA),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _COUNT),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _COUNT),
    **dict.fromkeys(("title", "description", "pattern", "format", "$ref"), _TEXT),
    "uniqueItems": _FLAG,
}

_META: Final = {"type": ["object", "boolean"], "properties": _KEYWORDS}


def check_schema(schema: Mapping[str, Any]) -> tuple[Problem, ...]:
    """Return every way in which `schema` is not a JSON Schema; pointers lead into it."""
    return check(schema, _META)
