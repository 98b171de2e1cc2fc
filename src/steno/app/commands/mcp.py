"""`/mcp`: the configured servers, their status, and what they offer."""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from steno.app.mcp_servers import (
    MCP_FILE_NAME,
    NOT_TRUSTED,
    describe_server,
    prompt_usage,
    resource_row,
    server_status,
    tool_row,
)
from steno.app.session_state import CommandContext
from steno.app.settings_loader import describe_how_to_trust
from steno.errors import Missing, ServerFailed
from steno.inputs.mcp.connection import McpConnection, McpServers
from steno.inputs.mcp.prompts import list_mcp_prompts
from steno.inputs.mcp.server_spec import McpServerSpec
from steno.inputs.mcp.tools import list_mcp_tools
from steno.render.markdown_escape import escape_markdown, inline_code, markdown_table
from steno.render.quantities import format_count
from steno.render.session_events import CommandReply
from steno.render.table_output import Column
from steno.render.terminal_text import terminal_line
from steno.suggest import suggest_name

_LIST_TIMEOUT_S: Final = 5.0
"""The time limit of a list; a slower server keeps running."""
_MCP_TITLE: Final = "MCP servers"
_CONFIG_EXAMPLE: Final = '{"mcpServers": {"time": {"command": "mcp-server-time"}}}'
_TOOL_COLUMNS: Final = (Column("tool"), Column("may"), Column("description"))
_RESOURCE_COLUMNS: Final = (Column("resource"), Column("type"), Column("name"))
_PROMPT_COLUMNS: Final = (Column("prompt"), Column("description"))


async def run_mcp(context: CommandContext, argument: str) -> CommandReply:
    """List all servers, or what one of them offers. Raises Missing, ServerFailed."""
    servers, name = context.environment.input_setup.servers, argument.strip()
    if name:
        spec = servers.specs.get(name)
        if spec is not None and _is_untrusted(spec):
            raise ServerFailed(
                f"{NOT_TRUSTED}; {_trust_hint(context)}", code="not_trusted", place=f"mcp {name}"
            )
        return CommandReply(await _server_text(servers, name), f"MCP server {name}")
    lines = await asyncio.gather(*[_server_line(servers, spec) for spec in servers.specs.values()])
    notices = context.environment.input_setup.notices
    problems = [f"- {escape_markdown(notice.text)}" for notice in notices]
    parts = ["\n".join(lines) if lines else "No MCP server is set up."]
    if problems:
        parts.append("\n".join(["**To know**", "", *problems]))
    if lines:
        parts.append("`/mcp NAME` lists what a server offers.")
    return CommandReply(
        "\n\n".join([*parts, _add_server_hint(context), *_trust_notice(context)]), _MCP_TITLE
    )


class _ListCounts(NamedTuple):
    tools: int
    resources: int
    prompts: int

    def __str__(self) -> str:
        parts = zip(self, ("tool", "resource", "prompt"), strict=True)
        return ", ".join([format_count(number, noun, f"{noun}s") for number, noun in parts])


async def _server_line(servers: McpServers, spec: McpServerSpec) -> str:
    facts: dict[str, Any] = describe_server(spec)
    state = server_status(spec).text
    if spec.is_usable:
        server = servers.get(spec.name)
        try:
            async with asyncio.timeout(_LIST_TIMEOUT_S):
                counts = await _count_listed(server)
            version = f" ({server.protocol})" if server.protocol else ""
            state = f"answers{version}: {counts}"
        except TimeoutError:
            state = f"has not answered within {_LIST_TIMEOUT_S:g} s"
        except ServerFailed as exc:
            state = f"fails: {exc}"
    origin = " ".join(
        filter(None, [facts["kind"], f"from {inline_code(spec.origin)}" if spec.origin else ""])
    )
    return f"- {inline_code(spec.name)} {escape_markdown(state)}{f' · {origin}' if origin else ''}"


async def _count_listed(server: McpConnection) -> _ListCounts:
    listed = await asyncio.gather(server.tools(), server.resources(), server.prompts())
    return _ListCounts(*map(len, listed))


def _add_server_hint(context: CommandContext) -> str:
    user_file = context.loaded_settings.user_file
    toml_hint = (
        ""
        if user_file is None
        else f", or as `[mcp_servers.time]` to {inline_code(str(user_file))}"
    )
    return (
        f"To add one, write it to {inline_code(str(context.loaded_settings.project / MCP_FILE_NAME))}{toml_hint}, "
        f"and start again:\n\n```json\n{_CONFIG_EXAMPLE}\n```"
    )


def _trust_notice(context: CommandContext) -> list[str]:
    """Return how to trust the project's own file, unless a notice about its servers does."""
    specs = context.environment.input_setup.servers.specs.values()
    has_note = any(_is_untrusted(spec) for spec in specs)
    if context.loaded_settings.trusts_project or has_note:
        return []
    file = inline_code(str(context.loaded_settings.project / MCP_FILE_NAME))
    return [
        f"This project is {NOT_TRUSTED}, so nothing in {file} is started; {escape_markdown(_trust_hint(context))}."
    ]


def _is_untrusted(spec: McpServerSpec) -> bool:
    return not spec.is_trusted and not spec.disabled


def _trust_hint(context: CommandContext) -> str:
    return describe_how_to_trust(context.loaded_settings.project, context.loaded_settings.user_file)


# -- one server -------------------------------------------------------------------------------


async def _server_text(servers: McpServers, name: str) -> str:
    if name not in servers.specs:
        hint = suggest_name(name, servers.specs) if servers.specs else "none is set up"
        raise Missing(
            f"no server has the name {terminal_line(name)}; {hint}",
            code="server_not_found",
            place="mcp",
        )
    server = servers.get(name)
    try:
        async with asyncio.timeout(_LIST_TIMEOUT_S):
            tools, resources, prompts = await asyncio.gather(
                list_mcp_tools([server]), server.resources(), list_mcp_prompts([server])
            )
    except TimeoutError:
        raise ServerFailed(
            f"no answer within {_LIST_TIMEOUT_S:g} s; try again",
            code="server_timeout",
            place=f"mcp {name}",
        ) from None
    parts = [escape_markdown(notice.text) for notice in (*tools.notices, *prompts.notices)]
    if tools.tools:
        rows = [tool_row(tool) for tool in tools.tools]
        cells = [
            [inline_code(tool), capability, escape_markdown(description)]
            for tool, _, capability, description in rows
        ]
        parts.append(markdown_table(_TOOL_COLUMNS, cells))
    if resources:
        rows = [resource_row(name, resource) for resource in resources]
        cells = [
            [inline_code(f"@{name}:{uri}"), escape_markdown(kind), escape_markdown(title)]
            for _, uri, kind, title in rows
        ]
        parts.append(markdown_table(_RESOURCE_COLUMNS, cells))
    if prompts.prompts:
        cells = [
            [inline_code(prompt_usage(prompt)), escape_markdown(prompt.description)]
            for prompt in prompts.prompts
        ]
        parts.append(markdown_table(_PROMPT_COLUMNS, cells))
    return "\n\n".join(parts) or "It offers nothing."
