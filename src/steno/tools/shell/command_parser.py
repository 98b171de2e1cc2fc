"""Parse a command line into the simple commands that permission rules match.

    git status && rm -rf "x" | cat 2>&1 > log     "git status", "rm -rf x", "cat" with "> log"

The line is read twice: `command_lexer` reads tokens from the text, `command_tree` reads them with
the grammar of tree-sitter-bash. If both find the same tokens in the same commands, this module
builds the commands, with the words, redirections and working directories that bash will use. A line
that one of them does not understand, or that they read differently, is unsure: it has a reason
and no commands. Constructs that hide which commands run (substitutions, loops, functions,
variables as commands) are unsure by design. This module runs no commands.

The result holds for `bash -c LINE` if bash starts in the physical path of a folder, with an
environment without BASH_ENV, BASHOPTS, SHELLOPTS, CDPATH, GLOBIGNORE, POSIXLY_CORRECT and exported
functions. `sudo`, `env` and similar prefixes remain part of the command, so rules must include
them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import dropwhile, islice
from typing import Final, NamedTuple

from steno.tools.shell.command_lexer import (
    LexedWord,
    Token,
    TokenKind,
    Unreadable,
    UnsureReason,
    read_tokens,
)
from steno.tools.shell.command_tree import TreeToken, byte_offsets, find_language, read_tree

MAX_TOKENS: Final = 10_000
MAX_DEPTH: Final = 16
"""The number of groups and subshells that may be inside each other."""
MAX_FOLDERS: Final = 8
"""The number of working directories to keep track of."""

# -- the result -----------------------------------------------------------------------------------


class ShellWord(NamedTuple):
    """A word of a command."""

    text: str
    """The canonical spelling: without quotes that have no effect; as written if bash expands it."""
    value: str | None
    """The literal value, or None if it depends on variables, files or the user."""
    may_be_option: bool
    """Whether an argument that begins with `-` can result from the word."""


class Redirection(NamedTuple):
    """A file that a command reads or writes."""

    operator: str
    """One of `<`, `>`, `>>` and `<>`."""
    target: ShellWord
    descriptor: int | None
    """The number in front of the operator, or None."""


class SimpleCommand(NamedTuple):
    """A command without operators. A command without words assigns variables or opens files."""

    words: tuple[ShellWord, ...]
    assignments: tuple[ShellWord, ...]
    """The assignments in front of the command. Without words, they hold for the rest of the line."""
    redirections: tuple[Redirection, ...]
    """All but duplicated descriptors, here-strings and `/dev/null`."""
    folders: tuple[str, ...] | None
    """The working directories in which the command may run, relative to that of the line.

    None if they are unknown. `..` appears at the start of a folder only.
    """
    has_input: bool = False
    """Whether the command reads a pipe, a here-string or a file as its standard input."""
    source: tuple[ShellWord, ...] = ()
    """The words of the command whose output a pipe passes to this one, in the same folder.

    Empty if it is no simple command, or has assignments or redirections.
    """


class CommandLine(NamedTuple):
    """A command line as understood: commands, or the reason why there are none."""

    commands: tuple[SimpleCommand, ...]
    """The commands in the order of the text; empty if the line is unsure."""
    unsure: UnsureReason
    """Why the line is not understood; empty (and false) if it is."""
    guesses: tuple[str, ...]
    """Possible commands of an unsure line, for rules that deny."""


def parse_command_line(text: str) -> CommandLine:
    """Return the commands of a line, or the reason why it is unsure. Takes linear time."""
    try:
        return CommandLine(_read_commands(text), UnsureReason.NONE, ())
    except Unreadable as exc:
        return CommandLine((), exc.reason, tuple(dict.fromkeys(_guess_commands(text))))


# -- both readings --------------------------------------------------------------------------------


def _read_commands(text: str) -> tuple[SimpleCommand, ...]:
    """Return the commands. Raises Unreadable."""
    if find_language() is None:
        raise Unreadable(UnsureReason.PARSER_MISSING)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unreadable(UnsureReason.NOT_UNICODE) from None
    # The grammar, which is C code, only receives text that our own reader accepts.
    tokens = list(islice(read_tokens(text), MAX_TOKENS + 1))
    if len(tokens) > MAX_TOKENS:
        raise Unreadable(UnsureReason.TOO_LONG)
    reader = _CommandReader(tokens)
    commands = reader.read()
    if not _is_same_reading(text, reader.roles, read_tree(text)):
        raise Unreadable(UnsureReason.DISAGREEMENT)
    return commands


class _Role(NamedTuple):
    """A token as our reader understands it."""

    token: Token
    role: str
    """The role that `TreeToken` has."""
    command: int
    """The number of the command that the word belongs to, or -1."""


def _is_same_reading(text: str, roles: list[_Role], tree: list[TreeToken]) -> bool:
    """Return whether both readings have the same tokens, and the same words in each command."""
    if len(roles) != len(tree):
        return False
    offsets = range(len(text) + 1) if text.isascii() else byte_offsets(text)
    tree_commands: dict[int, int] = {}
    for ours, theirs in zip(roles, tree, strict=True):
        place = (offsets[ours.token.start], offsets[ours.token.end], ours.role)
        if place != theirs[:3]:
            return False
        # Numbers and places of commands both grow, so they agree if they change together.
        if tree_commands.setdefault(theirs.command, ours.command) != ours.command:
            return False
    return len(set(tree_commands.values())) == len(tree_commands)


# -- working directories --------------------------------------------------------------------------

_Folders = frozenset[str] | None


class _Flow(NamedTuple):
    """The possible working directories after a command, by its result."""

    success: _Folders
    failure: _Folders

    @property
    def either(self) -> _Folders:
        return _union(self.success, self.failure)


def _union(one: _Folders, other: _Folders) -> _Folders:
    if one is None or other is None:
        return None
    both = one | other
    return both if len(both) <= MAX_FOLDERS else None


def _folders_after_cd(command: SimpleCommand, before: _Folders) -> _Folders:
    """Return the working directories after a successful `cd`."""
    values = [word.value for word in command.words[1:]]
    if values[:1] == ["--"]:
        del values[0]
    target = values[0] if len(values) == 1 else None
    if command.assignments or not target or target.startswith("-"):
        return None
    parts = [part for part in target.split("/") if part not in {"", "."}]
    if target.startswith("/"):
        return None if ".." in parts else frozenset({target})
    if before is None or ".." in parts[_leading_parents(parts) :]:
        return None
    if ".." in parts and not all(_has_only_parents(folder) for folder in before):
        return None  # bash returns through a link the way it came; the file system does not
    return frozenset(
        target if folder == "." else posixpath.join(folder, target) for folder in before
    )


def _leading_parents(parts: list[str]) -> int:
    return next((place for place, part in enumerate(parts) if part != ".."), len(parts))


def _has_only_parents(folder: str) -> bool:
    return not folder.startswith("/") and set(folder.split("/")) <= {"", ".", ".."}


# -- our own reading ------------------------------------------------------------------------------

_RESERVED_WORDS: Final = frozenset(
    {
        *("if", "then", "elif", "else", "fi", "case", "esac", "for", "select", "in", "while"),
        *("until", "do", "done", "function", "time", "coproc", "!", "{", "}", "[[", "]]"),
    }
)
_CANONICAL_OPERATOR: Final = {">|": ">", ">&": ">", "&>": ">", "&>>": ">>"}
_DESCRIPTOR_TARGET = re.compile(r"[0-9]{1,3}")
_PLAIN_FILE = re.compile(r"[A-Za-z_./](?:[A-Za-z0-9_@%+:,./-]*[A-Za-z0-9_])?")
"""The only targets of `>&` that are understood: bash expands them twice, even inside of quotes."""


class _CommandReader:
    """Builds the commands from tokens, as the grammar of bash does."""

    def __init__(self, tokens: list[Token]) -> None:
        self.roles: Final[list[_Role]] = []
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._commands: list[SimpleCommand] = []
        self._count = 0
        self._inputs = 0
        """The number of redirections of an input."""
        self._has_assigned = False
        """Whether a variable was assigned for the rest of the line."""

    def read(self) -> tuple[SimpleCommand, ...]:
        """Return all commands. Raises Unreadable."""
        self._read_list(frozenset({"."}), closing="")
        if not self._commands:
            raise Unreadable(UnsureReason.EMPTY)
        return tuple(self._commands)

    # -- tokens

    def _peek(self) -> Token | None:
        """Return the next token that is no comment."""
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            if token.kind is not TokenKind.COMMENT:
                return token
            self._take("comment")
        return None

    def _take(self, role: str, command: int = -1) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        if role != "\n":
            self.roles.append(_Role(token, role, command))
        return token

    def _operator(self) -> str:
        """Return the next token if it is an operator between commands, else an empty string."""
        token = self._peek()
        return token.text if token is not None and token.kind is TokenKind.OPERATOR else ""

    def _skip_newlines(self) -> None:
        while self._operator() == "\n":
            self._take("\n")

    def _is_at_word(self, raw: str) -> bool:
        token = self._peek()
        return token is not None and token.kind is TokenKind.WORD and token.text == raw

    # -- lists and pipelines

    def _read_list(self, start: _Folders, *, closing: str) -> _Flow:
        """Read commands up to the closing word or operator, or up to the end."""
        flow = _Flow(start, start)
        self._skip_newlines()
        while self._peek() is not None and not self._is_closed(closing):
            before = flow.either
            flow = self._read_and_or(before)
            operator = self._operator()
            if operator == "&":
                flow = _Flow(before, before)  # the whole list runs in a subshell
            if operator in {";", "&", "\n"}:
                self._take(operator)
                self._skip_newlines()
            elif not (self._peek() is None or (closing == ")" and operator == ")")):
                raise Unreadable(UnsureReason.SYNTAX)
        if closing and not self._is_closed(closing):
            raise Unreadable(UnsureReason.SYNTAX)
        return flow

    def _is_closed(self, closing: str) -> bool:
        if closing == ")":
            return self._operator() == ")"
        return bool(closing) and self._is_at_word(closing)

    def _read_and_or(self, start: _Folders) -> _Flow:
        flow = self._read_pipeline(start)
        while (operator := self._operator()) in {"&&", "||"}:
            self._take(operator)
            self._skip_newlines()
            if operator == "&&":
                right = self._read_pipeline(flow.success)
                flow = _Flow(right.success, _union(flow.failure, right.failure))
            else:
                right = self._read_pipeline(flow.failure)
                flow = _Flow(_union(flow.success, right.success), right.failure)
        return flow

    def _read_pipeline(self, start: _Folders) -> _Flow:
        is_negated = self._is_at_word("!")
        if is_negated:
            self._take("!")
        left = len(self._commands)
        flow = self._read_command(start)
        while (operator := self._operator()) in {"|", "|&"}:
            source = self._commands[left:]
            left = len(self._commands)
            self._take(operator)
            self._skip_newlines()
            is_simple = not (self._operator() == "(" or self._is_at_word("{"))
            self._read_command(start)
            self._mark_input(left)
            if is_simple and len(source) == 1 and operator == "|":
                words = () if source[0].assignments or source[0].redirections else source[0].words
                self._commands[left] = self._commands[left]._replace(source=words)
            flow = _Flow(start, start)  # every part of a pipeline runs in a subshell
        return _Flow(flow.failure, flow.success) if is_negated else flow

    def _mark_input(self, first: int) -> None:
        """Note that the commands from the first on share an input that is not that of the line."""
        self._commands[first:] = [
            command._replace(has_input=True) for command in self._commands[first:]
        ]

    # -- commands

    def _read_command(self, start: _Folders) -> _Flow:
        if self._operator() == "(":
            self._read_compound("(", ")", start)
            return _Flow(start, start)
        if self._is_at_word("{"):
            return self._read_compound("{", "}", start)
        return self._read_simple_command(start)

    def _read_compound(self, opening: str, closing: str, start: _Folders) -> _Flow:
        """Read a group or a subshell, and its redirections as a command before its commands."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Unreadable(UnsureReason.TOO_DEEP)
        first = len(self._commands)
        self._take(opening)
        flow = self._read_list(start, closing=closing)
        if len(self._commands) == first:
            raise Unreadable(UnsureReason.SYNTAX)
        self._take(closing)
        self._depth -= 1
        redirections: list[Redirection] = []
        inputs = self._inputs
        while self._is_at_redirection():
            redirections.extend(self._read_redirection())
        if self._inputs > inputs:
            self._mark_input(first)
        if redirections:
            opened = SimpleCommand((), (), tuple(redirections), _listed(start))
            self._commands.insert(first, opened)
        return flow

    def _read_simple_command(self, start: _Folders) -> _Flow:
        assignments: list[LexedWord] = []
        words: list[LexedWord] = []
        redirections: list[Redirection] = []
        first, inputs = self._at, self._inputs
        self._count += 1
        while (token := self._peek()) is not None and token.kind is not TokenKind.OPERATOR:
            if self._is_at_redirection():
                redirections.extend(self._read_redirection())
                continue
            self._take("word", self._count)
            assert token.word is not None
            self._check_variables(token.word)
            if not words and _ASSIGNMENT.match(token.word.raw):
                assignments.append(token.word)
            else:
                words.append(token.word)
        if self._at == first:
            raise Unreadable(UnsureReason.SYNTAX)
        _check_assignments(assignments, is_lasting=not words)
        if words:
            _check_command(words[0], words[1:])
        if (assignments and not words) or (words and words[0].value in {"export", "unset"}):
            self._has_assigned = True
        command = SimpleCommand(
            words=tuple(map(_shell_word, words)),
            assignments=tuple(ShellWord(word.raw, word.value, False) for word in assignments),
            redirections=tuple(redirections),
            folders=_listed(start),
            has_input=self._inputs > inputs,
        )
        self._commands.append(command)
        return _flow_after(command, start)

    def _check_variables(self, word: LexedWord) -> None:
        """Raise Unreadable if an assignment in this line may change the word."""
        if self._has_assigned and word.has_parameter:
            raise Unreadable(UnsureReason.ASSIGNMENT)

    # -- redirections

    def _is_at_redirection(self) -> bool:
        token = self._peek()
        return token is not None and token.kind in {TokenKind.REDIRECTION, TokenKind.DESCRIPTOR}

    def _read_redirection(self) -> Iterator[Redirection]:
        """Read a redirection; yield it unless it only concerns descriptors or /dev/null."""
        descriptor = None
        if self._tokens[self._at].kind is TokenKind.DESCRIPTOR:
            descriptor = int(self._take("descriptor").text)
        operator = self._take(self._tokens[self._at].text).text
        token = self._peek()
        if token is None or token.word is None:
            raise Unreadable(UnsureReason.SYNTAX)
        self._take("target")
        target = token.word
        self._check_variables(target)
        if operator.startswith("<") and target.value != "/dev/null":
            self._inputs += 1
        if operator in {"<&", ">&"} and _DESCRIPTOR_TARGET.fullmatch(target.raw):
            return
        if operator == "<&" or (
            operator == ">&" and (descriptor is not None or not _PLAIN_FILE.fullmatch(target.raw))
        ):
            raise Unreadable(UnsureReason.REDIRECTION)
        if operator != "<<<" and target.value != "/dev/null":
            yield Redirection(
                _CANONICAL_OPERATOR.get(operator, operator), _shell_word(target), descriptor
            )


