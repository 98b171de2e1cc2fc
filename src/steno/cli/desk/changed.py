"""`/diff`: what has changed in the files here.

In a git work tree that is what differs from the last commit, and files that git does not know
yet; anywhere else it is what the agent has written, by the record of this branch.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Iterable, Sequence
from typing import Final

from steno.cli.desk.git import MOST_BYTES, Git
from steno.cli.desk.scene import Scene
from steno.entry import Entry
from steno.errors import ToolFailed, Unavailable
from steno.message import ToolResultMessage
from steno.outcome import Outcome
from steno.printable import counted, on_one_line, printable
from steno.tools.change import FileChange
from steno.tools.workspace import Workspace
from steno.tui.block import Form
from steno.tui.desk import Reply

_LARGEST_SHOWN: Final = 100_000
"""How large a file may be that is shown as a whole, in bytes."""
_MOST_LISTED: Final = 200
_CHANGING: Final = frozenset({"edit", "write"})
"""The tools whose results say what they have changed."""


async def diff(scene: Scene, argument: str) -> Reply:
    """Show what has changed, in all or below one path."""
    path = argument.strip()
    workspace = scene.environment.input_setup.workspace
    complaint = ""
    try:
        git = await Git.find(workspace)
        if git is not None:
            return _reply(
                await _by_git(git, workspace, path), "Changed since the last commit", path
            )
    except Unavailable as exc:
        complaint = f"{exc}\n"
    entries = scene.conversation.entries()
    told = await asyncio.to_thread(_by_record, entries, workspace, path)
    return _reply(told, f"{complaint}Changed by the agent in this branch", path)


def _reply(text: str, title: str, path: str) -> Reply:
    where = f" in {on_one_line(path)}" if path else ""
    if not text:
        return Reply(f"{printable(title)}{where}: nothing.", "Diff", Form.PLAIN)
    return Reply(printable(text), f"{on_one_line(title)}{where}", Form.DIFF)


# -- by git ----------------------------------------------------------------------------------


async def _by_git(git: Git, workspace: Workspace, path: str) -> str:
    """Return what differs from the last commit; before the first, every file is new."""
    if not await git.has_commits():
        names = await git.list_files("--cached", "--others", path=path)
        return await asyncio.to_thread(_as_new, workspace, names, MOST_BYTES)
    said = await git.diff(path)
    tracked = said.data.decode("utf-8", "replace")
    if said.is_truncated:
        whole, _, _ = tracked.rpartition("\n")
        return f"{whole}\n[more than {MOST_BYTES:,} bytes: the rest is left out; /diff PATH shows less]\n"
    names = await git.list_files("--others", path=path)
    return tracked + await asyncio.to_thread(_as_new, workspace, names, MOST_BYTES - len(tracked))


def _as_new(workspace: Workspace, names: Sequence[str], room: int) -> str:
    """Return files that were not there before: in full while there is room, else by name."""
    shown: list[str] = []
    listed: list[str] = []
    for name in names:
        text = _whole(workspace, name) if room > 0 else None
        if text is None or len(text) > room:
            listed.append(name)
        else:
            shown.append(text)
            room -= len(text)
    if listed:
        shown.append(f"{counted(len(listed), 'new file', 'new files')}, not shown:\n")
        shown += [f"    {on_one_line(name)}\n" for name in listed[:_MOST_LISTED]]
    if len(listed) > _MOST_LISTED:
        shown.append(f"    and {len(listed) - _MOST_LISTED:,} more\n")
    return "".join(shown)


def _whole(workspace: Workspace, name: str) -> str | None:
    """Return a small file of text as something added; None for any other, and for links."""
    try:
        data = workspace.strict.read_file(name, most_bytes=_LARGEST_SHOWN)
    except ToolFailed:
        return None
    change = FileChange.of(name, None, data)
    return change.diff.text if change.diff.added else None


# -- by the record ---------------------------------------------------------------------------


def _by_record(entries: Iterable[Entry], workspace: Workspace, path: str) -> str:
    """Return what the calls of a branch have changed, one behind the other."""
    wanted = _spelled(workspace, path)
    return "".join(
        [
            text if text.endswith("\n") else f"{text}\n"
            for name, text in filter(None, map(_change_in, entries))
            if wanted in (".", name) or name.startswith(f"{wanted}/")
        ]
    )


def _change_in(entry: Entry) -> tuple[str, str] | None:
    """Return which file a result says was changed, and the difference."""
    result = entry.payload
    if not isinstance(result, ToolResultMessage) or result.tool_name not in _CHANGING:
        return None
    details = result.details or {}
    name, text = details.get("path"), details.get("diff")
    if result.outcome is Outcome.OK and isinstance(name, str) and isinstance(text, str) and text:
        return name, text
    return None


def _spelled(workspace: Workspace, path: str) -> str:
    """Return what the workspace calls a path, also if it is not there any more."""
    try:
        return workspace.relative(path or ".")
    except ToolFailed:
        return posixpath.normpath(path)
