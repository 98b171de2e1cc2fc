"""The audit log: the document's shape, everything in it, and back again."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from steno import (
    AnyToolCall,
    AssistantMessage,
    ChatMessage,
    Entry,
    InvalidDocument,
    InvalidToolCall,
    Opaque,
    Outcome,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from steno.codec import encode_payload
from steno.formats import FORMATS, ImportedSession, build_records
from steno.log.chain import verify_records
from steno.log.conversation import Conversation
from steno.log.queries import EntryKind, as_version_2, entry_kinds
from steno.messages.change import Change, ChangeCode
from steno.messages.message import Message
from steno.records.entry import ApprovalStatus, Mode
from steno.records.stored_record import Header
from steno.store import MemoryStore
from steno.testing import entries, texts
from steno.testing.strategies.block_strategies import json_members
from steno.wire import load_wire
from tests.every_payload import DOCUMENT
from tests.formats.sample_files import AUDIT_EXAMPLE

AUDIT = FORMATS["audit"]
HEADER = Header(id="s")
NOON = datetime(2026, 2, 10, 12, tzinfo=UTC)


def rows(*found: Entry) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(AUDIT.encode(HEADER, found).data)["entries"]
    return listed


def read(*listed: dict[str, Any]) -> tuple[Entry, ...]:
    return AUDIT.decode(json.dumps({"entries": listed}).encode()).entries


def key(entry: Entry) -> tuple[object, ...]:
    return (entry.id, entry.time, entry.payload, entry.decision, entry.audit, entry.unknown)


def calls_of(entry: Entry) -> tuple[AnyToolCall, ...]:
    assert isinstance(entry.payload, AssistantMessage)
    return entry.payload.tool_calls


def derived(*names: str) -> dict[str, Any]:
    """Return the audit data that names values that are not in the entry."""
    return {"steno_derived": [*names]}


def element(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "e", "timestamp": "2026-02-10T12:00:00Z", "message": message} | more


# -- there and back ------------------------------------------------------------------------------


@pytest.mark.requirement("S1-03", "S1-08", "S1-09")
@given(st.lists(entries(), max_size=3, unique_by=lambda entry: entry.id))
def test_every_entry_comes_back_as_it_was(found: list[Entry]) -> None:
    data = AUDIT.encode(HEADER, found).data
    assert list(map(key, AUDIT.decode(data).entries)) == [key(as_version_2(one)) for one in found]
    for row in json.loads(data)["entries"]:
        assert row.keys() == {"id", "timestamp", "message", "decision", "audit"}
        assert row["message"]["type"] in set(EntryKind)


@pytest.mark.requirement("S1-03", "S1-08", "S1-09")
def test_every_payload_of_the_golden_document_comes_back() -> None:
    exported = AUDIT.encode(HEADER, DOCUMENT.entries)
    assert AUDIT.decode(exported.data).entries == DOCUMENT.entries
    assert exported.losses == (Change(ChangeCode.NOT_EXPORTED, "fields", "session", names=("id",)),)


@pytest.mark.requirement("S1-08")
@given(entries(), texts(max_size=3), st.lists(st.integers(0, 3), max_size=2))
def test_ids_that_look_like_parts_are_not_mistaken_for_them(
    entry: Entry, id: str, numbers: list[int]
) -> None:
    listed = [
        Entry(id=id + name, payload=entry.payload)
        for name in dict.fromkeys(["#", *(f"##{number}" for number in numbers), "##1", "##1#1"])
    ]
    assert list(map(key, AUDIT.decode(AUDIT.encode(HEADER, listed).data).entries)) == [
        key(as_version_2(one)) for one in listed
    ]


@pytest.mark.parametrize("name", ["steno", "steno_entry"])
def test_audit_data_under_our_own_names_comes_back(name: str) -> None:
    for payload in (ChatMessage.user("Hi"), DOCUMENT.entries[5].payload):
        entry = Entry(id="e", payload=payload, decision="", audit={name: {"type": "user"}, "a": 1})
        assert AUDIT.decode(AUDIT.encode(HEADER, [entry]).data).entries == (entry,)
        assert rows(entry)[0]["audit"]["a"] == 1


@pytest.mark.requirement("S1-08")
def test_an_entry_of_a_newer_version_comes_back() -> None:
    store = MemoryStore()
    store.new(id="s").append(ChatMessage.user("Hi"))
    newer = AUDIT.decode(
        b'{"entries":[{"id":"n","message":{"type":"system_context","content":""},"audit":'
        b'{"steno_entry":{"v":4,"id":"n","parent":null,"body":1.50}}}]}'
    )
    assert not newer.entries[0].is_understood
    assert AUDIT.decode(AUDIT.encode(*newer).data).entries == newer.entries


# -- values of other programs under our own names --------------------------------------------------

OTHER_MESSAGE = {"type": "user", "content": [{"type": "text", "text": "other"}]}
FOREIGN_VALUES: tuple[Any, ...] = (
    *("checked by our stenographer", 5, None, True, {}, [], {"note": "x"}, {"type": "foo"}),
    # A payload that contradicts the message.
    OTHER_MESSAGE,
    {"type": "mode_change", "old": "act", "new": "plan"},
    {"v": 2, "id": "e", "payload": {"type": "user", "content": [{"type": "text", "text": "b"}]}},
)
FOREIGN_MESSAGES: tuple[dict[str, Any], ...] = (
    {"type": "user", "content": "the secret question"},
    {"type": "assistant_text", "content": "Yes."},
    {"type": "assistant_action", "tool_name": "ls", "tool_args": {}, "tool_id": "c"},
    {"type": "tool_result", "tool_id": "c", "tool_name": "ls", "success": True, "result": "a.py"},
    {"type": "tool_error", "tool_id": "c", "tool_name": "ls", "success": False, "error": "no"},
    {"type": "vote", "content": "yes"},
)
CONTEXT_VALUES: tuple[Any, ...] = ("checked", 5, None, True, {}, [], {"note": "x"}, OTHER_MESSAGE)


def without_extras(entry: Entry) -> Any:
    payload: Any = entry.payload
    return replace(payload, extras=None)


@pytest.mark.parametrize("name", ["steno", "steno_entry", "steno_derived"])
@pytest.mark.parametrize("message", FOREIGN_MESSAGES, ids=lambda message: message["type"])
@pytest.mark.requirement("S1-08")
def test_a_foreign_value_under_our_own_names_does_not_replace_the_message(
    name: str, message: dict[str, Any]
) -> None:
    (plain,) = read(element(message, decision="d", audit={}))
    plain = replace(plain, audit={})
    for value in FOREIGN_VALUES:
        file = {"entries": [element(message, decision="d", audit={"a": 1, name: value, "b": 2})]}
        header, (entry,) = AUDIT.decode(json.dumps(file).encode())
        # The extras have the original members of the element.
        assert replace(entry, payload=without_extras(entry), audit={}) == replace(
            plain, payload=without_extras(plain)
        )
        assert entry.audit == {"a": 1, name: value, "b": 2}
        assert json.loads(AUDIT.encode(header, [entry]).data) == file


@pytest.mark.parametrize("name", ["steno", "steno_entry"])
@pytest.mark.parametrize("value", CONTEXT_VALUES, ids=str)
def test_a_foreign_value_that_is_no_stored_payload_does_not_replace_a_context(
    name: str, value: Any
) -> None:
    message = {"type": "system_context", "content": "the rules"}
    row = element(message, decision="d", audit={name: value})
    header, (entry,) = AUDIT.decode(json.dumps({"entries": [row]}).encode())
    assert entry.payload == ChatMessage.system("the rules")
    assert json.loads(AUDIT.encode(header, [entry]).data) == {"entries": [row]}


@pytest.mark.parametrize("derived", [["reviewed"], ["tool"], [["decision"]], {"decision": 1}])
def test_a_foreign_list_of_derived_values_is_audit_data(derived: Any) -> None:
    row = element({"type": "user", "content": "a"}, decision="d", audit={"steno_derived": derived})
    header, (entry,) = AUDIT.decode(json.dumps({"entries": [row]}).encode())
    assert (entry.decision, entry.audit) == ("d", {"steno_derived": derived})
    assert json.loads(AUDIT.encode(header, [entry]).data) == {"entries": [row]}


# -- stored values that this version cannot use ----------------------------------------------------

CONTEXT = {"type": "system_context", "content": "checkpoint before deploy"}
CHECKPOINT = {"type": "checkpoint", "name": "before deploy"}
UNUSABLE_VALUES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("steno", "checkpoint", CHECKPOINT),
    ("steno", "foo", {"type": "foo"}),
    ("steno_entry", "checkpoint", {"v": 9, "id": "e", "payload": CHECKPOINT}),
    ("steno_entry", "checkpoint", {"v": 2, "id": "e", "payload": CHECKPOINT}),
    ("steno_entry", "", {"v": 9, "id": "e", "body": 1}),
    # An entry with another id than the element.
    ("steno_entry", "label", {"id": "f", "payload": {"type": "label", "target": "a", "text": "b"}}),
)


@pytest.mark.requirement("S1-08")
@pytest.mark.parametrize(("name", "kind", "value"), UNUSABLE_VALUES)
@pytest.mark.parametrize(
    "members",
    [
        {},
        {"decision": "checkpoint", "audit": {"steno_derived": ["decision"]}},
        {"decision": "d", "audit": {"a": 1, "steno_derived": ["decision", "cost"]}, "x": 1},
    ],
    ids=["bare", "derived", "more"],
)
def test_a_context_with_an_unusable_stored_value_is_not_a_message_and_is_exported_unchanged(
    name: str,
    kind: str,
    value: dict[str, Any],
    members: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An audit log of a newer version; its text must not be sent to a model, or be lost."""
    audit = members.get("audit", {}) | {name: value}
    file = {"entries": [element(CONTEXT, **members | {"audit": audit})]}
    header, (entry,) = AUDIT.decode(json.dumps(file).encode())
    assert isinstance(entry.payload, Opaque)
    assert entry.payload.kind == kind
    (record,) = caplog.records
    facts = vars(record)
    assert (facts["place"], facts["code"]) == (f"$.entries[0].audit.{name}", "unknown_part")
    assert facts["tag"] == kind
    exported = AUDIT.encode(header, [entry]).data
    assert json.loads(exported) == file
    assert AUDIT.decode(exported).entries == (entry,)