def _shell_word(word: LexedWord) -> ShellWord:
    return ShellWord(word.text, word.value, word.may_be_option)


def _listed(folders: _Folders) -> tuple[str, ...] | None:
    return None if folders is None else tuple(sorted(folders))


def _flow_after(command: SimpleCommand, start: _Folders) -> _Flow:
    name = command.words[0].value if command.words else None
    if name == "cd":
        return _Flow(_folders_after_cd(command, start), start)
    if name in {"pushd", "popd"}:
        return _Flow(None, None)
    return _Flow(start, start)


# -- builtins and assignments ---------------------------------------------------------------------

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LASTING_RISKS = re.compile(
    r"PATH|IFS|BASH.*|ENV|PS[0-9]|PROMPT_COMMAND|(?:LD|DYLD|LC)_.*|SHELLOPTS|CDPATH|GLOB.*|HOME"
    r"|PWD|OLDPWD|POSIXLY_CORRECT|EXECIGNORE|FIGNORE|LANG.*|TEXTDOMAIN.*|FUNC.*|DIRSTACK|TMOUT"
)
"""Variables that change how bash reads the rest of the line, or how it finds and starts programs."""
_EVALUATED_VARIABLES = re.compile(
    r"RANDOM|SRANDOM|SECONDS|LINENO|HISTCMD|OPTIND|EPOCH.*|[EU]?UID|PPID|GROUPS|COMP_.*|COMPREPLY"
    r"|MAPFILE|PIPESTATUS|COPROC|READLINE_.*"
)
"""Variables whose values bash may evaluate as arithmetic, which can run commands."""


