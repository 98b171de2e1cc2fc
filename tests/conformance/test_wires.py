"""Every case against every wire of steno: one test for each cell of the matrix."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from steno.testing.conformance import (
    SERVERS,
    WIRE_CASES,
    CaseOutcome,
    CaseResult,
    ScriptedServer,
    format_matrix,
)
from steno.testing.conformance import run_wire_case as run
from steno.testing.conformance.cases import WireCase
from steno.wire import WIRES

MATRIX = Path(__file__).with_name("matrix.txt")


@cache
def result_of(case: WireCase, server: ScriptedServer) -> CaseResult:
    return run(case, server)


@pytest.mark.requirement("S4-05", "S4-09", "S4-10", "S1-02", "S2-21")
@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.wire.NAME)
@pytest.mark.parametrize("case", WIRE_CASES, ids=lambda case: case.__name__)
def test_a_wire_passes_a_case(case: WireCase, server: ScriptedServer) -> None:
    result = result_of(case, server)
    assert result.outcome is not CaseOutcome.FAIL, str(result)


def test_the_matrix_of_all_wires_is_as_recorded() -> None:
    """Update: `python -m steno.testing.conformance > tests/conformance/matrix.txt`."""
    results = [result_of(case, server) for server in SERVERS for case in WIRE_CASES]
    assert format_matrix(results) == MATRIX.read_text("utf-8")


def test_there_is_a_server_for_every_wire() -> None:
    assert tuple(server.wire.NAME for server in SERVERS) == WIRES
