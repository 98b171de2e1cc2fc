"""Functions of every kind, and those that no model could call."""

from __future__ import annotations

import enum
import functools
import inspect
import typing as t

import pytest
from jsonschema import Draft202012Validator
from msgspec import UNSET, Meta, Struct

from steno.errors import InvalidTool
from steno.schema import FunctionSchema, schema_of_function
from tests.schema import string_annotations

STRING = {"type": "string"}
INTEGER = {"type": "integer"}


def described(function: t.Any) -> FunctionSchema:
    schema = schema_of_function(function)
    Draft202012Validator.check_schema(schema.parameters)
    assert schema.parameters["type"] == "object"
    return schema


def properties(function: t.Any) -> dict[str, t.Any]:
    found: dict[str, t.Any] = described(function).parameters["properties"]
    return found


class Filter(Struct):
    """What to keep."""

    word: str


def search(
    query: str,
    limit: t.Annotated[int, Meta(ge=1, description="At most so many.")] = 10,
    mode: t.Literal["fast", "deep"] = "fast",
    where: Filter | None = None,
    tags: tuple[str, ...] = (),
) -> list[str]:
    """Search the archive.

    Newest first.

    Args:
        query: What to look for.
        limit: Not shown, for the annotation says more.
        where: Only those.

    Returns:
        Titles.
    """
    return []


@pytest.mark.requirement("FR-004a-78", "FR-004a-79", "FR-004a-80", "FR-004a-81", "FR-004a-90")
def test_signature_and_docstring_become_a_schema() -> None:
    assert described(search) == FunctionSchema(
        "search",
        "Search the archive.\n\nNewest first.",
        {
            "type": "object",
            "properties": {
                "query": {**STRING, "description": "What to look for."},
                "limit": {
                    **INTEGER,
                    "description": "At most so many.",
                    "minimum": 1,
                    "default": 10,
                },
                "mode": {**STRING, "enum": ["fast", "deep"], "default": "fast"},
                "where": {
                    "anyOf": [{"$ref": "#/$defs/Filter"}, {"type": "null"}],
                    "description": "Only those.",
                    "default": None,
                },
                "tags": {"type": "array", "items": STRING, "default": []},
            },
            "required": ["query"],
            "$defs": {
                "Filter": {
                    "type": "object",
                    "description": "What to keep.",
                    "properties": {"word": STRING},
                    "required": ["word"],
                }
            },
        },
    )


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    def ping() -> None: ...

    assert described(ping) == FunctionSchema("ping", "", {"type": "object", "properties": {}})


def test_types_are_resolved_where_the_function_was_written() -> None:
    schema = described(string_annotations.outer)
    assert schema.parameters["$defs"].keys() == {"Tree", "Query"}
    assert properties(string_annotations.outer)["tree"] == {"$ref": "#/$defs/Tree"}


class Service:
    """A service."""

    def plain(self, x: int) -> None:
        """Do it."""

    @classmethod
    def of_class(cls, x: int) -> None:
        """Do it."""

    @staticmethod
    def static(x: int) -> None:
        """Do it."""

    async def later(self, x: int) -> None:
        """Do it."""

    def __call__(self, x: int) -> None:
        """Do it."""


class Undocumented:
    """Do it."""

    def __call__(self, x: int) -> None: ...


def loud(function: t.Any) -> t.Any:
    @functools.wraps(function)
    def wrapper(*args: t.Any, **kwargs: t.Any) -> t.Any:
        return function(*args, **kwargs)

    return wrapper


@loud
def decorated(x: int) -> None:
    """Do it."""


@functools.lru_cache
def cached(x: int) -> None:
    """Do it."""


class Decorated:
    @loud
    def method(self, x: int) -> None:
        """Do it."""


