"""The cost of reading a file grows with its size, whatever the file contains."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from steno.formats import FORMATS, json_text
from tests.acceptance.costs import calls_of, steps_of

JsonObjects = list[dict[str, Any]]


def rows_of_system(count: int) -> JsonObjects:
    return [{"id": f"s{number}", "kind": "system", "content": "x"} for number in range(count)]


def rows_of_calls(count: int) -> JsonObjects:
    return [
        {"kind": "tool_call", "data_json": {"tool_call_id": f"c{number}", "name": "read"}}
        for number in range(count)
    ]


def rows_of_results(count: int) -> JsonObjects:
    """Return one long turn: a call without a result, then calls with one."""
    rows: JsonObjects = [
        {"kind": "user", "content": "x"},
        {"kind": "tool_call", "data_json": {"tool_call_id": "never", "name": "read"}},
    ]
    for number in range(count):
        call = {"tool_call_id": f"c{number}", "name": "read"}
        result = {"tool_call_id": f"c{number}", "output": "x", "success": True}
        rows.append({"kind": "tool_call", "data_json": call})
        rows.append({"kind": "tool_result", "data_json": result})
    return rows


def audit_log_of_unanswered_calls(count: int) -> dict[str, JsonObjects]:
    """Return the calls of two tools, of which only those of the second are answered, without ids."""
    unanswered = [
        {"type": "assistant_action", "tool_name": "read", "tool_id": f"a{number}"}
        for number in range(count)
    ]
    answered = [
        message
        for number in range(count)
        for message in (
            {"type": "assistant_action", "tool_name": "write", "tool_id": f"b{number}"},
            {"type": "tool_result", "tool_name": "write", "result": "done"},
        )
    ]
    messages = [*unanswered, *answered]
    return {"entries": [{"id": f"e{n}", "message": one} for n, one in enumerate(messages)]}


def lines(listed: JsonObjects) -> bytes:
    return b"\n".join(json.dumps(one).encode() for one in listed)


def chat_messages(count: int) -> JsonObjects:
    return [{"role": "user", "content": f"{number:09}"} for number in range(count)]


def test_the_bytes_that_are_checked_in_a_file_of_lines_grow_with_it_and_no_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked: list[int] = []
    for name in ("check_syntax", "is_json_text"):
        check: Any = getattr(json_text, name)

        def count_bytes(text: bytes | str, check: Any = check) -> Any:
            checked.append(len(text))
            return check(text)

        monkeypatch.setattr(json_text, name, count_bytes)
    for count in (100, 4000):
        data = lines(chat_messages(count))
        del checked[:]
        assert json.loads(json_text.read_json_input(data)) == chat_messages(count)
        assert sum(checked) < 3 * len(data)


@pytest.mark.parametrize(
    ("format", "build"),
    [
        ("rows", rows_of_system),
        ("rows", rows_of_calls),
        ("rows", rows_of_results),
        ("audit", audit_log_of_unanswered_calls),
    ],
)
def test_the_cost_of_reading_grows_with_the_file_and_no_faster(
    format: str, build: Callable[[int], object]
) -> None:
    def steps(count: int) -> int:
        data = json.dumps(build(count)).encode()
        return steps_of(lambda: FORMATS[format].decode(data))

    steps(4)  # the first use fills caches
    assert steps(400) < 5 * steps(100)


def test_the_texts_of_a_turn_are_searched_for_calls_once() -> None:
    message = {"type": "assistant_text", "content": "x"}
    entries = [{"id": f"t#{n}" if n else "t", "message": message} for n in range(50)]
    data = json.dumps({"entries": entries}).encode()
    names = calls_of(lambda: FORMATS["audit"].decode(data))
    assert names.count("tool_calls") < 10


def test_the_cost_of_writing_a_long_turn_grows_with_it_and_no_faster() -> None:
    def steps(count: int) -> int:
        decoded = FORMATS["rows"].decode(json.dumps(rows_of_results(count)).encode())
        return steps_of(lambda: FORMATS["rows"].encode(decoded.header, decoded.entries))

    steps(4)  # the first use fills caches
    assert steps(400) < 5 * steps(100)
