"""The kit finds broken wires: every case can fail, and fails for the wires it should."""

from __future__ import annotations

from functools import cache

import pytest

from steno.testing.conformance import WIRE_CASES, CaseOutcome, CaseResult, run_wire_cases
from steno.wire import anthropic_messages
from tests.conformance.broken_wires import BROKEN, BrokenWire, server_for


@cache
def failures(wire: BrokenWire) -> dict[str, CaseResult]:
    results = run_wire_cases(server_for(wire))
    return {result.case: result for result in results if result.outcome is CaseOutcome.FAIL}


def of(name: str) -> dict[str, CaseResult]:
    return failures(BROKEN[name])


def test_a_wire_that_merges_two_calls_fails() -> None:
    assert {"two_calls", "interleaved_calls", "shared_index"} <= of("MergesCalls").keys()


def test_a_wire_that_crashes_without_an_index_fails_and_does_not_crash_the_kit() -> None:
    found = of("CrashesWithoutIndex")
    assert found["missing_index"].reason.startswith("crashed: TypeError in broken_wires.py:")
    assert "interleaved_calls" not in found


def test_a_wire_that_drops_unknown_blocks_fails() -> None:
    found = of("DropsUnknownBlocks").keys()
    assert found == {"unknown_block", "unknown_event", "unknown_member"}


def test_a_wire_that_splits_at_u_2028_fails() -> None:
    assert "unicode_line_separators" in of("SplitsLinesAsStrings")


def test_a_wire_that_loses_events_before_an_error_fails() -> None:
    assert "events_before_error_kept" in of("LosesWhatCameBefore")


def test_a_wire_that_needs_whole_events_fails() -> None:
    found = of("NeedsWholeEvents").keys()
    assert {"one_byte_chunks", "any_chunking", "cut_at_every_byte", "crlf"} <= found
    assert "two_calls" not in found


def test_a_wire_that_sends_seals_to_any_target_fails() -> None:
    found = of("SendsAnything").keys()
    assert {"seal_only_to_its_model", "foreign_seal", "foreign_block", "foreign_call_ids"} <= found


def test_a_wire_whose_encoder_ignores_changed_messages_fails() -> None:
    found = of("RemembersTooMuch")
    assert found.keys() == {"reused_encoder"}
    assert found["reused_encoder"].reason.startswith("requests[10], 8 messages for model-2")


def test_a_wire_without_an_encoder_is_not_tested_on_one() -> None:
    results = run_wire_cases(server_for(BrokenWire(good=anthropic_messages)))
    [found] = [result for result in results if result.case == "reused_encoder"]
    assert found.outcome is CaseOutcome.NOT_APPLICABLE


@pytest.mark.parametrize("case", WIRE_CASES, ids=lambda case: case.__name__)
def test_every_case_fails_for_some_broken_wire(case: object) -> None:
    assert any(getattr(case, "__name__", "") in of(name) for name in BROKEN)


@pytest.mark.parametrize("name", BROKEN)
def test_every_broken_wire_fails_with_a_reason(name: str) -> None:
    assert of(name)
    assert all(result.reason for result in of(name).values())


def test_a_wrapped_correct_wire_passes() -> None:
    assert failures(BrokenWire(good=anthropic_messages)) == {}
