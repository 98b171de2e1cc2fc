"""Split a command line into the simple commands that permission rules match.

The line is parsed as a shell parses it, word by word. Constructs that hide which commands would run
(substitutions, here-documents, loops, functions, variables as commands) make the whole line
unknown. This module runs no commands.

    git status && rm -rf "x" | cat 2>&1 > log     "git status", "rm -rf x", "cat", "> log"

A redirection is a separate subject, so that a rule for `echo` does not cover the file that `echo`
writes to. A command that follows assignments yields two subjects, with and without the assignments:
a rule that denies `rm` also denies `A=1 rm`, and a rule that allows `make` does not allow
`CC=evil make`. `sudo`, `env` and similar prefixes remain part of the command, so rules must include
them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import dropwhile
from typing import Final, NamedTuple

UNKNOWN_PREFIX: Final = "\n"
"""The prefix of a line that cannot be parsed."""
_RESERVED_WORDS: Final = frozenset(
    {
        *("if", "then", "elif", "else", "fi", "case", "esac", "for", "select", "in", "while"),
        *("until", "do", "done", "function", "time", "coproc", "!", "{", "}", "[[", "]]"),
    }
)
_EVALUATING_BUILTINS: Final = frozenset(
    {
        *("eval", ".", "source", "alias", "unalias", "trap", "command", "builtin", "enable"),
        *("fc", "bind", "complete", "compgen"),
    }
)
"""Builtins that run their arguments as commands, or change the meaning of later names."""
_SUBSCRIPT_BUILTINS: Final = frozenset(
    {
        *("printf", "test", "[", "read", "unset", "let", "declare", "typeset", "local", "export"),
        *("readonly", "mapfile", "readarray", "wait", "getopts"),
    }
)
"""Builtins that may evaluate a quoted `a[$(command)]`, since they read it as a variable name."""

_OPERATOR = re.compile(r"&&|\|\||\|&?|;|&(?!>)|\n")
_JOINING_OPERATORS: Final = frozenset({"&&", "||", "|", "|&"})
"""Operators that another command must follow."""
_REDIRECTION = re.compile(r"\d*(>>|>\||>&|<>|<&|>|<)|(&>>|&>)")
_CANONICAL_REDIRECTION: Final = {">|": ">", ">&": ">", "&>": ">", "&>>": ">>", "<&": "<"}
_DESCRIPTOR = re.compile(r"\d+-?|-")
_CONTINUATION: Final = "\\\n"
_BLANKS_AND_COMMENTS = re.compile(r"(?:[ \t]|\\\n|#[^\n]*)*")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_PARAMETER = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\}|[0-9@*#?$!-])")
_UNQUOTED_SAFE = re.compile(r"[A-Za-z0-9_@%+:,./-]*")
"""Characters that mean the same with and without quotes; not `=`, which creates assignments."""
_COMMAND_BOUNDARY = re.compile(r"[;&|\n(){}`<>]")


def split_commands(text: str) -> tuple[str, ...]:
    """Return the simple commands and redirections of a command line in canonical spelling.

    If the line cannot be parsed, the first subject is `UNKNOWN_PREFIX` followed by the
    whole line. The next subjects are guesses at the commands, so that deny rules can match them.
    An allow rule covers the first subject only if it covers every command.
    """
    try:
        return tuple(_parse_commands(_CommandLexer(text)))
    except _CannotParse:
        return (UNKNOWN_PREFIX + text, *dict.fromkeys(_guess_commands(text)))


class _CannotParse(Exception):
    """The parser cannot determine which commands would run."""


class _ShellWord(NamedTuple):
    raw: str
    """The word as written, without line continuations."""
    value: str
    """The value without quotes; meaningless if the shell expands the word."""
    is_bare: bool
    """Whether no part of the word is quoted."""
    is_plain: bool
    """Whether the word means the same without its quotes."""
    is_open: bool
    """Whether the value depends on variables or patterns."""
    has_parameter: bool
    has_tilde: bool

    @property
    def text(self) -> str:
        """The word in canonical spelling."""
        if self.is_bare or self.has_parameter:
            return self.raw
        if self.is_plain and self.value:
            return self.value
        return self.raw if self.is_open or self.has_tilde else shlex.quote(self.value)


class _CommandLexer:
    """Reads the tokens of a command line from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def skip_blanks(self) -> None:
        """Move past spaces, tabs, line continuations and comments to the next token."""
        self.take(_BLANKS_AND_COMMENTS)

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Match a pattern at the current position, and move past the match.

        Return the match, or None if the pattern does not match.
        """
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def is_at(self, pattern: re.Pattern[str]) -> bool:
        return pattern.match(self._text, self._at) is not None

    def peek(self) -> str:
        """Return the next character; empty at the end."""
        return self._text[self._at : self._at + 1]

    def read_word(self) -> _ShellWord:
        """Read a word. Raises _CannotParse if there is no word, or if it may run a command."""
        value: list[str] = []
        raw: list[str] = []
        quoted: list[str] = []
        is_pattern = has_parameter = has_tilde = False
        while char := self.peek():
            if char in " \t\n;&|<>":
                break
            if char in "()`\x7f" or char < " ":
                raise _CannotParse
            start = self._at
            if char in "'\"\\":
                part, expands = self._read_quotation(char)
                quoted.append(part)
                has_parameter |= expands
            elif char == "$":
                part, expands = self._read_dollar()
                has_parameter |= expands
            else:
                part = char
                self._at += 1
                is_pattern |= char in "*?[{"
                has_tilde |= char == "~"
            value.append(part)
            spelling = self._text[start : self._at]
            raw.append("" if spelling == _CONTINUATION else spelling)
        if not any(raw):
            raise _CannotParse
        return _ShellWord(
            raw="".join(raw),
            value="".join(value),
            is_bare=raw == value,
            is_plain=all(map(_UNQUOTED_SAFE.fullmatch, quoted)),
            is_open=has_parameter or (is_pattern and raw != ["["]),
            has_parameter=has_parameter,
            has_tilde=has_tilde,
        )

    def _read_quotation(self, mark: str) -> tuple[str, bool]:
        """Read quoted or escaped text; return the text, and whether it contains a variable."""
        self._at += 1
        if mark == "\\":
            if not (char := self.peek()):
                raise _CannotParse
            self._at += 1
            return ("" if char == "\n" else char), False
        if mark == "'":
            end = self._text.find("'", self._at)
            if end < 0:
                raise _CannotParse
            part = self._text[self._at : end]
            self._at = end + 1
            return part, False
        return self._read_double_quotation()

    def _read_double_quotation(self) -> tuple[str, bool]:
        parts: list[str] = []
        is_open = False
        while (char := self.peek()) != '"':
            if char in {"", "`"} or self._text.startswith(_CONTINUATION, self._at):
                raise _CannotParse
            if char == "$":
                part, expands = self._read_dollar(within_quotes=True)
                is_open |= expands
                parts.append(part)
                continue
            self._at += 1
            if char == "\\" and self.peek() in {"$", "`", '"', "\\"}:
                char = self.peek()
                self._at += 1
            parts.append(char)
        self._at += 1
        return "".join(parts), is_open

    def _read_dollar(self, *, within_quotes: bool = False) -> tuple[str, bool]:
        """Read a variable or a literal dollar sign. Raises _CannotParse for other expansions."""
        if found := self.take(_PARAMETER):
            return found[0], True
        self._at += 1
        if self.peek() and self.peek() in ("({[" if within_quotes else "({['\"\\"):
            raise _CannotParse
        return "$", False


def _parse_commands(lexer: _CommandLexer) -> Iterator[str]:
    """Yield the subjects of all commands.

    Raises _CannotParse, possibly after it has yielded some subjects.
    """
    count = 0
    must_follow = False
    while True:
        lexer.skip_blanks()
        words, redirections = _read_simple_command(lexer)
        operator = lexer.take(_OPERATOR)
        if words or redirections:
            count += 1
            must_follow = operator is not None and operator[0] in _JOINING_OPERATORS
            if words:
                yield from _command_subjects(words)
            yield from redirections
        elif operator is not None and operator[0] != "\n":
            raise _CannotParse  # an operator without a command before it
        if operator is None:
            if must_follow or not count or lexer.peek():
                raise _CannotParse
            return


def _read_simple_command(reader: _CommandLexer) -> tuple[list[_ShellWord], list[str]]:
    """Return the words and the subjects of the redirections up to an operator or the end."""
    words: list[_ShellWord] = []
    redirections: list[str] = []
    while reader.peek() and not reader.is_at(_OPERATOR):
        found = reader.take(_REDIRECTION)
        if found is None:
            words.append(reader.read_word())
        else:
            redirections.extend(_redirection_subjects(found[1] or found[2], reader))
        reader.skip_blanks()
    return words, redirections


def _command_subjects(words: list[_ShellWord]) -> Iterator[str]:
    """Yield the subjects of a command: assignments as written, words in canonical spelling."""
    command = [*dropwhile(lambda word: _ASSIGNMENT.match(word.raw), words)]
    assignments = [word.raw for word in words[: len(words) - len(command)]]
    texts = [word.text for word in command]
    if command:
        _check_command(command[0], command[1:])
    yield " ".join([*assignments, *texts])
    if assignments and command:
        yield " ".join(texts)


def _check_command(name: _ShellWord, arguments: list[_ShellWord]) -> None:
    """Raise _CannotParse if it is unclear which program runs, or if an argument may run another."""
    has_marks = any(mark in word.raw for word in arguments for mark in "$`")
    if (
        name.is_open
        or not name.value
        or name.raw in _RESERVED_WORDS
        or name.value in _EVALUATING_BUILTINS
        or (not name.is_bare and "=" in name.value)  # without quotes it would be an assignment
        or (name.value in _SUBSCRIPT_BUILTINS and has_marks)
    ):
        raise _CannotParse


def _redirection_subjects(operator: str, reader: _CommandLexer) -> Iterator[str]:
    """Read a redirection; yield a subject unless the target is a descriptor or /dev/null."""
    if reader.peek() in {"<", "("}:
        raise _CannotParse  # a here-document or a process substitution
    reader.skip_blanks()
    target = reader.read_word()
    if operator in {">&", "<&"} and _DESCRIPTOR.fullmatch(target.value):
        return
    if target.text != "/dev/null":
        yield f"{_CANONICAL_REDIRECTION.get(operator, operator)} {target.text}"


def _guess_commands(text: str) -> Iterator[str]:
    """Yield possible commands in a text that cannot be parsed."""
    for part in _COMMAND_BOUNDARY.split(text.replace(_CONTINUATION, "")):
        words = part.split()
        while words and words[0].strip("'\"\\$") in _RESERVED_WORDS | _EVALUATING_BUILTINS:
            del words[0]
        for candidate in (words, dropwhile(_ASSIGNMENT.match, words)):
            if guess := " ".join(candidate).strip("'\"\\$ "):
                yield guess  # twice if there are no assignments; the caller removes duplicates
