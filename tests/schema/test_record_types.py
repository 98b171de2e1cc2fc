"""Classes with named fields: msgspec, dataclasses, TypedDict, NamedTuple, attrs, pydantic."""

from __future__ import annotations

import datetime as dt
import enum
import pathlib
import typing as t
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import ClassVar

import attrs
import msgspec
import pydantic
import pytest
import typing_extensions as te
from jsonschema import Draft202012Validator
from msgspec import UNSET, Meta, Struct, UnsetType

from steno.errors import InvalidTool
from steno.schema import schema_of_type
from tests.schema import string_annotations
from tests.schema.untyped_forms import Dict, List, Tuple, attribute, make_attrs, namedtuple

T = t.TypeVar("T")
INTEGER = {"type": "integer"}
STRING = {"type": "string"}
NULL = {"type": "null"}


def described(hint: t.Any) -> dict[str, t.Any]:
    schema = schema_of_type(hint)
    Draft202012Validator.check_schema(schema)
    return schema


def properties(hint: t.Any) -> dict[str, t.Any]:
    found: dict[str, t.Any] = described(hint)["properties"]
    return found


class Colour(enum.Enum):
    """Which colour."""

    RED = "red"
    BLUE = "blue"


class Point(Struct, frozen=True):
    """A place.

    Attributes:
        x: To the right.
        y: Not shown, for the annotation says more.
    """

    x: int
    y: t.Annotated[int, Meta(ge=0, description="Upwards.")] = 0


# -- msgspec ----


@pytest.mark.requirement("FR-004a-78", "FR-004a-80", "FR-004a-81", "FR-004a-89", "FR-004a-90")
def test_a_struct_is_an_object_with_its_docstring_and_descriptions() -> None:
    assert described(Point) == {
        "type": "object",
        "description": "A place.",
        "properties": {
            "x": {**INTEGER, "description": "To the right."},
            "y": {**INTEGER, "description": "Upwards.", "minimum": 0, "default": 0},
        },
        "required": ["x"],
    }


