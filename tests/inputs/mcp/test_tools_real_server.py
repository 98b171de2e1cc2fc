"""Tools of real servers: what they return reaches a model, and a model can call them."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from steno import ToolCall
from steno.agent import EndReason, RunResult
from steno.agent.events import CallOutput
from steno.inputs.mcp.tools import McpTool, McpTools, list_mcp_tools
from steno.messages.call import build_call
from steno.messages.content import Image, ImageData, Resource, Text
from steno.messages.outcome import Outcome
from steno.ports import Capability, ToolOutput
from tests.agent.agent_setup import AgentHarness, call, gate_allowing, turn_with_calls
from tests.inputs.mcp.real_servers import LiveConnection, everything_spec, open_connection
from tests.tools.fake_tool_context import FakeToolContext


def keep_as_it_is(data: bytes) -> Image:
    assert data.startswith(b"\x89PNG")
    return Image(source=ImageData(data), mime_type="image/png")


async def all_tools(live: LiveConnection) -> McpTools:
    return await list_mcp_tools([live.server], prepare_image=keep_as_it_is)


async def output_of(live: LiveConnection, name: str, **arguments: object) -> ToolOutput:
    found = await all_tools(live)
    (tool,) = [tool for tool in found.tools if tool.original_name == name]
    made = ToolCall.create(tool.definition.name, arguments)
    assert tool.definition.check(made) == ()
    return await tool.run(made, FakeToolContext())


def test_all_tools_of_a_server_are_taken(everything: LiveConnection) -> None:
    found = everything.run(all_tools(everything))
    assert found.notices == ()
    named: dict[str, McpTool] = {tool.original_name: tool for tool in found.tools}
    assert {"echo", "get-sum", "get-tiny-image", "get-structured-content"} <= named.keys()
    assert named["echo"].definition.name == "mcp__everything__echo"


def test_a_model_calls_a_tool_by_either_name(everything: LiveConnection) -> None:
    found = everything.run(all_tools(everything))
    (tool,) = [tool for tool in found.tools if tool.original_name == "get-sum"]
    told = tool.definition.original_name
    assert told == "mcp__everything__get-sum"
    assert build_call("c", told, "{}").name == tool.definition.name


def test_an_image_comes_as_one(everything: LiveConnection) -> None:
    output = everything.run(output_of(everything, "get-tiny-image"))
    assert [type(block) for block in output.content] == [Text, Image, Text]


def test_links_come_as_resources_without_content(everything: LiveConnection) -> None:
    output = everything.run(output_of(everything, "get-resource-links", count=2))
    links = [block for block in output.content if isinstance(block, Resource)]
    assert [(link.server, link.text, link.data) for link in links] == [
        ("everything", None, None)
    ] * 2


def test_a_resource_comes_with_its_text(everything: LiveConnection) -> None:
    output = everything.run(output_of(everything, "get-resource-reference"))
    (resource,) = [block for block in output.content if isinstance(block, Resource)]
    assert resource.uri == "demo://resource/dynamic/text/1"
    assert (resource.text or "").startswith("Resource 1: This is a plaintext resource")


def test_structured_content_comes_once_to_the_model_and_once_to_the_record(
    everything: LiveConnection,
) -> None:
    arguments = {"location": "Chicago"}
    output = everything.run(output_of(everything, "get-structured-content", **arguments))
    assert len(output.content) == 1
    assert output.details is not None
    assert output.details["structured"].keys() == {"temperature", "conditions", "humidity"}


def test_annotations_are_recorded(everything: LiveConnection) -> None:
    output = everything.run(output_of(everything, "get-annotated-message", messageType="error"))
    audience = {"priority": 1, "audience": ["user", "assistant"]}
    assert output.details == {"beside": [{"annotations": audience, "block": 0}]}


def test_an_error_of_a_tool_is_an_error_with_its_words(time_server: LiveConnection) -> None:
    output = time_server.run(output_of(time_server, "get_current_time", timezone="Nowhere"))
    assert output.outcome is Outcome.ERROR
    assert "Nowhere" in "".join([b.text for b in output.content if isinstance(b, Text)])


@pytest.fixture(scope="module", params=[(), ("trigger-*",)], ids=["rule", "reads"])
def ruled(
    request: pytest.FixtureRequest, shared_folder: Path
) -> Generator[LiveConnection, None, None]:
    """The server with tools that a rule allows or that the user declares read-only."""
    with open_connection(replace(everything_spec(), reads=request.param), shared_folder) as server:
        yield server


def test_an_agent_works_with_them_and_shows_their_progress(ruled: LiveConnection) -> None:
    reads = ruled.server.read_only_tools
    rules = () if reads else ("mcp__everything__*",)

    async def work() -> tuple[RunResult, AgentHarness]:
        found = await all_tools(ruled)
        (tool,) = [t for t in found.tools if t.original_name == "trigger-long-running-operation"]
        assert tool.capability is (Capability.READ if reads else Capability.EXECUTE)
        step = call("c", tool.definition.name, duration=0.2, steps=2)
        tools: Any = found.tools
        desk = AgentHarness([turn_with_calls(step), "Done."], *tools, gate=gate_allowing(*rules))
        return await desk.run(), desk

    result, desk = ruled.run(work())
    desk.check()
    assert result.end_reason is EndReason.DONE
    assert desk.result.outcome is Outcome.OK
    assert "Long running operation completed" in desk.result.text
    assert desk.events_of(CallOutput)[0].text == "1/2\n"
