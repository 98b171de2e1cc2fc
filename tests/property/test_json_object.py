"""A JsonObject is the JSON it was made from, and stays it."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno import InvalidValue, JsonObject, ToolCall
from steno.testing import json_object_texts, json_objects, json_values, texts
from steno.testing.strategies.block_strategies import json_members
from tests.property.raw_json import objects, values


@given(json_members())
def test_it_equals_the_plain_dictionary_of_the_same_json(members: dict[str, Any]) -> None:
    frozen = JsonObject(members)
    assert frozen == members
    assert members == frozen
    assert frozen.to_dict() == members
    assert len(frozen) == len(members)
    assert list(frozen) == list(members)
    assert same(dict(frozen), members)


def same(frozen: Any, plain: Any) -> bool:
    """Compare by hand, types included."""
    if isinstance(plain, dict):
        return list(frozen) == list(plain) and all(same(frozen[k], plain[k]) for k in plain)
    if isinstance(plain, list):
        return type(frozen) is tuple and len(frozen) == len(plain) and all(map(same, frozen, plain))
    if isinstance(plain, float):
        return (
            type(frozen) is float
            and math.copysign(1, frozen) == math.copysign(1, plain)
            and (frozen == plain)
        )
    return type(frozen) is type(plain) and bool(frozen == plain)


@given(json_objects(), json_objects())
def test_equal_objects_have_equal_hashes(one: JsonObject, other: JsonObject) -> None:
    assert (one == other) == (other == one) == (one.to_dict() == other)
    if one == other:
        assert hash(one) == hash(other)
    twin = JsonObject.parse(one.text)
    assert (twin, hash(twin)) == (one, hash(one))


@given(json_members().filter(lambda members: len(members) > 1), st.randoms())
def test_the_order_of_members_does_not_matter_but_is_kept(
    members: dict[str, Any], random: Any
) -> None:
    names = list(members)
    random.shuffle(names)
    shuffled = JsonObject({name: members[name] for name in names})
    assert shuffled == JsonObject(members)
    assert hash(shuffled) == hash(JsonObject(members))
    assert list(shuffled) == names


@given(json_members(), texts(), json_values())
def test_another_member_makes_another_object(
    members: dict[str, Any], name: str, value: Any
) -> None:
    changed = {**members, name: [value]}
    assert (JsonObject(changed) == JsonObject(members)) == (members.get(name) == [value])


@pytest.mark.requirement("FR-004a-45", "FR-004a-79")
@given(json_objects())
def test_it_is_read_only_all_the_way_down(value: JsonObject) -> None:
    before = value.text
    for part in parts(value):
        assert isinstance(part, (str, int, float, bool, type(None), tuple, JsonObject))
        if type(part) is JsonObject:
            anything: Any = part
            with pytest.raises(TypeError):
                anything["a"] = 1
            with pytest.raises(TypeError):
                del anything["a"]
            for name in ("a", "_members", "text"):
                with pytest.raises(AttributeError):
                    setattr(part, name, {})
    thawed = value.to_dict()
    for name in list(thawed):
        spoil(thawed[name])
        thawed[name] = "spoilt"
    assert value.text == before


def parts(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, Mapping):
        for name in value:
            yield from parts(value[name])
    elif isinstance(value, tuple):
        for part in value:
            yield from parts(part)


def spoil(value: Any) -> None:
    if isinstance(value, list):
        for part in value:
            spoil(part)
        value.append("spoilt")
    elif isinstance(value, dict):
        for part in list(value.values()):
            spoil(part)
        value["spoilt"] = True


@given(json_members())
def test_it_shares_no_container_with_its_source(members: dict[str, Any]) -> None:
    frozen = JsonObject(members)
    before = frozen.text
    spoil(members)
    assert frozen.text == before


@given(json_objects())
def test_copies_are_equal(value: JsonObject) -> None:
    for twin in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert twin == value
        assert list(twin) == list(value)


@given(json_object_texts())
def test_it_reads_text_as_any_json_parser_does(text: str) -> None:
    assert JsonObject.parse(text) == json.loads(text)
    assert JsonObject.parse(text.encode()) == JsonObject.parse(text)
    assert ToolCall(id="a", name="b", arguments=text).parsed == json.loads(text)


@given(json_objects())
def test_its_text_is_compact_json_of_the_same(value: JsonObject) -> None:
    assert json.loads(value.text) == value
    assert JsonObject.parse(value.text).text == value.text


@given(objects(values()) | values() | texts())
def test_any_text_is_an_object_or_refused(text: str) -> None:
    try:
        parsed = JsonObject.parse(text)
    except InvalidValue:
        return
    assert JsonObject.parse(parsed.text) == parsed


OUTSIDE = st.sampled_from((math.nan, math.inf, -math.inf, "\ud800", object(), 1j, {None: 1}))


@given(json_members(), OUTSIDE, st.booleans())
def test_values_that_are_not_json_are_refused(
    members: dict[str, Any], odd: Any, is_deep: bool
) -> None:
    with pytest.raises(InvalidValue):
        JsonObject({**members, "odd": [None, {"a": odd}] if is_deep else odd})
    assert JsonObject(members) != {**members, "odd": odd}


@given(json_members(), st.integers(), json_values(), json_values())
def test_two_names_that_are_written_alike_are_refused(
    members: dict[str, Any], name: int, one: Any, other: Any
) -> None:
    """JSON has no names but strings; one of two members would be lost without a word."""
    alike: dict[Any, Any] = {**members, name: one, str(name): other}
    with pytest.raises(InvalidValue):
        JsonObject(alike)
