"""`/export`: this branch as a file for people, or for another steno."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from typing import Final, NamedTuple

from steno.app.session_files import (
    DOCUMENT_FORMAT,
    encode_branch,
    restore_branch_blobs,
    session_omission,
    summarize_omissions,
)
from steno.app.session_log import SessionLog
from steno.app.session_state import CommandContext
from steno.errors import InvalidValue, Unavailable
from steno.ids import utc_now
from steno.messages.change import Change
from steno.render.items import TextForm
from steno.render.output import OutputError, write_file
from steno.render.quantities import format_count
from steno.render.session_events import CommandReply
from steno.render.terminal_text import terminal_line
from steno.render.transcripts import TRANSCRIPT_BY_SUFFIX, WRITE_ONLY
from steno.store import Store
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


class _ExportRequest(NamedTuple):
    """A parsed argument."""

    format_name: str
    file: str
    """Empty where none was named."""


async def run_export(context: CommandContext, argument: str) -> CommandReply:
    """Write the active branch to a new file: `[markdown|json|html] [FILE]`.

    Raises InvalidValue if the file exists or the format is unknown, Unavailable if it cannot be
    written.
    """
    return await asyncio.to_thread(_export_branch, context, _parse_export_argument(argument))


def _parse_export_argument(argument: str) -> _ExportRequest:
    format_name, _, rest = argument.strip().partition(" ")
    if format_name in _SUFFIX_BY_FORMAT:
        return _ExportRequest(format_name, _strip_quotes(rest.strip()))
    file = _strip_quotes(argument.strip())
    if not file:
        return _ExportRequest(_DEFAULT_FORMAT, "")
    found = _FORMAT_BY_SUFFIX.get(Path(file).suffix.lower())
    if found is None:
        raise InvalidValue(
            f"a file ends in {_SUFFIXES}; or name the format first: /export markdown FILE",
            code="unknown_format",
            place="export",
        )
    return _ExportRequest(found, file)


def _strip_quotes(text: str) -> str:
    """Return a name without the quotes that a shell needs."""
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if is_quoted else text


def _export_branch(context: CommandContext, request: _ExportRequest) -> CommandReply:
    store, session, branch = context.store, context.conversation.id, context.conversation.branch
    # Without a progress bar: the interface owns the screen.
    log = SessionLog(store.header(session), store.records(session))
    target = _target_file(context.folder, request, log)
    data, changes = _encode_export(store, log, branch, request.format_name)
    try:
        write_file(target, data + b"\n")
    except OutputError as exc:
        raise Unavailable(terminal_line(str(exc)), code="write_failed") from exc
    size = format_count(len(data) + 1, "byte", "bytes")
    lines = [f"written: {terminal_line(str(target))} ({size})"]
    if names := [omission.name for omission in summarize_omissions(changes, log)]:
        lines.append(_summarize_names(names, is_persistent=context.is_persistent))
    return CommandReply("\n".join(lines), title="export", form=TextForm.PLAIN)


def _summarize_names(names: Sequence[str], *, is_persistent: bool) -> str:
    """Return one line about the omitted parts, and the format that keeps everything."""
    shown = ", ".join(
        [*names[:_MAX_NAMED_LOSSES], *(["…"] if len(names) > _MAX_NAMED_LOSSES else [])]
    )
    hint = "; steno sessions export --format jsonl keeps everything" if is_persistent else ""
    return f"left out: {shown} ({format_count(len(names), 'kind', 'kinds')}){hint}"


def _encode_export(
    store: Store, log: SessionLog, branch: str, format_name: str
) -> tuple[bytes, list[Change]]:
    content = restore_branch_blobs(store, log.path(branch))
    format = DOCUMENT_FORMAT if format_name == _JSON_FORMAT else format_name
    exported = encode_branch(log, content.entries, format, branch=branch)
    branch_changes = [session_omission("only_this_branch")] if len(log.heads) > 1 else []
    return exported.data, [*branch_changes, *content.losses, *exported.losses]


# -- target file ------------------------------------------------------------------------------


def _target_file(folder: Path, request: _ExportRequest, log: SessionLog) -> Path:
    """Return the file to write, which is not there yet. Raises InvalidValue."""
    if not request.file:
        return _unused_file(folder, _file_stem(log), _SUFFIX_BY_FORMAT[request.format_name])
    try:
        target = (folder / Path(request.file).expanduser()).resolve()
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
