"""The definition of a tool that a model sees is cleaned and valid."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno import InvalidValue, ToolCall
from steno.inputs.mcp.tools import define_tool
from steno.inputs.mcp.untrusted_data import clean_text
from steno.messages.tool import MAX_DESCRIPTION_LENGTH, ToolDefinition
from tests.inputs.mcp.tool_doubles import listed_tool
from tests.raised_errors import raises_code

INNER = {"type": "object", "properties": {"a": {"type": "string"}}}


def defined(schema: Any) -> ToolDefinition:
    return define_tool("evil", listed_tool(schema=schema))


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b2Jgone", "gone"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("safe\u202etxet", "safetxet"),
        ("a\U000e0049\U000e0067\U000e006eb", "ab"),
        ("a\u200b\ufeff\u2060\u00adb", "ab"),
        ("a\ufe01\U000e0101b", "ab"),
        ("a\x00\x07\x08\x7fb", "ab"),
        ("half \ud800", "half \ufffd"),
        ("two\r\nlines\rand\tmore", "two\nlines\nand\tmore"),
        ("नमस्ते 👩\u200d🔬 ❤\ufe0f", "नमस्ते 👩\u200d🔬 ❤\ufe0f"),
        ("a\u3164\u2800b", "ab"),
    ],
)
def test_texts_are_shown_without_invisible_characters(said: str, told: str) -> None:
    assert clean_text(said, 100) == told


@given(st.text())
def test_cleaned_words_hold_nothing_that_a_terminal_acts_on(text: str) -> None:
    words = clean_text(text, 50)
    assert len(words) <= 50
    assert not any(one < " " and one not in "\t\n" for one in words)
    assert not any("\x7f" <= one <= "\x9f" or "\u202a" <= one <= "\u202e" for one in words)
    assert words.encode().decode() == words


def test_a_description_names_its_server_and_is_no_longer_than_providers_take() -> None:
    definition = define_tool("evil", listed_tool(description="x" * 5_000))
    assert definition.description.startswith("[MCP server evil] xxx")
    assert len(definition.description) == MAX_DESCRIPTION_LENGTH
    assert definition.description.endswith("…")


def test_a_tool_without_a_description_is_described_by_its_name() -> None:
    assert define_tool("time", listed_tool("now")).description == "[MCP server time] now"
    assert define_tool("time", listed_tool("now", title="The time")).description.endswith(
        "The time"
    )
    assert define_tool("time", listed_tool("\u202e\u202e")).description == "[MCP server time]"


def test_words_in_a_schema_are_cleaned_and_names_and_values_are_exact() -> None:
    schema = {
        "type": "object",
        "title": "T\u202e",
        "properties": {
            "description": {"type": "string", "description": "\x1b[1mbold"},
            "default": {"enum": ["\n", " x "], "default": "\n", "description": "\u200bz"},
        },
        "required": ["default"],
    }
    parameters = defined(schema).parameters
    assert parameters["title"] == "T"
    assert parameters["properties"]["description"] == {"type": "string", "description": "bold"}
    default = parameters["properties"]["default"]
    assert (default["enum"], default["default"], default["description"]) == (
        ("\n", " x "),
        "\n",
        "z",
    )
    assert parameters["required"] == ("default",)


def test_a_schema_without_a_type_is_completed() -> None:
    assert defined({}).parameters == {"type": "object", "properties": {}}


def test_a_schema_that_refers_to_itself_in_its_members_is_kept() -> None:
    tree = {
        "type": "object",
        "properties": {"top": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
    }
    definition = defined(tree)
    call = ToolCall.create(definition.name, {"top": {"next": {"next": {}}}})
    assert definition.check(call) == ()
    wrong = ToolCall.create(definition.name, {"top": {"next": {"next": 1}}})
    assert [problem.pointer for problem in definition.check(wrong)] == ["/top/next/next"]


def test_patterns_become_part_of_the_description_and_are_never_matched() -> None:
    """`(a+)+$` on a few dozen letters takes practically forever."""
    evil = {"type": "string", "pattern": "(a+)+$", "description": "Letters."}
    open_ended = {"patternProperties": {"(a+)+$": {}}, "additionalProperties": False}
    definition = defined({"type": "object", "properties": {"a": evil}, **open_ended})
    assert definition.parameters["properties"]["a"] == {
        "type": "string",
        "description": "Letters. (pattern: (a+)+$)",
    }
    call = ToolCall.create(definition.name, {"a": "a" * 60 + "!", "a" * 60 + "!": 1})
    assert definition.check(call) == ()


def test_a_schema_with_an_unsupported_top_level_becomes_one_object() -> None:
    other = {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}
    parameters = defined({**INNER, "oneOf": [INNER, other], "not": {"required": ["c"]}}).parameters
    assert parameters.keys() == {"type", "properties"}
    assert parameters["properties"].keys() == {"a", "b"}


TELL_SCHEMA = """
import json
from steno.inputs.mcp.tools import define_tool
from steno.inputs.mcp.protocol import ListedTool

