"""Functions that add the commands of the command table to the command line and run them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from steno.app.commands.arguments import add_arguments
from steno.app.commands.context import CommandContext, RunCommand
from steno.app.commands.report import FormattedText, Lines, Paragraph, Report, Table, is_list_item
from steno.app.commands.table import Command
from steno.cli.arguments import STORE, ExitStatus, Subparsers
from steno.cli.store_options import open_existing_store, progress_display
from steno.render.output import print_json
from steno.render.progress import show_activity
from steno.render.table_output import Column, StdoutPrinter, print_notice

_MAX_BAR_LENGTH: Final = 16
_BAR_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def add_report_command(command: Command, commands: Subparsers) -> None:
    """Add a command of the command table to the command line."""
    definition = command.load()
    parser = commands.add_parser(
        command.name,
        help=definition.help,
        description=definition.description,
        epilog=definition.epilog or None,
    )
    definition.add_to(parser, in_terminal=False)
    if definition.reads_store:
        add_arguments(parser, [STORE])
    parser.set_defaults(run=partial(run_report_command, definition.run))


def command_context(options: argparse.Namespace) -> CommandContext:
    """Return the context of a command on the command line."""
    return CommandContext(
        folder=Path(),
        open_store=partial(open_existing_store, options),
        show_progress=progress_display(),
        show_activity=show_activity,
        notify=print_notice,
        ask=_ask if sys.stdin.isatty() else None,
    )


def _ask(question: str, lines: Sequence[str]) -> bool:
    """Print lines and a question on stderr; return whether the answer is yes."""
    for line in lines:
        print(f"  {line}".rstrip(), file=sys.stderr)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def run_report_command(run: RunCommand, options: argparse.Namespace) -> int:
    """Run a command on the command line, print its report, and return the exit status."""
    result, as_json = run(command_context(options), options), vars(options).get("json", False)
    if isinstance(result, Report):
        return print_report(result, as_json=as_json)
    import asyncio  # noqa: PLC0415 - loading asyncio takes as long as loading steno

    async def wait() -> Report:
        return await result

    return print_report(asyncio.run(wait()), as_json=as_json)


def print_report(report: Report, *, as_json: bool = False) -> ExitStatus:
    """Print a report as text or as JSON, and return the exit status."""
    if as_json:
        for value in report.data:
            print_json(msgspec.json.encode(value))
    else:
        _print_content(report)
    for notice in report.notices:
        print_notice(notice)
    return ExitStatus.FAILED if report.is_failed else ExitStatus.OK


def _print_content(report: Report) -> None:
    printer = StdoutPrinter()
    was_item: bool | None = None
    for part in report.parts:
        if was_item is not None and not (was_item and is_list_item(part)):
            printer.line()
        was_item = is_list_item(part)
        match part:
            case Table():
                _print_table(printer, part)
            case Lines():
                for line in part.lines:
                    width = (printer.width or line.max_width) if line.is_cut else None
                    printer.line(*line.pieces, max_width=width)
            case Paragraph():
                printer.line(part.marker, *part.pieces)
            case FormattedText():
                for text_line in part.text.splitlines():
                    printer.line(text_line)
    if report.when_empty and not report.tables:
        print_notice(report.when_empty)


def _print_table(printer: StdoutPrinter, table: Table) -> None:
    if table.title:
        printer.line((table.title, "bold"))
        printer.line()
    columns, rows = table.complete_rows
    if printer.width is not None and table.details is not None:
        printer.table(table.columns, table.rows, below=dict(enumerate(table.details[1])))
    elif printer.width is not None and table.sizes and _can_draw_bars():
        bars = _draw_bars(table.sizes)
        bars += [""] * (len(rows) - len(bars))
        rows = [[*row, bar] for row, bar in zip(rows, bars, strict=True)]
        printer.table((*columns, Column("", "cyan")), rows)
    else:
        printer.table(columns, rows, below=table.below)
    if table.note:
        printer.line()
        printer.line(table.note)


# -- a small chart ---------------------------------------------------------------------------


def _can_draw_bars() -> bool:
    try:
        "█".encode(sys.stdout.encoding or "ascii")
    except UnicodeError:
        return False
    return True


def _draw_bars(sizes: Sequence[Decimal]) -> list[str]:
    largest = max(sizes) or Decimal(1)
    bars: list[str] = []
    for size in sizes:
        full, eighths = divmod(int(size / largest * _MAX_BAR_LENGTH * 8), 8)
        bars.append(("█" * full + _BAR_EIGHTHS[eighths]).rstrip())
    return bars
