"""Read the tokens of a command line as bash reads them, or refuse.

The lexer knows the part of the syntax whose effect is visible in the text: words, quotes, plain
variables, patterns, operators, redirections and comments. Everything else raises `Unreadable` with
a reason: substitutions, here-documents, `$'...'`, control characters, blanks that are not ASCII.
Character classes are ASCII, because those of bash depend on the locale. Reading takes linear time.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

MAX_LINE_CHARACTERS: Final = 100_000


class UnsureReason(StrEnum):
    """The first reason why a command line is not understood. The values are stable codes."""

    NONE = ""
    PARSER_MISSING = "parser_missing"
    """The extra `shell` is not installed."""
    TOO_LONG = "too_long"
    TOO_DEEP = "too_deep"
    """More than a handful of groups and subshells inside each other."""
    NOT_UNICODE = "not_unicode"
    CONTROL_CHARACTER = "control_character"
    NOT_ASCII_BLANK = "not_ascii_blank"
    """An invisible character outside of quotes, or one with a byte that some systems call blank."""
    EMPTY = "empty"
    """The line contains no command."""
    SYNTAX = "syntax"
    CONTINUATION = "continuation"
    """A line continuation inside a word or an operator."""
    QUOTING = "quoting"
    """`$'...'`, `$"..."` or an unusual `$`."""
    SUBSTITUTION = "substitution"
    """A command, process or arithmetic substitution."""
    PARAMETER = "parameter"
    """A variable with an operator, such as `${X:-y}`."""
    HEREDOC = "heredoc"
    REDIRECTION = "redirection"
    """An unusual redirection, such as `{fd}>x` or `>&$X`."""
    CONTROL_FLOW = "control_flow"
    """A loop, a condition, a function or another compound command."""
    UNKNOWN_COMMAND = "unknown_command"
    """The name of the command is not a literal."""
    EVALUATING_BUILTIN = "evaluating_builtin"
    """A builtin that may run its arguments, or may change what later commands mean."""
    ASSIGNMENT = "assignment"
    """An assignment that changes what later commands mean, or that bash may evaluate."""
    DISAGREEMENT = "disagreement"
    """The grammar of tree-sitter-bash reads the line differently."""


class Unreadable(Exception):
    """The reader does not understand the line. Stays inside of this package."""

    def __init__(self, reason: UnsureReason) -> None:
        super().__init__(reason.value)
        self.reason: Final = reason


class TokenKind(StrEnum):
    """A kind of token."""

    WORD = "word"
    OPERATOR = "operator"
    REDIRECTION = "redirection"
    DESCRIPTOR = "descriptor"
    """The number in front of a redirection."""
    COMMENT = "comment"


class LexedWord(NamedTuple):
    """A word and what its quotes protect."""

    raw: str
    """The word as written."""
    decoded: str
    """The word without quotes; its value if nothing in it is expanded."""
    is_bare: bool
    """Whether no part of the word is quoted."""
    has_parameter: bool
    has_pattern: bool
    """Whether the word contains an unquoted glob or a brace expansion."""
    has_tilde: bool
    """Whether bash may replace a tilde by a folder."""
    may_be_option: bool
    """Whether an argument that begins with `-` can result from the word."""

    @property
    def value(self) -> str | None:
        """The literal value, or None if bash expands the word."""
        is_open = self.has_parameter or self.has_pattern or self.has_tilde
        return None if is_open else self.decoded

    @property
    def text(self) -> str:
        """The canonical spelling: without quotes that have no effect; as written if bash expands it.

        Words with the same text result in the same arguments.
        """
        if self.is_bare or self.value is None:
            return self.raw  # what a quote does to an expansion shows only as written
        is_safe = self.value and _SAFE_WITHOUT_QUOTES.fullmatch(self.value)
        return self.value if is_safe else shlex.quote(self.value)


class Token(NamedTuple):
    """A part of the line, with its place in characters."""

    kind: TokenKind
    start: int
    end: int
    text: str
    word: LexedWord | None = None


_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_CONTINUATION: Final = "\\\n"
_OPERATOR = re.compile(r"&&|\|\||\|&|&>>|&>|[|&;()\n]")
_REDIRECTION = re.compile(r"<<<|<<-?|<&-?|<>|<|>>|>&-?|>\||>")
_PARAMETER = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\}|[0-9@*#?$!-])")
_UNQUOTED_RUN = re.compile(r"[A-Za-z0-9_@%+:,./=^!\]}-]+")
_DOUBLE_QUOTED_RUN = re.compile(r'[^"$`\\]+')
_SAFE_WITHOUT_QUOTES = re.compile(r"[A-Za-z0-9_@%+:,./-]*")
"""Characters that mean the same with and without quotes; not `=`, which creates assignments."""
_DESCRIPTOR_VARIABLE = re.compile(r"\{[^{}]*\}")
_BREAKS: Final = frozenset(" \t\n;&|<>()")
_INVISIBLE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
_BYTES_CALLED_BLANK: Final = (b"\x85", b"\xa0")
"""Bytes that isblank() accepts in some locales, even as a part of a longer character."""


def read_tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a command line. Raises Unreadable."""
    if len(text) > MAX_LINE_CHARACTERS:
        raise Unreadable(UnsureReason.TOO_LONG)
    if _CONTROL_CHARACTER.search(text):
        raise Unreadable(UnsureReason.CONTROL_CHARACTER)
    at = 0
    while at < len(text):
        char = text[at]
        if char in " \t":
            at += 1
        elif text.startswith(_CONTINUATION, at):
            # Only a blank beside it separates the tokens with and without the continuation.
            if text[at - 1 : at] not in {"", " ", "\t", "\n"}:
                _check_blank_follows(text, at)
            at += 2
        else:
            token = _read_token(text, at)
            yield token
            at = token.end


