"""The commands of `steno sessions`: those of the command table, and export and import."""

from __future__ import annotations

import argparse
import codecs
import io
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, cast

import msgspec

from steno.app.commands.arguments import UsageError, add_arguments, argument, flag
from steno.app.commands.export import ARGUMENTS as EXPORT_ARGUMENTS
from steno.app.commands.export import (
    FORMATS_HELP,
    SESSION_FORMATS,
    export_session,
)
from steno.app.commands.sessions import ACTIONS, COMMAND, DEFAULTS, NAMED_SESSION
from steno.app.session_edit import check_session_id, clean_title
from steno.app.session_import import (
    ImportedFile,
    add_session_file,
    read_session_file,
)
from steno.app.session_lookup import open_store_at
from steno.cli.arguments import STORE, ExitStatus, GroupCommand, Subparsers, add_group
from steno.cli.report_command import command_context, run_report_command
from steno.cli.store_options import store_address
from steno.codec.canonical_json import CodecWarning
from steno.errors import Conflict, InvalidDocument, InvalidValue
from steno.formats import detect_format
from steno.regular_file import open_input
from steno.render.output import STDOUT, print_json, print_line, report_write_errors
from steno.render.progress import show_activity, show_progress
from steno.render.quantities import format_count
from steno.render.table_output import print_notice
from steno.render.terminal_text import (
    terminal_json,
    terminal_line,
    terminal_text,
    truncate_to_width,
)
from steno.render.transcripts import TRANSCRIPT_BY_SUFFIX, WRITE_ONLY

_IMPORT_FORMATS: Final = tuple([name for name in SESSION_FORMATS if name not in WRITE_ONLY])
_UNDETECTED: Final = ("unknown_format", "invalid_version")
"""The codes of errors about files whose format is not detected."""
_MAX_SHOWN_ID: Final = 80
_MAX_IMPORT_BYTES: Final = 1024**3
_ID_PROBLEMS: Final = {
    "session_exists": "is taken",
    "invalid_session_id": "is not valid",
}
"""The text for each `ImportedFile.id_problem`."""
_WARNINGS: Final = {
    "unknown_part": "content {} cannot be read; it is kept unchanged, and no model receives it",
    "unknown_entry": "an entry {} cannot be read; it is kept unchanged, and no model receives it",
    "unknown_members": "unknown members are kept unchanged",
    "empty_text": "an empty text is kept, and no model receives it",
    "invalid_call": "a tool call is kept, but cannot run",
    "arguments_as_text": "the arguments of a tool call are converted to text",
    "surrogates_replaced": "halves of surrogate pairs are replaced by U+FFFD",
}
"""The text for each `CodecWarning.code`; `{}` is the type of the part."""
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


def _read_file(name: str) -> bytes:
    with open_input(name) as file:
        data = file.read(_MAX_IMPORT_BYTES + 1)
    if len(data) > _MAX_IMPORT_BYTES:
        raise InvalidDocument(
            f"must not be larger than {_MAX_IMPORT_BYTES:,} bytes",
            code="input_too_large",
            place=terminal_text(name),
        )
    return data


def _import_session(options: argparse.Namespace) -> int:
    """Add a session from a file to the store, and print its ID."""
    if options.format is not None:
        _check_format(options.format)
    if options.id is not None:
        _check_id(options.id)
    title = None if options.title is None else clean_title(options.title, place="--title")
    data = _read_stdin() if options.file == "-" else _read_file(options.file)
    data = data.removeprefix(codecs.BOM_UTF8)
    place = "stdin" if options.file == "-" else terminal_text(options.file)
    name = options.format or _detect_format(data, place)
    try:
        with show_activity("reading the file"):
            session = read_session_file(data, name)
    except InvalidValue as exc:
        raise InvalidDocument(str(exc), code=exc.code, place=place) from exc
    with open_store_at(store_address(options)) as store:
        try:
            imported = add_session_file(
                store, session, id=options.id, title=title, show_progress=show_progress
            )
        except Conflict as exc:
            raise Conflict(
                "a session with this ID already exists; choose another",
                code=exc.code,
                place="--id",
            ) from exc
    count = len(session.records)
    if options.json:
        report = {
            "id": imported.id,
            "replaced_id": imported.replaced_id,
            "added": imported.is_added,
            "has_content": imported.has_content,
            "records": count,
            "format": name,
        }
        print_json(msgspec.json.encode(report))
    else:
        print_line(terminal_line(imported.id))
    records = format_count(count, "record", "records")
    if imported.is_added:
        for line in _describe_warnings(session.warnings):
            print_notice(f"{place}: {line}")
    for line in _import_notices(imported, records, name, has_title=title is not None):
        print_notice(line)
    return ExitStatus.OK


