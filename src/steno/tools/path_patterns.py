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

Patterns and ignore files may come from strangers. Matching never tries a part of a path again, and
ends early in a thread of `run_in_cancellable_thread` whose task is cancelled.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, final

from steno.errors import InvalidValue, ToolFailed
from steno.invisible import escape_invisible, is_readable
from steno.regular_file import open_regular_file
from steno.tools.cancellable_thread import check_not_cancelled
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
    return compile_glob(anchored)


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
"""The maximum number of tokens in all alternatives together."""


class _Wildcard(Enum):
    STAR = "*"
    SLASH = "/"
    ONE = "?"


class _CharacterClass(NamedTuple):
    """The characters that a class in brackets matches, or with `is_negated` the other ones."""

    ranges: tuple[tuple[str, str], ...]
    is_negated: bool


_Token: TypeAlias = str | _Wildcard | _CharacterClass
"""A part of a pattern; text is a literal character."""
_Tokens: TypeAlias = list[_Token]


def compile_glob(pattern: str, *, lone_bracket: bool = False) -> Callable[[str], bool]:
    """Return a function that decides whether a whole path matches a glob.

    The number of steps is at most proportional to the length of the pattern times the length of
    the path. With `lone_bracket`, an unclosed [ is a literal character, as in ignore files. Raises
    InvalidValue if the pattern is invalid or too complex.
    """
    if len(pattern) > _MAX_CHARACTERS:
        raise _too_complex()
    alternatives = [_compile_path(tokens) for tokens in _parse_alternatives(pattern, lone_bracket)]
    if len(alternatives) == 1:
        return alternatives[0]
    return lambda path: any(matches(path) for matches in alternatives)


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
            _check_size(before, options)
            found = [start + end for start in before for end in options]
        else:
            token = _parse_token(match, lone_bracket)
            for tokens in found:
                tokens.append(token)
    if braces:
        raise _invalid("glob_brace_not_closed", "a { is not closed; write \\{ for a literal {")
    _check_size([[]], found)
    return found


def _check_size(before: list[_Tokens], options: list[_Tokens]) -> None:
    """Raise InvalidValue if the combinations of two lists are too many or too long."""
    tokens = len(before) * sum(map(len, options)) + len(options) * sum(map(len, before))
    if len(before) * len(options) > _MAX_ALTERNATIVES or tokens > _MAX_TOKENS:
        raise _too_complex()


def _parse_token(match: re.Match[str], lone_bracket: bool) -> _Token:
    text = match[0]
    if text in ("*", "/", "?"):
        return _Wildcard(text)
    if text == "\\":
        raise _invalid("glob_trailing_backslash", "the pattern ends with a single backslash")
    if text == "[" and not lone_bracket:
        raise _invalid("glob_class_not_closed", "a [ is not closed; write \\[ for a literal [")
    if match["members"] is None:
        return _Wildcard.SLASH if text[-1] == "/" else text[-1]
    members = re.findall("(?s).-.|.", match["members"])
    if any(member[-1] < member[0] for member in members):
        raise _invalid("glob_range_reversed", "a range in brackets is reversed")
    ranges = dict.fromkeys((member[0], member[-1]) for member in members)
    return _CharacterClass(tuple(ranges), bool(match["negated"]))


def _invalid(code: str, rule: str) -> InvalidValue:
    return InvalidValue(rule, code=code, place="glob")


def _too_complex() -> InvalidValue:
    return _invalid("glob_too_complex", "the pattern is too long or has too many alternatives")


_FOLDERS: Final = [_Wildcard.STAR, _Wildcard.STAR]
"""The tokens of `**`, which matches any number of folders."""


def _compile_path(tokens: _Tokens) -> Callable[[str], bool]:
    parts = _split(tokens, _Wildcard.SLASH)
    if parts[-1] == _FOLDERS:
        parts.append([_Wildcard.STAR])  # any number of folders, and the name of a file in them
    if len(parts) == 2 and parts[0] == _FOLDERS:
        matches_name = _NamePattern(parts[1]).matches
        return lambda path: matches_name(path[path.rfind("/") + 1 :])
    return _PathPattern(parts).matches


@final
class _PathPattern:
    """A pattern for a path, as an automaton whose states are the bits of an integer.

    Bit n is set if the names so far match the first n names of the pattern. Each name of a path
    is compared once with each different name of the pattern, so nothing is ever compared again.
    """

    def __init__(self, parts: Sequence[_Tokens]) -> None:
        self._repeats = 0  # the states that any folder leaves unchanged, because of `**`
        states: dict[tuple[_Token, ...], int] = {}
        last = 0
        for part in parts:
            if part == _FOLDERS:
                self._repeats |= 1 << last
            else:
                states[tuple(part)] = states.get(tuple(part), 0) | 1 << last
                last += 1
        self._names = [(_NamePattern(part), mask) for part, mask in states.items()]
        self._last_name = _NamePattern(parts[-1])
        self._accepted = 1 << last

    def matches(self, path: str) -> bool:
        check_not_cancelled()
        # Most paths of a search differ in the last name.
        if not self._last_name.matches(path[path.rfind("/") + 1 :]):
            return False
        state = 1
        for name in path.split("/"):
            advanced = 0
            for pattern, mask in self._names:
                if state & mask and pattern.matches(name):
                    advanced |= state & mask
            state = advanced << 1 | state & self._repeats
            if not state:
                return False
        return bool(state & self._accepted)


