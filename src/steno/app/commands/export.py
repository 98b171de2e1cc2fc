"""Write a session to a file: `/export`, and `steno sessions export`."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Final, NamedTuple

from steno.app.commands.arguments import BRANCH, SESSION, argument, check_target, flag, split_words
from steno.app.commands.context import CommandContext, CommandDefinition
from steno.app.commands.report import Report, text_report
from steno.app.errors import UsageError
from steno.app.session_files import (
    DOCUMENT_FORMAT,
    LINES_FORMAT,
    SESSION_FORMATS,
    encode_as_lines,
    encode_branch,
    omissions_as_json,
    restore_branch_blobs,
    session_omission,
    summarize_omissions,
)
from steno.app.session_log import SessionLog
from steno.errors import InvalidValue, Unavailable
from steno.formats import ExportedFile
from steno.ids import utc_now
from steno.messages.change import Change
from steno.render.items import TextForm
from steno.render.output import OutputError, is_shared_target, write_file
from steno.render.terminal_text import terminal_line
from steno.render.transcripts import TRANSCRIPT_BY_SUFFIX, WRITE_ONLY
from steno.store import Store
from steno.store.base import derive_title

FORMATS_HELP: Final = "steno (one branch in one document), jsonl (all of the session with its digests), audit, session, rows, chat"
_SUFFIX_BY_FORMAT: Final = {
    DOCUMENT_FORMAT: ".json",
    LINES_FORMAT: ".jsonl",
    **{name: transcript.suffixes[0] for name, transcript in WRITE_ONLY.items()},
}
_FORMAT_BY_SUFFIX: Final = {
    ".json": DOCUMENT_FORMAT,
    ".jsonl": LINES_FORMAT,
    **TRANSCRIPT_BY_SUFFIX,
}
_TYPED_FORMATS: Final = {"json": DOCUMENT_FORMAT, **{name: name for name in SESSION_FORMATS}}
"""The formats by their names in a terminal."""
_FLAGS: Final = ("--force", "--quiet", "--strict")
_NAMING_OPTIONS: Final = ("--format", "--output", "-o", "-h", "--help")
"""Options that say what is written, or explain that."""
_DEFAULT_TYPED_FORMAT: Final = "markdown"
_SUFFIXES: Final = tuple(_SUFFIX_BY_FORMAT.values())
_UNSAFE_IN_NAME: Final = re.compile(r"[\W_]+")
_MAX_STEM_LENGTH: Final = 50

ARGUMENTS: Final = (
    argument(
        "--format",
        choices=SESSION_FORMATS,
        metavar="F",
        help=f"{FORMATS_HELP}, or, for people and never read back, {', '.join(WRITE_ONLY)}; "
        f"else what FILE ends in says ({', '.join(_SUFFIXES)}), or steno",
    ),
    BRANCH,
    argument("-o", "--output", metavar="FILE", help="write there, not to stdout"),
    flag("--force", help="write over a file that is there"),
    flag("--strict", help="exit with 3 if anything was lost"),
    argument("--report", metavar="FILE", help="write all losses there, as a JSON array"),
    flag("--quiet", help="do not tell what was lost"),
)


class ExportedSession(NamedTuple):
    """A session in another format."""

    notice: str
    """The file that was written; empty if none was."""
    omissions: tuple[str, ...]
    """A line for each kind of content that the format does not hold."""
    is_complete: bool


def export_session(
    context: CommandContext,
    options: argparse.Namespace,
    write_stdout: Callable[[bytes], None] | None = None,
) -> ExportedSession:
    """Encode a session, and write it to the file that the options name, else to stdout.

    Where there is no stdout, it is written to a new file. Raises InvalidValue if there is a file already,
    UsageError if options do not fit each other, OutputError if nothing can be written.
    """
    target = None if options.output in (None, "-") else _resolve_target(context, options.output)
    report = None if options.report is None else _resolve_target(context, options.report)
    if report is not None and report == target:
        raise UsageError(
            "it is the file of the session; choose another name",
            code="report_replaces_file",
            place="--report",
        )
    files = [file for file in (target, report) if file is not None]
    _check_targets(files, may_replace=options.force)
    suffix = Path(options.output or "").suffix.lower()
    format = options.format or _FORMAT_BY_SUFFIX.get(suffix, DOCUMENT_FORMAT)
    with context.open_store() as store:
        session = context.find_session(store, options.session)
        log = SessionLog.read(store, session, context.show_progress)
        exported = _encode(context, store, log, format, options.branch)
    if target is None and write_stdout is None:
        target = _unused_file(
            context.folder, _file_stem(log), _SUFFIX_BY_FORMAT.get(format, ".json")
        )
    _check_targets(files, may_replace=options.force)
    write = write_stdout if target is None else partial(write_file, target)
    assert write is not None
    write(exported.data + b"\n")
    if report is not None:
        write_file(report, omissions_as_json(exported.losses, log) + b"\n")
    name = terminal_line(options.output or str(target))
    return ExportedSession(
        f"written: {name} (format {format})" if target is not None else "",
        tuple([kind.line for kind in summarize_omissions(exported.losses, log)]),
        is_complete=not exported.losses,
    )


def _encode(
    context: CommandContext, store: Store, log: SessionLog, format: str, branch: str | None
) -> ExportedFile:
    """Encode a session in a format. Raises UsageError if the format does not fit the options."""
    if format == LINES_FORMAT:
        if branch is not None:
            raise UsageError(
                "jsonl holds all branches; leave it out, or choose a --format",
                code="format_holds_all_branches",
                place="--branch",
            )
        return encode_as_lines(log)
    losses: tuple[Change, ...] = ()
    if branch is None:
        branch = context.open_branch_of(log.header.id)
        if len(log.heads) > 1:
            name = "only_active_branch" if branch is None else "only_this_branch"
            losses = (session_omission(name),)
    path = log.path(branch)
    with context.show_progress("gathering entries", len(path)) as progress:
        content = restore_branch_blobs(store, progress.track(path))
    with context.show_activity("writing the file"):
        exported = encode_branch(log, content.entries, format, branch=branch)
    return ExportedFile(exported.data, (*losses, *content.losses, *exported.losses))


# -- target file ------------------------------------------------------------------------------


def _resolve_target(context: CommandContext, name: str) -> Path:
    """Return the file of a name. Raises InvalidValue."""
    try:
        target = context.folder / name
        return target if is_shared_target(target) else Path(os.path.realpath(target))
    except (OSError, ValueError) as exc:  # a loop of links, a NUL
        raise _invalid_file_name() from exc


def _invalid_file_name() -> InvalidValue:
    return InvalidValue(
        "no file can have this name; choose another", code="invalid_file_name", place="export"
    )


def _check_targets(targets: Iterable[Path], *, may_replace: bool) -> None:
    for target in targets:
        check_target(target, may_replace=may_replace)
        if target.is_dir() and not is_shared_target(target):
            raise InvalidValue(
                "it is not a file; choose another name", code="not_a_file", place=str(target)
            )


def _file_stem(log: SessionLog) -> str:
    """Return the name of the file: the date, and the title of the session."""
    day = f"{log.header.created_at or utc_now():%Y-%m-%d}"
    title = log.header.title or derive_title(log.entries.values())
    name = _UNSAFE_IN_NAME.sub("-", title.lower())[:_MAX_STEM_LENGTH].strip("-")
    return f"{day}-{name or 'session'}"


def _unused_file(folder: Path, stem: str, suffix: str) -> Path:
    names = chain([stem], (f"{stem}-{number}" for number in count(2)))
    return next(file for name in names if not (file := folder / f"{name}{suffix}").exists())


# -- in a terminal ----------------------------------------------------------------------------


def _split_typed(text: str) -> list[str]:
    """Turn `[FORMAT] [FILE] [OPTIONS]` into options. Raises InvalidValue.

    A file name before the options, or after flags, may have blanks in it.
    """
    flags: list[str] = []
    while (first := text.split(" ", 1)[0]) in _FLAGS:
        flags.append(first)
        text = text.removeprefix(first).strip()
    named, dash, rest = f" {text}".partition(" -")
    options = flags + (split_words(f"-{rest}") if dash else [])
    if not named.strip() and any(word.startswith(_NAMING_OPTIONS) for word in options):
        return options
    first, _, file = named.strip().partition(" ")
    if first not in _TYPED_FORMATS:
        first, file = "", named.strip()
    file = _strip_quotes(file.strip())
    if first:
        format = _TYPED_FORMATS[first]
    else:
        format = _typed_suffix_format(file) if file else _DEFAULT_TYPED_FORMAT
    try:
        output = [f"--output={Path(file).expanduser()}"] if file else []
    except RuntimeError as exc:  # there is no such home
        raise _invalid_file_name() from exc
    return ["--format", format, *output, *options]


def _typed_suffix_format(file: str) -> str:
    """Return the format that the name of a file has. Raises InvalidValue."""
    format = _FORMAT_BY_SUFFIX.get(Path(file).suffix.lower())
    if format is None:
        raise InvalidValue(
            f"a file ends in {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}; "
            "or name the format first: /export markdown FILE",
            code="unknown_format",
            place="export",
        )
    return format


def _strip_quotes(text: str) -> str:
    """Return a name without the quotes that a shell needs."""
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if is_quoted else text


def _run_export(context: CommandContext, options: argparse.Namespace) -> Report:
    try:
        exported = export_session(context, options)
    except OutputError as exc:
        raise Unavailable(terminal_line(str(exc)), code="write_failed") from exc
    lines = [exported.notice, *exported.omissions]
    return text_report("\n".join(lines), "export", TextForm.PLAIN)


COMMAND: CommandDefinition = CommandDefinition(_run_export, (SESSION, *ARGUMENTS), _split_typed)
