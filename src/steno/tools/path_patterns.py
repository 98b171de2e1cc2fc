r"""Match paths against globs (`*.py`, `src/**/test_*.c`, `*.{ts,tsx}`) and ignore files.

The syntax is that of ripgrep, which is git's syntax plus alternatives in braces: `*` and `?` do not
match a slash, `**` between slashes matches any number of folders, and a backslash makes the next
character literal.

The ignore files of a folder are `.rgignore`, `.ignore`, `.gitignore` and `.git/info/exclude`, in
the order of precedence. Among ignore files of the same kind, the one in the nearest folder takes
precedence. Ignore files above the workspace also apply. Git's ignore files apply only inside a
repository, and only up to its root. Names that begin with a dot are ignored unless a rule with `!`
includes them or the search includes hidden names; `.git` is always ignored. This module does not
walk folders.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, final

from steno.errors import InvalidValue, ToolFailed
from steno.invisible import escape_invisible, is_readable
from steno.tools.workspace import Workspace


def build_path_filter(pattern: str) -> Callable[[str], bool]:
    """Return a function that decides whether a relative path matches a pattern.

    A pattern without a slash matches names in any folder. Any other pattern matches the whole path
    and may begin with a slash. Raises InvalidValue if the pattern is invalid.
    """
    anchored = pattern.removeprefix("./").removeprefix("/")
    if not anchored:
        raise _invalid("glob_empty", "the pattern is empty")
    if "/" not in pattern:
        anchored = f"**/{anchored}"
    matches = re.compile(glob_to_regex(anchored), re.DOTALL).fullmatch
    return lambda path: matches(path) is not None


def build_filter_below(under: str, pattern: str) -> Callable[[str], bool]:
    """Return a function that decides whether a file matches a pattern relative to a folder.

    The paths of the file and of the folder `under` must be spelled in the same way. Raises
    InvalidValue if the pattern is invalid.
    """
    matches = build_path_filter(pattern)
    start = 0 if under == "." else len(under) + 1
    # If `under` is the file itself, the pattern is matched against the name of the file.
    return lambda name: matches(name[start:] or name.rpartition("/")[2])


def printable_name(name: str) -> str:
    """Return a name for display on one line; a name with unprintable characters is quoted."""
    return name if is_readable(name) else escape_invisible(repr(name))


def asks_for_hidden_names(pattern: str) -> bool:
    """Return whether a pattern contains a name that begins with a dot."""
    return re.search(r"(?:^|[/{,])\.(?!\.?(?:/|$))", pattern) is not None


# -- globs ----------------------------------------------------------------------------------------

_GLOB_TOKEN: Final = re.compile(
    r"\\.?|\[(?P<negated>[!^]?+)(?P<members>.[^]]*)\]|.",  # a backslash is literal in brackets
    re.DOTALL,
)
_MAX_CHARACTERS: Final = 4_096
_MAX_ALTERNATIVES: Final = 256
_MAX_TOKENS: Final = 20_000
"""The maximum number of tokens in all alternatives together.

