"""Rows of kind, content and data_json, there and back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno import (
    AssistantMessage,
    ChatMessage,
    Entry,
    InvalidDocument,
    InvalidToolCall,
    Message,
    Opaque,
    Outcome,
    SystemMessage,
    Text,
    ToolCall,
    ToolResult,
    check_order,
)
from steno.context import ContextBuilder, ModelTarget
from steno.formats import FORMATS, build_records, message_of_row
from steno.log.conversation import Conversation
from steno.messages.change import Change, ChangeCode
from steno.records.entry import Clear, Mode, ModeChange, Payload
from steno.records.stored_record import Header
from steno.store import MemoryStore
from steno.testing import entries, json_object_texts, texts
from steno.testing.strategies.block_strategies import json_values
from tests.every_payload import DOCUMENT

ROWS = FORMATS["rows"]
OTHER_KINDS = ("mark", "rewind", "fork", "usage", "command", "agent_killed", "")


def row(kind: str, content: str | None = None, data: Any = None, **more: Any) -> dict[str, Any]:
    text = None if data is None else json.dumps(data)
    return {"kind": kind, "content": content, "data_json": text} | more


def call(id: str, name: str = "read", arguments: Any = "{}") -> dict[str, Any]:
    return row("tool_call", None, {"tool_call_id": id, "name": name, "arguments": arguments})


def result(id: str, output: Any = "words", **more: Any) -> dict[str, Any]:
    data = {"tool_call_id": id, "output": output, "success": True} | more
    return row("tool_result", None, data)


def read(rows: Iterable[Any]) -> tuple[Entry, ...]:
    return ROWS.decode(json.dumps(list(rows)).encode()).entries


def messages_of(rows: Iterable[Any]) -> list[Message]:
    return [message for entry in read(rows) if (message := entry.message) is not None]


# -- one row -------------------------------------------------------------------------------------


@pytest.mark.requirement("S3-02")
def test_user_and_assistant_rows_are_text() -> None:
    assert message_of_row(row("user", "Hi")) == ChatMessage.user("Hi")
    assert message_of_row(row("assistant", "Yes?")) == ChatMessage.assistant("Yes?")
    assert message_of_row({"kind": "assistant"}) == ChatMessage.assistant("")


@pytest.mark.requirement("S3-02")
@pytest.mark.parametrize("arguments", ['{"path": "a"}', {"path": "a"}])
def test_a_tool_call_row_is_a_call(arguments: Any) -> None:
    message = message_of_row(call("c1", "fs.read", arguments))
    assert isinstance(message, AssistantMessage)
    (found,) = message.tool_calls
    assert isinstance(found, ToolCall)
    assert (found.id, found.original_name, found.arguments) == ("c1", "fs.read", '{"path": "a"}')


@pytest.mark.requirement("S3-02")
def test_invalid_arguments_make_an_invalid_call() -> None:
    message = message_of_row(call("c1", "read", '{"path'))
    assert message is not None
    assert isinstance(message.tool_calls[0], InvalidToolCall)


@pytest.mark.requirement("S3-02")
@pytest.mark.parametrize("kind", ["tool_result", "tool"])
@pytest.mark.parametrize(
    ("data", "text", "outcome"),
    [
        ({"output": "words", "success": True}, "words", Outcome.OK),
        ({"output": "no", "success": False}, "no", Outcome.ERROR),
        ({"output": {"n": 1}, "success": True}, '{"n": 1}', Outcome.OK),
        ({"output": "", "success": True}, "", Outcome.OK),
        ({"output": None, "success": False}, "", Outcome.ERROR),
    ],
)
def test_a_tool_result_row_is_a_result(kind: str, data: Any, text: str, outcome: Outcome) -> None:
    message = message_of_row(row(kind, "shown", {"tool_call_id": "c1", "name": "read"} | data))
    assert isinstance(message, ToolResult)
    assert (message.tool_call_id, message.text, message.outcome, message.tool_name) == (
        "c1",
        text,
        outcome,
        "read",
    )


@pytest.mark.requirement("S3-02")
def test_data_json_may_be_parsed_already() -> None:
    data = {"tool_call_id": "c1", "name": "read", "arguments": {}}
    assert message_of_row({"kind": "tool_call", "data_json": data}) == message_of_row(
        row("tool_call", None, data)
    )


@pytest.mark.requirement("S3-03", "S3-08")
@pytest.mark.parametrize("kind", ["system", "clear", *OTHER_KINDS])
def test_system_rows_and_other_kinds_are_not_messages(kind: str) -> None:
    assert message_of_row(row(kind, "words")) is None


MALFORMED = [
    ({"kind": "tool_call"}, "data_json", "not_an_object"),
    ({"kind": "tool_call", "data_json": "{bad"}, "data_json", "not_json"),
    ({"kind": "user", "content": "a", "data_json": "{bad"}, "data_json", "not_json"),
    ({"kind": "tool_call", "data_json": "[]"}, "data_json", "not_an_object"),
    ({"kind": "tool_call", "data_json": 5}, "data_json", "not_an_object"),
    (row("tool_call", None, {"name": "a"}), "data_json.tool_call_id", "call_id_missing"),
    (row("tool_call", None, {"tool_call_id": "a"}), "data_json.name", "not_a_string"),
    (
        row("tool_call", None, {"tool_call_id": 5, "name": "a"}),
        "data_json.tool_call_id",
        "not_a_string",
    ),
    (row("tool_result", None, {"output": "a"}), "data_json.tool_call_id", "call_id_missing"),
    (result("a", success="yes"), "data_json.success", "not_a_boolean"),
    (result("a", success=None), "data_json.success", "not_a_boolean"),
    *[
        (row(kind, "shown", {"tool_call_id": "a"} | data), f"data_json.{missing}", "field_missing")
        for kind in ("tool_result", "tool")
        for data, missing in (
            ({"output": "a"}, "success"),
            ({"success": True}, "output"),
            ({}, "output"),
        )
    ],
    (
        row("tool", "a", {"tool_call_id": "", "output": "a"}),
        "data_json.tool_call_id",
        "call_id_missing",
    ),
    ({"kind": "user", "content": 5}, "content", "not_a_string"),
    ({"kind": 5}, "kind", "not_a_string"),
    ({"content": "a"}, "kind", "not_a_string"),
]


@pytest.mark.requirement("S3-04")
@pytest.mark.parametrize(("bad", "place", "code"), MALFORMED)
def test_a_malformed_row_is_an_error_that_names_it(bad: Any, place: str, code: str) -> None:
    with pytest.raises(InvalidDocument) as refusal:
        message_of_row(bad)
    assert (refusal.value.place, refusal.value.code) == (f"row.{place}", code)
    with pytest.raises(InvalidDocument) as refusal:
        read([row("user", "Hi"), bad])
    assert (refusal.value.place, refusal.value.code) == (f"rows[1].{place}", code)


@pytest.mark.requirement("S3-04")
def test_a_row_of_no_json_is_an_error() -> None:
    for bad in ({"kind": object()}, {"kind": "user", "content": "\ud800"}):
        with pytest.raises(InvalidDocument):
            message_of_row(bad)


# -- many rows -----------------------------------------------------------------------------------


@pytest.mark.requirement("S3-03")
def test_system_rows_become_the_one_system_message_that_comes_first() -> None:
    found = messages_of([row("user", "Hi"), row("system", "Be kind."), row("system", "Be brief.")])
    assert isinstance(found[0], SystemMessage)
    assert found[0].content == (Text("Be kind."), Text("Be brief."))
    assert [message.role for message in found] == ["system", "user"]


@pytest.mark.requirement("S3-02")
def test_calls_that_await_their_results_together_become_one_turn() -> None:
    found = messages_of(
        [
            row("user", "Hi"),
            row("assistant", "I look."),
            call("a"),
            call("b"),
            result("b"),
            result("a"),
            call("c"),
            result("c"),
            row("assistant", "Done."),
        ]
    )
    assert [[call.id for call in message.tool_calls] for message in found] == [
        *([], [], ["a", "b"], [], []),
        *(["c"], [], []),
    ]
    assert [issue.severity for issue in check_order(found)] == ["warning"]


@pytest.mark.requirement("S3-02")
def test_a_turn_continues_after_texts_other_rows_and_results_while_results_are_missing() -> None:
    rows = [call("a"), row("usage"), call("b"), result("a"), row("assistant", "Hm."), result("b")]
    assert check_order(messages_of(rows)) == ()
    assert [len(message.content) for message in messages_of(rows)] == [3, 1, 1]


def test_a_turn_ends_at_a_message_of_another_role() -> None:
    assert [
        len(message.tool_calls)
        for message in messages_of([call("a"), row("user", "Hi"), call("b")])
    ] == [
        *(1, 0, 1),
    ]
    assert [len(message.tool_calls) for message in messages_of([call("a"), call("a")])] == [1, 1]


@pytest.mark.requirement("S3-08")
@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_rows_of_other_kinds_are_kept_and_never_sent(kind: str) -> None:
    rows = [row("user", "Hi"), row(kind, "label", {"n": 1}, id=7), row("assistant", "Yes?")]
    kept = read(rows)[1].payload
    assert isinstance(kept, Opaque)
    assert (kept.kind, kept.origin, json.loads(kept.raw)) == (kind, "rows", rows[1])
    conversation_messages = messages_of(rows)
    assert conversation_messages == [ChatMessage.user("Hi"), ChatMessage.assistant("Yes?")]


CLEAR_ROWS = [
    row("clear"),
    {"kind": "clear"},
    row("clear", "why", {"n": 1.50}, id=7, agent="a", created_at="2026-02-18 12:00:00+00"),
    {"kind": "clear", "data_json": "{bad", "data": [1, {"a": None}]},
    row("clear", None, {"type": "clear", "later": [1.50]}),
    row("clear", None, {"type": "mark"}),
]


@pytest.mark.requirement("S3-05", "S3-08")
@pytest.mark.parametrize("clear", CLEAR_ROWS)
def test_a_clear_row_clears_the_context_and_is_written_as_it_was(clear: dict[str, Any]) -> None:
    rows = [
        *(row("system", "Be kind."), row("user", "Hi"), call("a")),
        *(clear, row("user", "Anew"), call("a"), result("a"), row("mark", "here")),
    ]
    imported = ROWS.decode(json.dumps(rows).encode())
    assert json.loads(ROWS.encode(*imported).data) == rows
    assert [isinstance(entry.payload, Clear) for entry in imported.entries].index(True) == 3
    store = MemoryStore()
    store.add_session(imported.header, build_records(imported.entries))
    assert store.verify(imported.header.id).is_intact
    conversation = store.open(imported.header.id)
    assert [message.role for message in conversation.messages()] == [
        *("system", "user", "assistant", "tool"),
    ]
    built = ContextBuilder().build(conversation.entries(), ModelTarget())
    assert built.request.messages == conversation.messages()
    assert json.loads(ROWS.encode(imported.header, conversation.entries()).data) == rows


def test_a_turn_ends_at_a_clear_row() -> None:
    rows = [call("a"), row("clear"), call("b"), result("b")]
    assert [len(message.tool_calls) for message in messages_of(rows)] == [1, 1, 0]


@pytest.mark.requirement("S3-05")
def test_a_clear_is_written_as_a_row_and_read_again() -> None:
    conversation = Conversation([ChatMessage.system("Be brief."), ChatMessage.user("Hi")])
    conversation.clear()
    conversation.append(ChatMessage.user("Anew"))
    exported = ROWS.encode(Header(id="s"), conversation.entries())
    assert [listed["kind"] for listed in json.loads(exported.data)] == [
        *("system", "user", "clear", "user"),
    ]
    assert ROWS.decode(exported.data).entries == conversation.entries()


@pytest.mark.requirement("S3-08")
def test_a_blank_user_row_is_kept_and_never_sent() -> None:
    (entry,) = read([row("user", " ")])
    assert isinstance(entry.payload, Opaque)


def test_ids_and_times_of_rows_are_those_of_the_entries() -> None:
    found = read(
        [
            row("user", "a", id=7, created_at="2026-02-18 12:00:00+00"),
            row("user", "b", id="x", created_at="2026-02-18T12:00:00"),
            row("user", "c", id=7, created_at=5),
        ]
    )
    assert [entry.id for entry in found[:2]] == ["7", "x"]
    assert [entry.time for entry in found] == [datetime(2026, 2, 18, 12, tzinfo=UTC), None, None]
    assert len({entry.id for entry in found}) == 3


def test_the_zero_time_of_go_is_no_time() -> None:
    rows = [row("user", "Hi", created_at="0001-01-01T00:00:00Z")]
    found = read(rows)
    assert found[0].time is None
    assert json.loads(ROWS.encode(Header(id="s"), found).data) == rows


def test_rows_may_be_one_per_line() -> None:
    rows = [row("user", "a\u2028b"), call("a"), result("a")]
    lines = "\r\n".join([json.dumps(columns, ensure_ascii=False) for columns in rows]) + "\n\n"
    found = ROWS.decode(lines.encode()).entries
    assert [entry.payload for entry in found] == [entry.payload for entry in read(rows)]
    with pytest.raises(InvalidDocument) as caught:
        ROWS.decode(b'{"kind":"user","content":"a"}\n{"kind":')
    assert (caught.value.code, caught.value.place) == ("not_json", "line 2")


# -- there and back ------------------------------------------------------------------------------

COLUMNS = st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers() | texts(max_size=3) | st.none(),
        "created_at": st.sampled_from(("2026-02-18 12:00:00+00", "2026-02-18T12:00:00Z", 5, None)),
        "agent": json_values(max_leaves=2),
    },
)
WORDS = st.none() | texts(max_size=5)
IDS = st.sampled_from("abc")


def merged(*parts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for part in parts for name, value in part.items()}


ANY_ROW = st.builds(
    merged,
    COLUMNS,
    st.one_of(
        st.builds(row, st.sampled_from(("user", "assistant", "system")), WORDS),
        st.builds(call, IDS, st.sampled_from(("read", "fs.read")), json_object_texts()),
        st.builds(call, IDS, st.just("read"), json_object_texts().map(json.loads)),
        st.builds(result, IDS, json_values(max_leaves=2), success=st.booleans()),
        st.builds(
            row, st.sampled_from((*OTHER_KINDS, "mode_change", "clear")), WORDS, json_values()
        ),
    ),
    st.fixed_dictionaries({}, optional={"content": WORDS}),
)


@pytest.mark.requirement("S3-02", "S3-03", "S3-08")
@given(st.lists(ANY_ROW, max_size=8))
def test_rows_that_were_read_are_written_as_they_were(rows: list[dict[str, Any]]) -> None:
    imported = ROWS.decode(json.dumps(rows).encode())
    exported = ROWS.encode(*imported)
    assert json.loads(exported.data) == rows
    assert {loss.place for loss in exported.losses} == {"session"}
    store = MemoryStore()
    store.add_session(imported.header, build_records(imported.entries))
    assert store.verify(imported.header.id).is_intact
    stored = store.open(imported.header.id).entries()
    assert json.loads(ROWS.encode(imported.header, stored).data) == rows


@pytest.mark.requirement("S3-02", "S3-03")
def test_messages_of_other_origin_are_written_as_rows_and_read_again() -> None:
    conversation = Conversation([ChatMessage.system("Be brief."), ChatMessage.user("Hi")])
    calls = [ToolCall(id=id, name="read", arguments='{"n": 1.0}') for id in "ab"]
    conversation.append(ChatMessage.assistant("I look.", calls))
    for id in "ab":
        conversation.append(
            ChatMessage.tool_result(id, id, outcome=Outcome.ERROR, tool_name="read")
        )
    conversation.change_mode(Mode.PLAN)
    exported = ROWS.encode(Header(id="s"), conversation.entries())
    assert exported.losses == (Change(ChangeCode.NOT_EXPORTED, "fields", "session", names=("id",)),)
    listed = json.loads(exported.data)
    assert [listed_row["kind"] for listed_row in listed] == [
        *("system", "user", "assistant", "tool_call", "tool_call"),
        *("tool_result", "tool_result", "mode_change"),
    ]
    assert json.loads(listed[3]["data_json"]) == {
        "tool_call_id": "a",
        "name": "read",
        "arguments": '{"n": 1.0}',
    }
    assert json.loads(listed[5]["data_json"]) == {
        "tool_call_id": "a",
        "name": "read",
        "output": "a",
        "success": False,
    }
    found = ROWS.decode(exported.data).entries
    assert found == conversation.entries()
    assert isinstance(found[-1].payload, ModeChange)


def test_a_later_system_message_that_becomes_part_of_the_prompt_is_reported() -> None:
    """A context that was cleared does not contain the message, but the system prompt does."""
    found: list[Payload] = [SystemMessage((Text("S"),)), SystemMessage((Text("Late"),)), Clear()]
    exported = ROWS.encode(
        Header(id="s"), [Entry(id=f"e{n}", payload=payload) for n, payload in enumerate(found)]
    )
    assert [(loss.place, loss.names) for loss in exported.losses if loss.entry] == [
        ("entries[1]", ("system_position",))
    ]
    again = ROWS.decode(exported.data)
    assert not ROWS.encode(Header(id="s"), again.entries).losses[1:]


def test_content_that_a_row_cannot_express_is_reported() -> None:
    losses = ROWS.encode(Header(id="s", title="t"), DOCUMENT.entries).losses
    assert {loss.reason for loss in losses} == {"fields"}
    names = {loss.place: loss.names for loss in losses}
    assert names["session"] == ("id", "title")
    assert "content[1] (file_reference)" in names["entries[1]"]
    assert "stop_reason" in names["entries[2]"]
    assert "content[0] (thinking)" in names["entries[2]"]
    assert "outcome" in names["entries[4]"]
    assert [loss.value for loss in losses if loss.place == "entries[4]"] == ["denied"]
    assert "entries[5]" not in names


@given(st.lists(entries(), max_size=3, unique_by=lambda entry: entry.id))
def test_any_entries_can_be_written_and_read_again(found: list[Entry]) -> None:
    once = ROWS.encode(Header(id="s"), found).data
    assert json.loads(ROWS.encode(*ROWS.decode(once)).data) == json.loads(once)


@pytest.mark.parametrize(
    "kept", ["x", [], [5], [{"at": -1}], [{"columns": {"kind": "nonsense"}}], [{"columns": 5}]]
)
def test_forged_audit_data_does_not_change_the_messages(kept: Any) -> None:
    plain = Entry(id="e", payload=ChatMessage.user("a"))
    odd = Entry(id="e", payload=ChatMessage.user("a"), audit={"rows": kept})
    assert ROWS.encode(Header(id="s"), [odd]).data == ROWS.encode(Header(id="s"), [plain]).data
