"""Gemini's generateContent: responses that break off, and limits on the cost of reading."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, SupportsIndex

import msgspec
import pytest

from steno import (
    AssistantMessage,
    InvalidToolCall,
    ProtocolError,
    ProviderError,
    Request,
    ToolCall,
)
from steno.assemble import ToolCallPart, WireEvent
from steno.errors import CutShort, StenoError
from steno.messages.event import ExtrasAdded
from steno.wire import gemini
from steno.wire.framing import JsonObjectSplitter
from tests.code_probes import record_calls
from tests.wire.decode_helpers import assemble_message, decode_events, sse


def chunk(*parts: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    ended = {} if finish is None else {"finishReason": finish}
    return {"candidates": [{"content": {"parts": list(parts), "role": "model"}, **ended}]}


def fragment(path: str, value: str = "x", **members: Any) -> dict[str, Any]:
    partial = {"jsonPath": path, "stringValue": value}
    return {"functionCall": {"partialArgs": [partial], "willContinue": True} | members}


OPENING = {"functionCall": {"name": "add", "willContinue": True}}
CLOSING: dict[str, Any] = {"functionCall": {}}
STOP = chunk(finish="STOP")
ERROR = {"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}


def decode_to_error(body: bytes) -> tuple[list[WireEvent], StenoError]:
    """Decode a response that does not end; return its events and the error."""
    decoder = gemini.StreamDecoder()
    events: list[WireEvent] = []
    try:
        for source in (decoder.feed, lambda _: decoder.close()):
            for event in source(body):
                events.append(event)  # noqa: PERF402 - events before the error count
    except StenoError as error:
        return events, error
    pytest.fail("no error was raised")


# -- calls that break off ------------------------------------------------------------------------

BEGUN = sse(chunk(OPENING), chunk(fragment("$.a", "long text")), chunk(fragment("$.b[0].c", "y")))


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        (b"", CutShort),
        (sse(STOP)[:-8], CutShort),
        (sse(ERROR), ProviderError),
        (b"data: {no json}\n\n", ProtocolError),
        (sse(chunk(fragment("$..everything"))), ProtocolError),
    ],
)
def test_a_call_that_breaks_off_keeps_its_arguments_so_far(
    more: bytes, kind: type[StenoError]
) -> None:
    events, error = decode_to_error(BEGUN + more)
    [made] = assemble_message(events).tool_calls
    assert isinstance(error, kind)
    assert isinstance(made, InvalidToolCall)
    assert made.arguments == '{"a":"long text","b":[{"c":"y"}]'
    assert not any(isinstance(event, ToolCallPart) and event.ends for event in events)


def test_a_call_whose_first_fragment_cannot_be_read_is_there_with_what_can() -> None:
    opening = fragment("$.a", name="add", id="c1")
    opening["functionCall"]["partialArgs"].append({"jsonPath": "$..everything", "boolValue": True})
    events, error = decode_to_error(sse(chunk(opening)))
    [made] = assemble_message(events).tool_calls
    assert isinstance(error, ProtocolError)
    assert isinstance(made, InvalidToolCall)
    assert (made.id, made.name, made.arguments) == ("c1", "add", '{"a":"x"')


@pytest.mark.parametrize("opening", [[OPENING], []])
def test_a_call_with_a_last_fragment_that_cannot_be_read_cannot_be_run(
    opening: list[dict[str, Any]],
) -> None:
    unreadable = fragment("$..everything", name="add", id="c1")
    body = sse(chunk(*opening, finish="STOP"), chunk(unreadable)).rstrip()
    calls = assemble_message(decode_events(gemini, body)).tool_calls
    assert isinstance(calls[-1], InvalidToolCall)


def test_a_name_that_comes_with_a_fragment_that_cannot_be_read_is_kept() -> None:
    events, _ = decode_to_error(
        sse(chunk(fragment("$.a")), chunk(fragment("$", name="add", id="c1")))
    )
    [made] = assemble_message(events).tool_calls
    assert (made.id, made.name, made.arguments) == ("c1", "add", '{"a":"x"')


def test_a_call_that_breaks_off_before_its_arguments_cannot_be_run() -> None:
    events, _ = decode_to_error(sse(chunk(OPENING)))
    [made] = assemble_message(events).tool_calls
    assert isinstance(made, InvalidToolCall)
    assert made.arguments == "{"


def test_a_call_that_breaks_off_keeps_the_extras_of_its_fragments() -> None:
    parts = [fragment("$.a", tags=[tag]) | {"partMetadata": {tag: 1}} for tag in "xy"]
    events, _ = decode_to_error(sse(chunk(OPENING, *parts)))
    [made] = assemble_message(events).tool_calls
    assert made.extras is not None
    kept = msgspec.json.decode(made.extras["gemini"].text)
    assert kept["functionCall"] == {"tags": ["x", "y"]}
    assert kept["partMetadata"] == {"x": 1, "y": 1}


# -- extras of fragments -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tags", "tag{0}"])
def test_extras_of_fragments_are_sent_once(name: str) -> None:
    first, second = (_count_extras_sent(count, name) for count in (50, 100))
    assert second <= 2.2 * first


def _count_extras_sent(count: int, name: str) -> int:
    """Return the number of characters in the extras events of a call in `count` fragments."""
    extras = [{name.format(at): [at]} for at in range(100, 100 + count)]
    parts = [{"functionCall": {"willContinue": True} | members} for members in extras]
    events = decode_events(gemini, sse(chunk(OPENING, *parts, CLOSING), STOP))
    [made] = assemble_message(events).tool_calls
    assert made.extras is not None
    kept = msgspec.json.decode(made.extras["gemini"].text)["functionCall"]
    assert [number for part in kept.values() for number in part] == list(range(100, 100 + count))
    return sum(
        len(event.extras["gemini"].text) for event in events if isinstance(event, ExtrasAdded)
    )


# -- lone surrogates -----------------------------------------------------------------------------


def test_lone_surrogates_are_searched_once_in_a_chunk() -> None:
    readings = [_readings_of(count) for count in (10, 20)]
    assert readings == [1, 1]


def _readings_of(count: int) -> int:
    """Return how often a chunk is parsed for the lone surrogates in its `count` parts."""
    halves = [{"text": half} for half in ("\ud83d", "\ude00") * count]
    payloads = [json.dumps(each).encode() for each in (chunk(*halves), STOP)]
    body = b"".join([b"data: " + payload + b"\n\n" for payload in payloads])
    found: list[WireEvent] = []
    work = record_calls(lambda: found.extend(decode_events(gemini, body)))
    assert assemble_message(found).text == "😀" * count
    return work.python.count("loads")


# -- positions -----------------------------------------------------------------------------------


def decode(*parts: dict[str, Any]) -> AssistantMessage:
    return assemble_message(decode_events(gemini, sse(chunk(*parts), STOP)))


def test_elements_of_a_list_may_come_in_any_order() -> None:
    positions = range(40, -1, -1)
    [made] = decode(OPENING, *[fragment(f"$.a[{at}]", str(at)) for at in positions]).tool_calls
    assert isinstance(made, ToolCall)
    assert made.parsed.to_dict() == {"a": [str(at) for at in range(41)]}


def test_a_long_list_is_complete() -> None:
    count = 3000
    [made] = decode(OPENING, *[fragment(f"$.a[{at}]") for at in range(count)]).tool_calls
    assert isinstance(made, ToolCall)
    assert made.parsed.to_dict() == {"a": ["x"] * count}


@pytest.mark.parametrize(
    "parts",
    [
        [OPENING, fragment("$.a[9999]")],
        [OPENING, fragment("$.a[9999].b")],
        [OPENING, *[fragment(f"$.a{at}[60]") for at in range(100)]],
        [OPENING, fragment("$.a" + "[60]" * 100)],
        [fragment("$.a[60]", name="add", willContinue=False)] * 100,
    ],
)
def test_positions_that_are_left_out_are_bounded_in_an_answer(parts: list[dict[str, Any]]) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(*parts)
    assert caught.value.code == "too_many_skipped_positions"
    assert "\n" not in str(caught.value)


# -- a streamed array ----------------------------------------------------------------------------


class Watched(bytes):
    """Bytes that count how many of them are copied."""

    copied = 0

    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        found = super().__getitem__(key)
        if isinstance(found, bytes):
            self.copied += len(found)
        return found


def test_a_piece_with_many_strings_is_not_copied_for_each_of_them() -> None:
    first, second = (_copied(count) for count in (100, 200))
    assert second <= 2.2 * first


def _copied(count: int) -> int:
    """Return the number of bytes copied while `count` objects are split from an array."""
    data = Watched(msgspec.json.encode([{"text": "a\\b"}] * count))
    assert len(JsonObjectSplitter().feed(data)) == count
    return data.copied


# -- recorded results ----------------------------------------------------------------------------


@pytest.mark.parametrize("by_id", [True, False])
def test_results_find_their_calls_however_many_there_are(by_id: bool) -> None:
    _steps_to_pair(1, by_id=by_id)  # Python 3.12 begins to count when it was asked once
    first, second = (_steps_to_pair(count, by_id=by_id) for count in (100, 200))
    assert first > 0
    assert second <= 2.2 * first


def _steps_to_pair(count: int, *, by_id: bool) -> int:
    """Return the number of steps to read `count` calls and their results in reverse order."""
    told = [{"name": f"f{at}"} | ({"id": f"c{at}"} if by_id else {}) for at in range(count)]
    contents = [
        {"role": "model", "parts": [{"functionCall": each | {"args": {}}} for each in told]},
        {"role": "user", "parts": [{"functionResponse": each} for each in reversed(told)]},
    ]
    body = msgspec.json.encode({"contents": contents})
    found: list[Request] = []
    steps = _steps_of(lambda: found.append(gemini.decode_request(body)))
    made, *results = found[0].messages
    assert isinstance(made, AssistantMessage)
    asked = [call.id for call in reversed(made.tool_calls)]
    assert [getattr(result, "tool_call_id", None) for result in results] == asked
    return steps


def _steps_of(code: Callable[[], object]) -> int:
    """Return the number of opcodes of this wire that are executed while `code` runs."""
    folder = str(Path(gemini.__file__).parent)
    steps = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal steps
        if not frame.f_code.co_filename.startswith(folder):
            return None
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        code()
    finally:
        sys.settrace(previous)
    return steps
