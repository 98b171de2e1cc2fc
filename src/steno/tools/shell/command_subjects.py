"""Turn the commands of a line into the subjects that permission rules match.

A command of the table that only reads is a READ subject, and so is each file that it names; common
work in a project is routine. A redirection is a subject for the rules of the file tools, in each of
the folders that the command may run in. The table counts only if a sandbox confines the command.
This module runs nothing; `locate` resolves the paths.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Final, NamedTuple

from msgspec import structs

from steno.ports import Capability, CommandWord, Subject
from steno.tools.shell.command_parser import CommandLine, Redirection, ShellWord, SimpleCommand
from steno.tools.shell.command_table import (
    CommandKind,
    CommandMatch,
    are_harmless_assignments,
    match_command,
    other_spellings,
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


_PLAIN_PATTERN: Final = re.compile(r"[A-Za-z0-9_@%+:,./*?-]+")


def find_pattern_folder(text: str) -> str | None:
    """Return the folder in which all matches of a pattern such as `src/*.py` are.

    None if the word is expanded in another way, or may lead to a parent folder.
    """
    if not _PLAIN_PATTERN.fullmatch(text):
        return None
    names = text.split("/")
    plain = [*takewhile(lambda name: not ("*" in name or "?" in name), names)]
    patterns = [name for name in names[len(plain) :] if name.startswith(".")]
    if any(fnmatchcase("..", name) for name in patterns) or ".." in names:
        return None
    return "/".join(plain) or ("/" if text.startswith("/") else ".")


_NAMING_OPTIONS: Final = frozenset({"-l", "-rl", "-lr", "--files", "--files-with-matches"})


def names_files(words: Sequence[ShellWord]) -> bool:
    """Return whether a command only prints names of files below the paths that it reads."""
    values = [word.value for word in words]
    if any(value is None or "printf" in value or value.startswith("--format") for value in values):
        return False
    if values[:1] in (["find"], ["fd"]) or values[:2] == ["git", "ls-files"]:
        return True
    return values[:1] in (["rg"], ["grep"]) and not _NAMING_OPTIONS.isdisjoint(values[1:2])


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
                for subject in self._of_paths(command, match.created_paths, is_read=False):
                    yield structs.replace(subject, is_routine=True)
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
        if command.words[0].value == "xargs" and names_files(command.source):
            known = [path for path in match.read_paths if path.text]
            source = match_command(command.source)
            match = match._replace(read_paths=(*known, *(source.read_paths if source else ())))
        if match.reads_folders and not self._reads_inside(command, match):
            return None
        return match

    def _reads_inside(self, command: SimpleCommand, match: CommandMatch) -> bool:
        """Return whether a command that reads whole folders reads those of the workspace alone."""
        paths = [".", *[path.value for path in match.read_paths if path.value]]
        is_git = "git" in [word.value for word in command.words[:3]]  # maybe behind `timeout 5`
        if len(paths) > 1 and not is_git:
            del paths[0]
        places = [self._locate(folder, path) for folder in command.folders or () for path in paths]
        return all(place is not None and place.is_inside for place in places)

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
        written = [*command.assignments, *command.words]
        words = [CommandWord(word.text, word.may_be_option) for word in written]
        text = " ".join([word.text for word in words])
        others = other_spellings(command.assignments, command.words)
        if match is not None:
            is_routine = match.kind is CommandKind.ROUTINE
            unnamed = Capability.READ if match.reads_folders else None
            return Subject(
                text=text,
                capability=Capability.EXECUTE if is_routine else Capability.READ,
                words=tuple(words),
                is_confined=self._is_confined,
                is_routine=is_routine,
                pattern="" if command.assignments else match.pattern,
                other_texts=others,
                unnamed_access=Capability.WRITE
                if is_routine and not match.created_paths
                else unnamed,
            )
        # What a program does depends on its folder, so rules for it include the folder.
        folders = command.folders
        is_known = folders is not None and len(folders) == 1
        if folders is not None and is_known and folders != (".",):
            others = (text, *others)
            prefix = f"cd {shlex.quote(folders[0])} &&"
            text = f"{prefix} {text}"
            words.insert(0, CommandWord(prefix, may_be_option=True))  # no `*` stands for it
        return Subject(
            text=text,
            capability=Capability.EXECUTE,
            words=tuple(words),
            is_unknown=not is_known,
            is_confined=self._is_confined,
            has_input=command.has_input and not self._is_harmless_reader(command),
            other_texts=others,
        )

    def _is_harmless_reader(self, command: SimpleCommand) -> bool:
        """Return whether a command is known to run no code from its input."""
        match = match_command(command.words) if command.words else None
        return (
            match is not None
            and match.kind is CommandKind.READING
            and are_harmless_assignments(command.assignments)
        )

    def _of_paths(
        self, command: SimpleCommand, paths: Iterable[ShellWord], *, is_read: bool
    ) -> Iterator[Subject]:
        for path in paths:
            if path.value is None:
                yield from self._of_pattern(command.folders, path, is_read=is_read)
            elif path.value not in {"", "-"}:
                yield from self._of_path(command.folders, path.value, is_read=is_read)

    def _of_redirection(
        self, command: SimpleCommand, redirection: Redirection
    ) -> Iterator[Subject]:
        target = redirection.target
        kinds = [operator == "<" for operator in ("<", ">") if operator in redirection.operator]
        for is_read in kinds:
            if target.value is None:
                yield from self._of_pattern(command.folders, target, is_read=is_read)
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

    def _of_pattern(
        self, folders: tuple[str, ...] | None, word: ShellWord, *, is_read: bool
    ) -> Iterator[Subject]:
        """Yield an unknown path, which is inside if it is a plain pattern in a folder inside."""
        folder = find_pattern_folder(word.text)
        places = [
            None if folder is None else self._locate(start, folder) for start in folders or (".",)
        ]
        is_inside = folders is not None and all(
            place is not None and place.is_inside for place in places
        )
        yield self._of_unknown(word.text, is_read=is_read, is_inside=is_inside)

    def _of_unknown(self, text: str, *, is_read: bool, is_inside: bool = False) -> Subject:
        """Return the subject of a path that only the run tells; outside, reading it asks."""
        reading = Capability.READ if is_inside else Capability.EXECUTE
        return Subject(
            text=text,
            capability=reading if is_read else Capability.WRITE,
            rule_tool="read" if is_read else "write",
            is_unknown=True,
            is_confined=self._is_confined,
        )

    def _capability(self, *, is_read: bool, is_inside: bool) -> Capability:
        """Return the access to a path; without a sandbox, reading outside of the workspace asks."""
        if not is_read:
            return Capability.WRITE
        return Capability.READ if is_inside or self._is_confined else Capability.EXECUTE