@pytest.mark.parametrize("extra", [{}, {"x": 1}])
def test_a_context_without_text_with_an_unknown_payload_is_not_a_message(
    extra: dict[str, Any],
) -> None:
    row = element(
        {"type": "system_context", "content": ""},
        decision="checkpoint",
        audit={"steno": CHECKPOINT, "steno_derived": ["decision"]},
    )
    header, (entry,) = AUDIT.decode(json.dumps({"entries": [row | extra]}).encode())
    assert isinstance(entry.payload, Opaque)
    assert json.loads(AUDIT.encode(header, [entry]).data) == {"entries": [row | extra]}


@pytest.mark.requirement("S1-08")
@pytest.mark.parametrize("name", ["steno", "steno_entry"])
def test_a_known_payload_with_another_text_is_read(name: str) -> None:
    """Other versions of steno may describe a payload in other words."""
    found = [entry for entry in DOCUMENT.entries if entry.message is None]
    for entry in found:
        audit = {"steno_entry": 1} if name == "steno_entry" else None
        written = Entry(id="e", time=NOON, payload=entry.payload, audit=audit)
        for row in rows(written):
            if row["message"]["type"] == "system_context" and name in row["audit"]:
                row["message"]["content"] = "in other words"
                is_known = not isinstance(entry.payload, Opaque)
                (again,) = read(row)
                assert again.message is None
                assert (again.payload == as_version_2(written).payload) is is_known


