"""Which files a search leaves out: what `.gitignore` and its like say, and hidden names.

The rules are ripgrep's. In every folder `.rgignore`, `.ignore` and `.gitignore` are read, and
`.git/info/exclude`; a nearer file wins over one further up, and the first kind over the next.
Folders above the workspace count as well, those of git up to the root of the repository, and
outside of a repository `.gitignore` says nothing. Names that begin with a dot are left out unless
a rule with `!` brings them back or the search asks for them; `.git` is always left out. This file
decides about names; who walks is somebody else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, final

from steno.errors import InvalidValue
from steno.tools.globs import glob_to_regex

_KINDS = (".rgignore", ".ignore", ".gitignore", ".git/info/exclude")
_OF_GIT = _KINDS[2:]


class Rule(NamedTuple):
    """One line of a file of rules."""

    matches: Callable[[bytes], object]
    is_for_folders: bool
    is_negated: bool


def read_rules(data: bytes) -> tuple[Rule, ...]:
    """Read a file of rules. A line that is no pattern says nothing, as in ripgrep."""
    rules: list[Rule] = []
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        try:
            rule = _read_rule(line.decode().removesuffix("\r"))
        except UnicodeDecodeError:
            break  # ripgrep reads no further either
        except InvalidValue:
            continue
        if rule is not None:
            rules.append(rule)
    return tuple(rules)


def _read_rule(line: str) -> Rule | None:
    if line.startswith("#"):
        return None
    if not line.endswith("\\ "):
        line = line.rstrip()
    if not line:
        return None
    brings_back = is_anchored = False
    if line.startswith(("\\!", "\\#")):
        line = line[1:]
    else:
        brings_back = line.startswith("!")
        line = line[brings_back:]
        is_anchored = line.startswith("/")
        line = line[is_anchored:]
    is_for_folders = line.endswith("/")
    if is_for_folders:
        line = line[:-1].removesuffix("\\")
    if not is_anchored and "/" not in line and not line.startswith("**/"):
        line = f"**/{line}"
    if line.endswith("/**"):
        line += "/*"
    # Names are bytes, and `?` is one of them: so it is in ripgrep.
    fits = re.compile(glob_to_regex(line, lone_bracket=True).encode(), re.DOTALL).fullmatch
    return Rule(fits, is_for_folders, brings_back)


class _Level(NamedTuple):
    """The rules that stand in one folder."""

    prefix: int
    """How long the path of the folder is, with its slash."""
    rules: tuple[tuple[Rule, ...], ...]
    """By kind, in the order of `_KINDS`."""
    has_git: bool


@final
class Ignored:
    """Tells which files and folders below some folder are left out.

    `read` returns the content of a file by its absolute path, None where there is none that may
    be read; `is_there` tells whether there is anything.
    """

    def __init__(
        self,
        read: Callable[[str], bytes | None],
        is_there: Callable[[str], bool],
        *,
        hidden: bool = False,
    ) -> None:
        self._read = read
        self._exists = is_there
        self._hidden = hidden
        self._levels = lru_cache(maxsize=4096)(self._find_levels)

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Tell whether a search passes by a file or folder, given by its absolute path.

        Whether it passes by one of the folders above is not asked.
        """
        folder, _, name = path.rpartition("/")
        if name == ".git":
            return True
        verdict = self._deciding_rule(path.encode(errors="surrogateescape"), folder, is_folder)
        if verdict is None:
            return name.startswith(".") and not self._hidden
        return not verdict.is_negated

    def _deciding_rule(self, path: bytes, folder: str, is_folder: bool) -> Rule | None:
        levels = self._levels(folder)
        in_repository = any(level.has_git for level in levels)
        for kind, name in enumerate(_KINDS):
            if name in _OF_GIT and not in_repository:
                continue
            for level in levels:
                found = _last_that_fits(level.rules[kind], path[level.prefix :], is_folder)
                if found is not None:
                    return found
                if name in _OF_GIT and level.has_git:
                    break
        return None

    def _find_levels(self, folder: str) -> tuple[_Level, ...]:
        """Return the rules of a folder and of those above it, the nearest first."""
        above = () if not folder else self._levels(folder.rpartition("/")[0])
        rules = tuple([read_rules(self._read(f"{folder}/{name}") or b"") for name in _KINDS])
        has_git = self._exists(f"{folder}/.git")
        if not has_git and not any(rules):
            return above
        prefix = len(folder.encode(errors="surrogateescape")) + 1
        return (_Level(prefix, rules, has_git), *above)


def _last_that_fits(rules: tuple[Rule, ...], path: bytes, is_folder: bool) -> Rule | None:
    for rule in reversed(rules):
        if (is_folder or not rule.is_for_folders) and rule.matches(path):
            return rule
    return None
