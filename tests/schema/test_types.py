"""Types without fields of their own: plain types, containers, unions, choices, metadata."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import pathlib
import typing as t
import uuid
from collections import abc
from types import SimpleNamespace

import msgspec
import pytest
import typing_extensions as te
from annotated_types import Ge, MaxLen
from jsonschema import Draft202012Validator
from msgspec import Meta
from pydantic import Field

from steno.errors import InvalidTool
from steno.schema import schema_of_type
from tests.schema.untyped_forms import Dict, List, Literal, Tuple, Union


def described(hint: t.Any) -> dict[str, t.Any]:
    """Every schema in these tests is also a valid JSON Schema."""
    schema = schema_of_type(hint)
    Draft202012Validator.check_schema(schema)
    return schema


STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NULL = {"type": "null"}

T = t.TypeVar("T")
Bound = t.TypeVar("Bound", bound=int)
UserId = t.NewType("UserId", int)


@pytest.mark.requirement("FR-004a-90")
@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, STRING),
        (int, INTEGER),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, NULL),
        (type(None), NULL),
        (t.Any, {}),
        (object, {}),
        (msgspec.Raw, {}),
        (t.LiteralString, STRING),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
        (bytearray, {"type": "string", "contentEncoding": "base64"}),
        (dt.datetime, {"type": "string", "format": "date-time"}),
        (dt.date, {"type": "string", "format": "date"}),
        (dt.time, {"type": "string", "format": "time"}),
        (dt.timedelta, {"type": "string", "format": "duration"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (
            decimal.Decimal,
            {"anyOf": [{"type": "string", "format": "decimal"}, {"type": "number"}]},
        ),
        (pathlib.Path, STRING),
        (pathlib.PurePosixPath, STRING),
        (UserId, INTEGER),
        (T, {}),
        (Bound, INTEGER),
        (t.AnyStr, {"anyOf": [{"type": "string", "contentEncoding": "base64"}, STRING]}),
        (t.Final, {}),
        (t.Final[int], INTEGER),
    ],
)
def test_a_plain_type_is_described_as_msgspec_reads_it(hint: t.Any, schema: object) -> None:
    assert described(hint) == schema


@pytest.mark.parametrize(
    "hint",
    [
        list[int],
        t.List[int],  # noqa: UP006 - the old spelling is still written
        set[int],
        frozenset[int],
        collections.deque[int],
        tuple[int, ...],
        abc.Sequence[int],
        t.Sequence[int],
        abc.MutableSequence[int],
        abc.Collection[int],
        abc.Iterable[int],
        abc.Set[int],
        abc.MutableSet[int],
    ],
)
def test_every_collection_type_is_an_array(hint: t.Any) -> None:
    assert described(hint) == {"type": "array", "items": INTEGER}


@pytest.mark.parametrize("hint", [list, tuple, set, t.List, t.Tuple, abc.Sequence])  # noqa: UP006 - likewise
def test_an_array_of_anything_still_has_items(hint: t.Any) -> None:
    """OpenAI refuses an array without `items`."""
    assert described(hint) == {"type": "array", "items": {}}


def test_a_tuple_of_fixed_length_names_every_item() -> None:
    assert described(tuple[int, str]) == {
        "type": "array",
        "prefixItems": [INTEGER, STRING],
        "minItems": 2,
        "maxItems": 2,
    }
    assert described(tuple[()]) == {"type": "array", "items": {}, "maxItems": 0}


@pytest.mark.parametrize(
    "hint",
    [
        dict[str, int],
        t.Dict[str, int],  # noqa: UP006 - likewise
        collections.OrderedDict[str, int],
        collections.defaultdict[str, int],
        abc.Mapping[str, int],
        abc.MutableMapping[str, int],
    ],
)
def test_a_mapping_is_an_object_of_any_names(hint: t.Any) -> None:
    assert described(hint) == {"type": "object", "additionalProperties": INTEGER}


@pytest.mark.parametrize("hint", [dict, t.Dict, abc.Mapping, dict[str, t.Any], dict[t.Any, object]])  # noqa: UP006 - likewise
def test_a_mapping_to_anything_is_explicitly_open(hint: t.Any) -> None:
    assert described(hint) == {"type": "object", "additionalProperties": True}


Letters = te.TypeAliasType("Letters", t.Literal["b", "c"])
Names = te.TypeAliasType("Names", list[str])


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"
    AZURE = "blue"  # noqa: PIE796 - an alias is not a choice of its own


class Level(enum.IntEnum):
    """How loud.

    Attributes:
        HIGH: not shown
    """

    HIGH = 3
    LOW = 1


@pytest.mark.parametrize(
    ("key", "names"),
    [
        (int, {"pattern": "^-?[0-9]+$"}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (t.Literal["b", "a"], {"type": "string", "enum": ["b", "a"]}),
        (Level, {"enum": ["3", "1"]}),
        (t.Annotated[str, Meta(max_length=3)], {"type": "string", "maxLength": 3}),
    ],
)
def test_keys_that_are_not_just_strings_become_property_names(key: t.Any, names: object) -> None:
    assert described(Dict[key, int]) == {
        "type": "object",
        "propertyNames": names,
        "additionalProperties": INTEGER,
    }


@pytest.mark.parametrize("key", [float, tuple[int, int], str | int])
def test_keys_that_json_has_not_are_refused(key: t.Any) -> None:
    with pytest.raises(InvalidTool) as caught:
        schema_of_type(Dict[key, int])
    assert caught.value.code == "unsupported_key_type"


@pytest.mark.parametrize("hint", [str | None, t.Optional[str], t.Union[str, None]])  # noqa: UP007, UP045 - likewise
def test_optional_is_any_of_the_type_and_null(hint: t.Any) -> None:
    assert described(hint) == {"anyOf": [STRING, NULL]}


def test_unions_are_flat_and_without_repetition() -> None:
    assert described(Union[str, int | None, t.Annotated[str, Meta()]]) == {
        "anyOf": [STRING, INTEGER, NULL]
    }
    assert described(Union[t.Literal["a", None], int, None]) == {
        "anyOf": [{"type": "string", "enum": ["a"]}, NULL, INTEGER]
    }


def test_a_union_with_anything_is_anything() -> None:
    assert described(Union[int, t.Any]) == {}


def test_unset_in_a_union_only_makes_the_field_optional() -> None:
    assert described(int | msgspec.UnsetType) == INTEGER


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (t.Literal["z", "a", "m"], {"type": "string", "enum": ["z", "a", "m"]}),
        (t.Literal[3, 1, 2], {"type": "integer", "enum": [3, 1, 2]}),
        (t.Literal[True], {"type": "boolean", "enum": [True]}),
        (t.Literal["a", 1], {"enum": ["a", 1]}),
        (t.Literal[None], NULL),
        (t.Literal["b", None, "a"], {"anyOf": [{"type": "string", "enum": ["b", "a"]}, NULL]}),
        (Literal[Literal["b"], "a"], {"type": "string", "enum": ["b", "a"]}),
        (t.Literal[Colour.RED, Level.LOW], {"enum": ["red", 1]}),
    ],
)
def test_a_literal_keeps_source_order_and_its_type(hint: t.Any, schema: object) -> None:
    assert described(hint) == schema


def test_a_literal_is_flattened_through_an_alias() -> None:
    assert described(Literal[Letters, "a"]) == {"type": "string", "enum": ["b", "c", "a"]}


def test_a_literal_of_bytes_is_refused() -> None:
    with pytest.raises(InvalidTool) as caught:
        schema_of_type(t.Literal[b"x"])
    assert caught.value.code == "unsupported_literal"


def test_an_enum_keeps_source_order_its_type_and_its_docstring() -> None:
    assert described(Colour) == {"type": "string", "enum": ["red", "blue"]}
    assert described(Level) == {"type": "integer", "enum": [3, 1], "description": "How loud."}


@pytest.mark.parametrize("values", [{"A": 1.5}, {"A": "a", "B": 1}, {"A": (1, 2)}])
def test_an_enum_that_msgspec_could_not_read_is_refused(values: dict[str, t.Any]) -> None:
    with pytest.raises(InvalidTool) as caught:
        schema_of_type(enum.Enum("Odd", values))
    assert (caught.value.place, caught.value.code) == ("Odd", "mixed_enum_values")


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (t.Annotated[int, "how many"], {**INTEGER, "description": "how many"}),
        (t.Annotated[int, Meta(ge=1, lt=5)], {**INTEGER, "minimum": 1, "exclusiveMaximum": 5}),
        (
            t.Annotated[float, Meta(gt=0.5, le=2, multiple_of=0.5)],
            {"type": "number", "exclusiveMinimum": 0.5, "maximum": 2, "multipleOf": 0.5},
        ),
        (
            t.Annotated[str, Meta(min_length=1, max_length=9, pattern="^a")],
            {**STRING, "minLength": 1, "maxLength": 9, "pattern": "^a"},
        ),
        (
            t.Annotated[list[int], Meta(min_length=1, max_length=9)],
            {"type": "array", "items": INTEGER, "minItems": 1, "maxItems": 9},
        ),
        (
            t.Annotated[dict[str, int], Meta(min_length=1, max_length=9)],
            {
                "type": "object",
                "additionalProperties": INTEGER,
                "minProperties": 1,
                "maxProperties": 9,
            },
        ),
        (
            t.Annotated[bytes, Meta(max_length=4)],
            {"type": "string", "contentEncoding": "base64", "maxLength": 8},
        ),
        (
            t.Annotated[str | list[str] | None, Meta(min_length=2)],
            {
                "anyOf": [STRING, {"type": "array", "items": STRING}, NULL],
                "minLength": 2,
                "minItems": 2,
            },
        ),
        (
            t.Annotated[str, Meta(title="T", description="D", examples=["x"])],
            {**STRING, "title": "T", "description": "D", "examples": ["x"]},
        ),
        (
            t.Annotated[str, Meta(extra_json_schema={"format": "email"})],
            {**STRING, "format": "email"},
        ),
        (t.Annotated[int, Ge(3)], {**INTEGER, "minimum": 3}),
        (t.Annotated[str, MaxLen(3)], {**STRING, "maxLength": 3}),
        (t.Annotated[int, Ge(dt.date(2020, 1, 1))], INTEGER),
        (
            t.Annotated[int, Field(description="D", ge=3)],
            {**INTEGER, "description": "D", "minimum": 3},
        ),
        (t.Annotated[int, te.Doc("D")], {**INTEGER, "description": "D"}),
        (t.Annotated[int, SimpleNamespace(description=5)], INTEGER),
        (t.Annotated[t.Annotated[int, "in"], "out"], {**INTEGER, "description": "out"}),
        (
            list[t.Annotated[int, "each"]],
            {"type": "array", "items": {**INTEGER, "description": "each"}},
        ),
    ],
)
def test_metadata_becomes_keywords(hint: t.Any, schema: object) -> None:
    assert described(hint) == schema


def test_a_result_may_be_changed_without_changing_the_next_one() -> None:
    for hint in (decimal.Decimal, str, dict, list[int]):
        first = schema_of_type(hint)
        before = msgspec.json.encode(first)
        for part in list(first.values()):
            if isinstance(part, list):
                part.clear()
        first.clear()
        assert msgspec.json.encode(schema_of_type(hint)) == before


# -- aliases ----


class Nested:
    """A stand-in for `type Nested = int | list[Nested]` on a Python without that statement."""

    __type_params__ = ()

    @property
    def __value__(self) -> t.Any:
        return Union[int, List[self]]

    def __repr__(self) -> str:
        return "Nested"


Pair = te.TypeAliasType("Pair", tuple[T, T], type_params=(T,))


def test_an_alias_has_the_schema_of_its_value() -> None:
    assert described(Names) == {"type": "array", "items": STRING}
    assert described(Pair[int])["prefixItems"] == [INTEGER, INTEGER]


def test_an_alias_that_is_part_of_itself_gets_a_definition() -> None:
    nested = {"anyOf": [INTEGER, {"type": "array", "items": {"$ref": "#/$defs/Nested"}}]}
    alias = Nested()
    assert described(alias) == {**nested, "$defs": {"Nested": nested}}
    assert described(Tuple[alias, alias]) == {
        "type": "array",
        "prefixItems": [{"$ref": "#/$defs/Nested"}] * 2,
        "minItems": 2,
        "maxItems": 2,
        "$defs": {"Nested": nested},
    }


# -- what cannot be described ----


@pytest.mark.parametrize(
    ("hint", "name"),
    [
        (complex, "complex"),
        (abc.Callable[[int], int], "Callable"),
        (type[int], "type"),
        (t.NoReturn, "NoReturn"),
        (t.Self, "Self"),
        (SimpleNamespace, "SimpleNamespace"),
        ([1], "1"),
        (5, "5"),
        (list[complex], "complex"),
    ],
)
def test_a_type_without_a_form_in_json_is_refused_by_name(hint: t.Any, name: str) -> None:
    with pytest.raises(InvalidTool) as caught:
        schema_of_type(hint)
    assert caught.value.code == "unsupported_type"
    assert name in caught.value.message


@pytest.mark.parametrize("hint", ["Nowhere", list["Nowhere"]])  # type: ignore[name-defined]  # noqa: F821 - the point
def test_a_name_without_a_module_cannot_be_resolved(hint: t.Any) -> None:
    with pytest.raises(InvalidTool) as caught:
        schema_of_type(hint)
    assert caught.value.code == "unresolved_annotation"
    assert "'Nowhere'" in caught.value.message


def test_the_error_names_the_place_inside_the_type() -> None:
    with pytest.raises(InvalidTool) as caught:
        schema_of_type(dict[str, tuple[int, complex]])
    assert (caught.value.place, caught.value.code) == (
        "dict[str, tuple[int, complex]]{}[1]",
        "unsupported_type",
    )
