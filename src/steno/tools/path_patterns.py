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
from typing import Final, NamedTuple, TypeAlias, final

from steno.errors import InvalidValue


def build_path_filter(pattern: str) -> Callable[[str], bool]:
    """Return a function that decides whether a relative path matches a pattern.

    A pattern without a slash is about names, in any folder; any other is about the whole path,
    and may begin with a slash. Raises InvalidValue.
    """
    anchored = pattern.removeprefix("./").removeprefix("/")
    if not anchored:
        raise _invalid("glob_empty", "the pattern is empty")
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


# -- globs ----------------------------------------------------------------------------------------

_STAR: Final = "*"
_SLASH: Final = "/"
_MAX_CHARACTERS: Final = 4_096
_MAX_ALTERNATIVES: Final = 256
_MAX_TOKENS: Final = 20_000
"""Of all alternatives: Python compiles more slowly than it matches."""
_Tokens: TypeAlias = list[str]
"""Stars, slashes, and regular expressions for one character each, which is no slash."""


def glob_to_regex(pattern: str, *, lone_bracket: bool = False) -> str:
    """Return a regular expression for a whole path. Raises InvalidValue for an incomplete pattern.

    No pattern takes long to match: what a star took is never tried again, as in `fnmatch`. With
    `lone_bracket`, a [ that is not closed is the character, as in ignore files.
    """
    alternatives = _GlobParser(pattern, lone_bracket).parse()
    if sum(map(len, alternatives)) > _MAX_TOKENS:
        raise _too_complex()
    return "|".join([_path_regex(tokens) for tokens in alternatives])


class _GlobParser:
    """Reads one pattern from left to right into alternatives without braces."""

    def __init__(self, pattern: str, lone_bracket: bool) -> None:
        self._pattern = pattern
        self._lone_bracket = lone_bracket
        self._position = 0

    def parse(self) -> list[_Tokens]:
        found: list[_Tokens] = [[]]
        braces: list[tuple[list[_Tokens], list[_Tokens]]] = []
        """For each open brace: everything before it, and its complete alternatives."""
        if len(self._pattern) > _MAX_CHARACTERS:
            raise _too_complex()
        while character := self._take():
            if character == "{":
                braces.append((found, []))
                found = [[]]
            elif character == "," and braces:
                braces[-1][1].extend(found)
                found = [[]]
            elif character == "}":
                if not braces:
                    raise _invalid(
                        "glob_brace_not_open", "a } closes nothing; write \\} for the character"
                    )
                before, options = braces.pop()
                options += found
                if len(before) * len(options) > _MAX_ALTERNATIVES:
                    raise _too_complex()
                found = [start + end for start in before for end in options]
            else:
                token = self._token(character)
                for tokens in found:
                    tokens.append(token)
        if braces:
            raise _invalid(
                "glob_brace_not_closed", "a { is not closed; write \\{ for the character"
            )
        return found

    def _take(self) -> str:
        self._position += 1
        return self._pattern[self._position - 1 : self._position]

    def _token(self, character: str) -> str:
        match character:
            case "*" | "/":
                return character
            case "?":
                return "[^/]"
            case "[":
                return self._read_class()
            case "\\":
                if not (character := self._take()):
                    raise _invalid("glob_trailing_backslash", "nothing follows the last backslash")
            case _:
                pass
        return character if character == _SLASH else re.escape(character)

    def _read_class(self) -> str:
        """Read a class in brackets; a backslash has no special meaning there."""
        is_negated = self._pattern[self._position : self._position + 1] in ("!", "^")
        start = self._position + is_negated
        end = self._pattern.find("]", start + 1)
        if end == -1 and self._lone_bracket:
            return re.escape("[")
        if end == -1:
            raise _invalid(
                "glob_class_not_closed", "a [ is not closed; write \\[ for the character"
            )
        self._position = end + 1
        items: list[str] = []
        for item in re.findall("(?s).-.|.", self._pattern[start:end]):
            if item[-1] < item[0]:
                raise _invalid("glob_range_reversed", "a range in brackets runs backwards")
            items.append("-".join(map(re.escape, item[:: 2 if len(item) > 1 else 1])))
        return f"(?!/)[{'^' if is_negated else ''}{''.join(items)}]"


def _invalid(code: str, rule: str) -> InvalidValue:
    return InvalidValue(rule, code=code, place="glob")


def _too_complex() -> InvalidValue:
    return _invalid("glob_too_complex", "is too long, or has too many alternatives in braces")


def _path_regex(tokens: _Tokens) -> str:
    """Return a regular expression for a whole path, in which `**` is any number of folders."""
    components: list[_Tokens] = [[]]
    for token in tokens:
        if token == _SLASH:
            components.append([])
        else:
            components[-1].append(token)
    runs: list[list[str]] = [[]]  # names between one `**` and the next
    for component in components:
        if component == [_STAR, _STAR]:
            runs.append([])
        else:
            runs[-1].append(_name_regex(component))
    first, *others = runs
    if not others:
        return "/".join(first)
    # The first place where the names of a run fit leaves the most to the runs after it.
    middle = [f"(?>(?:[^/]*/)*?{_as_folders(run)})" for run in others[:-1] if run]
    last = f"(?:.*/)?{'/'.join(others[-1])}" if others[-1] else ".*"
    return "".join([_as_folders(first), *middle, last])


def _as_folders(names: list[str]) -> str:
    return "".join([f"{name}/" for name in names])


def _name_regex(tokens: _Tokens) -> str:
    """Return a regular expression for one name; the same is true of the texts between its stars."""
    texts = [""]
    for token in tokens:
        if token == _STAR:
            texts.append("")
        else:
            texts[-1] += token
    first, *others = texts
    if not others:
        return first
    middle = [f"(?>[^/]*?{text})" for text in others[:-1] if text]
    return "".join([first, *middle, f"[^/]*{others[-1]}"])


# -- ignore files ---------------------------------------------------------------------------------

_IGNORE_FILES = (".rgignore", ".ignore", ".gitignore", ".git/info/exclude")
_GIT_IGNORE_FILES = _IGNORE_FILES[2:]


class IgnoreRule(NamedTuple):
    """One line of an ignore file."""

    matches: Callable[[str], object]
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
        rule = self._deciding_rule(path, folder, is_folder)
        if rule is None:
            return name.startswith(".") and not self._hidden
        return not rule.is_negated

    def _deciding_rule(self, path: str, folder: str, is_folder: bool) -> IgnoreRule | None:
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
        return (_FolderRules(len(folder) + 1, rules, has_git), *above)


class _FolderRules(NamedTuple):
    """The rules of one folder."""

    prefix: int
    """How long the path of the folder is, with its slash."""
    rules: tuple[tuple[IgnoreRule, ...], ...]
    """By kind, in the order of `_IGNORE_FILES`."""
    has_git: bool


def _last_matching_rule(
    rules: tuple[IgnoreRule, ...], path: str, is_folder: bool
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
    elif line == "**/":  # nothing but signs: ripgrep lets it match everything
        line = "**"
    matches = re.compile(glob_to_regex(line, lone_bracket=True), re.DOTALL).fullmatch
    return IgnoreRule(matches, is_for_folders, is_negated)
