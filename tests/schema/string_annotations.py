"""Types whose annotations are strings, in a module of their own so that they can be resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Generic, NotRequired, Required, TypedDict, TypeVar

import attrs
from msgspec import Struct

if TYPE_CHECKING:
    from somewhere import Missing  # type: ignore[import-not-found]  # the point of the sample

T = TypeVar("T")


class Tree(Struct):
    """A tree of numbers."""

    value: int
    children: list[Tree] = []


@dataclass
class Chain:
    value: int
    next: Chain | None = None


@attrs.define
class Ring:
    value: int
    next: Ring | None = None


class Query(TypedDict, total=False):
    text: Required[str]
    page: int
    more: Annotated[NotRequired[str], "more of it"]


@dataclass
class Page(Generic[T]):
    """One page of results.

    Attributes:
        items: What was found.
    """

    items: list[T]
    next: Page[T] | None = None
    size: int = field(default=10)


@dataclass
class Numbers(Page[int]):
    total: int = 0


class Broken(Struct):
    fine: int
    wrong: list[Missing]


@dataclass
class BrokenData:
    fine: int
    wrong: Missing | None = None


def broken(fine: int, wrong: dict[str, Missing]) -> None: ...


def broken_result(fine: int) -> Missing: ...


def syntax(fine: int, wrong: "not a type") -> None: ...  # type: ignore[valid-type]  # noqa: F722 - the point


def outer(tree: Tree, query: Query) -> None:
    """Take what is described elsewhere."""