def _check_assignments(assignments: list[LexedWord], *, is_lasting: bool) -> None:
    for word in assignments:
        found = _ASSIGNMENT.match(word.raw)
        assert found is not None
        _check_variable(found[1], is_lasting=is_lasting)
        if is_lasting and word.value is None:
            raise Unreadable(UnsureReason.ASSIGNMENT)


def _check_variable(name: str, *, is_lasting: bool) -> None:
    """Raise Unreadable if an assignment of the variable has an effect on bash itself."""
    if _EVALUATED_VARIABLES.fullmatch(name) or (is_lasting and _LASTING_RISKS.fullmatch(name)):
        raise Unreadable(UnsureReason.ASSIGNMENT)


def _check_command(name: LexedWord, arguments: list[LexedWord]) -> None:
    """Raise Unreadable if it is unclear which program runs, or if an argument may run another."""
    if name.raw in _RESERVED_WORDS:
        raise Unreadable(UnsureReason.CONTROL_FLOW)
    is_in_home = name.raw.startswith("~/") and not (name.has_parameter or name.has_pattern)
    if (
        (name.value is None and not is_in_home)
        or not name.decoded
        or name.decoded[0] == "%"  # a job
        or "="
        in name.decoded  # an assignment in some locales, to an element, or without its quotes
    ):
        raise Unreadable(UnsureReason.UNKNOWN_COMMAND)
    if name.decoded in _EVALUATING_BUILTINS:
        raise Unreadable(UnsureReason.EVALUATING_BUILTIN)
    is_harmless = _CHECKED_BUILTINS.get(name.decoded)
    if is_harmless is not None and not is_harmless(arguments):
        raise Unreadable(UnsureReason.EVALUATING_BUILTIN)


