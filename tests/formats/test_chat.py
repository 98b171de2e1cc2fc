"""Flat chat lists, there and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno import (
    AssistantMessage,
    ChatMessage,
    Entry,
    InvalidDocument,
    Opaque,
    Outcome,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from steno.formats import FORMATS
from steno.messages.change import Change, ChangeCode
from steno.records.stored_record import Header
from steno.testing import entries
from tests.property.old_formats import OldDocument, flat_chats
from tests.property.raw_json import render, spacings

CHAT = FORMATS["chat"]
GOLDEN = Path(__file__).parents[1] / "data" / "golden"
HEADER = Header(id="s")


def listed(*payloads: ChatMessage) -> list[Entry]:
    return [Entry(id=f"e{n}", payload=payload) for n, payload in enumerate(payloads)]  # type: ignore[arg-type] # a message is a payload


def test_messages_are_written_flat() -> None:
    found = listed(
        ChatMessage.system("Be brief."),
        ChatMessage.user([Text("Hi"), Text("there")]),
        ChatMessage.assistant(None, [ToolCall(id="a", name="read", arguments='{"n": 1.0}')]),
        ChatMessage.tool_result("a", "no", outcome=Outcome.ERROR, tool_name="read"),
        ChatMessage.assistant("I see."),
    )
    exported = CHAT.encode(HEADER, found)
    assert json.loads(exported.data) == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "there"}],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"n": 1.0}'},
                }
            ],
        },
        {"role": "tool", "content": "no", "tool_call_id": "a", "is_error": True},
        {"role": "assistant", "content": "I see."},
    ]
    assert exported.losses == (
        Change(ChangeCode.NOT_EXPORTED, "fields", "session", names=("id",)),
        Change(ChangeCode.NOT_EXPORTED, "ids_and_times", "entries"),
    )


@pytest.mark.parametrize("name", ["v0_flat_chat", "v0_openai_calls"])
def test_the_golden_lists_are_written_with_the_same_content(name: str) -> None:
    imported = CHAT.decode((GOLDEN / f"{name}.json").read_bytes())
    again = CHAT.decode(CHAT.encode(*imported).data)
    assert [entry.payload for entry in again.entries] == [
        entry.payload for entry in imported.entries
    ]
    assert again.header.about == imported.header.about


@given(flat_chats(), st.data())
def test_any_list_that_was_read_is_written_with_the_same_content(
    chat: OldDocument, data: st.DataObject
) -> None:
    imported = CHAT.decode(render(chat.tree, data.draw(spacings())).encode())
    exported = CHAT.encode(*imported)
    again = CHAT.decode(exported.data)
    assert [entry.payload for entry in again.entries] == [
        entry.payload for entry in imported.entries
    ]
    assert not [loss for loss in exported.losses if loss.place.startswith("entries[")]
    assert CHAT.encode(*again).data == exported.data


def test_roles_that_only_others_know_are_kept_and_written_back() -> None:
    data = b'[{"role": "user", "content": "Hi"},{"role": "critic", "content": [1.50]}]'
    imported = CHAT.decode(data)
    assert isinstance(imported.entries[1].payload, Opaque)
    assert json.loads(CHAT.encode(*imported).data) == json.loads(data)


def test_content_that_a_list_cannot_express_is_reported() -> None:
    found = listed(
        AssistantMessage(content=(Thinking("Hm."), Text("a")), raw_stop_reason="stop"),
        ChatMessage.tool_result("x", "a", tool_name="read", outcome=Outcome.TIMEOUT),
        AssistantMessage(content=(ToolCall(id="a", name="read"), Text("behind"))),
    )
    losses = CHAT.encode(HEADER, found).losses[2:]
    assert [loss.entry for loss in losses] == [entry.id for entry in found]
    assert [(loss.place, loss.reason, loss.names, loss.value) for loss in losses] == [
        ("entries[0]", "fields", ("raw_stop_reason", "content[0] (thinking)"), ""),
        ("entries[1]", "fields", ("outcome", "tool_name"), "timeout"),
        ("entries[2]", "exact_form", (), ""),
    ]


@given(st.lists(entries(), max_size=3))
def test_every_difference_after_a_round_trip_is_reported(found: list[Entry]) -> None:
    exported = CHAT.encode(HEADER, found)
    reported = {loss.place for loss in exported.losses}
    back = [entry.payload for entry in CHAT.decode(exported.data).entries]
    for number, entry in enumerate(found):
        payload = entry.payload
        if isinstance(payload, ToolResult):
            payload = ToolResult(
                tool_call_id=payload.tool_call_id, content=payload.content, outcome=payload.outcome
            )
        assert f"entries[{number}]" in reported or payload in back


@pytest.mark.parametrize(
    "data",
    [b"{}", b'{"messages":5}', b'{"version":1,"messages":[]}', b'[{"kind":"user"}]', b"5"],
)
def test_documents_that_are_not_a_flat_list_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidDocument):
        CHAT.decode(data)


def test_a_prompt_beside_the_list_becomes_a_message() -> None:
    imported = CHAT.decode(b'{"system_prompt":"Be brief.","model":"m","messages":[]}')
    assert json.loads(CHAT.encode(*imported).data) == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}],
    }
