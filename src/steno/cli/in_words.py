"""What msgspec says of a value that does not fit, in words of people who write a settings file.

Only its words are known here, and no setting: whoever reads a value says where it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from steno.cli.nearest import advice
from steno.printable import on_one_line

_KINDS: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
    "datetime": "a time",
    "date": "a date",
    "time": "a time",
}
_NULL: Final = " | null"
_BOUNDS: Final = {">=": "{} or more", "<=": "{} or less", ">": "above {}", "<": "below {}"}
_WORDS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (
        re.compile(r"Expected `([^`]+)`, got `([^`]+)`"),
        lambda found: f"must be {_kind(found[1])}, not {_kind(found[2])}",
    ),
    (re.compile(r"Expected `str` of length >= 1"), lambda _: "must not be empty"),
    (
        re.compile(r"Expected `str` matching regex .*", re.DOTALL),
        lambda _: "must be letters, digits and _, and begin with no digit",
    ),
    (
        re.compile(r"Expected `[^`]+` (>=|<=|>|<) ([\d.]+)"),
        lambda found: f"must be {_BOUNDS[found[1]].format(found[2].removesuffix('.0'))}",
    ),
)
_UNKNOWN: Final = re.compile(r"Object contains unknown field `([^`]*)`")


def in_words(rule: str, fields: Iterable[str] = ()) -> str:
    """Return what msgspec says in our words; `fields` are those that there could be."""
    for pattern, told in _WORDS:
        rule = pattern.sub(told, rule)
    return _UNKNOWN.sub(
        lambda found: f"there is no field {on_one_line(found[1])}; {advice(found[1], fields)}",
        rule,
    )


def _kind(name: str) -> str:
    """Return what a type is called; that it may be missing is no use to anybody."""
    names = name.removesuffix(_NULL).split(" | ")
    return " or ".join([_KINDS.get(one, one) for one in names])
