"""Half a character never gets in: refused by values, replaced and recorded at the door.

A lone surrogate cannot be written as UTF-8, and a history that holds one can never be sent again
(claude-code#68325, opencode#17758).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from steno import (
    Assembler,
    AssistantMessage,
    ChatMessage,
    Conversation,
    Event,
    Finished,
    InvalidValue,
    Request,
    StopReason,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallBegin,
    ToolCallDelta,
    ToolResult,
    UserMessage,
    replace_lone_surrogates,
)
from steno.codec import (
    decode_document,
    decode_entry,
    decode_message,
    encode_document,
    encode_entry,
    encode_message,
)
from steno.json_object import JsonObject
from steno.store import Store, open_store
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
from steno.wire import WIRES, load_wire
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


fillers = st.sampled_from(("a", "é", "漢", "😀", "a漢", "é\ud7ff\ue000", "a漢é😀"))
"""Characters of 1, 2 and 4 bytes in memory, and the neighbours of the surrogates."""


@pytest.mark.requirement("NFR-004a-06", "NFR-004a-30")
@given(fillers, st.integers(0, 70_000), st.sampled_from(HALVES), st.integers(0, 70_000))
@example("é", 16_383, "\ud83d", 16_384)
@example("é", 16_384, "\ude00", 0)
def test_half_a_character_is_found_at_any_place_of_a_long_text(
    filler: str, before: int, half: str, after: int
) -> None:
    """Long text is scanned in slices; no slice and no border between two is left out."""
    start, end = ((filler * (length // len(filler) + 1))[:length] for length in (before, after))
    assert Text(f"{start}.{end}").text == f"{start}.{end}"
    with pytest.raises(InvalidValue) as caught:
        Text(start + half + end)
    assert caught.value.code == "lone_surrogate"
    assert replace_lone_surrogates(start + half + end) == f"{start}\ufffd{end}"


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


# -- stores and providers ------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["memory:", "jsonl:", "sqlite:"])
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    place = "" if request.param == "memory:" else str(tmp_path_factory.mktemp("store") / "sessions")
    with open_store(request.param + place) as opened:
        yield opened


APPENDS: dict[str, Callable[[Conversation, str], object]] = {
    "user text": lambda log, text: log.append(ChatMessage.user(text)),
    "assistant text": lambda log, text: log.append(ChatMessage.assistant(text)),
    "thinking": lambda log, text: log.append(AssistantMessage(content=(Thinking(text),))),
    "call id": lambda log, text: append_call(log, id=text),
    "arguments": lambda log, text: append_call(log, arguments=f'{{"a": "{text}"}}'),
    "result": lambda log, text: append_result(log, text),
    "details": lambda log, text: append_result(log, "", details={text: [text]}),
    "decision": lambda log, text: log.append(ChatMessage.user("Go on."), decision=text),
    "audit": lambda log, text: log.append(ChatMessage.user("Go on."), audit={"a": [text]}),
    "label": lambda log, text: log.label(log.entries()[0], text),
    "model": lambda log, text: log.change_model(text),
    "branch": lambda log, text: log.fork(text),
}
"""The ways in which the text of a caller gets into a session."""


def append_call(log: Conversation, *, id: str = "a", arguments: str = "{}") -> None:
    log.append(ChatMessage.assistant(None, [ToolCall(id=id, name="read", arguments=arguments)]))


def append_result(log: Conversation, text: str, **fields: Any) -> None:
    append_call(log)
    log.append(ChatMessage.tool_result("a", text, **fields))


@pytest.mark.requirement("NFR-004a-30")
@pytest.mark.parametrize("way", APPENDS)
@given(text=st.text(st.sampled_from(HALVES + "aé漢😀"), max_size=6).map("a{}".format))
def test_half_a_character_of_a_caller_reaches_no_store(store: Store, way: str, text: str) -> None:
    log = store.new([ChatMessage.user("Begin.")])
    if oracle(text) == text:
        APPENDS[way](log, text)
        assert text in read_all(store, log.id)
        return
    with pytest.raises(InvalidValue):
        APPENDS[way](log, text)
    assert_whole_characters(read_all(store, log.id))


@pytest.mark.requirement("NFR-004a-30", "NFR-004a-14")
@given(
    st.sampled_from(("text", "thinking", "id", "name", "arguments", "raw_stop_reason")),
    broken_texts.map("a{}".format),
)
def test_half_a_character_of_a_model_reaches_neither_a_store_nor_a_provider(
    store: Store, field: str, text: str
) -> None:
    sent = {"text": "Yes.", "thinking": "", "id": "a", "name": "read", "arguments": "{}"}
    sent[field] = text
    found: list[Event] = [
        ThinkingDelta(0, sent["thinking"]),
        TextDelta(1, sent["text"]),
        ToolCallBegin(0, sent["id"], sent["name"]),
        ToolCallDelta(0, arguments_delta=sent["arguments"]),
        Finished(StopReason.TOOL_USE, sent.get("raw_stop_reason")),
    ]
    assembler = Assembler()
    for event in found:
        assembler.feed(event)
    message = assembler.message()
    log = store.new([ChatMessage.user("Begin."), message])
    log.append(ChatMessage.tool_result(message.tool_calls[0].id, "Read."))
    assert store.open(log.id).messages()[1] == message
    assert_whole_characters(read_all(store, log.id))
    for wire in WIRES:
        encoded = load_wire(wire).encode_request(Request(model="m", messages=log.messages()))
        assert_whole_characters(json.dumps(json.loads(encoded.body), ensure_ascii=False))


@pytest.mark.requirement("NFR-004a-30")
@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_no_file_of_a_store_contains_half_a_character(kind: str, tmp_path: Path) -> None:
    """The bytes are searched, because a store replaces half a character when it reads a record."""
    with open_store(f"{kind}:{tmp_path / 'sessions'}") as store:
        for half in HALVES:
            for append in APPENDS.values():
                with pytest.raises(InvalidValue):
                    append(store.new([ChatMessage.user("Begin.")]), f"mark{half}")
            assembler = Assembler()
            assembler.feed(TextDelta(0, f"mark{half}"))
            store.new([ChatMessage.user("Begin."), assembler.message()])
    stored = b"".join([file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()])
    assert "mark\ufffd".encode() in stored
    assert rb"mark\u" not in stored
    for half in HALVES:
        assert f"mark{half}".encode("utf-8", "surrogatepass") not in stored


def read_all(store: Store, session: str) -> str:
    """Return everything that the store holds of a session, without JSON escapes."""
    opened = store.open(session)
    entries = [json.loads(encode_entry(entry)) for entry in opened.entries()]
    arguments = [call.arguments for message in opened.messages() for call in message.tool_calls]
    whole = [entries, arguments, list(opened.branches), store.summary(session).title]
    return json.dumps(whole, ensure_ascii=False)


def assert_whole_characters(text: str) -> None:
    assert re.search("[\ud800-\udfff]", text) is None