def test_a_stored_payload_with_another_message_is_audit_data() -> None:
    (row,) = rows(Entry(id="e", payload=AssistantMessage(content=(Thinking("Hm."), Text("Yes.")))))
    row["message"]["content"] = "No."
    (entry,) = read(row)
    assert entry.payload == ChatMessage.assistant("No.")
    assert entry.audit == {"steno": row["audit"]["steno"]}


@pytest.mark.parametrize(
    "changed", [{"id": "f"}, {"timestamp": "2026-02-11T12:00:00Z"}, {"decision": "denied"}]
)
def test_a_stored_entry_with_other_members_is_audit_data(changed: dict[str, Any]) -> None:
    message = AssistantMessage(content=(Thinking("Hm."), Text("Yes.")))
    written = Entry(id="e", time=NOON, payload=message, decision="ok", audit={"steno": 1})
    (row,) = rows(written)
    assert "steno_entry" in row["audit"]
    assert read(row) == (written,)
    (entry,) = read(row | changed)
    assert isinstance(entry.payload, AssistantMessage)
    assert entry.payload.content == (Text("Yes."),)
    assert {
        "id": entry.id,
        "timestamp": f"{entry.time:%FT%TZ}",
        "decision": entry.decision,
    }.items() >= changed.items()


# -- the document's shape ------------------------------------------------------------------------


