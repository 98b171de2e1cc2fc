"""`steno mcp`: what it can be told on the command line. What it does is in `offers` and `calling`."""

from __future__ import annotations

import argparse
import math
from functools import partial
from typing import Any, Final

from steno.cli import calling, offers
from steno.cli.commands import Commands, number
from steno.cli.serving import Work, ask_servers

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


def add_commands(commands: Commands) -> None:
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
    _add_offers(actions)
    _add_read(actions)
    _add_call(actions)


def _add(actions: Commands, name: str, work: Work | None, **told: Any) -> argparse.ArgumentParser:
    """Add a command; `work` is done with the servers at hand."""
    parser = actions.add_parser(name, **told)
    parser.add_argument(
        "--mcp-config",
        action="append",
        default=[],
        metavar="FILE",
        help="also the servers in this file, which looks like .mcp.json",
    )
    if work is not None:
        parser.set_defaults(run=partial(ask_servers, work=work))
    return parser


def _add_list(actions: Commands) -> None:
    listing = _add(
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
    listing.set_defaults(run=offers.list_servers)


def _add_offers(actions: Commands) -> None:
    tools = _add(
        actions,
        "tools",
        offers.list_tools,
        help="list tools, or print the schema of one",
        description="List the tools of servers: the name that models and rules know, the server's "
        "own name, what a tool may do, and the first line of what it says of itself.",
        epilog="example: steno mcp tools time --schema get_current_time",
    )
    tools.add_argument("--schema", metavar="TOOL", help="print the schema of its arguments")
    resources = _add(
        actions,
        "resources",
        offers.list_resources,
        help="list resources",
        description="List the resources of servers. In a prompt, @SERVER:URI points at one.",
        epilog="example: steno mcp resources everything --json",
    )
    prompts = _add(
        actions,
        "prompts",
        offers.list_prompts,
        help="list prompts",
        description="List the prompts of servers, as they are called: /SERVER:PROMPT name=value.",
        epilog="example: steno mcp prompts everything",
    )
    for parser, what in ((tools, "tool"), (resources, "resource"), (prompts, "prompt")):
        parser.add_argument("server", nargs="?", metavar="SERVER", help="only this one's")
        parser.add_argument("--json", action="store_true", help=f"a line of JSON for each {what}")


def _add_read(actions: Commands) -> None:
    read = _add(
        actions,
        "read",
        calling.read,
        help="print a resource, or write it to a file",
        description="Read a resource from its server. Text is printed; what is no text needs a "
        "file or a pipe.",
        epilog="example: steno mcp read everything demo://resource/static/document/features.md",
    )
    read.add_argument("server", metavar="SERVER", help="whose it is")
    read.add_argument("uri", metavar="URI", help="which one; 'steno mcp resources' lists them")
    how = read.add_mutually_exclusive_group()
    how.add_argument("-o", "--output", metavar="FILE", help="write there, not to stdout")
    how.add_argument("--json", action="store_true", help="one JSON object with all parts")
    read.add_argument("--force", action="store_true", help="write over a file that is there")


def _add_call(actions: Commands) -> None:
    call = _add(
        actions,
        "call",
        calling.call,
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
    call.add_argument("--timeout", type=_seconds, metavar="S", help="wait so long at most")


def _seconds(text: str) -> float:
    seconds = number(text)
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError("must be a number of seconds above 0")
    return seconds
