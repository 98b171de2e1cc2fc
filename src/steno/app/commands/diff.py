"""`/diff`: the changes in the files of the folder, from git or from the log.

Nothing that the repository configures is run. A repository may be untrusted, and its
settings can name programs that watch files, show differences, filter content or fetch missing
objects. These programs are switched off; filters in the user's own settings (such as Git LFS) still
apply. Time and size are bounded.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, final

from steno.app.commands.context import CommandContext, CommandDefinition
from steno.app.commands.report import Report, text_report
from steno.errors import Missing, ToolFailed, Unavailable
from steno.messages.message import ToolResultMessage
from steno.messages.outcome import Outcome
from steno.records.entry import Entry
from steno.render.items import TextForm
from steno.render.quantities import format_count
from steno.render.terminal_text import terminal_line, terminal_text
from steno.tools.file_change import FileChange
from steno.tools.programs import find_program, helper_process
from steno.tools.workspace import Workspace

MAX_DIFF_BYTES: Final = 1_000_000
_GIT_TIMEOUT_S: Final = 10.0
_MAX_STDERR_BYTES: Final = 2_000
_PASSED_VARIABLES: Final = ("HOME", "XDG_CONFIG_HOME", "PATH", "TMPDIR")
_SET_VARIABLES: Final = {
    "LC_ALL": "C",  # stderr is matched below
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # A partial clone would fetch missing content: allow no protocol.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}
_SAFE_SETTINGS: Final = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.quotePath": "false",
    "core.safecrlf": "false",
    "diff.external": "",
}
_DIFF_ARGUMENTS: Final = (
    *("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--relative"),
    "--ignore-submodules=dirty",  # else git runs in each submodule, with its settings
)
_FILTER_ARGUMENTS: Final = (
    *("config", "--show-scope", "--null", "--name-only"),
    *("--get-regexp", r"^filter\."),
)
_NOTHING_SET_STATUS: Final = 1
"""The exit status of `git config` if nothing is set."""
_NO_REPOSITORY: Final = "not a git repository"
_UNTRUSTED_SCOPES: Final = ("local", "worktree")
"""Scopes of settings that are not the user's own."""
_MAX_FILE_BYTES: Final = 100_000
"""The size limit of a file that is shown as a whole, in bytes."""
_MAX_LISTED_FILES: Final = 200


class GitOutput(NamedTuple):
    """The output of git; if it is truncated, the exit status is None."""

    data: bytes
    is_truncated: bool
    status: int | None
    stderr: str


