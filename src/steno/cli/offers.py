"""`steno mcp list`, `tools`, `resources` and `prompts`: which servers there are, and what they offer.

What servers say is somebody else's words: nothing of it reaches a terminal as it is.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from steno.cli.nearest import advice
from steno.cli.paper import Column, Paper, note, print_object
from steno.cli.servers import describe_server
from steno.cli.serving import Inquiry, ask_these, find
from steno.cli.standing import standing
from steno.errors import Missing, ServerFailed
from steno.inputs.mcp.connection import Connection
from steno.inputs.mcp.prompts import SlashPrompt, prompts_of
from steno.inputs.mcp.said import ListedResource
from steno.inputs.mcp.specs import ServerSpec
from steno.inputs.mcp.tools import McpTool, McpTools, tools_of
from steno.json_object import expose, freeze_mapping
from steno.printable import counted, cut, on_one_line

T = TypeVar("T")

_FAILED: Final = 1
_LONGEST_DESCRIPTION: Final = 100
_SERVERS: Final = (
    Column("server", "cyan"),
    Column("kind"),
    Column("state", "bold", may_shrink=True),
    Column("from", "dim", may_shrink=True),
)
_TOOLS: Final = (
    Column("tool", "cyan"),
    Column("server's name"),
    Column("may"),
    Column("description", may_shrink=True),
)
_RESOURCES: Final = (
    Column("server", "cyan"),
    Column("uri"),
    Column("type", "dim"),
    Column("name", may_shrink=True),
)
_PROMPTS: Final = (Column("prompt", "cyan"), Column("description", may_shrink=True))


class Checked(NamedTuple):
    """What came of starting a server: what it speaks, how many tools it has, or why it has none."""

    tools: int | None = None
    protocol: str | None = None
    error: str | None = None


# -- servers ---------------------------------------------------------------------------------


def list_servers(options: argparse.Namespace) -> int:
    """Print the servers that are configured; start them only if that is asked for."""
    found = find(options)
    checked: dict[str, Checked] = {}

    async def check(inquiry: Inquiry) -> int:
        usable = [inquiry.servers.get(name) for name in inquiry.servers.names]
        with inquiry.show_wait("starting MCP servers"):
            outcomes = await asyncio.gather(*map(_check, usable))
        checked.update(zip(inquiry.servers.names, outcomes, strict=True))
        return _FAILED if any(outcome.error for outcome in outcomes) else 0

    status = ask_these(found, options, check) if options.check and found.specs else 0
    if options.json:
        for spec in found.specs:
            told = {"name": spec.name, **describe_server(spec)}
            print_object(msgspec.json.encode(told | _in_json(spec, checked.get(spec.name))))
    elif found.specs:
        rows = [_server_row(spec, checked.get(spec.name)) for spec in found.specs]
        Paper().table(_SERVERS, rows)
        for outcome in checked.values():
            if outcome.error:
                note(on_one_line(outcome.error))
    return status


async def _check(server: Connection) -> Checked:
    try:
        tools = await server.tools()
        return Checked(tools=len(tools), protocol=server.protocol)
    except ServerFailed as exc:
        return Checked(error=str(exc))


def _in_json(spec: ServerSpec, checked: Checked | None) -> dict[str, Any]:
    if checked is None:
        return {"state": standing(spec)}
    return {"state": "fails" if checked.error else "answers", **checked._asdict()}


def _server_row(spec: ServerSpec, checked: Checked | None) -> list[str]:
    state = standing(spec)
    if checked is not None:
        tools = counted(checked.tools or 0, "tool", "tools")
        version = f" ({checked.protocol})" if checked.protocol else ""
        state = "fails, see below" if checked.error else f"answers{version}, with {tools}"
    kind = describe_server(spec)["kind"]
    return [spec.name, kind, on_one_line(state), on_one_line(spec.origin)]


# -- tools -----------------------------------------------------------------------------------


async def list_tools(inquiry: Inquiry) -> int:
    """Print the tools of servers, or the schema of one."""
    options = inquiry.options
    offered = await tools_at(inquiry)
    if offered.notes and not offered.tools:
        return _FAILED
    if options.schema is not None:
        tool = find_tool(offered, options.schema)
        schema = expose(freeze_mapping(tool.definition.parameters))
        print_object(msgspec.json.encode(schema))
        return 0
    if options.json:
        for tool in offered.tools:
            print_object(msgspec.json.encode(_described_tool(tool)))
    elif offered.tools:
        Paper().table(_TOOLS, [tool_row(tool) for tool in offered.tools])
    return 0


async def tools_at(inquiry: Inquiry) -> McpTools:
    """Return the tools of the servers that are asked, and tell what was left out of them."""
    asked = inquiry.connections
    with inquiry.show_wait(_asking(asked)):
        offered = await tools_of(asked)
    for text in offered.notes:
        note(on_one_line(text))
    return offered


def find_tool(offered: McpTools, name: str) -> McpTool:
    """Return a tool by its name here or at its server. Raises Missing."""
    for tool in offered.tools:
        if name in (tool.definition.name, tool.original_name):
            return tool
    names = [tool.original_name for tool in offered.tools]
    hint = advice(name, names) if names else "there are none"
    raise Missing(f"tool {on_one_line(name)}: the server has none of this name; {hint}")


def _described_tool(tool: McpTool) -> dict[str, Any]:
    definition = tool.definition
    return {
        "name": definition.name,
        "server": tool.server,
        "original_name": tool.original_name,
        "capability": tool.capability,
        "description": definition.description,
    }


def tool_row(tool: McpTool) -> list[str]:
    """Return what a table shows of a tool."""
    definition = tool.definition
    said = definition.description.removeprefix(f"[MCP server {tool.server}] ")
    first = said.partition("\n")[0]
    return [
        definition.name,
        on_one_line(tool.original_name),
        str(tool.capability),
        cut(on_one_line(first), _LONGEST_DESCRIPTION),
    ]


# -- resources and prompts -------------------------------------------------------------------


async def list_resources(inquiry: Inquiry) -> int:
    """Print the resources of servers."""
    answers, status = await _from_each(inquiry, lambda server: server.resources())
    listed = [(name, one) for name, resources in answers for one in resources]
    if inquiry.options.json:
        for name, resource in listed:
            print_object(msgspec.json.encode({"server": name, **resource._asdict()}))
    elif listed:
        Paper().table(_RESOURCES, [resource_row(name, one) for name, one in listed])
    elif status == 0 and answers:
        note("no resources are offered")
    return status


def resource_row(server: str, resource: ListedResource) -> list[str]:
    """Return what a table shows of a resource."""
    template = " (fill in what is in braces)" if resource.is_template else ""
    return [
        server,
        on_one_line(resource.uri),
        on_one_line(resource.mime_type or "-"),
        on_one_line(resource.name or resource.description) + template,
    ]


async def list_prompts(inquiry: Inquiry) -> int:
    """Print the prompts of servers, as they are called in a conversation."""
    asked = inquiry.connections
    with inquiry.show_wait(_asking(asked)):
        offered = await prompts_of(asked)
    for text in offered.notes:
        note(on_one_line(text))
    if inquiry.options.json:
        for prompt in offered.prompts:
            print_object(msgspec.json.encode(_described_prompt(prompt)))
    elif offered.prompts:
        rows = [[usage_of(prompt), on_one_line(prompt.description)] for prompt in offered.prompts]
        Paper().table(_PROMPTS, rows)
    elif asked and not offered.notes:
        note("no prompts are offered")
    return _FAILED if offered.notes and not offered.prompts else 0


def usage_of(prompt: SlashPrompt) -> str:
    """Return how a prompt is called, and with what."""
    words = [f"{one.name}=…" if one.is_required else f"[{one.name}=…]" for one in prompt.arguments]
    return on_one_line(" ".join((prompt.command, *words)))


def _described_prompt(prompt: SlashPrompt) -> dict[str, Any]:
    return {
        "command": prompt.command,
        "server": prompt.server,
        "name": prompt.name,
        "description": prompt.description,
        "arguments": [one._asdict() for one in prompt.arguments],
    }


async def _from_each(
    inquiry: Inquiry, ask: Callable[[Connection], Awaitable[T]]
) -> tuple[list[tuple[str, T]], int]:
    """Ask all at once; one that fails is told of, and keeps nobody from the others' answers."""

    async def answer(server: Connection) -> T | ServerFailed:
        try:
            return await ask(server)
        except ServerFailed as exc:
            return exc

    asked = inquiry.connections
    with inquiry.show_wait(_asking(asked)):
        answers = await asyncio.gather(*map(answer, asked))
    told: list[tuple[str, T]] = []
    status = 0
    for server, given in zip(asked, answers, strict=True):
        if isinstance(given, ServerFailed):
            note(on_one_line(str(given)))
            status = _FAILED
        else:
            told.append((server.name, given))
    return told, status


def _asking(servers: Sequence[Connection]) -> str:
    return f"asking {', '.join([server.name for server in servers])}"
