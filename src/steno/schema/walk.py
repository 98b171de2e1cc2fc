"""The walk of a value along its schema: `Run` visits, the rules of the keywords report.

A place is a chain of steps from the inside out, so that going one step further costs one
tuple; it becomes a JSON pointer only where there is something to report.
A run is bounded: a schema may come from a stranger (an MCP server) and a value from a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from steno.schema.shapes import KINDS, is_array, is_mapping, kind_of

MAX_FAULTS = 50
MAX_VISITS = 250_000  # more than the members of anything a model can write

Place: TypeAlias = tuple[Any, str | int] | None
"""The place around (again a Place) and the step into it; None is the whole value."""

SchemaMapping: TypeAlias = Mapping[str, Any]

Rule: TypeAlias = "Callable[[Run, Any, SchemaMapping, Place], None]"
"""Checks a value against one keyword of a schema that has it, and reports to the run."""

Aspect: TypeAlias = Literal["type", "choice", "tag", "rule"]
"""What a fault is about. A choice of one is a tag: it says which alternative is meant."""

_NAMES = frozenset(KINDS.values())


class Fault(Struct, frozen=True):
    """A rule that was broken somewhere."""

    path: Place
    rule: str
    aspect: Aspect = "rule"


class ExhaustedError(Exception):
    """The walk took more steps than any honest schema needs."""


class Run:
    """One walk: where references point to, what was found, how far it went."""

    __slots__ = ("_rules", "_visits", "violations", "root")

    def __init__(self, root: Any, rules: Mapping[str, Mapping[str, Rule]]) -> None:
        self.root = root
        self.violations: list[Fault] = []
        self._rules = rules
        self._visits = 0

    def visit(self, value: object, schema: Any, place: Place) -> None:
        """Check one value against one schema, and whatever is inside both."""
        if not is_mapping(schema):
            if schema is False:
                self.report(place, "nothing is allowed here")
            return  # true, or not a schema at all
        self._visits += 1
        if self._visits > MAX_VISITS:
            raise ExhaustedError
        if len(self.violations) >= MAX_FAULTS:
            return
        kind = KINDS.get(type(value)) or kind_of(value)
        expected = schema.get("type")
        if expected is not None and expected != kind and not _is_expected(value, kind, expected):
            names = expected if is_array(expected) else [expected]
            self.report(place, "expected " + " or ".join(names), "type")
            return  # what else is wrong with it follows from that
        rules = self._rules[kind]
        for keyword in schema:
            if (rule := rules.get(keyword)) is not None:
                rule(self, value, schema, place)

    def report(self, place: Place, rule: str, aspect: Aspect = "rule") -> None:
        """Note that a rule was broken."""
        self.violations.append(Fault(place, rule, aspect))

    def try_visit(self, value: Any, schema: Any, place: Place) -> list[Fault]:
        """Return what a visit would report, without reporting it."""
        outer, self.violations = self.violations, []
        self.visit(value, schema, place)
        found, self.violations = self.violations, outer
        return found


def _is_expected(value: object, kind: str, expected: Any) -> bool:
    """Tell whether a value is of a type or of one of several; unknown types are no limit."""
    if is_array(expected):
        return not expected or any(_is_expected(value, kind, name) for name in expected)
    if expected == "number":
        return kind in ("number", "integer")
    if expected == "integer":
        return kind == "integer" or (isinstance(value, float) and value.is_integer())
    return expected == kind or not isinstance(expected, str) or expected not in _NAMES
