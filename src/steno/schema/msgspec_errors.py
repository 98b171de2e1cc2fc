"""Errors of msgspec as codes and fields.

msgspec's ValidationError has nothing but a sentence that ends with a path. This is the one module
that reads such sentences; the rest of steno sees a `ValidationProblem`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from steno.suggest import suggest_name

_PATH: Final = re.compile(r" - at (?:`key` in )?`\$(?P<path>.*)`\Z", re.DOTALL)
_MESSAGES: Final = (
    ("wrong_type", re.compile(r"Expected `([^`]+)`, got `([^`]+)`")),
    ("empty", re.compile(r"Expected `str` of length >= 1")),
    ("name_malformed", re.compile(r"Expected `str` matching regex .*", re.DOTALL)),
    ("out_of_range", re.compile(r"Expected `[^`]+` (>=|<=|>|<) ([\d.]+)")),
    ("not_as_expected", re.compile(r"Expected .*", re.DOTALL)),
    ("field_missing", re.compile(r"Object missing required field `([^`]*)`")),
    ("field_unknown", re.compile(r"Object contains unknown field `([^`]*)`")),
    ("not_a_choice", re.compile(r"Invalid (?:enum )?value .*", re.DOTALL)),
    ("malformed", re.compile(r"Invalid .*", re.DOTALL)),
)
"""Codes, and the messages that each is for; the first that matches counts."""
_TYPE_NAMES: Final = {
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
_OR_NULL: Final = " | null"
_BOUNDS: Final = {">=": "{} or more", "<=": "{} or less", ">": "above {}", "<": "below {}"}


class ValidationProblem(NamedTuple):
    """A rule that a value breaks."""

    code: str
    """A code of the table above, or "invalid_value": a message that is not msgspec's own."""
    message: str
    """The message without the path. It may quote the value if the code is "invalid_value"."""
    path: str = ""
    """The place below the value, such as `.servers[0].name`."""
    details: tuple[str, ...] = ()
    """The types of "wrong_type", the bound of "out_of_range", the name of a field."""


def read_validation_error(exc: msgspec.ValidationError) -> ValidationProblem:
    """Return an error of msgspec as a code, a path and details."""
    text = str(exc)
    found = _PATH.search(text)
    message, path = (text, "") if found is None else (text[: found.start()], found["path"])
    for code, pattern in _MESSAGES:
        match = pattern.fullmatch(message)
        if match is not None:
            return ValidationProblem(code, message, path, match.groups())
    return ValidationProblem("invalid_value", message, path)


def explain_validation_problem(problem: ValidationProblem, fields: Iterable[str] = ()) -> str:
    """Return what a value in a settings file must be; `fields` are those that a table may have."""
    match problem.code:
        case "wrong_type":
            wanted, found = problem.details
            return f"must be {_type_name(wanted)}, not {_type_name(found)}"
        case "empty":
            return "must not be empty"
        case "name_malformed":
            return "must be letters, digits and _, and begin with no digit"
        case "out_of_range":
            sign, bound = problem.details
            return f"must be {_BOUNDS[sign].format(bound.removesuffix('.0'))}"
        case "field_unknown":
            [name] = problem.details
            return f"there is no field {name}; {suggest_name(name, fields)}"
        case _:
            return problem.message


def _type_name(name: str) -> str:
    """Return the name of a type in plain words; that it may be null does not matter."""
    names = name.removesuffix(_OR_NULL).split(" | ")
    return " or ".join([_TYPE_NAMES.get(one, one) for one in names])
