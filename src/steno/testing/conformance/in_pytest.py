"""Run the conformance kit for wires and providers in pytest, with one test for each case.

    test_my_wire = wire_test(MyServer())
    test_my_provider = stream_test(MyHarness())

A case that a protocol cannot express is skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    import pytest
except ModuleNotFoundError as _exc:
    raise ImportError(
        "steno.testing.conformance.in_pytest needs pytest: pip install pytest"
    ) from _exc

from steno.testing.case_results import CaseOutcome, CaseResult
from steno.testing.conformance.cases import (
    STREAM_CASES,
    WIRE_CASES,
    StreamCase,
    WireCase,
    run_stream_case,
    run_wire_case,
)
from steno.testing.conformance.scripted_server import ScriptedServer
from steno.testing.conformance.stream_cases import ProviderHarness

__all__ = ["stream_test", "wire_test"]


def wire_test(server: ScriptedServer) -> Callable[..., None]:
    """Return a parametrized test that runs each case against the wire of a server."""

    @pytest.mark.parametrize("case", WIRE_CASES, ids=_case_name)
    def test(case: WireCase) -> None:
        _report_result(run_wire_case(case, server))

    return test


def stream_test(harness: ProviderHarness) -> Callable[..., None]:
    """Return a parametrized test that runs each case against the provider of a harness."""

    @pytest.mark.parametrize("case", STREAM_CASES, ids=_case_name)
    def test(case: StreamCase) -> None:
        _report_result(run_stream_case(case, harness))

    return test


def _case_name(case: Any) -> str:
    found: str = case.__name__
    return found


def _report_result(result: CaseResult) -> None:
    if result.outcome is CaseOutcome.NOT_APPLICABLE:
        pytest.skip(result.reason)
    if result.outcome is CaseOutcome.FAIL:
        pytest.fail(str(result), pytrace=False)
