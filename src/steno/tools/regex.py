r"""Translate a regular expression so that it means the same to ripgrep and to Python.

`PortableRegex` holds one pattern in both dialects. The meaning is ripgrep's: characters are those
of Unicode, `\w` and `\b` too, and nothing matches bytes that are not UTF-8. A pattern is about one
line; `$` also matches before a carriage return at its end. A construct that only one of the two
supports is refused: look-around, backreferences, possessive repetition, set operations. Groups do
not capture, since a search only needs to know whether a line matches. This module searches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple, NoReturn, TypeAlias
from unicodedata import category

from steno.errors import InvalidValue

MAX_PATTERN_CHARACTERS: Final = 2_000


class PortableRegex(NamedTuple):
    """One regular expression in the two dialects."""

    rust: str
    python: str
    ascii: str
    """For Python too, but only for lines of ASCII, where it is several times as fast."""


def translate_regex(pattern: str, *, ignore_case: bool = False) -> PortableRegex:
    """Read a regular expression. Raises InvalidValue, which names an alternative."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise InvalidValue(
            f"has more than {MAX_PATTERN_CHARACTERS:,} characters",
            code="pattern_too_long",
            place="pattern",
        )
    return _RegexTranslator(pattern, ignore_case).translate()


# -- the translator -------------------------------------------------------------------------------

