"""Any input is a value or an InvalidDocument, and a value that was read can be written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from steno import (
    AssistantMessage,
    InvalidArguments,
    InvalidDocument,
    Opaque,
    ToolCall,
    ToolDefinition,
    check_order,
    repair,
)
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
from steno.testing import (
    documents,
    entries,
    json_object_texts,
    messages,
    texts,
    tool_definitions,
)
from steno.testing.strategies.block_strategies import KNOWN_TAGS
from steno.values import Value
from tests.property.raw_json import (
    KNOWN_NAMES,
    Array,
    Node,
    Object,
    Raw,
    objects,
    parse,
    quote,
    render,
    values,
)
from tests.property.rebuild_value import rebuild

CODECS: dict[str, tuple[Callable[[Any], bytes], Callable[[Any], Any]]] = {
    "message": (encode_message, decode_message),
    "messages": (encode_messages, decode_messages),
    "entry": (encode_entry, decode_entry),
    "document": (encode_document, decode_document),
    "tool": (encode_tool, decode_tool),
}
kinds = st.sampled_from(sorted(CODECS))


def check_reading(kind: str, data: str | bytes) -> bytes | None:
    """Read `data`; return it as written again, or None if it was refused."""
    encode, decode = CODECS[kind]
    try:
        loaded = decode(data)
    except InvalidDocument:
        event(f"{kind}: refused")
        return None
    event(f"{kind}: read")
    assert rebuild(loaded) == loaded  # what can be read could have been made, by the same rules
    saved = encode(loaded)
    assert decode(saved) == loaded
    assert encode(decode(saved)) == saved
    assert all(opaque.raw.encode() in saved for opaque in own_opaques(loaded))
    return saved


def own_opaques(value: Any) -> Iterator[Opaque]:
    """Yield every part that was not understood."""
    if isinstance(value, Opaque) and value.origin == OWN_FORMAT:
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from own_opaques(part)
    elif isinstance(value, Value):
        for name in value.__struct_fields__:
            yield from own_opaques(getattr(value, name))


# -- JSON --------------------------------------------------------------------------------------

TIMES = ("2026-01-01T00:00:00Z", "0001-01-01T00:00:00+23:00", "9999-12-31T23:59:59-23:00")
WORDS = (*sorted(KNOWN_TAGS), "steno", "ok", "error", "end_turn", "aW1hZ2U=", "image/png", *TIMES)


@cache
def almost_ours() -> SearchStrategy[str]:
    """JSON text that is made of names and numbers of the format, in random order."""
    words = st.sampled_from(WORDS).map(quote) | st.sampled_from(("1", "2", "0", "-1", "2.5"))
    names = st.sampled_from(sorted(KNOWN_NAMES | {"unknown", "messages", "role"})).map(quote)
    scalars = words | words | values() | values().map(quote)

    def extend(inner: SearchStrategy[str]) -> SearchStrategy[str]:
        return objects(inner, names) | st.lists(inner, max_size=3).map(_array)

    return st.recursive(scalars, extend, max_leaves=12)


def _array(parts: list[str]) -> str:
    return f"[{','.join(parts)}]"


@pytest.mark.requirement("NFR-004a-18", "NFR-004a-26")
@given(kinds, almost_ours() | values())
@example("message", '{"type":"opaque","kind":"x","raw":"5","origin":"steno"}')
@example("message", '{"type":"opaque","kind":"x","raw":"no JSON","origin":"steno"}')
@example("message", '{"type":"opaque","kind":"x","raw":"{}","origin":"steno","more":1}')
@example("entry", '{"parent":""}')
@example("entry", "5")
@example("messages", "[5]")
@example("document", '[{"role":5}]')
@example("document", '{"version":2,"entries":[[]],"id":7}')
def test_any_json_is_read_or_refused(kind: str, text: str) -> None:
    check_reading(kind, text)


@cache
def examples() -> SearchStrategy[tuple[str, bytes]]:
    """Values of every kind, as canonical JSON."""
    return st.one_of(
        st.tuples(st.just("message"), messages().map(encode_message)),
        st.tuples(st.just("entry"), entries().map(encode_entry)),
        st.tuples(st.just("document"), documents().map(encode_document)),
        st.tuples(st.just("tool"), tool_definitions().map(encode_tool)),
    )


@pytest.mark.requirement("NFR-004a-18", "S2-09", "FR-004a-32")
@given(examples(), st.data())
def test_nothing_is_lost_of_a_document_with_odd_parts(
    found: tuple[str, bytes], data: st.DataObject
) -> None:
    """One odd part does not keep the rest from being read."""
    kind, encoded = found
    tree = parse(encoded)
    places = list(slots(tree))
    marks = [f"mark{number}" for number in range(data.draw(st.integers(1, 3)))]
    for mark in marks:
        holder, position = data.draw(st.sampled_from(places))
        shape = data.draw(st.sampled_from(("{}", "[{}]", '{{"a":{}}}', '{{"type":{}}}')))
        put(holder, position, Raw(shape.format(quote(mark))))
    written = render(tree, iter(lambda: "", None))
    saved = check_reading(kind, written)
    if saved is not None:
        # A part may have been put where another, or its parent, was put before.
        left = [mark for mark in marks if quote(mark) in written]
        assert all(quote(mark).encode() in saved for mark in left)


@given(documents(), st.sampled_from(("id", "created_at", "updated_at")), values())
def test_a_document_with_an_odd_header_still_has_its_entries(
    document: Document, name: str, raw: str
) -> None:
    """A session can never be bricked, least of all by its least useful part."""
    tree = parse(encode_document(document))
    assert isinstance(tree, Object)
    tree.members = [member for member in tree.members if member[0] != quote(name)]
    tree.members.append((quote(name), Raw(raw)))
    loaded = decode_document(render(tree, iter(lambda: "", None)))
    assert loaded.entries == document.entries
    assert (
        raw == "null"
        or getattr(loaded, name) is not None
        or raw.encode() in encode_document(loaded)
    )


def slots(node: Node) -> Iterator[tuple[Array | Object, int]]:
    """Yield the place of every value in the tree."""
    if isinstance(node, Raw):
        return
    parts = node.parts if isinstance(node, Array) else [part for _, part in node.members]
    for position, part in enumerate(parts):
        yield node, position
        yield from slots(part)


def put(holder: Array | Object, position: int, part: Node) -> None:
    if isinstance(holder, Array):
        holder.parts[position] = part
    else:
        holder.members[position] = (holder.members[position][0], part)


@given(examples(), st.data())
def test_a_missing_or_repeated_part_is_read_or_refused(
    found: tuple[str, bytes], data: st.DataObject
) -> None:
    kind, encoded = found
    tree = parse(encoded)
    for _ in range(data.draw(st.integers(1, 3))):
        places = list(slots(tree))
        if not places:
            break
        holder, position = data.draw(st.sampled_from(places))
        parts: list[Any] = holder.parts if isinstance(holder, Array) else holder.members
        if data.draw(st.booleans()):
            del parts[position]
        else:
            parts.insert(data.draw(st.integers(0, len(parts))), parts[position])
    check_reading(kind, render(tree, iter(lambda: "", None)))


# -- what is read keeps the rules ----------------------------------------------------------------


@pytest.mark.requirement("FR-004a-32", "FR-004a-46", "FR-004a-53")
@given(texts() | values() | json_object_texts(), json_object_texts() | values() | texts())
@example('{"a":1e400}', "{}")
@example('{"a":' + "9" * 5_000 + "}", "{}")
@example('{"a":' * 300 + "1" + "}" * 300, "{}")
@example('{"a":"\\ud800"}', "{}")
@example("no JSON", "no JSON")
def test_a_call_that_was_read_keeps_the_rules_of_one_that_was_made(one: str, other: str) -> None:
    """A call that cannot be run is never a ToolCall, and never in the way of a repair."""
    calls = [
        {"type": "tool_call", "id": "a", "name": "read", "arguments": arguments}
        for arguments in (one, other)
    ]
    loaded = decode_message(json.dumps({"type": "assistant", "content": calls}))
    assert isinstance(loaded, AssistantMessage)
    assert rebuild(loaded) == loaded
    assert [(call.id, call.arguments) for call in loaded.tool_calls] == [("a", one), ("a", other)]
    for call in loaded.content:
        if isinstance(call, ToolCall):
            check_use(call)
    assert check_order(repair([loaded]).messages) == ()


@given(values() | json_object_texts().map(str.strip))
def test_arguments_that_were_stored_as_json_are_its_text(raw: str) -> None:
    call = f'{{"type":"tool_call","id":"a","name":"read","arguments":{raw}}}'
    loaded = decode_message(f'{{"type":"assistant","content":[{call}]}}')
    assert isinstance(loaded, AssistantMessage)
    (read,) = loaded.tool_calls
    assert read.arguments == (json.loads(raw) if raw.startswith('"') else raw)
    assert decode_message(encode_message(loaded)) == loaded


@pytest.mark.requirement("FR-004a-32", "FR-004a-87")
@given(
    st.sampled_from(("properties", "required", "items", "anyOf", "$defs", "type", "x")),
    almost_ours() | values(),
    st.booleans(),
)
@example("properties", "[1]", True)
@example("required", "[1]", False)
def test_a_tool_that_was_read_keeps_the_rules_of_one_that_was_made(
    keyword: str, raw: str, strict: bool
) -> None:
    schema = f'{{"type":"object",{quote(keyword)}:{raw}}}'
    text = f'{{"name":"a","description":"b","parameters":{schema},"strict":{json.dumps(strict)}}}'
    check_reading("tool", text)


def check_use(call: ToolCall) -> None:
    """The arguments are JSON; if Python has no value for them, every access raises an error."""
    try:
        assert call.parsed is not None
    except InvalidArguments:
        tool = ToolDefinition(name="read", description="Read.", parameters={"type": "object"})
        assert tool.check(call) != ()


@given(documents(), st.data())
def test_every_decoded_history_can_be_repaired(document: Document, data: st.DataObject) -> None:
    tree = parse(encode_document(document))
    places = list(slots(tree))
    for _ in range(data.draw(st.integers(1, 3)) if places else 0):
        holder, position = data.draw(st.sampled_from(places))
        put(holder, position, Raw(data.draw(almost_ours())))
    try:
        loaded = decode_document(render(tree, iter(lambda: "", None)))
    except InvalidDocument:
        return
    repaired = repair(loaded.messages)
    assert repair(repaired.messages).issues == ()


# -- bytes -------------------------------------------------------------------------------------


@pytest.mark.requirement("NFR-004a-18", "NFR-004a-26")
@given(kinds, st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_read_or_refused(kind: str, data: bytes) -> None:
    check_reading(kind, data)


@given(kinds, st.text())
def test_any_text_is_read_or_refused(kind: str, text: str) -> None:
    check_reading(kind, text)


@given(examples(), st.data())
def test_a_torn_record_is_read_or_refused(found: tuple[str, bytes], data: st.DataObject) -> None:
    kind, encoded = found
    start = data.draw(st.integers(0, len(encoded)))
    end = data.draw(st.integers(start, len(encoded)))
    filling = data.draw(st.binary(max_size=4) | st.sampled_from((b"\xff", b'"', b"{", b"\\ud800")))
    check_reading(kind, encoded[:start] + filling + encoded[end:])


@given(examples())
def test_a_byte_order_mark_does_not_matter(found: tuple[str, bytes]) -> None:
    kind, encoded = found
    assert check_reading(kind, b"\xef\xbb\xbf" + encoded) == encoded
    assert check_reading(kind, "\ufeff" + encoded.decode()) == encoded


# -- depth -------------------------------------------------------------------------------------

DEPTHS = st.integers(1, 600) | st.sampled_from((900, 1_100, 3_000, 20_000))
SHAPES = {
    "message": (
        '{{"type":"user","content":[{{"type":"text","text":"a"}}],"x":{}}}',
        '{{"type":"user","content":{}}}',
        '{{"type":"user","content":[{{"type":"audio","x":{}}}]}}',
        '{{"type":"tool_result","tool_call_id":"a","content":[],"details":{{"x":{}}}}}',
        '{{"type":{}}}',
        "{}",
    ),
    "messages": ("[{}]", '[{{"type":"x","x":{}}}]'),
    "entry": ('{{"v":2,"id":"a","payload":{}}}', '{{"v":{}}}', '{{"v":2,"id":{},"payload":1}}'),
    "document": (
        '{{"version":2,"entries":{}}}',
        '{{"version":1,"messages":[{{"type":"user","content":{}}}]}}',
        '[{{"role":"user","content":"a","x":{}}}]',
        '{{"version":{}}}',
    ),
    "tool": (
        '{{"name":"a","description":"b","parameters":{{"type":"object","x":{}}}}}',
        '{{"name":"a","description":"b","parameters":{{"type":"object","properties":{}}}}}',
    ),
}


@pytest.mark.requirement("NFR-004a-27")
@given(kinds, DEPTHS, st.sampled_from(("[{}]", '{{"a":{}}}')), st.data())
def test_json_of_any_depth_is_read_or_refused(
    kind: str, depth: int, shape: str, data: st.DataObject
) -> None:
    opening, closing = shape.format("{}").split("{}")
    whole = data.draw(st.sampled_from(SHAPES[kind]))
    deep = f"{opening * depth}1{closing * depth}"
    saved = check_reading(kind, whole.format(deep))
    if saved is not None and '"x":{}' in whole and kind != "tool" and "details" not in whole:
        assert deep.encode() in saved


@given(kinds, DEPTHS, st.sampled_from(("[", '{"a":')), st.data())
def test_deep_text_that_is_not_json_is_refused(
    kind: str, depth: int, opening: str, data: st.DataObject
) -> None:
    _, decode = CODECS[kind]
    whole = data.draw(st.sampled_from(SHAPES[kind]))
    with pytest.raises(InvalidDocument):
        decode(whole.format(opening * depth + "1"))