@final
class _NamePattern:
    """A pattern for one name: chunks of fixed length, with any text between them.

    Each chunk is found at the first position after the chunk before it. This leaves the most text
    for the next chunks, so that no position has to be tried again.
    """

    def __init__(self, tokens: Iterable[_Token]) -> None:
        chunks = [_NameChunk(chunk) for chunk in _split(tokens, _Wildcard.STAR)]
        self._first, self._last = chunks[0], chunks[-1]
        self._middle = [chunk for chunk in chunks[1:-1] if chunk.length]
        self._has_star = len(chunks) > 1
        self._min_length = sum(chunk.length for chunk in chunks)

    def matches(self, name: str) -> bool:
        if not self._has_star:
            return len(name) == self._min_length and self._first.is_at(name, 0)
        if len(name) < self._min_length:
            return False
        start, end = self._first.length, len(name) - self._last.length
        if not self._first.is_at(name, 0) or not self._last.is_at(name, end):
            return False
        for chunk in self._middle:
            found = chunk.find(name, start, end)
            if found < 0:
                return False
            start = found + chunk.length
        return True


@final
class _NameChunk:
    """A part of a pattern that matches a fixed number of characters."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self.length: Final = len(tokens)
        literals = [token for token in tokens if isinstance(token, str)]
        self._text = "".join(literals) if len(literals) == len(tokens) else None
        self._tokens = tokens

    def is_at(self, name: str, position: int) -> bool:
        """Return whether the chunk matches at a position, which leaves room for it."""
        if self._text is not None:
            return name.startswith(self._text, position)
        return all(map(_matches_character, self._tokens, name[position : position + self.length]))

    def find(self, name: str, start: int, end: int) -> int:
        """Return the first position of the chunk between two positions; -1 if there is none."""
        if self._text is not None:
            return name.find(self._text, start, end)
        check_not_cancelled()
        positions = range(start, end - self.length + 1)
        return next((position for position in positions if self.is_at(name, position)), -1)


def _matches_character(token: _Token, character: str) -> bool:
    if isinstance(token, _CharacterClass):
        is_member = any(first <= character <= last for first, last in token.ranges)
        return is_member is not token.is_negated
    return token is _Wildcard.ONE or token == character


def _split(tokens: Iterable[_Token], separator: _Wildcard) -> list[_Tokens]:
    parts: list[_Tokens] = [[]]
    for token in tokens:
        if token is separator:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


# -- ignore files ---------------------------------------------------------------------------------

_IGNORE_FILES = (".rgignore", ".ignore", ".gitignore", ".git/info/exclude")
_GIT_IGNORE_FILES = _IGNORE_FILES[2:]
_MAX_IGNORE_FILE_BYTES: Final = 1024 * 1024
_MAX_RULES: Final = 100_000
"""The maximum number of rules in the ignore files of one search, which are kept in memory."""


class IgnoreRule(NamedTuple):
    """A rule from one line of an ignore file."""

    matches: Callable[[str], bool]
    is_for_folders: bool
    is_negated: bool


@final
class IgnoreRules:
    """Decides which files and folders of a workspace a search ignores.

    With `hidden`, a name is not ignored merely because it begins with a dot. Ignore files larger
    than 1 MiB are skipped. Methods raise ToolFailed if all ignore files together have too many
    rules.
    """

    def __init__(self, workspace: Workspace, *, hidden: bool = False) -> None:
        self._workspace = workspace
        self._hidden = hidden
        self._rules_left = _MAX_RULES
        self._levels = lru_cache(maxsize=4096)(self._find_levels)

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a search ignores the file or folder at an absolute path.

        This does not check whether a folder above the path is ignored.
        """
        check_not_cancelled()
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
        self._rules_left -= sum(map(len, rules))
        if self._rules_left < 0:
            message = f"the ignore files have more than {_MAX_RULES:,} rules; narrow the path"
            raise ToolFailed(message, code="too_many_ignore_rules", place="search")
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
            return self._workspace.read_file(path, max_bytes=_MAX_IGNORE_FILE_BYTES)
        folder = Path(path).parent
        if any(folder in root.parents for root in self._workspace.roots):
            with suppress(OSError), open_regular_file(path) as file:
                data = file.read(_MAX_IGNORE_FILE_BYTES + 1)
                return data if len(data) <= _MAX_IGNORE_FILE_BYTES else b""
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
        check_not_cancelled()
        try:
            rule = _parse_ignore_line(line.decode().removesuffix("\r"))
        except UnicodeDecodeError:
            break  # as ripgrep does
        except InvalidValue:
            continue
        if rule is not None:
            rules.append(rule)
            if len(rules) > _MAX_RULES:
                break
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
    return IgnoreRule(compile_glob(line, lone_bracket=True), is_for_folders, is_negated)
