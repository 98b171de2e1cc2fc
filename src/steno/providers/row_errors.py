"""Errors about values in a settings file, with the type names that users of TOML and JSON know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from steno.errors import InvalidValue
from steno.schema.msgspec_errors import ValidationProblem, read_validation_error
from steno.suggest import suggest_name

_TYPE_NAMES: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "datetime": "a time",
    "date": "a date",
    "time": "a time",
}
_OR_NULL: Final = " | null"
_BOUNDS: Final = {">=": "{} or more", "<=": "{} or less", ">": "above {}", "<": "below {}"}


def build_row_error(
    exc: msgspec.ValidationError,
    place: str,
    *,
    fields: Iterable[str] = (),
    choices: Sequence[str] = (),
) -> InvalidValue:
    """Return the error for a value that msgspec rejected; `place` names the table.

    `fields` are the fields that the table may have, `choices` the values that are allowed.
    """
    problem = read_validation_error(exc)
    text = _explain_problem(problem, fields, choices)
    if problem.is_key:
        text = f"{text} (a key)"
    # The only patterns in settings are those for names of environment variables.
    code = "name_malformed" if problem.code == "pattern_mismatch" else problem.code
    return InvalidValue(text, code=code, place=f"{place}{problem.path}")


def _explain_problem(
    problem: ValidationProblem, fields: Iterable[str], choices: Sequence[str]
) -> str:
    match problem.code:
        case "wrong_type":
            wanted, found = problem.details
            return f"must be {_type_name(wanted)}, not {_type_name(found)}"
        case "empty":
            return "must not be empty"
        case "pattern_mismatch":
            return "must consist of letters, digits and _, and must not begin with a digit"
        case "out_of_range":
            sign, bound = problem.details
            return f"must be {_BOUNDS[sign].format(bound.removesuffix('.0'))}"
        case "field_unknown":
            [name] = problem.details
            return f"unknown field {name}; {suggest_name(name, fields)}"
        case "not_a_choice" if choices:
            return f"must be {' or '.join(choices)}"
        case _:
            return problem.message


def _type_name(name: str) -> str:
    """Return the human-readable name of a type, without "or null"."""
    names = name.removesuffix(_OR_NULL).split(" | ")
    return " or ".join([_TYPE_NAMES.get(one, one) for one in names])