def _read_token(text: str, at: int) -> Token:
    if text[at] == "#":
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        return Token(TokenKind.COMMENT, at, end, text[at:end])
    if found := _OPERATOR.match(text, at):
        if text.startswith("((", at):
            raise Unreadable(UnsureReason.SUBSTITUTION)
        if text.startswith((";;", ";&"), at):
            raise Unreadable(UnsureReason.SYNTAX)
        kind = TokenKind.REDIRECTION if found[0].startswith("&>") else TokenKind.OPERATOR
        return Token(kind, at, found.end(), found[0])
    if found := _REDIRECTION.match(text, at):
        _check_redirection(found[0], text[found.end() : found.end() + 1])
        return Token(TokenKind.REDIRECTION, at, found.end(), found[0])
    word, end = _WordReader(text, at).read()
    after = text[end : end + 1]
    if after == "(":
        raise Unreadable(UnsureReason.CONTROL_FLOW)  # a function, an array or an extended glob
    if after in {"<", ">"}:
        if word.raw.isascii() and word.raw.isdigit():
            if len(word.raw) > 3:
                raise Unreadable(UnsureReason.REDIRECTION)
            return Token(TokenKind.DESCRIPTOR, at, end, word.raw)
        if _DESCRIPTOR_VARIABLE.fullmatch(word.raw):
            raise Unreadable(UnsureReason.REDIRECTION)
    return Token(TokenKind.WORD, at, end, word.raw, word)


def _check_blank_follows(text: str, continuation: int) -> None:
    if text[continuation + 2 : continuation + 3] not in {" ", "\t"}:
        raise Unreadable(UnsureReason.CONTINUATION)


def _check_redirection(operator: str, after: str) -> None:
    if operator.startswith("<<") and operator != "<<<":
        raise Unreadable(UnsureReason.HEREDOC)
    if after == "(":
        raise Unreadable(UnsureReason.SUBSTITUTION)
    if operator.endswith("-"):
        # Closed descriptors are used again: the next file that is opened receives error messages.
        raise Unreadable(UnsureReason.REDIRECTION)


