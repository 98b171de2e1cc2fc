"""The cost of assembling a stream, counted in calls of functions and not in seconds."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from steno import (
    Assembler,
    Event,
    Finished,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCallBegin,
    ToolCallDelta,
    ToolCallEnd,
)

E = TypeVar("E", bound=Event)

WIDE_MARGIN = 1.5


def repeat(event: E, count: int) -> list[E]:
    return [event] * count


LONG_STREAMS: dict[str, Callable[[int], list[Any]]] = {
    "words": lambda count: repeat(TextDelta(0, "word "), count),
    "thoughts": lambda count: repeat(ThinkingDelta(0, "word "), count),
    "arguments by index": lambda count: [
        ToolCallDelta(0, "a", "read", '{"text":"'),
        *repeat(ToolCallDelta(0, arguments_delta="word "), count),
        ToolCallDelta(0, arguments_delta='"}'),
    ],
    "arguments by id": lambda count: [
        ToolCallBegin(None, "a", "read"),
        ToolCallDelta(None, "a", None, '{"text":"'),
        *repeat(ToolCallDelta(None, "a", arguments_delta="word "), count),
        ToolCallDelta(None, "a", None, '"}'),
    ],
    "a chatty server": lambda count: [
        ToolCallDelta(0, None, "read", '{"text":"'),
        *repeat(ToolCallDelta(0, "", "read", "word "), count),
        ToolCallDelta(0, None, "read", '"}'),
    ],
    "two calls in turns": lambda count: [
        ToolCallDelta(number % 2, f"id{number % 2}", "read", "word ") for number in range(count)
    ],
    "many calls": lambda count: [
        ToolCallDelta(0, f"id{number}", "read", "{}") for number in range(count)
    ],
    "many calls that end": lambda count: [
        event
        for number in range(count // 2)
        for event in (ToolCallDelta(number, None, "read", "{}"), ToolCallEnd(number))
    ],
}


@pytest.mark.requirement("NFR-004a-11", "NFR-004a-12")
@pytest.mark.parametrize("kind", LONG_STREAMS)
def test_the_work_grows_with_the_number_of_fragments_and_no_faster(kind: str) -> None:
    small = count_work([*LONG_STREAMS[kind](2_000), Finished(StopReason.END_TURN)])
    large = count_work([*LONG_STREAMS[kind](16_000), Finished(StopReason.END_TURN)])
    assert large.total() < WIDE_MARGIN * 8 * small.total()
    for name in ("join", "decode"):
        # They touch all that is there: once per call is fine, once per fragment is not.
        if kind.startswith("many calls"):
            assert large[name] < WIDE_MARGIN * 8 * max(1, small[name])
        else:
            assert large[name] == small[name]


def count_work(found: list[Event]) -> Counter[str]:
    """Count the Python and C functions that are called while a stream is assembled."""
    calls: Counter[str] = Counter()

    def count(frame: Any, kind: str, function: Any) -> None:
        if kind == "call":
            calls[frame.f_code.co_name] += 1
        elif kind == "c_call":
            calls[function.__name__] += 1

    assembler = Assembler()
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for event in found:
            assembler.feed(event)
        message = assembler.message()
    finally:
        sys.setprofile(before)
    assert message.content
    return calls
