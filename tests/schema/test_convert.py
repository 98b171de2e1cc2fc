"""Parsed arguments as types of the user's: nothing shared, problems with pointers."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from threading import Thread
from typing import Any

import msgspec
import pydantic
import pytest

from steno import (
    AssistantMessage,
    ChatMessage,
    InvalidArguments,
    InvalidMessage,
    InvalidToolCall,
    ToolCall,
    ToolDefinition,
)
from steno.codec import decode_message, encode_message
from steno.values import PRECHECKED


class Loose(msgspec.Struct):
    extra: Any


class Tight(msgspec.Struct):
    lines: list[list[int]]


@dataclass
class LooseData:
    extra: dict[str, Any]


class LooseModel(pydantic.BaseModel):
    extra: Any


ARGUMENTS = {"extra": {"a": [1, {"b": 2}]}, "lines": [[1, 2], [3]]}


@pytest.mark.requirement("FR-004a-51", "FR-004a-52", "NFR-004a-12")
@pytest.mark.parametrize("type", [Loose, LooseData, LooseModel])
def test_a_converted_value_can_be_changed_without_changing_the_call(type: Any) -> None:
    call = ToolCall.create("edit", ARGUMENTS)
    converted = call.arguments_as(type)
    converted.extra["a"].append("more")
    converted.extra["a"][1]["b"] = "changed"
    assert call.parsed == ARGUMENTS
    assert call.arguments_as(type).extra == ARGUMENTS["extra"]


def test_typed_containers_are_new_ones() -> None:
    call = ToolCall.create("edit", ARGUMENTS)
    call.arguments_as(Tight).lines[0].append(9)
    call.get("lines", list[list[int]], [])[1].append(9)
    call.get("extra", dict, {})["a"].append(9)
    assert call.parsed == ARGUMENTS


def test_one_argument_of_any_type_is_read_only() -> None:
    call = ToolCall.create("edit", ARGUMENTS)
    assert call.get("lines") == ((1, 2), (3,))
    assert call.get("extra")["a"][0] == 1


@pytest.mark.requirement("FR-004a-50")
def test_a_null_is_an_argument_and_not_a_missing_one() -> None:
    call = ToolCall(id="c", name="edit", arguments='{"path": null}')
    assert call.get("path", type(None), "default") is None
    assert call.get("other", str, "default") == "default"
    with pytest.raises(InvalidArguments):
        call.get("path", str)


def test_the_pointer_of_a_problem_begins_at_the_arguments() -> None:
    with pytest.raises(InvalidArguments) as caught:
        ToolCall.create("edit", {"a/b": {"c": [1, "x"]}}).get("a/b", dict[str, list[int]])
    assert caught.value.problems[0].pointer == "/a~1b"
    with pytest.raises(InvalidArguments) as caught:
        ToolCall.create("edit", {"lines": [[1], [2, "x"]]}).arguments_as(Tight)
    assert caught.value.problems[0].pointer == "/lines/1/1"


@pytest.mark.requirement("FR-004a-55")
def test_equal_calls_are_written_alike() -> None:
    texts = ["{}", ToolCall.create("edit").arguments]
    calls = [
        ToolCall(id="c", name="edit"),
        *[ToolCall(id="c", name="edit", arguments=t) for t in texts],
    ]
    written = {encode_message(ChatMessage.assistant(None, [call])) for call in calls}
    assert len(written) == 1
    (one,) = written
    assert encode_message(decode_message(one)) == one


# -- calls that were loaded ------------------------------------------------------------------


def loaded(arguments: str) -> object:
    stored = encode_message(ChatMessage.assistant(None, [ToolCall(id="c", name="edit")]))
    written = b'"name":"edit","arguments":' + msgspec.json.encode(arguments)
    message = decode_message(stored.replace(b'"name":"edit"', written))
    assert isinstance(message, AssistantMessage)
    return message.content[0]


@pytest.mark.requirement("NFR-004a-12")
def test_a_loaded_call_is_parsed_when_it_is_used() -> None:
    call = loaded('{"path": "a.py"}')
    assert isinstance(call, ToolCall)
    assert call == ToolCall(id="c", name="edit", arguments='{"path": "a.py"}')
    assert call.get("path", str) == "a.py"
    assert copy.copy(call).parsed == {"path": "a.py"}


@pytest.mark.parametrize("arguments", ["", "[1]", '{"a":', '{"a":NaN}', '{"a":"\\ud83d"}'])
@pytest.mark.requirement("NFR-004a-18")
def test_a_call_whose_file_was_damaged_is_kept_and_not_called(arguments: str) -> None:
    call = loaded(arguments)
    assert isinstance(call, InvalidToolCall)
    assert (call.id, call.name, call.arguments) == ("c", "edit", arguments)
    kind = "unsupported JSON" if "ud83d" in arguments else "not a JSON object"
    assert call.reason.startswith(f"tool call: arguments are {kind}: ")


@pytest.mark.parametrize("arguments", ['{"a":1e999}', '{"a":' * 300 + "1" + "}" * 300])
@pytest.mark.requirement("NFR-004a-14", "NFR-004a-18")
def test_json_that_python_has_no_value_for_does_not_fit(arguments: str) -> None:
    for call in (loaded(arguments), ToolCall(id="c", name="edit", arguments=arguments)):
        assert isinstance(call, ToolCall)
        for use in (lambda c: c.parsed, lambda c: c.get("a"), lambda c: c.arguments_as(Loose)):
            with pytest.raises(InvalidArguments) as caught:
                use(call)  # type: ignore[no-untyped-call]
            (problem,) = caught.value.problems
            assert problem.pointer == ""
            tool = ToolDefinition(name="edit", description="Edit.", parameters={"type": "object"})
            assert tool.check(call) == (problem,)


def test_values_made_by_another_thread_during_a_load_are_checked() -> None:
    caught: list[Exception] = []

    def make() -> None:
        try:
            ChatMessage.user(5)  # type: ignore[arg-type]
        except InvalidMessage as exc:
            caught.append(exc)

    token = PRECHECKED.set(True)
    try:
        thread = Thread(target=make)
        thread.start()
        thread.join(60)
    finally:
        PRECHECKED.reset(token)
    assert len(caught) == 1
