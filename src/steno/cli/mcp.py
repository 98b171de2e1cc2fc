"""`steno mcp`: list MCP servers and their tools, read resources, call tools without a model.

Texts of servers are untrusted: each is made printable before it reaches a terminal.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import math
import os
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from steno.app.commands.arguments import parse_number
from steno.app.commands.mcp import (
    ServerCheck,
    check_server,
    report_prompts,
    report_resources,
    report_servers,
    report_tools,
)
from steno.app.commands.report import Report
from steno.app.errors import UsageError
from steno.app.folders import working_folder
from steno.app.mcp_servers import (
    ConfiguredServers,
    find_servers,
)
from steno.app.settings_loader import load_settings
from steno.cli.arguments import ExitStatus, Subparsers, check_target
from steno.cli.report_command import print_report
from steno.cli.signals import StopSignals
from steno.errors import InvalidArguments, InvalidValue, Missing, ServerFailed
from steno.inputs.mcp.connection import McpConnection, McpServers
from steno.inputs.mcp.prompts import list_mcp_prompts
from steno.inputs.mcp.protocol import CallToolResult, ListedResource, ReadResourceResult
from steno.inputs.mcp.resources import check_uri, part_bytes
from steno.inputs.mcp.server_spec import McpServerSpec
from steno.inputs.mcp.tools import McpTool, McpTools, is_repeated_in_texts, list_mcp_tools
from steno.inputs.mcp.untrusted_data import sanitize_json
from steno.json_object import as_json_object, raw_members
from steno.messages.call import ToolCall
from steno.render.output import (
    STDOUT,
    append_to_shared,
    is_shared_target,
    print_json,
    report_write_errors,
)
from steno.render.quantities import format_count
from steno.render.table_output import StdoutPrinter, print_notice
from steno.render.terminal_text import terminal_line, terminal_text
from steno.render.wait_indicator import WaitIndicator
from steno.schema.convert import parse_text_arguments
from steno.suggest import suggest_name
from steno.values import replace_lone_surrogates

T = TypeVar("T")
_EPILOG: Final = """\
examples:
  steno mcp list --check
  steno mcp tools time
  steno mcp call time get_current_time timezone=Europe/Berlin
  steno mcp call everything get-sum '{"a": 2, "b": 3}' --json
  steno mcp resources everything
  steno mcp read docs file:///notes.md -o notes.md

