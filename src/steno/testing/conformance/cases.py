"""The cases for wires and providers, in the order of the matrix, and the functions that run them.

The name of a case is the name of its function.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeAlias

from steno.testing.case_results import CaseFailure, CaseResult, run_case
from steno.testing.conformance import framing_cases, request_cases, response_cases, stream_cases
from steno.testing.conformance.scripted_server import NotExpressible, ScriptedServer
from steno.testing.conformance.stream_cases import ProviderHarness

WireCase: TypeAlias = Callable[[ScriptedServer], None]
StreamCase: TypeAlias = Callable[[ProviderHarness], Coroutine[Any, Any, None]]
WIRE_CASES: Final[tuple[WireCase, ...]] = (
    response_cases.text,
    response_cases.thinking,
    response_cases.thinking_with_seal,
    response_cases.redacted_thinking,
    response_cases.refusal_or_filter,
    response_cases.two_calls,
    response_cases.plain_stop_with_calls,
    response_cases.interleaved_calls,
    response_cases.shared_index,
    response_cases.missing_index,
    response_cases.late_name,
    response_cases.late_id,
    response_cases.empty_ids,
    response_cases.missing_ids,
    response_cases.no_arguments,
    response_cases.invalid_json_arguments,
    response_cases.many_fragments,
    response_cases.stop_reasons,
    response_cases.unknown_stop_reason,
    response_cases.usage,
    response_cases.usage_inclusive,
    response_cases.usage_alone,
    response_cases.end_is_told_once,
    response_cases.error_after_200,
    response_cases.error_keeps_what_came,
    response_cases.error_in_place_of_an_answer,
    response_cases.cut_short,
    response_cases.fed_after_end,
    response_cases.unknown_event,
    response_cases.unknown_member,
    response_cases.unknown_block,
    response_cases.keep_alive,
    framing_cases.one_byte_chunks,
    framing_cases.any_chunking,
    framing_cases.cut_at_every_byte,
    framing_cases.crlf,
    framing_cases.byte_order_mark,
    framing_cases.no_last_line_end,
    framing_cases.no_final_mark,
    framing_cases.unicode_line_separators,
    framing_cases.nul_and_escapes,
    framing_cases.lone_surrogates,
    framing_cases.split_surrogates,
    request_cases.response_equals_stream,
    request_cases.request_round_trip,
    request_cases.request_says_it_all,
    request_cases.same_request_same_bytes,
    request_cases.prefix_stable,
    request_cases.kept_encoder,
    request_cases.outside_tool_names,
    request_cases.failed_result,
    request_cases.invalid_call_in_history,
    request_cases.seal_only_to_its_maker,
    request_cases.seal_with_two_calls,
    request_cases.foreign_seal,
    request_cases.foreign_block,
    request_cases.foreign_call_ids,
)
"""The cases for every wire."""
STREAM_CASES: Final[tuple[StreamCase, ...]] = (
    stream_cases.end,
    stream_cases.message_after_end,
    stream_cases.collected,
    stream_cases.message_before_start_is_an_error,
    stream_cases.message_while_reading,
    stream_cases.iterating_after_end_ends,
    stream_cases.one_answer_after_another,
    stream_cases.interleaved_tool_call_deltas,
    stream_cases.error_raised_not_an_event,
    stream_cases.partial_after_error,
    stream_cases.partial_after_cut,
    stream_cases.cancel_while_waiting,
    stream_cases.cancel_before_the_first_event,
    stream_cases.close_unblocks_read,
    stream_cases.leaving_early_closes,
    stream_cases.close_before_start,
)
"""The cases for every provider."""
CASE_TIMEOUT_S: Final = 5
"""The longest time of a case about streams; a case that passes takes almost none."""


_run_case: Final = partial(
    run_case, not_applicable=NotExpressible, explanation="the protocol cannot say"
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
    """Run one case against the provider of a harness, in an event loop of its own."""

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
