"""Closed unions: an alias names every member, and no other module can add one.

A `match` with `assert_never` is only as complete as the union it is checked against.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import new_class
from typing import Any, get_args

import msgspec
import pytest

import steno
from steno import Block, ChatMessage, Event, InvalidToolCall, Message, Opaque, ToolCall
from steno.codec import Document
from steno.messages.content import ImageSource
from steno.records.entry import Payload
from steno.values import RedactedRepr, Sendable, Value
from tests.value_samples import ALL

MODULES = [
    import_module(found.name)
    for found in pkgutil.walk_packages(steno.__path__, "steno.")
    if not found.name.startswith("steno.testing")
]

EDGES = (
    *("steno.wire", "steno.transport", "steno.providers", "steno.cli", "steno.app"),
    *("steno.ports", "steno.context", "steno.tools", "steno.agent", "steno.inputs"),
)
"""What is made there is no value of the vocabulary."""


def members_of(base: Any) -> Iterator[type]:
    """Yield the concrete classes below `base` that belong to steno; bases begin with `_`."""
    for cls in base.__subclasses__():
        if cls.__module__.partition(".")[0] != "steno":
            continue  # another test's
        if not cls.__name__.startswith("_"):
            yield cls
        yield from members_of(cls)


def base_of(cls: type) -> Any:
    """Return the base that the members of a union share: the last one below `Value`."""
    bases = [base for base in cls.__mro__ if issubclass(base, RedactedRepr)]
    root = next(root for root in (Sendable, Value, RedactedRepr) if root in bases)
    return bases[bases.index(root) - 1]


@pytest.mark.requirement("S4-01", "FR-004a-11")
@pytest.mark.parametrize(
    ("alias", "others"),
    [
        pytest.param(Block, set[type]((ToolCall, InvalidToolCall)), id="Block"),
        pytest.param(Message, set[type](), id="Message"),
        pytest.param(Event, set[type](), id="Event"),
        pytest.param(Payload, {*get_args(Message), Opaque}, id="Payload"),
        pytest.param(ImageSource, set[type](), id="ImageSource"),
    ],
)
def test_a_union_names_every_member(alias: Any, others: set[type]) -> None:
    named = set(get_args(alias))
    [base] = {base_of(cls) for cls in named - others}
    assert named == {*members_of(base)} | others


@pytest.mark.requirement("S4-01")
@pytest.mark.parametrize("alias", [Block, Message, Event, Payload, ImageSource], ids=str)
def test_the_members_of_a_union_have_tags_of_their_own(alias: Any) -> None:
    configs = [cls.__struct_config__ for cls in get_args(alias)]
    assert {config.tag_field for config in configs} == {"type"}
    tags = [config.tag for config in configs]
    assert len(set(tags)) == len(tags)
    assert all(tag == tag.lower() for tag in tags)


@pytest.mark.requirement("S2-08")
def test_the_tags_are_those_of_the_stored_format() -> None:
    """They are in files that people keep."""
    assert [cls.__struct_config__.tag for cls in get_args(Message)] == [
        *("system", "user", "assistant", "tool_result"),
    ]
    assert [cls.__struct_config__.tag for cls in get_args(Block)] == [
        *("text", "thinking", "image", "file_reference", "resource", "tool_call"),
        *("invalid_tool_call", "opaque"),
    ]


def public_structs() -> list[type[msgspec.Struct]]:
    found = {
        cls
        for module in MODULES
        for name, cls in vars(module).items()
        if isinstance(cls, type)
        and issubclass(cls, RedactedRepr)
        and not name.startswith("_")
        and cls not in (RedactedRepr, Value, Sendable, ChatMessage)
        and not cls.__module__.startswith(EDGES)
    }
    return sorted(found, key=lambda cls: cls.__name__)


@pytest.mark.requirement("S4-01")
@pytest.mark.parametrize("cls", public_structs(), ids=lambda cls: cls.__name__)
def test_a_public_value_is_final(cls: Any) -> None:
    """Only with `final` can a type checker see that a `match` is complete."""
    assert getattr(cls, "__final__", False)
    assert cls.__struct_config__.frozen


def test_every_public_value_has_a_sample() -> None:
    """So that the tests over one of everything are over everything."""
    assert {sample.type for sample in ALL} == {*public_structs()}
    assert Document in public_structs()


@pytest.mark.requirement("S4-01", "FR-004a-11")
@pytest.mark.parametrize("base", [ChatMessage, *get_args(Message)])
def test_a_fifth_message_cannot_be_made_elsewhere(base: Any) -> None:
    with pytest.raises(TypeError, match="sealed"):
        new_class("Telegram", (base,), {"frozen": True, "tag": "telegram"})


@pytest.mark.requirement("S4-01")
def test_the_other_classes_of_the_vocabulary_are_final_or_exceptions_or_enums() -> None:
    classes = [getattr(steno, name) for name in steno.__all__]
    classes = [cls for cls in classes if inspect.isclass(cls) and cls is not ChatMessage]
    open_ = [
        cls.__name__
        for cls in classes
        if not getattr(cls, "__final__", False) and not issubclass(cls, (Exception, str, tuple))
    ]
    assert open_ == []
