"""Errors of msgspec as codes and fields.

A ValidationError of msgspec has only a message that ends with a path. No other module of steno
parses these messages; the others use `ValidationProblem`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import msgspec

_PATH: Final = re.compile(r" - at (?P<key>`key` in )?`\$(?P<path>.*)`\Z", re.DOTALL)
_MESSAGE_CODES: Final = (
    ("wrong_type", re.compile(r"Expected `([^`]+)`, got `([^`]+)`")),
    ("empty", re.compile(r"Expected `str` of length >= 1")),
    ("pattern_mismatch", re.compile(r"Expected `str` matching regex .*", re.DOTALL)),
    ("out_of_range", re.compile(r"Expected `[^`]+` (>=|<=|>|<) ([\d.]+)")),
    ("not_as_expected", re.compile(r"Expected .*", re.DOTALL)),
    ("field_missing", re.compile(r"Object missing required field `([^`]*)`")),
    ("field_unknown", re.compile(r"Object contains unknown field `([^`]*)`")),
    ("not_a_choice", re.compile(r"Invalid (?:enum )?value .*", re.DOTALL)),
    ("malformed", re.compile(r"Invalid .*", re.DOTALL)),
)
"""Codes and the pattern of their messages; the first match is used."""


class ValidationProblem(NamedTuple):
    """A rule that a value breaks."""

    code: str
    """A code of the table above, or "invalid_value": a message that is not msgspec's own."""
    message: str
    """The message without the path. It may quote the value if the code is "invalid_value" or
    "field_unknown".
    """
    path: str = ""
    """The place below the value, such as `.servers[0].name`."""
    is_key: bool = False
    """Whether a key of the object at the path breaks the rule, and not a value."""
    details: tuple[str, ...] = ()
    """The types of "wrong_type", the bound of "out_of_range", the name of a field."""


def read_validation_error(exc: msgspec.ValidationError) -> ValidationProblem:
    """Return an error of msgspec as a code, a path and details."""
    text = str(exc)
    found = _PATH.search(text)
    message, path = (text, "") if found is None else (text[: found.start()], found["path"])
    is_key = found is not None and found["key"] is not None
    for code, pattern in _MESSAGE_CODES:
        match = pattern.fullmatch(message)
        if match is not None:
            return ValidationProblem(code, message, path, is_key, match.groups())
    return ValidationProblem("invalid_value", message, path, is_key)
