"""The kit as tests of pytest, one for each case.

    test_my_wire = wire_test(MySpeaker())
    test_my_provider = stream_test(MyStage())

What a protocol cannot say is skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    import pytest
except ModuleNotFoundError as exc:
    raise ImportError(
        "steno.testing.conformance.in_pytest needs pytest: pip install pytest"
    ) from exc

from steno.testing.conformance.cases import STREAM_CASES, WIRE_CASES, StreamCase, WireCase
from steno.testing.conformance.run import Result, Verdict, run_stream_case, run_wire_case
from steno.testing.conformance.speaker import Speaker
from steno.testing.conformance.stage import Stage


def wire_test(speaker: Speaker) -> Callable[..., None]:
    """Return a test that runs once for each case, against the wire of a speaker."""

    @pytest.mark.parametrize("case", WIRE_CASES, ids=_name)
    def test(case: WireCase) -> None:
        _judge(run_wire_case(case, speaker))

    return test


def stream_test(stage: Stage) -> Callable[..., None]:
    """Return a test that runs once for each case, against the provider of a stage."""

    @pytest.mark.parametrize("case", STREAM_CASES, ids=_name)
    def test(case: StreamCase) -> None:
        _judge(run_stream_case(case, stage))

    return test


def _name(case: Any) -> str:
    found: str = case.__name__
    return found


def _judge(result: Result) -> None:
    if result.outcome is Verdict.NOT_APPLICABLE:
        pytest.skip(result.reason)
    if result.outcome is Verdict.FAIL:
        pytest.fail(str(result), pytrace=False)