def two(y: str, x: int, *, z: t.Callable[..., t.Any] = print) -> None:
    """Do it."""


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (Service().plain, "plain"),
        (Service.of_class, "of_class"),
        (Service().of_class, "of_class"),
        (Service.static, "static"),
        (Service().later, "later"),
        (Service(), "Service"),
        (Undocumented(), "Undocumented"),
        (decorated, "decorated"),
        (cached, "cached"),
        (Decorated().method, "method"),
        (functools.partial(two, "bound", z=len), "two"),
        (functools.partial(functools.partial(two, z=len), y="bound"), "two"),
        (functools.update_wrapper(functools.partial(two, "bound", z=len), two), "two"),
        (functools.partial(Service().plain), "plain"),
    ],
)
def test_everything_that_can_be_called_is_described(function: t.Any, name: str) -> None:
    assert described(function) == FunctionSchema(
        name,
        "Do it.",
        {"type": "object", "properties": {"x": INTEGER}, "required": ["x"]},
    )


def test_arguments_bound_by_a_partial_are_not_shown() -> None:
    def fetch(url: str, client: t.Callable[..., t.Any], retries: int = 3) -> None: ...

    assert properties(functools.partial(fetch, client=print)).keys() == {"url", "retries"}
    assert properties(functools.partial(string_annotations.broken, wrong={})) == {"fine": INTEGER}


def test_a_signature_that_was_put_there_is_believed() -> None:
    def anything(*args: t.Any) -> None: ...

    parameter = inspect.Parameter("x", inspect.Parameter.KEYWORD_ONLY, annotation=int)
    anything.__signature__ = inspect.Signature([parameter])  # type: ignore[attr-defined]
    assert properties(anything) == {"x": INTEGER}


class Size(enum.Enum):
    BIG = "big"


def test_a_parameter_without_annotation_has_the_type_of_its_default() -> None:
    def f(a, *, b=1, c="x", d=None, e=(1,), f=Size.BIG, g=print, h=UNSET, i=True): ...  # type: ignore[no-untyped-def]

    assert described(f).parameters == {
        "type": "object",
        "properties": {
            "a": {},
            "b": {**INTEGER, "default": 1},
            "c": {**STRING, "default": "x"},
            "d": {"default": None},
            "e": {"type": "array", "items": {}, "default": [1]},
            "f": {**STRING, "enum": ["big"], "default": "big"},
            "g": {},
            "h": {},
            "i": {"type": "boolean", "default": True},
        },
        "required": ["a"],
    }


# -- what no model could call ----


def variadic(x: int, *rest: int) -> None: ...


def open_ended(x: int, **options: int) -> None: ...


def positional(x: int, /) -> None: ...


def unsupported(x: int, call: t.Callable[[], int]) -> None: ...


@pytest.mark.parametrize(
    ("function", "place", "code"),
    [
        (lambda x: x, "", "lambda"),
        (functools.partial(lambda x: x), "", "lambda"),
        (variadic, "variadic: parameter rest", "variable_arguments"),
        (open_ended, "open_ended: parameter options", "variable_arguments"),
        (positional, "positional: parameter x", "positional_only"),
        (len, "len: parameter obj", "positional_only"),
        (Service.plain, "plain: parameter self", "unbound_method"),
        (unsupported, "unsupported: parameter call", "unsupported_type"),
        (Service, "Service", "not_a_function"),
        (5, "int", "not_a_function"),
        (functools.partial(loud(positional), 1, 2), "positional", "no_signature"),
        (string_annotations.broken, "broken: parameter wrong", "unresolved_annotation"),
        (string_annotations.syntax, "syntax: parameter wrong", "unresolved_annotation"),
    ],
)
def test_parameters_that_cannot_be_passed_by_name_are_refused(
    function: t.Any, place: str, code: str
) -> None:
    with pytest.raises(InvalidTool) as caught:
        schema_of_function(function)
    assert (caught.value.place, caught.value.code) == (place, code)


def test_the_result_type_need_not_be_known() -> None:
    assert properties(string_annotations.broken_result) == {"fine": INTEGER}
