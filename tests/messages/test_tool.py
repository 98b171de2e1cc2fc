"""Tool definitions: the description of a tool for a model, and arguments checked against it."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict, cast

import attrs
import jsonschema
import msgspec
import pydantic
import pytest

from steno import (
    InvalidArguments,
    InvalidTool,
    InvalidValue,
    JsonObject,
    Problem,
    ToolCall,
    ToolDefinition,
    map_tool_name,
)
from steno.codec import decode_tool, encode_tool
from steno.messages.call import build_call
from steno.messages.tool import MAX_DESCRIPTION_LENGTH, LongDescriptionWarning
from tests.code_probes import check_no_secret, expect_error
from tests.value_samples import SECRET

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "File path"},
        "mode": {"type": "string", "enum": ["w", "a"], "default": "w"},
    },
    "required": ["path"],
}


def define(**changes: Any) -> ToolDefinition:
    fields: dict[str, Any] = {
        "name": "write_file",
        "description": "Writes content to a file.",
        "parameters": SCHEMA,
    }
    return ToolDefinition(**(fields | changes))


def objects(schema: object) -> Iterator[Mapping[str, Any]]:
    """Yield every schema of an object, however deep, that declares its members."""
    if isinstance(schema, Mapping):
        if "properties" in schema and isinstance(schema["properties"], Mapping):
            yield schema
        for part in schema.values():
            yield from objects(part)
    elif isinstance(schema, tuple):
        for part in schema:
            yield from objects(part)


# -- what a definition is ------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-71", "FR-004a-73", "FR-004a-75", "FR-004a-78", "FR-004a-82")
def test_a_definition_has_name_description_parameters_and_may_be_strict() -> None:
    definition = define(strict=False)
    assert definition.name == "write_file"
    assert definition.description == "Writes content to a file."
    assert definition.parameters == SCHEMA
    assert definition.strict is False
    assert definition.original_name is None


@pytest.mark.requirement("FR-004a-73", "FR-004a-75", "FR-004a-78")
@pytest.mark.parametrize("missing", ["name", "description", "parameters"])
def test_a_definition_cannot_be_made_without_its_parts(missing: str) -> None:
    fields: dict[str, Any] = {"name": "a", "description": "b", "parameters": SCHEMA}
    del fields[missing]
    with pytest.raises(TypeError, match=missing):
        ToolDefinition(**fields)


@pytest.mark.requirement("FR-004a-73", "FR-004a-74", "FR-004a-87", "NFR-004a-24")
@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            " ",
            "write file",
            "fs.write",
            "get-sum",
            "a/b",
            "größe",
            "write\n",
            "a" * 65,
            SECRET,
        ),
        *(None, 7, b"write", ["write"]),
    ],
    ids=lambda name: repr(name)[:20],
)
def test_a_definition_obeys_the_rules_for_names_in_calls(name: Any) -> None:
    error = expect_error(lambda: define(name=name))
    assert isinstance(error, InvalidTool)
    code = "invalid_name" if isinstance(name, str) else "wrong_type"
    assert (error.place, error.code, error.field) == ("tool definition", code, "name")
    with pytest.raises(InvalidValue):
        ToolCall(id="call_1", name=name)


@pytest.mark.requirement("FR-004a-74", "NFR-004a-27")
@pytest.mark.parametrize("name", ["a", "_", "7", "Write_File_2", "a" * 64])
def test_a_name_that_calls_may_have_a_definition_may_have(name: str) -> None:
    assert define(name=name).name == ToolCall(id="call_1", name=name).name == name


@pytest.mark.requirement("FR-004a-75", "FR-004a-76", "FR-004a-87", "NFR-004a-24")
@pytest.mark.parametrize("description", ["", " ", "\n\t", None, 7, b"x", ["x"], "\ud83d"], ids=repr)
def test_a_definition_with_an_empty_description_is_refused(description: Any) -> None:
    error = expect_error(lambda: define(description=description))
    assert isinstance(error, InvalidTool)
    assert error.field == "description"
    if not isinstance(description, str):
        assert error.code == "wrong_type"
    else:
        assert error.code == ("lone_surrogate" if description == "\ud83d" else "blank")


@pytest.mark.requirement("FR-004a-77", "NFR-004a-27")
def test_a_description_of_more_than_1024_characters_is_noticed() -> None:
    assert MAX_DESCRIPTION_LENGTH == 1024
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(define(description="x" * 1024).description) == 1024
    with pytest.warns(LongDescriptionWarning):
        define(description="x" * 1025)
    with pytest.warns(LongDescriptionWarning) as caught:
        assert len(define(description=SECRET * 100).description) == 1400
    [warning] = caught
    assert "write_file" in str(warning.message)
    assert SECRET not in str(warning.message)


@pytest.mark.requirement("FR-004a-78", "FR-004a-79", "FR-004a-81", "FR-004a-87", "NFR-004a-24")
@pytest.mark.parametrize(
    "parameters",
    [
        *(None, 7, True, "object", b"{}", [], [SCHEMA], json.dumps(SCHEMA), {}, {"type": "Object"}),
        *({"type": "string"}, {"type": "array", "items": SCHEMA}, {"type": None}, {"type": []}),
        *(
            {"properties": {}},
            {"anyOf": [SCHEMA]},
            {"type": ["object", "null"]},
            {"type": object()},
        ),
    ],
    ids=lambda parameters: repr(parameters)[:30],
)
def test_parameters_that_describe_no_object_are_refused(parameters: Any) -> None:
    error = expect_error(lambda: define(parameters=parameters))
    assert isinstance(error, InvalidTool)
    assert error.field == "parameters"
    assert error.code in {
        None: {"wrong_type"},
        dict: {"not_an_object_schema", "unsupported_type"},
    }.get(None if parameters is None else type(parameters), {"not_a_mapping"})


MALFORMED: list[dict[str, Any]] = [
    {"properties": []},
    {"properties": "path"},
    {"properties": {"path": "string"}},
    {"properties": {"path": 5}},
    {"properties": {"path": None}},
    {"properties": {"path": {"type": "text"}}},
    {"properties": {"path": {"type": 5}}},
    {"properties": {"path": {"type": ["string", 5]}}},
    {"properties": {"path": {"enum": "a"}}},
    {"properties": {"path": {"minimum": "1"}}},
    {"properties": {"path": {"maxLength": -1}}},
    {"properties": {"path": {"pattern": 5}}},
    {"properties": {"path": {"anyOf": []}}},
    {"properties": {"path": {"anyOf": {"type": "string"}}}},
    {"properties": {"path": {"properties": {"deep": {"required": "x"}}}}},
    {"required": "path"},
    {"required": [5]},
    {"required": ["path", "path"]},
    {"additionalProperties": "no"},
    {"$defs": []},
    {"$defs": {"a": {"type": "nothing"}}},
    {"description": 5},
]


@pytest.mark.requirement("FR-004a-80")
@pytest.mark.parametrize("wrong", MALFORMED, ids=str)
def test_parameters_that_are_not_a_valid_schema_are_refused(wrong: dict[str, Any]) -> None:
    """Held against the meta-schema of 2020-12; a list of `items` is left out, as it once was fine."""
    schema = {"type": "object"} | wrong
    with pytest.raises(jsonschema.SchemaError):
        jsonschema.Draft202012Validator.check_schema(schema)
    for strict in (True, False):
        error = expect_error(lambda strict=strict: define(parameters=schema, strict=strict))  # type: ignore[misc]
        assert (error.code, error.field) == ("invalid_schema", "parameters")


@pytest.mark.requirement("FR-004a-80", "NFR-004a-27")
@pytest.mark.parametrize(
    "rest",
    [
        {},
        {"properties": {}},
        {"properties": {"a": True, "b": {}}},
        {"properties": {"": {"type": ["string", "null"]}}},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "T", "x-ours": 1},
        {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "integer"}}},
        {"properties": {"a": {"anyOf": [{"const": 1}, {"not": {"type": "string"}}]}}},
    ],
    ids=str,
)
def test_well_formed_parameters_are_taken_as_they_are(rest: dict[str, Any]) -> None:
    schema = {"type": "object"} | rest
    assert define(parameters=schema, strict=False).parameters == schema


# -- unchangeable --------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-72", "FR-004a-79")
def test_the_schema_of_a_definition_is_read_only_at_every_depth() -> None:
    schema = json.loads(json.dumps(SCHEMA))
    definition = define(parameters=schema, strict=False)
    schema["properties"]["path"]["type"] = "integer"
    schema["required"].append("mode")
    assert definition.parameters == SCHEMA
    assert type(definition.parameters) is JsonObject
    path = cast("Any", definition.parameters)["properties"]["path"]
    with pytest.raises(TypeError):
        path["type"] = "integer"
    assert type(cast("Any", definition.parameters)["required"]) is tuple
    with pytest.raises(AttributeError):
        definition.parameters = {}  # type: ignore[misc]


@pytest.mark.requirement("FR-004a-88")
def test_definitions_of_the_same_content_are_equal() -> None:
    assert define() == define()
    assert hash(define()) == hash(define())
    assert define() == define(parameters=dict(reversed(SCHEMA.items())))
    for change in (
        {"name": "other"},
        {"description": "Other."},
        {"strict": False},
        {"parameters": {"type": "object"}},
        {"original_name": "write-file"},
    ):
        assert define(**change) != define()


# -- strict --------------------------------------------------------------------------------------

DEEP: dict[str, Any] = {
    "type": "object",
    "properties": {
        "one": {"type": "object", "properties": {"two": {"type": "object", "properties": {}}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {}}}},
        "pair": {"type": "array", "prefixItems": [{"type": "object", "properties": {"a": {}}}]},
        "either": {"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "null"}]},
        "open": {"type": "object", "properties": {"a": {}}, "additionalProperties": True},
        "ref": {"$ref": "#/$defs/Node"},
        "nothing": {"type": "object"},
    },
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
        }
    },
}


@pytest.mark.requirement("FR-004a-83", "FR-004a-84")
def test_a_definition_is_strict_by_default() -> None:
    assert define().strict is True
    assert define().parameters == SCHEMA | {"additionalProperties": False}
    assert ToolDefinition.from_type(Write).strict is True
    assert ToolDefinition.from_function(write).strict is True


@pytest.mark.requirement("FR-004a-82", "FR-004a-84")
def test_a_strict_definition_closes_every_object_however_deep() -> None:
    closed = define(parameters=DEEP).parameters
    found = list(objects(closed))
    assert len(found) == 8
    assert all(schema["additionalProperties"] is False for schema in found)
    assert cast("Any", closed)["properties"]["nothing"]["additionalProperties"] is False
    jsonschema.Draft202012Validator.check_schema(JsonObject(closed).to_dict())
    assert define(parameters=DEEP, strict=False).parameters == DEEP


@pytest.mark.requirement("FR-004a-84", "NFR-004a-14")
def test_a_strict_definition_allows_no_undeclared_property() -> None:
    strict, loose = define(parameters=DEEP), define(parameters=DEEP, strict=False)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"extra": 1}, "/extra"),
        ({"one": {"extra": 1}}, "/one/extra"),
        ({"one": {"two": {"extra": 1}}}, "/one/two/extra"),
        ({"list": [{"a": 1}, {"extra": 1}]}, "/list/1/extra"),
        ({"ref": {"next": {"next": {"extra": 1}}}}, "/ref/next/next/extra"),
    ]
    for arguments, place in cases:
        call = ToolCall.create("write_file", arguments)
        assert loose.check(call) == ()
        problems = strict.check(call)
        assert problems
        assert any(place.startswith(problem.pointer) for problem in problems)


@pytest.mark.requirement("FR-004a-84")
def test_a_mapping_stays_open_in_a_strict_definition() -> None:
    """Closed, it could hold nothing: its members have no names to declare."""

    def count(words: dict[str, int]) -> None:
        """Count words."""

    definition = ToolDefinition.from_function(count)
    assert definition.check(ToolCall.create("count", {"words": {"a": 1, "b": 2}})) == ()
    assert definition.check(ToolCall.create("count", {"words": {}, "extra": 1})) != ()


@pytest.mark.requirement("FR-004a-84", "FR-004a-88")
def test_closing_twice_is_closing_once() -> None:
    once = define(parameters=DEEP)
    assert define(parameters=once.parameters) == once
    assert msgspec.structs.replace(once) == once


# -- JSON and providers --------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-85")
@pytest.mark.parametrize("strict", [True, False])
def test_a_definition_is_written_as_json_and_read_back(strict: bool) -> None:
    definition = define(parameters=DEEP, strict=strict, original_name="write-file")
    loaded = decode_tool(encode_tool(definition))
    assert loaded == definition
    assert type(loaded.parameters) is JsonObject


@pytest.mark.requirement("FR-004a-86", "FR-004a-85")
def test_a_definition_in_json_has_the_names_that_providers_use() -> None:
    assert json.loads(encode_tool(define())) == {
        "name": "write_file",
        "description": "Writes content to a file.",
        "parameters": SCHEMA | {"additionalProperties": False},
    }
    assert json.loads(encode_tool(define(strict=False)))["strict"] is False


@pytest.mark.requirement("FR-004a-86")
@pytest.mark.parametrize("make", ["by hand", "from type", "from function"])
def test_a_definition_carries_just_what_openai_and_anthropic_need(make: str) -> None:
    """OpenAI: a function of name, description, parameters, strict; Anthropic: input_schema."""
    definition = {
        "by hand": lambda: define(parameters=DEEP),
        "from type": lambda: ToolDefinition.from_type(Write, name="w" * 64),
        "from function": lambda: ToolDefinition.from_function(write),
    }[make]()
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", definition.name)
    assert definition.description.strip()
    parameters = JsonObject(definition.parameters).to_dict()
    jsonschema.Draft202012Validator.check_schema(parameters)
    assert parameters["type"] == "object"
    assert parameters["additionalProperties"] is False
    openai = {
        "type": "function",
        "function": {
            "name": definition.name,
            "description": definition.description,
            "parameters": parameters,
            "strict": definition.strict,
        },
    }
    anthropic = {
        "name": definition.name,
        "description": definition.description,
        "input_schema": parameters,
    }
    assert json.loads(json.dumps([openai, anthropic])) == [openai, anthropic]


@pytest.mark.requirement("FR-004a-32", "FR-004a-87")
@pytest.mark.parametrize(
    "data",
    [
        b'{"name":"a b","description":"x","parameters":{"type":"object"}}',
        b'{"name":"a","description":"","parameters":{"type":"object"}}',
        b'{"name":"a","description":"x","parameters":{"type":"array"}}',
        b'{"name":"a","description":"x"}',
        b'{"name":"a","description":"x","parameters":{"type":"object"},"strict":null}',
    ],
)
def test_the_rules_hold_for_a_definition_that_is_read(data: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(data, type=ToolDefinition)


# -- from types ----------------------------------------------------------------------------------


class Tone(Enum):
    """How it sounds."""

    LOUD = "loud"
    CALM = "calm"


class Write(msgspec.Struct):
    """Writes content to a file.

    Attributes:
        path: File path.
        lines: What to write.
    """

    path: str
    lines: list[str]
    tone: Tone = Tone.CALM
    mode: Literal["w", "a"] = "w"
    size: Annotated[int, msgspec.Meta(ge=1, description="In bytes.")] = 10
    owner: str | None = None


@dataclass
class WriteData:
    """Writes content to a file."""

    path: str
    size: int = 10
    lines: list[str] = field(default_factory=list)


class WriteDict(TypedDict, total=False):
    """Writes content to a file."""

    path: str
    size: int


@attrs.define
class WriteAttrs:
    """Writes content to a file."""

    path: str
    size: int = 10


class WriteModel(pydantic.BaseModel):
    """Writes content to a file."""

    path: str = pydantic.Field(description="File path.")
    size: int = 10


@pytest.mark.requirement("FR-004a-89", "FR-004a-90")
def test_a_definition_is_made_from_the_fields_of_a_type() -> None:
    definition = ToolDefinition.from_type(Write)
    assert definition.name == "Write"
    assert definition.description == "Writes content to a file."
    assert definition.parameters == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "File path."},
            "lines": {
                "type": "array",
                "items": {"type": "string"},
                "description": "What to write.",
            },
            "tone": {
                "type": "string",
                "enum": ["loud", "calm"],
                "description": "How it sounds.",
                "default": "calm",
            },
            "mode": {"type": "string", "enum": ["w", "a"], "default": "w"},
            "size": {"type": "integer", "minimum": 1, "description": "In bytes.", "default": 10},
            "owner": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["path", "lines"],
        "additionalProperties": False,
    }


@pytest.mark.requirement("FR-004a-89", "FR-004a-90")
@pytest.mark.parametrize("type", [WriteData, WriteDict, WriteAttrs, WriteModel, Write])
def test_a_definition_is_made_from_every_kind_of_type(type: Any) -> None:
    definition = ToolDefinition.from_type(type)
    assert definition.name == type.__name__
    assert definition.description == "Writes content to a file."
    properties = cast("Any", definition.parameters)["properties"]
    assert properties["path"]["type"] == "string"
    assert properties["size"]["type"] == "integer"
    if type is not WriteDict:
        assert properties["size"]["default"] == 10
        assert "size" not in cast("Any", definition.parameters)["required"]
        assert "path" in cast("Any", definition.parameters)["required"]
    good = ToolCall.create(definition.name, {"path": "a", "size": 1, "lines": []})
    if type not in {WriteDict, WriteAttrs, WriteModel}:
        assert definition.check(good) == ()
    bad = ToolCall.create(definition.name, {"path": 5})
    assert "/path" in {problem.pointer for problem in definition.check(bad)}


@pytest.mark.requirement("FR-004a-89")
def test_a_name_and_a_description_may_be_given_instead() -> None:
    definition = ToolDefinition.from_type(Write, name="w", description="Other.", strict=False)
    assert (definition.name, definition.description) == ("w", "Other.")
    assert definition.strict is False
    assert "additionalProperties" not in definition.parameters


class Wordless(msgspec.Struct):
    path: str


@dataclass
class NotForJson:
    """Holds something that JSON cannot carry."""

    path: str
    stream: Iterator[str]


@pytest.mark.requirement("FR-004a-76", "FR-004a-81", "FR-004a-87", "FR-004a-89", "NFR-004a-25")
@pytest.mark.parametrize(
    "type",
    [
        *(Wordless, NotForJson, int, str, list[int], dict[str, int], int | None, Literal["a"], Any),
        *(None, 5, "Write", Write(path="a", lines=[]), print, object),
    ],
    ids=str,
)
def test_a_type_that_describes_no_tool_is_refused(type: Any) -> None:
    with pytest.raises(InvalidTool):
        ToolDefinition.from_type(type)
    if type not in (Wordless, dict[str, int]):
        with pytest.raises(InvalidTool):
            ToolDefinition.from_type(type, name="a", description="b")


def tagged(meta: msgspec.Meta) -> Any:
    return msgspec.defstruct("Tagged", [("tag", Annotated[str, meta])])


@pytest.mark.requirement("FR-004a-79")
@pytest.mark.parametrize("strict", [True, False])
def test_later_changes_to_the_schema_do_not_change_the_definition(strict: bool) -> None:
    examples = [["red"]]
    type = tagged(msgspec.Meta(examples=examples, extra_json_schema={"x": examples}))
    definition = ToolDefinition.from_type(type, description="Tags.", strict=strict)
    examples[0].append("blue")
    tag = cast("Any", definition.parameters)["properties"]["tag"]
    assert tag == {"type": "string", "examples": [["red"]], "x": [["red"]]}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    "meta",
    [
        msgspec.Meta(examples=[object()]),
        msgspec.Meta(examples=[float("nan")]),
        msgspec.Meta(extra_json_schema={"x": {SECRET: object()}}),
    ],
    ids=["object", "nan", "keyword"],
)
def test_keywords_that_are_not_json_are_refused(meta: msgspec.Meta, strict: bool) -> None:
    error = expect_error(
        lambda: ToolDefinition.from_type(tagged(meta), description="Tags.", strict=strict)
    )
    assert isinstance(error, InvalidTool)
    assert (error.place, error.field) == ("tool definition", "parameters")
    assert error.code in {"unsupported_type", "not_finite"}


# -- from functions ------------------------------------------------------------------------------


def write(path: str, text: str = "", *, mode: Literal["w", "a"] = "w") -> int:
    """Write text to a file.

    Args:
        path: Where to write.
        text: What to write.

    Returns:
        How much was written.
    """
    raise NotImplementedError


async def fetch(url: str) -> str:
    """Fetch a page."""
    raise NotImplementedError


@pytest.mark.requirement("FR-004a-89", "FR-004a-90")
def test_a_definition_is_made_from_a_function_and_its_docstring() -> None:
    definition = ToolDefinition.from_function(write)
    assert (definition.name, definition.description) == ("write", "Write text to a file.")
    assert definition.parameters == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where to write."},
            "text": {"type": "string", "description": "What to write.", "default": ""},
            "mode": {"type": "string", "enum": ["w", "a"], "default": "w"},
        },
        "required": ["path"],
        "additionalProperties": False,
    }
    asynchronous = ToolDefinition.from_function(fetch, strict=False)
    assert asynchronous.name == "fetch"
    assert "additionalProperties" not in asynchronous.parameters


def wordless(path: str) -> None: ...


def anything(*args: str, **rest: str) -> None:
    """Take anything."""


def by_position(path: str, /) -> None:
    """Take a path."""


@pytest.mark.requirement("FR-004a-87", "NFR-004a-25")
@pytest.mark.parametrize(
    "function", [wordless, anything, by_position, lambda path: path, None, 5, "write", Write]
)
def test_a_function_that_no_model_could_call_is_refused(function: Any) -> None:
    with pytest.raises(InvalidTool):
        ToolDefinition.from_function(function)


@pytest.mark.requirement("FR-004a-76", "FR-004a-89")
def test_the_error_for_a_missing_description_names_the_places_for_it() -> None:
    for make in (
        lambda: ToolDefinition.from_function(wordless),
        lambda: ToolDefinition.from_type(Wordless),
    ):
        assert expect_error(make).code == "no_description"
    described = ToolDefinition.from_function(wordless, description="Read a file.")
    assert described.description == "Read a file."
    assert ToolDefinition.from_type(Wordless, description="Read it.").description == "Read it."


def test_a_class_passed_as_a_function_gets_a_hint_at_from_type() -> None:
    error = expect_error(lambda: ToolDefinition.from_function(cast("Any", Write)))
    assert error.code == "not_a_function"


@pytest.mark.requirement("S4-08")
def test_a_definition_describes_a_tool_and_cannot_run_it() -> None:
    definition = ToolDefinition.from_function(write)
    assert set(definition.__struct_fields__) == {
        *("name", "description", "parameters", "strict", "original_name", "extras", "unknown"),
    }
    assert not callable(definition)
    parts = [getattr(definition, name) for name in definition.__struct_fields__]
    assert all(not callable(part) for part in parts)


# -- arguments -----------------------------------------------------------------------------------


@pytest.mark.requirement("NFR-004a-14")
def test_arguments_that_fit_have_no_problems() -> None:
    definition = define()
    for arguments in ({"path": "a"}, {"path": "", "mode": "a"}):
        call = ToolCall.create("write_file", arguments)
        assert definition.check(call) == ()
        definition.check_arguments(call)


@pytest.mark.requirement("NFR-004a-14", "NFR-004a-21", "NFR-004a-22", "S2-36")
@pytest.mark.parametrize(
    ("arguments", "pointers"),
    [
        ({}, [""]),
        ({"path": None}, ["/path"]),
        ({"path": [SECRET]}, ["/path"]),
        ({"path": SECRET, "mode": SECRET}, ["/mode"]),
        ({"path": 5, "mode": 5}, ["/path", "/mode"]),
        ({"path": SECRET, "extra": SECRET}, ["/extra"]),
    ],
    ids=str,
)
def test_every_fault_in_arguments_is_named_with_its_place(
    arguments: dict[str, Any], pointers: list[str]
) -> None:
    definition, call = define(), ToolCall.create("write_file", arguments)
    problems = definition.check(call)
    assert all(isinstance(problem, Problem) for problem in problems)
    assert [problem.pointer for problem in problems] == pointers
    assert all(SECRET not in str(problem) and problem.rule for problem in problems)
    with pytest.raises(InvalidArguments) as caught:
        definition.check_arguments(call)
    assert caught.value.problems == problems
    check_no_secret(caught.value)


@pytest.mark.requirement("NFR-004a-14")
def test_a_call_is_checked_against_its_type() -> None:
    definition = ToolDefinition.from_type(Write)
    fitting = ToolCall.create("Write", {"path": "a", "lines": ["x"], "tone": "loud"})
    assert definition.check(fitting) == ()
    assert fitting.arguments_as(Write) == Write(path="a", lines=["x"], tone=Tone.LOUD)
    wrong = ToolCall.create("Write", {"path": "a", "lines": ["x", 5], "size": 0, "tone": "soft"})
    assert {problem.pointer for problem in definition.check(wrong)} == {
        "/lines/1",
        "/size",
        "/tone",
    }


def test_a_call_of_another_tool_does_not_fit_whatever_its_arguments() -> None:
    definition, call = define(), ToolCall.create("read_file", {"path": "a"})
    (problem,) = definition.check(call)
    assert problem == Problem("", "must be a call to write_file, not to another tool")
    with pytest.raises(InvalidArguments) as caught:
        definition.check_arguments(call)
    assert caught.value.problems == (problem,)
    outside = ToolDefinition(
        name=map_tool_name("fs.write"),
        original_name="fs.write",
        description="Writes.",
        parameters=SCHEMA,
    )
    assert outside.check(build_call("c", "fs.write", '{"path": "a"}')) == ()
