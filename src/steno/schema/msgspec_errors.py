"""Parse the errors of msgspec into codes and fields.

Errors of msgspec have only a message, which ends with a path or the number of a byte. This is the
only module of steno that parses these messages; other modules use `ValidationProblem` and
`SyntaxProblem`.
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
"""Each code with the pattern of its messages; the first pattern that matches is used."""
_BYTE: Final = re.compile(r"(?:JSON is malformed: )?(.*) \(byte (\d+)\)", re.DOTALL)
_TRUNCATED: Final = "Input data was truncated"


class ValidationProblem(NamedTuple):
    """A validation error of msgspec, as a code, a message and the path of the invalid value."""

    code: str
    """A code of `_MESSAGE_CODES`, or "invalid_value" for a message that is not msgspec's own."""
    message: str
    """The message without the path.

    It may quote the value if the code is "invalid_value", "not_a_choice" or "field_unknown".
    """
    path: str = ""
    """The path from the validated value to the invalid part, such as `.servers[0].name`."""
    is_key: bool = False
    """Whether a key of the object at the path is invalid, rather than a value."""
    details: tuple[str, ...] = ()
    """The variable parts of the message; empty for most codes.

    These are the expected and the actual type for "wrong_type", the operator and the bound for
    "out_of_range", and the name of the field for "field_missing" and "field_unknown".
    """


def read_validation_error(exc: msgspec.ValidationError) -> ValidationProblem:
    """Parse a validation error of msgspec into a code, a message, a path and details."""
    text = str(exc)
    found = _PATH.search(text)
    message, path = (text, "") if found is None else (text[: found.start()], found["path"])
    is_key = found is not None and found["key"] is not None
    for code, pattern in _MESSAGE_CODES:
        match = pattern.fullmatch(message)
        if match is not None:
            return ValidationProblem(code, message, path, is_key, match.groups())
    return ValidationProblem("invalid_value", message, path, is_key)


class SyntaxProblem(NamedTuple):
    """A syntax error in JSON."""

    message: str
    byte: int | None
    """The number of bytes before the error; None if the text ends too early."""


def read_syntax_error(exc: msgspec.DecodeError) -> SyntaxProblem:
    """Parse a syntax error of msgspec into a message and the place of the error."""
    text = str(exc)
    found = _BYTE.fullmatch(text)
    if found is not None:
        return SyntaxProblem(found[1], int(found[2]))
    return SyntaxProblem("the text ends too early" if text == _TRUNCATED else text, None)
