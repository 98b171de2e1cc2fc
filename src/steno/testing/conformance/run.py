"""Run cases and show what came of them as a matrix."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from steno.testing.conformance.cases import STREAM_CASES, WIRE_CASES, StreamCase, WireCase
from steno.testing.conformance.hearing import Unmet
from steno.testing.conformance.speaker import CannotSay, Speaker
from steno.testing.conformance.stage import Stage

LONGEST_S: Final = 5
"""How long a case about streams may take; those that pass take no time."""


class Verdict(StrEnum):
    """What became of a case, as the matrix shows it."""

    OK = "ok"
    NOT_APPLICABLE = "–"  # noqa: RUF001 - a dash, as in any table
    FAIL = "FAIL"


@dataclass(frozen=True)
class Result:
    """What became of one case."""

    case: str
    subject: str
    outcome: Verdict
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.subject} · {self.case}: {self.reason or self.outcome}"


def run_wire_case(case: WireCase, speaker: Speaker) -> Result:
    """Run one case against the wire of a speaker; whatever it raises is in the result."""
    return _run(case.__name__, speaker.wire.NAME, lambda: case(speaker))


def run_wire_cases(speaker: Speaker) -> list[Result]:
    """Run every case against the wire of a speaker."""
    return [run_wire_case(case, speaker) for case in WIRE_CASES]


def run_stream_case(case: StreamCase, stage: Stage, *, longest_s: float = LONGEST_S) -> Result:
    """Run one case against the provider of a stage, in an event loop of its own."""
    return _run(case.__name__, stage.name, lambda: asyncio.run(_bounded(case, stage, longest_s)))


def run_stream_cases(stage: Stage) -> list[Result]:
    """Run every case against the provider of a stage."""
    return [run_stream_case(case, stage) for case in STREAM_CASES]


async def _bounded(case: StreamCase, stage: Stage, longest_s: float) -> None:
    try:
        async with asyncio.timeout(longest_s):
            await case(stage)
    except TimeoutError:
        raise Unmet(f"not done within {longest_s:g} s") from None


def _run(case: str, subject: str, act: Callable[[], None]) -> Result:
    try:
        act()
    except CannotSay as exc:
        return Result(case, subject, Verdict.NOT_APPLICABLE, f"the protocol cannot say: {exc}")
    except Unmet as exc:
        return Result(case, subject, Verdict.FAIL, str(exc))
    except Exception as exc:  # noqa: BLE001 - what crashes is what we are looking for
        return Result(case, subject, Verdict.FAIL, f"crashed: {_explain(exc)}")
    return Result(case, subject, Verdict.OK)


def matrix(results: Sequence[Result], *, explained: Collection[Verdict] = (Verdict.FAIL,)) -> str:
    """Return results as a table: a row for each case, a column for each wire or provider.

    The reasons stand below it: of those that failed, or of the verdicts that are to be explained.
    """
    cases = list(dict.fromkeys(result.case for result in results))
    subjects = list(dict.fromkeys(result.subject for result in results))
    found = {(result.case, result.subject): result for result in results}
    width = max(map(len, cases), default=0)
    lines = ["  ".join([" " * width, *subjects])]
    for case in cases:
        cells = [_cell(found.get((case, subject))).ljust(len(subject)) for subject in subjects]
        lines.append("  ".join([case.ljust(width), *cells]).rstrip())
    reasons = [str(result) for result in results if result.outcome in explained]
    return "\n".join([*lines, *([""] if reasons else []), *reasons]) + "\n"


def _cell(result: Result | None) -> str:
    return "" if result is None else str(result.outcome)


def _explain(exc: Exception) -> str:
    place = traceback.extract_tb(exc.__traceback__)[-1]
    return f"{type(exc).__name__} in {Path(place.filename).name}:{place.lineno}: {exc}"
