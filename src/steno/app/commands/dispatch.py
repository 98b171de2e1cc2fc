"""Run a slash command: find it in the table, read its arguments, and return its report."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from inspect import iscoroutinefunction

import msgspec

from steno.app.commands.arguments import CommandParser
from steno.app.commands.context import CommandContext
from steno.app.commands.report import Report
from steno.app.commands.table import SLASH_COMMANDS_BY_NAME
from steno.errors import Missing, StenoError
from steno.render.items import TextForm
from steno.render.terminal_text import terminal_json
from steno.suggest import suggest_name

_HELP_OPTIONS = frozenset({"-h", "--help"})


async def run_slash_command(context: CommandContext, name: str, text: str) -> Report:
    """Run a command with the text that was typed after its name.

    Raises StenoError, and Missing for an unknown command.
    """
    command = SLASH_COMMANDS_BY_NAME.get(name)
    if command is None:
        hint = suggest_name(name, SLASH_COMMANDS_BY_NAME)
        raise Missing(f"there is no such command; {hint}", code="no_such_command", place=f"/{name}")
    if command.is_interface:
        raise terminal_only(name)
    definition = command.load()
    parser = CommandParser(prog=f"/{name}", add_help=False, epilog=definition.epilog)
    definition.add_to(parser, in_terminal=True)
    arguments = definition.split(text.strip())
    if _HELP_OPTIONS.intersection(arguments):
        return Report(parser.format_help(), f"/{name}", TextForm.PLAIN)
    options = parser.parse_args(arguments)
    run = partial(definition.run, context, options)
    is_async = iscoroutinefunction(definition.run)
    result: Report | Awaitable[Report] = run() if is_async else await asyncio.to_thread(run)
    report = result if isinstance(result, Report) else await result
    if not vars(options).get("json"):
        return report
    lines = [terminal_json(msgspec.json.encode(value)).decode() for value in report.data]
    return Report("\n".join(lines), report.title, TextForm.PLAIN)


def terminal_only(name: str) -> StenoError:
    """Return the error for a command that only an interface itself can run."""
    return StenoError(
        "the terminal does this, and nobody else", code="terminal_only", place=f"/{name}"
    )
