"""The commands of `steno mcp`, which list MCP servers, read resources and call tools.

Text from servers is untrusted, and is made printable before it is written to a terminal.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import math
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from steno.app.commands.arguments import (
    OneOf,
    UsageError,
    argument,
    check_target,
    flag,
    parse_number,
)
from steno.app.commands.mcp import (
    ServerCheck,
    check_server,
    report_prompts,
    report_resources,
    report_servers,
    report_tools,
)
from steno.app.commands.report import Report
from steno.app.environment import user_environment
from steno.app.folders import working_folder
from steno.app.mcp import ConfiguredServers, find_servers
from steno.app.settings import load_settings
from steno.cli.arguments import ExitStatus, GroupCommand, Subparsers, add_group
from steno.cli.report_command import print_report
from steno.cli.signals import StopSignals
from steno.errors import InvalidArguments, InvalidValue, Missing, ServerFailed
from steno.inputs.mcp.connection import McpConnection, McpServers
from steno.inputs.mcp.prompts import list_mcp_prompts
from steno.inputs.mcp.protocol import CallToolResult, ListedResource, ReadResourceResult
from steno.inputs.mcp.resources import check_uri, part_bytes
from steno.inputs.mcp.tools import McpTool, McpTools, is_repeated_in_texts, list_mcp_tools
from steno.inputs.mcp.untrusted_data import sanitize_json
from steno.json_object import as_json_object, raw_members
from steno.messages.call import ToolCall
from steno.render.output import (
    STDOUT,
    print_json,
    report_write_errors,
    write_file,
)
from steno.render.quantities import format_count
from steno.render.table_output import StdoutPrinter, print_notice
from steno.render.terminal_text import terminal_line, terminal_text
from steno.render.wait_indicator import WaitIndicator
from steno.schema.convert import parse_text_arguments
from steno.suggest import suggest_name
from steno.values import replace_lone_surrogates

_EPILOG: Final = """\
examples:
  steno mcp list --check
  steno mcp tools time
  steno mcp call time get_current_time timezone=Europe/Berlin
  steno mcp call everything get-sum '{"a": 2, "b": 3}' --json
  steno mcp resources everything
  steno mcp read docs file:///notes.md -o notes.md

