r"""Match paths against globs (`*.py`, `src/**/test_*.c`, `*.{ts,tsx}`) and ignore files.

The rules are those of ripgrep, which are git's with alternatives in braces: `*` and `?` stop at a
slash, `**` between slashes is any number of folders, a backslash takes the next character
literally. Ignore files are `.rgignore`, `.ignore`, `.gitignore` and `.git/info/exclude` of every
folder: a nearer file wins over one further up, and the first kind over the next. Folders above the
workspace count as well, those of git up to the root of the repository; outside of a repository
`.gitignore` has no effect. Names that begin with a dot are ignored unless a rule with `!` includes
them or the search asks for them; `.git` is always ignored. This module decides about names and
walks no folders.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple, final

from steno.errors import InvalidValue


def build_path_filter(pattern: str) -> Callable[[str], bool]:
    """Return a function that decides whether a relative path matches a pattern.

    A pattern without a slash is about names, in any folder; any other is about the whole path,
    and may begin with a slash. Raises InvalidValue.
    """
    anchored = pattern.removeprefix("./").removeprefix("/")
    if not anchored:
        raise InvalidValue("the pattern is empty", code="glob_empty", place="glob")
    if "/" not in pattern:
        anchored = f"**/{anchored}"
    matches = re.compile(glob_to_regex(anchored), re.DOTALL).fullmatch
    return lambda path: matches(path) is not None


def build_filter_below(under: str, pattern: str) -> Callable[[str], bool]:
    """Return a function that decides whether a file matches a pattern for paths below a folder.

    The file and the folder must be spelled in the same way. Raises InvalidValue.
    """
    matches = build_path_filter(pattern)
    start = 0 if under == "." else len(under) + 1

    def matches_below(name: str) -> bool:
        # A file that is itself the search path matches by its name.
        return matches(name[start:] or name.rpartition("/")[2])

    return matches_below


def printable_name(name: str) -> str:
    """Return a name in one line."""
    return name if name.isprintable() else repr(name)


def asks_for_hidden_names(pattern: str) -> bool:
    """Return whether a pattern asks for names that begin with a dot."""
    return re.search(r"(?:^|[/{,])\.(?!\.?(?:/|$))", pattern) is not None


def glob_to_regex(pattern: str, *, lone_bracket: bool = False) -> str:
    """Return a regular expression for a whole path. Raises InvalidValue for an incomplete pattern.

    With `lone_bracket`, a [ that is not closed is the character, as in ignore files.
    """
    return _GlobParser(pattern, lone_bracket).parse()


# -- globs ----------------------------------------------------------------------------------------

_ANY_FOLDERS_FIRST: Final = "(?:/?|.*/)"
_ANY_FOLDERS_BETWEEN: Final = "(?:/|/.*/)"
_ANYTHING_BELOW: Final = "/.*"
_ANY_NAME: Final = "[^/]*"


class _GlobParser:
    """Translates one pattern from left to right, like the crate globset."""

    def __init__(self, pattern: str, lone_bracket: bool) -> None:
        self.pattern = pattern
        self.lone_bracket = lone_bracket
        self.position = 0
        self.stack: list[list[list[str]]] = [[[]]]
        """For every open brace its alternatives, and for each of them its parts."""

    def parse(self) -> str:
        while self.position < len(self.pattern):
            self._read_one()
        if len(self.stack) > 1:
            raise InvalidValue(
                "a { is not closed; write \\{ for the character",
                code="glob_brace_not_closed",
                place="glob",
            )
        tokens = self.stack[0][0]
        return ".*" if tokens == [_ANY_FOLDERS_FIRST] else "".join(tokens)

    @property
    def tokens(self) -> list[str]:
        return self.stack[-1][-1]

    def _next(self) -> str:
        return self.pattern[self.position : self.position + 1]

    def _read_one(self) -> None:
        character = self._next()
        self.position += 1
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
            raise InvalidValue(
                "nothing follows the last backslash", code="glob_trailing_backslash", place="glob"
            )
        self.tokens.append(re.escape(self._next()))
        self.position += 1

    def _close(self) -> None:
        if len(self.stack) == 1:
            raise InvalidValue(
                "a } closes nothing; write \\} for the character",
                code="glob_brace_not_open",
                place="glob",
            )
        options = ["".join(tokens) for tokens in self.stack.pop()]
        self.tokens.append(f"(?:{'|'.join(options)})")

    def _read_star(self) -> None:
        before = self.pattern[self.position - 2 : self.position - 1] if self.position > 1 else ""
        if self._next() != "*":
            self.tokens.append(_ANY_NAME)
            return
        self.position += 1
        after = self._next()
        if not self.tokens:
            if after in ("", "/"):
                self.position += 1
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
            self.position += 1
        if self.tokens[-1] not in (_ANY_FOLDERS_FIRST, _ANYTHING_BELOW):
            self.tokens[-1] = _ANYTHING_BELOW if is_last else _ANY_FOLDERS_BETWEEN

    def _read_class(self) -> str:
        """Read a class in brackets; a backslash has no special meaning there."""
        negated = self._next() in ("!", "^") and bool(self._next())
        start = self.position + negated
        end = self.pattern.find("]", start + 1)
        if end == -1 and self.lone_bracket:
            return re.escape("[")
        if end == -1:
            raise InvalidValue(
                "a [ is not closed; write \\[ for the character",
                code="glob_class_not_closed",
                place="glob",
            )
        self.position = end + 1
        return f"[{'^' if negated else ''}{_translate_class(self.pattern[start:end])}]"


def _translate_class(content: str) -> str:
    items: list[str] = []
    position = 0
    while position < len(content):
        low = content[position]
        if content[position + 1 : position + 2] == "-" and position + 2 < len(content):
            high = content[position + 2]
            if high < low:
                raise InvalidValue(
                    "a range in brackets runs backwards", code="glob_range_reversed", place="glob"
                )
            items.append(f"{re.escape(low)}-{re.escape(high)}")
            position += 3
        else:
            items.append(re.escape(low))
            position += 1
    return "".join(items)


# -- ignore files ---------------------------------------------------------------------------------

_IGNORE_FILES = (".rgignore", ".ignore", ".gitignore", ".git/info/exclude")
_GIT_IGNORE_FILES = _IGNORE_FILES[2:]


class IgnoreRule(NamedTuple):
    """One line of an ignore file."""

    matches: Callable[[bytes], object]
    is_for_folders: bool
    is_negated: bool


@final
class IgnoreRules:
    """Decides which files and folders a search ignores.

    `read` returns the content of a file by its absolute path, None if there is none that may be
    read; `exists` returns whether a path exists.
    """

    def __init__(
        self,
        read: Callable[[str], bytes | None],
        exists: Callable[[str], bool],
        *,
        hidden: bool = False,
    ) -> None:
        self._read = read
        self._exists = exists
        self._hidden = hidden
        self._levels = lru_cache(maxsize=4096)(self._find_levels)

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a search ignores a file or folder, given by its absolute path.

        The folders above it are not checked.
        """
        folder, _, name = path.rpartition("/")
        if name == ".git":
            return True
        rule = self._deciding_rule(path.encode(errors="surrogateescape"), folder, is_folder)
        if rule is None:
            return name.startswith(".") and not self._hidden
        return not rule.is_negated

    def _deciding_rule(self, path: bytes, folder: str, is_folder: bool) -> IgnoreRule | None:
        levels = self._levels(folder)
        in_repository = any(level.has_git for level in levels)
        for kind, name in enumerate(_IGNORE_FILES):
            if name in _GIT_IGNORE_FILES and not in_repository:
                continue
            for level in levels:
                found = _last_matching_rule(level.rules[kind], path[level.prefix :], is_folder)
                if found is not None:
                    return found
                if name in _GIT_IGNORE_FILES and level.has_git:
                    break
        return None

    def _find_levels(self, folder: str) -> tuple[_FolderRules, ...]:
        """Return the rules of a folder and of those above it, the nearest first."""
        above = () if not folder else self._levels(folder.rpartition("/")[0])
        rules = tuple(
            [parse_ignore_file(self._read(f"{folder}/{name}") or b"") for name in _IGNORE_FILES]
        )
        has_git = self._exists(f"{folder}/.git")
        if not has_git and not any(rules):
            return above
        prefix = len(folder.encode(errors="surrogateescape")) + 1
        return (_FolderRules(prefix, rules, has_git), *above)


class _FolderRules(NamedTuple):
    """The rules of one folder."""

    prefix: int
    """How long the path of the folder is, with its slash."""
    rules: tuple[tuple[IgnoreRule, ...], ...]
    """By kind, in the order of `_IGNORE_FILES`."""
    has_git: bool


def _last_matching_rule(
    rules: tuple[IgnoreRule, ...], path: bytes, is_folder: bool
) -> IgnoreRule | None:
    for rule in reversed(rules):
        if (is_folder or not rule.is_for_folders) and rule.matches(path):
            return rule
    return None


def parse_ignore_file(data: bytes) -> tuple[IgnoreRule, ...]:
    """Return the rules of an ignore file. Invalid lines are skipped, as in ripgrep."""
    rules: list[IgnoreRule] = []
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        try:
            rule = _parse_ignore_line(line.decode().removesuffix("\r"))
        except UnicodeDecodeError:
            break  # ripgrep reads no further either
        except InvalidValue:
            continue
        if rule is not None:
            rules.append(rule)
    return tuple(rules)


def _parse_ignore_line(line: str) -> IgnoreRule | None:
    if line.startswith("#"):
        return None
    if not line.endswith("\\ "):
        line = line.rstrip()
    if not line:
        return None
    is_negated = is_anchored = False
    if line.startswith(("\\!", "\\#")):
        line = line[1:]
    else:
        is_negated = line.startswith("!")
        line = line[is_negated:]
        is_anchored = line.startswith("/")
        line = line[is_anchored:]
    is_for_folders = line.endswith("/")
    if is_for_folders:
        line = line[:-1].removesuffix("\\")
    if not is_anchored and "/" not in line and not line.startswith("**/"):
        line = f"**/{line}"
    if line.endswith("/**"):
        line += "/*"
    # Names are bytes, and `?` matches one of them, as in ripgrep.
    matches = re.compile(glob_to_regex(line, lone_bracket=True).encode(), re.DOTALL).fullmatch
    return IgnoreRule(matches, is_for_folders, is_negated)
