"""Values checked against schemas: the pointer and the text of each problem."""

from __future__ import annotations

import typing as t
from collections import UserDict
from decimal import Decimal
from enum import IntEnum
from types import MappingProxyType

import pytest
from msgspec import Struct

from steno.errors import Problem
from steno.schema import close_objects, schema_of_type, validate_value
from tests.schema import string_annotations

Schema: t.TypeAlias = dict[str, t.Any]


def problems(value: t.Any, schema: t.Any) -> list[tuple[str, str]]:
    return [(problem.pointer, problem.rule) for problem in validate_value(value, schema)]


def rule(value: t.Any, schema: t.Any) -> str:
    [problem] = validate_value(value, schema)
    assert problem.pointer == ""
    return problem.rule


@pytest.mark.requirement("NFR-004a-14")
def test_every_problem_has_a_pointer_and_a_rule() -> None:
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1},
            "mode": {"enum": ["r", "w"]},
            "lines": {"type": "array", "items": {"type": "integer", "minimum": 1}},
        },
        "required": ["path", "mode"],
        "additionalProperties": False,
    }
    assert validate_value({"path": "x", "mode": "r", "lines": [1, 2]}, schema) == ()
    assert validate_value({"path": 5, "mode": "a", "lines": [1, 0, "x"], "extra": 1}, schema) == (
        Problem("/path", "expected string"),
        Problem("/mode", 'must be one of "r", "w"'),
        Problem("/lines/1", "must be at least 1"),
        Problem("/lines/2", "expected integer"),
        Problem("/extra", 'unknown property; the properties are "path", "mode", "lines"'),
    )
    assert problems({}, schema) == [
        ("", 'missing required property "path"'),
        ("", 'missing required property "mode"'),
    ]


@pytest.mark.requirement("NFR-004a-14")
def test_a_problem_never_shows_the_value() -> None:
    secret = "hunter2"
    keywords: Schema = {
        "type": "integer",
        "enum": [1],
        "const": 1,
        "maxLength": 1,
        "pattern": "^$",
        "not": {"type": "string"},
        "anyOf": [{"type": "integer"}, {"maxLength": 2}],
        "oneOf": [{"maxLength": 2}],
    }
    for keyword, operand in keywords.items():
        found = validate_value({"x": secret, "y": [secret]}, {
            "properties": {"x": {keyword: operand}, "y": {"items": {keyword: operand}}}
        })  # fmt: skip
        assert len(found) == 2
        assert secret not in str(found)


@pytest.mark.parametrize(
    ("value", "schema", "words"),
    [
        ("x", {"type": "integer"}, "expected integer"),
        ("x", {"type": ["integer", "null"]}, "expected integer or null"),
        (1.5, {"type": "integer"}, "expected integer"),
        (True, {"type": "integer"}, "expected integer"),
        (True, {"type": "number"}, "expected number"),
        (None, {"type": "object"}, "expected object"),
        ({}, {"type": "array"}, "expected array"),
        ([], {"type": "object"}, "expected object"),
        (0, {"type": "boolean"}, "expected boolean"),
        (0, {"type": "null"}, "expected null"),
        (Decimal(1), {"type": "number"}, "expected number"),
        (1, False, "no value is allowed here"),
        ("a", {"enum": ["b"]}, 'must be "b"'),
        ("a", {"const": {"b": 1}}, 'must be {"b":1}'),
        (1, {"const": True}, "must be true"),
        (False, {"enum": [0, 1]}, "must be one of 0, 1"),
        (1, {"minimum": 2}, "must be at least 2"),
        (3, {"maximum": 2}, "must be at most 2"),
        (2, {"exclusiveMinimum": 2}, "must be greater than 2"),
        (2, {"exclusiveMaximum": 2}, "must be less than 2"),
        (3, {"multipleOf": 2}, "must be a multiple of 2"),
        (0.35, {"multipleOf": 0.1}, "must be a multiple of 0.1"),
        (float("inf"), {"multipleOf": 2}, "must be a multiple of 2"),
        (float("nan"), {"multipleOf": 2}, "must be a multiple of 2"),
        (10**400, {"multipleOf": 0.5}, "must be a multiple of 0.5"),
        ("ä", {"minLength": 2}, "the number of characters must be at least 2"),
        ("äöü", {"maxLength": 2}, "the number of characters must be at most 2"),
        ("b", {"pattern": "^a"}, "must match the pattern ^a"),
        ([], {"minItems": 1}, "the number of items must be at least 1"),
        ([1, 2], {"maxItems": 1}, "the number of items must be at most 1"),
        ({}, {"minProperties": 1}, "the number of properties must be at least 1"),
        ({"a": 1}, {"maxProperties": 0}, "the number of properties must be at most 0"),
        ({"a": 1}, {"dependentRequired": {"a": ["b"]}}, 'missing required property "b"'),
        ([1], {"contains": {"type": "string"}}, 'the number of items that match {"type":"string"} must be at least 1'),
        (["a"], {"contains": {}, "maxContains": 0, "minContains": 0}, "the number of items that match {} must be at most 0"),
        ("a", {"not": {"type": "string"}}, 'must not match the schema {"type":"string"}'),
        ("a", {"not": True}, "must not match the schema true"),
        (5, {"allOf": [{"minimum": 1}, {"maximum": 4}]}, "must be at most 4"),
        (5, {"oneOf": [{"minimum": 1}, {"minimum": 2}]}, "must match exactly one of the alternatives, but matches several"),
        (5, {"if": {"minimum": 1}, "then": {"maximum": 4}}, "must be at most 4"),
        (0, {"if": {"minimum": 1}, "else": {"maximum": -1}}, "must be at most -1"),
    ],
)  # fmt: skip
def test_the_text_for_every_keyword(value: t.Any, schema: t.Any, words: str) -> None:
    assert rule(value, schema) == words


