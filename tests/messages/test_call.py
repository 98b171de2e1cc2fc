"""Tool calls: strict when we make them, kept word for word when a model got them wrong."""

from __future__ import annotations

import copy
import json
import math
import pickle
import string
import tracemalloc
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, TypedDict, cast
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest

from steno import (
    ChatMessage,
    InvalidArguments,
    InvalidMessage,
    InvalidTool,
    InvalidToolCall,
    InvalidValue,
    JsonObject,
    Problem,
    Seal,
    ToolCall,
    map_tool_name,
)
from steno.codec import decode_document, decode_message, encode_message
from steno.messages.call import MAX_TOOL_NAME_LENGTH, build_call, is_tool_name, new_call_id
from steno.messages.message import AssistantMessage
from tests.code_probes import check_no_secret, expect_error, record_calls
from tests.value_samples import SECRET, seal

ARGUMENTS = (
    '{ "path":"a.py",\t"lines": [1, 2], "deep": {"x": {"y": [null, {"z": 1.50}]}}, "é": "\\u00e9" }'
)


def calling(arguments: str) -> ToolCall:
    return ToolCall(id="call_1", name="read_file", arguments=arguments)


# -- making a call -------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-36", "FR-004a-38", "FR-004a-40", "FR-004a-44")
def test_a_call_has_an_id_a_name_and_arguments() -> None:
    call = ToolCall(id="call_1", name="read_file", arguments='{"path": "a.py"}')
    assert (call.id, call.name, call.arguments) == ("call_1", "read_file", '{"path": "a.py"}')
    assert call.original_name is None
    assert call.seal is None


@pytest.mark.requirement("FR-004a-38", "FR-004a-40")
@pytest.mark.parametrize("field", ["id", "name"])
def test_a_call_cannot_be_made_without_id_or_name(field: str) -> None:
    fields = {"id": "call_1", "name": "read_file"}
    del fields[field]
    with pytest.raises(TypeError, match=field):
        ToolCall(**cast("Any", fields))


@pytest.mark.requirement("FR-004a-39", "FR-004a-53", "FR-004a-54", "S2-36", "NFR-004a-24")
@pytest.mark.parametrize("id", ["", None, 7, b"call_1", ["call_1"], "call\ud83d"], ids=repr)
def test_the_id_of_a_call_is_a_string_that_is_not_empty(id: Any) -> None:
    error = expect_error(lambda: ToolCall(id=id, name="read_file"))
    assert isinstance(error, InvalidMessage)
    assert (error.place, error.code, error.field) == ("tool call", "invalid_id", "id")


@pytest.mark.requirement("FR-004a-41", "FR-004a-42", "FR-004a-54", "S2-36", "NFR-004a-24")
@pytest.mark.parametrize(
    "name",
    [
        *("", " ", "read file", "fs.read", "get-sum", "a/b", "a:b", "read\n", "\nread", "größe"),
        *("r\u0435ad", "١٢٣", "名", "read\0", "a" * 65, "a" * 1000, "read\ud83d"),
        *(None, 7, b"read", ["read"]),
    ],
    ids=lambda name: repr(name)[:20],
)
def test_a_name_of_other_characters_is_refused(name: Any) -> None:
    error = expect_error(lambda: ToolCall(id="call_1", name=name))
    assert isinstance(error, InvalidMessage)
    assert (error.place, error.code, error.field) == ("tool call", "invalid_name", "name")


@pytest.mark.requirement("FR-004a-42", "FR-004a-43", "NFR-004a-27", "S2-36")
@pytest.mark.parametrize(
    "name",
    ["a", "_", "7", "Read_File_2", "__init__", string.ascii_letters + string.digits, "a" * 64],
)
def test_letters_digits_and_underscores_up_to_64_make_a_name(name: str) -> None:
    assert ToolCall(id="call_1", name=name).name == name


@pytest.mark.requirement("FR-004a-43", "NFR-004a-27")
def test_the_longest_name_has_64_characters() -> None:
    assert MAX_TOOL_NAME_LENGTH == 64
    assert is_tool_name("a" * 64)
    assert not is_tool_name("a" * 65)