_EVALUATING_BUILTINS: Final = frozenset(
    {
        *("eval", ".", "source", "exec", "alias", "unalias", "trap", "builtin", "enable", "shopt"),
        *("fc", "bind", "complete", "compgen", "compopt", "let", "declare", "typeset", "local"),
        *("readonly", "read", "mapfile", "readarray", "getopts"),
    }
)
"""Builtins that run their arguments, change the meaning of names, or evaluate `a[$(command)]`."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
_COMPARISONS: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_SHELL_OPTIONS = re.compile(r"[+-][eu]+|[+-][eu]*o pipefail(?: [+-][eu]+)*")
_PRINTF_ASSIGNMENT = re.compile(r"%[^%A-Za-z]*[hlLjztq]*n")


def _is_literal_command(arguments: list[LexedWord]) -> bool:
    """Return whether `command` only finds programs."""
    values = [word.value for word in arguments]
    return values[:1] in (["-v"], ["-V"]) and None not in values


def _is_literal_export(arguments: list[LexedWord]) -> bool:
    for word in arguments:
        found = _ASSIGNMENT.match(word.decoded) or _NAME.fullmatch(word.decoded)
        if word.value is None or found is None or _has_marks(word.decoded):
            return False
        _check_variable(found[0].rstrip("="), is_lasting=True)
    return True


def _is_literal_unset(arguments: list[LexedWord]) -> bool:
    for word in arguments:
        if word.value is None or not _NAME.fullmatch(word.value):
            return False
        _check_variable(word.value, is_lasting=True)
    return True


def _is_literal_test(arguments: list[LexedWord]) -> bool:
    """Return whether `test` evaluates nothing: no variables, and numbers that are numbers."""
    values = [word.value for word in arguments]
    if values and values[-1] == "]":
        del values[-1]
    if any(value is None or _has_marks(value) for value in values):
        return False
    for before, value, after in zip(["0", *values], values, [*values[1:], None], strict=False):
        if value in _COMPARISONS and not all(
            _INTEGER.fullmatch(near or "") for near in (before, after)
        ):
            return False
        if value in {"-v", "-R"} and after is not None and not _NAME.fullmatch(after):
            return False
    return True


def _has_marks(value: str) -> bool:
    return any(mark in value for mark in "[$`")


def _is_literal_printf(arguments: list[LexedWord]) -> bool:
    """Return whether `printf` assigns no variable: neither by `-v` nor by `%n`."""
    if arguments and arguments[0].value == "--":
        arguments = arguments[1:]
    elif arguments and arguments[0].may_be_option:
        return False
    if not arguments:
        return True
    form = arguments[0].value
    return form is not None and not _PRINTF_ASSIGNMENT.search(form)


def _is_literal_set(arguments: list[LexedWord]) -> bool:
    return _SHELL_OPTIONS.fullmatch(" ".join(word.value or "?" for word in arguments)) is not None


def _has_no_options(arguments: list[LexedWord]) -> bool:
    return not any(word.may_be_option for word in arguments)


_CHECKED_BUILTINS: Final[Mapping[str, Callable[[list[LexedWord]], bool]]] = {
    "[": _is_literal_test,
    "command": _is_literal_command,
    "export": _is_literal_export,
    "hash": _has_no_options,
    "jobs": _has_no_options,
    "printf": _is_literal_printf,
    "set": _is_literal_set,
    "test": _is_literal_test,
    "unset": _is_literal_unset,
    "wait": _has_no_options,
}
"""Builtins that are harmless with some arguments, and how to recognise these."""

# -- guesses --------------------------------------------------------------------------------------

_COMMAND_BOUNDARY = re.compile(r"[;&|\n(){}`<>]")
_GUESSED_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_GUESS_SKIPS: Final = _RESERVED_WORDS | _EVALUATING_BUILTINS | {"command"}


def _guess_commands(text: str) -> Iterator[str]:
    """Yield possible commands in a text that cannot be parsed."""
    for part in _COMMAND_BOUNDARY.split(text.replace("\\\n", "")):
        words = part.split()
        words = [*dropwhile(lambda word: word.strip("'\"\\$") in _GUESS_SKIPS, words)]
        for candidate in (words, dropwhile(_GUESSED_ASSIGNMENT.match, words)):
            if guess := " ".join(candidate).strip("'\"\\$ "):
                yield guess  # twice if there are no assignments; the caller removes duplicates