@pytest.mark.requirement("S1-08")
def test_the_example_of_the_document_is_read() -> None:
    header, found = AUDIT.decode(AUDIT_EXAMPLE)
    assert header.id
    assert [entry.id for entry in found] == ["uuid-1", "uuid-2", "uuid-3", "uuid-4"]
    assert [entry.decision for entry in found] == [
        "fs_read_permission_requested",
        "planning",
        "tool_call_approved",
        "tool_executed_successfully",
    ]
    assert found[2].audit == {"tool": "fs.read", "permission_verified": True}
    assert found[0].time == datetime(2026, 2, 10, 15, 30, tzinfo=UTC)
    assert [entry_kinds(entry) for entry in found] == [
        (EntryKind.USER,),
        (EntryKind.ASSISTANT_TEXT,),
        (EntryKind.ASSISTANT_ACTION,),
        (EntryKind.TOOL_RESULT,),
    ]
    (call,) = calls_of(found[2])
    assert isinstance(call, ToolCall)
    assert (call.original_name, call.arguments) == ("fs.read", '{"path": "README.md"}')
    result = found[3].payload
    assert isinstance(result, ToolResult)
    assert (result.tool_call_id, result.tool_name) == (call.id, call.name)
    assert (result.text, result.details) == ('{"lines": 3}', {"lines": 3})


@pytest.mark.requirement("S1-08")
def test_the_example_of_the_document_is_written_as_it_was() -> None:
    imported = AUDIT.decode(AUDIT_EXAMPLE)
    assert json.loads(AUDIT.encode(*imported).data) == json.loads(AUDIT_EXAMPLE)


