"""`/export`: this branch as a file for people, or for another steno."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from typing import Final, NamedTuple

from steno.cli.desk.scene import Scene
from steno.cli.exchange import DOCUMENT, encode_branch, gather
from steno.cli.log import Log
from steno.cli.lossy import located, summary_of
from steno.cli.output import Unwritable, write_file
from steno.errors import InvalidValue, Unavailable
from steno.formats import PAPERS, Loss
from steno.identity import utc_now
from steno.printable import counted, on_one_line
from steno.store import Store
from steno.store.store import title_of
from steno.tui.block import Form
from steno.tui.desk import Reply

_JSON: Final = "json"
_SUFFIXES: Final = {name: paper.extension for name, paper in PAPERS.items()} | {_JSON: ".json"}
"""What the file of each format ends in, by the word for it."""
_WORDS: Final = {suffix: word for word, suffix in _SUFFIXES.items()} | {
    ".markdown": "markdown",
    ".htm": "html",
}
"""The format that is meant by what a file ends in."""
_USUAL: Final = "markdown"
_NOT_IN_NAME: Final = re.compile(r"[\W_]+")
_LONGEST_NAME: Final = 50
_MOST_NAMED: Final = 3
_KIND: Final = re.compile(r"^session: |(?<=: )left out: |(?:: left out)? \([^)]*#[^)]*\)$")
"""What stands around the name of a kind of loss."""


class _Wanted(NamedTuple):
    """What somebody asked for."""

    format_name: str
    file: str
    """Empty where none was named."""


async def export(scene: Scene, argument: str) -> Reply:
    """Write the active branch to a file, which must not be there: `[markdown|json|html] [FILE]`.

    Raises InvalidValue if the file is there or nobody knows the format, Unavailable if nothing can
    be written.
    """
    return await asyncio.to_thread(_export, scene, _read(argument))


def _read(argument: str) -> _Wanted:
    word, _, rest = argument.strip().partition(" ")
    if word in _SUFFIXES:
        return _Wanted(word, _unquoted(rest.strip()))
    file = _unquoted(argument.strip())
    if not file:
        return _Wanted(_USUAL, "")
    found = _WORDS.get(Path(file).suffix.lower())
    if found is None:
        raise InvalidValue(
            "export: a file ends in .md, .html or .json; or name the format first: "
            "/export markdown FILE"
        )
    return _Wanted(found, file)


def _unquoted(text: str) -> str:
    """Return a name without the quotes that a shell would want around it."""
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if is_quoted else text


def _export(scene: Scene, wanted: _Wanted) -> Reply:
    store, session, branch = scene.store, scene.conversation.id, scene.conversation.branch
    # Read from the store, and without a bar for how far that is: the screen belongs to a face.
    log = Log(store.header(session), store.records(session))
    target = _target(scene.folder, wanted, log)
    data, losses = _written(store, log, branch, wanted.format_name)
    try:
        write_file(target, data + b"\n")
    except Unwritable as exc:
        raise Unavailable(on_one_line(str(exc))) from exc
    size = counted(len(data) + 1, "byte", "bytes")
    lines = [f"written: {on_one_line(str(target))} ({size})"]
    if kinds := list(summary_of(located(losses, log.path(branch)), log)):
        lines.append(_left_out(kinds, is_kept=scene.is_persistent))
    return Reply("\n".join(lines), title="export", form=Form.PLAIN)


def _left_out(kinds: Sequence[str], *, is_kept: bool) -> str:
    """Say on one line what the file does not hold, and what would hold all of it."""
    names = [_KIND.sub("", kind) for kind in kinds]
    shown = ", ".join([*names[:_MOST_NAMED], *(["…"] if len(names) > _MOST_NAMED else [])])
    all_of_it = "; steno sessions export --format jsonl keeps everything" if is_kept else ""
    return f"left out: {shown} ({counted(len(kinds), 'kind', 'kinds')}){all_of_it}"


def _written(store: Store, log: Log, branch: str, word: str) -> tuple[bytes, list[Loss]]:
    gathered = gather(store, log.path(branch))
    format = DOCUMENT if word == _JSON else word
    exported = encode_branch(log, gathered.entries, format, branch=branch)
    others = [Loss("session", "only this branch is in the file")] if len(log.heads) > 1 else []
    return exported.data, [*others, *gathered.losses, *exported.losses]


# -- where to ----------------------------------------------------------------------------------


def _target(folder: Path, wanted: _Wanted, log: Log) -> Path:
    """Return the file to write, which is not there yet. Raises InvalidValue."""
    if not wanted.file:
        return _free_name(folder, _stem(log), _SUFFIXES[wanted.format_name])
    try:
        target = (folder / Path(wanted.file).expanduser()).resolve()
        is_there = target.exists()
    except (RuntimeError, OSError, ValueError) as exc:  # no home, a loop of links, a NUL
        raise InvalidValue("export: no file can have this name; choose another") from exc
    if is_there:
        there = "it is there already; choose another name, or name none"
        rule = "it is a folder; name a file in it" if target.is_dir() else there
        raise InvalidValue(f"{on_one_line(str(target))}: {rule}")
    return target


def _stem(log: Log) -> str:
    """Return what to call the file: the day, and what lists show of the session."""
    day = f"{log.header.created_at or utc_now():%Y-%m-%d}"
    title = log.header.title or title_of(log.entries.values())
    name = _NOT_IN_NAME.sub("-", title.lower())[:_LONGEST_NAME].strip("-")
    return f"{day}-{name or 'session'}"


def _free_name(folder: Path, stem: str, suffix: str) -> Path:
    names = chain([stem], (f"{stem}-{number}" for number in count(2)))
    return next(file for name in names if not (file := folder / f"{name}{suffix}").exists())