_MAX_GROUP_DEPTH: Final = 50
_MAX_REPEATS: Final = 1_000
"""How often something may be repeated by count, inner counts times outer counts."""
_COUNT: Final = re.compile(r"\{([0-9]{1,6})(,?)([0-9]{0,6})\}")
_FLAGS: Final = re.compile(r"\?([imsu]*)(-[imsu]+)?([:)])")
_GROUP_NAME: Final = re.compile(r"\?P?<[A-Za-z_][A-Za-z0-9_]*>")
_CODE_POINT_ESCAPE: Final = re.compile(
    r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[xuU]\{([0-9A-Fa-f]{1,8})\}"
)
_PROPERTY: Final = re.compile(r"(?:\{([A-Za-z_]+)\}|([A-Z]))")
_CONTROL_ESCAPES: Final = {"t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_LINE_FEED_ERROR: Final = "lines are searched one by one, so no line feed is ever found"
_INVALID_BYTES: Final = r"\udc80-\udcff"
"""How Python sees bytes that are no UTF-8; they belong to no class, negated or not."""
_TURKISH_I: Final = "\u0130\u0131"
"""The two i of Turkish, which Python takes for an i where case does not matter, against Unicode."""


class _CharacterClass(NamedTuple):
    """Some characters: by their ranges, and how ripgrep would write them in brackets."""

    ranges: CodePointRanges
    rust: str


class _OpenGroup(NamedTuple):
    ignores_case: bool
    """The setting to restore when the group ends."""
    parts: list[PortableRegex]
    """Everything before the group."""
    repeats: int
    """The product of the counts around the group."""


class _RegexTranslator:
    """Reads a pattern from left to right and writes both dialects as it goes."""

    def __init__(self, text: str, ignores_case: bool) -> None:
        self.text = text
        self.at = 0
        self.ignores_case = ignores_case
        self.groups: list[_OpenGroup] = []
        self.parts: list[PortableRegex] = []
        self.may_repeat = False
        """Whether the last part is something that a * could follow."""
        self.repeats = 1
        """The most that anything in this group is repeated by count."""
        self.last_repeats = 1
        """The same for the last part."""

    def translate(self) -> PortableRegex:
        while self.at < len(self.text):
            self._read_one()
        if self.groups:
            self._refuse("group_not_closed", "a ( is not closed; write \\( for the character")
        return _join_parts(self.parts)

    def _refuse(self, code: str, rule: str) -> NoReturn:
        raise InvalidValue(rule, code=code, place=f"pattern, at character {self.at}")

    def _take(self) -> str:
        character = self.text[self.at : self.at + 1]
        self.at += 1
        return character

    def _take_if(self, text: str) -> bool:
        found = self.text.startswith(text, self.at)
        self.at += len(text) * found
        return found

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def _add(
        self, rust: str, python: str, *, ascii: str | None = None, may_repeat: bool = True
    ) -> None:
        self.parts.append(PortableRegex(rust, python, python if ascii is None else ascii))
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
                self._add(".", rf"[^\n{_INVALID_BYTES}]")
            case "*" | "+" | "?":
                self._repeat(character, 1)
            case "{" if (count := _COUNT.match(self.text, self.at - 1)) is not None:
                self._repeat_by_count(count)
            case "{" if self.text.startswith(",", self.at):
                self._refuse(
                    "repeat_without_minimum",
                    "write {0,3} for at most three times, and \\{ for the character",
                )
            case _:
                self._add_literal(character)

    def _add_literal(self, character: str) -> None:
        if character == "\n":
            self._refuse("line_feed_in_pattern", _LINE_FEED_ERROR)
        if self.ignores_case and character in {"i", "I", *_TURKISH_I}:
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
                self._refuse("unsupported_half_boundary", "\\b{...} is not supported; use \\b")
            word = format_python_ranges(SHORTHANDS["w"]())
            at_edge = f"(?<=[{word}])(?![{word}])|(?<![{word}])(?=[{word}])"
            self._add(r"\b", f"(?:{at_edge})", ascii=r"\b", may_repeat=False)
        elif character == "B":
            self._refuse(
                "unsupported_non_boundary",
                "\\B is not supported; use a class such as \\w where you mean one",
            )
        elif character in {"A", "z", "Z"}:
            self._refuse(
                "unsupported_anchor",
                f"\\{character} is not supported; a pattern is about one line: use ^ and $",
            )
        elif (shorthand := self._shorthand(character)) is not None:
            self._add_class(shorthand, cased=self.ignores_case and character == "p")
        else:
            self._add_literal(self._escaped(character))

    def _shorthand(self, character: str) -> _CharacterClass | None:
        r"""Read what follows `\d` and its like, or a property; negated if written in upper case."""
        name = character.lower()
        if name in SHORTHANDS:
            ranges, rust = SHORTHANDS[name](), f"\\{character}"
        elif character == "P" and self.ignores_case:
            self._refuse(
                "negated_property_ignoring_case",
                "\\P cannot be used where case is ignored; write [^\\p{L}] instead",
            )
        elif name == "p":
            found = self._match(_PROPERTY)
            category = (found[1] or found[2]) if found is not None else ""
            if not is_category(category):
                self._refuse(
                    "unknown_property",
                    "of properties only general categories are known: \\p{L}, \\p{Lu}, ...",
                )
            ranges, rust = category_ranges(category), f"\\{character}{{{category}}}"
        else:
            return None
        return _CharacterClass(ranges if character == name else complement_ranges(ranges), rust)

    def _escaped(self, character: str) -> str:
        """Return the character that an escape stands for."""
        if character in _CONTROL_ESCAPES:
            return _CONTROL_ESCAPES[character]
        if character == "n":
            return "\n"
        if character in {"x", "u", "U"}:
            self.at -= 1
            found = self._match(_CODE_POINT_ESCAPE)
            code = int(next(filter(None, found.groups())), 16) if found is not None else -1
            if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                self._refuse(
                    "invalid_code_point",
                    "the escape names no character; write \\x41, \\u0041 or \\x{41}",
                )
            return chr(code)
        if character.isdigit():
            self._refuse("backreference", "backreferences are not supported")
        if not character:
            self._refuse(
                "trailing_backslash",
                "nothing follows the last backslash; write \\\\ for the character",
            )
        if character.isalnum() or character in "<>" or not character.isascii():
            self._refuse("unknown_escape", f"there is no escape \\{character}")
        return character

    # -- classes -----------------------------------------------------------------------------

    def _read_class(self) -> None:
        is_negated = self._take_if("^")
        items = [self._class_item()]  # a ] that comes first is a character
        while not self._take_if("]"):
            items.append(self._class_item())
        ranges = tuple(sorted(chain.from_iterable(item.ranges for item in items)))
        if not is_negated and all(low == high == 0x0A for low, high in ranges):
            self._refuse("line_feed_in_pattern", _LINE_FEED_ERROR)
        found = _CharacterClass(ranges, "".join(item.rust for item in items))
        self._add_class(found, is_negated=is_negated, cased=self.ignores_case)

    def _class_item(self) -> _CharacterClass:
        """Read a character, a range, or a class inside a class."""
        if self._take_if("[:"):
            return _class_from_ranges(self._posix())
        for operator in ("&&", "--", "~~", "["):
            if self.text.startswith(operator, self.at):
                self._refuse(
                    "set_operation",
                    f"{operator} means something else elsewhere; write \\{operator[0]}",
                )
        low = self._class_character()
        if isinstance(low, _CharacterClass):
            return low
        if not (self.text.startswith("-", self.at) and self.text[self.at + 1 : self.at + 2] != "]"):
            return _class_from_ranges(((low, low),))
        self.at += 1
        high = self._class_character()
        if isinstance(high, _CharacterClass) or high < low:
            self._refuse(
                "invalid_range", "a range in brackets must run from one character up to another"
            )
        return _class_from_ranges(((low, high),))

    def _class_character(self) -> int | _CharacterClass:
        character = self._take()
        if not character:
            self._refuse("class_not_closed", "a [ is not closed; write \\[ for the character")
        if character != "\\":
            return ord(character)
        character = self._take()
        return self._shorthand(character) or ord(self._escaped(character))

    def _posix(self) -> CodePointRanges:
        end = self.text.find(":]", self.at)
        name = self.text[self.at : end] if end != -1 else ""
        if name not in POSIX_CLASSES:
            self._refuse(
                "unknown_posix_class",
                "there is no such class; [:alpha:], [:digit:] and their like are known",
            )
        self.at = end + 2
        return POSIX_CLASSES[name]

    def _add_class(self, found: _CharacterClass, *, is_negated: bool = False, cased: bool) -> None:
        rust, ranges = (
            found.rust,
            format_python_ranges(
                remove_characters(found.ranges, _TURKISH_I) if cased else found.ranges
            ),
        )
        if is_negated:
            rust, python = f"[^{rust}]", f"[^{ranges}{_INVALID_BYTES}]"
        else:
            rust, python = f"[{rust}]", f"[{ranges}]" if ranges else "(?!)"
        if not cased:
            self._add(rust, python)
            return
        # Python folds these two differently: decide about them here.
        spans = found.ranges
        inside = [c for c in _TURKISH_I if any(a <= ord(c) <= z for a, z in spans) != is_negated]
        python = f"(?:(?![{_TURKISH_I}])(?i:{python}){''.join(f'|{c}' for c in inside)})"
        self._add(f"(?i:{rust})", python)

    # -- groups and repetition ---------------------------------------------------------------

    def _open(self) -> None:
        outer_ignores_case = self.ignores_case
        is_plain = not self.text.startswith("?", self.at)
        if not is_plain and self._match(_GROUP_NAME) is None and self._set_flags():
            return
        if len(self.groups) >= _MAX_GROUP_DEPTH:
            self._refuse("groups_too_deep", f"groups are nested more than {_MAX_GROUP_DEPTH} deep")
        self.groups.append(_OpenGroup(outer_ignores_case, self.parts, self.repeats))
        self.parts, self.repeats, self.may_repeat = [], 1, False

    def _set_flags(self) -> bool:
        """Read `?i:` or `?i)`; return whether that was all of the group."""
        flags = self._match(_FLAGS)
        if flags is None:
            self._refuse(
                "unsupported_group", "look-around, atomic and conditional groups are not supported"
            )
        if "u" in (flags[2] or ""):
            self._refuse("unicode_disabled", "Unicode cannot be switched off")
        if "i" in flags[1]:
            self.ignores_case = True
        if "i" in (flags[2] or ""):
            self.ignores_case = False
        # (?s) and (?m) change nothing within one line, and (?u) holds anyway.
        self.may_repeat = self.may_repeat and flags[3] == ":"
        return flags[3] == ")"

    def _close(self) -> None:
        if not self.groups:
            self._refuse("group_not_open", "a ) closes nothing; write \\) for the character")
        group = self.groups.pop()
        inside, repeats = _join_parts(self.parts), self.repeats
        self.parts, self.ignores_case = group.parts, group.ignores_case
        self.parts.append(PortableRegex._make(f"(?:{dialect})" for dialect in inside))
        self.may_repeat = True
        self.last_repeats = repeats
        self.repeats = max(group.repeats, repeats)

    def _repeat_by_count(self, count: re.Match[str]) -> None:
        self.at = count.end()
        low, high = int(count[1]), int(count[3] or count[1])
        if high < low:
            self._refuse("repeat_reversed", "the counts of a repetition run backwards")
        self._repeat(f"{{{low}{count[2]}{int(count[3]) if count[3] else ''}}}", high)

    def _repeat(self, operator: str, times: int) -> None:
        if not self.may_repeat:
            self._refuse(
                "nothing_to_repeat",
                f"there is nothing that {operator} could repeat; write \\{operator[0]} for the"
                " character, and (?:...) around what is to be repeated again",
            )
        if self.last_repeats * times > _MAX_REPEATS:
            self._refuse(
                "too_many_repeats",
                f"something is repeated more than {_MAX_REPEATS:,} times by count",
            )
        self.repeats = max(self.repeats, self.last_repeats * times)
        if self._take_if("?"):
            operator += "?"
        self.parts[-1] = PortableRegex._make(dialect + operator for dialect in self.parts[-1])
        self.may_repeat = False


def _class_from_ranges(ranges: CodePointRanges) -> _CharacterClass:
    return _CharacterClass(ranges, format_rust_ranges(ranges))


def _join_parts(parts: list[PortableRegex]) -> PortableRegex:
    return (
        PortableRegex._make(map("".join, zip(*parts, strict=True)))
        if parts
        else PortableRegex("", "", "")
    )


# -- sets of characters ---------------------------------------------------------------------------

CodePointRanges: TypeAlias = tuple[tuple[int, int], ...]
"""First and last code point, both included."""

# Beyond, there are only tags, variation selectors, and code points for private use.
_ASSIGNED_CODE_POINTS: Final = (range(0x33480), range(0xE0000, 0xE0200))
_PRIVATE_PLANES: Final[CodePointRanges] = ((0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))
_CIRCLED_LETTERS: Final = (
    (0x24B6, 0x24E9),
    (0x1F130, 0x1F149),
    (0x1F150, 0x1F169),
    (0x1F170, 0x1F189),
)
_JOINERS: Final = ((0x200C, 0x200D),)
_CATEGORY: Final = re.compile("L[ulmto]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfo]|LC")
_DIGITS: Final = (0x30, 0x39)
_UPPER: Final = (0x41, 0x5A)
_LOWER: Final = (0x61, 0x7A)
_PUNCTUATION: Final = ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E))


