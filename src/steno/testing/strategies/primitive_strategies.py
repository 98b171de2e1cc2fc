"""Strategies for the parts of every value: text, names, moments, JSON.

Text is anything that UTF-8 can encode, with more of the characters that break careless code than
chance would draw. `named_strategy` makes hypothesis show a strategy by its name: otherwise it
prints everything a strategy is made of, which for a document is 46 kB in the report of every
failed test, and a warning.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import cache, wraps
from typing import Any, Final, ParamSpec, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from steno.json_object import JsonObject

P = ParamSpec("P")
T = TypeVar("T")
ODD_CHARACTERS: Final = (
    "\0\a\b\t\n\r\x1b\x1f \"'\\/<&{}[],:%"  # controls, and characters with a meaning in formats
    "\x7f\x85\xa0\xad\u2028\u2029"  # ends of lines and blanks that are not ASCII
    "\u0301\u200d\u200b\u200f\u202e\ufe0f\ufeff"  # combining, joining, right to left, invisible
    "éÅſßıİ日\ufffd\uffff"  # more than one form, more than one case
    "😀👩🏽\U00010000\U0010ffff"  # two units in UTF-16
)
"""Characters that are legal in text and that code often fails on."""
_ANY_CHARACTER: Final = st.characters(codec="utf-8")
_VISIBLE: Final = st.characters(
    codec="utf-8", exclude_categories=("Cc", "Zs", "Zl", "Zp")
) | st.sampled_from("aZ0_😀")
_NAME_CHARACTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
_MINUTES_A_DAY: Final = 24 * 60
_SPACINGS: Final = ((",", ":"), (", ", ": "), (" ,\n", "\t:\r\n "))
_SURROUNDINGS: Final = ("{}", "{}", " {}", "\n{}\t")
_ODD_OBJECTS: Final = (
    "{}",
    "{ }",
    '{"a":1.0e5,"b":-0,"c":1E+2}',
    '{"a":1,"a":2}',
    '{"\\u0061":"\\ud83d\\ude00\\/"}',
    '{"n":18446744073709551616}',
    '{"a":"{\\"b\\":\\"}\\"}"}',
)


def named_strategy(function: Callable[P, SearchStrategy[T]]) -> Callable[P, SearchStrategy[T]]:
    """Make a function return strategies that are shown as the call, and built once per call."""
    build: Callable[..., SearchStrategy[T]] = cache(function)

    def draw_one(draw: DrawFn, *args: Any, **kwargs: Any) -> T:
        return draw(build(*args, **kwargs))

    draw_one.__name__ = function.__name__
    strategy = wraps(function)(st.composite(draw_one))
    vars(strategy).pop("__signature__", None)  # the real one is found through __wrapped__
    return strategy


# -- text --------------------------------------------------------------------------------------


@named_strategy
def texts(*, min_size: int = 0, max_size: int | None = None) -> SearchStrategy[str]:
    """Text of any characters but surrogates; the empty one too unless `min_size` forbids it."""
    return st.text(_ANY_CHARACTER, min_size=min_size, max_size=max_size) | st.text(
        st.sampled_from(ODD_CHARACTERS), min_size=min_size, max_size=max_size
    )


@named_strategy
def visible_texts() -> SearchStrategy[str]:
    """Text that is not blank, as users, system prompts and descriptions need it."""
    return st.builds("{}{}{}".format, texts(max_size=20), _VISIBLE, texts(max_size=20))


@named_strategy
def identifiers() -> SearchStrategy[str]:
    """Ids of calls, entries and documents: any text but the empty one."""
    return texts(min_size=1, max_size=24)


@named_strategy
def tool_names() -> SearchStrategy[str]:
    """Names that a tool may have: 1 to 64 letters, digits and underscores."""
    return st.text(st.sampled_from(_NAME_CHARACTERS), min_size=1, max_size=64)


@named_strategy
def outside_tool_names() -> SearchStrategy[str]:
    """Names of tools of other systems, which `map_tool_name` has to translate."""
    outside = st.text(st.sampled_from(_NAME_CHARACTERS + ".:/-"), max_size=100)
    return st.builds("{}{}{}".format, outside, st.sampled_from(".:/-"), outside).map(_cut_name)


def _cut_name(name: str) -> str:
    # The longest that is mapped; a cut may lose the character that makes the name foreign.
    return name if len(name) <= 128 else f"{name[:127]}-"


# -- time --------------------------------------------------------------------------------------


@named_strategy
def moments() -> SearchStrategy[datetime]:
    """Moments with a time zone, from the first year to the last, to the microsecond."""
    offsets = st.integers(1 - _MINUTES_A_DAY, _MINUTES_A_DAY - 1).map(
        lambda minutes: timezone(timedelta(minutes=minutes))
    )
    return st.datetimes(
        # A day from either end: in another zone it is still a moment that UTC can name.
        min_value=datetime(1, 1, 3),  # noqa: DTZ001 - hypothesis adds the zone
        max_value=datetime(9999, 12, 29),  # noqa: DTZ001 - likewise
        timezones=st.just(UTC) | offsets,
    )


# -- JSON --------------------------------------------------------------------------------------


@named_strategy
def json_values(*, max_leaves: int = 8) -> SearchStrategy[Any]:
    """Plain JSON values: wild strings, big integers, any finite float, deep nesting."""
    scalars = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.integers(-(2**200), -(2**64))
        | st.integers(2**64, 2**200)
        | st.floats(allow_nan=False, allow_infinity=False)
        | texts(max_size=20)
    )
    shallow: SearchStrategy[Any] = st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(texts(max_size=10), inner, max_size=4)
        ),
        max_leaves=max_leaves,
    )
    return shallow | st.builds(_nest_value, shallow, st.integers(1, 60), st.booleans())


def _nest_value(value: Any, depth: int, in_objects: bool) -> Any:
    for _ in range(depth):
        value = {"": value} if in_objects else [value]
    return value


@named_strategy
def json_members(*, max_leaves: int = 8) -> SearchStrategy[dict[str, Any]]:
    """Plain dictionaries that JSON can encode."""
    return st.dictionaries(texts(max_size=10), json_values(max_leaves=max_leaves), max_size=4)


@named_strategy
def json_objects() -> SearchStrategy[JsonObject]:
    """JSON objects, read-only all the way down."""
    return json_members().map(JsonObject)


@named_strategy
def json_object_texts() -> SearchStrategy[str]:
    """Texts of JSON objects as a model may write them: any spacing, any escapes."""
    written = st.builds(
        _write_json,
        json_members(),
        st.sampled_from(_SPACINGS),
        st.booleans(),
        st.sampled_from(_SURROUNDINGS),
    )
    return written | st.sampled_from(_ODD_OBJECTS)


def _write_json(
    members: dict[str, Any], spacing: tuple[str, str], is_ascii: bool, around: str
) -> str:
    return around.format(json.dumps(members, separators=spacing, ensure_ascii=is_ascii))