@pytest.mark.requirement("S1-08", "P-14")
def test_members_that_a_file_lacks_or_writes_differently_are_written_as_they_were() -> None:
    action = {"type": "assistant_action", "tool_name": "fs.read", "tool_args": None}
    result = {"type": "tool_result", "tool_name": "fs.read", "result": {"n": 1.50}}
    listed: list[dict[str, Any]] = [
        {"message": {"type": "user", "content": "Hi"}},
        {"id": "a", "message": action, "decision": None, "audit": None},
        {"id": "b", "message": result, "timestamp": "2026-02-10T13:00:00+01:00", "audit": {}},
        {"id": "b", "message": {"type": "assistant_text", "content": "-"}, "decision": ""},
        {"message": action},
        {"message": {"type": "tool_error", "error": "no", "executed_at": None}, "timestamp": ""},
        {"id": "x#1", "message": {"type": "assistant_text", "content": "-"}},
    ]
    document = {"entries": listed}
    imported = AUDIT.decode(json.dumps(document).encode())
    assert json.loads(AUDIT.encode(*imported).data) == document
    assert len({entry.id for entry in imported.entries}) == len(listed)
    assert [entry.decision for entry in imported.entries] == [*[None] * 3, "", *[None] * 3]
    store = MemoryStore()
    store.add_session(imported.header, build_records(imported.entries))
    stored = store.open(imported.header.id).entries()
    assert json.loads(AUDIT.encode(imported.header, stored).data) == document


@pytest.mark.requirement("S1-03")
def test_the_form_of_a_file_is_not_a_loss_when_its_messages_are_sent() -> None:
    message = read({"message": {"type": "user", "content": "Hi"}})[0].message
    assert message is not None
    request = Request(model="m", messages=(message,))
    assert load_wire("openai_chat").encode_request(request).losses == ()


@pytest.mark.requirement("S1-03")
def test_plain_messages_of_every_kind_look_like_the_document() -> None:
    call = ToolCall(id="c1", name="read", arguments='{"path": "a"}')
    result = ChatMessage.tool_result("c1", "words", tool_name="read", started_at=NOON)
    failed = ToolResult.error("c2", "no such file")
    listed: list[Message] = [
        ChatMessage.system("Be brief."),
        ChatMessage.user("Read a."),
        ChatMessage.assistant("I read."),
        ChatMessage.assistant(None, [call]),
        result,
        failed,
    ]
    found = [Entry(id=f"e{n}", time=NOON, payload=one) for n, one in enumerate(listed)]
    assert [row["message"] for row in rows(*found)] == [
        {"type": "system_context", "content": "Be brief."},
        {"type": "user", "content": "Read a."},
        {"type": "assistant_text", "content": "I read."},
        {
            "type": "assistant_action",
            "tool_name": "read",
            "tool_args": {"path": "a"},
            "tool_id": "c1",
        },
        {
            "type": "tool_result",
            "tool_id": "c1",
            "tool_name": "read",
            "success": True,
            "result": "words",
            "executed_at": "2026-02-10T12:00:00Z",
        },
        {
            "type": "tool_error",
            "tool_id": "c2",
            "tool_name": "",
            "success": False,
            "error": "no such file",
        },
    ]
    assert rows(Entry(id="e", payload=failed))[0]["timestamp"] == "0001-01-01T00:00:00Z"


@pytest.mark.requirement("S1-03", "S1-08")
def test_a_turn_of_text_and_calls_becomes_several_entries_and_one_again() -> None:
    calls = [ToolCall(id=id, name="read", arguments='{"n": 1.0}') for id in ("a", "b")]
    turn = Entry(
        id="t", time=NOON, payload=ChatMessage.assistant("Both.", calls), decision="planning"
    )
    listed = rows(turn)
    assert [row["id"] for row in listed] == ["t", "t#1", "t#2"]
    assert [row["message"]["type"] for row in listed] == [
        "assistant_text",
        "assistant_action",
        "assistant_action",
    ]
    assert [row["decision"] for row in listed] == ["planning", "tool_call", "tool_call"]
    assert [row["audit"] for row in listed] == [{}, derived("decision"), derived("decision")]
    assert read(*listed) == (turn,)


@pytest.mark.requirement("S1-03", "S1-08")
def test_data_that_the_plain_form_cannot_express_is_added() -> None:
    message = AssistantMessage(content=(Thinking("Hm."), Text("Yes.")))
    (row,) = rows(Entry(id="e", payload=message))
    assert row["message"] == {"type": "assistant_text", "content": "Yes."}
    assert row["audit"]["steno"] == json.loads(encode_payload(message))