@final
class GitWorkTree:
    """The git work tree that a folder is in."""

    def __init__(self, command: tuple[str, ...], folder: Path) -> None:
        self._command = command
        self._folder = folder

    @classmethod
    async def find(cls, workspace: Workspace) -> GitWorkTree | None:
        """Return the work tree of a workspace; None if there is none or git is not installed.

        Raises Unavailable if git fails, for example because another user owns the folder.
        """
        env, git = (find_program(name, outside=workspace.roots) for name in ("env", "git"))
        if env is None or git is None:
            return None
        probe = cls(_git_command(env, git, _SAFE_SETTINGS), workspace.root)
        output = await probe._run("rev-parse", "--is-inside-work-tree")
        if output.status and _NO_REPOSITORY not in output.stderr:
            raise Unavailable(output.stderr, code="git_failed", place="git")
        if output.data.strip() != b"true":
            return None
        settings = _SAFE_SETTINGS | await probe._filter_overrides()
        return cls(_git_command(env, git, settings), workspace.root)

    async def diff(self, path: str) -> GitOutput:
        """Return the changes since the last commit, in `path` or, if it is empty, in the folder."""
        return await self._run_checked(*_DIFF_ARGUMENTS, "HEAD", "--", path or ".")

    async def has_commits(self) -> bool:
        """Return whether there is a commit to compare with."""
        return (await self._run("rev-parse", "--verify", "--quiet", "HEAD")).status == 0

    async def list_files(self, *options: str, path: str) -> list[str]:
        """Return the names of the files in `path` or, if it is empty, in the folder.

        `options` select tracked files (`--cached`) and untracked ones (`--others`).
        """
        output = await self._run_checked(
            "ls-files", "-z", "--exclude-standard", *options, "--", path or "."
        )
        complete, _, _ = output.data.rpartition(b"\0")  # the last name may be truncated
        return [os.fsdecode(name) for name in complete.split(b"\0") if name]

    async def _run_checked(self, *arguments: str) -> GitOutput:
        """Run git. Raises Unavailable, also if the exit status is not 0."""
        output = await self._run(*arguments)
        if output.status:
            raise Unavailable(
                output.stderr or f"exit status {output.status}", code="git_failed", place="git"
            )
        return output

    async def _run(self, *arguments: str) -> GitOutput:
        """Run git, with limits of time and output.

        Raises Unavailable if git cannot be started or exceeds the time limit.
        """
        try:
            async with (
                asyncio.timeout(_GIT_TIMEOUT_S),
                helper_process([*self._command, *arguments], folder=self._folder) as process,
            ):
                assert process.stdout is not None
                assert process.stderr is not None
                data = await _read_bounded(process.stdout)
                if len(data) > MAX_DIFF_BYTES:
                    return GitOutput(data[:MAX_DIFF_BYTES], True, None, "")
                stderr = await process.stderr.read(_MAX_STDERR_BYTES)
                await process.wait()
        except TimeoutError:
            raise Unavailable(
                f"no response within {_GIT_TIMEOUT_S:g} s; try /diff with a PATH",
                code="git_timeout",
                place="git",
            ) from None
        except OSError as exc:
            raise Unavailable(
                f"cannot be started: {exc.strerror}", code="git_not_started", place="git"
            ) from exc
        message = terminal_line(stderr.decode("utf-8", "replace"))
        return GitOutput(data, False, process.returncode, message)

    async def _filter_overrides(self) -> dict[str, str]:
        """Return settings that disable the content filters of the repository."""
        output = await self._run(*_FILTER_ARGUMENTS)
        if output.is_truncated or output.status not in (0, _NOTHING_SET_STATUS):
            raise Unavailable(
                f"the settings cannot be read: {output.stderr}",
                code="git_settings_unreadable",
                place="git",
            )
        fields = output.data.decode("utf-8", "surrogateescape").split("\0")
        pairs = zip(fields[::2], fields[1::2], strict=False)
        names = [name for scope, name in pairs if scope in _UNTRUSTED_SCOPES]
        return {name: "false" if name.endswith(".required") else "" for name in names}


