r"""Regular expressions that mean the same to ripgrep and to Python.

What both understand is read here and written out for each of them: `Pattern.rust` and
`Pattern.python`. The meaning is ripgrep's: characters are those of Unicode, `\w` and `\b` too,
and bytes that are no UTF-8 are matched by nothing. A pattern is about one line; `$` is also before
a carriage return at its end. What only one of the two knows is refused: look-around,
backreferences, possessive repetition, set operations. Captures are not kept, since all that is
asked of a line is whether it fits. This file reads patterns and searches nothing.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import Final, NamedTuple, NoReturn

from steno.errors import InvalidValue
from steno.tools.characters import (
    POSIX,
    SHORTHANDS,
    Ranges,
    all_but,
    in_category,
    is_category,
    python_ranges,
    rust_ranges,
    without,
)

MOST_CHARACTERS: Final = 2_000
_MOST_GROUPS_DEEP: Final = 50
_MOST_REPEATS: Final = 1_000
"""How often something may be repeated by count, inner counts times outer counts."""

_COUNT: Final = re.compile(r"\{([0-9]{1,6})(,?)([0-9]{0,6})\}")
_FLAGS: Final = re.compile(r"\?([imsu]*)(-[imsu]+)?([:)])")
_CODE: Final = re.compile(
    r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[xuU]\{([0-9A-Fa-f]{1,8})\}"
)
_PROPERTY: Final = re.compile(r"(?:\{([A-Za-z_]+)\}|([A-Z]))")
_CONTROLS: Final = {"t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_NO_LINE_FEED: Final = "lines are searched one by one, so no line feed is ever found"
_NO_BYTE: Final = r"\udc80-\udcff"
"""How Python sees bytes that are no UTF-8; they belong to no class, negated or not."""
_DOTLESS: Final = "\u0130\u0131"
"""The two i of Turkish, which Python takes for an i where case does not matter, against Unicode."""


class Pattern(NamedTuple):
    """One regular expression in the two dialects."""

    rust: str
    python: str
    ascii: str
    """For Python too, but only for lines of ASCII, where it is several times as fast."""


def read_pattern(pattern: str, *, ignore_case: bool = False) -> Pattern:
    """Read a regular expression. Raises InvalidValue, which says what to write instead."""
    if len(pattern) > MOST_CHARACTERS:
        raise InvalidValue(f"pattern: has more than {MOST_CHARACTERS:,} characters")
    return _Reader(pattern, ignore_case).translate()


class _Class(NamedTuple):
    """Some characters: by their ranges, and how ripgrep would write them in brackets."""

    ranges: Ranges
    rust: str


class _Group(NamedTuple):
    ignores_case: bool
    """What holds again when the group ends."""
    parts: list[Pattern]
    """Everything before the group."""
    repeats: int
    """How often the outer things were counted so far."""


class _Reader:
    """Reads a pattern from left to right and writes both dialects as it goes."""

    def __init__(self, text: str, ignores_case: bool) -> None:
        self.text = text
        self.at = 0
        self.ignores_case = ignores_case
        self.groups: list[_Group] = []
        self.parts: list[Pattern] = []
        self.may_repeat = False
        """Whether the last part is something that a * could follow."""
        self.repeats = 1
        """The most that anything in this group is repeated by count."""
        self.last_repeats = 1
        """The same for the last part."""

    def translate(self) -> Pattern:
        while self.at < len(self.text):
            self._read_one()
        if self.groups:
            self._refuse("a ( is not closed; write \\( for the character")
        return _join(self.parts)

    def _refuse(self, rule: str) -> NoReturn:
        raise InvalidValue(f"pattern, at character {self.at}: {rule}")

    def _take(self) -> str:
        character = self.text[self.at : self.at + 1]
        self.at += 1
        return character

    def _take_if(self, text: str) -> bool:
        found = self.text.startswith(text, self.at)
        self.at += len(text) * found
        return found

    def _match(self, what: re.Pattern[str]) -> re.Match[str] | None:
        found = what.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def _add(
        self, rust: str, python: str, *, ascii: str | None = None, may_repeat: bool = True
    ) -> None:
        self.parts.append(Pattern(rust, python, python if ascii is None else ascii))
        self.may_repeat = may_repeat
        self.last_repeats = 1

    # -- one thing after the other -----------------------------------------------------------

    def _read_one(self) -> None:
        character = self._take()
        match character:
            case "\\":
                self._read_escape()
            case "[":
                self._read_class()
            case "(":
                self._open()
            case ")":
                self._close()
            case "|":
                self._add("|", "|", may_repeat=False)
            case "^":
                self._add("^", "^", may_repeat=False)
            case "$":
                self._add(r"(?:\r?$)", r"(?:\r?\Z)", may_repeat=False)
            case ".":
                self._add(".", rf"[^\n{_NO_BYTE}]")
            case "*" | "+" | "?":
                self._repeat(character, 1)
            case "{" if (count := _COUNT.match(self.text, self.at - 1)) is not None:
                self._repeat_by_count(count)
            case "{" if self.text.startswith(",", self.at):
                self._refuse("write {0,3} for at most three times, and \\{ for the character")
            case _:
                self._add_literal(character)

    def _add_literal(self, character: str) -> None:
        if character == "\n":
            self._refuse(_NO_LINE_FEED)
        if self.ignores_case and character in {"i", "I", *_DOTLESS}:
            same = "[iI]" if character in "iI" else character
            self._add(same, same)
            return
        rust, python = f"\\x{{{ord(character):X}}}", re.escape(character)
        if character.isalnum():
            rust = character
        self._add_cased(rust, python)

    def _add_cased(self, rust: str, python: str) -> None:
        if self.ignores_case:
            rust, python = f"(?i:{rust})", f"(?i:{python})"
        self._add(rust, python)

    def _read_escape(self) -> None:
        character = self._take()
        if character == "b":
            if self._take_if("{"):
                self._refuse("\\b{...} is not supported; use \\b")
            word = python_ranges(SHORTHANDS["w"]())
            at_edge = f"(?<=[{word}])(?![{word}])|(?<![{word}])(?=[{word}])"
            self._add(r"\b", f"(?:{at_edge})", ascii=r"\b", may_repeat=False)
        elif character == "B":
            self._refuse("\\B is not supported; use a class such as \\w where you mean one")
        elif character in {"A", "z", "Z"}:
            self._refuse(
                f"\\{character} is not supported; a pattern is about one line: use ^ and $"
            )
        elif (shorthand := self._shorthand(character)) is not None:
            self._add_class(shorthand, cased=self.ignores_case and character == "p")
        else:
            self._add_literal(self._escaped(character))

    def _shorthand(self, character: str) -> _Class | None:
        r"""Read what follows `\d` and its like, or a property; negated if written in upper case."""
        name = character.lower()
        if name in SHORTHANDS:
            ranges, rust = SHORTHANDS[name](), f"\\{character}"
        elif character == "P" and self.ignores_case:
            self._refuse("\\P cannot be used where case is ignored; write [^\\p{L}] instead")
        elif name == "p":
            found = self._match(_PROPERTY)
            category = (found[1] or found[2]) if found is not None else ""
            if not is_category(category):
                self._refuse(
                    "of properties only general categories are known: \\p{L}, \\p{Lu}, ..."
                )
            ranges, rust = in_category(category), f"\\{character}{{{category}}}"
        else:
            return None
        return _Class(ranges if character == name else all_but(ranges), rust)

    def _escaped(self, character: str) -> str:
        """Return the character that an escape stands for."""
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "n":
            return "\n"
        if character in {"x", "u", "U"}:
            self.at -= 1
            found = self._match(_CODE)
            code = int(next(filter(None, found.groups())), 16) if found is not None else -1
            if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                self._refuse("the escape names no character; write \\x41, \\u0041 or \\x{41}")
            return chr(code)
        if character.isdigit():
            self._refuse("backreferences are not supported")
        if not character:
            self._refuse("nothing follows the last backslash; write \\\\ for the character")
        if character.isalnum() or character in "<>" or not character.isascii():
            self._refuse(f"there is no escape \\{character}")
        return character

    # -- classes -----------------------------------------------------------------------------

    def _read_class(self) -> None:
        is_negated = self._take_if("^")
        items = [self._class_item()]  # a ] that comes first is a character
        while not self._take_if("]"):
            items.append(self._class_item())
        ranges = tuple(sorted(chain.from_iterable(item.ranges for item in items)))
        if not is_negated and all(low == high == 0x0A for low, high in ranges):
            self._refuse(_NO_LINE_FEED)
        found = _Class(ranges, "".join(item.rust for item in items))
        self._add_class(found, is_negated=is_negated, cased=self.ignores_case)

    def _class_item(self) -> _Class:
        """Read a character, a range, or a class inside a class."""
        if self._take_if("[:"):
            return _of_ranges(self._posix())
        for operator in ("&&", "--", "~~", "["):
            if self.text.startswith(operator, self.at):
                self._refuse(f"{operator} means something else elsewhere; write \\{operator[0]}")
        low = self._class_character()
        if isinstance(low, _Class):
            return low
        if not (self.text.startswith("-", self.at) and self.text[self.at + 1 : self.at + 2] != "]"):
            return _of_ranges(((low, low),))
        self.at += 1
        high = self._class_character()
        if isinstance(high, _Class) or high < low:
            self._refuse("a range in brackets must run from one character up to another")
        return _of_ranges(((low, high),))

    def _class_character(self) -> int | _Class:
        character = self._take()
        if not character:
            self._refuse("a [ is not closed; write \\[ for the character")
        if character != "\\":
            return ord(character)
        character = self._take()
        return self._shorthand(character) or ord(self._escaped(character))

    def _posix(self) -> Ranges:
        end = self.text.find(":]", self.at)
        name = self.text[self.at : end] if end != -1 else ""
        if name not in POSIX:
            self._refuse("there is no such class; [:alpha:], [:digit:] and their like are known")
        self.at = end + 2
        return POSIX[name]

    def _add_class(self, found: _Class, *, is_negated: bool = False, cased: bool) -> None:
        rust, ranges = (
            found.rust,
            python_ranges(without(found.ranges, _DOTLESS) if cased else found.ranges),
        )
        if is_negated:
            rust, python = f"[^{rust}]", f"[^{ranges}{_NO_BYTE}]"
        else:
            rust, python = f"[{rust}]", f"[{ranges}]" if ranges else "(?!)"
        if not cased:
            self._add(rust, python)
            return
        # The two that Python folds otherwise are decided here, whatever it thinks of them.
        spans = found.ranges
        inside = [c for c in _DOTLESS if any(a <= ord(c) <= z for a, z in spans) != is_negated]
        python = f"(?:(?![{_DOTLESS}])(?i:{python}){''.join(f'|{c}' for c in inside)})"
        self._add(f"(?i:{rust})", python)

    # -- groups and repetition ---------------------------------------------------------------

    def _open(self) -> None:
        outside = self.ignores_case
        is_plain = not self.text.startswith("?", self.at)
        if not is_plain and self._match(_GROUP_NAME) is None and self._set_flags():
            return
        if len(self.groups) >= _MOST_GROUPS_DEEP:
            self._refuse(f"groups are nested more than {_MOST_GROUPS_DEEP} deep")
        self.groups.append(_Group(outside, self.parts, self.repeats))
        self.parts, self.repeats, self.may_repeat = [], 1, False

    def _set_flags(self) -> bool:
        """Read `?i:` or `?i)`; tell whether that was all of the group."""
        flags = self._match(_FLAGS)
        if flags is None:
            self._refuse("look-around, atomic and conditional groups are not supported")
        if "u" in (flags[2] or ""):
            self._refuse("Unicode cannot be switched off")
        if "i" in flags[1]:
            self.ignores_case = True
        if "i" in (flags[2] or ""):
            self.ignores_case = False
        # (?s) and (?m) change nothing within one line, and (?u) holds anyway.
        self.may_repeat = self.may_repeat and flags[3] == ":"
        return flags[3] == ")"

    def _close(self) -> None:
        if not self.groups:
            self._refuse("a ) closes nothing; write \\) for the character")
        group = self.groups.pop()
        inside, repeats = _join(self.parts), self.repeats
        self.parts, self.ignores_case = group.parts, group.ignores_case
        self.parts.append(Pattern._make(f"(?:{dialect})" for dialect in inside))
        self.may_repeat = True
        self.last_repeats = repeats
        self.repeats = max(group.repeats, repeats)

    def _repeat_by_count(self, count: re.Match[str]) -> None:
        self.at = count.end()
        low, high = int(count[1]), int(count[3] or count[1])
        if high < low:
            self._refuse("the counts of a repetition run backwards")
        self._repeat(f"{{{low}{count[2]}{int(count[3]) if count[3] else ''}}}", high)

    def _repeat(self, operator: str, times: int) -> None:
        if not self.may_repeat:
            self._refuse(
                f"there is nothing that {operator} could repeat; write \\{operator[0]} for the"
                " character, and (?:...) around what is to be repeated again"
            )
        if self.last_repeats * times > _MOST_REPEATS:
            self._refuse(f"something is repeated more than {_MOST_REPEATS:,} times by count")
        self.repeats = max(self.repeats, self.last_repeats * times)
        if self._take_if("?"):
            operator += "?"
        self.parts[-1] = Pattern._make(dialect + operator for dialect in self.parts[-1])
        self.may_repeat = False


_GROUP_NAME: Final = re.compile(r"\?P?<[A-Za-z_][A-Za-z0-9_]*>")


def _of_ranges(ranges: Ranges) -> _Class:
    return _Class(ranges, rust_ranges(ranges))


def _join(parts: list[Pattern]) -> Pattern:
    return Pattern._make(map("".join, zip(*parts, strict=True))) if parts else Pattern("", "", "")
