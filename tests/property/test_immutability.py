"""A value never changes, equals values of the same content, and prints no content."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import Enum
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno import InvalidValue
from steno.codec import (
    decode_document,
    decode_entry,
    decode_message,
    decode_tool,
    encode_document,
    encode_entry,
    encode_message,
    encode_tool,
)
from steno.json_object import JsonObject
from steno.testing import (
    blocks,
    documents,
    entries,
    events,
    failures,
    image_sources,
    messages,
    payloads,
    requests,
    seals,
    tool_definitions,
    usages,
)
from steno.values import RedactedRepr, Value

stored_values = st.one_of(
    seals(),
    usages(),
    failures(),
    image_sources(),
    blocks(),
    messages(),
    payloads(),
    entries(),
    documents(),
    tool_definitions(),
    requests(),
)
loaded_values = st.one_of(
    messages().map(encode_message).map(decode_message),
    entries().map(encode_entry).map(decode_entry),
    documents().map(encode_document).map(decode_document),
    tool_definitions().map(encode_tool).map(decode_tool),
)
any_values = st.one_of(stored_values, loaded_values, events())

SCALARS = (str, bytes, int, float, bool, type(None), datetime, Enum)


@pytest.mark.requirement("FR-004a-12", "FR-004a-37", "FR-004a-45", "FR-004a-57", "FR-004a-72")
@pytest.mark.requirement("FR-004a-79", "FR-004a-92", "NFR-004a-23")
@given(any_values)
def test_nothing_that_can_change_is_reachable(value: Any) -> None:
    for part in reachable(value):
        assert isinstance(part, (*SCALARS, tuple, frozenset, JsonObject, msgspec.Struct)) or (
            type(part).__name__ == "RawJson"
        ), type(part)
        with pytest.raises(TypeError):
            operator.setitem(part, 0, 1)
        if not isinstance(part, SCALARS):
            hash(part)


def reachable(value: Any) -> Iterator[Any]:
    """Yield every object that can be reached from a value through public attributes."""
    yield value
    if isinstance(value, tuple):
        inner = list(value)
    elif isinstance(value, Mapping):
        inner = [*value, *value.values()]
    elif isinstance(value, msgspec.Struct):
        names = {*value.__struct_fields__, *getattr(value, "__dict__", ()), *properties(value)}
        inner = [getattr(value, name) for name in sorted(names) if not name.startswith("_")]
    else:
        inner = []
    for part in inner:
        yield from reachable(part)


def properties(value: Any) -> list[str]:
    return [name for name in dir(type(value)) if isinstance(getattr(type(value), name), property)]


@pytest.mark.requirement("NFR-004a-37", "S0-V2")
@given(any_values)
def test_no_attribute_can_be_set_or_deleted(value: Any) -> None:
    names = [*value.__struct_fields__, *properties(value), "unheard_of"]
    for name in names:
        before = getattr(value, name, None)
        with pytest.raises(AttributeError):
            setattr(value, name, before)
        with pytest.raises(AttributeError):
            delattr(value, name)
        assert getattr(value, name, None) == before


@pytest.mark.requirement("FR-004a-34", "FR-004a-55", "FR-004a-70", "FR-004a-88")
@given(any_values, any_values)
def test_equal_values_have_equal_hashes(one: Any, other: Any) -> None:
    twin = type(one)(**{name: getattr(one, name) for name in one.__struct_fields__})
    assert one == twin
    assert hash(one) == hash(twin)
    assert {one: 1}[twin] == 1
    assert (one == other) is (other == one)
    assert (one != other) is not (one == other)
    if one == other:
        assert hash(one) == hash(other)


@given(any_values)
def test_a_copy_is_equal_and_as_good(value: Any) -> None:
    copies = [copy.copy(value), copy.deepcopy(value), msgspec.structs.replace(value)]
    copies += [pickle.loads(pickle.dumps(value, protocol)) for protocol in (2, 5)]
    for twin in copies:
        assert type(twin) is type(value)
        assert twin == value
        assert hash(twin) == hash(value)
        assert repr(twin) == repr(value)
        assert list(map(type, reachable(twin))) == list(map(type, reachable(value)))


# -- what a value says about itself ------------------------------------------------------------

MARK = "s3cr3t"


@pytest.mark.requirement("NFR-004a-20", "FR-004a-35", "S0-V1")
@given(any_values)
def test_no_content_shows_in_what_a_value_prints(value: Any) -> None:
    marked = with_mark(value)
    shown = [repr(marked), str(marked), f"{marked}", f"{[marked]!r}", repr(marked.__rich_repr__())]
    assert MARK not in "".join(shown)
    assert type(value).__name__ in repr(value)


def with_mark(value: Any) -> Any:
    """Put the mark into every text, number of bytes and mapping that is content."""
    if isinstance(value, tuple):
        return tuple(with_mark(part) for part in value)
    if isinstance(value, Mapping):
        return JsonObject({**JsonObject(value).to_dict(), MARK: [MARK]})
    if not isinstance(value, RedactedRepr):
        return value
    for name in value.__struct_fields__:
        value = with_mark_in(value, name)
    return value


def with_mark_in(value: Any, name: str) -> Any:
    content = getattr(value, name)
    candidates: list[Any] = [with_mark(content)]
    if type(content) is str and name not in value.shown:
        # The first that the rules for this field allow.
        candidates = [
            content + MARK,
            f'{{"{MARK}":"{MARK}"}}',
            content[:-1] + f',"{MARK}":1}}',
            content,
        ]
    elif type(content) is bytes:
        candidates = [content + MARK.encode()]
    for candidate in candidates:
        try:
            return msgspec.structs.replace(value, **{name: candidate})
        except InvalidValue:
            continue
    return value


@given(stored_values)
def test_a_mark_can_be_put_into_most_values(value: Any) -> None:
    """The law above is worth something only if the mark is really there."""
    marked = with_mark(value)
    texts = [
        getattr(value, field.name)
        for field in msgspec.structs.fields(value)
        if field.name not in value.shown and type(getattr(value, field.name)) is str
    ]
    digests = [name for name in value.__struct_fields__ if name.endswith("sha256")]
    if len(texts) > len(digests):
        assert marked != value


@given(stored_values)
def test_the_size_of_a_value_shows_in_what_it_prints(value: Value) -> None:
    for name in value.__struct_fields__:
        content = getattr(value, name)
        if type(content) is str and content and name not in value.shown:
            default = value.__struct_config__.omit_defaults and content in value.__struct_defaults__
            size = f"{len(content)} character{'' if len(content) == 1 else 's'}"
            assert default or f"{name}=<{size}>" in repr(value)