@pytest.mark.requirement("FR-004a-44", "NFR-004a-27")
def test_a_call_without_arguments_has_the_empty_object() -> None:
    call = ToolCall(id="call_1", name="read_file")
    assert call.arguments == "{}"
    assert call.parsed == {}
    assert ToolCall.create("read_file").arguments == "{}"


@pytest.mark.requirement("FR-004a-46", "FR-004a-53", "FR-004a-54", "S2-36", "NFR-004a-18")
@pytest.mark.parametrize(
    "arguments",
    [
        *("", " ", "null", "[]", "1", '"path"', "true", "{", "}", '{"a": ', '{"a": 1,}', "{} {}"),
        *("{a: 1}", "{'a': 1}", '{"a": NaN}', '{"a": "\\ud83d"}', "\ufeff{}"),
        *(f'{{"a": "{SECRET}', f'["{SECRET}"]', SECRET, '{"a":' * 50_000, '{"a": "\ud83d"}'),
    ],
    ids=lambda text: repr(text)[:20],
)
def test_arguments_that_are_not_a_json_object_are_refused(arguments: str) -> None:
    error = expect_error(lambda: calling(arguments))
    assert isinstance(error, InvalidMessage)
    assert (error.place, error.field) == ("tool call", "arguments")
    codes = {"not_json_object", "truncated_json", "lone_surrogate", "too_deep"}
    assert error.code in codes
    assert expect_error(lambda: JsonObject.parse(arguments)).code == error.code


@pytest.mark.parametrize(
    "arguments",
    [
        '{"a": "\\ud83d"}',
        '{"a": "\\uD83D and more"}',
        '{"a": "\\ude00 and more"}',
        '{"a": "\\ud83d\\u0041 and more"}',
        '{"\\udfff": 1}',
        '{"a": "\\\\\\ud83d"}',
        '{"a": "\ud83d"}',
    ],
)
def test_half_a_character_in_arguments_is_called_by_its_name(arguments: str) -> None:
    assert expect_error(lambda: calling(arguments)).code == "lone_surrogate"
    assert expect_error(lambda: JsonObject.parse(arguments)).code == "lone_surrogate"


@pytest.mark.parametrize("arguments", ['{"a": "\\ud83d', '{"a": "\\ud83d\\ude', '{"a": "\\ud83d"'])
def test_arguments_that_end_within_a_character_are_called_cut(arguments: str) -> None:
    assert expect_error(lambda: calling(arguments)).code == "truncated_json"


def test_an_escaped_backslash_is_not_a_lone_surrogate() -> None:
    text = '{"a": "\\\\ud83d \\ud83d\\ude00"}'
    assert calling(text).get("a", str) == "\\ud83d \U0001f600"


@pytest.mark.requirement("FR-004a-46", "NFR-004a-24")
@pytest.mark.parametrize("arguments", [None, {}, {"a": 1}, b"{}", 1, JsonObject()], ids=repr)
def test_arguments_are_text(arguments: Any) -> None:
    error = expect_error(lambda: calling(arguments))
    assert (error.place, error.code, error.field) == ("tool call", "wrong_type", "arguments")


@pytest.mark.requirement("FR-004a-55", "NFR-004a-30")
def test_calls_are_equal_by_their_text_and_order_of_arguments() -> None:
    """The text is sent back, and providers cache by it, so another spelling is another call."""
    assert calling(ARGUMENTS) == calling(ARGUMENTS)
    assert hash(calling(ARGUMENTS)) == hash(calling(ARGUMENTS))
    assert calling('{"a":1}') != calling('{"a": 1}')
    assert calling('{"a":1}').parsed == calling('{"a": 1}').parsed
    assert ToolCall(id="a", name="read") != ToolCall(id="b", name="read")
    assert ToolCall(id="a", name="read") != ToolCall(id="a", name="write")


@pytest.mark.requirement("FR-004a-55")
def test_reading_a_call_does_not_change_its_equality() -> None:
    first, second = calling(ARGUMENTS), calling(ARGUMENTS)
    first.get("path", str)
    first.arguments_as(dict)
    assert first == second
    assert hash(first) == hash(second)


