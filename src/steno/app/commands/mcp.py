"""`/mcp`, and the listings of `steno mcp`: servers, their status, tools, resources and prompts."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from steno.app.commands.context import CommandContext, CommandDefinition
from steno.app.commands.report import FormattedText, Paragraph, Report, ReportPart, Table, code
from steno.app.mcp import (
    MCP_FILE_NAME,
    describe_server,
    prompt_arguments,
    server_status,
)
from steno.app.settings import LoadedSettings
from steno.app.trust import TRUST_CHANGED, TRUST_COMMAND
from steno.errors import Missing, ServerFailed
from steno.inputs.mcp.connection import McpConnection, McpServers
from steno.inputs.mcp.prompts import McpPrompts, list_mcp_prompts
from steno.inputs.mcp.protocol import ListedResource
from steno.inputs.mcp.server_spec import McpServerSpec
from steno.inputs.mcp.tools import McpTools, list_mcp_tools
from steno.ports import SetupNotice
from steno.render.items import TextForm
from steno.render.quantities import format_count
from steno.render.table_output import Column
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.suggest import suggest_name

_LIST_TIMEOUT_S: Final = 5.0
"""The time limit for lists of tools, resources and prompts; a slower server keeps running."""
_MAX_DESCRIPTION_LENGTH: Final = 100
_CONFIG_EXAMPLE: Final = '{"mcpServers": {"time": {"command": "mcp-server-time"}}}'
_SERVER_COLUMNS: Final = (
    Column("server", "cyan"),
    Column("kind"),
    Column("state", "bold", may_shrink=True),
    Column("from", "dim", may_shrink=True),
)
_TOOL_COLUMNS: Final = (
    Column("tool", "cyan"),
    Column("name on the server"),
    Column("capability"),
    Column("description", may_shrink=True),
)
_RESOURCE_COLUMNS: Final = (
    Column("server", "cyan"),
    Column("uri"),
    Column("type", "dim"),
    Column("name", may_shrink=True),
)
_PROMPT_COLUMNS: Final = (Column("prompt", "cyan"), Column("description", may_shrink=True))


# -- in a terminal ----------------------------------------------------------------------------


async def _run_mcp(context: CommandContext, options: argparse.Namespace) -> Report:
    """List all servers, or the tools, resources and prompts of one server.

    Raises Missing if the server is unknown, and ServerFailed if it is not trusted or fails.
    """
    state = context.open_session.state
    loaded, environment = state.config.loaded_settings, state.environment
    if options.text:
        return await _report_server(environment.servers, options.text)
    specs = environment.servers.specs.values()
    usable = [spec.name for spec in specs if spec.is_usable]
    checks = await asyncio.gather(*[_check_all(environment.servers.get(name)) for name in usable])
    report = report_servers(list(specs), dict(zip(usable, checks, strict=True)))
    hint = (
        Paragraph(code("/mcp NAME"), " lists the tools, resources and prompts of a server.")
        if specs
        else Paragraph("No MCP server is configured.")
    )
    hints = [hint, *_setup_hints(loaded)]
    problems = [terminal_line(notice.text) for notice in environment.server_notices]
    return report._replace(
        parts=[*report.parts, *hints],
        title="MCP servers",
        notices=tuple(dict.fromkeys([*report.notices, *problems])),
    )


COMMAND: CommandDefinition = CommandDefinition(_run_mcp)
"""`/mcp`; the command line has a group of commands instead (`steno.cli.mcp`)."""


async def _check_all(server: McpConnection) -> ServerCheck:
    """Check a server by counting its tools, resources and prompts."""
    try:
        async with asyncio.timeout(_LIST_TIMEOUT_S):
            listed = await asyncio.gather(server.tools(), server.resources(), server.prompts())
    except TimeoutError:
        return ServerCheck(error=f"mcp {server.name}: no response within {_LIST_TIMEOUT_S:g} s")
    except ServerFailed as exc:
        return ServerCheck(error=str(exc))
    counts = zip(map(len, listed), ("tool", "resource", "prompt"), strict=True)
    offers = ", ".join([format_count(number, noun, f"{noun}s") for number, noun in counts])
    return ServerCheck(len(listed[0]), server.protocol, offers=offers)


def _setup_hints(loaded: LoadedSettings) -> list[ReportPart]:
    """Return hints on how to add a server."""
    file, user_file = code(str(loaded.project / MCP_FILE_NAME)), loaded.user_file
    toml_hint = (", or as ", code("[mcp_servers.time]"), " to ", code(str(user_file)))
    return [
        Paragraph(
            *("To add one, write it to ", file, " and run ", code(TRUST_COMMAND)),
            *(toml_hint if user_file is not None else ()),
            ", then restart steno:",
        ),
        FormattedText(_CONFIG_EXAMPLE, TextForm.CODE, "json"),
    ]


def _is_untrusted(spec: McpServerSpec) -> bool:
    return not spec.is_trusted and not spec.disabled


async def _report_server(servers: McpServers, name: str) -> Report:
    spec = servers.specs.get(name)
    if spec is None:
        hint = suggest_name(name, servers.specs) if servers.specs else "no server is configured"
        raise Missing(
            f"unknown server {terminal_line(name)}; {hint}",
            code="server_not_found",
            place="mcp",
        )
    if _is_untrusted(spec):
        raise ServerFailed(
            f"{spec.problem}; to review and trust it, run `{TRUST_COMMAND}`",
            code="trust_changed" if spec.problem == TRUST_CHANGED else "not_trusted",
            place=f"mcp {name}",
        )
    server = servers.get(name)
    try:
        async with asyncio.timeout(_LIST_TIMEOUT_S):
            tools, resources, prompts = await asyncio.gather(
                list_mcp_tools([server]), server.resources(), list_mcp_prompts([server])
            )
    except TimeoutError:
        raise ServerFailed(
            f"no response within {_LIST_TIMEOUT_S:g} s; try again",
            code="server_timeout",
            place=f"mcp {name}",
        ) from None
    reports = (
        report_tools(tools),
        report_resources([(name, resource) for resource in resources]),
        report_prompts(prompts),
    )
    parts = [part for report in reports for part in report.parts]
    if resources:
        parts.append(Paragraph("In a prompt, ", code(f"@{name}:URI"), " refers to a resource."))
    return Report(
        parts or [Paragraph("This server has no tools, resources or prompts.")],
        f"MCP server {name}",
        notices=tuple([notice for report in reports for notice in report.notices]),
    )


# -- servers ----------------------------------------------------------------------------------


class ServerCheck(NamedTuple):
    """The result of starting a server: protocol and number of tools, or an error."""

    tools: int | None = None
    protocol: str | None = None
    error: str | None = None
    offers: str = ""
    """The numbers of tools, resources and prompts as text; empty if only tools were listed."""


async def check_server(server: McpConnection) -> ServerCheck:
    """Start a server, and list its tools."""
    try:
        return ServerCheck(len(await server.tools()), server.protocol)
    except ServerFailed as exc:
        return ServerCheck(error=str(exc))


def report_servers(specs: Sequence[McpServerSpec], checks: Mapping[str, ServerCheck]) -> Report:
    """List servers; `checks` contains the results of the servers that were started, by name."""
    rows = [_server_row(spec, checks.get(spec.name)) for spec in specs]
    errors = [terminal_line(check.error) for check in checks.values() if check.error]
    return Report(
        parts=[Table(_SERVER_COLUMNS, rows)] if rows else [],
        notices=tuple(errors),
        data=[_server_as_json(spec, checks.get(spec.name)) for spec in specs],
        is_failed=bool(errors),
    )


def _server_row(spec: McpServerSpec, check: ServerCheck | None) -> list[str]:
    state = server_status(spec).text
    if check is not None and check.error:
        state = "failed, see below"
    elif check is not None:
        version = f" ({check.protocol})" if check.protocol else ""
        offers = check.offers or format_count(check.tools or 0, "tool", "tools")
        state = f"responds{version}, {offers}"
    kind = describe_server(spec)["kind"]
    return [spec.name, kind, terminal_line(state), terminal_line(spec.origin)]


def _server_as_json(spec: McpServerSpec, check: ServerCheck | None) -> dict[str, Any]:
    members = {"name": spec.name, **describe_server(spec)}
    if check is None:
        return members | {"state": server_status(spec).text}
    return members | {
        "state": "failed" if check.error else "responds",
        "tools": check.tools,
        "protocol": check.protocol,
        "error": check.error,
    }


# -- tools, resources and prompts -------------------------------------------------------------


def report_tools(tools: McpTools) -> Report:
    """List tools: the name that models and permission rules use, and the name on the server."""
    first_lines = [terminal_line(tool.description.partition("\n")[0]) for tool in tools.tools]
    rows = [
        [
            tool.definition.name,
            terminal_line(tool.original_name),
            str(tool.capability),
            truncate_to_width(first_line, _MAX_DESCRIPTION_LENGTH),
        ]
        for tool, first_line in zip(tools.tools, first_lines, strict=True)
    ]
    data = [
        {
            "name": tool.definition.name,
            "server": tool.server,
            "original_name": tool.original_name,
            "capability": tool.capability,
            "description": tool.definition.description,
        }
        for tool in tools.tools
    ]
    return _list_offers(_TOOL_COLUMNS, rows, data, tools.notices)


def report_resources(listed: Sequence[tuple[str, ListedResource]]) -> Report:
    """List resources, each with the name of its server."""
    names = ("uri", "name", "description", "mime_type", "size", "is_template")
    rows = [_resource_row(server, resource) for server, resource in listed]
    data = [
        {"server": server, **{name: getattr(resource, name) for name in names}}
        for server, resource in listed
    ]
    return _list_offers(_RESOURCE_COLUMNS, rows, data)


def _resource_row(server: str, resource: ListedResource) -> list[str]:
    template = " (template: fill in the braces)" if resource.is_template else ""
    return [
        server,
        terminal_line(resource.uri),
        terminal_line(resource.mime_type or "-"),
        terminal_line(resource.name or resource.description) + template,
    ]


def report_prompts(prompts: McpPrompts) -> Report:
    """List prompts, as they are typed in a terminal."""
    rows = [
        [
            terminal_line(f"{prompt.command} {prompt_arguments(prompt)}"),
            terminal_line(prompt.description),
        ]
        for prompt in prompts.prompts
    ]
    data = [
        {
            "command": prompt.command,
            "server": prompt.server,
            "name": prompt.name,
            "description": prompt.description,
            "arguments": [
                {name: getattr(argument, name) for name in ("name", "description", "is_required")}
                for argument in prompt.arguments
            ],
        }
        for prompt in prompts.prompts
    ]
    return _list_offers(_PROMPT_COLUMNS, rows, data, prompts.notices)


def _list_offers(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    data: Sequence[Mapping[str, Any]],
    notices: Sequence[SetupNotice] = (),
) -> Report:
    return Report(
        parts=[Table(columns, rows)] if rows else [],
        notices=tuple([terminal_line(notice.text) for notice in notices]),
        data=data,
        is_failed=bool(notices) and not rows,
    )
