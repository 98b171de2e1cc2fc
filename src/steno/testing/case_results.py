"""The results of the cases of both conformance kits: failures, outcomes, and the matrix.

A case compares only values that the kit itself wrote, so a failure may show them.
"""

from __future__ import annotations

import inspect
import json
import traceback
from argparse import ArgumentTypeError
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any


class CaseFailure(AssertionError):
    """The error of a case whose rule a wire, a provider or a store breaks."""


def expect(found: object, expected: object, subject: str) -> None:
    """Raise CaseFailure with both values unless they are equal."""
    if found != expected:
        raise CaseFailure(f"{subject}: expected {expected!r}, got {found!r}")


def require(is_met: bool, rule: str) -> None:
    """Raise CaseFailure with the rule unless it is met."""
    if not is_met:
        raise CaseFailure(rule)


def expect_json(found: Any, expected: Any, subject: str) -> None:
    """Raise CaseFailure with the first difference unless two JSON values are equal."""
    pointer = _json_difference(found, expected)
    if pointer is not None:
        raise CaseFailure(f"{subject}: differs at {pointer or 'the root'}")


def expect_body(found: bytes, expected: bytes, subject: str) -> None:
    """Raise CaseFailure unless two bodies are equal: as JSON, or as bytes if they are not JSON."""
    try:
        values = json.loads(found), json.loads(expected)
    except ValueError:
        expect(found, expected, subject)
    else:
        expect_json(*values, subject)


def _json_difference(found: Any, expected: Any) -> str | None:
    if isinstance(found, dict) and isinstance(expected, dict):
        for name in dict.fromkeys([*expected, *found]):
            if (name in found) != (name in expected):
                return f"/{name} ({'added' if name in found else 'lost'})"
            inner = _json_difference(found[name], expected[name])
            if inner is not None:
                return f"/{name}{inner}"
        return None
    if isinstance(found, list) and isinstance(expected, list):
        if len(found) != len(expected):
            return f" ({len(found)} instead of {len(expected)} elements)"
        places = (
            _json_difference(found_item, expected_item)
            for found_item, expected_item in zip(found, expected, strict=True)
        )
        return next((f"/{n}{place}" for n, place in enumerate(places) if place is not None), None)
    is_same = found == expected and isinstance(found, bool) is isinstance(expected, bool)
    return None if is_same else f" (expected {expected!r}, got {found!r})"


# -- outcomes ----------------------------------------------------------------------------------


class CaseOutcome(StrEnum):
    """The outcome of a case, as the matrix shows it."""

    OK = "ok"
    NOT_APPLICABLE = "–"  # noqa: RUF001 - a dash, as in any table
    FAIL = "FAIL"


@dataclass(frozen=True)
class CaseResult:
    """The outcome of one case, with its reason."""

    case: str
    subject: str
    outcome: CaseOutcome
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.subject} · {self.case}: {self.reason or self.outcome}"


def find_cases(*modules: ModuleType) -> tuple[Any, ...]:
    """Return the cases of modules: the public functions that they define, in their order."""
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
    """Run a case; any exception but `not_applicable`, which `explanation` explains, is a failure."""
    try:
        run()
    except not_applicable as exc:
        return CaseResult(case, subject, CaseOutcome.NOT_APPLICABLE, f"{explanation}: {exc}")
    except CaseFailure as exc:
        return CaseResult(case, subject, CaseOutcome.FAIL, str(exc))
    except Exception as exc:  # noqa: BLE001 - a crash is a result
        place = traceback.extract_tb(exc.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        reason = f"crashed: {type(exc).__name__} in {where}: {exc}"
        return CaseResult(case, subject, CaseOutcome.FAIL, reason)
    return CaseResult(case, subject, CaseOutcome.OK)


def format_matrix(
    results: Sequence[CaseResult], *, explained: Collection[CaseOutcome] = (CaseOutcome.FAIL,)
) -> str:
    """Return results as a table: a row for each case, a column for each wire, provider or store.

    The reasons for the outcomes in `explained`, by default failures, follow below the table.
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
    """Return the object `module:name` for a command line. Raises ArgumentTypeError.

    `kind` is the placeholder for the name in the error, such as FUNCTION.
    """
    module, _, name = place.partition(":")
    if not module or not name:
        raise ArgumentTypeError(f"{place}: write MODULE:{kind}")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError, TypeError) as exc:
        raise ArgumentTypeError(f"{place} cannot be imported: {exc}") from exc