def test_the_name_a_model_used_and_its_seal_stay_with_the_call() -> None:
    call = ToolCall(
        id="call_1", name=map_tool_name("fs.read"), original_name="fs.read", seal=seal()
    )
    assert call.original_name == "fs.read"
    assert call.seal == Seal(
        data=SECRET, provider="anthropic", api="anthropic_messages", model="m-1"
    )


# -- create --------------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-53", "S3-01")
def test_a_call_is_made_from_a_mapping_with_a_fresh_id() -> None:
    calls = [ToolCall.create("read_file", {"path": "a.py", "lines": (1, 2)}) for _ in range(100)]
    assert len({call.id for call in calls}) == 100
    assert {call.arguments for call in calls} == {'{"path":"a.py","lines":[1,2]}'}
    assert ToolCall.create("read_file", id="mine").id == "mine"
    assert ToolCall.create("read_file", JsonObject({"a": [1]})).arguments == '{"a":[1]}'


def test_a_fresh_id_suits_every_provider() -> None:
    """Mistral wants letters and digits, OpenAI at most 64 characters; both forbid spaces."""
    ids = {new_call_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(id.isascii() and id.replace("_", "").isalnum() and len(id) <= 40 for id in ids)


@pytest.mark.requirement("FR-004a-46", "FR-004a-54", "NFR-004a-25")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"a": math.nan}, "not_finite"),
        ({"a": ...}, "unsupported_type"),
        ({"a": SECRET + "\ud83d"}, "lone_surrogate"),
        ([SECRET], "not_json_object"),
        (SECRET, "not_json_object"),
        (5, "not_json_object"),
        ({1j: 1}, "unsupported_type"),
    ],
    ids=repr,
)
def test_arguments_that_are_not_json_are_refused_by_create(arguments: Any, code: str) -> None:
    error = expect_error(lambda: ToolCall.create("read_file", arguments))
    assert isinstance(error, InvalidMessage)
    assert (error.place, error.code, error.field) == ("tool call", code, "arguments")


@pytest.mark.requirement("FR-004a-39", "NFR-004a-24")
def test_a_call_is_not_made_with_an_empty_id() -> None:
    expect_error(lambda: ToolCall.create("read_file", id=""))


# -- reading arguments ---------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-45")
def test_arguments_stay_the_text_that_came() -> None:
    call = calling(ARGUMENTS)
    assert call.arguments == ARGUMENTS
    assert call.arguments is ARGUMENTS
    call.get("path", str)
    call.arguments_as(dict)
    assert call.arguments is ARGUMENTS


@pytest.mark.requirement("FR-004a-45", "FR-004a-37")
def test_arguments_are_read_only_at_every_depth() -> None:
    call = calling(ARGUMENTS)
    deep = cast("Any", call.parsed)["deep"]["x"]["y"]
    assert type(deep) is tuple
    assert type(deep[1]) is JsonObject
    with pytest.raises(TypeError):
        cast("Any", call.parsed)["path"] = "b.py"
    with pytest.raises(TypeError):
        cast("Any", deep[1])["z"] = 2
    call.get("lines", list).append(3)  # type: ignore[union-attr]
    call.arguments_as(dict)["deep"]["x"].clear()
    assert call.parsed == json.loads(ARGUMENTS)


@pytest.mark.requirement("FR-004a-37", "FR-004a-45")
def test_the_parsed_arguments_cannot_be_reached_and_changed() -> None:
    """`parsed` must equal `arguments`, or something else runs than was shown."""
    call = calling('{"path": "a.py"}')
    assert not hasattr(call, "__dict__")
    call.parsed.to_dict()["path"] = "/etc/passwd"
    assert call.get("path", str) == "a.py"


def test_the_memory_for_parsed_arguments_is_bounded() -> None:
    def parse(number: int) -> int:
        call = ToolCall(id="c", name="write", arguments=f'{{"{number}": [{"{}," * 40_000}1]}}')
        return len(call.parsed)

    parse(0)
    tracemalloc.start()
    parse(1)
    of_one, _ = tracemalloc.get_traced_memory()
    for number in range(2, 12):
        parse(number)
    of_all, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert of_all < 3 * of_one