def is_category(name: str) -> bool:
    """Return whether a name is that of a general category of Unicode that we can count out."""
    return _CATEGORY.fullmatch(name) is not None


@lru_cache(maxsize=64)
def category_ranges(name: str) -> CodePointRanges:
    """Return all characters of a general category, or of those that begin with a letter."""
    wanted = {"Lu", "Ll", "Lt"} if name == "LC" else None
    code_points = [
        code
        for code in chain.from_iterable(_ASSIGNED_CODE_POINTS)
        if (category(chr(code)) in wanted if wanted else category(chr(code)).startswith(name))
    ]
    ranges = _ranges_from_code_points(code_points)
    return ranges + _PRIVATE_PLANES if name == "Co" else ranges


@lru_cache(maxsize=1)
def _word_characters() -> CodePointRanges:
    """Return what Unicode (UTS 18) calls a word character."""
    parts = map(category_ranges, ("L", "M", "Nd", "Nl", "Pc"))
    return _merge_ranges([*chain.from_iterable(parts), *_CIRCLED_LETTERS, *_JOINERS])


def _space_characters() -> CodePointRanges:
    return (
        (0x09, 0x0D),
        (0x20, 0x20),
        (0x85, 0x85),
        (0xA0, 0xA0),
        (0x1680, 0x1680),
        (0x2000, 0x200A),
        (0x2028, 0x2029),
        (0x202F, 0x202F),
        (0x205F, 0x205F),
        (0x3000, 0x3000),
    )


