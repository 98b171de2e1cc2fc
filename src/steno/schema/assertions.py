"""Keywords that say something about the value at hand: its size, its choice, its members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steno.schema.applicators import found_in
from steno.schema.explain import listing, words
from steno.schema.shapes import is_array, is_mapping, is_number
from steno.schema.walk import Place, Rule, Run, SchemaMapping


def check_enum(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`enum`: is one of the choices."""
    choices = schema["enum"]
    if not is_array(choices):
        return
    if value in choices if isinstance(value, str) else any(_same(value, c) for c in choices):
        return
    if len(choices) == 1:
        run.report(place, f"must be {listing(choices)}", "tag")
    else:
        run.report(place, f"must be one of {listing(choices)}", "choice")


def check_const(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`const`: is this."""
    if not _same(value, schema["const"]):
        run.report(place, f"must be {words(schema['const'])}", "tag")


def check_required(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`required`: these members are there."""
    _check_members(run, value, schema["required"], place)


def check_dependent_required(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`dependentRequired`: where one member is, others are."""
    operand = schema["dependentRequired"]
    for name in operand if is_mapping(operand) else ():
        if name in value:
            _check_members(run, value, operand[name], place)


def check_unique_items(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`uniqueItems`: no item is there twice."""
    seen: set[Any] = set()
    for i, item in enumerate(value if schema["uniqueItems"] is True else ()):
        frozen = _frozen(item)
        if frozen in seen:
            run.report((place, i), "must not repeat an earlier item")
        seen.add(frozen)


def check_pattern(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`pattern`: matches somewhere."""
    if found_in(value, schema["pattern"]) is False:
        run.report(place, f"must match the pattern {schema['pattern']}")


def check_multiple_of(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
    """`multipleOf`: is so many times a number."""
    step = schema["multipleOf"]
    if is_number(step) and step > 0 and not _is_multiple(value, step):
        run.report(place, f"must be a multiple of {words(step)}")


def limit(
    keyword: str,
    holds: Callable[[Any, Any], bool],
    rule: str,
    *,
    measure: Callable[[Any], Any] | None = None,
) -> Rule:
    """Return the rule of a keyword that compares a value, or its measure, with a number."""

    def check_limit(run: Run, value: Any, schema: SchemaMapping, place: Place) -> None:
        number = schema[keyword]
        if is_number(number) and not holds(measure(value) if measure else value, number):
            run.report(place, rule.format(words(number)))

    return check_limit


# -- shared ----


def _check_members(run: Run, value: Any, names: Any, place: Place) -> None:
    for name in names if is_array(names) else ():
        if isinstance(name, str) and name not in value:
            run.report(place, f"missing required property {words(name)}")


def _is_multiple(value: float, step: float) -> bool:
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    try:
        quotient = value / step
        # 0.3 is a multiple of 0.1 to everybody but a binary computer.
        return abs(quotient - round(quotient)) <= abs(quotient) * 2**-50
    except (OverflowError, ValueError):  # infinite, or beyond what a float can hold
        return False


def _same(one: object, other: object) -> bool:
    return bool(_frozen(one) == _frozen(other))


def _frozen(value: object) -> Any:
    """Return something hashable that is equal exactly where JSON values are.

    1 is 1.0, true is not 1, a tuple is an array.
    """
    if isinstance(value, bool):
        return bool, value
    if is_array(value):
        return tuple(map(_frozen, value))
    if is_mapping(value):
        return frozenset((name, _frozen(part)) for name, part in value.items())
    return value
