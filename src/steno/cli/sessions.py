"""The commands of `steno sessions`: those of the command table, and export and import."""

from __future__ import annotations

import argparse
import codecs
import io
import sys
from functools import partial
from pathlib import Path
from typing import Final, cast

from msgspec.structs import replace

from steno.app.commands.arguments import UsageError, add_arguments, argument
from steno.app.commands.export import ARGUMENTS as EXPORT_ARGUMENTS
from steno.app.commands.export import (
    DOCUMENT_FORMAT,
    FORMATS_HELP,
    LINES_FORMAT,
    SESSION_FORMATS,
    export_session,
    read_session_file,
    store_large_content,
    with_unused_id,
)
from steno.app.commands.sessions import ACTIONS, COMMAND, DEFAULTS, NAMED_SESSION
from steno.app.session_edit import clean_title
from steno.app.session_lookup import FOLDER_KEY, open_store_at
from steno.cli.arguments import STORE, ExitStatus, GroupCommand, Subparsers, add_group
from steno.cli.report_command import command_context, run_report_command
from steno.cli.store_options import store_address
from steno.errors import Conflict, InvalidDocument, InvalidValue
from steno.formats import detect_format
from steno.ids import utc_now
from steno.records.stored_record import Header
from steno.render.output import STDOUT, report_write_errors
from steno.render.progress import show_activity, show_progress
from steno.render.quantities import format_count
from steno.render.table_output import print_notice
from steno.render.terminal_text import terminal_json, terminal_line, terminal_text
from steno.render.transcripts import WRITE_ONLY

_AFTER: Final = "search"
"""The command after which help lists `export` and `import`."""


def _export_session(options: argparse.Namespace) -> int:
    """Write a session to a file or to stdout, and return the exit status."""

    def write_stdout(data: bytes) -> None:
        with report_write_errors(STDOUT):
            sys.stdout.buffer.write(terminal_json(data) if sys.stdout.isatty() else data)

    exported = export_session(command_context(options), options, write_stdout)
    if not options.quiet:
        if exported.notice:
            print_notice(exported.notice)
        for line in exported.omissions:
            print(line, file=sys.stderr)
    return ExitStatus.INCOMPLETE if options.strict and not exported.is_complete else ExitStatus.OK


def _import_session(options: argparse.Namespace) -> int:
    """Add a session from a file to the store, and print its ID."""
    if options.format in WRITE_ONLY:
        readable = ", ".join([name for name in SESSION_FORMATS if name not in WRITE_ONLY])
        raise UsageError(
            f"{options.format} can only be exported, not imported; export the session in another "
            f"format ({readable})",
            code="format_write_only",
            place="--format",
        )
    data = _read_stdin() if options.file == "-" else Path(options.file).read_bytes()
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        name = options.format or detect_format(data)
        with show_activity("reading the file"):
            session = read_session_file(data, name)
    except InvalidValue as exc:
        place = "stdin" if options.file == "-" else terminal_text(options.file)
        raise InvalidDocument(str(exc), code=exc.code, place=place) from exc
    with open_store_at(store_address(options)) as store:
        header, records = session.header, session.records
        if name == DOCUMENT_FORMAT:
            header = with_unused_id(store, header)
        header = _apply_import_options(header, options)
        if name != LINES_FORMAT:
            with show_activity("preparing records"):
                records = store_large_content(store, records)
        try:
            with show_progress("adding records", len(records)) as progress:
                store.add_session(header, progress.track(records))
        except Conflict as exc:
            raise Conflict(
                "a session with this ID already exists; choose another with --id",
                code="session_exists",
                place="import",
            ) from exc
    print(terminal_line(header.id))
    count = format_count(len(records), "record", "records")
    print_notice(f"imported {count} (format {name})")
    return ExitStatus.OK


def _read_stdin() -> bytes:
    """Read stdin to its end in chunks, so that Ctrl-C is handled between two reads."""
    buffer, chunks = cast("io.BufferedReader", sys.stdin.buffer), list[bytes]()
    while chunk := buffer.read1(1 << 16):
        chunks.append(chunk)
    return b"".join(chunks)


def _apply_import_options(header: Header, options: argparse.Namespace) -> Header:
    """Return the header with the ID and the title from the options, and without its folder.

    A header without a creation time gets the current time.
    """
    if options.id is not None and options.id != header.id:
        header = replace(header, id=options.id)
    if options.title is not None:
        header = replace(header, title=clean_title(options.title, place="--title"))
    if header.about is not None and FOLDER_KEY in header.about:
        # Otherwise, `steno -c` could continue an imported session whose folder also exists here.
        about = {name: value for name, value in header.about.items() if name != FOLDER_KEY}
        header = replace(header, about=about or None)
    return header if header.created_at is not None else replace(header, created_at=utc_now())


_FILE_COMMANDS: Final = (
    GroupCommand(
        "export",
        _export_session,
        "write a session to a file",
        "Write a session to stdout or to a file, in one of several formats. Content that the "
        "format cannot represent is listed on stderr, one line per kind.",
        (NAMED_SESSION, *EXPORT_ARGUMENTS),
    ),
    GroupCommand(
        "import",
        _import_session,
        "add a session from a file",
        "Add a session from a file and print its ID. If the file is invalid, nothing is added.",
        (
            argument("file", metavar="FILE", help="the file to read; - for stdin"),
            argument(
                "--format",
                choices=SESSION_FORMATS,
                metavar="F",
                help=f"{FORMATS_HELP} (default: detected)",
            ),
            argument("--title", metavar="T", help="set the title of the session"),
            argument("--id", metavar="ID", help="set the ID of the session"),
        ),
    ),
)


def add_commands(commands: Subparsers) -> None:
    """Add the group to the command line."""
    actions: list[GroupCommand] = []
    for action in ACTIONS:
        run = partial(run_report_command, action.run)
        actions.append(
            GroupCommand(action.name, run, action.help, action.description, action.arguments)
        )
        if action.name == _AFTER:
            actions += _FILE_COMMANDS
    group = add_group(
        commands,
        "sessions",
        [action._replace(arguments=(*action.arguments, STORE)) for action in actions],
        is_required=False,
        help=COMMAND.help,
        description=COMMAND.description,
        epilog=COMMAND.epilog,
    )
    add_arguments(group, [STORE])
    group.set_defaults(run=partial(run_report_command, COMMAND.run), **DEFAULTS)
