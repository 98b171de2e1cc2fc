"""Every case there is, in the order of the matrix. The name of a case is that of its function."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

from steno.testing.conformance import calls, ends, framing, requests, streams, words
from steno.testing.conformance.speaker import Speaker
from steno.testing.conformance.stage import Stage

WireCase: TypeAlias = Callable[[Speaker], None]
StreamCase: TypeAlias = Callable[[Stage], Coroutine[Any, Any, None]]

WIRE_CASES: Final[tuple[WireCase, ...]] = (
    words.text,
    words.thinking,
    words.thinking_with_seal,
    words.redacted_thinking,
    words.refusal_or_filter,
    calls.two_calls,
    calls.plain_stop_with_calls,
    calls.interleaved_calls,
    calls.shared_index,
    calls.missing_index,
    calls.late_name,
    calls.late_id,
    calls.empty_ids,
    calls.missing_ids,
    calls.no_arguments,
    calls.invalid_json_arguments,
    calls.many_fragments,
    ends.stop_reasons,
    ends.unknown_stop_reason,
    ends.usage,
    ends.usage_inclusive,
    ends.usage_alone,
    ends.end_is_told_once,
    ends.error_after_200,
    ends.error_keeps_what_came,
    ends.error_in_place_of_an_answer,
    ends.cut_short,
    ends.fed_after_end,
    words.unknown_event,
    words.unknown_member,
    words.unknown_block,
    words.keep_alive,
    framing.one_byte_chunks,
    framing.any_chunking,
    framing.cut_at_every_byte,
    framing.crlf,
    framing.byte_order_mark,
    framing.no_last_line_end,
    framing.no_final_mark,
    framing.unicode_line_separators,
    framing.nul_and_escapes,
    framing.lone_surrogates,
    framing.split_surrogates,
    requests.response_equals_stream,
    requests.request_round_trip,
    requests.request_says_it_all,
    requests.same_request_same_bytes,
    requests.prefix_stable,
    requests.kept_encoder,
    requests.outside_tool_names,
    requests.failed_result,
    requests.invalid_call_in_history,
    requests.seal_only_to_its_maker,
    requests.seal_with_two_calls,
    requests.foreign_seal,
    requests.foreign_block,
    requests.foreign_call_ids,
)
"""What is asked of every wire."""

STREAM_CASES: Final[tuple[StreamCase, ...]] = (
    streams.end,
    streams.message_after_end,
    streams.collected,
    streams.message_before_start_is_an_error,
    streams.message_while_reading,
    streams.iterating_after_end_ends,
    streams.one_answer_after_another,
    streams.interleaved_tool_call_deltas,
    streams.error_raised_not_an_event,
    streams.partial_after_error,
    streams.partial_after_cut,
    streams.cancel_while_waiting,
    streams.cancel_before_the_first_event,
    streams.close_unblocks_read,
    streams.leaving_early_closes,
    streams.close_before_start,
)
"""What is asked of every provider."""
