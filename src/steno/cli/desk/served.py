"""`/mcp`: the servers that are set up, whether they answer, and what they offer."""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from steno.cli.configuration import how_to_trust
from steno.cli.desk.markdown_words import code, escaped, table
from steno.cli.desk.scene import Scene
from steno.cli.nearest import advice
from steno.cli.offers import resource_row, tool_row, usage_of
from steno.cli.paper import Column
from steno.cli.servers import FILE_NAME, NOT_TRUSTED, describe_server
from steno.cli.standing import standing
from steno.errors import Missing, ServerFailed
from steno.inputs.mcp.connection import Connection
from steno.inputs.mcp.prompts import prompts_of
from steno.inputs.mcp.servers import Servers
from steno.inputs.mcp.specs import ServerSpec
from steno.inputs.mcp.tools import tools_of
from steno.printable import counted, on_one_line
from steno.tui.desk import Reply

_PATIENCE_S: Final = 5.0
"""How long a person waits for a list; a server that is slower goes on all the same."""
_TITLE: Final = "MCP servers"
_EXAMPLE: Final = '{"mcpServers": {"time": {"command": "mcp-server-time"}}}'
_TOOLS: Final = (Column("tool"), Column("may"), Column("description"))
_RESOURCES: Final = (Column("resource"), Column("type"), Column("name"))
_PROMPTS: Final = (Column("prompt"), Column("description"))


async def mcp(scene: Scene, argument: str) -> Reply:
    """Tell of all servers, or what one of them offers. Raises Missing, ServerFailed."""
    servers, name = scene.environment.input_setup.servers, argument.strip()
    if name:
        spec = servers.specs.get(name)
        if spec is not None and spec.problem == NOT_TRUSTED and not spec.disabled:
            raise ServerFailed(f"mcp {name}: {NOT_TRUSTED}; {_how_to_trust(scene)}")
        return Reply(await _offers(servers, name), f"MCP server {name}")
    told = await asyncio.gather(*[_told(servers, spec) for spec in servers.specs.values()])
    problems = [f"- {escaped(note)}" for note in scene.environment.input_setup.notes]
    parts = ["\n".join(told) if told else "No MCP server is set up."]
    if problems:
        parts.append("\n".join(["**To know**", "", *problems]))
    if told:
        parts.append("`/mcp NAME` lists what a server offers.")
    return Reply("\n\n".join([*parts, _how_to_add(scene), *_not_trusted(scene)]), _TITLE)


class _Counts(NamedTuple):
    tools: int
    resources: int
    prompts: int

    def __str__(self) -> str:
        parts = zip(self, ("tool", "resource", "prompt"), strict=True)
        return ", ".join([counted(number, what, f"{what}s") for number, what in parts])


async def _told(servers: Servers, spec: ServerSpec) -> str:
    kind: dict[str, Any] = describe_server(spec)
    state = standing(spec)
    if spec.is_usable:
        server = servers.get(spec.name)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                counts = await _counts(server)
            version = f" ({server.protocol})" if server.protocol else ""
            state = f"answers{version}: {counts}"
        except TimeoutError:
            state = f"has not answered within {_PATIENCE_S:g} s"
        except ServerFailed as exc:
            state = f"fails: {exc}"
    where = " ".join(
        filter(None, [kind["kind"], f"from {code(spec.origin)}" if spec.origin else ""])
    )
    return f"- {code(spec.name)} {escaped(state)}{f' · {where}' if where else ''}"


async def _counts(server: Connection) -> _Counts:
    listed = await asyncio.gather(server.tools(), server.resources(), server.prompts())
    return _Counts(*map(len, listed))


def _how_to_add(scene: Scene) -> str:
    own = scene.loaded_settings.user_file
    table_of_own = "" if own is None else f", or as `[mcp_servers.time]` to {code(str(own))}"
    return (
        f"To add one, write it to {code(str(scene.loaded_settings.project / FILE_NAME))}{table_of_own}, "
        f"and start again:\n\n```json\n{_EXAMPLE}\n```"
    )


def _not_trusted(scene: Scene) -> list[str]:
    """Say that the project's own file does not count and how it would, unless a note does."""
    way_out = _how_to_trust(scene)
    is_told = any(way_out in note for note in scene.environment.input_setup.notes)
    if scene.loaded_settings.trusts_project or is_told:
        return []
    file = code(str(scene.loaded_settings.project / FILE_NAME))
    return [f"This project is {NOT_TRUSTED}, so nothing in {file} is started; {escaped(way_out)}."]


def _how_to_trust(scene: Scene) -> str:
    return how_to_trust(scene.loaded_settings.project, scene.loaded_settings.user_file)


# -- what one of them offers -----------------------------------------------------------------


async def _offers(servers: Servers, name: str) -> str:
    if name not in servers.specs:
        hint = advice(name, servers.specs) if servers.specs else "none is set up"
        raise Missing(f"mcp: no server has the name {on_one_line(name)}; {hint}")
    server = servers.get(name)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            tools, resources, prompts = await asyncio.gather(
                tools_of([server]), server.resources(), prompts_of([server])
            )
    except TimeoutError:
        raise ServerFailed(f"mcp {name}: no answer within {_PATIENCE_S:g} s; try again") from None
    parts = [escaped(note) for note in (*tools.notes, *prompts.notes)]
    if tools.tools:
        rows = [tool_row(tool) for tool in tools.tools]
        cells = [[code(tool), may, escaped(about)] for tool, _, may, about in rows]
        parts.append(table(_TOOLS, cells))
    if resources:
        rows = [resource_row(name, resource) for resource in resources]
        cells = [
            [code(f"@{name}:{uri}"), escaped(kind), escaped(title)] for _, uri, kind, title in rows
        ]
        parts.append(table(_RESOURCES, cells))
    if prompts.prompts:
        cells = [[code(usage_of(one)), escaped(one.description)] for one in prompts.prompts]
        parts.append(table(_PROMPTS, cells))
    return "\n\n".join(parts) or "It offers nothing."