@pytest.mark.requirement("S1-03", "S1-08")
def test_other_entries_are_context_whose_decision_names_their_type() -> None:
    conversation = Conversation([ChatMessage.user("Hi")])
    conversation.change_mode(Mode.PLAN)
    conversation.label(conversation.entries()[0].id, "start")
    _, mode, label = rows(*conversation.entries())
    assert mode["message"] == {"type": "system_context", "content": ""}
    assert mode["decision"] == "mode_change"
    assert mode["audit"]["steno"] == {"type": "mode_change", "old": "act", "new": "plan"}
    assert (label["message"]["content"], label["decision"]) == ("start", "label")
    assert read(*rows(*conversation.entries())) == conversation.entries()


@pytest.mark.requirement("S1-03")
def test_an_entry_without_a_type_has_a_decision() -> None:
    entry = Entry(id="e", payload=Opaque(kind="", raw="{}", origin="steno"))
    (row,) = rows(entry)
    assert (row["decision"], row["audit"]["steno_derived"]) == ("opaque", ["decision", "timestamp"])
    assert read(row) == (entry,)


# -- decisions about calls -----------------------------------------------------------------------


def decided(*statuses: ApprovalStatus) -> Conversation:
    calls = [ToolCall(id=f"c{n}", name="read") for n, _ in enumerate(statuses)]
    conversation = Conversation([ChatMessage.user("Hi"), ChatMessage.assistant("Now.", calls)])
    for number, status in enumerate(statuses):
        rule = "reads" if status is ApprovalStatus.DENIED else None
        actor = "ada" if status is ApprovalStatus.APPROVED else None
        conversation.decide(f"c{number}", status, actor=actor, rule=rule)
    return conversation


@pytest.mark.requirement("S1-03", "S1-08")
def test_a_call_shows_its_decision() -> None:
    conversation = decided(ApprovalStatus.APPROVED, ApprovalStatus.DENIED, ApprovalStatus.PENDING)
    listed = rows(*conversation.entries())
    assert [(row["decision"], row["audit"]) for row in listed[1:5]] == [
        ("planning", derived("decision")),
        (
            "tool_call_approved",
            {"tool": "read", "actor": "ada"} | derived("decision", "tool", "actor"),
        ),
        (
            "tool_call_denied",
            {"tool": "read", "rule": "reads"} | derived("decision", "tool", "rule"),
        ),
        ("tool_call_pending", {"tool": "read"} | derived("decision", "tool")),
    ]
    assert [row["decision"] for row in listed[5:]] == ["approved", "denied", "pending"]
    assert read(*listed) == conversation.entries()


@pytest.mark.requirement("S1-08")
def test_a_decision_that_an_entry_has_itself_is_the_one_that_is_shown() -> None:
    conversation = decided(ApprovalStatus.APPROVED)
    turn = conversation.entries()[1]
    action = ChatMessage.assistant(None, calls_of(turn))
    for decision, audit in (
        ("asked", None),
        ("", {"a": 1}),
        ("tool_call_approved", {"tool": "read", "actor": "ada"}),
    ):
        own = Entry(id="own", payload=action, decision=decision, audit=audit)
        listed = [own, *conversation.entries()[2:]]
        (row, *_) = rows(*listed)
        assert (row["decision"], row["audit"].items() >= (audit or {}).items()) == (
            decision or "",
            True,
        )
        assert list(map(key, read(*rows(*listed)))) == list(map(key, listed))


# -- what others write ---------------------------------------------------------------------------


@pytest.mark.requirement("S1-08")
@given(json_members(max_leaves=3), json_members(max_leaves=3), json_members(max_leaves=3))
def test_members_of_other_programs_are_kept_and_written_back(
    message: dict[str, Any], row: dict[str, Any], top: dict[str, Any]
) -> None:
    message = {name: part for name, part in message.items() if name != "$entry"}
    listed = [element(message | {"type": "user", "content": "Hi"}, decision="", audit={})]
    document = top | {"entries": [row | members for members in listed]}
    imported = AUDIT.decode(json.dumps(document).encode())
    assert imported.entries[0].message is not None
    assert json.loads(AUDIT.encode(*imported).data) == document