Servers stand in your settings ([mcp_servers.NAME]), in the .mcp.json of a project that you trust,
and in files that --mcp-config names.
"""


def add_commands(commands: Subparsers) -> None:
    """Add the group to the command line."""
    group = commands.add_parser(
        "mcp",
        help="look at MCP servers, and use what they offer",
        description="Look at servers of the Model Context Protocol: which there are, and which "
        "tools, resources and prompts they offer; read a resource, or call a tool.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_list(actions)
    _add_listings(actions)
    _add_read(actions)
    _add_call(actions)


def _add_list(actions: Subparsers) -> None:
    listing = _add_action(
        actions,
        "list",
        None,
        help="list the servers, and whether they can be used",
        description="List the servers that are configured, where each is from, and whether it can "
        "be used. Nothing is started unless --check is given.",
        epilog="example: steno mcp list --check",
    )
    listing.add_argument(
        "--check",
        action="store_true",
        help="start them, and say whether they answer",
    )
    listing.add_argument("--json", action="store_true", help="a line of JSON for each server")
    listing.set_defaults(run=list_servers)


def _add_listings(actions: Subparsers) -> None:
    tools = _add_action(
        actions,
        "tools",
        list_tools,
        help="list tools, or print the schema of one",
        description="List the tools of servers: the name that models and rules know, the server's "
        "own name, what a tool may do, and the first line of what it says of itself.",
        epilog="example: steno mcp tools time --schema get_current_time",
    )
    tools.add_argument("--schema", metavar="TOOL", help="print the schema of its arguments")
    resources = _add_action(
        actions,
        "resources",
        list_resources,
        help="list resources",
        description="List the resources of servers. In a prompt, @SERVER:URI points at one.",
        epilog="example: steno mcp resources everything --json",
    )
    prompts = _add_action(
        actions,
        "prompts",
        list_prompts,
        help="list prompts",
        description="List the prompts of servers, as they are called: /SERVER:PROMPT name=value.",
        epilog="example: steno mcp prompts everything",
    )
    for parser, item in ((tools, "tool"), (resources, "resource"), (prompts, "prompt")):
        parser.add_argument("server", nargs="?", metavar="SERVER", help="only this one's")
        parser.add_argument("--json", action="store_true", help=f"a line of JSON for each {item}")


def _add_read(actions: Subparsers) -> None:
    read = _add_action(
        actions,
        "read",
        read_resource,
        help="print a resource, or write it to a file",
        description="Read a resource from its server. Text is printed; what is no text needs a "
        "file or a pipe.",
        epilog="example: steno mcp read everything demo://resource/static/document/features.md",
    )
    read.add_argument("server", metavar="SERVER", help="whose it is")
    read.add_argument("uri", metavar="URI", help="which one; 'steno mcp resources' lists them")
    output = read.add_mutually_exclusive_group()
    output.add_argument("-o", "--output", metavar="FILE", help="write there, not to stdout")
    output.add_argument("--json", action="store_true", help="one JSON object with all parts")
    read.add_argument("--force", action="store_true", help="write over a file that is there")


def _add_call(actions: Subparsers) -> None:
    call = _add_action(
        actions,
        "call",
        call_tool,
        help="call a tool",
        description="Call a tool, with arguments that are checked before the server sees them. "
        "What it says is printed, its progress on stderr; Ctrl-C cancels the call. It is you who "
        "calls: rules for models do not count here.",
        epilog="example: steno mcp call time convert_time source_timezone=UTC "
        "target_timezone=Asia/Tokyo time=12:00",
    )
    call.add_argument("server", metavar="SERVER", help="whose it is")
    call.add_argument("tool", metavar="TOOL", help="which one, by either of its names")
    call.add_argument(
        "arguments",
        nargs="*",
        metavar="KEY=VALUE",
        help="its arguments, or one JSON object; options stand before or behind all of this",
    )
    call.add_argument("--json", action="store_true", help="all that came of it, as one JSON object")
    call.add_argument("--timeout", type=_parse_seconds, metavar="S", help="wait so long at most")


def _add_action(
    actions: Subparsers, name: str, command: McpCommand | None, **settings: Any
) -> argparse.ArgumentParser:
    """Add a command; `command` runs with the configured servers."""
    parser = actions.add_parser(name, **settings)
    parser.add_argument(
        "--mcp-config",
        action="append",
        default=[],
        metavar="FILE",
        help="also the servers in this file, which looks like .mcp.json",
    )
    if command is not None:
        parser.set_defaults(run=partial(run_with_servers, command=command))
    return parser


def _parse_seconds(text: str) -> float:
    seconds = parse_number(text)
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError("must be a number of seconds above 0")
    return seconds


# -- servers of a command ---------------------------------------------------------------------


class McpCommandContext(NamedTuple):
    """The options and servers of a command; a server is started with the first request to it."""

    options: argparse.Namespace
    servers: McpServers
    wait_indicator: WaitIndicator

    @property
    def connections(self) -> tuple[McpConnection, ...]:
        """The server that is named on the command line, or all that can be used.

        Raises ServerFailed if the one that is named cannot be used.
        """
        name: str | None = self.options.server
        if name is not None and name not in self.servers.specs:
            known = self.servers.specs
            hint = suggest_name(name, known) if known else "there are none"
            raise ServerFailed(
                f"no server has this name; {hint}",
                code="server_not_found",
                place=f"mcp {terminal_line(name)}",
            )
        names = self.servers.names if name is None else (name,)
        return tuple([self.servers.get(server) for server in names])

    @contextmanager
    def show_wait(self, activity: str) -> Generator[None]:
        """Show what the command waits for, until the block ends."""
        self.wait_indicator.start(activity)
        try:
            yield
        finally:
            self.wait_indicator.stop()

    def print_progress(self, text: str) -> None:
        """Print a notice on stderr without ending the wait."""
        self.wait_indicator.clear()
        print_notice(terminal_line(text))


McpCommand: TypeAlias = Callable[[McpCommandContext], Awaitable[int]]


def find_configured_servers(options: argparse.Namespace) -> ConfiguredServers:
    """Return all configured servers, and print the notes about them."""
    loaded = load_settings(working_folder())
    configured = find_servers(loaded, os.environ, files=options.mcp_config)
    for notice in (*loaded.notices, *configured.notices):
        print_notice(terminal_line(notice.text))
    if not configured.specs:
        print_notice("no MCP server is configured; name one in .mcp.json or in your settings")
    return configured


def run_with_servers(options: argparse.Namespace, command: McpCommand) -> int:
    """Run a command with the configured servers, and return its exit status."""
    configured = find_configured_servers(options)
    if configured.specs and not any(spec.is_usable for spec in configured.specs):
        print_notice("no MCP server can be used; 'steno mcp list' says why")
        if options.server is None:
            return ExitStatus.FAILED
    return run_with_configured(configured, options, command)


def run_with_configured(
    configured: ConfiguredServers, options: argparse.Namespace, command: McpCommand
) -> int:
    """Run a command with servers that are known already."""
    return asyncio.run(_run_with_connections(configured, options, command))


async def _run_with_connections(
    configured: ConfiguredServers, options: argparse.Namespace, command: McpCommand
) -> int:
    specs, timeout_s = configured.specs, getattr(options, "timeout", None)
    if timeout_s is not None:
        specs = tuple([replace(spec, call_timeout_s=timeout_s) for spec in specs])
    with StopSignals() as signals:
        return await signals.run(_connect_and_run(specs, options, command))


async def _connect_and_run(
    specs: tuple[McpServerSpec, ...], options: argparse.Namespace, command: McpCommand
) -> int:
    async with McpServers(specs, folder=working_folder()) as servers:
        return await command(McpCommandContext(options, servers, WaitIndicator()))


# -- list -------------------------------------------------------------------------------------


def list_servers(options: argparse.Namespace) -> int:
    """Print the configured servers; start them only with `--check`."""
    configured = find_configured_servers(options)
    checks: dict[str, ServerCheck] = {}

    async def check(context: McpCommandContext) -> int:
        usable = [context.servers.get(name) for name in context.servers.names]
        with context.show_wait("starting MCP servers"):
            results = await asyncio.gather(*map(check_server, usable))
        checks.update(zip(context.servers.names, results, strict=True))
        return ExitStatus.OK

    status: int = ExitStatus.OK
    if options.check and configured.specs:
        status = run_with_configured(configured, options, check)
    printed = print_report(report_servers(configured.specs, checks), as_json=options.json)
    return status or printed


# -- tools, resources and prompts -------------------------------------------------------------


async def list_tools(context: McpCommandContext) -> int:
    """Print the tools of servers, or the schema of one."""
    tools = await _fetch_tools(context)
    report = report_tools(tools)
    if context.options.schema is None or report.is_failed:
        return print_report(report, as_json=context.options.json)
    print_report(Report(notices=report.notices))
    tool = _find_tool(tools, context.options.schema)
    print_json(msgspec.json.encode(raw_members(as_json_object(tool.definition.parameters))))
    return ExitStatus.OK


async def _fetch_tools(context: McpCommandContext) -> McpTools:
    with context.show_wait(_wait_text(context.connections)):
        return await list_mcp_tools(context.connections)


def _find_tool(tools: McpTools, name: str) -> McpTool:
    """Return a tool by its name here or at its server. Raises Missing."""
    for tool in tools.tools:
        if name in (tool.definition.name, tool.original_name):
            return tool
    names = [tool.original_name for tool in tools.tools]
    hint = suggest_name(name, names) if names else "there are none"
    raise Missing(
        f"the server has none of this name; {hint}",
        code="tool_unknown",
        place=f"tool {terminal_line(name)}",
    )


async def list_resources(context: McpCommandContext) -> int:
    """Print the resources of servers; a server that fails does not affect the others."""
    servers = context.connections
    with context.show_wait(_wait_text(servers)):
        answers = await asyncio.gather(
            *[server.resources() for server in servers], return_exceptions=True
        )
    listed: list[tuple[str, ListedResource]] = []
    failures: list[str] = []
    for server, answer in zip(servers, answers, strict=True):
        if isinstance(answer, ServerFailed):
            failures.append(terminal_line(str(answer)))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            listed += [(server.name, resource) for resource in answer]
    if servers and not listed and not failures and not context.options.json:
        print_notice("no resources are offered")
    report = report_resources(listed)._replace(notices=tuple(failures), is_failed=bool(failures))
    return print_report(report, as_json=context.options.json)


async def list_prompts(context: McpCommandContext) -> int:
    """Print the prompts of servers, as they are called in a conversation."""
    servers = context.connections
    with context.show_wait(_wait_text(servers)):
        prompts = await list_mcp_prompts(servers)
    if servers and not prompts.prompts and not prompts.notices and not context.options.json:
        print_notice("no prompts are offered")
    return print_report(report_prompts(prompts), as_json=context.options.json)


def _wait_text(servers: Sequence[McpConnection]) -> str:
    return f"asking {', '.join([server.name for server in servers])}"


# -- read -------------------------------------------------------------------------------------


async def read_resource(context: McpCommandContext) -> int:
    """Print a resource, or write it to a file."""
    options = context.options
    if options.output is not None:
        _check_output_file(options.output, is_forced=options.force)
    try:
        check_uri(options.uri)
    except InvalidValue as exc:
        raise UsageError(exc.message, code=exc.code, place=exc.place) from None
    [server] = context.connections
    with context.show_wait(f"reading from {server.name}"):
        resource = await server.read(options.uri)
    _write_resource(resource, options)
    return ExitStatus.OK


def _check_output_file(output: str, *, is_forced: bool) -> None:
    check_target(output, may_replace=is_forced and Path(output).is_file())


def _write_resource(resource: ReadResourceResult, options: argparse.Namespace) -> None:
    data = b"".join(map(part_bytes, resource.contents))
    if options.output is not None and is_shared_target(Path(options.output)):
        append_to_shared(Path(options.output), data)
    elif options.output is not None:
        with report_write_errors(options.output):
            Path(options.output).write_bytes(data)
    elif options.json:
        print_json(msgspec.json.encode(_resource_as_json(resource)))
    elif sys.stdout.isatty():
        _print_resource(resource)
    else:
        with report_write_errors(STDOUT):
            sys.stdout.buffer.write(data)


def _print_resource(resource: ReadResourceResult) -> None:
    """Print a resource of text on the terminal. Raises InvalidValue for other data."""
    for part in resource.contents:
        if part.data is not None:
            size = format_count(len(part.data), "byte", "bytes")
            kind = terminal_line(part.mime_type or "of no known type")
            raise InvalidValue(
                f"holds {size}, {kind}; write them to a file with -o FILE",
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


async def call_tool(context: McpCommandContext) -> int:
    """Call a tool with checked arguments, and print its result."""
    options = context.options
    typed_arguments = parse_tool_arguments(options.arguments)
    tools = await _fetch_tools(context)
    for notice in tools.notices:
        print_notice(terminal_line(notice.text))
    if tools.notices and not tools.tools:
        return ExitStatus.FAILED
    tool = _find_tool(tools, options.tool)
    arguments = typed_arguments.fit_schema(tool.definition.parameters)
    try:
        tool.definition.check_arguments(ToolCall.create(tool.definition.name, arguments))
    except InvalidArguments as exc:
        schema = f"steno mcp tools {options.server} --schema {tool.definition.name}"
        raise UsageError(
            f"{exc}; see {schema}", code=exc.code, place=tool.definition.name
        ) from None
    [server] = context.connections
    with context.show_wait(f"calling {tool.definition.name}"):
        result = await server.call(tool.original_name, arguments, progress=context.print_progress)
    if options.json:
        print_json(msgspec.json.encode(_call_result_as_json(result)))
    else:
        _print_result(result)
    return ExitStatus.FAILED if result.is_error else ExitStatus.OK


def _call_result_as_json(result: CallToolResult) -> Any:
    return sanitize_json(
        {
            "content": result.content,
            "structured": result.structured,
            "is_error": result.is_error,
        }
    )


class ToolArguments(NamedTuple):
    """Arguments as a user typed them."""

    values: Mapping[str, Any]
    are_untyped: bool
    """Whether they carry no JSON types: `key=value`."""

    def fit_schema(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments for a schema; text is read as JSON where that fits (`5`, `true`)."""
        if not self.are_untyped:
            return self.values
        return parse_text_arguments(self.values, schema)


