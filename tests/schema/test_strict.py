"""Closing every record of a schema, and nothing else."""

from __future__ import annotations

import copy
import typing as t
from dataclasses import dataclass
from types import MappingProxyType

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from steno.errors import InvalidTool
from steno.schema import close_objects, schema_of_type, validate_value
from tests.schema import string_annotations
from tests.schema.schema_strategies import object_schemas

Schema: t.TypeAlias = dict[str, t.Any]


def record(*names: str, **keywords: t.Any) -> Schema:
    return {"type": "object", "properties": {name: {} for name in names}, **keywords}


def closed(*names: str, **keywords: t.Any) -> Schema:
    return record(*names, **keywords, additionalProperties=False)


@pytest.mark.requirement("FR-004a-84")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (record("a"), closed("a")),
        ({"type": "object"}, {"type": "object", "additionalProperties": False}),
        ({"type": ["object", "null"]}, {"type": ["object", "null"], "additionalProperties": False}),
        ({"properties": {"a": record("b")}}, {"properties": {"a": closed("b")}, "additionalProperties": False}),
        ({"type": "array", "items": record("a")}, {"type": "array", "items": closed("a")}),
        ({"items": [record("a"), True]}, {"items": [closed("a"), True]}),
        ({"prefixItems": [record("a")]}, {"prefixItems": [closed("a")]}),
        ({"anyOf": [record("a"), record("b"), {"type": "null"}]}, {"anyOf": [closed("a"), closed("b"), {"type": "null"}]}),
        ({"oneOf": [record("a")]}, {"oneOf": [closed("a")]}),
        ({"allOf": [record("a")]}, {"allOf": [closed("a")]}),
        ({"patternProperties": {"^x": record("a")}}, {"patternProperties": {"^x": closed("a")}}),
        ({"$defs": {"A": record("a")}, "$ref": "#/$defs/A"}, {"$defs": {"A": closed("a")}, "$ref": "#/$defs/A"}),
        ({"definitions": {"A": record("a")}}, {"definitions": {"A": closed("a")}}),
        (record("a", additionalProperties=True), closed("a")),
        (record("a", additionalProperties={"type": "string"}), closed("a")),
    ],
)  # fmt: skip
def test_a_record_is_closed_at_every_level(before: Schema, after: Schema) -> None:
    assert close_objects(before) == after


@pytest.mark.requirement("FR-004a-84")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "additionalProperties": True},
        {"not": record("a")},
        {"if": record("a"), "then": record("b"), "else": record("c")},
        {"contains": record("a")},
        {"enum": [record("a")], "const": record("a")},
        {"default": record("a"), "examples": [record("a")]},
        {"required": ["a"]},
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"properties": "nonsense", "additionalProperties": False},
        {"$ref": "#/$defs/nowhere"},
        {"$ref": 5},
    ],
)
def test_schemas_that_are_not_records_stay_unchanged(schema: Schema) -> None:
    assert close_objects(schema) == schema


def test_the_values_of_a_mapping_are_closed_but_not_the_mapping() -> None:
    assert close_objects({"type": "object", "additionalProperties": record("a")}) == {
        "type": "object",
        "additionalProperties": closed("a"),
    }


def test_a_property_with_the_name_of_a_keyword_is_only_a_property() -> None:
    names = ("properties", "items", "anyOf", "default", "$ref", "additionalProperties")
    inner = {name: {"type": "array", "items": record(name)} for name in names}
    result = close_objects({"type": "object", "properties": inner})
    assert result["properties"] == {
        name: {"type": "array", "items": closed(name)} for name in names
    }


def test_the_original_is_not_touched() -> None:
    schema = schema_of_type(string_annotations.Tree)
    before = copy.deepcopy(schema)
    result = close_objects(schema)
    result["properties"]["value"]["type"] = "string"
    assert schema == before


def test_a_read_only_schema_becomes_an_ordinary_one() -> None:
    inner = MappingProxyType({"type": "object", "default": MappingProxyType({"x": (1, 2)})})
    assert close_objects(MappingProxyType({"prefixItems": (inner,)})) == {
        "prefixItems": [{"type": "object", "default": {"x": [1, 2]}, "additionalProperties": False}]
    }


@dataclass
class Options:
    limits: dict[str, int]
    anything: dict[str, t.Any]
    tree: string_annotations.Tree


