"""Errors of msgspec as codes, paths and details."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Struct

from steno.schema.msgspec_errors import SyntaxProblem, read_syntax_error, read_validation_error


class Row(Struct, forbid_unknown_fields=True):
    """A type with a rule for each case."""

    name: Annotated[str, Meta(min_length=1)] = "a"
    word: Annotated[str, Meta(pattern="^[a-z]+$")] = "a"
    count: Annotated[int, Meta(ge=1)] = 1
    kind: Literal["a", "b"] = "a"
    numbers: dict[int, int] = {}
    rows: list[Row] = []


class Strict(Struct):
    """A type with a field that must be there."""

    name: str


@pytest.mark.parametrize(
    ("value", "code", "path", "details"),
    [
        ({"name": 7}, "wrong_type", ".name", ("str", "int")),
        ({"name": ""}, "empty", ".name", ()),
        ({"word": "A"}, "pattern_mismatch", ".word", ()),
        ({"count": 0}, "out_of_range", ".count", (">=", "1")),
        ({"kind": "c"}, "not_a_choice", ".kind", ()),
        ({"nmae": ""}, "field_unknown", "", ("nmae",)),
        ({"rows": [{}, {"count": "x"}]}, "wrong_type", ".rows[1].count", ("int", "str")),
    ],
)
def test_each_rule_has_a_code(value: Any, code: str, path: str, details: tuple[str, ...]) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(value, Row)
    problem = read_validation_error(caught.value)
    assert (problem.code, problem.path, problem.details) == (code, path, details)
    assert not problem.is_key


def test_a_key_that_breaks_a_rule_is_distinguished_from_a_value() -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert({"numbers": {"x": 1}}, Row)
    problem = read_validation_error(caught.value)
    assert (problem.code, problem.path, problem.is_key) == ("wrong_type", ".numbers", True)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert({}, Strict)
    assert read_validation_error(caught.value)[::4] == ("field_missing", ("name",))


def test_a_message_of_others_has_the_code_of_any_error() -> None:
    problem = read_validation_error(msgspec.ValidationError("no such town: Oslo - at `$.town`"))
    assert (problem.code, problem.message, problem.path) == (
        "invalid_value",
        "no such town: Oslo",
        ".town",
    )


@pytest.mark.parametrize(
    ("data", "byte"), [(b'{"a": 1,}', 8), (b"[1 2]", 3), (b"nul", None), (b'{"a"', None)]
)
def test_a_syntax_error_has_the_number_of_bytes_before_it(data: bytes, byte: int | None) -> None:
    with pytest.raises(msgspec.DecodeError) as caught:
        msgspec.json.decode(data)
    problem = read_syntax_error(caught.value)
    assert problem == SyntaxProblem(problem.message, byte)
    assert "byte" not in problem.message