def _git_command(env: Path, git: Path, settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command that runs git in a minimal environment, with overriding settings."""
    variables = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
    variables |= _SET_VARIABLES | {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings.items()):
        variables[f"GIT_CONFIG_KEY_{number}"] = name
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    assignments = [f"{name}={value}" for name, value in variables.items()]
    return (str(env), *assignments, str(git), "--no-pager")


async def _read_bounded(stream: asyncio.StreamReader) -> bytes:
    """Read a stream to its end, or until more than `MAX_DIFF_BYTES` bytes were read."""
    chunks: list[bytes] = []
    size = 0
    while size <= MAX_DIFF_BYTES and (chunk := await stream.read(65_536)):
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)


async def _run_diff(context: CommandContext, options: argparse.Namespace) -> Report:
    """Show the changes in a path or, without one, in the folder."""
    path, state = options.text, context.open_session.state
    workspace = state.environment.workspace
    subject, text, problem = "changes since the last commit", None, ""
    try:
        git = await GitWorkTree.find(workspace)
        if git is not None:
            text = await _diff_from_git(git, workspace, path)
    except Unavailable as exc:
        problem = f"{exc}\n"
    if text is None:
        subject, entries = "changes by the agent in this branch", state.conversation.entries()
        text = await asyncio.to_thread(_diff_from_log, entries, workspace, path)
    if not text and path and not await asyncio.to_thread(_exists, workspace, path):
        raise Missing(f"{terminal_line(path)}: not found", code="path_missing", place="/diff")
    return _diff_report(text, subject, path, problem)


COMMAND: CommandDefinition = CommandDefinition(_run_diff)


def _diff_report(text: str, subject: str, path: str, problem: str) -> Report:
    suffix = f" in {terminal_line(path)}" if path else ""
    if not text:
        nothing = f"{terminal_text(problem)}No {subject}{suffix}."
        return text_report(nothing, "Diff", TextForm.PLAIN)
    title = terminal_line(f"Diff: {problem}{subject}")
    return text_report(terminal_text(text), f"{title}{suffix}", TextForm.DIFF)


def _exists(workspace: Workspace, path: str) -> bool:
    try:
        return workspace.exists(path)
    except ToolFailed:  # it is outside of the workspace
        return True


# -- from git ---------------------------------------------------------------------------------


async def _diff_from_git(git: GitWorkTree, workspace: Workspace, path: str) -> str:
    """Return the differences to the last commit. Before the first commit, every file is new."""
    if not await git.has_commits():
        names = await git.list_files("--cached", "--others", path=path)
        return await asyncio.to_thread(_new_files_text, workspace, names, MAX_DIFF_BYTES)
    output = await git.diff(path)
    tracked = output.data.decode("utf-8", "replace")
    if output.is_truncated:
        complete, _, _ = tracked.rpartition("\n")
        return f"{complete}\n[truncated at {MAX_DIFF_BYTES:,} bytes; /diff PATH shows less]\n"
    names = await git.list_files("--others", path=path)
    return tracked + await asyncio.to_thread(
        _new_files_text, workspace, names, MAX_DIFF_BYTES - len(tracked)
    )


def _new_files_text(workspace: Workspace, names: Sequence[str], max_bytes: int) -> str:
    """Return the diffs of new files. Files beyond the size limit are only listed by name."""
    shown: list[str] = []
    listed: list[str] = []
    for name in names:
        text = _whole_file_diff(workspace, name) if max_bytes > 0 else None
        if text is None or len(text) > max_bytes:
            listed.append(name)
        else:
            shown.append(text)
            max_bytes -= len(text)
    if listed:
        shown.append(f"{format_count(len(listed), 'new file', 'new files')}, not shown:\n")
        shown += [f"    {terminal_line(name)}\n" for name in listed[:_MAX_LISTED_FILES]]
    if len(listed) > _MAX_LISTED_FILES:
        shown.append(f"    and {len(listed) - _MAX_LISTED_FILES:,} more\n")
    return "".join(shown)


def _whole_file_diff(workspace: Workspace, name: str) -> str | None:
    """Return the diff that adds a small text file; None for other files and for links."""
    try:
        data = workspace.strict.read_file(name, max_bytes=_MAX_FILE_BYTES)
    except ToolFailed:
        return None
    change = FileChange.of(name, None, data)
    return change.diff.text if change.diff.added else None


# -- from the log -----------------------------------------------------------------------------


def _diff_from_log(entries: Iterable[Entry], workspace: Workspace, path: str) -> str:
    """Return the changes by the calls of a branch, in order."""
    try:
        prefix = workspace.relative(path or ".")
    except ToolFailed:  # it no longer exists
        prefix = posixpath.normpath(path)
    return "".join(
        [
            text if text.endswith("\n") else f"{text}\n"
            for name, text in filter(None, map(_recorded_change, entries))
            if prefix in (".", name) or name.startswith(f"{prefix}/")
        ]
    )


def _recorded_change(entry: Entry) -> tuple[str, str] | None:
    """Return the file that a result changed, and the diff; None if they are not recorded."""
    result = entry.payload
    if not isinstance(result, ToolResultMessage) or result.outcome is not Outcome.OK:
        return None
    details = result.details or {}
    name, text = details.get("path"), details.get("diff")
    return (name, text) if isinstance(name, str) and isinstance(text, str) and text else None