@pytest.mark.requirement("S1-08")
def test_a_type_of_message_that_only_others_know_is_kept_and_never_sent() -> None:
    raw = b'{"entries":[{"id":"e","timestamp":"0001-01-01T00:00:00Z","message":{"type": "reasoning","depth":1.50},"decision":"","audit":{},"level":7}]}'
    imported = AUDIT.decode(raw)
    (entry,) = imported.entries
    assert isinstance(entry.payload, Opaque)
    assert not isinstance(entry.payload, Message)
    assert AUDIT.encode(*imported).data == raw


def test_results_without_an_id_answer_the_first_call_of_their_tool() -> None:
    action = {"type": "assistant_action", "tool_args": None}
    found = read(
        element(action | {"tool_name": "a"}, id="1"),
        element(action | {"tool_name": "b.c"}, id="2"),
        element({"type": "tool_error", "tool_name": "b.c", "error": "no"}, id="3"),
        element({"type": "tool_result", "result": [1, 2.0]}, id="4"),
    )
    second, first = found[2].payload, found[3].payload
    assert isinstance(second, ToolResult)
    assert isinstance(first, ToolResult)
    assert (second.tool_call_id, second.outcome) == ("2", Outcome.ERROR)
    assert (first.tool_call_id, first.text, first.details) == (
        "1",
        "[1, 2.0]",
        {"result": [1, 2.0]},
    )


def test_a_call_that_cannot_be_run_is_read_as_invalid() -> None:
    (entry,) = read(element({"type": "assistant_action", "tool_name": "no name at all"}))
    assert isinstance(calls_of(entry)[0], InvalidToolCall)


def test_parts_with_further_data_stay_separate_entries() -> None:
    text = {"type": "assistant_text", "content": "a"}
    for more in ({"decision": "d"}, {"audit": {"a": 1}}, {"x": 1}, {"timestamp": None}):
        assert len(read(element(text, id="t"), element(text, id="t#1") | more)) == 2
    assert len(read(element(text, id="t"), element(text, id="t#1"), element(text, id="t#2"))) == 1
    assert len(read(element(text, id="t"), element(text, id="t#2"))) == 2


@pytest.mark.parametrize(
    ("row", "place", "code"),
    [
        (5, "entries[0]", "not_an_object"),
        ({}, "entries[0].message", "not_an_object"),
        (element({}), "entries[0].message.type", "type_missing"),
        (element({"type": 5}), "entries[0].message.type", "not_a_string"),
        (element({"type": "user"}), "entries[0].message.content", "not_a_string"),
        (element({"type": "user", "content": " \n"}), "entries[0].message", "blank"),
        (
            element({"type": "assistant_action"}),
            "entries[0].message.tool_name",
            "tool_name_missing",
        ),
        (
            element({"type": "assistant_action", "tool_name": "a", "tool_args": [1]}),
            "entries[0].message.tool_args",
            "not_an_object",
        ),
        (
            element({"type": "tool_result", "result": 1}),
            "entries[0].message.tool_id",
            "call_id_missing",
        ),
        (
            element({"type": "tool_result", "tool_id": "a", "success": False}),
            "entries[0].message.success",
            "success_mismatch",
        ),
        (element({"type": "x"}, timestamp="soon"), "entries[0].timestamp", "time_invalid"),
        (
            element({"type": "x"}, timestamp="2026-02-10T12:00:00"),
            "entries[0].timestamp",
            "time_invalid",
        ),
        (element({"type": "x"}, decision=5), "entries[0].decision", "not_a_string"),
        (element({"type": "x"}, audit=[]), "entries[0].audit", "not_an_object"),
        (element({"type": "x"}, id=7), "entries[0].id", "not_a_string"),
    ],
)
@pytest.mark.requirement("S1-08")
def test_an_invalid_document_is_refused_with_the_place(row: Any, place: str, code: str) -> None:
    with pytest.raises(InvalidDocument) as refusal:
        read(row)
    assert (refusal.value.place, refusal.value.code) == (place, code)