SHORTHANDS: Final[Mapping[str, Callable[[], CodePointRanges]]] = {
    "d": lambda: category_ranges("Nd"),
    "s": _space_characters,
    "w": _word_characters,
}
r"""The character sets of `\d`, `\s` and `\w`."""
POSIX_CLASSES: Final[Mapping[str, CodePointRanges]] = {
    "alnum": (_DIGITS, _UPPER, _LOWER),
    "alpha": (_UPPER, _LOWER),
    "ascii": ((0x00, 0x7F),),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0x00, 0x1F), (0x7F, 0x7F)),
    "digit": (_DIGITS,),
    "graph": ((0x21, 0x7E),),
    "lower": (_LOWER,),
    "print": ((0x20, 0x7E),),
    "punct": _PUNCTUATION,
    "space": ((0x09, 0x0D), (0x20, 0x20)),
    "upper": (_UPPER,),
    "word": (_DIGITS, _UPPER, (0x5F, 0x5F), _LOWER),
    "xdigit": (_DIGITS, (0x41, 0x46), (0x61, 0x66)),
}
"""The classes in `[[:alpha:]]`, which are about ASCII."""


def complement_ranges(ranges: CodePointRanges) -> CodePointRanges:
    """Return the ranges of all other characters; these are in order and do not touch."""
    edges = [-1, *chain.from_iterable(ranges), 0x110000]
    gaps = zip(edges[::2], edges[1::2], strict=True)
    return tuple([(low + 1, high - 1) for low, high in gaps if high - low > 1])