Python compiles long regular expressions slowly.
"""
_Tokens: TypeAlias = list[str]
"""Stars, slashes, and regular expressions that each match one character other than a slash."""


def glob_to_regex(pattern: str, *, lone_bracket: bool = False) -> str:
    """Convert a glob to a regular expression for a whole path.

    Matching is fast for every pattern, since atomic groups prevent backtracking into a star, as in
    `fnmatch`. With `lone_bracket`, an unclosed [ is a literal character, as in ignore files. Raises
    InvalidValue if the pattern is invalid or too complex.
    """
    if len(pattern) > _MAX_CHARACTERS:
        raise _too_complex()
    alternatives = _parse_alternatives(pattern, lone_bracket)
    if sum(map(len, alternatives)) > _MAX_TOKENS:
        raise _too_complex()
    return "|".join([_path_regex(tokens) for tokens in alternatives])


def _parse_alternatives(pattern: str, lone_bracket: bool) -> list[_Tokens]:
    """Expand the braces of a pattern, and return the tokens of each resulting pattern."""
    found: list[_Tokens] = [[]]
    braces: list[tuple[list[_Tokens], list[_Tokens]]] = []
    """For each open brace, the token lists before it and its complete alternatives."""
    for match in _GLOB_TOKEN.finditer(pattern):
        if match[0] == "{":
            braces.append((found, []))
            found = [[]]
        elif match[0] == "," and braces:
            braces[-1][1].extend(found)
            found = [[]]
        elif match[0] == "}":
            if not braces:
                raise _invalid(
                    "glob_brace_not_open", "a } has no matching {; write \\} for a literal }"
                )
            before, options = braces.pop()
            options += found
            if len(before) * len(options) > _MAX_ALTERNATIVES:
                raise _too_complex()
            found = [start + end for start in before for end in options]
        else:
            token = _parse_token(match, lone_bracket)
            for tokens in found:
                tokens.append(token)
    if braces:
        raise _invalid("glob_brace_not_closed", "a { is not closed; write \\{ for a literal {")
    return found


def _parse_token(match: re.Match[str], lone_bracket: bool) -> str:
    text = match[0]
    if text in ("*", "/"):
        return text
    if text == "?":
        return "[^/]"
    if text == "\\":
        raise _invalid("glob_trailing_backslash", "the pattern ends with a single backslash")
    if text == "[" and not lone_bracket:
        raise _invalid("glob_class_not_closed", "a [ is not closed; write \\[ for a literal [")
    if match["members"] is None:
        return "/" if text[-1] == "/" else re.escape(text[-1])
    members: list[str] = []
    for member in re.findall("(?s).-.|.", match["members"]):
        if member[-1] < member[0]:
            raise _invalid("glob_range_reversed", "a range in brackets is reversed")
        members.append("-".join(map(re.escape, member[:: 2 if len(member) > 1 else 1])))
    return f"(?!/)[{'^' if match['negated'] else ''}{''.join(members)}]"


def _invalid(code: str, rule: str) -> InvalidValue:
    return InvalidValue(rule, code=code, place="glob")


def _too_complex() -> InvalidValue:
    return _invalid("glob_too_complex", "the pattern is too long or has too many alternatives")


def _path_regex(tokens: _Tokens) -> str:
    """Return a regular expression for a whole path, in which `**` matches any number of folders."""
    names = ["**" if name == ["*", "*"] else _name_regex(name) for name in _split(tokens, "/")]
    first, *others = _split(names, "**")
    if not others:
        return "/".join(first)
    # The earliest match of each run of names leaves the longest path for the next runs, so atomic
    # groups miss no match.
    middle = [f"(?>(?:[^/]*/)*?{_as_folders(run)})" for run in others[:-1] if run]
    last = f"(?:.*/)?{'/'.join(others[-1])}" if others[-1] else ".*"
    return "".join([_as_folders(first), *middle, last])


def _name_regex(tokens: _Tokens) -> str:
    """Return a regular expression for one name, with atomic groups as in `_path_regex`."""
    first, *others = ["".join(text) for text in _split(tokens, "*")]
    if not others:
        return first
    middle = [f"(?>[^/]*?{text})" for text in others[:-1] if text]
    return "".join([first, *middle, f"[^/]*{others[-1]}"])


def _split(tokens: _Tokens, separator: str) -> list[_Tokens]:
    parts: list[_Tokens] = [[]]
    for token in tokens:
        if token == separator:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _as_folders(names: list[str]) -> str:
    return "".join([f"{name}/" for name in names])


# -- ignore files ---------------------------------------------------------------------------------

_IGNORE_FILES = (".rgignore", ".ignore", ".gitignore", ".git/info/exclude")
_GIT_IGNORE_FILES = _IGNORE_FILES[2:]


class IgnoreRule(NamedTuple):
    """A rule from one line of an ignore file."""

    matches: Callable[[str], object]
    is_for_folders: bool
    is_negated: bool


@final
class IgnoreRules:
    """Decides which files and folders of a workspace a search ignores.

    With `hidden`, a name is not ignored merely because it begins with a dot.
    """

    def __init__(self, workspace: Workspace, *, hidden: bool = False) -> None:
        self._workspace = workspace
        self._hidden = hidden
        self._levels = lru_cache(maxsize=4096)(self._find_levels)

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a search ignores the file or folder at an absolute path.

        This does not check whether a folder above the path is ignored.
        """
        folder, _, name = path.rpartition("/")
        if name == ".git":
            return True
        rule = self._deciding_rule(path, folder, is_folder)
        if rule is None:
            return name.startswith(".") and not self._hidden
        return not rule.is_negated

    def _deciding_rule(self, path: str, folder: str, is_folder: bool) -> IgnoreRule | None:
        levels = self._levels(folder)
        in_repository = any(level.has_git for level in levels)
        for kind, name in enumerate(_IGNORE_FILES):
            is_git = name in _GIT_IGNORE_FILES
            if is_git and not in_repository:
                continue
            for level in levels:
                for rule in reversed(level.rules[kind]):
                    is_kind = is_folder or not rule.is_for_folders
                    if is_kind and rule.matches(path[level.prefix :]):
                        return rule
                if is_git and level.has_git:
                    break
        return None

    def _find_levels(self, folder: str) -> tuple[_FolderRules, ...]:
        """Return the rules of a folder and of the folders above it, the nearest first."""
        above = () if not folder else self._levels(folder.rpartition("/")[0])
        rules = tuple([parse_ignore_file(self._read(f"{folder}/{name}")) for name in _IGNORE_FILES])
        has_git = os.path.lexists(f"{folder}/.git")
        if not has_git and not any(rules):
            return above
        return (_FolderRules(len(folder) + 1, rules, has_git), *above)

    def _read(self, path: str) -> bytes:
        """Return the content of an ignore file; empty if it is missing or unreadable.

        A file above the workspace is read directly, since models cannot write there.
        """
        if not os.path.lexists(path):  # most folders have none
            return b""
        with suppress(ToolFailed):
            return self._workspace.read_file(path)
        folder = Path(path).parent
        if any(folder in root.parents for root in self._workspace.roots):
            with suppress(OSError):
                return Path(path).read_bytes()
        return b""


class _FolderRules(NamedTuple):
    """The ignore rules of one folder."""

    prefix: int
    """The length of the folder's path, including the slash at its end."""
    rules: tuple[tuple[IgnoreRule, ...], ...]
    """The rules of each kind of ignore file, in the order of `_IGNORE_FILES`."""
    has_git: bool


def parse_ignore_file(data: bytes) -> tuple[IgnoreRule, ...]:
    """Return the rules of an ignore file. Invalid lines are skipped, as in ripgrep."""
    rules: list[IgnoreRule] = []
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        try:
            rule = _parse_ignore_line(line.decode().removesuffix("\r"))
        except UnicodeDecodeError:
            break  # as ripgrep does
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
    elif line == "**/":  # for example "!" alone, which matches everything in ripgrep
        line = "**"
    matches = re.compile(glob_to_regex(line, lone_bracket=True), re.DOTALL).fullmatch
    return IgnoreRule(matches, is_for_folders, is_negated)
