"""Words for what was expected, and the choice of what to say when no alternative fits."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import msgspec

from steno.schema.shapes import is_mapping
from steno.schema.walk import Fault, Place

_MAX_LISTED = 20
_MAX_CHARACTERS = 200


def words(operand: Any) -> str:
    """Return a part of a schema as JSON text, cut if it is long."""
    try:
        text = msgspec.json.encode(operand, enc_hook=_plain).decode()
    except (TypeError, ValueError, RecursionError):
        return "what the schema says"
    return text if len(text) <= _MAX_CHARACTERS else text[:_MAX_CHARACTERS] + "…"


def listing(operands: Iterable[Any]) -> str:
    """Return parts of a schema as JSON texts with commas between them, the first few."""
    listed = [words(operand) for operand in islice(operands, _MAX_LISTED + 1)]
    return ", ".join([*listed[:_MAX_LISTED], "…"] if len(listed) > _MAX_LISTED else listed)


def most_helpful(failures: list[list[Fault]], place: Place) -> list[Fault]:
    """Return what to report when each alternative failed in its own way.

    The alternative that came closest is the one that was meant: the value is of its kind,
    it carries its tag, and little else is wrong. If there is none of the right kind, what
    all of them wanted is said in one sentence.
    """
    best = min(failures, key=lambda faults: _distance(faults, place))
    reason = _rules_out(best, place)
    if reason is None or len(failures) == 1:
        return best
    reasons = [found for faults in failures if (found := _rules_out(faults, place))]
    rules = [found.rule for found in reasons if found.path == reason.path]
    return [Fault(reason.path, _either(rules), reason.aspect)]


def _distance(faults: list[Fault], place: Place) -> tuple[int, int, int]:
    """Return how far an alternative is from fitting: kind, then number, then depth of faults."""
    reason = _rules_out(faults, place)
    miss = 0 if reason is None else 2 if reason.path == place else 1
    return miss, len(faults), -max(_depth(fault.path) for fault in faults)


def _rules_out(faults: list[Fault], place: Place) -> Fault | None:
    """Return the fault which shows that another alternative was meant, if there is one."""
    for fault in faults:
        if fault.path == place and fault.aspect != "rule":
            return fault
        if fault.aspect == "tag" and fault.path and fault.path[0] == place:
            return fault
    return None


def _depth(place: Place) -> int:
    depth = 0
    while place:
        place, depth = place[0], depth + 1
    return depth


def _either(rules: list[str]) -> str:
    rules = list(dict.fromkeys(rules))
    for start in ("expected ", "must be "):
        if all(rule.startswith(start) for rule in rules):
            return start + " or ".join(rule.removeprefix(start) for rule in rules)
    return ", or ".join(rules)


def _plain(value: Any) -> Any:
    if is_mapping(value):
        return dict(value)
    raise TypeError
