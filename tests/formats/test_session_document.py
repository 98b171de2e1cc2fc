"""Session files of version 1, there and back."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno import (
    AssistantMessage,
    ChatMessage,
    Entry,
    Image,
    ImageData,
    InvalidDocument,
    InvalidToolCall,
    Opaque,
    Outcome,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from steno.formats import FORMATS, build_records
from steno.messages.change import Change, ChangeCode
from steno.records.stored_record import Header
from steno.store import MemoryStore
from steno.testing import entries
from steno.testing.strategies.block_strategies import json_members, json_values
from tests.every_payload import DOCUMENT, SEAL
from tests.formats.sample_files import SESSION_EXAMPLE
from tests.property.old_formats import OldDocument, sessions
from tests.property.raw_json import render, spacings

SESSION = FORMATS["session"]
GOLDEN = Path(__file__).parents[1] / "data" / "golden" / "v1_session.json"
NOON = datetime(2026, 2, 18, 12, tzinfo=UTC)


def saved(data: bytes) -> Any:
    imported = SESSION.decode(data)
    exported = SESSION.encode(*imported)
    assert exported.losses == ()
    assert SESSION.encode(*SESSION.decode(exported.data)).data == exported.data
    return json.loads(exported.data)


def written(*payloads: Any, header: Header | None = None) -> Any:
    listed = [Entry(id=f"m{n}", time=NOON, payload=one) for n, one in enumerate(payloads, start=1)]
    return json.loads(SESSION.encode(header or Header(id="s"), listed).data)


# -- what was read is written as it was ----------------------------------------------------------


@pytest.mark.requirement("S4-11")
@pytest.mark.parametrize("data", [SESSION_EXAMPLE, GOLDEN.read_bytes()], ids=["document", "golden"])
def test_a_file_that_was_read_is_written_as_it_was(data: bytes) -> None:
    assert saved(data) == json.loads(data)


@pytest.mark.requirement("S4-11")
@given(sessions(), st.data())
def test_any_file_that_was_read_is_written_as_it_was(
    session: OldDocument, data: st.DataObject
) -> None:
    """Zones, nanoseconds, unset times, other reasons to stop, unknown members."""
    text = render(session.tree, data.draw(spacings()))
    assert saved(text.encode()) == json.loads(text)


MESSAGES: tuple[Any, ...] = (
    {"type": "user", "content": [{"type": "text", "text": "a"}]},
    {"type": "user", "content": [{"type": "text", "text": " "}]},
    {"type": "user", "content": "text"},
    {"type": "system", "content": [{"type": "text", "text": "Later rule."}]},
    {"type": "assistant", "content": [], "stop_reason": None, "usage": None},
    {"type": "assistant", "content": [{"type": "audio"}], "stop_reason": "x", "raw_stop_reason": "y"},
    {"type": "assistant", "content": [{"type": "tool_call", "id": "", "name": "a.b"}]},
    {"type": "assistant", "content": [{"type": "tool_call", "id": "a", "name": "", "arguments": "{"}]},
    {"type": "tool_result", "tool_call_id": "a", "content": [], "is_error": "no"},
    {"type": "user", "content": [{"type": "text", "text": "a"}], "timestamp": "0001-01-01T00:00:00+23:00"},
    {"type": 5},
    {"timestamp": "2026-02-18T12:00:00Z"},
    7,
    None,
    [],
)  # fmt: skip


@pytest.mark.requirement("S4-11")
@given(st.lists(st.sampled_from(MESSAGES), max_size=4), json_members(max_leaves=4))
def test_odd_files_are_written_as_they_were(listed: list[Any], top: dict[str, Any]) -> None:
    document = top | {"version": 1, "messages": listed}
    assert saved(json.dumps(document).encode()) == document


@pytest.mark.requirement("S4-11")
@given(
    st.sampled_from(("id", "system_prompt", "created_at", "updated_at")), json_values(max_leaves=3)
)
def test_odd_headers_are_written_as_they_were(name: str, value: Any) -> None:
    document = {"version": 1, name: value, "messages": []}
    assert saved(json.dumps(document).encode()) == document


@pytest.mark.requirement("S4-11")
def test_a_session_that_continued_in_a_store_is_written_with_the_new_entries() -> None:
    store = MemoryStore()
    imported = SESSION.decode(SESSION_EXAMPLE)
    store.add_session(imported.header, build_records(imported.entries))
    conversation = store.open("session-id")
    conversation.append(ChatMessage.assistant("Done."))
    assert store.verify("session-id").is_intact
    exported = SESSION.encode(store.header("session-id"), conversation.entries())
    document, before = json.loads(exported.data), json.loads(SESSION_EXAMPLE)
    assert document["messages"][:3] == before["messages"]
    assert document["updated_at"] == document["messages"][3]["timestamp"] > before["updated_at"]
    assert document["system_prompt"] == "You are..."


# -- what we write -------------------------------------------------------------------------------


@pytest.mark.requirement("S4-11")
def test_messages_are_written_in_the_form_of_version_1() -> None:
    turn = AssistantMessage(
        content=(
            Thinking("Hm."),
            Text("I look."),
            ToolCall(id="a", name="b_7b8b965a", original_name="b", arguments='{"n": 1.0}'),
            InvalidToolCall(id="c", name="d", arguments='{"half', reason="cut"),
        ),
        stop_reason=StopReason.TOOL_USE,
        usage=Usage(input_tokens=1, output_tokens=0),
    )
    user = ChatMessage.user([Image(source=ImageData(b"\x89PNG"), mime_type="image/png")])
    result = ChatMessage.tool_result("a", "no", outcome=Outcome.ERROR, tool_name="b")
    document = written(ChatMessage.system("Be brief."), user, turn, result)
    noon = "2026-02-18T12:00:00Z"
    assert document == {
        "version": 1,
        "id": "s",
        "system_prompt": "Be brief.",
        "created_at": "0001-01-01T00:00:00Z",
        "updated_at": noon,
        "messages": [
            {
                "type": "user",
                "content": [{"type": "image", "data": "iVBORw==", "mime_type": "image/png"}],
                "timestamp": noon,
            },
            {
                "type": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm."},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_call", "id": "a", "name": "b", "arguments": {"n": 1.0}},
                    {"type": "tool_call", "id": "c", "name": "d", "arguments": '{"half'},
                ],
                "stop_reason": "tool_use",
                "raw_stop_reason": "",
                "usage": {"input_tokens": 1, "output_tokens": 0},
                "timestamp": noon,
            },
            {
                "type": "tool_result",
                "tool_call_id": "a",
                "tool_name": "b",
                "content": [{"type": "text", "text": "no"}],
                "is_error": True,
                "timestamp": noon,
            },
        ],
    }


@pytest.mark.requirement("S4-11")
def test_content_that_version_1_cannot_express_is_reported() -> None:
    header = Header(id="s", title="t", about={"folder": "x"})
    exported = SESSION.encode(header, DOCUMENT.entries)
    losses = {loss.place: loss for loss in exported.losses}
    assert losses["session"].names == ("title", "about")
    assert losses["entries"] == Change(ChangeCode.NOT_EXPORTED, "ids_and_prompt_time", "entries")
    assert losses["entries[1]"].names[:2] == ("content[1] (file_reference)", "content[2].mode")
    assert "content[0].seal" in losses["entries[2]"].names
    assert "usage.cache_read_tokens" in losses["entries[2]"].names
    assert (losses["entries[5]"].reason, losses["entries[5]"].names) == ("fields", ("mode_change",))
    assert ("outcome" in losses["entries[4]"].names, losses["entries[4]"].value) == (True, "denied")
    assert len(json.loads(exported.data)["messages"]) == 4
    sealed = Entry(id="m1", payload=AssistantMessage(content=(Text("a", seal=SEAL),)))
    assert SESSION.encode(Header(id="s"), [sealed]).losses == (
        Change(ChangeCode.NOT_EXPORTED, "fields", "entries[0]", "m1", names=("content[0].seal",)),
    )


@pytest.mark.requirement("S4-11")
@given(st.lists(entries(), max_size=3, unique_by=lambda entry: entry.id))
def test_every_difference_after_a_round_trip_is_reported(found: list[Entry]) -> None:
    exported = SESSION.encode(Header(id="s"), found)
    reported = {loss.place for loss in exported.losses}
    kept = [entry.payload for n, entry in enumerate(found) if f"entries[{n}]" not in reported]
    back = [entry.payload for entry in SESSION.decode(exported.data).entries]
    assert [payload for payload in back if payload in kept] == kept
    again = SESSION.encode(*SESSION.decode(exported.data)).data
    assert again == SESSION.encode(*SESSION.decode(again)).data


def test_messages_that_only_version_1_knows_are_kept_and_never_sent() -> None:
    weather = SESSION.decode(GOLDEN.read_bytes()).entries[-1].payload
    assert isinstance(weather, Opaque)
    assert (weather.kind, weather.origin) == ("weather_report", "session")


def test_forged_audit_data_does_not_change_the_messages() -> None:
    for kept in ("x", {"type": '"tool_result"'}, {"content": "nonsense"}, {"content": 5}, [1]):
        entry = Entry(id="m1", time=NOON, payload=ChatMessage.user("a"), audit={"session": kept})
        document = json.loads(SESSION.encode(Header(id="s", about={"session": kept}), [entry]).data)
        assert document == written(ChatMessage.user("a"))


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b'[5, {"role": "user"}]',
        b"{}",
        b'{"version":2,"entries":[]}',
        b'{"version":"1"}',
        b'{"version":1,"messages":{}}',
        b'{"version":1,"messages":null}',
    ],
)
def test_documents_that_are_not_sessions_of_version_1_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidDocument):
        SESSION.decode(data)
