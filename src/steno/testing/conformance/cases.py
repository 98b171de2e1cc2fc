"""The cases for wires and providers, in the order of the matrix, and the functions that run them.

Every public function of a `*_cases` module is a case; the function name is the name of the case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeAlias

from steno.testing.case_results import CaseFailure, CaseResult, find_cases, run_case
from steno.testing.conformance import request_cases, response_cases, stream_cases
from steno.testing.conformance.scripted_server import NotExpressible, ScriptedServer
from steno.testing.conformance.stream_cases import ProviderHarness

WireCase: TypeAlias = Callable[[ScriptedServer], None]
StreamCase: TypeAlias = Callable[[ProviderHarness], Coroutine[Any, Any, None]]
WIRE_CASES: Final[tuple[WireCase, ...]] = find_cases(response_cases, request_cases)
"""The cases for every wire."""
STREAM_CASES: Final[tuple[StreamCase, ...]] = find_cases(stream_cases)
"""The cases for every provider."""
CASE_TIMEOUT_S: Final = 5
"""The time limit of a stream case; a case that passes takes milliseconds."""


_run_case: Final = partial(
    run_case, not_applicable=NotExpressible, explanation="the protocol cannot express"
)


def run_wire_case(case: WireCase, server: ScriptedServer) -> CaseResult:
    """Run one case against the wire of a server; an exception becomes a failed result."""
    return _run_case(case.__name__, server.wire.NAME, lambda: case(server))


def run_wire_cases(server: ScriptedServer) -> list[CaseResult]:
    """Run every case against the wire of a server."""
    return [run_wire_case(case, server) for case in WIRE_CASES]


def run_stream_case(
    case: StreamCase, harness: ProviderHarness, *, longest_s: float = CASE_TIMEOUT_S
) -> CaseResult:
    """Run one case against the provider of a harness, in a new event loop.

    A case that takes longer than `longest_s` seconds fails.
    """

    async def run_with_timeout() -> None:
        try:
            async with asyncio.timeout(longest_s):
                await case(harness)
        except TimeoutError:
            raise CaseFailure(f"not done within {longest_s:g} s") from None

    return _run_case(case.__name__, harness.name, lambda: asyncio.run(run_with_timeout()))


def run_stream_cases(harness: ProviderHarness) -> list[CaseResult]:
    """Run every case against the provider of a harness."""
    return [run_stream_case(case, harness) for case in STREAM_CASES]
