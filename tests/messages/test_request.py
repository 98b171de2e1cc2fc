"""Requests: the rules that hold for every provider."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest

from steno import (
    ChatMessage,
    InvalidRequest,
    InvalidValue,
    Opaque,
    Request,
    Text,
    ToolCall,
    ToolDefinition,
)
from steno.records.entry import Mode, ModeChange
from tests.code_probes import expect_error
from tests.value_samples import SECRET

SYSTEM = ChatMessage.system("Be brief.")
USER = ChatMessage.user("Hello")
TOOL = ToolDefinition(name="read", description="Reads.", parameters={"type": "object"})


def ask(**changes: Any) -> Request:
    return Request(**({"messages": (SYSTEM, USER)} | changes))


@pytest.mark.requirement("S4-07")
def test_a_request_leaves_unset_settings_to_the_provider() -> None:
    request = ask()
    assert request.messages == (SYSTEM, USER)
    assert (request.model, request.tools) == ("", ())
    assert (request.max_tokens, request.temperature) == (None, None)


@pytest.mark.requirement("S4-07", "NFR-004a-27")
@pytest.mark.parametrize("temperature", [0, 0.0, -0.0, 0.7, 1, 2, 2.0])
def test_a_temperature_from_0_to_2_is_taken(temperature: float) -> None:
    assert ask(temperature=temperature).temperature == temperature


@pytest.mark.requirement("S4-07", "NFR-004a-27")
@pytest.mark.parametrize(
    "temperature",
    [-0.001, 2.001, -1, 3, 1e9, math.nan, math.inf, -math.inf, True, "1", b"1", [1], 1j],
    ids=repr,
)
def test_another_temperature_is_refused(temperature: Any) -> None:
    error = expect_error(lambda: ask(temperature=temperature))
    assert isinstance(error, InvalidRequest)
    code = "out_of_range" if type(temperature) in (int, float) else "wrong_type"
    assert (error.code, error.field) == (code, "temperature")


@pytest.mark.requirement("S4-07", "NFR-004a-27")
@pytest.mark.parametrize("limit", [1, 2, 10**12])
def test_a_token_limit_of_1_and_more_is_taken(limit: int) -> None:
    assert ask(max_tokens=limit).max_tokens == limit


@pytest.mark.requirement("S4-07", "NFR-004a-27")
@pytest.mark.parametrize("limit", [0, -1, 1.0, 1.5, True, "1", [1], math.inf], ids=repr)
def test_another_token_limit_is_refused(limit: Any) -> None:
    error = expect_error(lambda: ask(max_tokens=limit))
    assert isinstance(error, InvalidRequest)
    code = "out_of_range" if type(limit) is int else "wrong_type"
    assert (error.code, error.field) == (code, "max_tokens")


@pytest.mark.requirement("S4-07", "NFR-004a-24")
@pytest.mark.parametrize("messages", [(), None, [], [USER], USER, "Hello", 7], ids=repr)
def test_a_request_has_a_tuple_of_messages(messages: Any) -> None:
    assert isinstance(expect_error(lambda: ask(messages=messages)), InvalidRequest)


@pytest.mark.requirement("S4-07", "S2-06")
@pytest.mark.parametrize(
    "wrong",
    [
        *(None, SECRET, Text(SECRET), ToolCall(id="a", name="b"), (USER,)),
        ModeChange(old=Mode.PLAN, new=Mode.ACT),
        Opaque(kind="x", raw=f'{{"a": "{SECRET}"}}', origin="steno"),
    ],
    ids=lambda wrong: type(wrong).__name__,
)
def test_nothing_but_messages_is_sent(wrong: Any) -> None:
    error = expect_error(lambda: ask(messages=(SYSTEM, wrong)))
    assert (error.place, error.code, error.field) == ("request", "wrong_type", "messages[1]")


@pytest.mark.requirement("S4-07", "NFR-004a-24")
@pytest.mark.parametrize("tools", [None, [], [TOOL], TOOL, "read", (None,), ("read",)], ids=repr)
def test_the_tools_of_a_request_are_definitions(tools: Any) -> None:
    error = expect_error(lambda: ask(tools=tools))
    assert isinstance(error, InvalidRequest)
    field = "tools[0]" if isinstance(tools, tuple) else "tools"
    assert (error.code, error.field) == ("wrong_type", field)


@pytest.mark.requirement("S4-07")
def test_two_tools_of_one_name_are_refused() -> None:
    other = ToolDefinition(name="read", description=SECRET, parameters={"type": "object"})
    error = expect_error(lambda: ask(tools=(TOOL, other)))
    assert (error.code, error.field) == ("duplicate_tool_name", "tools[1]")
    third = ToolDefinition(name="write", description=SECRET, parameters={"type": "object"})
    error = expect_error(lambda: ask(tools=(TOOL, third, other)))
    assert (error.code, error.field) == ("duplicate_tool_name", "tools[2]")
    assert ask(tools=(TOOL,)).tools == (TOOL,)


@pytest.mark.requirement("S4-07", "NFR-004a-24")
@pytest.mark.parametrize("model", [None, 7, b"m", ["m"], "m\ud83d"], ids=repr)
def test_a_model_is_named_by_text(model: Any) -> None:
    assert isinstance(expect_error(lambda: ask(model=model)), InvalidRequest)


@pytest.mark.requirement("S4-07", "NFR-004a-25")
def test_an_invalid_request_is_a_value_error() -> None:
    assert issubclass(InvalidRequest, InvalidValue)
    assert issubclass(InvalidRequest, ValueError)


def test_the_system_prompt_can_be_lifted_out() -> None:
    assert ask().system_prompt == "Be brief."
    assert ask(messages=(USER,)).system_prompt is None
    several = (SYSTEM, USER, ChatMessage.system("Be kind."))
    assert ask(messages=several).system_prompt == "Be brief.\n\nBe kind."


def test_a_request_is_a_value() -> None:
    assert ask(tools=(TOOL,)) == ask(tools=(TOOL,))
    assert hash(ask(tools=(TOOL,))) == hash(ask(tools=(TOOL,)))
    assert ask() != ask(temperature=0.5)
    with pytest.raises(AttributeError):
        cast("Any", ask()).model = "other"
