"""Validate JSON values against a JSON Schema, and schemas against a meta-schema.

A `_ValidationRun` walks a value and its schema together. Each keyword has a rule that reads its
operand from the schema and reports violations to the run. An invalid operand is ignored, like
an unknown keyword, and does not restrict the value.

A path is a linked list of steps, innermost first, so that each step costs one tuple; only a
report converts it to a JSON pointer. The number of visits is limited, because neither schemas
(from MCP servers) nor values (from models) are trusted.
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
from steno.json_object import (
    JSON_TYPES,
    is_array,
    is_mapping,
    is_number,
    json_pointer,
    json_type_of,
    to_plain,
)

MAX_VIOLATIONS: Final = 50
MAX_VISITS: Final = 250_000
"""The maximum number of visits in one run; no output of a model has as many members."""

_MAX_LISTED: Final = 20
_MAX_TEXT_CHARACTERS: Final = 200

_Path: TypeAlias = tuple[Any, str | int] | None
"""The path of the container and the step into the container; None is the whole value."""
_Schema: TypeAlias = Mapping[str, Any]
_Rule: TypeAlias = "Callable[[_ValidationRun, Any, _Schema, _Path], None]"
"""Checks a value against one keyword of a schema, and reports violations to the run."""
_Aspect: TypeAlias = Literal["type", "choice", "tag", "rule"]
"""The subject of a violation. A choice with one option is a tag: it identifies an alternative."""


def validate_value(value: Any, schema: Mapping[str, Any] | bool) -> tuple[Problem, ...]:
    """Return the violations of a schema by a parsed JSON value, at most `MAX_VIOLATIONS`.

    Mappings and tuples count as objects and arrays. References are followed inside the
    schema only; unknown and invalid keywords are ignored. Never raises.
    """
    run = _ValidationRun(schema)
    try:
        run.visit(value, schema, None)
    except RecursionError:
        return (Problem("", "nested too deeply to be checked"),)
    except _LimitExceeded:
        return (Problem("", "too large to be checked, or the schema is too complex"),)
    return tuple(
        [
            Problem(json_pointer(_steps(violation.path)), violation.rule)
            for violation in run.violations[:MAX_VIOLATIONS]
        ]
    )


def validate_schema(schema: Mapping[str, Any]) -> tuple[Problem, ...]:
    """Return the parts of `schema` that are not valid JSON Schema, at most `MAX_VIOLATIONS`."""
    return validate_value(schema, _META_SCHEMA)


# -- the walk --------------------------------------------------------------------------------


class _Violation(Struct, frozen=True):
    path: _Path
    expected: str
    """The expectation, without the text in `lead`."""
    aspect: _Aspect = "rule"
    lead: str = ""
    """The text before the expectation, such as "must be ".

    If violations with the same lead are joined, the lead is written once.
    """

    @property
    def rule(self) -> str:
        return self.lead + self.expected


class _LimitExceeded(Exception):
    """The run needed more than `MAX_VISITS` visits."""


class _ValidationRun:
    """The state of one validation: the root schema, the violations so far and the visit count."""

    __slots__ = ("_visits", "root", "violations")

    def __init__(self, root: Any) -> None:
        self.root = root
        self.violations: list[_Violation] = []
        self._visits = 0

    def visit(self, value: object, schema: Any, path: _Path) -> None:
        """Check a value against a schema, including the members and items of the value."""
        if not is_mapping(schema):
            if schema is False:
                self.report(path, "no value is allowed here")
            return  # `true` allows every value, and anything else is not a schema
        self._visits += 1
        if self._visits > MAX_VISITS:
            raise _LimitExceeded
        if len(self.violations) >= MAX_VIOLATIONS:
            return
        kind = JSON_TYPES.get(type(value)) or json_type_of(value)
        expected = schema.get("type")
        if expected is not None and expected != kind and not _matches_type(value, kind, expected):
            names = expected if is_array(expected) else [expected]
            self.report(path, " or ".join(names), "type", lead="expected ")
            return  # other violations would only follow from the wrong type
        rules = _RULES_BY_TYPE[kind]
        for keyword in schema:
            if (rule := rules.get(keyword)) is not None:
                rule(self, value, schema, path)

    def report(self, path: _Path, expected: str, aspect: _Aspect = "rule", lead: str = "") -> None:
        self.violations.append(_Violation(path, expected, aspect, lead))

    def try_visit(self, value: Any, schema: Any, path: _Path) -> list[_Violation]:
        """Visit a value and return the violations instead of reporting them."""
        outer, self.violations = self.violations, []
        self.visit(value, schema, path)
        found, self.violations = self.violations, outer
        return found


_TYPE_NAMES: Final = frozenset(JSON_TYPES.values())


def _matches_type(value: object, kind: str, expected: Any) -> bool:
    """Return whether a value has the expected type, or one of several expected types.

    `kind` is the JSON type of the value. An unknown type and an empty list allow every value.
    """
    if is_array(expected):
        return not expected or any(_matches_type(value, kind, name) for name in expected)
    if expected == "number":
        return kind in ("number", "integer")
    if expected == "integer":
        return kind == "integer" or (isinstance(value, float) and value.is_integer())
    return expected == kind or not isinstance(expected, str) or expected not in _TYPE_NAMES


def _steps(path: _Path) -> list[str | int]:
    steps: list[str | int] = []
    while path:
        path, step = path
        steps.append(step)
    steps.reverse()
    return steps


# -- keywords about the same value -----------------------------------------------------------


def _check_all_of(run: _ValidationRun, value: Any, schema: _Schema, path: _Path) -> None:
    """Check that the value matches every schema of `allOf`."""
    for part in _array_operand(schema, "allOf"):
        run.visit(value, part, path)


def _check_any_of(run: _ValidationRun, value: Any, schema: _Schema, path: _Path) -> None:
    """Check that the value matches at least one schema of `anyOf`."""
    failures: list[list[_Violation]] = []
    for alternative in _array_operand(schema, "anyOf"):
        found = run.try_visit(value, alternative, path)
        if not found:
            return
        failures.append(found)
    if failures:
        run.violations += _closest_violations(failures, path)


def _check_one_of(run: _ValidationRun, value: Any, schema: _Schema, path: _Path) -> None:
    """Check that the value matches exactly one schema of `oneOf`."""
    results = [run.try_visit(value, part, path) for part in _array_operand(schema, "oneOf")]
    fitting = results.count([])
    if fitting > 1:
        run.report(path, "must match exactly one of the alternatives, but matches several")
    elif results and not fitting:
        run.violations += _closest_violations(results, path)


def _check_not(run: _ValidationRun, value: Any, schema: _Schema, path: _Path) -> None:
    """Check that the value does not match the schema of `not`."""
    operand = schema["not"]
    is_schema = is_mapping(operand) or isinstance(operand, bool)
    if is_schema and not run.try_visit(value, operand, path):
        run.report(path, f"must not match the schema {_json_text(operand)}")


def _check_if(run: _ValidationRun, value: Any, schema: _Schema, path: _Path) -> None:
    """Check the value against `then` if it matches the schema of `if`, otherwise against `else`."""
    branch = "else" if run.try_visit(value, schema["if"], path) else "then"
    run.visit(value, schema.get(branch, True), path)


def _check_enum(run: _ValidationRun, value: Any, schema: _Schema, path: _Path) -> None:
    """Check that the value is one of the choices of `enum`."""
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
        run.report(path, _json_text_list(choices), "tag", lead="must be ")
    else:
        run.report(path, f"one of {_json_text_list(choices)}", "choice", lead="must be ")


def _check_const(run: _ValidationRun, value: Any, schema: _Schema, path: _Path) -> None:
    """Check that the value equals the operand of `const`."""
    if not _is_same_json(value, schema["const"]):
        run.report(path, _json_text(schema["const"]), "tag", lead="must be ")


# -- keywords about objects -------------------------------------------------------------------


def _check_properties(run: _ValidationRun, value: Any, schema: _Schema, path: _Path) -> None:
    """Check each member that `properties` declares against its schema, if it is present."""
    for name, part in _mapping_operand(schema, "properties").items():
        if name in value:
            run.visit(value[name], part, (path, name))


def _check_pattern_properties(
    run: _ValidationRun, value: Any, schema: _Schema, path: _Path
) -> None:
    """Check each member whose name matches a pattern of `patternProperties`."""
    for pattern, part in _mapping_operand(schema, "patternProperties").items():
        for name in value:
            if _matches_pattern(name, pattern):
                run.visit(value[name], part, (path, name))


def _check_additional_properties(
    run: _ValidationRun, value: Any, schema: _Schema, path: _Path
) -> None:
    """Check each undeclared member against the schema of `additionalProperties`.

    A member is declared by `properties` or `patternProperties`. If the schema is false, each
    undeclared member is a violation.
    """
    operand = schema["additionalProperties"]
    declared = _mapping_operand(schema, "properties")
    patterns = _mapping_operand(schema, "patternProperties")
    for name in value:
        if name in declared or any(_matches_pattern(name, pattern) for pattern in patterns):
            continue
        if operand is False:
            known = f"; the properties are {_json_text_list(declared)}" if declared else ""
            run.report((path, name), f"unknown property{known}")
        else:
            run.visit(value[name], operand, (path, name))


def _check_property_names(run: _ValidationRun, value: Any, schema: _Schema, path: _Path) -> None:
    """Check the name of each member against the schema of `propertyNames`."""
    for name in value:
        for violation in run.try_visit(name, schema["propertyNames"], path):
            run.report((path, name), f"property name: {violation.rule}")


def _check_dependent_required(
    run: _ValidationRun, value: Any, schema: _Schema, path: _Path
) -> None:
    """Check that the members that `dependentRequired` requires are present.

    The operand maps the name of a member to the members that are required if it is present.
    """
    operand = schema["dependentRequired"]
    for name in operand if is_mapping(operand) else ():
        if name in value:
            _check_members(run, value, operand[name], path)


def _check_members(run: _ValidationRun, value: Any, names: Any, path: _Path) -> None:
    for name in names if is_array(names) else ():
        if isinstance(name, str) and name not in value:
            run.report(path, f"missing required property {_json_text(name)}")


# -- keywords about arrays --------------------------------------------------------------------


def _check_items(run: _ValidationRun, value: Any, schema: _Schema, path: _Path) -> None:
    """Check each item after those of `prefixItems` against the schema of `items`."""
    operand = schema["items"]
    for i in range(len(_array_operand(schema, "prefixItems")), len(value)):
        run.visit(value[i], operand, (path, i))


def _check_prefix_items(run: _ValidationRun, value: Any, schema: _Schema, path: _Path) -> None:
    """Check each leading item against the schema at the same index of `prefixItems`."""
    for i, (item, part) in enumerate(
        zip(value, _array_operand(schema, "prefixItems"), strict=False)
    ):
        run.visit(item, part, (path, i))


def _check_contains(run: _ValidationRun, value: Any, schema: _Schema, path: _Path) -> None:
    """Check that the number of items that match `contains` is within its limits.

    The limits are `minContains` (default 1) and `maxContains` (default none).
    """
    operand = schema["contains"]
    fitting = sum(not run.try_visit(item, operand, path) for item in value)
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    count = f"the number of items that match {_json_text(operand)} must be"
    if is_number(least) and fitting < least:
        run.report(path, f"{count} at least {_json_text(least)}")
    if is_number(most) and fitting > most:
        run.report(path, f"{count} at most {_json_text(most)}")


def _check_unique_items(run: _ValidationRun, value: Any, schema: _Schema, path: _Path) -> None:
    """Check that no item occurs twice, if `uniqueItems` is true."""
    seen: set[Any] = set()
    for i, item in enumerate(value if schema["uniqueItems"] is True else ()):
        frozen = _hashable_json(item)
        if frozen in seen:
            run.report((path, i), "must not repeat an earlier item")
        seen.add(frozen)


# -- keywords about numbers and texts ---------------------------------------------------------


def _check_pattern(run: _ValidationRun, value: Any, schema: _Schema, path: _Path) -> None:
    """Check that the regular expression of `pattern` matches somewhere in the text."""
    if _matches_pattern(value, schema["pattern"]) is False:
        run.report(path, f"must match the pattern {schema['pattern']}")


def _check_multiple_of(run: _ValidationRun, value: Any, schema: _Schema, path: _Path) -> None:
    """Check that the number is a multiple of the operand of `multipleOf`."""
    step = schema["multipleOf"]
    if is_number(step) and step > 0 and not _is_multiple(value, step):
        run.report(path, f"must be a multiple of {_json_text(step)}")


def _is_multiple(value: float, step: float) -> bool:
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    try:
        quotient = value / step
        # 0.3 is a multiple of 0.1, but not in binary floating point.
        return abs(quotient - round(quotient)) <= abs(quotient) * 2**-50
    except (OverflowError, ValueError):  # infinite, or beyond the range of a float
        return False


def _limit_rule(
    keyword: str,
    holds: Callable[[Any, Any], bool],
    rule: str,
    *,
    measure: Callable[[Any], Any] | None = None,
) -> _Rule:
    """Return the rule of a keyword that compares a value, or `measure(value)`, with a number."""

    def check_limit(run: _ValidationRun, value: Any, schema: _Schema, path: _Path) -> None:
        number = schema[keyword]
        if is_number(number) and not holds(measure(value) if measure else value, number):
            run.report(path, rule.format(_json_text(number)))

    return check_limit


def _size_rules(keyword: str, parts: str) -> dict[str, _Rule]:
    """Return the rules of the keywords for the minimum and maximum number of `parts`."""
    count = f"the number of {parts} must be"
    least, most = f"{count} at least {{}}", f"{count} at most {{}}"
    return {
        f"min{keyword}": _limit_rule(f"min{keyword}", operator.ge, least, measure=len),
        f"max{keyword}": _limit_rule(f"max{keyword}", operator.le, most, measure=len),
    }


# -- operands ---------------------------------------------------------------------------------


def _matches_pattern(text: str, pattern: Any) -> bool | None:
    """Return whether a pattern matches a part of a text; None if the pattern is invalid."""
    try:
        return re.search(pattern, text) is not None
    except (re.error, TypeError, OverflowError, RecursionError):
        return None


def _array_operand(schema: _Schema, keyword: str) -> list[Any] | tuple[Any, ...]:
    operand = schema.get(keyword)
    return operand if is_array(operand) else ()


def _mapping_operand(schema: _Schema, keyword: str) -> _Schema:
    operand = schema.get(keyword)
    return operand if is_mapping(operand) else {}


def _is_same_json(one: object, other: object) -> bool:
    return bool(_hashable_json(one) == _hashable_json(other))


def _hashable_json(value: object) -> Any:
    """Return a hashable copy that compares equal to another copy if the JSON values are equal.

    1 equals 1.0, true does not equal 1, and a tuple equals a list.
    """
    if isinstance(value, bool):
        return bool, value
    if is_array(value):
        return tuple(map(_hashable_json, value))
    if is_mapping(value):
        return frozenset((name, _hashable_json(part)) for name, part in value.items())
    return value


# -- the choice among failed alternatives ----------------------------------------------------


def _closest_violations(failures: list[list[_Violation]], path: _Path) -> list[_Violation]:
    """Return the violations to report when no alternative fits.

    These are the violations of the closest alternative: among those whose type and tag match, the
    one with the fewest violations. If the type or tag of every alternative differs, one violation
    lists the types or tags of the alternatives.
    """
    best = min(failures, key=lambda violations: _distance(violations, path))
    reason = _excluding_violation(best, path)
    if reason is None or len(failures) == 1:
        return best
    reasons = [found for each in failures if (found := _excluding_violation(each, path))]
    return [_join_alternatives([found for found in reasons if found.path == reason.path], reason)]


def _distance(violations: list[_Violation], path: _Path) -> tuple[int, int, int]:
    """Return a sort key for the violations of an alternative; the closest alternative is first.

    It compares the type and tag first, then the number of violations, then their depth.
    """
    reason = _excluding_violation(violations, path)
    miss = 0 if reason is None else 2 if reason.path == path else 1
    return miss, len(violations), -max(len(_steps(each.path)) for each in violations)


def _excluding_violation(violations: list[_Violation], path: _Path) -> _Violation | None:
    """Return the violation that rules an alternative out (a wrong type or tag), or None."""
    for violation in violations:
        if violation.path == path and violation.aspect != "rule":
            return violation
        if violation.aspect == "tag" and violation.path and violation.path[0] == path:
            return violation
    return None


def _join_alternatives(violations: list[_Violation], reason: _Violation) -> _Violation:
    first, *others = {violation.rule: violation for violation in violations}.values()
    if all(other.lead == first.lead for other in others):
        expected = " or ".join([first.expected, *[other.expected for other in others]])
    else:
        expected = ", or ".join([first.expected, *[other.rule for other in others]])
    return _Violation(reason.path, expected, reason.aspect, first.lead)


# -- schema parts as text --------------------------------------------------------------------


def _json_text(operand: Any) -> str:
    """Return a part of a schema as JSON text, truncated if it is long."""
    try:
        text = msgspec.json.encode(operand, enc_hook=to_plain).decode()
    except (TypeError, ValueError, RecursionError):
        return "the value in the schema"
    return text if len(text) <= _MAX_TEXT_CHARACTERS else text[:_MAX_TEXT_CHARACTERS] + "…"


def _json_text_list(operands: Iterable[Any]) -> str:
    """Return parts of a schema as JSON texts separated by commas, at most `_MAX_LISTED`."""
    listed = [_json_text(operand) for operand in islice(operands, _MAX_LISTED + 1)]
    return ", ".join([*listed[:_MAX_LISTED], "…"] if len(listed) > _MAX_LISTED else listed)


# -- tables -----------------------------------------------------------------------------------

_COMMON_RULES: dict[str, _Rule] = {
    # A reference to another document is not followed and allows every value.
    "$ref": lambda run, value, schema, path: run.visit(
        value, resolve_schema_ref(run.root, schema["$ref"]), path
    ),
    "enum": _check_enum,
    "const": _check_const,
    "allOf": _check_all_of,
    "anyOf": _check_any_of,
    "oneOf": _check_one_of,
    "not": _check_not,
    "if": _check_if,
}

_NUMBER_RULES: dict[str, _Rule] = {
    **_COMMON_RULES,
    "minimum": _limit_rule("minimum", operator.ge, "must be at least {}"),
    "maximum": _limit_rule("maximum", operator.le, "must be at most {}"),
    "exclusiveMinimum": _limit_rule("exclusiveMinimum", operator.gt, "must be greater than {}"),
    "exclusiveMaximum": _limit_rule("exclusiveMaximum", operator.lt, "must be less than {}"),
    "multipleOf": _check_multiple_of,
}

_STRING_RULES: dict[str, _Rule] = {
    **_COMMON_RULES,
    **_size_rules("Length", "characters"),
    "pattern": _check_pattern,
}

_ARRAY_RULES: dict[str, _Rule] = {
    **_COMMON_RULES,
    "items": _check_items,
    "prefixItems": _check_prefix_items,
    "contains": _check_contains,
    **_size_rules("Items", "items"),
    "uniqueItems": _check_unique_items,
}

_OBJECT_RULES: dict[str, _Rule] = {
    **_COMMON_RULES,
    "properties": _check_properties,
    "patternProperties": _check_pattern_properties,
    "additionalProperties": _check_additional_properties,
    "propertyNames": _check_property_names,
    "required": lambda run, value, schema, path: _check_members(
        run, value, schema["required"], path
    ),
    "dependentRequired": _check_dependent_required,
    **_size_rules("Properties", "properties"),
}

_RULES_BY_TYPE: dict[str, dict[str, _Rule]] = {
    "object": _OBJECT_RULES,
    "array": _ARRAY_RULES,
    "string": _STRING_RULES,
    "integer": _NUMBER_RULES,
    "number": _NUMBER_RULES,
    "boolean": _COMMON_RULES,
    "null": _COMMON_RULES,
    "": _COMMON_RULES,
}


# -- the meta-schema -------------------------------------------------------------------------
#
# It describes the keywords of JSON Schema that steno reads. Unknown keywords are allowed, as
# the standard requires.

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
    # Before 2020-12, `items` could be an array with the meaning of `prefixItems`; servers still
    # send such arrays.
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


# -- references ------------------------------------------------------------------------------


def resolve_schema_ref(root: Any, ref: Any) -> Any:
    """Return the target of a local `$ref`; True, which allows every value, if it is not found."""
    if not isinstance(ref, str) or (ref != "#" and not ref.startswith("#/")):
        return True
    if "%" in ref:
        # Imported here, because it is slow to load and rarely needed.
        from urllib.parse import unquote  # noqa: PLC0415

        ref = unquote(ref)
    target = root
    for token in ref.split("/")[1:]:
        step = token.replace("~1", "/").replace("~0", "~")
        if is_mapping(target) and step in target:
            target = target[step]
        elif is_array(target) and step in map(str, range(len(target))):
            target = target[int(step)]
        else:
            return True
    return target
