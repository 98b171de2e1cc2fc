"""Turn the commands of a line into the subjects that permission rules match.

A command of the table that only reads is a READ subject, and so is each file that it names; common
work in a project is routine. A redirection is a subject for the rules of the file tools, in each of
the folders that the command may run in. The table counts only if a sandbox confines the command.
This module runs nothing; `locate` resolves the paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from steno.ports import Capability, CommandWord, Subject
from steno.tools.shell.command_parser import CommandLine, Redirection, ShellWord, SimpleCommand
from steno.tools.shell.command_table import (
    CommandKind,
    CommandMatch,
    are_harmless_assignments,
    match_command,
)

_OUTPUT_DEVICES: Final = frozenset({"/dev/stdout", "/dev/stderr", "/dev/null"})


class LocatedPath(NamedTuple):
    """A path that a command names, as the file system resolves it."""

    text: str
    """The canonical spelling, as `Workspace.relative` returns it, or the absolute real path."""
    is_inside: bool
    """Whether the path is in the workspace."""
    is_secret: bool = False
    """Whether the path may contain secrets, so that reading it needs an approval."""
    is_protected: bool = False
    """Whether changing the path needs an approval, because later runs depend on it."""


Locate = Callable[[str, str], LocatedPath | None]
"""Resolves a path in a working directory, which is relative to that of the command line.

The result is None if the path cannot be resolved.
"""


def build_subjects(
    line: CommandLine, *, text: str, locate: Locate, is_confined: bool
) -> tuple[Subject, ...]:
    """Return the subjects of a command line; `text` is the line as written.

    A line that is not understood is one unknown subject. Its other subjects are guesses at the
    commands, so that deny rules can match them.
    """
    if line.unsure:
        unknown = Subject(
            text=text,
            capability=Capability.EXECUTE,
            is_unknown=True,
            is_confined=is_confined,
        )
        return (unknown, *[_build_guess(guess, is_confined) for guess in line.guesses])
    builder = _SubjectBuilder(locate, is_confined=is_confined)
    found = [subject for command in line.commands for subject in builder.of_command(command)]
    return tuple(dict.fromkeys(found))


def _build_guess(text: str, is_confined: bool) -> Subject:
    words = tuple([CommandWord(word, may_be_option=True) for word in text.split(" ")])
    return Subject(text=text, capability=Capability.EXECUTE, words=words, is_confined=is_confined)


class _SubjectBuilder:
    def __init__(self, locate: Locate, *, is_confined: bool) -> None:
        self._locate = locate
        self._is_confined = is_confined

    def of_command(self, command: SimpleCommand) -> Iterator[Subject]:
        """Yield the subjects of a command: itself, the files that it names, its redirections."""
        if command.words or command.assignments:
            match = self._match(command)
            yield self._of_words(command, match)
            if match is not None:
                yield from self._of_paths(command, match.read_paths, is_read=True)
                yield from self._of_paths(command, match.written_paths, is_read=False)
        for redirection in command.redirections:
            yield from self._of_redirection(command, redirection)

    def _match(self, command: SimpleCommand) -> CommandMatch | None:
        """Return what the table says about a command, if that holds where the command runs."""
        if not (self._is_confined and command.words):
            return None
        if not are_harmless_assignments(command.assignments):
            return None
        match = match_command(command.words)
        if match is None:
            return None
        if command.folders is None:
            # In an unknown folder, only what a command reads by an absolute path is known.
            is_known = all((path.value or "").startswith("/") for path in match.read_paths)
            is_reading = match.kind is CommandKind.READING and not match.written_paths
            return match if is_reading and match.read_paths and is_known else None
        if match.kind is CommandKind.ROUTINE and not self._is_ordinary_work(command, match):
            return None
        return match

    def _is_ordinary_work(self, command: SimpleCommand, match: CommandMatch) -> bool:
        """Return whether a command works in the workspace and creates no protected files there."""
        places = [self._locate(folder, ".") for folder in command.folders or ()]
        created = [
            None if path.value is None else self._locate(folder, path.value)
            for folder in command.folders or ()
            for path in match.created_paths
        ]
        return all(
            place is not None and place.is_inside for place in (*places, *created)
        ) and not any(place is not None and place.is_protected for place in created)

    def _of_words(self, command: SimpleCommand, match: CommandMatch | None) -> Subject:
        words = [*command.assignments, *command.words]
        is_reading = match is not None and match.kind is CommandKind.READING
        return Subject(
            text=" ".join([word.text for word in words]),
            capability=Capability.READ if is_reading else Capability.EXECUTE,
            words=tuple([CommandWord(word.text, word.may_be_option) for word in words]),
            is_confined=self._is_confined,
            is_routine=match is not None and match.kind is CommandKind.ROUTINE,
            pattern="" if match is None or command.assignments else match.pattern,
        )

    def _of_paths(
        self, command: SimpleCommand, paths: Iterable[ShellWord], *, is_read: bool
    ) -> Iterator[Subject]:
        for path in paths:
            if path.value is None:
                yield self._of_unknown(path.text, is_read=is_read)
            elif path.value not in {"", "-"}:
                yield from self._of_path(command.folders, path.value, is_read=is_read)

    def _of_redirection(
        self, command: SimpleCommand, redirection: Redirection
    ) -> Iterator[Subject]:
        target = redirection.target
        kinds = [operator == "<" for operator in ("<", ">") if operator in redirection.operator]
        for is_read in kinds:
            if target.value is None:
                yield self._of_unknown(target.text, is_read=is_read)
            elif target.value not in _OUTPUT_DEVICES:
                yield from self._of_path(command.folders, target.value, is_read=is_read)

    def _of_path(
        self, folders: tuple[str, ...] | None, path: str, *, is_read: bool
    ) -> Iterator[Subject]:
        """Yield a subject for each file that a path may name."""
        if path.startswith("/"):
            folders = (".",)
        if folders is None:
            yield self._of_unknown(path, is_read=is_read)
        for folder in folders or ():
            place = self._locate(folder, path)
            if place is None:
                yield self._of_unknown(path, is_read=is_read)
                continue
            yield Subject(
                text=place.text,
                capability=self._capability(is_read=is_read, is_inside=place.is_inside),
                rule_tool="read" if is_read else "write",
                is_protected=place.is_secret or (place.is_protected and not is_read),
                is_confined=self._is_confined,
            )

    def _of_unknown(self, text: str, *, is_read: bool) -> Subject:
        return Subject(
            text=text,
            capability=self._capability(is_read=is_read, is_inside=False),
            rule_tool="read" if is_read else "write",
            is_unknown=True,
            is_confined=self._is_confined,
        )

    def _capability(self, *, is_read: bool, is_inside: bool) -> Capability:
        """Return the access to a path; without a sandbox, reading outside of the workspace asks."""
        if not is_read:
            return Capability.WRITE
        return Capability.READ if is_inside or self._is_confined else Capability.EXECUTE
