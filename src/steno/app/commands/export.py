"""`/export`: this branch as a file for people, or for another steno."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from typing import Final

from steno.app.commands.arguments import argument
from steno.app.commands.context import CommandContext, CommandDefinition
from steno.app.commands.report import Report
from steno.app.session_files import (
    DOCUMENT_FORMAT,
    encode_branch,
    restore_branch_blobs,
    session_omission,
    summarize_omissions,
)
from steno.app.session_log import SessionLog
from steno.errors import InvalidValue, Unavailable
from steno.ids import utc_now
from steno.render.items import TextForm
from steno.render.output import OutputError, write_file
from steno.render.quantities import format_count
from steno.render.terminal_text import terminal_line
from steno.render.transcripts import TRANSCRIPT_BY_SUFFIX, WRITE_ONLY
from steno.store.base import derive_title

_JSON_FORMAT: Final = "json"
_SUFFIX_BY_FORMAT: Final = {
    **{name: format.suffixes[0] for name, format in WRITE_ONLY.items()},
    _JSON_FORMAT: ".json",
}
"""The suffix of each format."""
_FORMAT_BY_SUFFIX: Final = {**TRANSCRIPT_BY_SUFFIX, ".json": _JSON_FORMAT}
"""The format of each suffix."""
*_FIRST_SUFFIXES, _LAST_SUFFIX = _SUFFIX_BY_FORMAT.values()
_SUFFIXES: Final = f"{', '.join(_FIRST_SUFFIXES)} or {_LAST_SUFFIX}"
_DEFAULT_FORMAT: Final = "markdown"
_UNSAFE_IN_NAME: Final = re.compile(r"[\W_]+")
_MAX_STEM_LENGTH: Final = 50
_MAX_NAMED_LOSSES: Final = 3


_ARGUMENTS: Final = (
    argument("--format", choices=tuple(_SUFFIX_BY_FORMAT), default=_DEFAULT_FORMAT),
    argument("file", nargs="?", default="", metavar="FILE"),
)


def _split_typed(text: str) -> list[str]:
    """Turn `[markdown|json|html] [FILE]` into arguments. Raises InvalidValue."""
    first, _, rest = text.partition(" ")
    if first == "--format":
        first, _, rest = rest.strip().partition(" ")
    if first in _SUFFIX_BY_FORMAT:
        return ["--format", first, "--", _strip_quotes(rest.strip())]
    file = _strip_quotes(text)
    if not file:
        return []
    found = _FORMAT_BY_SUFFIX.get(Path(file).suffix.lower())
    if found is None:
        raise InvalidValue(
            f"a file ends in {_SUFFIXES}; or name the format first: /export markdown FILE",
            code="unknown_format",
            place="export",
        )
    return ["--format", found, "--", file]


def _strip_quotes(text: str) -> str:
    """Return a name without the quotes that a shell needs."""
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if is_quoted else text


def _run_export(context: CommandContext, options: argparse.Namespace) -> Report:
    """Write the active branch to a new file.

    Raises InvalidValue if the file exists or the format is unknown, Unavailable if it cannot be
    written.
    """
    assert context.session is not None
    conversation = context.session.state.conversation
    with context.open_store() as store:
        log = SessionLog.read(store, conversation.id)
        target = _target_file(context.folder, options, log)
        content = restore_branch_blobs(store, log.path(conversation.branch))
    format = DOCUMENT_FORMAT if options.format == _JSON_FORMAT else options.format
    exported = encode_branch(log, content.entries, format, branch=conversation.branch)
    branch_changes = [session_omission("only_this_branch")] if len(log.heads) > 1 else []
    try:
        write_file(target, exported.data + b"\n")
    except OutputError as exc:
        raise Unavailable(terminal_line(str(exc)), code="write_failed") from exc
    size = format_count(len(exported.data) + 1, "byte", "bytes")
    lines = [f"written: {terminal_line(str(target))} ({size})"]
    changes = [*branch_changes, *content.losses, *exported.losses]
    if names := [omission.name for omission in summarize_omissions(changes, log)]:
        lines.append(_summarize_names(names, is_persistent=context.is_persistent))
    return Report("\n".join(lines), title="export", form=TextForm.PLAIN)


COMMAND: CommandDefinition = CommandDefinition(_run_export, _ARGUMENTS, _split_typed)
"""`/export`; `steno sessions export` has more formats, and options of its own."""


def _summarize_names(names: Sequence[str], *, is_persistent: bool) -> str:
    """Return one line about the omitted parts, and the format that keeps everything."""
    shown = ", ".join(
        [*names[:_MAX_NAMED_LOSSES], *(["…"] if len(names) > _MAX_NAMED_LOSSES else [])]
    )
    hint = "; steno sessions export --format jsonl keeps everything" if is_persistent else ""
    return f"left out: {shown} ({format_count(len(names), 'kind', 'kinds')}){hint}"


# -- target file ------------------------------------------------------------------------------


def _target_file(folder: Path, options: argparse.Namespace, log: SessionLog) -> Path:
    """Return the file to write, which is not there yet. Raises InvalidValue."""
    if not options.file:
        return _unused_file(folder, _file_stem(log), _SUFFIX_BY_FORMAT[options.format])
    try:
        target = (folder / Path(options.file).expanduser()).resolve()
        exists = target.exists()
    except (RuntimeError, OSError, ValueError) as exc:  # no home, a loop of links, a NUL
        raise InvalidValue(
            "no file can have this name; choose another", code="invalid_file_name", place="export"
        ) from exc
    if exists:
        place = terminal_line(str(target))
        if target.is_dir():
            raise InvalidValue("it is a folder; name a file in it", code="is_a_folder", place=place)
        raise InvalidValue(
            "it is there already; choose another name, or name none",
            code="file_exists",
            place=place,
        )
    return target


def _file_stem(log: SessionLog) -> str:
    """Return the name of the file: the date, and the title of the session."""
    day = f"{log.header.created_at or utc_now():%Y-%m-%d}"
    title = log.header.title or derive_title(log.entries.values())
    name = _UNSAFE_IN_NAME.sub("-", title.lower())[:_MAX_STEM_LENGTH].strip("-")
    return f"{day}-{name or 'session'}"


def _unused_file(folder: Path, stem: str, suffix: str) -> Path:
    names = chain([stem], (f"{stem}-{number}" for number in count(2)))
    return next(file for name in names if not (file := folder / f"{name}{suffix}").exists())