@pytest.mark.requirement("NFR-004a-12")
def test_arguments_are_parsed_once_however_often_they_are_read() -> None:
    call = calling(ARGUMENTS + " " * 7)  # a text that no other test has used

    def read() -> None:
        for _ in range(10):
            call.parsed  # noqa: B018 - reading it is what is watched
            call.get("path", str)
            call.get("nothing", str, "")
            call.arguments_as(dict)

    def decoded(functions: list[Any]) -> list[Any]:
        return [function for function in functions if function.__name__ in {"decode", "loads"}]

    # Made: looked through once. Used for the first time: parsed. After that, nothing.
    assert len(decoded(record_calls(lambda: calling(ARGUMENTS)).c)) == 1
    assert len(decoded(record_calls(read).c)) == 1
    assert decoded(record_calls(read).c) == []


@pytest.mark.requirement("NFR-004a-12", "FR-004a-45")
@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c)), msgspec.structs.replace],
    ids=["copy", "deepcopy", "pickle", "replace"],
)
def test_a_duplicate_of_a_call_reads_the_same(duplicate: Any) -> None:
    call = calling(ARGUMENTS)
    twin = duplicate(call)
    assert twin == call
    assert twin.parsed == call.parsed
    assert twin.get("lines", list[int]) == [1, 2]


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Edit(msgspec.Struct):
    line: int
    text: str = ""


VALUES = json.dumps(
    {
        "text": "a.py",
        "whole": 3,
        "part": 2.5,
        "yes": True,
        "nothing": None,
        "list": [1, 2],
        "edit": {"line": 7, "text": "x"},
        "edits": [{"line": 7}],
        "colour": "blue",
        "moment": "2026-06-01T12:00:00Z",
        "uuid": "00000000-0000-0000-0000-000000000001",
        "amount": "1.10",
        "bytes": "AAE=",
    }
)


@pytest.mark.requirement("FR-004a-49", "S0-V4")
@pytest.mark.parametrize(
    ("name", "type", "expected"),
    [
        ("text", str, "a.py"),
        ("whole", int, 3),
        ("whole", float, 3.0),
        ("part", float, 2.5),
        ("yes", bool, True),
        ("nothing", type(None), None),
        ("nothing", str | None, None),
        ("text", str | None, "a.py"),
        ("list", list[int], [1, 2]),
        ("list", tuple[int, int], (1, 2)),
        ("list", set[int], {1, 2}),
        ("edit", Edit, Edit(7, "x")),
        ("edit", dict[str, Any], {"line": 7, "text": "x"}),
        ("edits", list[Edit], [Edit(7)]),
        ("colour", Colour, Colour.BLUE),
        ("colour", Literal["red", "blue"], "blue"),
        ("moment", datetime, datetime(2026, 6, 1, 12, tzinfo=UTC)),
        ("uuid", UUID, UUID(int=1)),
        ("amount", Decimal, Decimal("1.10")),
        ("bytes", bytes, b"\x00\x01"),
    ],
    ids=str,
)
def test_an_argument_is_read_as_the_wanted_type(name: str, type: Any, expected: object) -> None:
    value = calling(VALUES).get(name, type)
    assert value == expected
    assert value.__class__ is expected.__class__


@pytest.mark.requirement("FR-004a-49")
def test_an_argument_read_without_a_type_is_read_only() -> None:
    call = calling(VALUES)
    assert call.get("text") == "a.py"
    assert call.get("list") == (1, 2)
    assert type(call.get("edit")) is JsonObject
    assert call.get("nothing") is None


@pytest.mark.requirement("FR-004a-50", "S0-V4")
def test_an_argument_that_is_not_there_gives_the_default() -> None:
    call = calling(VALUES)
    assert call.get("missing") is None
    assert call.get("missing", str) is None
    assert call.get("missing", int, 7) == 7
    assert call.get("missing", int, "many") == "many"
    assert call.get("", str, "x") == "x"
    marker = object()
    assert call.get("missing", Edit, marker) is marker


