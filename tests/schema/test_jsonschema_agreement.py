"""Laws: the same result as jsonschema, and any value that msgspec reads fits its schema."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import typing as t
import uuid
from dataclasses import make_dataclass

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from steno.schema import close_objects, schema_of_type, validate_value
from steno.schema.docstrings import read_docstring
from tests.schema.schema_strategies import Schema, schemas, values
from tests.schema.untyped_forms import Dict, List, Tuple, TypedDict, Union, attribute, make_attrs


@pytest.mark.requirement("NFR-004a-14")
@settings(max_examples=300)
@given(schema=schemas(), candidates=st.lists(values(), min_size=1, max_size=5))
def test_the_verdict_is_that_of_jsonschema(schema: Schema, candidates: list[t.Any]) -> None:
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for value in candidates:
        found = validate_value(value, schema)
        assert (found == ()) is validator.is_valid(value)
        for problem in found:
            # The place exists, or it is a name that should not.
            _at(value, problem.pointer)


def _at(value: t.Any, pointer: str) -> t.Any:
    for token in pointer.split("/")[1:]:
        step = token.replace("~1", "/").replace("~0", "~")
        value = value[int(step) if isinstance(value, list) else step]
    return value


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*Draft202012Validator.VALIDATORS, "if", "then", "else", "$defs"])
            | st.text(max_size=2),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.requirement("NFR-004a-14")
@settings(max_examples=300)
@given(value=ANYTHING, schema=ANYTHING)
def test_no_value_and_no_schema_make_it_raise(value: t.Any, schema: t.Any) -> None:
    assert len(validate_value(value, schema)) <= 50


LINES = st.sampled_from([
    "", "Say it.", "Args:", "Returns:", "Parameters", "----------", "x: this", "    x: this",
    "        more", "x : int", "    *y (int): that", ":param x: this", ":param:", ":", "\tz:",
])  # fmt: skip


@given(st.text() | st.lists(LINES).map("\n".join))
def test_no_docstring_makes_it_raise(doc: str) -> None:
    found = read_docstring(doc)
    assert found.text in doc.expandtabs() or "\n" in found.text
    assert "" not in found.entries


# -- what msgspec reads, fits ----


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


def _offset(value: dt.time) -> str:
    return value.replace(fold=0).isoformat()


# Each type with the JSON that msgspec reads as it.
LEAVES: list[tuple[t.Any, st.SearchStrategy[t.Any]]] = [
    (str, st.text(max_size=5)),
    (int, st.integers(-(2**40), 2**40)),
    (float, st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9)),
    (bool, st.booleans()),
    (None, st.none()),
    (t.Any, values()),
    (bytes, st.binary(max_size=6).map(msgspec.to_builtins)),
    (t.Annotated[bytes, msgspec.Meta(max_length=4)], st.binary(max_size=4).map(msgspec.to_builtins)),
    (dt.datetime, st.datetimes().map(msgspec.to_builtins)),
    (dt.date, st.dates().map(msgspec.to_builtins)),
    (dt.time, st.times().map(_offset)),
    (dt.timedelta, st.timedeltas().map(msgspec.to_builtins)),
    (uuid.UUID, st.uuids().map(str)),
    (decimal.Decimal, st.sampled_from(["1.5", "1e5", 1, 2.5])),
    (Colour, st.sampled_from(["red", "blue"])),
    (Level, st.sampled_from([1, 2])),
    (t.Literal["b", "a", None], st.sampled_from(["a", "b", None])),
    (t.Annotated[int, msgspec.Meta(ge=1, lt=5)], st.integers(1, 4)),
    (t.Annotated[str, msgspec.Meta(min_length=1, pattern="^x")], st.sampled_from(["x", "xy"])),
    (t.Annotated[list[int], msgspec.Meta(max_length=2)], st.lists(st.integers(0, 9), max_size=2)),
]  # fmt: skip

Typed: t.TypeAlias = tuple[t.Any, st.SearchStrategy[t.Any]]


def _containers(inner: Typed) -> st.SearchStrategy[Typed]:
    hint, value = inner
    return st.sampled_from(
        [
            (List[hint], st.lists(value, max_size=3)),
            (Tuple[hint, ...], st.lists(value, max_size=3)),
            (Tuple[hint, int], st.tuples(value, st.integers(0, 9)).map(list)),
            (Dict[str, hint], st.dictionaries(st.text(max_size=3), value, max_size=3)),
            (
                Dict[int, hint],
                st.dictionaries(st.integers(-9, 9).map(str), value, max_size=3),
            ),
            (Union[hint, None], value | st.none()),
        ]
    )


NAMES = ("a", "b", "c")


@st.composite
def _records(draw: st.DrawFn, inner: st.SearchStrategy[Typed]) -> Typed:
    fields = {name: draw(inner) for name in NAMES[: draw(st.integers(1, 3))]}
    hints = [(name, hint) for name, (hint, _) in fields.items()]
    made = draw(
        st.sampled_from(
            [
                lambda: msgspec.defstruct("Made", hints),
                lambda: msgspec.defstruct("Closed", hints, forbid_unknown_fields=True),
                lambda: make_dataclass("Data", hints),
                lambda: TypedDict("Typed", dict(hints)),
                lambda: make_attrs("Attrs", {name: attribute(type=hint) for name, hint in hints}),
            ]
        )
    )()
    if hasattr(made, "__attrs_attrs__"):
        made.__annotations__ = dict(hints)  # where msgspec looks for them
    return made, st.fixed_dictionaries({name: value for name, (_, value) in fields.items()})


TYPES: st.SearchStrategy[Typed] = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: inner.flatmap(_containers) | _records(inner),
    max_leaves=6,
)


@pytest.mark.requirement("FR-004a-80", "FR-004a-90")
@settings(max_examples=200)
@given(TYPES, st.data())
def test_values_that_msgspec_accepts_fit_the_schema_of_their_type(
    typed: Typed, data: st.DataObject
) -> None:
    hint, strategy = typed
    schema = schema_of_type(hint)
    strict = close_objects(schema)
    Draft202012Validator.check_schema(schema)
    Draft202012Validator.check_schema(strict)
    value = data.draw(strategy)
    try:
        msgspec.convert(value, hint, str_keys=True)
    except (msgspec.ValidationError, TypeError):
        assume(False)  # a union that msgspec does not read
    assert validate_value(value, schema) == ()
    assert validate_value(value, strict) == ()
    assert Draft202012Validator(strict).is_valid(value)