Servers are configured in your settings ([mcp_servers.NAME]), in the .mcp.json of a trusted project,
and in the files given with --mcp-config.
"""


class McpCommandContext(NamedTuple):
    """The options and the servers of a command; a server starts on its first request."""

    options: argparse.Namespace
    servers: McpServers
    wait_indicator: WaitIndicator

    @property
    def connections(self) -> tuple[McpConnection, ...]:
        """The server named on the command line, or all usable servers.

        Raises ServerFailed if the named server cannot be used.
        """
        name: str | None = self.options.server
        if name is not None and name not in self.servers.specs:
            known = self.servers.specs
            hint = suggest_name(name, known) if known else "no server is configured"
            raise ServerFailed(
                f"unknown server; {hint}",
                code="server_not_found",
                place=f"mcp {terminal_line(name)}",
            )
        names = self.servers.names if name is None else (name,)
        return tuple([self.servers.get(server) for server in names])

    @contextmanager
    def show_wait(self, activity: str = "") -> Generator[None]:
        """Display an activity until the block ends; the default is waiting for the servers."""
        names = ", ".join([] if activity else [server.name for server in self.connections])
        self.wait_indicator.start(activity or f"waiting for {names}")
        try:
            yield
        finally:
            self.wait_indicator.stop()

    def print_progress(self, text: str) -> None:
        """Print a notice on stderr while the wait continues."""
        self.wait_indicator.clear()
        print_notice(terminal_line(text))


McpCommand: TypeAlias = Callable[[McpCommandContext], Awaitable[int]]


def _find_configured_servers(options: argparse.Namespace) -> ConfiguredServers:
    """Return all configured servers, and print the notices about them."""
    loaded = load_settings(working_folder())
    configured = find_servers(loaded, user_environment(), files=options.mcp_config)
    for notice in (*loaded.notices, *configured.notices):
        print_notice(terminal_line(notice.text))
    if not configured.specs:
        print_notice("no MCP server is configured; add one to .mcp.json or to your settings")
    return configured


def _run_with_servers(command: McpCommand, options: argparse.Namespace) -> int:
    """Run a command with the configured servers, and return its exit status."""
    configured = _find_configured_servers(options)
    if configured.specs and not any(spec.is_usable for spec in configured.specs):
        print_notice("no MCP server can be used; run 'steno mcp list' to see why")
        if options.server is None:
            return ExitStatus.FAILED
    return asyncio.run(_run_connected(configured, options, command))


async def _run_connected(
    configured: ConfiguredServers, options: argparse.Namespace, command: McpCommand
) -> int:
    specs, timeout_s = configured.specs, getattr(options, "timeout", None)
    if timeout_s is not None:
        specs = tuple([replace(spec, call_timeout_s=timeout_s) for spec in specs])

    async def run() -> int:
        async with McpServers(specs, folder=working_folder()) as servers:
            return await command(McpCommandContext(options, servers, WaitIndicator()))

    with StopSignals() as signals:
        return await signals.run(run())


# -- list -------------------------------------------------------------------------------------


def _list_servers(options: argparse.Namespace) -> int:
    """Print the configured servers; with `--check`, start them first."""
    configured = _find_configured_servers(options)
    checks: dict[str, ServerCheck] = {}

    async def check(context: McpCommandContext) -> int:
        usable = [context.servers.get(name) for name in context.servers.names]
        with context.show_wait("starting MCP servers"):
            results = await asyncio.gather(*map(check_server, usable))
        checks.update(zip(context.servers.names, results, strict=True))
        return ExitStatus.OK

    status: int = ExitStatus.OK
    if options.check and configured.specs:
        status = asyncio.run(_run_connected(configured, options, check))
    printed = print_report(report_servers(configured.specs, checks), as_json=options.json)
    return status or printed


# -- tools, resources and prompts -------------------------------------------------------------


async def _list_tools(context: McpCommandContext) -> int:
    """Print the tools of servers, or the schema of one tool."""
    with context.show_wait():
        tools = await list_mcp_tools(context.connections)
    report = report_tools(tools)
    if context.options.schema is None or report.is_failed:
        return print_report(report, as_json=context.options.json)
    print_report(Report(notices=report.notices))
    tool = _find_tool(tools, context.options.schema)
    print_json(msgspec.json.encode(raw_members(as_json_object(tool.definition.parameters))))
    return ExitStatus.OK


def _find_tool(tools: McpTools, name: str) -> McpTool:
    """Return a tool by the name that models use, or by its name on the server.

    Raises Missing if there is no such tool.
    """
    for tool in tools.tools:
        if name in (tool.definition.name, tool.original_name):
            return tool
    names = [tool.original_name for tool in tools.tools]
    hint = suggest_name(name, names) if names else "the server has no tools"
    raise Missing(
        f"unknown tool; {hint}",
        code="tool_unknown",
        place=f"tool {terminal_line(name)}",
    )


async def _list_resources(context: McpCommandContext) -> int:
    """Print the resources of servers; a server that fails does not affect the others."""
    servers = context.connections
    with context.show_wait():
        results = await asyncio.gather(
            *[server.resources() for server in servers], return_exceptions=True
        )
    listed: list[tuple[str, ListedResource]] = []
    failures: list[str] = []
    for server, result in zip(servers, results, strict=True):
        if isinstance(result, ServerFailed):
            failures.append(terminal_line(str(result)))
        elif isinstance(result, BaseException):
            raise result
        else:
            listed += [(server.name, resource) for resource in result]
    report = report_resources(listed)._replace(
        when_empty="no resources found" if servers and not failures else "",
        notices=tuple(failures),
        is_failed=bool(failures),
    )
    return print_report(report, as_json=context.options.json)


async def _list_prompts(context: McpCommandContext) -> int:
    """Print the prompts of servers, with the names to use in a conversation."""
    servers = context.connections
    with context.show_wait():
        prompts = await list_mcp_prompts(servers)
    is_complete = servers and not prompts.notices
    when_empty = "no prompts found" if is_complete else ""
    report = report_prompts(prompts)._replace(when_empty=when_empty)
    return print_report(report, as_json=context.options.json)


# -- read -------------------------------------------------------------------------------------


async def _read_resource(context: McpCommandContext) -> int:
    """Print a resource, or write it to a file."""
    options = context.options
    if options.output is not None:
        _check_output(options)
    try:
        check_uri(options.uri)
    except InvalidValue as exc:
        raise UsageError(exc.message, code=exc.code, place=exc.place) from None
    [server] = context.connections
    with context.show_wait(f"reading from {server.name}"):
        resource = await server.read(options.uri)
    _write_resource(resource, options)
    return ExitStatus.OK


def _check_output(options: argparse.Namespace) -> None:
    check_target(options.output, may_replace=options.force)


def _write_resource(resource: ReadResourceResult, options: argparse.Namespace) -> None:
    data = b"".join(map(part_bytes, resource.contents))
    if options.output is not None:
        write_file(Path(options.output), data)
    elif options.json:
        print_json(msgspec.json.encode(_resource_as_json(resource)))
    elif sys.stdout.isatty():
        _print_resource(resource)
    else:
        with report_write_errors(STDOUT):
            sys.stdout.buffer.write(data)


def _print_resource(resource: ReadResourceResult) -> None:
    """Print a text resource on the terminal. Raises InvalidValue if it is not text."""
    for part in resource.contents:
        if part.data is not None:
            size = format_count(len(part.data), "byte", "bytes")
            kind = terminal_line(part.mime_type or "unknown type")
            raise InvalidValue(
                f"contains {size} that are not text ({kind}); write them to a file with -o FILE",
                code="output_not_text",
                place=terminal_line(part.uri),
            )
    for part in resource.contents:
        text = terminal_text(replace_lone_surrogates(part.text or ""))
        StdoutPrinter().line(text.removesuffix("\n"))


def _resource_as_json(resource: ReadResourceResult) -> Any:
    return sanitize_json(
        {
            "contents": [
                {
                    "uri": part.uri,
                    "mime_type": part.mime_type,
                    "text": part.text,
                    "data": None if part.data is None else base64.b64encode(part.data).decode(),
                }
                for part in resource.contents
            ],
            "ttl_s": resource.ttl_s,
        }
    )


# -- call -------------------------------------------------------------------------------------


async def _call_tool(context: McpCommandContext) -> int:
    """Call a tool with checked arguments, and print its result."""
    options = context.options
    _parse_tool_arguments(options.arguments, {})  # errors are reported before a server starts
    with context.show_wait():
        tools = await list_mcp_tools(context.connections)
    for notice in tools.notices:
        print_notice(terminal_line(notice.text))
    if tools.notices and not tools.tools:
        return ExitStatus.FAILED
    tool = _find_tool(tools, options.tool)
    name = tool.definition.name
    arguments = _parse_tool_arguments(options.arguments, tool.definition.parameters)
    try:
        tool.definition.check_arguments(ToolCall.create(name, arguments))
    except InvalidArguments as exc:
        text = f"{exc}; see steno mcp tools {options.server} --schema {name}"
        raise UsageError(text, code=exc.code, place=name) from None
    [server] = context.connections
    with context.show_wait(f"calling {name}"):
        result = await server.call(tool.original_name, arguments, progress=context.print_progress)
    if options.json:
        names = ("content", "structured", "is_error")
        members = sanitize_json({member: getattr(result, member) for member in names})
        print_json(msgspec.json.encode(members))
    else:
        _print_result(result)
    return ExitStatus.FAILED if result.is_error else ExitStatus.OK


def _parse_tool_arguments(texts: Sequence[str], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Parse one JSON object, or `key=value` pairs whose values have the types in a schema.

    Raises UsageError if the arguments have neither form.
    """
    if len(texts) == 1 and texts[0].lstrip().startswith("{"):
        try:
            return msgspec.json.decode(texts[0], type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
            raise UsageError(
                f"must be a JSON object: {exc}", code="argument_malformed", place="arguments"
            ) from None
    values: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(
                f"{terminal_line(text)}: write key=value, or pass one JSON object",
                code="argument_malformed",
                place="arguments",
            )
        if name in values:
            raise UsageError(
                f"{terminal_line(name)} appears twice", code="argument_repeated", place="arguments"
            )
        values[name] = value
    return parse_text_arguments(values, schema)


def _print_result(result: CallToolResult) -> None:
    printer = StdoutPrinter()
    if result.is_error:
        print_notice("the server reports that the call failed")
    texts: list[str] = []
    for block in result.content:
        if block.get("type") == "text":
            texts.append(str(block.get("text", "")))
            printer.line(terminal_text(texts[-1]))
        else:
            resource = block.get("resource")
            source = resource if isinstance(resource, Mapping) else block
            facts = [block.get("type"), source.get("mimeType"), source.get("uri")]
            description = terminal_line(" ".join([str(fact) for fact in facts if fact]))
            print_notice(f"not shown: {description}; use --json to print it")
    structured = sanitize_json(result.structured)
    if structured is not None and not is_repeated_in_texts(structured, texts):
        print_json(msgspec.json.encode(structured))


# -- the group --------------------------------------------------------------------------------


def _parse_seconds(text: str) -> float:
    seconds = parse_number(text)
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError("must be a number of seconds greater than 0")
    return seconds


_SERVER: Final = argument("server", metavar="SERVER", help="the name of the server")
_SERVER_OR_ALL: Final = argument("server", nargs="?", metavar="SERVER", help="only this server")
_MCP_CONFIG: Final = argument(
    "--mcp-config",
    action="append",
    default=[],
    metavar="FILE",
    help="also use the servers in FILE, which has the format of .mcp.json; repeatable",
)
_ACTIONS: Final = (
    GroupCommand(
        "list",
        _list_servers,
        "list the configured servers and their state",
        "List the configured servers, where each is configured, and whether it can be used. "
        "Servers are started only with --check.",
        (
            flag("--check", help="start the servers and report whether they respond"),
            flag("--json", help="print one JSON object per server"),
        ),
        "example:\n  steno mcp list --check",
    ),
    GroupCommand(
        "tools",
        partial(_run_with_servers, _list_tools),
        "list tools, or print the schema of a tool",
        "List the tools of servers: the name that models and permission rules use, the name on the "
        "server, the capability, and the first line of the description.",
        (
            argument(
                "--schema", metavar="TOOL", help="print the JSON Schema of a tool's arguments"
            ),
            _SERVER_OR_ALL,
            flag("--json", help="print one JSON object per tool"),
        ),
        "example:\n  steno mcp tools time --schema get_current_time",
    ),
    GroupCommand(
        "resources",
        partial(_run_with_servers, _list_resources),
        "list resources",
        "List the resources of servers. In a prompt, refer to one with @SERVER:URI.",
        (_SERVER_OR_ALL, flag("--json", help="print one JSON object per resource")),
        "example:\n  steno mcp resources everything --json",
    ),
    GroupCommand(
        "prompts",
        partial(_run_with_servers, _list_prompts),
        "list prompts",
        "List the prompts of servers. In a session, send one with /SERVER:PROMPT name=value.",
        (_SERVER_OR_ALL, flag("--json", help="print one JSON object per prompt")),
        "example:\n  steno mcp prompts everything",
    ),
    GroupCommand(
        "read",
        partial(_run_with_servers, _read_resource),
        "print a resource, or write it to a file",
        "Read a resource from its server and print it. Binary data requires -o FILE or a pipe.",
        (
            _SERVER,
            argument("uri", metavar="URI", help="the URI, as listed by 'steno mcp resources'"),
            OneOf(
                (
                    argument(
                        "-o", "--output", metavar="FILE", help="write to FILE instead of stdout"
                    ),
                    flag("--json", help="print one JSON object with all parts"),
                )
            ),
            flag("--force", help="overwrite an existing file"),
        ),
        "example:\n  steno mcp read everything demo://resource/static/document/features.md",
    ),
    GroupCommand(
        "call",
        partial(_run_with_servers, _call_tool),
        "call a tool",
        "Call a tool and print its result. Progress is printed on stderr, and Ctrl-C cancels the "
        "call. The arguments are checked before they are sent. Permission rules do not apply, "
        "because you make this call, not a model.",
        (
            _SERVER,
            argument(
                "tool",
                metavar="TOOL",
                help="the tool: its name on the server, or the name that models see",
            ),
            argument(
                "arguments",
                nargs="*",
                metavar="KEY=VALUE",
                help="the arguments, or one JSON object; do not put options between arguments",
            ),
            flag("--json", help="print the whole result as one JSON object"),
            argument(
                "--timeout", type=_parse_seconds, metavar="S", help="the time limit in seconds"
            ),
        ),
        "example:\n  steno mcp call time convert_time source_timezone=UTC "
        "target_timezone=Asia/Tokyo time=12:00",
    ),
)


def add_commands(commands: Subparsers) -> None:
    """Add the group to the command line."""
    add_group(
        commands,
        "mcp",
        [action._replace(arguments=(_MCP_CONFIG, *action.arguments)) for action in _ACTIONS],
        help="list MCP servers, read resources and call tools",
        description="List MCP (Model Context Protocol) servers and their tools, resources and "
        "prompts; read a resource, or call a tool.",
        epilog=_EPILOG,
    )