class Small(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (1.0, {"type": "integer"}),
        (1, {"type": "number"}),
        (Small.ONE, {"type": "integer", "enum": [1]}),
        (1.0, {"const": 1}),
        ([1, {"a": (2,)}], {"const": [1.0, {"a": [2]}]}),
        (0.3, {"multipleOf": 0.1}),
        ("anything", True),
        ("anything", {}),
        ("2020-13-99", {"format": "date"}),
        ("anything", {"$comment": "x", "unknownKeyword": 5}),
        (5, {"minLength": 9, "minItems": 9, "required": ["a"]}),
        ({"b": 1}, {"dependentRequired": {"a": ["c"]}}),
        ({"ab": 1}, {"properties": {"x": {}}, "patternProperties": {"^a": {}}, "additionalProperties": False}),
        (["x", 1, 2], {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}),
        (["x"], {"prefixItems": [{"type": "string"}, False]}),
        ([True, 1, "1", [1], [True]], {"uniqueItems": True}),
        ([1, 1], {"uniqueItems": False}),
        (5, {"if": {"minimum": 9}, "then": False}),
        (5, {"if": True}),
    ],
)  # fmt: skip
def test_values_that_json_schema_allows_fit(value: t.Any, schema: t.Any) -> None:
    assert validate_value(value, schema) == ()


@pytest.mark.requirement("NFR-004a-14")
@pytest.mark.parametrize("wrap", [MappingProxyType, UserDict])
def test_read_only_values_and_schemas_are_read_like_ordinary_ones(wrap: t.Any) -> None:
    schema = wrap({
        "type": "object",
        "properties": wrap({"a": wrap({"type": "array", "items": wrap({"enum": (1, wrap({}))})})}),
    })  # fmt: skip
    assert validate_value(wrap({"a": (1, wrap({}))}), schema) == ()
    assert problems(wrap({"a": (2,)}), schema) == [("/a/0", "must be one of 1, {}")]


@pytest.mark.requirement("NFR-004a-14")
def test_pointers_are_escaped_and_go_all_the_way_down() -> None:
    schema = {"additionalProperties": {"additionalProperties": {"items": {"type": "null"}}}}
    assert problems({"a/b": {"~": [None, 1]}, "": {"~1": [2]}}, schema) == [
        ("/a~1b/~0/1", "expected null"),
        ("//~01/0", "expected null"),
    ]