@pytest.mark.requirement("FR-004a-50", "FR-004a-52")
def test_a_default_does_not_hide_an_argument_that_does_not_fit() -> None:
    expect_error(lambda: calling(VALUES).get("text", int, 7))
    expect_error(lambda: calling(VALUES).get("nothing", str, ""))


@pytest.mark.requirement("FR-004a-49", "FR-004a-52", "NFR-004a-14", "NFR-004a-21", "NFR-004a-22")
@pytest.mark.parametrize(
    ("arguments", "type", "pointer", "words"),
    [
        ({"a": SECRET}, int, "/a", "int"),
        ({"a": 1.5}, int, "/a", "int"),
        ({"a": True}, int, "/a", "int"),
        ({"a": 1}, str, "/a", "str"),
        ({"a": 1}, bool, "/a", "bool"),
        ({"a": None}, str, "/a", "str"),
        ({"a": [1, SECRET]}, list[int], "/a/1", "int"),
        ({"a": {"line": SECRET}}, Edit, "/a/line", "int"),
        ({"a": [{"line": 1}, {"line": SECRET}]}, list[Edit], "/a/1/line", "int"),
        ({"a": {}}, Edit, "/a", "line"),
        ({"a": SECRET}, Colour, "/a", ""),
        ({"a": SECRET}, Literal["red"], "/a", ""),
        ({"a": {SECRET: SECRET}}, dict[str, int], "/a", "int"),
        ({"a/b~c": SECRET}, int, "/a~1b~0c", "int"),
    ],
    ids=str,
)
def test_an_argument_that_does_not_fit_is_named_with_its_place(
    arguments: dict[str, Any], type: Any, pointer: str, words: str
) -> None:
    call = ToolCall.create("read_file", arguments)
    error = expect_error(lambda: call.get(next(iter(arguments)), type))
    assert isinstance(error, InvalidArguments)
    assert isinstance(error, InvalidTool)
    [problem] = error.problems
    assert problem.pointer == pointer
    assert words in problem.rule
    assert error.code == "invalid_arguments"


@pytest.mark.requirement("FR-004a-52")
@pytest.mark.parametrize(
    ("type", "word"),
    [(datetime, "datetime"), (UUID, "UUID"), (Decimal, "decimal"), (bytes, "base64")],
    ids=str,
)
def test_the_error_for_a_wrong_notation_names_the_expected_one(type: Any, word: str) -> None:
    """`Problem.rule` is "text that a model can act on": these types have no list of choices."""
    error = expect_error(lambda: ToolCall.create("read_file", {"a": SECRET}).get("a", type))
    assert isinstance(error, InvalidArguments)
    [problem] = error.problems
    assert word.lower() in problem.rule.lower()


class Change(msgspec.Struct):
    path: str
    edits: list[Edit] = []


@dataclass
class ChangeData:
    path: str
    edits: list[Edit]


class ChangeDict(TypedDict):
    path: str
    edits: list[Edit]


@attrs.define
class ChangeAttrs:
    path: str
    edits: list[Edit]


class EditModel(pydantic.BaseModel):
    line: int


class ChangeModel(pydantic.BaseModel):
    path: str
    edits: list[EditModel]


GOOD = '{"path": "a.py", "edits": [{"line": 7}]}'
BAD = f'{{"path": "a.py", "edits": [{{"line": 7}}, {{"line": "{SECRET}"}}]}}'
SHAPES = [Change, ChangeData, ChangeDict, ChangeAttrs, ChangeModel]


