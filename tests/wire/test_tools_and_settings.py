"""Settings and tools that several protocols write in the same way follow the same rules."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from steno.wire import (
    ChangeCode,
    Wire,
    anthropic_messages,
    chat,
    gemini,
    ollama_chat,
    openai_chat,
    openai_responses,
    translate,
)

PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}}
FUNCTION = {"description": "Reads a file.", "parameters": PARAMETERS}
HI: dict[Wire, dict[str, Any]] = {
    anthropic_messages: {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
    chat: {"messages": [{"role": "user", "content": "Hi"}]},
    ollama_chat: {"messages": [{"role": "user", "content": "Hi"}]},
    openai_chat: {"messages": [{"role": "user", "content": "Hi"}]},
    openai_responses: {"input": [{"role": "user", "content": "Hi"}]},
}
every_wire = pytest.mark.parametrize("wire", HI, ids=lambda wire: wire.NAME)


def tool(wire: Wire, name: str) -> dict[str, Any]:
    if wire is openai_responses:
        return {"type": "function", "name": name, "strict": False} | FUNCTION
    return {"type": "function", "function": {"name": name} | FUNCTION}


def choice(wire: Wire, name: str) -> dict[str, Any]:
    if wire is openai_responses:
        return {"type": "function", "name": name}
    return {"type": "function", "function": {"name": name}}


def again(wire: Wire, recorded: dict[str, Any]) -> Any:
    return wire.encode_request(wire.decode_request(msgspec.json.encode(recorded))).json


@every_wire
@pytest.mark.parametrize(
    "settings", [{"model": ""}, {"temperature": 7.5}, {"top_p": -1}, {"temperature": "hot"}]
)
def test_a_setting_beyond_our_bounds_is_written_as_it_was(
    wire: Wire, settings: dict[str, Any]
) -> None:
    recorded = HI[wire] | settings
    assert again(wire, recorded) == recorded


@every_wire
def test_invalid_tools_keep_their_positions(wire: Wire) -> None:
    odd: list[Any] = [7, None, {"type": "function"}, {"type": "function", "function": None}]
    recorded = HI[wire] | {"model": "m", "tools": odd}
    assert again(wire, recorded) == recorded


@pytest.mark.parametrize("wire", [openai_chat, openai_responses], ids=lambda wire: wire.NAME)
@pytest.mark.parametrize("name", ["read", "fs.read", "auto"])
def test_the_tool_choice_is_written_with_the_sent_name(wire: Wire, name: str) -> None:
    tools = {"model": "m", "tools": [tool(wire, name)]}
    for chosen in (choice(wire, name), "auto", "required", choice(wire, "another")):
        recorded = HI[wire] | tools | {"tool_choice": chosen}
        assert again(wire, recorded) == recorded


@pytest.mark.parametrize("wire", [openai_chat, openai_responses], ids=lambda wire: wire.NAME)
def test_the_choice_of_a_tool_is_understood(wire: Wire) -> None:
    tools = {"tools": [tool(wire, "fs.read")], "tool_choice": choice(wire, "fs.read")}
    request = wire.decode_request(msgspec.json.encode(HI[wire] | tools))
    assert request.tool_choice == request.tools[0].name
    assert request.extras is None


@pytest.mark.parametrize(
    "wire",
    [anthropic_messages, ollama_chat, openai_chat, openai_responses],
    ids=lambda wire: wire.NAME,
)
@pytest.mark.parametrize(
    "members",
    [
        {"strict": True},
        {"description": " "},
        {"description": ""},
        {"parameters": {"properties": {"path": {}}}},
    ],
    ids=["strict and open", "blank", "empty", "without a type"],
)
def test_a_tool_with_an_unusual_definition_is_sent_to_other_wires(
    wire: Wire, members: dict[str, Any]
) -> None:
    function = {"name": "read"} | FUNCTION | members
    tool: dict[str, Any] = {"type": "function", "function": function}
    if wire is openai_responses:
        tool = {"type": "function"} | function
    elif wire is anthropic_messages:
        tool = function | {"input_schema": PARAMETERS}  # one without a type is refused
        del tool["parameters"]
    recorded = HI[wire] | {"model": "m", "tools": [tool]}
    assert again(wire, recorded)["tools"] == [tool]
    abroad = translate(msgspec.json.encode(recorded), source=wire, target=gemini)
    (declared,) = abroad.json["tools"][0]["functionDeclarations"]
    assert (declared["name"], declared["parametersJsonSchema"]["type"]) == ("read", "object")


# -- Google's declarations -----------------------------------------------------------------------

ASKED = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


@pytest.mark.parametrize("types", [("OBJECT", "STRING"), ("object", "string")])
def test_counts_that_google_has_as_text_are_numbers_to_others(types: tuple[str, str]) -> None:
    whole, part = types
    schema = {"type": whole, "properties": {"path": {"type": part, "maxLength": "9"}}}
    declared = {"name": "read", "description": "Reads.", "parameters": schema}
    recorded = ASKED | {"tools": [{"functionDeclarations": [declared]}]}
    assert again(gemini, recorded) == recorded
    abroad = translate(msgspec.json.encode(recorded), source=gemini, target=openai_chat)
    (sent,) = abroad.json["tools"]
    assert sent["function"]["parameters"]["properties"] == {
        "path": {"type": "string", "maxLength": 9}
    }
    assert abroad.losses == ()


@pytest.mark.parametrize(
    ("others", "lost"),
    [([], []), ([{"googleSearch": {}}], [ChangeCode.TOOL])],
    ids=["no", "search"],
)
def test_the_layout_of_google_s_tools_is_not_a_loss(others: Any, lost: Any) -> None:
    first, second = ({"name": name, "description": "Does it."} for name in ("read", "write"))
    groups = [{"function_declarations": [first]}, {"functionDeclarations": [second]}]
    recorded = ASKED | {"tools": groups + others}
    assert again(gemini, recorded) == recorded
    abroad = translate(msgspec.json.encode(recorded), source=gemini, target=openai_chat)
    assert [tool["function"]["name"] for tool in abroad.json["tools"]] == ["read", "write"]
    assert [loss.code for loss in abroad.losses] == lost
