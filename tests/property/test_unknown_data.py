"""Data of a newer steno survives load and save byte for byte, and never prevents reading."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import example, given, note
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from steno import Opaque, Text
from steno.codec import (
    Document,
    decode_document,
    decode_entry,
    decode_message,
    decode_messages,
    decode_tool,
    encode_document,
    encode_entry,
    encode_message,
    encode_messages,
    encode_tool,
)
from steno.messages.content import OWN_FORMAT
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.records.entry import Entry
from steno.testing import documents, entries, messages, tool_definitions, unknown_tags
from steno.values import Value
from tests.property.raw_json import (
    Array,
    Node,
    Object,
    Raw,
    objects,
    parse,
    quote,
    render,
    spacings,
    unknown_names,
    values,
)

FREE_JSON = ("details", "audit", "extras", "parameters")
"""Members that hold JSON of somebody else: what is in there is content."""


class Codec(NamedTuple):
    values: SearchStrategy[Any]
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


CODECS = {
    "message": Codec(messages(), encode_message, decode_message),
    "messages": Codec(
        st.lists(messages(), max_size=3).map(tuple), encode_messages, decode_messages
    ),
    "entry": Codec(entries(), encode_entry, decode_entry),
    "document": Codec(documents(), encode_document, decode_document),
    "tool": Codec(tool_definitions(), encode_tool, decode_tool),
}
each_kind = pytest.mark.parametrize("kind", CODECS)


# -- unknown members ---------------------------------------------------------------------------


@pytest.mark.requirement("NFR-004a-31", "S2-09")
@each_kind
@given(data=st.data())
def test_unknown_members_survive_at_every_level(kind: str, data: st.DataObject) -> None:
    codec = CODECS[kind]
    value = data.draw(codec.values)
    tree = parse(codec.encode(value))
    ours = list(our_objects(tree))
    added: list[tuple[str, str]] = []
    for _ in range(data.draw(st.integers(1, 3)) if ours else 0):
        holder = data.draw(st.sampled_from(ours))
        member = data.draw(st.tuples(unknown_names(), values()), label="member")
        place = data.draw(st.integers(0, len(holder.members)))
        holder.members.insert(place, (member[0], Raw(member[1])))
        added.append(member)
    written = render(tree, data.draw(spacings())).encode()

    loaded = codec.decode(written)
    saved = codec.encode(loaded)

    note(f"saved: {saved!r}")
    assert all(f"{name}:{text}".encode() in saved for name, text in added)
    assert codec.decode(saved) == loaded
    assert codec.encode(codec.decode(saved)) == saved
    assert without_unknown(loaded) == value


@given(unknown_names(), values(), values())
@example('"x"', "1", "2")
@example('"unknown"', "null", "{}")
def test_two_unknown_members_of_one_name_survive(name: str, first: str, second: str) -> None:
    written = (
        f'{{"type":"user",{name}:{first},"content":[{{"type":"text","text":"a"}}],{name}:{second}}}'
    )
    saved = encode_message(decode_message(written))
    assert f"{name}:{first}".encode() in saved
    assert f"{name}:{second}".encode() in saved


# -- unknown types ---------------------------------------------------------------------------

TAGS = unknown_tags() | st.just("record")
UNKNOWN_MEMBERS = objects(values(), unknown_names())


@st.composite
def unknown_objects(draw: st.DrawFn) -> str:
    """Draw an object of an unknown type, as text; the codec uses the name `record` itself."""
    tag = draw(TAGS, label="tag")
    rest = draw(UNKNOWN_MEMBERS)
    member = f'"type":{quote(tag)}'
    return f"{{{member}}}" if rest == "{}" else f"{{{member},{rest[1:]}"


@pytest.mark.requirement("S2-09")
@given(st.sampled_from((UserMessage, AssistantMessage, ToolResultMessage)), st.data())
def test_an_unknown_block_survives_between_known_ones(kind: Any, data: st.DataObject) -> None:
    message = data.draw(messages().filter(lambda message: type(message) is kind))
    tree = parse(encode_message(message))
    assert isinstance(tree, Object)
    content = tree["content"]
    assert isinstance(content, Array)
    place = data.draw(st.integers(0, len(content.parts)))
    raw = data.draw(unknown_objects() | values().filter(is_no_block_of_ours), label="block")
    content.parts.insert(place, Raw(raw))

    loaded: Any = decode_message(render(tree, data.draw(spacings())))

    saved = encode_message(loaded)
    assert raw.encode() in saved
    assert decode_message(saved) == loaded
    assert encode_message(decode_message(saved)) == saved
    block = loaded.content[place]
    assert isinstance(block, Opaque)
    assert (block.raw, block.origin) == (raw, OWN_FORMAT)
    rest = (*loaded.content[:place], *loaded.content[place + 1 :])
    assert msgspec.structs.replace(loaded, content=rest) == message


def is_no_block_of_ours(raw: str) -> bool:
    return not raw.startswith("{")


@pytest.mark.requirement("S2-09")
@given(st.lists(messages(), max_size=3), unknown_objects(), st.data())
def test_an_unknown_message_survives_between_known_ones(
    found: list[Any], raw: str, data: st.DataObject
) -> None:
    parts = [encode_message(message).decode() for message in found]
    place = data.draw(st.integers(0, len(parts)))
    parts.insert(place, raw)
    spaces = data.draw(spacings())

    loaded = decode_messages(render(Array([Raw(part) for part in parts]), spaces))

    assert [*loaded[:place], *loaded[place + 1 :]] == found
    unknown = loaded[place]
    assert isinstance(unknown, Opaque)
    assert unknown.raw == raw
    saved = encode_messages(loaded)
    assert raw.encode() in saved
    assert decode_messages(saved) == loaded
    assert encode_messages(decode_messages(saved)) == saved
    assert decode_message(raw) == unknown
    assert encode_message(decode_message(raw)) == raw.encode()


@pytest.mark.requirement("S2-09")
@given(entries(), unknown_objects(), st.data())
def test_an_unknown_payload_survives_in_its_entry(
    entry: Entry, raw: str, data: st.DataObject
) -> None:
    tree = parse(encode_entry(entry))
    assert isinstance(tree, Object)
    tree.members = [(key, Raw(raw) if key == '"payload"' else node) for key, node in tree.members]

    loaded = decode_entry(render(tree, data.draw(spacings())))

    saved = encode_entry(loaded)
    assert raw.encode() in saved
    assert decode_entry(saved) == loaded
    assert encode_entry(decode_entry(saved)) == saved
    assert isinstance(loaded.payload, Opaque)
    assert loaded.payload.raw == raw
    assert loaded.message is None
    assert msgspec.structs.replace(loaded, payload=entry.payload) == entry
    assert all(name in json.loads(saved) for name in json.loads(encode_entry(entry)))


@given(documents(), st.data())
def test_a_record_of_another_version_survives_between_known_ones(
    document: Document, data: st.DataObject
) -> None:
    tree = parse(encode_document(document))
    assert isinstance(tree, Object)
    found = tree["entries"] if "entries" in tree else Array([])
    assert isinstance(found, Array)
    parts = found.parts
    place = data.draw(st.integers(0, len(parts)))
    version = data.draw(st.sampled_from(('"v":4,', '"v":"2",', '"v":null,', "")))
    known = data.draw(st.sampled_from(("", '"id":"a",', '"parent":"",', '"id":"","parent":7,')))
    rest = data.draw(UNKNOWN_MEMBERS.filter(lambda text: text != "{}"))
    raw = f"{{{version}{known}{rest[1:]}"
    parts.insert(place, Raw(raw))
    tree.members = [member for member in tree.members if member[0] != '"entries"']
    tree.members.append(('"entries"', Array(parts)))

    loaded = decode_document(render(tree, data.draw(spacings())))

    saved = encode_document(loaded)
    assert raw.encode() in saved
    assert decode_document(saved) == loaded
    assert encode_document(decode_document(saved)) == saved
    rest_of_it = (*loaded.entries[:place], *loaded.entries[place + 1 :])
    assert msgspec.structs.replace(loaded, entries=rest_of_it) == document


@given(unknown_objects(), st.lists(unknown_objects(), max_size=2))
def test_an_image_from_an_unknown_source_survives(source: str, others: list[str]) -> None:
    image = f'{{"type":"image","source":{source},"mode":"vision"}}'
    written = (
        f'{{"type":"user","content":[{",".join([*others, image])},{{"type":"text","text":"a"}}]}}'
    )
    loaded = decode_message(written)
    assert isinstance(loaded, UserMessage)
    assert loaded.content[-1] == Text("a")
    assert encode_message(loaded) == written.encode()


# -- what both need ----------------------------------------------------------------------------


def our_objects(node: Node) -> Iterator[Object]:
    """Yield every object that is a value of steno, at every level."""
    if isinstance(node, Array):
        for part in node.parts:
            yield from our_objects(part)
    elif isinstance(node, Object):
        yield node
        for key, part in node.members:
            if json.loads(key) not in FREE_JSON:
                yield from our_objects(part)


def without_unknown(value: Any) -> Any:
    """Return `value` as if nothing unknown had been with it."""
    if isinstance(value, tuple):
        return tuple(without_unknown(part) for part in value)
    if not isinstance(value, Value) or (isinstance(value, Opaque) and value.origin == OWN_FORMAT):
        return value
    names = [name for name in value.__struct_fields__ if name != "unknown"]
    return type(value)(**{name: without_unknown(getattr(value, name)) for name in names})