@pytest.mark.requirement("FR-004a-51", "FR-004a-52")
@pytest.mark.parametrize(
    ("type", "expected"),
    [
        (Change, Change("a.py", [Edit(7)])),
        (ChangeData, ChangeData("a.py", [Edit(7)])),
        (ChangeDict, {"path": "a.py", "edits": [Edit(7)]}),
        (ChangeAttrs, ChangeAttrs("a.py", [Edit(7)])),
        (ChangeModel, ChangeModel(path="a.py", edits=[EditModel(line=7)])),
        (dict, {"path": "a.py", "edits": [{"line": 7}]}),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_all_arguments_are_read_as_one_object(type: Any, expected: object) -> None:
    call = calling(GOOD)
    first, second = call.arguments_as(type), call.arguments_as(type)
    assert first == second == expected
    assert first is not second


@pytest.mark.requirement("FR-004a-52", "NFR-004a-14", "NFR-004a-21", "NFR-004a-22")
@pytest.mark.parametrize("type", SHAPES)
def test_an_object_that_does_not_fit_is_named_with_its_place(type: Any) -> None:
    error = expect_error(lambda: calling(BAD).arguments_as(type))
    assert isinstance(error, InvalidArguments)
    [problem] = error.problems
    assert problem.pointer == "/edits/1/line"
    assert "int" in problem.rule


@pytest.mark.requirement("FR-004a-52", "NFR-004a-21", "NFR-004a-22")
@pytest.mark.parametrize("type", SHAPES)
def test_a_missing_member_is_named_in_the_error(type: Any) -> None:
    error = expect_error(
        lambda: calling(f'{{"edits": [], "other": "{SECRET}"}}').arguments_as(type)
    )
    assert isinstance(error, InvalidArguments)
    [problem] = error.problems
    assert "path" in f"{problem.pointer} {problem.rule}"


class ChoosyModel(pydantic.BaseModel):
    mode: Literal["r", "w"]
    when: datetime
    count: int = pydantic.Field(gt=3)


@pytest.mark.requirement("FR-004a-52", "NFR-004a-21")
def test_every_error_of_pydantic_is_reported() -> None:
    arguments = {"mode": SECRET, "when": SECRET, "count": 1}
    error = expect_error(lambda: ToolCall.create("open", arguments).arguments_as(ChoosyModel))
    assert isinstance(error, InvalidArguments)
    assert [problem.pointer for problem in error.problems] == ["/mode", "/when", "/count"]


@pytest.mark.requirement("NFR-004a-25")
def test_invalid_arguments_list_their_problems() -> None:
    error = InvalidArguments((Problem("/a", "expected integer"), Problem("", "needs b")))
    assert [problem.pointer for problem in error.problems] == ["/a", ""]
    assert all(problem.rule in str(error) for problem in error.problems)


# -- JSON ----------------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-47", "FR-004a-48", "S2-08")
def test_a_call_is_written_as_tagged_json_and_read_back() -> None:
    call = calling('{"path": "a.py"}')
    written = msgspec.json.encode(call)
    assert json.loads(written) == {
        "type": "tool_call",
        "id": "call_1",
        "name": "read_file",
        "arguments": '{"path": "a.py"}',
    }
    assert msgspec.json.decode(written, type=ToolCall) == call


@pytest.mark.requirement("FR-004a-48", "FR-004a-45")
def test_the_text_of_arguments_survives_writing_and_reading() -> None:
    message = AssistantMessage(content=(calling(ARGUMENTS),))
    loaded = decode_message(encode_message(message))
    assert isinstance(loaded, AssistantMessage)
    [call] = loaded.tool_calls
    assert call.arguments == ARGUMENTS


@pytest.mark.requirement("FR-004a-26", "FR-004a-48")
def test_a_call_read_without_arguments_has_the_empty_object() -> None:
    call = msgspec.json.decode(b'{"type":"tool_call","id":"a","name":"read"}', type=ToolCall)
    assert call == ToolCall(id="a", name="read")
    assert call.parsed == {}


@pytest.mark.requirement("S2-15")
def test_the_calls_in_openais_shape_become_calls_with_the_same_ids() -> None:
    data = json.dumps(
        [
            {"role": "user", "content": "Compare."},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": f"call_{number}",
                        "type": "function",
                        "function": {"name": "read_file", "arguments": '{"path": "a.py"}'},
                    }
                    for number in (1, 2)
                ],
            },
        ]
    )
    [_, turn] = decode_document(data).messages
    assert turn == ChatMessage.assistant(
        None,
        [
            ToolCall(id="call_1", name="read_file", arguments='{"path": "a.py"}'),
            ToolCall(id="call_2", name="read_file", arguments='{"path": "a.py"}'),
        ],
    )
    assert [call.id for call in turn.tool_calls] == ["call_1", "call_2"]