class _WordReader:
    """Reads one word."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._start = start
        self._at = start
        self._decoded: list[str] = []
        self._first = ""
        """The first character of the value; empty until there is one."""
        self._is_first_quoted = False
        self._is_first_expanded = False
        self._is_bare = True
        self._has_parameter = False
        self._may_split = False
        self._has_glob = False
        self._has_brace = False
        self._has_tilde = False

    def read(self) -> tuple[LexedWord, int]:
        """Return the word and its end. Raises Unreadable."""
        text = self._text
        while self._at < len(text) and text[self._at] not in _BREAKS:
            if found := _UNQUOTED_RUN.match(text, self._at):
                self._at = found.end()
                self._add(found[0])
            elif text.startswith(_CONTINUATION, self._at):
                _check_blank_follows(text, self._at)
                break
            else:
                self._read_special(text[self._at])
        raw = text[self._start : self._at]
        has_brace = self._has_brace and ("," in raw or ".." in raw)
        has_glob = self._has_glob and raw != "["
        if not self._first:
            may_be_option = False
        elif self._may_split or self._is_first_expanded or self._first == "-":
            may_be_option = True
        else:
            starters = ("*?[" if has_glob else "") + ("{" if has_brace else "")
            may_be_option = self._first in starters and not self._is_first_quoted
        word = LexedWord(
            raw=raw,
            decoded="".join(self._decoded),
            is_bare=self._is_bare,
            has_parameter=self._has_parameter,
            has_pattern=has_glob or has_brace,
            has_tilde=self._has_tilde,
            may_be_option=may_be_option,
        )
        return word, self._at

    def _read_special(self, char: str) -> None:
        """Read one character or quotation that may have a meaning of its own."""
        if char == "\\":
            self._read_escape()
        elif char == "'":
            end = self._text.find("'", self._at + 1)
            if end < 0:
                raise Unreadable(UnsureReason.SYNTAX)
            part = self._text[self._at + 1 : end]
            self._at = end + 1
            self._add_quoted(part)
        elif char == '"':
            self._read_double_quotation()
        elif char == "$":
            self._read_dollar(is_quoted=False)
        elif char == "`":
            raise Unreadable(UnsureReason.SUBSTITUTION)
        else:
            if not char.isascii():
                _check_unquoted(char)
            self._has_glob |= char in "*?["
            self._has_brace |= char == "{"
            self._has_tilde |= char == "~" and self._is_tilde_place()
            self._at += 1
            self._add(char)

    def _is_tilde_place(self) -> bool:
        """Return whether bash may expand a tilde here: at the start, or in a value or a list."""
        return self._at == self._start or self._last_character() in {"=", ":"}

    def _last_character(self) -> str:
        return self._decoded[-1][-1] if self._decoded else ""

    def _read_escape(self) -> None:
        char = self._text[self._at + 1 : self._at + 2]
        if not char:
            raise Unreadable(UnsureReason.SYNTAX)
        if not char.isascii():
            _check_unquoted(char)  # in some locales, the escape covers the first byte only
        self._at += 2
        self._add_quoted(char)

    def _read_double_quotation(self) -> None:
        self._at += 1
        self._add_quoted("")
        while True:
            if found := _DOUBLE_QUOTED_RUN.match(self._text, self._at):
                self._at = found.end()
                self._add_quoted(found[0])
            char = self._text[self._at : self._at + 1]
            if char == '"':
                self._at += 1
                return
            if char == "$":
                self._read_dollar(is_quoted=True)
            elif char == "\\":
                self._read_escape_in_double_quotation()
            else:
                raise Unreadable(UnsureReason.SUBSTITUTION if char else UnsureReason.SYNTAX)

    def _read_escape_in_double_quotation(self) -> None:
        char = self._text[self._at + 1 : self._at + 2]
        if char == "\n":
            raise Unreadable(UnsureReason.CONTINUATION)
        is_escape = char in {"$", "`", '"', "\\"}
        self._at += 2 if is_escape else 1
        self._add_quoted(char if is_escape else "\\")

    def _read_dollar(self, *, is_quoted: bool) -> None:
        """Read a variable or a literal dollar sign."""
        found = _PARAMETER.match(self._text, self._at)
        end = found.end() if found else self._at + 1
        after = self._text[end : end + 1]
        if after and not after.isascii():
            raise Unreadable(UnsureReason.PARAMETER)  # a letter of a name, in some locales
        if found:
            self._at = found.end()
            self._has_parameter = True
            self._may_split |= not is_quoted or found[0] == "$@"
            self._is_first_expanded |= not self._first
            self._add(found[0], is_literal=not is_quoted)
            return
        _check_after_dollar(after, is_quoted=is_quoted)
        self._at += 1
        if is_quoted:
            self._add_quoted("$")
        else:
            self._add("$")

    def _add_quoted(self, part: str) -> None:
        self._add(part, is_literal=False)

    def _add(self, part: str, *, is_literal: bool = True) -> None:
        self._is_bare = self._is_bare and is_literal
        if part:
            if not self._first:
                self._first = part[0]
                self._is_first_quoted = not is_literal
            self._decoded.append(part)


def _check_unquoted(char: str) -> None:
    """Raise Unreadable if a character that is not ASCII may separate words on some system."""
    if unicodedata.category(char) in _INVISIBLE_CATEGORIES or any(
        byte in char.encode() for byte in _BYTES_CALLED_BLANK
    ):
        raise Unreadable(UnsureReason.NOT_ASCII_BLANK)


def _check_after_dollar(after: str, *, is_quoted: bool) -> None:
    """Raise Unreadable if a dollar sign before this character is more than itself."""
    if after in {"(", "[", "`"} and not (is_quoted and after == "`"):
        raise Unreadable(UnsureReason.SUBSTITUTION)
    if after == "{":
        raise Unreadable(UnsureReason.PARAMETER)
    if after and after in ("\\" if is_quoted else "\\'\""):
        raise Unreadable(UnsureReason.QUOTING)
