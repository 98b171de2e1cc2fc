"""Type parameters and the type statement, which Python has from 3.12 on (see conftest.py)."""

from __future__ import annotations

import typing as t

import pytest

from steno.schema import schema_of_function, schema_of_type
from tests.schema.untyped_forms import Dict

INTEGER = {"type": "integer"}
STRING = {"type": "string"}
NULL = {"type": "null"}


def described(hint: t.Any) -> dict[str, t.Any]:
    return schema_of_type(hint)


def properties(hint: t.Any) -> t.Any:
    return described(hint)["properties"]


@pytest.mark.parametrize("header", ["", "from __future__ import annotations"])
def test_type_parameters_of_a_function_become_their_bound(header: str) -> None:
    namespace: dict[str, t.Any] = {}
    source = f"{header}\ndef f[T: int](x: T, y: list[T]): ..."
    exec(compile(source, "<test>", "exec", dont_inherit=True), namespace)
    assert schema_of_function(namespace["f"]).parameters["properties"] == {
        "x": INTEGER,
        "y": {"type": "array", "items": INTEGER},
    }


@pytest.mark.parametrize("header", ["", "from __future__ import annotations"])
def test_classes_with_type_parameters_are_generic(header: str) -> None:
    namespace: dict[str, t.Any] = {"__name__": __name__}
    source = f"""{header}
import dataclasses, msgspec
@dataclasses.dataclass
class Box[Item]:
    item: Item
class Case[Item](msgspec.Struct):
    item: Item
"""
    exec(compile(source, "<test>", "exec", dont_inherit=True), namespace)
    assert properties(namespace["Box"][int]) == {"item": INTEGER}
    assert properties(namespace["Case"][int]) == {"item": INTEGER}


def test_the_type_statement_is_read() -> None:
    namespace: dict[str, t.Any] = {}
    source = """
type Names = list[str]
type Json = None | int | list[Json] | dict[str, Json]
type Many[T] = list[T]
"""
    exec(source, namespace)
    assert described(namespace["Many"][int]) == {"type": "array", "items": INTEGER}
    assert described(namespace["Names"]) == {"type": "array", "items": STRING}
    json = {
        "anyOf": [
            NULL,
            INTEGER,
            {"type": "array", "items": {"$ref": "#/$defs/Json"}},
            {"type": "object", "additionalProperties": {"$ref": "#/$defs/Json"}},
        ]
    }
    assert described(namespace["Json"]) == {**json, "$defs": {"Json": json}}
    assert described(Dict[str, namespace["Json"]]) == {
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/Json"},
        "$defs": {"Json": json},
    }