# -- what a model got wrong ----------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-46", "S2-36")
@pytest.mark.parametrize(
    ("id", "name", "arguments"),
    [
        ("call_1", "read", '{"path": '),
        ("call_1", "read", "[1]"),
        ("call_1", "read", SECRET),
        ("call_1", "", "{}"),
        ("call_1", "no such name!", "{}"),
        ("call_1", "a" * 200, "{}"),
        ("call_1", "read", '{"a": "\\ud83d"}'),
    ],
)
def test_an_invalid_call_keeps_its_id_and_its_text(id: str, name: str, arguments: str) -> None:
    call = build_call(id, name, arguments, seal=seal())
    assert isinstance(call, InvalidToolCall)
    assert (call.id, call.name, call.arguments) == (id, name, arguments)
    assert call.seal == seal()
    assert call.reason
    assert SECRET not in call.reason


@pytest.mark.parametrize("arguments", ["", " ", "\n"])
def test_blank_arguments_become_an_empty_object(arguments: str) -> None:
    assert build_call("call_1", "read", arguments) == ToolCall(id="call_1", name="read")


def test_a_name_from_outside_is_mapped_and_kept() -> None:
    call = build_call("call_1", "fs.read", '{"a": 1}')
    assert isinstance(call, ToolCall)
    assert call.name == map_tool_name("fs.read")
    assert call.original_name == "fs.read"
    assert call.arguments == '{"a": 1}'


@pytest.mark.requirement("NFR-004a-30")
def test_a_lone_surrogate_in_the_output_of_a_model_is_replaced() -> None:
    call = build_call("call_1", "read", '{"a": "\ud83d')
    assert isinstance(call, InvalidToolCall)
    assert call.arguments == '{"a": "\ufffd'


@pytest.mark.requirement("NFR-004a-24")
@pytest.mark.parametrize("field", ["id", "name", "arguments", "reason"])
@pytest.mark.parametrize("wrong", [None, 7, b"x", ["x"]], ids=repr)
def test_an_invalid_call_is_made_of_text(field: str, wrong: object) -> None:
    fields = {"id": "call_1", "name": "", "arguments": "", "reason": "cut", field: wrong}
    error = expect_error(lambda: InvalidToolCall(**cast("Any", fields)))
    assert (error.code, error.field) == ("wrong_type", field)


# -- names from outside --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["read", "Read_2", "a" * 64])
def test_a_name_that_fits_is_mapped_to_itself(name: str) -> None:
    assert map_tool_name(name) == name


def test_names_from_outside_are_mapped_without_collisions() -> None:
    """Mapped once at the edge, deterministically, without collisions."""
    outside = ["a.b", "a-b", "a/b", "a:b", "a_b", "a..b", "fs.read", "get-sum", "mcp__x__y.z"]
    outside += ["x" * 65, "x" * 66, "x" * 128, "x" * 127 + ".", "." * 128, "-", "."]
    mapped = [map_tool_name(name) for name in outside]
    assert len(set(mapped)) == len(outside)
    assert mapped == [map_tool_name(name) for name in outside]
    assert all(is_tool_name(name) for name in mapped)
    assert map_tool_name("fs.read") == "fs_read_4074bc02"


@pytest.mark.parametrize("name", ["", " ", "a b", "größe", "a\n", "x" * 129, "a\0", "a\ud83d"])
def test_text_that_is_never_a_tool_name_is_not_mapped(name: str) -> None:
    with pytest.raises(InvalidTool) as caught:
        map_tool_name(name)
    check_no_secret(caught.value)
    assert isinstance(caught.value, InvalidValue)


# -- seals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", ["", None, 7, b"seal", "\ud83d"], ids=repr)
def test_a_seal_without_data_seals_nothing(data: Any) -> None:
    expect_error(lambda: Seal(data=data, provider="p", api="a", model="m"))