def _describe_warnings(warnings: Iterable[CodecWarning]) -> Iterator[str]:
    """Yield a line for each kind of warning, with the first place and the number of the others."""
    places: dict[tuple[str, str], list[str]] = {}
    for place, code, kind in warnings:
        places.setdefault((code, kind), []).append(place)
    for (code, kind), found in places.items():
        of_type = f'of the type "{truncate_to_width(terminal_line(kind), _MAX_SHOWN_ID)}"'
        text = _WARNINGS.get(code, code.replace("_", " ")).format(
            of_type if kind else "without a type"
        )
        others = f" (and {len(found) - 1:,} more)" if len(found) > 1 else ""
        yield f"{found[0]}: {text}{others}" if found[0] else f"{text}{others}"


def _import_notices(
    imported: ImportedFile, count: str, format: str, *, has_title: bool
) -> Iterator[str]:
    id = terminal_line(imported.id)
    if not imported.is_added:
        content = (
            "already has the content of this file"
            if imported.has_content
            else "has the entries of this file, but no longer all of their content"
        )
        yield f"session {id} {content} (format {format}); nothing was added (--id adds a copy)"
        if has_title:
            yield f"--title: not used; run `steno sessions rename {id} TITLE` to change the title"
        return
    if imported.id_problem is not None:
        replaced = truncate_to_width(terminal_line(imported.replaced_id or ""), _MAX_SHOWN_ID)
        yield (
            f"the ID in the file, {replaced}, {_ID_PROBLEMS[imported.id_problem]}; the session has "
            f"the ID {id}"
        )
    yield f"imported {count} (format {format})"
    if not imported.has_content:
        yield "the file and the store lack the bytes of some images or long results of the session"


def _check_format(name: str) -> None:
    """Raise UsageError if no file of the format can be imported."""
    if name in WRITE_ONLY:
        raise UsageError(_describe_write_only(name), code="format_write_only", place="--format")
    if name not in _IMPORT_FORMATS:
        shown = truncate_to_width(terminal_line(name), _MAX_SHOWN_ID)
        raise UsageError(
            f"must be one of {', '.join(_IMPORT_FORMATS)}, not {shown}",
            code="not_a_choice",
            place="--format",
        )


def _detect_format(data: bytes, place: str) -> str:
    """Return the format of a file. Raises InvalidDocument if it is unknown."""
    try:
        return detect_format(data)
    except InvalidValue as exc:
        written = TRANSCRIPT_BY_SUFFIX.get(Path(place).suffix)
        if written is not None:
            raise InvalidDocument(
                _describe_write_only(written), code="format_write_only", place=place
            ) from exc
        text = exc.text_unless_at("file")
        if exc.code in _UNDETECTED:
            text += f"; name the format with --format ({', '.join(_IMPORT_FORMATS)})"
        raise InvalidDocument(text, code=exc.code, place=place) from exc


def _describe_write_only(format: str) -> str:
    return (
        f"{format} can only be exported, not imported; export the session in another "
        f"format ({', '.join(_IMPORT_FORMATS)})"
    )


def _check_id(id: str) -> None:
    try:
        check_session_id(id)
    except InvalidValue as exc:
        raise UsageError(exc.message, code=exc.code, place="--id") from exc


def _read_stdin() -> bytes:
    """Read stdin to its end in chunks, so that Ctrl-C is handled between two reads."""
    buffer, chunks = cast("io.BufferedReader", sys.stdin.buffer), list[bytes]()
    while chunk := buffer.read1(1 << 16):
        chunks.append(chunk)
    return b"".join(chunks)


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
        "Add a session from a file and print its ID. The session keeps the ID in the file unless "
        "it is taken. A file whose content the store already has is not added again. "
        "If the file is invalid, nothing is added.",
        (
            argument("file", metavar="FILE", help="the file to read; - for stdin"),
            argument(
                "--format",
                metavar="F",
                help=f"{FORMATS_HELP} (default: detected)",
            ),
            argument("--title", metavar="T", help="set the title of the session"),
            argument(
                "--id",
                metavar="ID",
                help="add the session with this ID, even if the store has the content of the file",
            ),
            flag("--json", help="print the result as one JSON object"),
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