class Renamed(Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """
    Attributes:
        first_name: The given one.
    """

    first_name: str = "x"
    tags: list[str] = []
    when: dt.datetime = msgspec.field(default_factory=lambda: dt.datetime.now(dt.UTC))
    other: str = msgspec.field(name="$ref", default="#/$defs/Renamed")
    last: int
    maybe: int | UnsetType = UNSET
    constant: ClassVar[int] = 5


def test_a_struct_keeps_its_renaming_its_defaults_and_its_door_shut() -> None:
    assert described(Renamed) == {
        "type": "object",
        "properties": {
            "firstName": {**STRING, "description": "The given one.", "default": "x"},
            "tags": {"type": "array", "items": STRING, "default": []},
            "when": {"type": "string", "format": "date-time"},
            "$ref": {**STRING, "default": "#/$defs/Renamed"},
            "last": INTEGER,
            "maybe": INTEGER,
        },
        "required": ["last"],
        "additionalProperties": False,
        "$defs": described(Renamed)["$defs"],
    }


class Cat(Struct, tag="cat", tag_field="kind"):
    name: str


class Dog(Struct, tag=7, tag_field="kind"):
    name: str


def test_a_tag_is_a_required_choice_of_one() -> None:
    schema = described(Cat | Dog)
    assert schema["anyOf"] == [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]
    assert schema["$defs"]["Cat"] == {
        "type": "object",
        "properties": {"kind": {"type": "string", "enum": ["cat"]}, "name": STRING},
        "required": ["kind", "name"],
    }
    assert schema["$defs"]["Dog"]["properties"]["kind"] == {"type": "integer", "enum": [7]}


class Positional(Struct, array_like=True):
    x: int


def test_an_array_like_struct_is_refused() -> None:
    with pytest.raises(InvalidTool) as caught:
        schema_of_type(Positional)
    assert (caught.value.place, caught.value.code) == ("Positional", "array_like")


# -- dataclasses ----


@dataclass
class Settings:
    name: str
    path: pathlib.Path = pathlib.Path("/tmp")
    colour: Colour = Colour.BLUE
    point: Point = Point(1, 2)  # noqa: RUF009 - it is frozen
    names: set[str] = field(default_factory=lambda: {"x"})
    numbers: tuple[int, ...] = (3, 1)
    options: dict[str, int] = field(default_factory=dict)
    odd: float = float("nan")
    odder: list[float] | None = field(default_factory=lambda: None)
    callback: t.Any = print
    made: int = field(init=False, default=3)
    shared: t.ClassVar[int] = 5
    _: KW_ONLY
    last: t.Final[int] = 1


def test_a_dataclass_has_the_fields_that_its_constructor_takes() -> None:
    schema = described(Settings)
    assert "description" not in schema, "the docstring that dataclasses make up"
    assert schema["required"] == ["name"]
    assert schema["properties"] == {
        "name": STRING,
        "path": {**STRING, "default": "/tmp"},
        "colour": {
            "type": "string",
            "enum": ["red", "blue"],
            "description": "Which colour.",
            "default": "blue",
        },
        "point": {"anyOf": [{"$ref": "#/$defs/Point"}], "default": {"x": 1, "y": 2}},
        "names": {"type": "array", "items": STRING},
        "numbers": {"type": "array", "items": INTEGER, "default": [3, 1]},
        "options": {
            "type": "object",
            "additionalProperties": INTEGER,
            "default": {},
        },
        "odd": {"type": "number"},
        "odder": {"anyOf": [{"type": "array", "items": {"type": "number"}}, NULL]},
        "callback": {},
        "last": {**INTEGER, "default": 1},
    }


@pytest.mark.parametrize(
    ("default", "is_shown"),
    [
        ({1: [2.5]}, True),
        (frozenset({"b", "a"}), True),
        (b"ab", True),
        ([float("inf")], False),
        ({"a": float("nan")}, False),
        ("\ud800", False),
        (object(), False),
    ],
)
def test_a_default_is_shown_if_json_can_carry_it(default: object, is_shown: bool) -> None:
    made = msgspec.defstruct("Made", [("x", t.Any, msgspec.field(default_factory=lambda: 0))])
    assert "default" not in properties(made)["x"]
    holder = make_attrs("Holder", {"x": attribute(default=default, type=object)})
    assert ("default" in properties(holder)["x"]) is is_shown


@dataclass
class WithInitVar:
    x: InitVar[int]


def test_an_init_var_is_refused() -> None:
    with pytest.raises(InvalidTool) as caught:
        schema_of_type(WithInitVar)
    assert (caught.value.place, caught.value.code) == ("WithInitVar.x", "init_var")


def test_a_class_inside_a_function_resolves_itself_and_its_fields() -> None:
    @dataclass
    class Local:
        class Inner(Struct):
            x: int

        inner: Inner
        next: Local | None = None

    assert sorted(described(Local)["$defs"]) == ["Inner", "Local"]


# -- TypedDict ----


class Base(te.TypedDict):
    a: int


class Derived(Base, total=False):
    """Some of it."""

    b: te.Required[str]
    c: te.ReadOnly[t.Annotated[int, "see"]]


def test_a_typed_dict_knows_which_keys_are_required() -> None:
    assert described(Derived) == {
        "type": "object",
        "description": "Some of it.",
        "properties": {"a": INTEGER, "b": STRING, "c": {**INTEGER, "description": "see"}},
        "required": ["a", "b"],
    }
    assert described(string_annotations.Query) == {
        "type": "object",
        "properties": {
            "text": STRING,
            "page": INTEGER,
            "more": {**STRING, "description": "more of it"},
        },
        "required": ["text"],
    }


# -- NamedTuple ----


class Pair(t.NamedTuple):
    left: int
    right: t.Annotated[str, "the other"] = "x"


class Documented(t.NamedTuple):
    """Two of them."""

    left: int


def test_a_named_tuple_is_an_array_for_msgspec_reads_it_from_one() -> None:
    assert msgspec.convert([1], Pair) == Pair(1)
    assert described(Pair) == {
        "type": "array",
        "prefixItems": [
            {"title": "left", **INTEGER},
            {"title": "right", **STRING, "description": "the other", "default": "x"},
        ],
        "minItems": 1,
        "maxItems": 2,
    }
    assert described(Documented)["description"] == "Two of them."
    assert described(namedtuple("Bare", "x"))["prefixItems"] == [{"title": "x"}]


# -- attrs ----


@attrs.define
class Box:
    """A box.

    Args:
        width: From side to side.
    """

    width: int
    depth: int = 3
    tags: list[str] = attrs.field(factory=list)
    colour: Colour = attrs.field(factory=lambda: Colour.RED)
    _hidden: int = 0
    made: int = attrs.field(init=False, default=1)


@attrs.define
class Old:
    typed = attribute(default="x", type=str)
    untyped = attribute(default=1)


def test_an_attrs_class_is_read_by_the_names_that_msgspec_uses() -> None:
    assert described(Box) == {
        "type": "object",
        "description": "A box.",
        "properties": {
            "width": {**INTEGER, "description": "From side to side."},
            "depth": {**INTEGER, "default": 3},
            "tags": {"type": "array", "items": STRING, "default": []},
            "colour": {"type": "string", "enum": ["red", "blue"], "description": "Which colour."},
            "_hidden": {**INTEGER, "default": 0},
        },
        "required": ["width"],
    }
    assert properties(Old) == {"typed": {**STRING, "default": "x"}, "untyped": {"default": 1}}


# -- pydantic ----


class Engine(pydantic.BaseModel):
    power: int = pydantic.Field(gt=0, description="In kW.")


class Car(pydantic.BaseModel):
    """A car."""

    engine: Engine
    spare: Engine | None = None


class Part(pydantic.BaseModel):
    parts: list[Part] = []


class Undescribable(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    call: t.Callable[[], int]


def test_a_pydantic_model_describes_itself() -> None:
    assert described(Car) == Car.model_json_schema()
    assert described(Engine) == Engine.model_json_schema()


def test_a_recursive_pydantic_model_is_still_an_object_at_the_top() -> None:
    schema = described(Part)
    assert schema["type"] == "object"
    assert schema["properties"]["parts"]["items"] == {"$ref": "#/$defs/Part"}
    assert schema["$defs"].keys() == {"Part"}


def test_definitions_of_nested_pydantic_models_move_to_the_root_once() -> None:
    @dataclass
    class Garage:
        cars: list[Car]
        engines: dict[str, Engine]
        parts: Part
        more: Car

    garage = t.cast("t.Any", Garage)
    garage.__annotations__ = {
        "cars": list[Car],
        "engines": dict[str, Engine],
        "parts": Part,
        "more": Car,
    }
    schema = described(garage)
    assert schema["$defs"].keys() == {"Car", "Engine", "Part"}
    assert schema["properties"]["cars"]["items"] == {"$ref": "#/$defs/Car"}
    assert schema["$defs"]["Car"]["properties"]["engine"] == {"$ref": "#/$defs/Engine"}
    assert schema["properties"]["engines"]["additionalProperties"] == {"$ref": "#/$defs/Engine"}


def test_pydantic_models_of_the_same_name_stay_apart() -> None:
    other = pydantic.create_model("Engine", cylinders=(int, ...))
    holder = pydantic.create_model("Car", engine=(other, ...))
    twin = pydantic.create_model("Car", engine=(holder, ...))
    schema = described(Tuple[Car, holder, twin])
    assert [item["$ref"] for item in schema["prefixItems"]] == [
        "#/$defs/Car",
        "#/$defs/Car_2",
        "#/$defs/Car_3",
    ]
    first, second, third = (schema["$defs"][name] for name in ("Car", "Car_2", "Car_3"))
    assert first["properties"]["engine"] == {"$ref": "#/$defs/Engine"}
    assert second["properties"]["engine"] == {"$ref": "#/$defs/Engine_2"}
    assert "power" in schema["$defs"]["Engine"]["properties"]
    assert "cylinders" in schema["$defs"]["Engine_2"]["properties"]
    inner = third["properties"]["engine"]["$ref"].removeprefix("#/$defs/")
    assert schema["$defs"][inner]["properties"].keys() == {"engine"}


class Red(pydantic.BaseModel):
    kind: t.Literal["red"]


class Blue(pydantic.BaseModel):
    kind: t.Literal["blue"]


class Paint(pydantic.BaseModel):
    colour: Red | Blue = pydantic.Field(discriminator="kind")


def test_the_discriminator_of_a_pydantic_model_follows_the_new_names() -> None:
    @dataclass
    class Blue:
        x: int

    schema = described(tuple[Blue, Paint])
    colour = schema["$defs"]["Paint"]["properties"]["colour"]
    assert colour["oneOf"] == [{"$ref": "#/$defs/Red"}, {"$ref": "#/$defs/Blue_2"}]
    assert colour["discriminator"]["mapping"]["blue"] == "#/$defs/Blue_2"


def test_a_pydantic_model_without_a_schema_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidTool) as caught:
        schema_of_type(list[Undescribable])
    assert (caught.value.place, caught.value.code) == (
        "list[Undescribable][]",
        "no_pydantic_schema",
    )


# -- definitions ----


def test_a_described_reference_is_put_into_an_any_of() -> None:
    """OpenAI's strict mode refuses a description beside a `$ref`."""
    line = msgspec.defstruct("Line", [("start", t.Annotated[Point, "From here."]), ("end", Point)])
    assert properties(line) == {
        "start": {"anyOf": [{"$ref": "#/$defs/Point"}], "description": "From here."},
        "end": {"$ref": "#/$defs/Point"},
    }


@pytest.mark.parametrize("cls", [string_annotations.Chain, string_annotations.Ring])
def test_a_recursive_class_refers_to_its_definition(cls: type) -> None:
    body = {
        "type": "object",
        "properties": {
            "value": INTEGER,
            "next": {"anyOf": [{"$ref": f"#/$defs/{cls.__name__}"}, NULL], "default": None},
        },
        "required": ["value"],
    }
    assert described(cls) == {**body, "$defs": {cls.__name__: body}}


def test_metadata_on_the_root_is_kept() -> None:
    schema = described(t.Annotated[Point, Meta(description="Mine.", title="P")])
    assert (schema["type"], schema["description"], schema["title"]) == ("object", "Mine.", "P")
    assert "$defs" not in schema


def test_two_classes_of_one_name_get_two_definitions() -> None:
    other = msgspec.defstruct("Point", [("z", int)])
    schema = described(Tuple[Point, other, Point])
    assert [item["$ref"] for item in schema["prefixItems"]] == [
        "#/$defs/Point",
        "#/$defs/Point_2",
        "#/$defs/Point",
    ]
    assert schema["$defs"]["Point_2"]["properties"] == {"z": INTEGER}


def test_a_name_that_no_uri_takes_is_replaced() -> None:
    odd = msgspec.defstruct("Größe", [("x", int)])
    assert described(List[odd])["items"] == {"$ref": "#/$defs/Gr_e"}
    odd = msgspec.defstruct("点", [("x", int)])
    assert described(List[odd])["items"] == {"$ref": "#/$defs/Type"}


# -- generic classes ----


class Holder(Struct, t.Generic[T]):
    item: T
    more: list[T] = []


class Entry(t.TypedDict, t.Generic[T]):
    item: T


class Row(t.NamedTuple, t.Generic[T]):
    item: T


def test_a_generic_class_is_described_for_its_arguments() -> None:
    assert properties(Holder[int])["more"]["items"] == INTEGER
    assert properties(Entry[int]) == {"item": INTEGER}
    assert described(Row[int])["prefixItems"] == [{"title": "item", **INTEGER}]
    assert properties(Holder)["item"] == {}
    assert described(dict[str, Holder[str]])["additionalProperties"] == {
        "$ref": "#/$defs/Holder_str"
    }


def test_a_generic_class_may_be_recursive_and_inherited() -> None:
    schema = described(string_annotations.Page[str])
    assert schema["properties"]["items"] == {
        "type": "array",
        "items": STRING,
        "description": "What was found.",
    }
    assert schema["properties"]["next"]["anyOf"][0] == {"$ref": "#/$defs/Page_str"}
    schema = described(string_annotations.Numbers)
    assert schema["properties"]["items"]["items"] == INTEGER
    assert "description" not in schema, "a docstring is not inherited"


def test_metadata_that_cannot_be_hashed_does_no_harm() -> None:
    inner = t.Annotated[int, Meta(extra_json_schema={"format": "x"}), {"a": []}]
    assert properties(Holder[inner])["item"] == {**INTEGER, "format": "x"}


@dataclass
class Growing(t.Generic[T]):
    next: Growing[list[T]] | None = None


def test_a_class_that_never_ends_is_refused() -> None:
    with pytest.raises(InvalidTool) as caught:
        schema_of_type(Growing[int])
    assert caught.value.code == "types_too_deep"


# -- names that are not there ----


@pytest.mark.parametrize("cls", [string_annotations.Broken, string_annotations.BrokenData])
def test_an_unresolvable_field_is_named(cls: type) -> None:
    with pytest.raises(InvalidTool) as caught:
        schema_of_type(cls)
    assert (caught.value.place, caught.value.code) == (
        f"{cls.__name__}.wrong",
        "unresolved_annotation",
    )
    assert "'Missing'" in caught.value.message


def test_an_unresolvable_class_is_named_if_its_field_is_not_known() -> None:
    @dataclass
    class Odd:
        x: 1 + ""  # type: ignore[valid-type]  # noqa: F722 - the point

    with pytest.raises(InvalidTool) as caught:
        schema_of_type(Odd)
    assert (caught.value.place, caught.value.code) == ("Odd", "unresolved_annotation")


def test_the_error_names_the_field_on_the_way() -> None:
    inner = msgspec.defstruct("Inner", [("call", t.Callable[[], int])])
    outer = msgspec.defstruct("Outer", [("inners", Dict[str, List[inner]])])
    with pytest.raises(InvalidTool) as caught:
        schema_of_type(outer)
    assert (caught.value.place, caught.value.code) == ("Outer.inners{}[].call", "unsupported_type")
