"""Settings and tools that several protocols write alike: the same rules for each of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from steno.wire import Wire, anthropic_messages, chat, ollama_chat, openai_chat, openai_responses

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
def test_tools_that_are_none_stay_where_they_were(wire: Wire) -> None:
    odd: list[Any] = [7, None, {"type": "function"}, {"type": "function", "function": None}]
    recorded = HI[wire] | {"model": "m", "tools": odd}
    assert again(wire, recorded) == recorded


@pytest.mark.parametrize("wire", [openai_chat, openai_responses], ids=lambda wire: wire.NAME)
@pytest.mark.parametrize("name", ["read", "fs.read", "auto"])
def test_the_choice_of_a_tool_is_written_by_the_name_that_it_has_there(
    wire: Wire, name: str
) -> None:
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
