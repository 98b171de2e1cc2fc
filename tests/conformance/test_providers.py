"""Every case about streams, against the HTTP provider on every wire and the providers for tests."""

from __future__ import annotations

import pytest

from steno.providers import CATALOG
from steno.testing.conformance import (
    SERVERS,
    STREAM_CASES,
    CaseOutcome,
    HttpProviderHarness,
    ProviderHarness,
    ReplayProviderHarness,
    ScriptedProviderHarness,
    run_stream_case,
)
from steno.testing.conformance.cases import StreamCase

VENDOR_WIRES = {vendor.wire for vendor in CATALOG.values()}
HTTP: list[ProviderHarness] = [
    HttpProviderHarness(server) for server in SERVERS if server.wire.NAME in VENDOR_WIRES
]
DOUBLES: list[ProviderHarness] = [
    ScriptedProviderHarness(),
    *(ReplayProviderHarness(server) for server in SERVERS),
]

every_case = pytest.mark.parametrize("case", STREAM_CASES, ids=lambda case: case.__name__)


@pytest.mark.requirement("S4-17", "S4-03", "S4-04", "S4-05")
@pytest.mark.parametrize("harness", HTTP, ids=lambda harness: harness.name)
@every_case
def test_the_http_provider_passes_a_case(case: StreamCase, harness: ProviderHarness) -> None:
    result = run_stream_case(case, harness)
    assert result.outcome is not CaseOutcome.FAIL, str(result)


@pytest.mark.requirement("S4-17", "S4-16")
@pytest.mark.parametrize("harness", DOUBLES, ids=lambda harness: harness.name)
@every_case
def test_a_provider_for_tests_passes_a_case(case: StreamCase, harness: ProviderHarness) -> None:
    result = run_stream_case(case, harness)
    assert result.outcome is not CaseOutcome.FAIL, str(result)


def test_only_fragments_of_calls_are_not_expressible_everywhere() -> None:
    skipped = {
        (case.__name__, harness.name)
        for harness in (*HTTP, *DOUBLES)
        for case in STREAM_CASES
        if run_stream_case(case, harness).outcome is CaseOutcome.NOT_APPLICABLE
    }
    whole_calls = ("http/gemini", "http/ollama_chat", "replay/gemini", "replay/ollama_chat")
    assert skipped == {("interleaved_tool_call_deltas", name) for name in whole_calls}


def test_the_http_provider_supports_all_wires_but_chat() -> None:
    assert {harness.name for harness in HTTP} == {f"http/{name}" for name in VENDOR_WIRES}
    assert {server.wire.NAME for server in SERVERS} - VENDOR_WIRES == {"chat"}
