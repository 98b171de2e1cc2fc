"""Which files and folders may be meant by what was typed behind an `@`.

The same is left out as where models search: what is hidden, and what `.gitignore` and its like
name; and what compilers have written, of which nobody reads a word. What is offered reads in a prompt as just that file (`steno.inputs.mentions`).
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from heapq import nsmallest
from pathlib import Path
from typing import Final, NamedTuple

from steno.cli.desk.remembered import Remembered
from steno.errors import ToolFailed
from steno.tools.globs import names_hidden
from steno.tools.ignore import Ignored
from steno.tools.ripgrep import engine_for
from steno.tools.search import read_rules
from steno.tools.workspace import Workspace
from steno.tui.desk import Candidate

MOST: Final = 50
"""How many are offered at once."""
_MOST_NAMES: Final = 100_000
_LIMIT_S: Final = 5.0
"""How long a tree is looked through; one that takes longer is shown folder by folder."""
_HOLDS_S: Final = 5.0
_PATIENCE_S: Final = 2.0
_HOME: Final = "~/"
_COMPILED: Final = re.compile(
    r"(?:^|/)__pycache__(?:/|$)|\.(?:py[cod]|class|o|obj|a|lib|so|dylib|dll|exe|wasm)$"
)
_PLAIN: Final = re.compile(r"(?!@)[\w./+@%=~#&$-]*[\w/+%=~#&$-]")
"""What needs no quotes; a dot at the end would be taken for that of the sentence."""


class _Name(NamedTuple):
    text: str
    """As the workspace spells it; that of a folder ends with a slash."""
    folded: str
    steps: tuple[str, ...]
    """The steps of the path, folded."""


async def fitting_files(workspace: Workspace, typed: str) -> list[Candidate]:
    """Return files and folders by what was typed behind the `@`, the likeliest first."""
    quote = typed[:1] if typed[:1] in ('"', "'") else ""
    wanted = typed[len(quote) :].removesuffix(quote) if quote else typed.replace("\\ ", " ")
    wanted = wanted.removeprefix("./")
    names: Sequence[_Name] = ()
    if not wanted.startswith(("/", _HOME)):
        lists = _WITH_HIDDEN if names_hidden(wanted) else _USUAL
        names = await lists.get(workspace)
    best = await asyncio.to_thread(_chosen, workspace, names, wanted)
    return [candidate for name in best if (candidate := _candidate(name)) is not None]


def _chosen(workspace: Workspace, names: Sequence[_Name], wanted: str) -> list[str]:
    fitting = list(_ranked(names, wanted)) or list(_ranked(_inside(workspace, wanted), wanted))
    return [text for *_, text in nsmallest(MOST, fitting)]


# -- what there is ---------------------------------------------------------------------------


async def _everything(workspace: Workspace, *, hidden: bool) -> tuple[_Name, ...]:
    """Return all files and folders; none where there are too many to look through."""
    try:
        async with asyncio.timeout(_LIMIT_S):
            files = await engine_for(workspace).files(".", hidden=hidden)
    except (TimeoutError, ToolFailed):
        return ()
    return await asyncio.to_thread(_named, files[:_MOST_NAMES])


_USUAL: Final[Remembered[Workspace, _Name]] = Remembered(
    partial(_everything, hidden=False), holds_s=_HOLDS_S, patience_s=_PATIENCE_S
)
_WITH_HIDDEN: Final[Remembered[Workspace, _Name]] = Remembered(
    partial(_everything, hidden=True), holds_s=_HOLDS_S, patience_s=_PATIENCE_S
)


def _named(files: Iterable[str]) -> tuple[_Name, ...]:
    """Return files, and the folders that they lie in."""
    folders: dict[str, None] = {}
    found: list[str] = []
    for file in files:
        if _COMPILED.search(file):
            continue
        found.append(file)
        folder = posixpath.dirname(file)
        while folder and f"{folder}/" not in folders:
            folders[f"{folder}/"] = None
            folder = posixpath.dirname(folder)
    return tuple([_name(text) for text in (*folders, *found)])


def _name(text: str) -> _Name:
    folded = text.casefold()
    return _Name(text, folded, tuple(folded.rstrip("/").split("/")))


def _inside(workspace: Workspace, wanted: str) -> list[_Name]:
    """Return what lies in the one folder that was typed so far, if it may be looked into."""
    folder, _, last = wanted.rpartition("/")
    typed = f"{folder}/" if "/" in wanted else ""
    real = Path(typed).expanduser() if typed.startswith(_HOME) else workspace.root / typed
    try:
        workspace.relative(str(real))
        ignored = Ignored(
            partial(read_rules, workspace), os.path.lexists, hidden=last.startswith(".")
        )
        with os.scandir(real) as entries:
            return [
                _name(f"{typed}{entry.name}{'/' if entry.is_dir() else ''}")
                for entry, _ in zip(entries, range(_MOST_NAMES), strict=False)
                if not ignored.ignores(entry.path, is_folder=entry.is_dir())
                and not _COMPILED.search(entry.name)
            ]
    except (OSError, ToolFailed, RuntimeError):  # the last where there is no home
        return []


# -- what fits -------------------------------------------------------------------------------


def _ranked(names: Iterable[_Name], wanted: str) -> Iterator[tuple[int, int, int, str]]:
    """Yield what fits: how well, how deep it lies, how long it is, and what it is."""
    folded = wanted.casefold()
    steps = folded.split("/")
    for name in names:
        rank = _rank(name, folded, steps)
        if rank is not None:
            yield rank, len(name.steps), len(name.text), name.text


def _rank(name: _Name, wanted: str, steps: Sequence[str]) -> int | None:
    """Tell how well something fits: 0 is best, None is not at all."""
    if not wanted:
        return 0 if len(name.steps) == 1 else None
    if name.folded.startswith(wanted):
        return None if name.folded == wanted and wanted.endswith("/") else 0
    if _leads_through(name.steps, steps):
        return 1
    if len(steps) == 1 and wanted in name.steps[-1]:
        return 2
    return None


def _leads_through(names: Sequence[str], steps: Sequence[str]) -> bool:
    """Tell whether names begin as was typed, in this order and the last one last: s/st/cl."""
    if not names[-1].startswith(steps[-1]):
        return False
    left = iter(names[:-1])
    return all(any(name.startswith(step) for name in left) for step in steps[:-1])


def _candidate(text: str) -> Candidate | None:
    """Return what to type for a file or a folder; None for what cannot be typed."""
    is_folder = text.endswith("/")
    if _PLAIN.fullmatch(text):
        return Candidate(f"@{text}", expects_more=is_folder)
    quote = next((each for each in "\"'" if each not in text), None)
    if quote is None or not text.isprintable():
        return None
    # A folder stays open: more is typed behind it, or the quote.
    return Candidate(f"@{quote}{text}{'' if is_folder else quote}", expects_more=is_folder)