def test_a_log_without_entries_is_refused() -> None:
    for data in (b"[]", b"{}", b'{"entries":{}}', b"5", b""):
        with pytest.raises(InvalidDocument):
            AUDIT.decode(data)


def test_kept_members_of_a_file_cannot_replace_its_entries() -> None:
    entry = Entry(id="e", payload=ChatMessage.user("Hi"))
    for kept in ("x", {"entries": "[]"}, {"entries": None}, {"a": "nonsense"}):
        header = Header(id="s", about={"audit": kept})
        assert AUDIT.decode(AUDIT.encode(header, [entry]).data).entries == (entry,)


@pytest.mark.requirement("P-24")
@pytest.mark.parametrize(
    ("file", "place"),
    [
        (
            {"entries": [element({"type": "user", "content": "a"}), element({"type": "vote"})]},
            "entries[1]",
        ),
        ([element({"type": "vote"})], "[0]"),
        (element({"type": "vote"}), ""),
    ],
)
def test_a_message_of_an_unknown_type_is_reported_with_its_place(
    file: Any, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    AUDIT.decode(json.dumps(file).encode())
    (record,) = caplog.records
    path = "$" + ("." if place[:1] != "[" else "") + ".".join(filter(None, [place, "message"]))
    facts = vars(record)
    assert (facts["place"], facts["code"], facts["tag"]) == (path, "unknown_part", "vote")


def test_a_foreign_value_under_our_own_name_is_not_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    read(element({"type": "user", "content": "a"}, audit={"steno": {"type": "vote"}}))
    assert caplog.records == []


# -- in a store ----------------------------------------------------------------------------------


@pytest.mark.requirement("S1-08", "S1-09")
def test_an_imported_log_is_a_session_that_verifies_and_continues() -> None:
    store = MemoryStore()
    header, found = AUDIT.decode(AUDIT_EXAMPLE)
    store.add_session(header, build_records(found))
    assert store.verify(header.id).is_intact
    conversation = store.open(header.id)
    conversation.append(ChatMessage.assistant("It has three lines."))
    assert conversation.entries()[:-1] == found


@given(st.lists(entries(), max_size=4))
def test_sealing_makes_ids_unique_and_chains_the_entries(found: list[Entry]) -> None:
    records = build_records([*found, *found])
    listed = [record.entry for record in records if record.entry is not None]
    assert len({entry.id for entry in listed}) == len(records) == 2 * len(found)
    assert [entry.parent for entry in listed] == [None, *(entry.id for entry in listed)][:-1]
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert {record.branch for record in records} <= {"main"}
    first = {entry.id: entry for entry in reversed(found)}
    assert {entry.id for entry in listed} >= first.keys()
    bad = verify_records(records).bad
    assert bad is None or bad.code == "unexplained_redaction"


def test_an_imported_value_has_its_parts() -> None:
    assert AUDIT.decode(b'{"entries":[]}')[1:] == ((),)
    assert isinstance(AUDIT.decode(b'{"entries":[]}'), ImportedSession)


def test_members_that_another_program_added_to_our_own_export_are_written_again() -> None:
    """The message has two texts, so an export contains it in its stored form."""
    message = ChatMessage.user([Text("a"), Text("b")])
    exported = AUDIT.encode(Header(id="s"), [Entry(id="e1", payload=message)]).data
    log = json.loads(exported)
    assert "steno" in log["entries"][0]["audit"]
    log["entries"][0]["trace_id"] = "T-1"
    annotated = json.dumps(log).encode()
    assert json.loads(AUDIT.encode(*AUDIT.decode(annotated)).data) == log
