"""Results of conformance cases: checks, outcomes and the matrix, for wires, providers and stores.

A case compares only values that the kit itself wrote, so a failure message may contain them.
"""

from __future__ import annotations

import inspect
import json
import reprlib
import traceback
from argparse import ArgumentTypeError
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

_BOUNDED_REPR: Final = reprlib.Repr()
_BOUNDED_REPR.maxstring = _BOUNDED_REPR.maxother = 500


class CaseFailure(AssertionError):
    """Raised by a case if the wire, provider or store breaks the rule of the case."""


def expect(found: object, expected: object, subject: str) -> None:
    """Raise CaseFailure, with both values, unless they are equal."""
    if found != expected:
        raise CaseFailure(f"{subject}: expected {expected!r}, got {found!r}")


def require(is_met: bool, rule: str) -> None:
    """Raise CaseFailure, with the rule as its message, unless the rule is met."""
    if not is_met:
        raise CaseFailure(rule)


def expect_json(found: Any, expected: Any, subject: str) -> None:
    """Raise CaseFailure, with one difference, unless two JSON values are equal."""
    difference = _json_difference(found, expected)
    if difference is not None:
        raise CaseFailure(f"{subject}: differs at {difference}")


def expect_body(found: bytes, expected: bytes, subject: str) -> None:
    """Raise CaseFailure unless two bodies are equal as JSON, or as bytes if one is not JSON."""
    try:
        values = json.loads(found), json.loads(expected)
    except ValueError:
        expect(found, expected, subject)
    else:
        expect_json(*values, subject)


def _json_difference(found: Any, expected: Any) -> str | None:
    """Return where two values differ, and how; None if they are equal.

    The function is not recursive, because fuzzed values are nested as deeply as the JSON parser
    allows.
    """
    pending = [("", found, expected)]
    while pending:
        place, found, expected = pending.pop()
        location = place or "the root"
        if isinstance(found, dict) and isinstance(expected, dict):
            names = list(dict.fromkeys([*expected, *found]))
            for name in names:
                if (name in found) != (name in expected):
                    return f"{place}/{name} ({'added' if name in found else 'lost'})"
            inner = [(f"{place}/{name}", found[name], expected[name]) for name in names]
        elif isinstance(found, list) and isinstance(expected, list):
            if len(found) != len(expected):
                return f"{location} ({len(found)} instead of {len(expected)} elements)"
            pairs = zip(found, expected, strict=True)
            inner = [(f"{place}/{n}", *pair) for n, pair in enumerate(pairs)]
        elif found != expected or isinstance(found, bool) is not isinstance(expected, bool):
            return f"{location} ({_describe_difference(found, expected)})"
        else:
            continue
        pending += reversed(inner)
    return None


def _describe_difference(found: object, expected: object) -> str:
    """Return a text with two different values, each of limited length.

    Two strings are shown from their first different character on.
    """
    start = 0
    if isinstance(found, str) and isinstance(expected, str):
        pairs = enumerate(zip(found, expected, strict=False))
        shorter = min(len(found), len(expected))
        start = next((index for index, (one, other) in pairs if one != other), shorter)
        found, expected = found[start:], expected[start:]
    after = f" after {start} equal characters" if start else ""
    return f"expected {_BOUNDED_REPR.repr(expected)}, got {_BOUNDED_REPR.repr(found)}{after}"


# -- outcomes ----------------------------------------------------------------------------------


class CaseOutcome(StrEnum):
    """The outcome of a case, with the text for the matrix as its value."""

    OK = "ok"
    NOT_APPLICABLE = "–"  # noqa: RUF001 - an en dash marks an empty cell of a table
    FAIL = "FAIL"


@dataclass(frozen=True)
class CaseResult:
    """The outcome of one case for one wire, provider or store, with the reason."""

    case: str
    subject: str
    outcome: CaseOutcome
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.subject} · {self.case}: {self.reason or self.outcome}"


def find_cases(*modules: ModuleType) -> tuple[Any, ...]:
    """Return the public functions that the modules define, in order; each one is a case."""
    return tuple(
        member
        for module in modules
        for name, member in vars(module).items()
        if inspect.isfunction(member)
        and member.__module__ == module.__name__
        and not name.startswith("_")
    )


def run_case(
    case: str,
    subject: str,
    run: Callable[[], None],
    *,
    not_applicable: type[Exception],
    explanation: str,
) -> CaseResult:
    """Run a case and return its result; an exception is a failure, except `not_applicable`.

    `explanation` precedes the message of `not_applicable` in the reason.
    """
    try:
        run()
    except not_applicable as exc:
        return CaseResult(case, subject, CaseOutcome.NOT_APPLICABLE, f"{explanation}: {exc}")
    except CaseFailure as exc:
        return CaseResult(case, subject, CaseOutcome.FAIL, str(exc))
    except Exception as exc:  # noqa: BLE001 - a crash is reported as a failure
        place = traceback.extract_tb(exc.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        reason = f"crashed: {type(exc).__name__} in {where}: {exc}"
        return CaseResult(case, subject, CaseOutcome.FAIL, reason)
    return CaseResult(case, subject, CaseOutcome.OK)


def format_matrix(
    results: Sequence[CaseResult], *, explained: Collection[CaseOutcome] = (CaseOutcome.FAIL,)
) -> str:
    """Return a table with a row for each case and a column for each wire, provider or store.

    The reasons for the outcomes in `explained`, by default failures, follow the table.
    """
    cases = list(dict.fromkeys(result.case for result in results))
    subjects = list(dict.fromkeys(result.subject for result in results))
    found = {(result.case, result.subject): result for result in results}
    width = max(map(len, cases), default=0)
    lines = ["  ".join([" " * width, *subjects])]
    for case in cases:
        row = [found.get((case, subject)) for subject in subjects]
        cells = ["" if result is None else str(result.outcome) for result in row]
        padded = [cell.ljust(len(subject)) for cell, subject in zip(cells, subjects, strict=True)]
        lines.append("  ".join([case.ljust(width), *padded]).rstrip())
    reasons = [str(result) for result in results if result.outcome in explained]
    return "\n".join([*lines, *([""] if reasons else []), *reasons]) + "\n"


def import_named(place: str, kind: str) -> Any:
    """Import the object that a command-line argument names as `module:name`.

    `kind` is the placeholder for the name in an error, such as FUNCTION.
    Raises ArgumentTypeError if the object cannot be imported.
    """
    module, _, name = place.partition(":")
    if not module or not name:
        raise ArgumentTypeError(f"{place}: expected MODULE:{kind}")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError, TypeError) as exc:
        raise ArgumentTypeError(f"{place} cannot be imported: {exc}") from exc