def test_members_and_items_have_their_own_pointers() -> None:
    assert problems({"ab": 1, "b": 2}, {"patternProperties": {"a": False}}) == [
        ("/ab", "no value is allowed here")
    ]
    assert problems({"ab": 1}, {"propertyNames": {"maxLength": 1, "pattern": "^b"}}) == [
        ("/ab", "property name: the number of characters must be at most 1"),
        ("/ab", "property name: must match the pattern ^b"),
    ]
    assert problems(["a", {"x": 1}, "a", {"x": 1.0}], {"uniqueItems": True}) == [
        ("/2", "must not repeat an earlier item"),
        ("/3", "must not repeat an earlier item"),
    ]
    assert problems({"a": 1}, {"additionalProperties": False}) == [("/a", "unknown property")]
    assert problems([1, 2], {"prefixItems": [{"type": "null"}], "items": {"type": "null"}}) == [
        ("/0", "expected null"),
        ("/1", "expected null"),
    ]


# -- alternatives ----


def test_alternatives_of_different_types_are_joined_in_one_problem() -> None:
    assert rule("x", {"anyOf": [{"type": "integer"}, {"type": "null"}]}) == (
        "expected integer or null"
    )
    assert rule("x", {"anyOf": [{"enum": ["r", "w"]}, {"const": None}]}) == (
        'must be one of "r", "w" or null'
    )
    assert rule("x", {"anyOf": [{"type": "string", "enum": ["r", "w"]}, {"type": "null"}]}) == (
        'must be one of "r", "w", or expected null'
    )
    assert rule(1.5, {"oneOf": [{"type": "integer"}, {"type": "integer"}]}) == "expected integer"


def test_one_alternative_speaks_for_itself() -> None:
    assert problems({}, {"anyOf": [{"type": "object", "required": ["a", "b"]}]}) == [
        ("", 'missing required property "a"'),
        ("", 'missing required property "b"'),
    ]


def test_the_alternative_of_the_right_kind_is_the_one_that_was_meant() -> None:
    schema = {
        "anyOf": [
            {"type": "null"},
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a", "b"]},
        ]
    }
    assert problems({"a": "x"}, schema) == [
        ("/a", "expected integer"),
        ("", 'missing required property "b"'),
    ]


class Move(Struct, tag="move", tag_field="kind"):
    x: int
    y: int


class Say(Struct, tag="say", tag_field="kind"):
    text: str


def test_the_alternative_with_the_right_tag_is_the_one_that_was_meant() -> None:
    schema = close_objects(schema_of_type(list[Move | Say]))
    value: list[t.Any] = [{"kind": "move", "x": "1", "y": "2", "z": 3, "w": 4}]
    assert [pointer for pointer, _ in problems(value, schema)] == ["/0/x", "/0/y", "/0/z", "/0/w"]
    assert problems([{"kind": "jump", "text": "x"}], schema) == [
        ("/0/kind", 'must be "move" or "say"')
    ]
    assert problems([{"text": "x"}], schema) == [("/0", 'missing required property "kind"')]
    assert problems(["x"], schema) == [("/0", "expected object")]


def test_of_equals_the_alternative_with_fewer_and_deeper_faults_is_reported() -> None:
    deep = {"properties": {"a": {"properties": {"b": {"type": "null"}}}}}
    assert problems({"a": {"b": 1}}, {"oneOf": [{"required": ["x"]}, deep]}) == [
        ("/a/b", "expected null")
    ]
    assert problems({}, {"anyOf": [{"required": ["x", "y"]}, {"required": ["z"]}]}) == [
        ("", 'missing required property "z"')
    ]


# -- references ----


@pytest.mark.parametrize(
    "ref",
    ["#/$defs/a~1b", "#/%24defs/a~1b", "#/allOf/0/properties/x", "#/prefixItems/1"],
)
def test_a_reference_is_a_pointer_into_the_schema(ref: str) -> None:
    integer = {"type": "integer"}
    schema = {
        "$defs": {"a/b": integer},
        "allOf": [{"properties": {"x": integer}}],
        "prefixItems": [True, integer],
        "properties": {"y": {"$ref": ref, "minimum": 3}},
    }
    assert validate_value({"y": 3}, schema) == ()
    assert problems({"y": "x"}, schema) == [("/y", "expected integer")]
    assert problems({"y": 1}, schema) == [("/y", "must be at least 3")]


