r"""Match the patterns of permission rules with commands and paths, in linear time.

A command is matched word by word. A `*` that is a whole word stands for any number of words of
which none may be an option, because an option can change what a program does: `git grep *` must not
allow `git grep -O…`. In a word, `*` stands for text in this one word. A word `-*` stands for one
option, and at the end of a pattern for all further words. A path is matched name by name; `*` stays
in one name, and `**` stands for any number of names.

Only `*` is special; `\` before `*`, `(`, `)`, `\` or a space makes it literal. Commands are matched
as a set of positions in the pattern, and `*` in a word or a path without backtracking, so that no
text from a model can make matching slow. This module knows no rules and no tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Final, NamedTuple

from steno.agent.permissions.subjects import find_blanks
from steno.errors import InvalidValue
from steno.invisible import is_visible
from steno.ports import CommandWord

_TOKEN: Final = re.compile(r"\\.|.", re.DOTALL)
_SPECIAL: Final = re.compile(r"[\\()*]")
_MUST_BE_ESCAPED: Final = frozenset({"(", ")", "\\"})
_ESCAPES: Final = frozenset({"\\*", "\\(", "\\)", "\\\\", "\\ "})
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=", re.ASCII)


def check_pattern(pattern: str) -> None:
    """Raise InvalidValue if the text is not a pattern."""
    if not pattern:
        raise _invalid_pattern(
            "rule_pattern_empty",
            "the pattern is empty; remove the parentheses to cover all calls of the tool",
        )
    if not is_visible(pattern):  # the user could not see which calls the rule allows
        raise _invalid_pattern(
            "rule_pattern_unprintable",
            "the pattern contains unprintable characters; write * in their place",
        )
    tokens = _TOKEN.findall(pattern)
    if any(
        token in _MUST_BE_ESCAPED or (len(token) > 1 and token not in _ESCAPES) for token in tokens
    ):
        raise _invalid_pattern(
            "rule_pattern_escape",
            r"unescaped parenthesis or backslash in the pattern; write \( \) or \\",
        )
    if " " in (tokens[0], tokens[-1]):
        raise _invalid_pattern(
            "rule_pattern_blank",
            r"the pattern begins or ends with a space; write \ before the space",
        )


def _invalid_pattern(code: str, message: str) -> InvalidValue:
    return InvalidValue(message, place="rule", code=code)


def escape_pattern(text: str) -> str:
    """Return the pattern that matches exactly this text."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def has_wildcard(pattern: str) -> bool:
    """Return whether a pattern may match more than one text."""
    return "*" in _TOKEN.findall(pattern)


def matches_name(pattern: str, name: str) -> bool:
    """Return whether a pattern, in which `*` matches any text, matches the name of a tool."""
    return _name_matcher(pattern).fullmatch(name) is not None


@lru_cache(maxsize=512)
def _name_matcher(pattern: str) -> re.Pattern[str]:
    return re.compile(_join_with_wildcards(pattern.split("*"), "."), re.DOTALL)


# -- commands --------------------------------------------------------------------------------------


class _WordPattern(NamedTuple):
    """A word of a command pattern."""

    matcher: re.Pattern[str]
    is_any_words: bool = False
    """Whether it is `*`, which stands for any number of words that are no options."""
    is_any_rest: bool = False
    """Whether it is `-*` at the end of the pattern, which stands for all further words."""
    has_wildcard: bool = False
    is_option: bool = False
    """Whether it begins with `-`, and so matches options."""

    def matches(self, word: CommandWord, *, is_assignment: bool) -> bool:
        """Return whether the pattern word matches one word of a command."""
        if self.has_wildcard and (is_assignment or (word.may_be_option and not self.is_option)):
            return False
        return self.matcher.fullmatch(word.text) is not None

    def passes(self, word: CommandWord, *, is_assignment: bool) -> bool:
        """Return whether the pattern word, which stands for several words, stands for this one."""
        if is_assignment or not word.text:
            return False
        return self.is_any_rest or (self.is_any_words and not word.may_be_option)


def matches_command(pattern: str, text: str, words: Sequence[CommandWord]) -> bool:
    """Return whether a pattern of an allow rule matches a command.

    No `*` matches an assignment in front of the command, such as `LD_PRELOAD=x`.
    """
    if not has_wildcard(pattern):
        return _unescape(pattern) == text
    parts = _split_command_pattern(pattern)
    positions = _skip_optional(parts, {0})
    is_assignment = True
    for word in words:
        is_assignment = is_assignment and _ASSIGNMENT.match(word.text) is not None
        following: set[int] = set()
        for position in positions:
            if position == len(parts):
                continue
            part = parts[position]
            if part.passes(word, is_assignment=is_assignment):
                following.add(position)
            elif part.matches(word, is_assignment=is_assignment):
                following.add(position + 1)
        positions = _skip_optional(parts, following)
    return len(parts) in positions


def _skip_optional(parts: Sequence[_WordPattern], positions: set[int]) -> set[int]:
    """Return the positions, and those behind pattern words that may stand for no word."""
    found: set[int] = set()
    for start in positions:
        found.add(start)
        following = takewhile(lambda part: part.is_any_words or part.is_any_rest, parts[start:])
        found.update([position for position, _ in enumerate(following, start + 1)])
    return found


