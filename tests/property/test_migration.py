"""Documents of older versions load as if they were current, and nothing in them is lost."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from steno import Image, ImageData, InvalidDocument, Thinking, ToolCall, UnsupportedVersion
from steno.codec import Document, decode_document, encode_document
from tests.property.old_formats import OldCall, OldDocument, OldMessage, flat_chats, sessions
from tests.property.raw_json import Raw, quote, render, spacings, values

old_documents = flat_chats() | sessions()


@pytest.mark.requirement("S2-10", "S2-15", "FR-004a-06")
@given(flat_chats(), st.data())
def test_a_migrated_flat_chat_has_the_same_content(chat: OldDocument, data: st.DataObject) -> None:
    text = render(chat.tree, data.draw(spacings()))
    document = decode_document(text)
    assert tuple(map(read, document.messages)) == chat.said
    assert_saved(document, chat)


@pytest.mark.requirement("S2-10")
@given(sessions(), st.data())
def test_a_migrated_session_of_version_1_has_the_same_content(
    session: OldDocument, data: st.DataObject
) -> None:
    text = render(session.tree, data.draw(spacings()))
    document = decode_document(text)
    assert tuple(map(read, document.messages)) == session.said
    assert_saved(document, session)


@pytest.mark.requirement("NFR-004a-31")
@given(old_documents, st.data())
def test_unknown_members_of_old_documents_survive(old: OldDocument, data: st.DataObject) -> None:
    text = render(old.tree, data.draw(spacings()))
    saved = encode_document(decode_document(text))
    note(f"saved: {saved!r}")
    for name, raw in old.unknown:
        # The name may be escaped in another way, the value may not.
        written = msgspec.json.encode(json.loads(name)) + b":" + raw.encode()
        assert written in saved or f"{name}:{raw}".encode() in saved


@given(old_documents, st.data())
def test_an_old_document_is_read_alike_however_it_is_spaced(
    old: OldDocument, data: st.DataObject
) -> None:
    plain = decode_document(render(old.tree, iter(lambda: "", None)))
    assert decode_document(render(old.tree, data.draw(spacings())).encode()) == plain


MEMBERS = ("content", "tool_calls", "tool_call_id", "type", "function", "arguments", "id", "name")
SHAPES = ("{}", "[{}]", '{{"x":{}}}', '[{{"x":{}}}]', '{{"function":{}}}', '[{{"function":{}}}]')


@given(
    st.sampled_from(("system", "user", "assistant", "tool", "narrator")),
    st.sampled_from(MEMBERS),
    st.sampled_from(SHAPES),
    st.booleans(),
)
def test_members_of_unexpected_shape_in_a_flat_message_are_kept(
    role: str, member: str, shape: str, has_content: bool
) -> None:
    """Never silent loss: data that no migration expects is still data."""
    members = {"role": quote(role), "content": quote("words") if has_content else "null"}
    members[member] = shape.format(quote("mark"))
    text = ",".join(f"{quote(name)}:{raw}" for name, raw in members.items())
    saved = encode_document(decode_document(f"[{{{text}}}]"))
    assert b"mark" in saved


@given(st.booleans(), st.sampled_from(("id", "name", "arguments", "type")), st.sampled_from(SHAPES))
def test_members_of_unexpected_shape_in_an_old_call_are_kept(
    is_flat: bool, member: str, shape: str
) -> None:
    members = {"type": '"tool_call"', "id": '"a"', "name": '"read"', "arguments": "{}"}
    members[member] = shape.format(quote("mark"))
    call = ",".join(f"{quote(name)}:{raw}" for name, raw in members.items())
    text = (
        f'[{{"role":"assistant","tool_calls":[{{{call}}}]}}]'
        if is_flat
        else f'{{"version":1,"messages":[{{"type":"assistant","content":[{{{call}}}]}}]}}'
    )
    saved = encode_document(decode_document(text))
    assert b"mark" in saved


@given(
    st.sampled_from(("id", "name", "arguments", "type", "function")),
    st.sampled_from(("id", "name", "arguments", "type", "function")),
    st.sampled_from(SHAPES),
)
def test_members_of_unexpected_shape_in_a_call_of_openai_are_kept(
    outer: str, inner: str, shape: str
) -> None:
    function = {"name": '"read"', "arguments": '"{}"', inner: shape.format(quote("inside"))}
    held = ",".join(f"{quote(name)}:{raw}" for name, raw in function.items())
    call = {"id": '"a"', "type": '"function"', "function": f"{{{held}}}"}
    if outer != "function":
        call[outer] = quote("outside")
    text = ",".join(f"{quote(name)}:{raw}" for name, raw in call.items())
    saved = encode_document(decode_document(f'[{{"role":"assistant","tool_calls":[{{{text}}}]}}]'))
    assert b"inside" in saved
    assert (b"outside" in saved) == (outer != "function")


SESSION_MEMBERS = ("content", "is_error", "stop_reason", "raw_stop_reason", "usage", "timestamp")


@given(
    st.sampled_from(("user", "assistant", "tool_result", "narrator")),
    st.sampled_from(SESSION_MEMBERS),
    st.sampled_from(SHAPES),
)
def test_members_of_unexpected_shape_in_a_session_message_are_kept(
    tag: str, member: str, shape: str
) -> None:
    members = {"type": quote(tag), "tool_call_id": '"a"', "content": '[{"type":"text","text":"b"}]'}
    members[member] = shape.format(quote("mark"))
    text = ",".join(f"{quote(name)}:{raw}" for name, raw in members.items())
    saved = encode_document(decode_document(f'{{"version":1,"messages":[{{{text}}}]}}'))
    assert b"mark" in saved


@given(st.integers(3, 10**30), values())
def test_a_document_of_a_newer_version_is_refused_by_name(version: int, rest: str) -> None:
    with pytest.raises(UnsupportedVersion):
        decode_document(f'{{"messages":{rest},"version":{version}}}')


@given(values().filter(lambda raw: not raw.lstrip("-").isdigit()))
def test_a_version_that_is_not_a_number_is_refused(version: str) -> None:
    with pytest.raises(InvalidDocument):
        decode_document(f'{{"version":{version},"messages":[]}}')


# -- what both need ----------------------------------------------------------------------------


def assert_saved(document: Document, old: OldDocument) -> None:
    """A document that is saved in the current version keeps its content."""
    saved = encode_document(document)
    assert decode_document(saved) == document
    assert encode_document(decode_document(saved)) == saved
    assert json.loads(saved)["version"] == 2
    assert isinstance(old.tree, Raw) or len(document.entries) == len(old.said)


def read(message: Any) -> OldMessage:
    """Return the meaning of a message, in the form of the generators of old ones."""
    calls = tuple(OldCall(call.id, call.name, call.arguments) for call in message.tool_calls)
    assert all(isinstance(call, ToolCall) for call in message.tool_calls)
    stop = getattr(message, "stop_reason", None)
    if stop == "unknown":
        stop = message.raw_stop_reason or stop
    return OldMessage(
        role=str(message.role),
        text=message.text,
        calls=calls,
        call_id=message.tool_call_id,
        is_error=getattr(message, "is_error", False),
        thinking=tuple(block.text for block in message.content if type(block) is Thinking),
        images=tuple(
            block.source.data
            for block in message.content
            if isinstance(block, Image) and isinstance(block.source, ImageData)
        ),
        stop=stop,
    )