@pytest.mark.parametrize(
    "ref", ["#/nowhere", "#/prefixItems/1", "#/prefixItems/x", "#anchor", "http://x/y", 5, None]
)
def test_a_reference_to_another_document_allows_everything(ref: t.Any) -> None:
    assert validate_value(5, {"$ref": ref, "prefixItems": [False]}) == ()


def test_a_recursive_schema_follows_the_value() -> None:
    schema = schema_of_type(string_annotations.Tree)
    value: dict[str, t.Any] = {"value": 1, "children": [{"value": 1, "children": [{"value": "x"}]}]}
    assert problems(value, schema) == [("/children/0/children/0/value", "expected integer")]
    assert validate_value({"x": {"x": {}}}, {"properties": {"x": {"$ref": "#"}}}) == ()


# -- whatever comes, it ends and does not raise ----


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 5},
        {"type": []},
        {"type": [5, {}]},
        {"type": "any"},
        {"type": {}},
        {"enum": 5},
        {"properties": 5, "additionalProperties": True},
        {"properties": [], "patternProperties": 5, "additionalProperties": {}},
        {"properties": {"a": 5, "b": None}},
        {"patternProperties": {"(": False}},
        {"required": "a"},
        {"required": [5, [], None]},
        {"dependentRequired": []},
        {"dependentRequired": {"a": 5}},
        {"propertyNames": 5},
        {"items": 5, "prefixItems": 5},
        {"items": [False]},
        {"contains": 5, "minContains": "x", "maxContains": []},
        {"uniqueItems": "yes"},
        {"minimum": "low", "maximum": None, "multipleOf": 0},
        {"multipleOf": -1},
        {"multipleOf": "x"},
        {"minLength": "x", "pattern": "("},
        {"pattern": 5},
        {"pattern": "a{99999999999999999999}"},
        {"allOf": {}, "anyOf": {}, "oneOf": {}, "not": 5},
        {"allOf": [], "anyOf": [], "oneOf": []},
        {"anyOf": [5]},
        {"if": 5, "then": 5},
        {"$ref": []},
        5,
        None,
        "x",
        [],
    ],
)
def test_invalid_keywords_of_a_schema_are_ignored(schema: t.Any) -> None:
    for value in (None, True, 1, 1.5, "a", [1, 1], {"a": 1, "b": {}}):
        assert validate_value(value, schema) == ()


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"not": {"$ref": "#"}},
    ],
)
def test_a_schema_that_only_refers_to_itself_cannot_be_checked(schema: Schema) -> None:
    assert rule({}, schema) == "nested too deeply to be checked"


def test_a_schema_that_multiplies_is_given_up() -> None:
    """Two ways to fail, forty times over: 2^40 of them."""
    defs: Schema = {f"D{i}": {"anyOf": [{"$ref": f"#/$defs/D{i + 1}"}] * 2} for i in range(40)}
    schema = {"$ref": "#/$defs/D0", "$defs": {**defs, "D40": False}}
    assert rule({}, schema) == "too large to be checked, or the schema is too complex"


def test_a_value_nested_without_measure_is_a_problem() -> None:
    value: t.Any = {"value": 1}
    for _ in range(100_000):
        value = {"value": 1, "children": [value]}
    assert rule(value, schema_of_type(string_annotations.Tree)) == "nested too deeply to be checked"
    assert rule([value], {"const": 1}) == "nested too deeply to be checked"
    assert validate_value(value, {"type": "object"}) == ()


def test_at_most_fifty_problems_are_reported() -> None:
    assert len(validate_value(["x"] * 1000, {"items": {"type": "integer"}})) == 50
    assert len(validate_value({}, {"required": [str(i) for i in range(1000)]})) == 50


def test_long_choices_are_cut_short() -> None:
    words = rule("x", {"enum": [str(i) for i in range(1000)]})
    assert words.endswith('"19", …')
    assert len(rule("x", {"const": "y" * 1000})) < 300


@pytest.mark.parametrize("const", ["\ud800", object()])
def test_a_choice_that_json_cannot_represent_is_still_a_problem(const: object) -> None:
    assert rule("x", {"const": const}) == "must be the value in the schema"