schema = {"type": "object", "properties": {"p": {}}}
for number, keyword in enumerate(["oneOf", "allOf", "enum", "anyOf"]):
    schema[keyword] = [{"properties": {f"{keyword}{more}": {}}} for more in "ab"]
print(json.dumps(list(define_tool("it", ListedTool(name="x", schema=schema)).parameters["properties"])))
"""


def test_arguments_keep_the_order_of_the_schema_in_every_process() -> None:
    for seed in ("1", "2", "3"):
        told = subprocess.run(
            [sys.executable, "-c", TELL_SCHEMA],
            env={"PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            check=True,
            timeout=60,
        )
        keywords = ["oneOf", "allOf", "enum", "anyOf"]
        in_order = [f"{keyword}{more}" for keyword in keywords for more in "ab"]
        assert json.loads(told.stdout) == ["p", *in_order]


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        (["not", "an", "object"], "schema_not_an_object"),
        (None, "schema_not_an_object"),
        ("{}", "schema_not_an_object"),
        ({"type": "array"}, "not_an_object_schema"),
        ({"type": 7}, "not_an_object_schema"),
        ({"type": "object", "properties": {"a": {"type": "strange"}}}, "invalid_schema"),
        ({"type": "object", "properties": []}, "invalid_schema"),
        ({"type": "object", "required": "a"}, "invalid_schema"),
        ({"type": "object", "x": "y" * 5_000_000}, "schema_too_long"),
        (deep(1_000), "too_deep"),
        (deep(60), "schema_too_deep"),
        ({"type": "object", "$ref": "#"}, "reference_cycle"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
         "reference_cycle"),
        ({"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}, "reference_not_found"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}}, "reference_not_found"),
        ({"type": "object", "properties": {"a\u202e": {}}}, "schema_has_hidden_characters"),
        ({"type": "object", "properties": {"a": {"enum": ["\U000e0041"]}}}, "schema_has_hidden_characters"),
        ({"type": "object", "properties": {"a b": {}}}, "invalid_argument_name"),
        ({"type": "object", "x": float("nan")}, "not_finite"),
        ({"type": "object", "x": "\ud800"}, "lone_surrogate"),
    ],
    ids=range(20),
)  # fmt: skip
def test_an_invalid_schema_is_refused(schema: Any, code: str) -> None:
    with raises_code(InvalidValue, code):
        defined(schema)


@given(st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "properties", "$ref", "items", "enum", "anyOf", "pattern", "a"]),
        inner, max_size=4,
    ),
))  # fmt: skip
def test_any_schema_is_accepted_or_refused(schema: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            definition = defined(schema)
        except InvalidValue:
            return
    assert definition.parameters["type"] == "object"
    definition.check(ToolCall.create(definition.name, {"a": [1]}))
