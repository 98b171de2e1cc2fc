"""Keywords that apply schemas: to the same value (`anyOf`) or to what is inside it (`items`).

Each is a rule that reads its own operand from the schema. An operand that makes no sense
is passed over, like a keyword that is not known: it says nothing about a value.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from steno.errors import Problem
from steno.json_object import pointer_step
from steno.schema.json_types import (
    JSON_TYPES,
    is_array,
    is_mapping,
    is_number,
    json_type_of,
    resolve_reference,
)

# -- walk ------------------------------------------------------------------------------------------
#
# The walk of a value along its schema: `Run` visits, the rules of the keywords report.
#
# A place is a chain of steps from the inside out, so that going one step further costs one
# tuple; it becomes a JSON pointer only where there is something to report.
# A run is bounded: a schema may come from a stranger (an MCP server) and a value from a model.


MAX_VIOLATIONS = 50


MAX_VISITS = 250_000  # more than the members of anything a model can write


ValuePath: TypeAlias = tuple[Any, str | int] | None
"""The place around (again a Place) and the step into it; None is the whole value."""


SchemaMapping: TypeAlias = Mapping[str, Any]


KeywordRule: TypeAlias = "Callable[[ValidationRun, Any, SchemaMapping, ValuePath], None]"
"""Checks a value against one keyword of a schema that has it, and reports to the run."""


ViolationAspect: TypeAlias = Literal["type", "choice", "tag", "rule"]
"""What a fault is about. A choice of one is a tag: it says which alternative is meant."""


_TYPE_NAMES = frozenset(JSON_TYPES.values())


class SchemaViolation(Struct, frozen=True):
    """A rule that was broken somewhere."""

    path: ValuePath
    rule: str
    aspect: ViolationAspect = "rule"


class ValidationLimitExceeded(Exception):
    """The walk took more steps than any honest schema needs."""


class ValidationRun:
    """One walk: where references point to, what was found, how far it went."""

    __slots__ = ("_rules", "_visits", "root", "violations")

    def __init__(self, root: Any, rules: Mapping[str, Mapping[str, KeywordRule]]) -> None:
        self.root = root
        self.violations: list[SchemaViolation] = []
        self._rules = rules
        self._visits = 0

    def visit(self, value: object, schema: Any, place: ValuePath) -> None:
        """Check one value against one schema, and whatever is inside both."""
        if not is_mapping(schema):
            if schema is False:
                self.report(place, "nothing is allowed here")
            return  # true, or not a schema at all
        self._visits += 1
        if self._visits > MAX_VISITS:
            raise ValidationLimitExceeded
        if len(self.violations) >= MAX_VIOLATIONS:
            return
        kind = JSON_TYPES.get(type(value)) or json_type_of(value)
        expected = schema.get("type")
        if expected is not None and expected != kind and not _matches_type(value, kind, expected):
            names = expected if is_array(expected) else [expected]
            self.report(place, "expected " + " or ".join(names), "type")
            return  # what else is wrong with it follows from that
        rules = self._rules[kind]
        for keyword in schema:
            if (rule := rules.get(keyword)) is not None:
                rule(self, value, schema, place)

    def report(self, place: ValuePath, rule: str, aspect: ViolationAspect = "rule") -> None:
        """Note that a rule was broken."""
        self.violations.append(SchemaViolation(place, rule, aspect))

    def try_visit(self, value: Any, schema: Any, place: ValuePath) -> list[SchemaViolation]:
        """Return what a visit would report, without reporting it."""
        outer, self.violations = self.violations, []
        self.visit(value, schema, place)
        found, self.violations = self.violations, outer
        return found


def _matches_type(value: object, kind: str, expected: Any) -> bool:
    """Tell whether a value is of a type or of one of several; unknown types are no limit."""
    if is_array(expected):
        return not expected or any(_matches_type(value, kind, name) for name in expected)
    if expected == "number":
        return kind in ("number", "integer")
    if expected == "integer":
        return kind == "integer" or (isinstance(value, float) and value.is_integer())
    return expected == kind or not isinstance(expected, str) or expected not in _TYPE_NAMES


# -- explain ---------------------------------------------------------------------------------------
#
# Words for what was expected, and the choice of what to say when no alternative fits.


_MAX_LISTED = 20


_MAX_TEXT_CHARACTERS = 200


def json_text(operand: Any) -> str:
    """Return a part of a schema as JSON text, cut if it is long."""
    try:
        text = msgspec.json.encode(operand, enc_hook=_encode_mapping).decode()
    except (TypeError, ValueError, RecursionError):
        return "what the schema says"
    return text if len(text) <= _MAX_TEXT_CHARACTERS else text[:_MAX_TEXT_CHARACTERS] + "…"


def json_text_list(operands: Iterable[Any]) -> str:
    """Return parts of a schema as JSON texts with commas between them, the first few."""
    listed = [json_text(operand) for operand in islice(operands, _MAX_LISTED + 1)]
    return ", ".join([*listed[:_MAX_LISTED], "…"] if len(listed) > _MAX_LISTED else listed)


def closest_violations(
    failures: list[list[SchemaViolation]], place: ValuePath
) -> list[SchemaViolation]:
    """Return what to report when each alternative failed in its own way.

    The alternative that came closest is the one that was meant: the value is of its kind,
    it carries its tag, and little else is wrong. If there is none of the right kind, what
    all of them wanted is said in one sentence.
    """
    best = min(failures, key=lambda faults: _distance(faults, place))
    reason = _excluding_violation(best, place)
    if reason is None or len(failures) == 1:
        return best
    reasons = [found for faults in failures if (found := _excluding_violation(faults, place))]
    rules = [found.rule for found in reasons if found.path == reason.path]
    return [SchemaViolation(reason.path, _join_alternatives(rules), reason.aspect)]


def _distance(faults: list[SchemaViolation], place: ValuePath) -> tuple[int, int, int]:
    """Return how far an alternative is from fitting: kind, then number, then depth of faults."""
    reason = _excluding_violation(faults, place)
    miss = 0 if reason is None else 2 if reason.path == place else 1
    return miss, len(faults), -max(_path_depth(fault.path) for fault in faults)


def _excluding_violation(faults: list[SchemaViolation], place: ValuePath) -> SchemaViolation | None:
    """Return the fault which shows that another alternative was meant, if there is one."""
    for fault in faults:
        if fault.path == place and fault.aspect != "rule":
            return fault
        if fault.aspect == "tag" and fault.path and fault.path[0] == place:
            return fault
    return None


def _path_depth(place: ValuePath) -> int:
    depth = 0
    while place:
        place, depth = place[0], depth + 1
    return depth


def _join_alternatives(rules: list[str]) -> str:
    rules = list(dict.fromkeys(rules))
    for start in ("expected ", "must be "):
        if all(rule.startswith(start) for rule in rules):
            return start + " or ".join(rule.removeprefix(start) for rule in rules)
    return ", or ".join(rules)


def _encode_mapping(value: Any) -> Any:
    if is_mapping(value):
        return dict(value)
    raise TypeError


# -- to the same value ----


def check_ref(run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath) -> None:
    """`$ref`: fits what it refers to, if that is in the same document."""
    run.visit(value, resolve_reference(run.root, schema["$ref"]), place)


def check_all_of(run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath) -> None:
    """`allOf`: fits every part."""
    for part in _array_operand(schema, "allOf"):
        run.visit(value, part, place)


def check_any_of(run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath) -> None:
    """`anyOf`: fits at least one alternative."""
    failures: list[list[SchemaViolation]] = []
    for alternative in _array_operand(schema, "anyOf"):
        found = run.try_visit(value, alternative, place)
        if not found:
            return
        failures.append(found)
    if failures:
        run.violations += closest_violations(failures, place)


def check_one_of(run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath) -> None:
    """`oneOf`: fits exactly one alternative."""
    results = [run.try_visit(value, part, place) for part in _array_operand(schema, "oneOf")]
    fitting = results.count([])
    if fitting > 1:
        run.report(place, "must fit exactly one of the alternatives, but fits several")
    elif results and not fitting:
        run.violations += closest_violations(results, place)


def check_not(run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath) -> None:
    """`not`: does not fit."""
    operand = schema["not"]
    is_schema = is_mapping(operand) or isinstance(operand, bool)
    if is_schema and not run.try_visit(value, operand, place):
        run.report(place, f"must not fit {json_text(operand)}")


def check_if(run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath) -> None:
    """`if`: fits `then` or `else`, depending on whether it fits this."""
    branch = "else" if run.try_visit(value, schema["if"], place) else "then"
    run.visit(value, schema.get(branch, True), place)


# -- to the members of an object ----


def check_properties(
    run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath
) -> None:
    """`properties`: each declared member that is there fits."""
    for name, part in _mapping_operand(schema, "properties").items():
        if name in value:
            run.visit(value[name], part, (place, name))


def check_pattern_properties(
    run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath
) -> None:
    """`patternProperties`: each member whose name matches fits."""
    for pattern, part in _mapping_operand(schema, "patternProperties").items():
        for name in value:
            if matches_pattern(name, pattern):
                run.visit(value[name], part, (place, name))


def check_additional_properties(
    run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath
) -> None:
    """`additionalProperties`: each member that nobody declared fits, or must not be there."""
    operand = schema["additionalProperties"]
    declared = _mapping_operand(schema, "properties")
    patterns = _mapping_operand(schema, "patternProperties")
    for name in value:
        if name in declared or any(matches_pattern(name, pattern) for pattern in patterns):
            continue
        if operand is False:
            known = f"; the properties are {json_text_list(declared)}" if declared else ""
            run.report((place, name), f"unknown property{known}")
        else:
            run.visit(value[name], operand, (place, name))


def check_property_names(
    run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath
) -> None:
    """`propertyNames`: the name of each member fits."""
    for name in value:
        for fault in run.try_visit(name, schema["propertyNames"], place):
            run.report((place, name), f"property name: {fault.rule}")


# -- to the items of an array ----


def check_items(run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath) -> None:
    """`items`: each item after those of `prefixItems` fits."""
    operand = schema["items"]
    for i in range(len(_array_operand(schema, "prefixItems")), len(value)):
        run.visit(value[i], operand, (place, i))


def check_prefix_items(
    run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath
) -> None:
    """`prefixItems`: the first items fit, each its own."""
    for i, (item, part) in enumerate(
        zip(value, _array_operand(schema, "prefixItems"), strict=False)
    ):
        run.visit(item, part, (place, i))


def check_contains(run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath) -> None:
    """`contains`: so many of the items fit, at least one if it is not said how many."""
    operand = schema["contains"]
    fitting = sum(not run.try_visit(item, operand, place) for item in value)
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    if is_number(least) and fitting < least:
        run.report(place, f"must contain at least {json_text(least)} of {json_text(operand)}")
    if is_number(most) and fitting > most:
        run.report(place, f"must contain at most {json_text(most)} of {json_text(operand)}")


# -- shared ----


def matches_pattern(text: str, pattern: Any) -> bool | None:
    """Tell whether a text has a part that a pattern matches; None if it is no pattern."""
    try:
        return re.search(pattern, text) is not None
    except (re.error, TypeError, OverflowError, RecursionError):
        return None


def _array_operand(schema: SchemaMapping, keyword: str) -> list[Any] | tuple[Any, ...]:
    operand = schema.get(keyword)
    return operand if is_array(operand) else ()


def _mapping_operand(schema: SchemaMapping, keyword: str) -> SchemaMapping:
    operand = schema.get(keyword)
    return operand if is_mapping(operand) else {}


# -- assertions ------------------------------------------------------------------------------------
#
# Keywords that say something about the value at hand: its size, its choice, its members.


def check_enum(run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath) -> None:
    """`enum`: is one of the choices."""
    choices = schema["enum"]
    if not is_array(choices):
        return
    if (
        value in choices
        if isinstance(value, str)
        else any(_is_same_json(value, c) for c in choices)
    ):
        return
    if len(choices) == 1:
        run.report(place, f"must be {json_text_list(choices)}", "tag")
    else:
        run.report(place, f"must be one of {json_text_list(choices)}", "choice")


def check_const(run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath) -> None:
    """`const`: is this."""
    if not _is_same_json(value, schema["const"]):
        run.report(place, f"must be {json_text(schema['const'])}", "tag")


def check_required(run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath) -> None:
    """`required`: these members are there."""
    _check_members(run, value, schema["required"], place)


def check_dependent_required(
    run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath
) -> None:
    """`dependentRequired`: where one member is, others are."""
    operand = schema["dependentRequired"]
    for name in operand if is_mapping(operand) else ():
        if name in value:
            _check_members(run, value, operand[name], place)


def check_unique_items(
    run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath
) -> None:
    """`uniqueItems`: no item is there twice."""
    seen: set[Any] = set()
    for i, item in enumerate(value if schema["uniqueItems"] is True else ()):
        frozen = _hashable_json(item)
        if frozen in seen:
            run.report((place, i), "must not repeat an earlier item")
        seen.add(frozen)


def check_pattern(run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath) -> None:
    """`pattern`: matches somewhere."""
    if matches_pattern(value, schema["pattern"]) is False:
        run.report(place, f"must match the pattern {schema['pattern']}")


def check_multiple_of(
    run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath
) -> None:
    """`multipleOf`: is so many times a number."""
    step = schema["multipleOf"]
    if is_number(step) and step > 0 and not _is_multiple(value, step):
        run.report(place, f"must be a multiple of {json_text(step)}")


def limit_rule(
    keyword: str,
    holds: Callable[[Any, Any], bool],
    rule: str,
    *,
    measure: Callable[[Any], Any] | None = None,
) -> KeywordRule:
    """Return the rule of a keyword that compares a value, or its measure, with a number."""

    def check_limit(
        run: ValidationRun, value: Any, schema: SchemaMapping, place: ValuePath
    ) -> None:
        number = schema[keyword]
        if is_number(number) and not holds(measure(value) if measure else value, number):
            run.report(place, rule.format(json_text(number)))

    return check_limit


# -- shared ----


def _check_members(run: ValidationRun, value: Any, names: Any, place: ValuePath) -> None:
    for name in names if is_array(names) else ():
        if isinstance(name, str) and name not in value:
            run.report(place, f"missing required property {json_text(name)}")


def _is_multiple(value: float, step: float) -> bool:
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    try:
        quotient = value / step
        # 0.3 is a multiple of 0.1 to everybody but a binary computer.
        return abs(quotient - round(quotient)) <= abs(quotient) * 2**-50
    except (OverflowError, ValueError):  # infinite, or beyond what a float can hold
        return False


def _is_same_json(one: object, other: object) -> bool:
    return bool(_hashable_json(one) == _hashable_json(other))


def _hashable_json(value: object) -> Any:
    """Return something hashable that is equal exactly where JSON values are.

    1 is 1.0, true is not 1, a tuple is an array.
    """
    if isinstance(value, bool):
        return bool, value
    if is_array(value):
        return tuple(map(_hashable_json, value))
    if is_mapping(value):
        return frozenset((name, _hashable_json(part)) for name, part in value.items())
    return value


# -- checks ----------------------------------------------------------------------------------------
#
# `check`: does a JSON value fit a schema, and if not, where and why not.


_COMMON_RULES: dict[str, KeywordRule] = {
    "$ref": check_ref,
    "enum": check_enum,
    "const": check_const,
    "allOf": check_all_of,
    "anyOf": check_any_of,
    "oneOf": check_one_of,
    "not": check_not,
    "if": check_if,
}


_NUMBER_RULES: dict[str, KeywordRule] = {
    **_COMMON_RULES,
    "minimum": limit_rule("minimum", operator.ge, "must be at least {}"),
    "maximum": limit_rule("maximum", operator.le, "must be at most {}"),
    "exclusiveMinimum": limit_rule("exclusiveMinimum", operator.gt, "must be greater than {}"),
    "exclusiveMaximum": limit_rule("exclusiveMaximum", operator.lt, "must be less than {}"),
    "multipleOf": check_multiple_of,
}


_STRING_RULES: dict[str, KeywordRule] = {
    **_COMMON_RULES,
    "minLength": limit_rule(
        "minLength", operator.ge, "must have at least {} characters", measure=len
    ),
    "maxLength": limit_rule(
        "maxLength", operator.le, "must have at most {} characters", measure=len
    ),
    "pattern": check_pattern,
}


_ARRAY_RULES: dict[str, KeywordRule] = {
    **_COMMON_RULES,
    "items": check_items,
    "prefixItems": check_prefix_items,
    "contains": check_contains,
    "minItems": limit_rule("minItems", operator.ge, "must have at least {} items", measure=len),
    "maxItems": limit_rule("maxItems", operator.le, "must have at most {} items", measure=len),
    "uniqueItems": check_unique_items,
}


_OBJECT_RULES: dict[str, KeywordRule] = {
    **_COMMON_RULES,
    "properties": check_properties,
    "patternProperties": check_pattern_properties,
    "additionalProperties": check_additional_properties,
    "propertyNames": check_property_names,
    "required": check_required,
    "dependentRequired": check_dependent_required,
    "minProperties": limit_rule(
        "minProperties", operator.ge, "must have at least {} properties", measure=len
    ),
    "maxProperties": limit_rule(
        "maxProperties", operator.le, "must have at most {} properties", measure=len
    ),
}


_RULES_BY_TYPE: dict[str, dict[str, KeywordRule]] = {
    "object": _OBJECT_RULES,
    "array": _ARRAY_RULES,
    "string": _STRING_RULES,
    "integer": _NUMBER_RULES,
    "number": _NUMBER_RULES,
    "boolean": _COMMON_RULES,
    "null": _COMMON_RULES,
    "": _COMMON_RULES,
}


def validate_value(value: Any, schema: Mapping[str, Any] | bool) -> tuple[Problem, ...]:
    """Return every way in which a parsed JSON value breaks a schema, at most fifty of them.

    Mappings and tuples count as objects and arrays. References are followed inside the
    schema only; keywords that are unknown or make no sense are ignored. Never raises.
    """
    run = ValidationRun(schema, _RULES_BY_TYPE)
    try:
        run.visit(value, schema, None)
    except RecursionError:
        return (Problem("", "is nested too deeply to be checked"),)
    except ValidationLimitExceeded:
        return (Problem("", "is too large, or its schema too entangled, to be checked"),)
    faults = run.violations
    if not faults:
        return ()
    return tuple(
        Problem(_json_pointer(fault.path), fault.rule) for fault in faults[:MAX_VIOLATIONS]
    )


def _json_pointer(place: ValuePath) -> str:
    """Return a place as a JSON pointer (RFC 6901)."""
    pointer = ""
    while place:
        place, step = place
        pointer = pointer_step(step) + pointer
    return pointer


# -- meta ------------------------------------------------------------------------------------------
#
# Whether a schema is one: JSON Schema described in itself, as far as we read it.
#
# Keywords that we do not know are welcome, as the standard wants it.


_SUBSCHEMA: Final = {"$ref": "#"}


_SUBSCHEMA_LIST: Final = {"type": "array", "items": _SUBSCHEMA, "minItems": 1}


_SUBSCHEMA_MAP: Final = {"type": "object", "additionalProperties": _SUBSCHEMA}


_NAME_LIST: Final = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}


_TYPE_NAME: Final = {"enum": ["string", "integer", "number", "boolean", "object", "array", "null"]}


_STRING_TYPE: Final = {"type": "string"}


_BOOLEAN_TYPE: Final = {"type": "boolean"}


_NUMBER_TYPE: Final = {"type": "number"}


_COUNT_TYPE: Final = {"type": "integer", "minimum": 0}


_KEYWORDS: Final[dict[str, dict[str, Any]]] = {
    "type": {"anyOf": [_TYPE_NAME, {"type": "array", "items": _TYPE_NAME, "minItems": 1}]},
    "enum": {"type": "array"},
    "required": _NAME_LIST,
    "dependentRequired": {"type": "object", "additionalProperties": _NAME_LIST},
    # Before 2020-12 an array was what is prefixItems now; servers still write it.
    "items": {"anyOf": [_SUBSCHEMA, {"type": "array", "items": _SUBSCHEMA}]},
    "multipleOf": {"type": "number", "exclusiveMinimum": 0},
    **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions"), _SUBSCHEMA_MAP),
    **dict.fromkeys(("prefixItems", "anyOf", "oneOf", "allOf"), _SUBSCHEMA_LIST),
    **dict.fromkeys(("additionalProperties", "propertyNames", "contains"), _SUBSCHEMA),
    **dict.fromkeys(("not", "if", "then", "else"), _SUBSCHEMA),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER_TYPE),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _COUNT_TYPE),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _COUNT_TYPE),
    **dict.fromkeys(("title", "description", "pattern", "format", "$ref"), _STRING_TYPE),
    "uniqueItems": _BOOLEAN_TYPE,
}


_META_SCHEMA: Final = {"type": ["object", "boolean"], "properties": _KEYWORDS}


def validate_schema(schema: Mapping[str, Any]) -> tuple[Problem, ...]:
    """Return every way in which `schema` is not a JSON Schema; pointers lead into it."""
    return validate_value(schema, _META_SCHEMA)