def remove_characters(ranges: CodePointRanges, characters: str) -> CodePointRanges:
    """Return ranges that do not hold these characters."""
    for code in map(ord, characters):
        halves = [((low, min(high, code - 1)), (max(low, code + 1), high)) for low, high in ranges]
        ranges = tuple([span for span in chain.from_iterable(halves) if span[0] <= span[1]])
    return ranges


@lru_cache(maxsize=64)
def format_python_ranges(ranges: CodePointRanges) -> str:
    """Return ranges as Python's `re` writes them inside brackets."""
    return "".join(
        f"\\U{low:08x}-\\U{high:08x}"
        for low, high in chain.from_iterable(map(_without_surrogates, ranges))
    )


def format_rust_ranges(ranges: CodePointRanges) -> str:
    """Return ranges as ripgrep writes them inside brackets."""
    return "".join(
        f"\\x{{{low:X}}}-\\x{{{high:X}}}"
        for low, high in chain.from_iterable(map(_without_surrogates, ranges))
    )


def _without_surrogates(span: tuple[int, int]) -> CodePointRanges:
    """Leave surrogates out: they are no characters, and Python uses them for stray bytes."""
    low, high = span
    return tuple(
        (first, last)
        for first, last in ((low, min(high, 0xD7FF)), (max(low, 0xE000), high))
        if first <= last
    )


def _ranges_from_code_points(code_points: Iterable[int]) -> CodePointRanges:
    return _merge_ranges([(code, code) for code in code_points])


def _merge_ranges(ranges: list[tuple[int, int]]) -> CodePointRanges:
    """Join ranges that touch."""
    merged: list[list[int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], high)
        else:
            merged.append([low, high])
    return tuple([(low, high) for low, high in merged])