@pytest.mark.requirement("FR-004a-84")
def test_a_type_is_closed_at_every_level_but_for_its_mappings() -> None:
    schema = close_objects(schema_of_type(Options))
    Draft202012Validator.check_schema(schema)
    value = {
        "limits": {"x": 1},
        "anything": {"y": [None]},
        "tree": {"value": 1, "children": [{"value": 2}]},
    }
    assert validate_value(value, schema) == ()
    value["tree"]["children"][0]["extra"] = 1  # type: ignore[index]
    assert [problem.pointer for problem in validate_value(value, schema)] == [
        "/tree/children/0/extra"
    ]


# -- several schemas about one object ----

COMPOSED: list[tuple[Schema, list[t.Any], list[t.Any]]] = [
    ({"allOf": [record("a"), record("b")]}, [{"a": 1, "b": 2}], [{"a": 1, "c": 3}]),
    (
        {"allOf": [{"$ref": "#/$defs/A"}, record("b")], "$defs": {"A": record("a")}},
        [{"a": 1, "b": 2}],
        [{"c": 3}],
    ),
    (
        record("a", anyOf=[record("b", required=["b"]), record("c", required=["c"])]),
        [{"a": 1, "b": 2}, {"a": 1, "c": 2}],
        [{"a": 1}, {"b": 2, "d": 4}],
    ),
    (
        record("a", anyOf=[{"required": ["a"]}]),
        [{"a": 1}],
        [{"a": 1, "b": 2}],
    ),
    (
        {"type": "object", "oneOf": [record("a", required=["a"]), record("b", required=["b"])]},
        [{"a": 1}, {"b": 1}],
        [{"a": 1, "b": 1}, {"a": 1, "c": 1}],
    ),
    (
        {"if": {"required": ["a"]}, "then": record("b"), **record("a")},
        [{"a": 1, "b": 2}],
        [{"a": 1, "c": 3}],
    ),
    (
        {**record("b"), "$ref": "#/$defs/A", "$defs": {"A": record("a")}},
        [{"a": 1, "b": 2}],
        [{"a": 1, "b": 2, "c": 3}],
    ),
    (
        {"allOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": record("a")}, "description": "x"},
        [{"a": 1}],
        [{"b": 1}],
    ),
    (
        {"$ref": "#/$defs/A", "$defs": {"A": record("a")}, "allOf": [record("b")]},
        [{"a": 1, "b": 1}],
        [{"c": 1}],
    ),
    (
        {"$ref": "#/$defs/A", "$defs": {"A": record("a")}, "allOf": 5, "properties": {"b": {}}},
        [{"a": 1, "b": 1}],
        [{"c": 1}],
    ),
    (
        {"allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#"}], "$defs": {"A": record("a", allOf=[{"$ref": "#/$defs/A"}])}},
        [],
        [],
    ),
]  # fmt: skip


def test_a_record_that_only_looks_like_one_is_made_one_for_its_parts() -> None:
    schema: Schema = {"properties": "nonsense", "allOf": [record("a")]}
    assert close_objects(schema) == {
        "properties": {"a": True},
        "allOf": [closed("a")],
        "additionalProperties": False,
    }


def test_a_mapping_that_declares_no_member_stays_open() -> None:
    schema: Schema = {"type": "object", "properties": {}, "additionalProperties": {}}
    assert close_objects(schema) == schema


@pytest.mark.parametrize(("schema", "fitting", "failing"), COMPOSED)
def test_parts_of_one_object_allow_each_others_names(
    schema: Schema, fitting: list[t.Any], failing: list[t.Any]
) -> None:
    result = close_objects(schema)
    validator = Draft202012Validator(result)
    for value in fitting:
        assert validator.is_valid(value)
        assert validate_value(value, result) == ()
    for value in failing:
        assert not validator.is_valid(value)
        assert validate_value(value, result) != ()


def test_a_schema_nested_without_measure_is_refused() -> None:
    schema: Schema = {}
    for _ in range(5000):
        schema = {"items": schema}
    with pytest.raises(InvalidTool) as caught:
        close_objects(schema)
    assert caught.value.code == "schema_too_deep"


def test_a_schema_entangled_without_measure_is_refused() -> None:
    """Each definition is twice a part of the one before: in place, that is 2^40 of them."""
    defs = {f"D{i}": record(f"p{i}", allOf=[{"$ref": f"#/$defs/D{i + 1}"}] * 2) for i in range(40)}
    with pytest.raises(InvalidTool) as caught:
        close_objects({"$ref": "#/$defs/D0", "$defs": defs})
    assert caught.value.code == "schema_too_entangled"


@given(object_schemas())
def test_closing_twice_changes_nothing_more(schema: Schema) -> None:
    once = close_objects(schema)
    Draft202012Validator.check_schema(once)
    assert close_objects(once) == once
