"""Half a character never gets in: refused by values, replaced and recorded at the door.

A lone surrogate cannot be written as UTF-8, and a history that holds one can never be sent again
(claude-code#68325, opencode#17758).
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno import InvalidValue, ToolResult, UserMessage, replace_lone_surrogates
from steno.codec import (
    decode_document,
    decode_entry,
    decode_message,
    encode_document,
    encode_entry,
    encode_message,
)
from steno.json_object import JsonObject
from steno.testing import (
    blocks,
    documents,
    entries,
    failures,
    image_sources,
    messages,
    requests,
    seals,
    tool_definitions,
    usages,
)
from tests.property.raw_json import Array, Node, Object, Raw, parse, render

HALVES = "\ud800\udbff\udc00\udfff\ud83d\ude00"
broken_texts = st.text(
    st.sampled_from(HALVES) | st.sampled_from('a\\u"d8😀\ufffd') | st.characters(), max_size=12
)


def oracle(text: str) -> str:
    """Join pairs, replace halves, in the slowest way there is."""
    joined = re.sub(
        "[\ud800-\udbff][\udc00-\udfff]",
        lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"),
        text,
    )
    return re.sub("[\ud800-\udfff]", "\ufffd", joined)


@pytest.mark.requirement("NFR-004a-30")
@given(broken_texts)
def test_pairs_are_joined_and_halves_replaced(text: str) -> None:
    clean = replace_lone_surrogates(text)
    assert clean == oracle(text)
    assert clean.encode().decode() == clean
    assert replace_lone_surrogates(clean) is clean


# -- at the door -------------------------------------------------------------------------------


@pytest.mark.requirement("NFR-004a-30")
@given(broken_texts, st.booleans(), st.booleans())
def test_a_message_with_half_a_character_is_read(text: str, escaped: bool, as_bytes: bool) -> None:
    written = json.dumps(
        {"type": "user", "content": [{"type": "text", "text": f"a{text}"}]}, ensure_ascii=escaped
    )
    if not escaped:  # bytes that are not UTF-8 are refused, text need not be
        loaded = decode_message(written)
    else:
        loaded = decode_message(written.encode() if as_bytes else written)
    assert isinstance(loaded, UserMessage)
    assert loaded.text == "a" + oracle(text)
    assert decode_message(encode_message(loaded)) == loaded


@given(broken_texts, broken_texts, st.booleans())
def test_half_a_character_in_details_and_unknown_members_is_replaced(
    name: str, text: str, escaped: bool
) -> None:
    written = json.dumps(
        {
            "type": "tool_result",
            "tool_call_id": "a",
            "content": [],
            "details": {name: text},
            f"x{name}": [text],
        },
        ensure_ascii=escaped,
    )
    loaded = decode_message(written)
    assert isinstance(loaded, ToolResult)
    assert loaded.details == {oracle(name): oracle(text)}
    saved = json.loads(encode_message(loaded))
    assert saved["x" + oracle(name)] == [oracle(text)]


HEADER_TIMES = ('"created_at"', '"updated_at"')
"""That a document is read although its header is odd is a law of its own."""

CODECS: list[Any] = [
    (messages().map(encode_message), encode_message, decode_message),
    (entries().map(encode_entry), encode_entry, decode_entry),
    (documents().map(encode_document), encode_document, decode_document),
]


@pytest.mark.parametrize("number", range(len(CODECS)))
@given(data=st.data())
def test_half_a_character_anywhere_is_read(number: int, data: st.DataObject) -> None:
    encoded, encode, decode = CODECS[number]
    tree = parse(data.draw(encoded))
    strings = all_strings(tree)
    for _ in range(min(len(strings), 3)):
        chosen = data.draw(st.sampled_from(strings))
        half = data.draw(st.sampled_from(HALVES))
        escape = f"\\u{ord(half):04x}"
        # In front, so that a type, a version and the start of a URL are hit as well.
        chosen.text = '"' + data.draw(st.sampled_from((half, escape))) + chosen.text[1:]
    loaded = decode(render(tree, iter(lambda: "", None)))
    saved = encode(loaded)
    assert decode(saved) == loaded
    assert not re.search("[\ud800-\udfff]", json.dumps(json.loads(saved), ensure_ascii=False))


def all_strings(node: Node) -> list[Raw]:
    match node:
        case Raw():
            return [node] if node.text.startswith('"') else []
        case Array(parts):
            return [found for part in parts for found in all_strings(part)]
        case Object(members):
            inner = [part for key, part in members if key not in HEADER_TIMES]
            return [found for part in inner for found in all_strings(part)]


# -- values ------------------------------------------------------------------------------------

any_values = st.one_of(
    seals(),
    usages(),
    failures(),
    image_sources(),
    blocks(),
    messages(),
    entries().map(lambda entry: entry.payload),
    entries(),
    documents(),
    tool_definitions(),
    requests(),
)


@pytest.mark.requirement("NFR-004a-30", "NFR-004a-32")
@given(any_values, st.sampled_from(HALVES))
def test_no_string_of_any_value_takes_half_a_character(value: Any, half: str) -> None:
    for name in value.__struct_fields__:
        content = getattr(value, name)
        broken: list[Any] = []
        if type(content) is str:
            broken = [content + half, half]
        elif isinstance(content, JsonObject):
            broken = [{**content.to_dict(), half: 1}, {**content.to_dict(), "a": [half]}]
        for other in broken:
            with pytest.raises(InvalidValue):
                msgspec.structs.replace(value, **{name: other})
