"""Flat chat lists, there and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

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
from steno.codec import encode_header
from steno.formats import FORMATS, detect_format
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
    exported = CHAT.encode(*imported).data
    assert json.loads(exported) == json.loads((GOLDEN / f"{name}.json").read_bytes())
    again = CHAT.decode(exported)
    assert [entry.payload for entry in again.entries] == [
        entry.payload for entry in imported.entries
    ]
    assert again.header.about == imported.header.about


@given(flat_chats(), st.data())
def test_any_list_that_was_read_is_written_with_the_same_content(
    chat: OldDocument, data: st.DataObject
) -> None:
    raw = render(chat.tree, data.draw(spacings()))
    imported = CHAT.decode(raw.encode())
    exported = CHAT.encode(*imported)
    again = CHAT.decode(exported.data)
    assert [entry.payload for entry in again.entries] == [
        entry.payload for entry in imported.entries
    ]
    assert not [loss for loss in exported.losses if loss.place.startswith("entries[")]
    assert CHAT.encode(*again).data == exported.data
    assert json.loads(exported.data) == json.loads(raw)


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


@pytest.mark.parametrize("prompt", ["Be brief.", "", None, 5])
def test_a_prompt_beside_the_list_is_written_there(prompt: object) -> None:
    file = {"system_prompt": prompt, "model": "m", "messages": []}
    imported = CHAT.decode(json.dumps(file).encode())
    assert [entry.payload for entry in imported.entries] == (
        [ChatMessage.system(prompt)] if isinstance(prompt, str) and prompt else []
    )
    assert json.loads(CHAT.encode(*imported).data) == file


def test_a_prompt_that_was_replaced_is_written_instead_of_the_old_one() -> None:
    header, _ = CHAT.decode(b'{"system_prompt":"Be brief.","messages":[]}')
    assert b"brief" not in encode_header(header)  # a redaction of the entry removes the prompt
    new = listed(ChatMessage.system("Be long."), ChatMessage.user("Hi"))
    assert json.loads(CHAT.encode(header, new).data) == {
        "system_prompt": "Be long.",
        "messages": [{"role": "user", "content": "Hi"}],
    }
    other = listed(ChatMessage.user("Hi"))
    assert json.loads(CHAT.encode(header, other).data) == {
        "messages": [{"role": "user", "content": "Hi"}]
    }


# -- the form of the file ------------------------------------------------------------------------

USER = {"role": "user", "content": "Write a hello world program"}
ARGUMENTS = {"path": "hello.cs", "content": 'Console.WriteLine("Hello, World!");'}
FLAT_CALL = {"id": "call_001", "name": "write_file", "arguments": ARGUMENTS}
OPENAI_CALL = {
    "id": "call_001",
    "type": "function",
    "function": {"name": "write_file", "arguments": json.dumps(ARGUMENTS)},
}
FLAT_TURN = {"role": "assistant", "content": None, "tool_calls": [FLAT_CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_001", "content": "File written successfully"}


@pytest.mark.requirement("FR-004a-23", "FR-004a-24", "S2-10")
@pytest.mark.parametrize(
    "file",
    [
        USER,
        FLAT_TURN,
        RESULT,
        [USER, FLAT_TURN, RESULT],
        [USER, FLAT_TURN | {"tool_calls": [OPENAI_CALL]}, RESULT],
        [USER, FLAT_TURN | {"tool_calls": [FLAT_CALL, OPENAI_CALL]}, RESULT],
        [FLAT_TURN | {"content": ""}],
        [FLAT_TURN | {"content": "I write.", "refusal": None}],
        [{"role": "assistant", "tool_calls": [FLAT_CALL | {"name": "fs.write"}]}],
        [FLAT_TURN | {"tool_calls": [FLAT_CALL | {"arguments": json.dumps(ARGUMENTS)}]}],
        [FLAT_TURN | {"tool_calls": [{"function": {"name": "f", "arguments": {}}}]}],
        [FLAT_TURN | {"tool_calls": [FLAT_CALL | {"arguments": [1]}, FLAT_CALL | {"id": None}]}],
        [{"role": "assistant", "content": "Done.", "tool_calls": []}],
        [{"role": "assistant", "content": "Done.", "tool_calls": None}],
        [{"role": "Developer", "content": "Be brief."}],
        [RESULT | {"tool_name": "write_file", "is_error": False}],
        [RESULT | {"timestamp": "2026-02-18T12:00:00.123456789+02:00"}],
        [USER, {"type": "user", "content": [{"type": "text", "text": "Hi"}]}],
        [{"role": "assistant", "content": "Hi", "usage": {"input_tokens": 1}}],
        {"messages": [USER]},
        {"messages": []},
        {"version": 0, "id": "s", "model": "m", "messages": [USER]},
    ],
    ids=str,
)
def test_a_file_is_written_as_it_was(file: object) -> None:
    data = json.dumps(file).encode()
    assert detect_format(data) == "chat"
    imported = CHAT.decode(data)
    assert not any(isinstance(entry.payload, Opaque) for entry in imported.entries)
    exported = CHAT.encode(*imported)
    assert json.loads(exported.data) == file
    assert not [loss for loss in exported.losses if loss.place.startswith("entries[")]


@pytest.mark.parametrize(
    ("first", "written"),
    [
        (FLAT_CALL, {"id": "new", "name": "read", "arguments": {"n": 1}}),
        (
            FLAT_CALL | {"arguments": "{}"},
            {"id": "new", "name": "read", "arguments": '{"n": 1}'},
        ),
        (
            OPENAI_CALL,
            {
                "id": "new",
                "type": "function",
                "function": {"name": "read", "arguments": '{"n": 1}'},
            },
        ),
    ],
)
def test_new_calls_have_the_form_of_the_file(first: object, written: object) -> None:
    imported = CHAT.decode(json.dumps([USER, FLAT_TURN | {"tool_calls": [first]}, RESULT]).encode())
    call = ToolCall(id="new", name="read", arguments='{"n": 1}')
    new = listed(ChatMessage.assistant(None, [call]))
    exported = json.loads(CHAT.encode(imported.header, [*imported.entries, *new]).data)
    assert exported[1]["tool_calls"] == [first]
    assert exported[3] == {"role": "assistant", "content": None, "tool_calls": [written]}


def test_a_single_message_that_was_continued_is_a_list() -> None:
    imported = CHAT.decode(json.dumps(USER).encode())
    more = [*imported.entries, *listed(ChatMessage.assistant("Yes."))]
    exported = json.loads(CHAT.encode(imported.header, more).data)
    assert exported == [USER, {"role": "assistant", "content": "Yes."}]


def test_a_message_that_was_changed_is_written_as_it_is_now() -> None:
    imported = CHAT.decode(b'[{"role": "USER", "content": "Hi"}]')
    [entry] = imported.entries
    changed = replace(entry, payload=ChatMessage.assistant("Hello"))
    assert json.loads(CHAT.encode(imported.header, [changed]).data) == [
        {"role": "assistant", "content": "Hello"}
    ]


def test_the_object_around_a_list_that_an_earlier_version_imported_is_written() -> None:
    header = Header(id="s", about={"chat": {"model": '"m"'}})
    exported = CHAT.encode(header, listed(ChatMessage.user("Hi")))
    assert json.loads(exported.data) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
    }


@pytest.mark.parametrize("about", [5, {"calls": {}, "members": 5}, {"calls": {"text": "x"}}, {}])
def test_any_stored_form_can_be_written(about: object) -> None:
    exported = CHAT.encode(Header(id="s", about={"chat": about}), listed(ChatMessage.user("Hi")))
    again = CHAT.decode(exported.data)
    assert [entry.payload for entry in again.entries] == [ChatMessage.user("Hi")]


@pytest.mark.parametrize("audit", [5, {"role": None}, {"content": "{"}, {"role": "5"}, {}])
def test_any_stored_members_can_be_written(audit: object) -> None:
    entry = Entry(id="e", payload=ChatMessage.user("Hi"), audit={"chat": audit})
    exported = CHAT.encode(HEADER, [entry])
    assert json.loads(exported.data) == [{"role": "user", "content": "Hi"}]


def test_an_export_names_the_type_of_an_unknown_entry() -> None:
    unknown = Opaque(kind="vote", raw='{"type":"vote"}', origin="steno")
    entries = [*listed(ChatMessage.user("Hi")), Entry(id="e9", payload=unknown)]
    losses = CHAT.encode(Header(id="s"), entries).losses
    assert ("opaque vote",) in [loss.names for loss in losses]
