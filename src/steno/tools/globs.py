r"""Patterns for paths: `*.py`, `src/**/test_*.c`, `*.{ts,tsx}`, `[!a-z]?`.

The rules are those of ripgrep, which are git's with alternatives in braces: `*` and `?` stop at a
slash, `**` between slashes is any number of folders, a backslash takes the next character as it
is. This file knows patterns and no files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from steno.errors import InvalidValue

_ANY_FOLDERS_FIRST: Final = "(?:/?|.*/)"
_ANY_FOLDERS_BETWEEN: Final = "(?:/|/.*/)"
_ANYTHING_BELOW: Final = "/.*"
_ANY_NAME: Final = "[^/]*"


def path_filter(pattern: str) -> Callable[[str], bool]:
    """Return what tells whether a relative path fits a pattern that a person or a model wrote.

    A pattern without a slash is about names, in whatever folder; any other is about the whole
    path, and may begin with a slash to say so. Raises InvalidValue.
    """
    anchored = pattern.removeprefix("./").removeprefix("/")
    if not anchored:
        raise InvalidValue("glob: the pattern is empty")
    if "/" not in pattern:
        anchored = f"**/{anchored}"
    fits = re.compile(glob_to_regex(anchored), re.DOTALL).fullmatch
    return lambda path: fits(path) is not None


def below(under: str, pattern: str) -> Callable[[str], bool]:
    """Return what tells whether a file fits a pattern that is about paths below a folder.

    The file and the folder are given in the same spelling. Raises InvalidValue.
    """
    fits = path_filter(pattern)
    start = 0 if under == "." else len(under) + 1

    def wants(name: str) -> bool:
        # A file that was named itself has no path below that; its name has to do.
        return fits(name[start:] or name.rpartition("/")[2])

    return wants


def printable(name: str) -> str:
    """Return a name as one line."""
    return name if name.isprintable() else repr(name)


def names_hidden(pattern: str) -> bool:
    """Tell whether a pattern asks for names that begin with a dot."""
    return re.search(r"(?:^|[/{,])\.(?!\.?(?:/|$))", pattern) is not None


def glob_to_regex(pattern: str, *, lone_bracket: bool = False) -> str:
    """Return a regular expression for all of a path. Raises InvalidValue for half a pattern.

    `lone_bracket` takes a [ that is not closed as the character, as files of rules have it.
    """
    return _Parser(pattern, lone_bracket).parse()


class _Parser:
    """Reads one pattern from left to right, in the way of the crate globset."""

    def __init__(self, pattern: str, lone_bracket: bool) -> None:
        self.pattern = pattern
        self.lone_bracket = lone_bracket
        self.at = 0
        self.stack: list[list[list[str]]] = [[[]]]
        """For every open brace its alternatives, and for each of them its parts."""

    def parse(self) -> str:
        while self.at < len(self.pattern):
            self._read_one()
        if len(self.stack) > 1:
            raise InvalidValue("glob: a { is not closed; write \\{ for the character")
        tokens = self.stack[0][0]
        return ".*" if tokens == [_ANY_FOLDERS_FIRST] else "".join(tokens)

    @property
    def tokens(self) -> list[str]:
        return self.stack[-1][-1]

    def _next(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _read_one(self) -> None:
        character = self._next()
        self.at += 1
        match character:
            case "?":
                self.tokens.append("[^/]")
            case "*":
                self._read_star()
            case "[":
                self.tokens.append(self._read_class())
            case "{":
                self.stack.append([[]])
            case "}":
                self._close()
            case "," if len(self.stack) > 1:
                self.stack[-1].append([])
            case "\\":
                self._read_escaped()
            case _:
                self.tokens.append(re.escape(character))

    def _read_escaped(self) -> None:
        if not self._next():
            raise InvalidValue("glob: nothing follows the last backslash")
        self.tokens.append(re.escape(self._next()))
        self.at += 1

    def _close(self) -> None:
        if len(self.stack) == 1:
            raise InvalidValue("glob: a } closes nothing; write \\} for the character")
        options = ["".join(tokens) for tokens in self.stack.pop()]
        self.tokens.append(f"(?:{'|'.join(options)})")

    def _read_star(self) -> None:
        before = self.pattern[self.at - 2 : self.at - 1] if self.at > 1 else ""
        if self._next() != "*":
            self.tokens.append(_ANY_NAME)
            return
        self.at += 1
        after = self._next()
        if not self.tokens:
            if after in ("", "/"):
                self.at += 1
                self.tokens.append(_ANY_FOLDERS_FIRST)
            else:
                self.tokens.append(_ANY_NAME)
            return
        in_braces = len(self.stack) > 1
        is_last = not after or (in_braces and after in ",}")
        if before != "/" or not (is_last or after == "/"):
            self.tokens.append(_ANY_NAME)
            return
        if not is_last:
            self.at += 1
        if self.tokens[-1] not in (_ANY_FOLDERS_FIRST, _ANYTHING_BELOW):
            self.tokens[-1] = _ANYTHING_BELOW if is_last else _ANY_FOLDERS_BETWEEN

    def _read_class(self) -> str:
        """Read what stands in brackets; a backslash is a character like any other there."""
        negated = self._next() in ("!", "^") and bool(self._next())
        start = self.at + negated
        end = self.pattern.find("]", start + 1)
        if end == -1 and self.lone_bracket:
            return re.escape("[")
        if end == -1:
            raise InvalidValue("glob: a [ is not closed; write \\[ for the character")
        self.at = end + 1
        return f"[{'^' if negated else ''}{_class_items(self.pattern[start:end])}]"


def _class_items(content: str) -> str:
    items: list[str] = []
    at = 0
    while at < len(content):
        low = content[at]
        if content[at + 1 : at + 2] == "-" and at + 2 < len(content):
            high = content[at + 2]
            if high < low:
                raise InvalidValue("glob: a range in brackets runs backwards")
            items.append(f"{re.escape(low)}-{re.escape(high)}")
            at += 3
        else:
            items.append(re.escape(low))
            at += 1
    return "".join(items)