def parse_tool_arguments(texts: Sequence[str]) -> ToolArguments:
    """Read one JSON object, or `key=value` each. Raises UsageError."""
    if len(texts) == 1 and texts[0].lstrip().startswith("{"):
        return ToolArguments(_parse_json_object(texts[0]), are_untyped=False)
    values: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(
                f"{terminal_line(text)}: write key=value for each, or one JSON object",
                code="argument_malformed",
                place="arguments",
            )
        if name in values:
            raise UsageError(
                f"{terminal_line(name)} is given twice", code="argument_repeated", place="arguments"
            )
        values[name] = value
    return ToolArguments(values, are_untyped=True)


def _parse_json_object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise UsageError(
            f"are no JSON object: {exc}", code="argument_malformed", place="arguments"
        ) from None


def _print_result(result: CallToolResult) -> None:
    printer = StdoutPrinter()
    if result.is_error:
        print_notice("the server says that it failed")
    texts: list[str] = []
    for block in result.content:
        if block.get("type") == "text":
            texts.append(str(block.get("text", "")))
            printer.line(terminal_text(texts[-1]))
        else:
            print_notice(f"not shown: {_describe_content_block(block)}; --json has all of it")
    structured = sanitize_json(result.structured)
    if structured is not None and not is_repeated_in_texts(structured, texts):
        print_json(msgspec.json.encode(structured))


def _describe_content_block(block: Mapping[str, Any]) -> str:
    """Describe a content block on one line."""
    resource = block.get("resource")
    source = resource if isinstance(resource, Mapping) else block
    facts = [block.get("type"), source.get("mimeType"), source.get("uri")]
    return terminal_line(" ".join([str(fact) for fact in facts if fact]))
