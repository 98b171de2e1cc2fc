"""A file that is a single object: a message, an entry of an audit log, or a row."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from steno import ChatMessage, InvalidDocument, ToolCall
from steno.codec import encode_message
from steno.formats import FORMATS, detect_format
from steno.records import Entry
from steno.records.entry import Redacted

ENTRY = (
    b'{"id": "e1", "timestamp": "2026-02-10T15:30:00Z", "message": {"type": "user", '
    b'"content": "Hi"}, "decision": "", "audit": {}}'
)
ROW = b'{"kind": "user", "content": "Hi", "data_json": null}'
MESSAGE = b'{"role": "user", "content": "Hi"}'


@pytest.mark.requirement("S1-08", "S2-10", "P-12")
@pytest.mark.parametrize(
    ("data", "format"),
    [(MESSAGE, "chat"), (ENTRY, "audit"), (ROW, "rows")],
    ids=["message", "entry", "row"],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_a_single_object_is_detected_and_read(data: bytes, format: str, indent: int | None) -> None:
    data = json.dumps(json.loads(data), indent=indent).encode()
    assert detect_format(data) == format
    header, entries = FORMATS[format].decode(data)
    assert [entry.payload for entry in entries] == [ChatMessage.user("Hi")]
    exported = json.loads(FORMATS[format].encode(header, entries).data)
    assert exported == ([json.loads(data)] if format == "rows" else json.loads(data))


def test_a_single_entry_is_written_as_a_log_if_more_entries_follow() -> None:
    header, entries = FORMATS["audit"].decode(ENTRY)
    later = FORMATS["audit"].decode(ENTRY.replace(b"e1", b"e2")).entries
    exported = json.loads(FORMATS["audit"].encode(header, [*entries, *later]).data)
    assert [entry["id"] for entry in exported["entries"]] == ["e1", "e2"]


MOMENT = "2026-02-18T12:00:00Z"
SESSION_MESSAGES: list[dict[str, Any]] = [
    {"type": "system", "content": [{"type": "text", "text": "Be brief."}], "timestamp": MOMENT},
    {"type": "user", "content": [{"type": "text", "text": "Hi"}], "timestamp": MOMENT, "x": 1},
    {
        "type": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm."},
            {"type": "tool_call", "id": "c1", "name": "ls", "arguments": {"path": "."}},
        ],
        "stop_reason": "tool_use",
        "timestamp": MOMENT,
    },
    {
        "type": "tool_result",
        "tool_call_id": "c1",
        "content": [{"type": "text", "text": "no"}],
        "is_error": True,
        "timestamp": MOMENT,
    },
]


@pytest.mark.requirement("S2-10", "P-12")
@pytest.mark.parametrize("content", [SESSION_MESSAGES, *SESSION_MESSAGES], ids=["list", *"0123"])
def test_messages_of_a_session_file_are_read_with_their_times(content: Any) -> None:
    data = json.dumps(content).encode()
    assert detect_format(data) == "session"
    header, entries = FORMATS["session"].decode(data)
    assert {entry.time for entry in entries} == {datetime(2026, 2, 18, 12, tzinfo=UTC)}
    assert all(entry.message is not None for entry in entries)
    assert json.loads(FORMATS["session"].encode(header, entries).data) == content


@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"tool_result","tool_call_id":"c","content":[],"is_error":false}',
        b'[{"type":"user","content":[]},{"type":"assistant","content":[],"timestamp":"2026-02-18"}]',
    ],
)
def test_messages_of_a_session_file_without_times_are_detected(data: bytes) -> None:
    assert detect_format(data) == "session"


def test_more_messages_are_written_after_a_single_one() -> None:
    header, entries = FORMATS["session"].decode(json.dumps(SESSION_MESSAGES[1]).encode())
    later = Entry(id="later", payload=ChatMessage.assistant("Hello."))
    exported = json.loads(FORMATS["session"].encode(header, [*entries, later]).data)
    assert [message["type"] for message in exported] == ["user", "assistant"]
    prompt = Entry(id="prompt", payload=ChatMessage.system("Be brief."))
    exported = json.loads(FORMATS["session"].encode(header, [prompt, *entries]).data)
    assert exported["system_prompt"] == "Be brief."
    assert len(exported["messages"]) == 1


ANY_ROLE = {"role": "user", "content": "Hi"}
FOREIGN_MESSAGE = {"note": "x"}


@pytest.mark.parametrize(
    ("format", "content", "remaining"),
    [
        ("session", SESSION_MESSAGES[1], []),
        ("session", SESSION_MESSAGES[1:2], []),
        ("session", [SESSION_MESSAGES[1], FOREIGN_MESSAGE], [FOREIGN_MESSAGE]),
        ("chat", ANY_ROLE, []),
        ("chat", [ANY_ROLE], []),
        ("chat", [ANY_ROLE, FOREIGN_MESSAGE], [FOREIGN_MESSAGE]),
    ],
)
def test_a_file_is_exported_if_its_messages_were_redacted(
    format: str, content: Any, remaining: list[Any]
) -> None:
    header, (first, *others) = FORMATS[format].decode(json.dumps(content).encode())
    redacted = replace(first, payload=Redacted(kind="user", sha256="0" * 64), audit=None)
    exported = FORMATS[format].encode(header, [redacted, *others])
    written = json.loads(exported.data)
    assert (written["messages"] if format == "session" else written) == remaining
    lost = {loss.place for loss in exported.losses}
    assert "entries[0]" in lost
    assert "entries[1]" not in lost
    if format == "session":  # an object has the id, and it can be imported again
        assert "session" not in lost
        again = FORMATS[format].decode(exported.data)
        assert (again.header.id, len(again.entries)) == (header.id, len(remaining))


@pytest.mark.requirement("P-12")
@pytest.mark.parametrize(
    "message",
    [
        ChatMessage.system("Be brief."),
        ChatMessage.user("Hi"),
        ChatMessage.assistant(None, [ToolCall(id="c1", name="ls")]),
        ChatMessage.tool_result("c1", "a.py"),
    ],
    ids=lambda message: message.role,
)
def test_a_message_of_steno_is_detected(message: ChatMessage) -> None:
    assert detect_format(encode_message(message)) == "steno"
    assert detect_format(b"[" + encode_message(message) + b"]") == "steno"


@pytest.mark.parametrize(
    "data",
    [
        b'{"type": "text", "text": "Hi"}',
        b'{"type": 1}',
        b'{"model":"m","message":{"role":"assistant","content":"Hi"},"done":true}',
        b'{"message":"Hi"}',
        b'{"message":{"type":1}}',
        b'{"message":null,"entry":1}',
    ],
)
def test_another_single_object_is_unknown(data: bytes) -> None:
    with pytest.raises(InvalidDocument) as failure:
        detect_format(data)
    assert failure.value.code == "unknown_format"
