"""`check`: does a JSON value fit a schema, and if not, where and why not."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from steno.errors import Problem
from steno.json_object import pointer_step
from steno.schema import applicators, assertions
from steno.schema.assertions import limit
from steno.schema.walk import MAX_FAULTS, ExhaustedError, Place, Rule, Run

_ANY: dict[str, Rule] = {
    "$ref": applicators.check_ref,
    "enum": assertions.check_enum,
    "const": assertions.check_const,
    "allOf": applicators.check_all_of,
    "anyOf": applicators.check_any_of,
    "oneOf": applicators.check_one_of,
    "not": applicators.check_not,
    "if": applicators.check_if,
}
_NUMBER: dict[str, Rule] = {
    **_ANY,
    "minimum": limit("minimum", operator.ge, "must be at least {}"),
    "maximum": limit("maximum", operator.le, "must be at most {}"),
    "exclusiveMinimum": limit("exclusiveMinimum", operator.gt, "must be greater than {}"),
    "exclusiveMaximum": limit("exclusiveMaximum", operator.lt, "must be less than {}"),
    "multipleOf": assertions.check_multiple_of,
}
_STRING: dict[str, Rule] = {
    **_ANY,
    "minLength": limit("minLength", operator.ge, "must have at least {} characters", measure=len),
    "maxLength": limit("maxLength", operator.le, "must have at most {} characters", measure=len),
    "pattern": assertions.check_pattern,
}
_ARRAY: dict[str, Rule] = {
    **_ANY,
    "items": applicators.check_items,
    "prefixItems": applicators.check_prefix_items,
    "contains": applicators.check_contains,
    "minItems": limit("minItems", operator.ge, "must have at least {} items", measure=len),
    "maxItems": limit("maxItems", operator.le, "must have at most {} items", measure=len),
    "uniqueItems": assertions.check_unique_items,
}
_OBJECT: dict[str, Rule] = {
    **_ANY,
    "properties": applicators.check_properties,
    "patternProperties": applicators.check_pattern_properties,
    "additionalProperties": applicators.check_additional_properties,
    "propertyNames": applicators.check_property_names,
    "required": assertions.check_required,
    "dependentRequired": assertions.check_dependent_required,
    "minProperties": limit(
        "minProperties", operator.ge, "must have at least {} properties", measure=len
    ),
    "maxProperties": limit(
        "maxProperties", operator.le, "must have at most {} properties", measure=len
    ),
}
_RULES: dict[str, dict[str, Rule]] = {
    "object": _OBJECT,
    "array": _ARRAY,
    "string": _STRING,
    "integer": _NUMBER,
    "number": _NUMBER,
    "boolean": _ANY,
    "null": _ANY,
    "": _ANY,
}


def check(value: Any, schema: Mapping[str, Any] | bool) -> tuple[Problem, ...]:
    """Return every way in which a parsed JSON value breaks a schema, at most fifty of them.

    Mappings and tuples count as objects and arrays. References are followed inside the
    schema only; keywords that are unknown or make no sense are ignored. Never raises.
    """
    run = Run(schema, _RULES)
    try:
        run.visit(value, schema, None)
    except RecursionError:
        return (Problem("", "is nested too deeply to be checked"),)
    except ExhaustedError:
        return (Problem("", "is too large, or its schema too entangled, to be checked"),)
    faults = run.violations
    if not faults:
        return ()
    return tuple(Problem(_pointer(fault.path), fault.rule) for fault in faults[:MAX_FAULTS])


def _pointer(place: Place) -> str:
    """Return a place as a JSON pointer (RFC 6901)."""
    pointer = ""
    while place:
        place, step = place
        pointer = pointer_step(step) + pointer
    return pointer
