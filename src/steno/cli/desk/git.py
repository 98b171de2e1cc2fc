"""What git says has changed in a folder. Nothing that the repository says is run.

A repository may come from anybody, and its own settings can name programs: for watching files,
for showing differences, for filtering what is read, for fetching what is missing. All of them are
switched off; those of the user's own settings that filter (as Git LFS does) still count. Time
and size are bounded.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, final

from steno.errors import Unavailable
from steno.printable import on_one_line
from steno.tools.child import child
from steno.tools.shell.program import find_program
from steno.tools.workspace import Workspace

MOST_BYTES: Final = 1_000_000
_LIMIT_S: Final = 10.0
_MOST_COMPLAINT: Final = 2_000
_PASSED: Final = ("HOME", "XDG_CONFIG_HOME", "PATH", "TMPDIR")
_SET: Final = {
    "LC_ALL": "C",  # what it complains of is read below
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # Neither by any protocol nor otherwise: a clone may leave out content, and fetch it when asked.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}
_SETTINGS: Final = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.quotePath": "false",
    "core.safecrlf": "false",
    "diff.external": "",
}
_DIFF: Final = (
    *("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--relative"),
    "--ignore-submodules=dirty",  # else a git runs in each of them, by its settings
)
_FILTERS: Final = (
    *("config", "--show-scope", "--null", "--name-only"),
    *("--get-regexp", r"^filter\."),
)
_NONE: Final = 1
"""The status if nothing is set."""
_NO_REPOSITORY: Final = "not a git repository"
_STRANGE: Final = ("local", "worktree")
"""Whose settings are not the user's own."""


class Said(NamedTuple):
    """What git printed."""

    data: bytes
    is_truncated: bool
    status: int | None
    stderr: str


@final
class Git:
    """The git work tree that a folder is in."""

    def __init__(self, command: tuple[str, ...], folder: Path) -> None:
        """Take how git is run."""
        self._command = command
        self._folder = folder

    @classmethod
    async def find(cls, workspace: Workspace) -> Git | None:
        """Return the work tree of a workspace; None where there is none, or no git.

        Raises Unavailable if git does not want to say: somebody else owns the folder, perhaps.
        """
        env, git = (find_program(name, outside=workspace.roots) for name in ("env", "git"))
        if env is None or git is None:
            return None
        first = cls(_command(env, git, _SETTINGS), workspace.root)
        said = await first._run("rev-parse", "--is-inside-work-tree")
        if said.status and _NO_REPOSITORY not in said.stderr:
            raise Unavailable(f"git: {said.stderr}")
        if said.data.strip() != b"true":
            return None
        return cls(_command(env, git, _SETTINGS | await first._filter_overrides()), workspace.root)

    async def diff(self, path: str) -> Said:
        """Return what differs from the last commit, in all or below one path."""
        return await self._run_checked(*_DIFF, "HEAD", "--", *_narrowed(path))

    async def has_commits(self) -> bool:
        """Tell whether there is a commit to compare with."""
        return (await self._run("rev-parse", "--verify", "--quiet", "HEAD")).status == 0

    async def list_files(self, *kinds: str, path: str) -> list[str]:
        """Return names of files here and below: `--others` are those that git does not keep."""
        said = await self._run_checked(
            "ls-files", "-z", "--exclude-standard", *kinds, "--", *_narrowed(path)
        )
        whole, _, _ = said.data.rpartition(b"\0")  # the last may be cut
        return [os.fsdecode(name) for name in whole.split(b"\0") if name]

    async def _run_checked(self, *arguments: str) -> Said:
        """Ask git something that it should know. Raises Unavailable."""
        said = await self._run(*arguments)
        if said.status:
            raise Unavailable(f"git: {said.stderr or f'it failed ({said.status})'}")
        return said

    async def _run(self, *arguments: str) -> Said:
        """Run git, for so long and for so much output. Raises Unavailable."""
        try:
            async with (
                asyncio.timeout(_LIMIT_S),
                child([*self._command, *arguments], folder=self._folder) as process,
            ):
                assert process.stdout is not None
                assert process.stderr is not None
                data = await _bounded(process.stdout)
                if len(data) > MOST_BYTES:
                    return Said(data[:MOST_BYTES], True, None, "")
                complaint = await process.stderr.read(_MOST_COMPLAINT)
                await process.wait()
        except TimeoutError:
            raise Unavailable(f"git: no answer within {_LIMIT_S:g} s; name less of it") from None
        except OSError as exc:
            raise Unavailable(f"git: cannot be run: {exc.strerror}") from exc
        told = on_one_line(complaint.decode("utf-8", "replace"))
        return Said(data, False, process.returncode, told)

    async def _filter_overrides(self) -> dict[str, str]:
        """Return settings that undo what the repository says of filters for content."""
        said = await self._run(*_FILTERS)
        if said.is_truncated or said.status not in (0, _NONE):
            raise Unavailable(f"git: its settings cannot be read: {said.stderr}")
        words = said.data.decode("utf-8", "surrogateescape").split("\0")
        pairs = zip(words[::2], words[1::2], strict=False)
        names = [name for scope, name in pairs if scope in _STRANGE]
        return {name: "false" if name.endswith(".required") else "" for name in names}


def _command(env: Path, git: Path, settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return how git is run: with few variables, and settings that count before those of files."""
    variables = {name: os.environ[name] for name in _PASSED if name in os.environ} | _SET
    variables["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (name, value) in enumerate(settings.items()):
        variables[f"GIT_CONFIG_KEY_{number}"] = name
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    given = [f"{name}={value}" for name, value in variables.items()]
    return (str(env), *given, str(git), "--no-pager")


def _narrowed(path: str) -> tuple[str, ...]:
    return (path,) if path else (".",)


async def _bounded(stream: asyncio.StreamReader) -> bytes:
    """Read to the end, or until it is more than is wanted."""
    pieces: list[bytes] = []
    size = 0
    while size <= MOST_BYTES and (piece := await stream.read(65_536)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)