def matches_command_text(pattern: str, text: str) -> bool:
    """Return whether a pattern of a deny rule matches a command, with or without its assignments.

    Here `*` stands for any text, so that a deny rule covers more rather than less.
    """
    matcher = _command_text_matcher(pattern)
    return any(matcher.fullmatch(each) is not None for each in (text, strip_assignments(text)))


def strip_assignments(command: str) -> str:
    """Return a command without the assignments in front of it."""
    start = 0
    for blank in find_blanks(command):
        if _ASSIGNMENT.match(command, start) is None:
            break
        start = blank + 1
    return command[start:]


@lru_cache(maxsize=512)
def _split_command_pattern(pattern: str) -> tuple[_WordPattern, ...]:
    words: list[list[str]] = [[]]
    tokens = _TOKEN.findall(pattern)
    # An escaped blank is a part of a word; the replacement keeps the positions of the tokens.
    plain = "".join(["x" if token in ("\\ ", "*") else token[-1] for token in tokens])
    blanks = frozenset(find_blanks(plain))
    for position, token in enumerate(tokens):
        if position in blanks:
            words.append([])
        else:
            words[-1].append(token)
    last = len(words) - 1
    return tuple([_build_word_pattern(word, number == last) for number, word in enumerate(words)])


def _build_word_pattern(tokens: Sequence[str], is_last: bool) -> _WordPattern:
    pieces = _split_at_wildcards(tokens)
    return _WordPattern(
        re.compile(_join_with_wildcards(pieces, "."), re.DOTALL),
        is_any_words=set(tokens) == {"*"},
        is_any_rest=is_last and tuple(tokens) == ("-", "*"),
        has_wildcard=len(pieces) > 1,
        is_option=tokens[:1] == ["-"],
    )


@lru_cache(maxsize=512)
def _command_text_matcher(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which `*` matches any text.

    A space and a `*` or `-*` at the end also match a command without arguments.
    """
    tokens = _TOKEN.findall(pattern)
    tail = ""
    if tokens[-2:] == [" ", "*"]:
        tokens, tail = tokens[:-2], "(?: .*)?"
    elif tokens[-3:] == [" ", "-", "*"]:
        tokens, tail = tokens[:-3], "(?: .*)?"
    return re.compile(_join_with_wildcards(_split_at_wildcards(tokens), ".") + tail, re.DOTALL)


def _unescape(pattern: str) -> str:
    return "".join([token[-1] for token in _TOKEN.findall(pattern)])


# -- paths -----------------------------------------------------------------------------------------


def matches_path(pattern: str, path: str) -> bool:
    """Return whether a pattern matches a path or an address."""
    return _path_matcher(pattern).fullmatch(f"{path}/") is not None


@lru_cache(maxsize=512)
def _path_matcher(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which `*` matches text in one name, and `**` any number of names.

    A `/` at the end means `/**`. The path to match must have a `/` after each name, including the
    last.
    """
    names = [name for name in pattern.split("/") if name != "."] or ["."]
    if len(names) > 1 and not names[-1]:
        names[-1] = "**"
    segments = [""]
    for name in names:
        if name == "**":
            segments.append("")
        else:
            segments[-1] += _name_in_path(name) + "/"
    return re.compile(_join_with_wildcards(segments, "(?:[^/]*/)"), re.DOTALL)


def _name_in_path(name: str) -> str:
    pieces = _split_at_wildcards(_TOKEN.findall(name))
    is_whole_name = len(pieces) > 1 and not any(pieces)
    return "[^/]+" if is_whole_name else _join_with_wildcards(pieces, "[^/]")


def patterns_below(pattern: str, folder: str) -> tuple[str, ...]:
    """Return the patterns that match, relative to a folder, what an absolute pattern matches in it.

    `/srv/*/src/**` below `/srv/shop` is `src/**`, and `/srv/**` is `**`. The result is empty if the
    pattern matches nothing in the folder.
    """
    names = [name for name in pattern.split("/")[1:] if name != "."]
    if names and not names[-1]:
        names[-1] = "**"
    positions = {0}
    for name in filter(None, folder.split("/")):
        reached = set(_skip_folders(names, positions))
        positions = {
            position if names[position] == "**" else position + 1
            for position in reached
            if names[position] == "**" or re.fullmatch(_name_in_path(names[position]), name)
        }
    rests = ["/".join(names[position:]) or "." for position in sorted(positions)]
    return tuple(dict.fromkeys(rests))


def _skip_folders(names: Sequence[str], positions: Iterable[int]) -> Iterator[int]:
    """Yield the positions, and those behind `**`, which may stand for no name."""
    for start in positions:
        for position in range(start, len(names)):
            yield position
            if names[position] != "**":
                break


# -- wildcards -------------------------------------------------------------------------------------


def _split_at_wildcards(tokens: Iterable[str]) -> list[str]:
    """Return the pieces of a pattern between its wildcards, as regular expressions."""
    pieces = [""]
    for part in tokens:
        if part == "*":
            pieces.append("")
        else:
            pieces[-1] += re.escape(part[-1])
    return pieces


def _join_with_wildcards(pieces: Sequence[str], filler: str) -> str:
    """Return a regular expression for pieces separated by any number of `filler` matches.

    A piece between two wildcards matches at its first occurrence, without backtracking.
    """
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    return first + "".join([f"(?>{filler}*?{piece})" for piece in middle]) + f"{filler}*{last}"
