"""Keywords that apply schemas: to the same value (`anyOf`) or to what is inside it (`items`).

Each is a rule that reads its own operand from the schema. An operand that makes no sense
is passed over, like a keyword that is not known: it says nothing about a value.
"""

from __future__ import annotations

import re
from typing import Any

from steno.schema.explain import listing, most_helpful, words
from steno.schema.shapes import is_array, is_mapping, is_number, resolve
from steno.schema.walk import Fault, Place, Run, SchemaMapping

# -- to the same value ----


def check_ref(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`$ref`: fits what it refers to, if that is in the same document."""
    run.visit(value, resolve(run.root, schema["$ref"]), place)


def check_all_of(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`allOf`: fits every part."""
    for part in _listed(schema, "allOf"):
        run.visit(value, part, place)


def check_any_of(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`anyOf`: fits at least one alternative."""
    failures: list[list[Fault]] = []
    for alternative in _listed(schema, "anyOf"):
        found = run.try_visit(value, alternative, place)
        if not found:
            return
        failures.append(found)
    if failures:
        run.violations += most_helpful(failures, place)


def check_one_of(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`oneOf`: fits exactly one alternative."""
    results = [run.try_visit(value, part, place) for part in _listed(schema, "oneOf")]
    fitting = results.count([])
    if fitting > 1:
        run.report(place, "must fit exactly one of the alternatives, but fits several")
    elif results and not fitting:
        run.violations += most_helpful(results, place)


def check_not(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`not`: does not fit."""
    operand = schema["not"]
    is_schema = is_mapping(operand) or isinstance(operand, bool)
    if is_schema and not run.try_visit(value, operand, place):
        run.report(place, f"must not fit {words(operand)}")


def check_if(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`if`: fits `then` or `else`, depending on whether it fits this."""
    branch = "else" if run.try_visit(value, schema["if"], place) else "then"
    run.visit(value, schema.get(branch, True), place)


# -- to the members of an object ----


def check_properties(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`properties`: each declared member that is there fits."""
    for name, part in _named(schema, "properties").items():
        if name in value:
            run.visit(value[name], part, (place, name))


def check_pattern_properties(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`patternProperties`: each member whose name matches fits."""
    for pattern, part in _named(schema, "patternProperties").items():
        for name in value:
            if found_in(name, pattern):
                run.visit(value[name], part, (place, name))


def check_additional_properties(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`additionalProperties`: each member that nobody declared fits, or must not be there."""
    operand = schema["additionalProperties"]
    declared = _named(schema, "properties")
    patterns = _named(schema, "patternProperties")
    for name in value:
        if name in declared or any(found_in(name, pattern) for pattern in patterns):
            continue
        if operand is False:
            known = f"; the properties are {listing(declared)}" if declared else ""
            run.report((place, name), f"unknown property{known}")
        else:
            run.visit(value[name], operand, (place, name))


def check_property_names(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`propertyNames`: the name of each member fits."""
    for name in value:
        for fault in run.try_visit(name, schema["propertyNames"], place):
            run.report((place, name), f"property name: {fault.rule}")


# -- to the items of an array ----


def check_items(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`items`: each item after those of `prefixItems` fits."""
    operand = schema["items"]
    for i in range(len(_listed(schema, "prefixItems")), len(value)):
        run.visit(value[i], operand, (place, i))


def check_prefix_items(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`prefixItems`: the first items fit, each its own."""
    for i, (item, part) in enumerate(zip(value, _listed(schema, "prefixItems"), strict=False)):
        run.visit(item, part, (place, i))


def check_contains(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`contains`: so many of the items fit, at least one if it is not said how many."""
    operand = schema["contains"]
    fitting = sum(not run.try_visit(item, operand, place) for item in value)
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    if is_number(least) and fitting < least:
        run.report(place, f"must contain at least {words(least)} of {words(operand)}")
    if is_number(most) and fitting > most:
        run.report(place, f"must contain at most {words(most)} of {words(operand)}")


# -- shared ----


def found_in(text: str, pattern: Any) -> bool | None:
    """Tell whether a text has a part that a pattern matches; None if it is no pattern."""
    try:
        return re.search(pattern, text) is not None
    except (re.error, TypeError, OverflowError, RecursionError):
        return None


def _listed(schema: SchemaMapping, keyword: str) -> list[Any] | tuple[Any, ...]:
    operand = schema.get(keyword)
    return operand if is_array(operand) else ()


def _named(schema: SchemaMapping, keyword: str) -> SchemaMapping:
    operand = schema.get(keyword)
    return operand if is_mapping(operand) else {}
