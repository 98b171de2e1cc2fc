"""Written values can be read, and are written in the same way every time."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from steno import Request, ToolDefinition
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
from steno.messages.message import Message
from steno.records.entry import Entry
from steno.testing import (
    conversations,
    documents,
    entries,
    messages,
    requests,
    tool_definitions,
)
from tests.property.rebuild_value import rebuild

lists_of_messages = st.lists(messages(), max_size=4).map(tuple)


@pytest.mark.requirement("FR-004a-23", "FR-004a-24", "FR-004a-47", "FR-004a-48", "FR-004a-65")
@pytest.mark.requirement("S0-V5", "S2-01", "S2-05")
@given(messages())
def test_a_message_comes_back_equal_from_json(message: Message) -> None:
    assert decode_message(encode_message(message)) == message


@pytest.mark.requirement("FR-004a-114")
@given(lists_of_messages)
def test_messages_come_back_equal_from_json(found: tuple[Message, ...]) -> None:
    assert decode_messages(encode_messages(found)) == found


@pytest.mark.requirement("S2-04", "S2-06")
@given(entries())
def test_an_entry_comes_back_equal_from_json(entry: Entry) -> None:
    assert decode_entry(encode_entry(entry)) == entry


@given(documents())
def test_a_document_comes_back_equal_from_json(document: Document) -> None:
    assert decode_document(encode_document(document)) == document


@pytest.mark.requirement("FR-004a-114")
@given(conversations())
def test_a_conversation_comes_back_equal_from_its_document(found: tuple[Message, ...]) -> None:
    assert decode_document(encode_document(Document.of(found))).messages == found


@given(messages())
def test_text_and_bytes_are_read_alike(message: Message) -> None:
    encoded = encode_message(message)
    assert decode_message(encoded.decode()) == decode_message(encoded)


class Codec(NamedTuple):
    values: SearchStrategy[Any]
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


CODECS = {
    "message": Codec(messages(), encode_message, decode_message),
    "messages": Codec(lists_of_messages, encode_messages, decode_messages),
    "entry": Codec(entries(), encode_entry, decode_entry),
    "document": Codec(documents(), encode_document, decode_document),
    "tool": Codec(tool_definitions(), encode_tool, decode_tool),
}
each_kind = pytest.mark.parametrize("kind", CODECS)


@each_kind
@given(data=st.data())
def test_a_round_trip_gives_the_same_bytes(kind: str, data: st.DataObject) -> None:
    codec = CODECS[kind]
    encoded = codec.encode(data.draw(codec.values))
    assert codec.encode(codec.decode(encoded)) == encoded


@each_kind
@given(data=st.data())
def test_equal_values_are_written_as_equal_bytes(kind: str, data: st.DataObject) -> None:
    """The digest of an entry is taken over these bytes."""
    codec = CODECS[kind]
    value = data.draw(codec.values)
    for twin in (pickle.loads(pickle.dumps(value)), rebuild(value), rebuild(value, sparse=True)):
        assert twin == value
        assert codec.encode(twin) == codec.encode(value)


@each_kind
@given(data=st.data())
def test_output_is_strict_json_on_one_line(kind: str, data: st.DataObject) -> None:
    codec = CODECS[kind]
    encoded = codec.encode(data.draw(codec.values))
    assert not set(b"\r\n") & set(encoded)
    json.loads(encoded, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.mark.requirement("FR-004a-25", "FR-004a-26")
@given(messages())
def test_defaults_are_not_written(message: Message) -> None:
    written = json.loads(encode_message(message))
    present = {name for name in message.__struct_fields__ if getattr(message, name) is not None}
    assert written.keys() <= {"type", *present}
    assert None not in written.values()


@pytest.mark.requirement("FR-004a-85")
@given(tool_definitions())
def test_a_definition_comes_back_equal_from_json(tool: ToolDefinition) -> None:
    assert decode_tool(encode_tool(tool)) == tool


@given(requests())
def test_a_request_can_be_copied_through_its_fields(request_: Request) -> None:
    fields = {name: getattr(request_, name) for name in request_.__struct_fields__}
    assert Request(**fields) == request_
