"""Acceptance tests of document S1: typed messages, the audit log, and the chat loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from steno import (
    ChatMessage,
    Conversation,
    InvalidDocument,
    InvalidMessage,
    MessageRole,
    Missing,
    Outcome,
    Request,
    ToolCall,
    ToolResult,
    ToolResultMessage,
)
from steno.agent import Agent, CallbackApprover, Gate, Permissions, Runner
from steno.agent.replay import RecordedResults, replay, rerun
from steno.errors import ToolFailed
from steno.formats import FORMATS, build_records
from steno.log import EntryQuery, entry_decision, select_entries
from steno.ports import ApprovalDecision, ApprovalRequest
from steno.records import Approval, Feedback, Header
from steno.store import MemoryStore, Store, open_store
from steno.testing import ScriptedProvider, ScriptedTool
from steno.tools import tool
from steno.wire import WIRES, load_wire
from tests.acceptance.command_line import CommandOutput, run_steno
from tests.acceptance.message_samples import switch_threads_often

KINDS = {
    *("user", "assistant_text", "assistant_action"),
    *("tool_result", "tool_error", "system_context"),
}


@pytest.fixture
def steno(tmp_path: Path) -> Callable[..., CommandOutput]:
    """The program, in a home folder of its own."""
    return partial(run_steno, home=tmp_path)


def one_of_each_kind() -> Conversation:
    """A conversation that has one entry of each kind of the document, with distinct texts."""
    calls = [
        ToolCall.create("fetch", {"page": "first"}, id="call_a"),
        ToolCall.create("fetch", {"page": "second"}, id="call_b"),
    ]
    return Conversation(
        [
            ChatMessage.system("You answer briefly."),
            ChatMessage.user("Fetch both pages."),
            ChatMessage.assistant("I plan to fetch them.", calls),
            ToolResult.success("call_a", "the first page"),
            ToolResult.error("call_b", "no second page"),
            ChatMessage.assistant("Only one page exists."),
        ]
    )


# -- a session of our own ------------------------------------------------------------------------


@tool(capability="read")
def look(path: str) -> str:
    """Return the content of a file."""
    return f"content of {path}"


@tool(capability="execute", subjects=lambda command: [command])
def execute(command: str) -> str:
    """Run a command."""
    if command == "broken":
        raise ToolFailed("exit status 1")
    return "done"


def call(name: str, id: str, **arguments: object) -> ToolCall:
    return ToolCall.create(name, arguments, id=id)


CALLS = {
    "read": call("look", "read", path="a.txt"),
    "asked": call("execute", "asked", command="make"),
    "refused": call("execute", "refused", command="curl"),
    "forbidden": call("execute", "forbidden", command="rm"),
    "failed": call("execute", "failed", command="broken"),
    "invalid": call("look", "invalid", file="a.txt"),
    "unknown": call("teleport", "unknown", to="Oslo"),
}


def decide(request: ApprovalRequest) -> ApprovalDecision:
    allowed = "make" in [subject.text for subject in request.subjects]
    return ApprovalDecision(allowed=allowed, actor="ada", reason=None if allowed else "no network")


def run_session(store: Store) -> Conversation:
    """Run an agent whose calls are approved, denied, invalid and failed in every way."""
    conversation = store.new([ChatMessage.system("You fix code.")], id="own-run")
    agent = Agent(
        ScriptedProvider([ChatMessage.assistant("I plan it.", list(CALLS.values())), "Finished."]),
        conversation,
        tools=[look, execute],
        gate=Gate(
            Permissions.of(allow=["execute(broken)"], deny=["execute(rm)"]),
            CallbackApprover(decide),
        ),
        runner=Runner(store),
        actor="ada",
        model="lab/large",
    )
    asyncio.run(agent.run("Please start."))
    return conversation


@pytest.fixture(scope="module")
def own_run() -> Conversation:
    return run_session(MemoryStore())


@pytest.fixture(scope="module")
def audit_log(own_run: Conversation) -> list[dict[str, Any]]:
    """The entries of the audit log of the session."""
    exported = FORMATS["audit"].encode(Header(id=own_run.id), own_run.entries())
    document = json.loads(exported.data)
    assert list(document) == ["entries"]
    entries: list[dict[str, Any]] = document["entries"]
    return entries


def result_of(audit_log: list[dict[str, Any]], call_id: str) -> dict[str, Any]:
    [entry] = [
        entry
        for entry in audit_log
        if entry["message"]["type"] in ("tool_result", "tool_error")
        and entry["message"]["tool_id"] == call_id
    ]
    return entry


def action_of(audit_log: list[dict[str, Any]], call_id: str) -> dict[str, Any]:
    [entry] = [
        entry
        for entry in audit_log
        if entry["message"]["type"] == "assistant_action" and entry["message"]["tool_id"] == call_id
    ]
    return entry


# -- 1. structured message types -----------------------------------------------------------------


@pytest.mark.requirement("S1-01")
@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("user", ["Fetch both pages."]),
        ("assistant_text", ["I plan to fetch them.", "Only one page exists."]),
        ("assistant_action", ["I plan to fetch them."]),
        ("tool_result", ["the first page"]),
        ("tool_error", ["no second page"]),
        ("system_context", ["You answer briefly."]),
    ],
)
def test_entries_are_found_by_their_kind(kind: Any, texts: list[str]) -> None:
    """Planning text, actions, results and errors can be told apart without reading the text."""
    found = select_entries(one_of_each_kind().entries(), EntryQuery(kind=kind))
    assert [entry.message.text for entry in found if entry.message is not None] == texts


@pytest.mark.requirement("S1-01")
def test_every_message_of_the_audit_log_has_one_of_the_six_types(
    audit_log: list[dict[str, Any]],
) -> None:
    assert {entry["message"]["type"] for entry in audit_log} == KINDS


TEXTS = {
    "system_context": "You answer briefly.",
    "user": "Fetch both pages.",
    "assistant_text": "I plan to fetch them.",
    "tool_result": "the first page",
    "tool_error": "no second page",
}


@pytest.mark.requirement("S1-02")
@pytest.mark.parametrize("name", WIRES)
def test_every_kind_is_written_once_in_the_format_of_each_provider(name: str) -> None:
    request = Request(model="m", messages=one_of_each_kind().messages())
    body = json.dumps(load_wire(name).encode_request(request).json)
    for text in TEXTS.values():
        assert body.count(text) == 1
    for page in ("first", "second"):  # the arguments of the two actions
        assert body.count(page) == 2


@pytest.mark.requirement("S1-02")
def test_each_kind_has_its_role_in_a_chat_request() -> None:
    """Unlike the example of the document, results keep the role that providers require."""
    request = Request(model="m", messages=one_of_each_kind().messages())
    sent = load_wire("openai_chat").encode_request(request).json["messages"]
    assert [message["role"] for message in sent] == [
        *("system", "user", "assistant", "tool", "tool", "assistant")
    ]
    assert [each["id"] for each in sent[2]["tool_calls"]] == ["call_a", "call_b"]
    assert [message["tool_call_id"] for message in sent[3:5]] == ["call_a", "call_b"]


@pytest.mark.requirement("S1-03")
def test_each_kind_has_the_log_format_of_the_document() -> None:
    conversation = one_of_each_kind()
    exported = FORMATS["audit"].encode(Header(id="s"), conversation.entries())
    messages = [entry["message"] for entry in json.loads(exported.data)["entries"]]
    system, user, text, first, second, result, error, _ = messages
    assert system == {"type": "system_context", "content": "You answer briefly."}
    assert user == {"type": "user", "content": "Fetch both pages."}
    assert text == {"type": "assistant_text", "content": "I plan to fetch them."}
    for action, page in ((first, "first"), (second, "second")):
        assert action["type"] == "assistant_action"
        assert action["tool_name"] == "fetch"
        assert action["tool_args"] == {"page": page}
    assert (first["tool_id"], second["tool_id"]) == ("call_a", "call_b")
    assert result["type"] == "tool_result"
    assert (result["tool_id"], result["tool_name"]) == ("call_a", "fetch")
    assert (result["success"], result["result"]) == (True, "the first page")
    assert error["type"] == "tool_error"
    assert (error["tool_id"], error["tool_name"]) == ("call_b", "fetch")
    assert (error["success"], error["error"]) == (False, "no second page")


def read_audit(document: Any) -> dict[str, str]:
    messages = [entry["message"] for entry in document["entries"]]
    results = [each for each in messages if each["type"] in ("tool_result", "tool_error")]
    return {each["tool_id"]: each["tool_name"] for each in results}


def read_session(document: Any) -> dict[str, str]:
    results = [each for each in document["messages"] if each["type"] == "tool_result"]
    return {each["tool_call_id"]: each["tool_name"] for each in results}


def read_rows(document: Any) -> dict[str, str]:
    results = [json.loads(row["data_json"]) for row in document if row["kind"] == "tool_result"]
    return {each["tool_call_id"]: each["name"] for each in results}


@pytest.mark.parametrize(
    ("format", "read_names"),
    [
        pytest.param("audit", read_audit, marks=pytest.mark.requirement("S1-03")),
        pytest.param("session", read_session, marks=pytest.mark.requirement("S4-11")),
        pytest.param("rows", read_rows, marks=pytest.mark.requirement("S3-02")),
    ],
)
def test_every_result_in_an_export_names_its_tool(
    format: str, read_names: Callable[[Any], dict[str, str]], own_run: Conversation
) -> None:
    """Also the results of calls that were denied, invalid or of an unknown tool."""
    exported = FORMATS[format].encode(Header(id=own_run.id), own_run.entries())
    names = read_names(json.loads(exported.data))
    assert names == {call_id: call.name for call_id, call in CALLS.items()}


# -- 2. history with metadata --------------------------------------------------------------------


@pytest.mark.requirement("S1-04")
def test_an_entry_has_an_id_a_time_a_message_a_decision_and_audit_data() -> None:
    conversation = Conversation()
    message = ChatMessage.user("read the README")
    entry = conversation.append(
        message, decision="fs_read_permission_requested", audit={"granted": True}
    )
    other = conversation.append(ChatMessage.user("read the README"))
    assert entry.id
    assert entry.id != other.id
    assert entry.time is not None
    assert entry.time.utcoffset() is not None
    assert entry.message == message
    assert entry.decision == "fs_read_permission_requested"
    assert entry.audit == {"granted": True}
    assert conversation.entries() == (entry, other)


@pytest.mark.requirement("S1-05")
def test_many_threads_append_and_read_at_once() -> None:
    conversation = Conversation([ChatMessage.system("Be brief.")])

    def write(writer: int, start: Barrier) -> None:
        start.wait(timeout=60)
        switch_threads_often()
        for number in range(50):
            conversation.append(ChatMessage.user(f"{writer}/{number}"))
            assert len(conversation.messages()) <= len(conversation.entries())

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(8), [Barrier(8)] * 8))
    texts = [message.text for message in conversation.messages()][1:]
    assert sorted(map(str, texts)) == sorted(f"{w}/{n}" for w in range(8) for n in range(50))
    for writer in range(8):  # each thread sees its own messages in its own order
        own = [text for text in texts if str(text).startswith(f"{writer}/")]
        assert own == [f"{writer}/{number}" for number in range(50)]
    entries = conversation.entries()
    assert len({entry.id for entry in entries}) == len(entries)
    assert [entry.parent for entry in entries[1:]] == [entry.id for entry in entries[:-1]]


@pytest.mark.requirement("S1-05")
def test_the_list_of_entries_that_a_reader_holds_does_not_change() -> None:
    conversation = Conversation([ChatMessage.user("one")])
    held = conversation.entries()
    conversation.append(ChatMessage.user("two"))
    assert [entry.message for entry in held] == [ChatMessage.user("one")]


# -- 3. streaming from typed history -------------------------------------------------------------


@pytest.mark.requirement("S1-06")
def test_the_system_context_is_sent_once() -> None:
    """A system prompt and control entries in the history are not sent again as messages."""
    provider = ScriptedProvider(["First.", "Second."])
    conversation = Conversation([ChatMessage.system("You fix code.")])
    agent = Agent(provider, conversation, model="lab/large")
    asyncio.run(agent.run("One."))
    conversation.change_mode("plan")
    asyncio.run(agent.run("Two."))
    for request in provider.requests:
        body = load_wire("openai_chat").encode_request(request).json
        systems = [each for each in body["messages"] if each["role"] == "system"]
        assert len(systems) == 1
        assert json.dumps(body).count("You fix code.") == 1
    last = [
        message.text
        for message in provider.requests[-1].messages
        if message.role is not MessageRole.SYSTEM
    ]
    assert last == ["One.", "First.", "Two."]


# -- 4. validation -------------------------------------------------------------------------------


@pytest.mark.requirement("S1-07")
@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_a_blank_user_message_is_refused(text: str) -> None:
    with pytest.raises(InvalidMessage):
        ChatMessage.user(text)


@pytest.mark.requirement("S1-07")
def test_an_action_needs_a_tool_name() -> None:
    with pytest.raises(ValueError, match="name"):
        ToolCall(id="c1", name="", arguments="{}")


@pytest.mark.requirement("S1-07")
def test_an_action_without_arguments_gets_empty_ones() -> None:
    assert ToolCall(id="c1", name="look").arguments == "{}"


@pytest.mark.requirement("S1-07")
def test_a_result_needs_the_id_of_its_call() -> None:
    with pytest.raises(InvalidMessage):
        ChatMessage.tool_result("", "text")
    with pytest.raises(ValueError, match="id"):
        ToolResult.success("", "text")


# -- the audit log -------------------------------------------------------------------------------

DOCUMENT = """{
  "entries": [
    {
      "id": "uuid-1",
      "timestamp": "2026-02-10T15:30:00Z",
      "message": {"type": "user", "content": "read the README"},
      "decision": "fs_read_permission_requested",
      "audit": {"permission": "CapFSRead", "granted": true, "user_confirmed": true}
    },
    {
      "id": "uuid-2",
      "timestamp": "2026-02-10T15:30:05Z",
      "message": {"type": "assistant_text", "content": "I'll read the README file for you."},
      "decision": "planning",
      "audit": {}
    },
    {
      "id": "uuid-3",
      "timestamp": "2026-02-10T15:30:06Z",
      "message": {
        "type": "assistant_action", "tool_name": "fs.read", "tool_args": {"path": "README.md"}
      },
      "decision": "tool_call_approved",
      "audit": {"tool": "fs.read", "permission_verified": true}
    },
    {
      "id": "uuid-4",
      "timestamp": "2026-02-10T15:30:07Z",
      "message": {
        "type": "tool_result", "tool_name": "fs.read", "success": true, "result": {"lines": 12}
      },
      "decision": "tool_executed_successfully",
      "audit": {"execution_time_ms": 42, "result_size_bytes": 1024}
    }
  ]
}"""


@pytest.mark.requirement("S1-08")
def test_the_example_of_the_document_is_loaded_and_written_again_unchanged() -> None:
    audit = FORMATS["audit"]
    imported = audit.decode(DOCUMENT.encode())
    assert [entry.id for entry in imported.entries] == ["uuid-1", "uuid-2", "uuid-3", "uuid-4"]
    assert [entry_decision(entry) for entry in imported.entries] == [
        "fs_read_permission_requested",
        "planning",
        "tool_call_approved",
        "tool_executed_successfully",
    ]
    exported = audit.encode(imported.header, imported.entries)
    assert json.loads(exported.data) == json.loads(DOCUMENT)


@pytest.mark.requirement("S1-08")
def test_calls_of_the_document_are_found_under_their_own_name(
    steno: Callable[..., CommandOutput],
) -> None:
    """`fs.read` is not a name in our vocabulary; people still search for it."""
    steno("sessions", "import", "-", stdin=DOCUMENT)
    found = json.loads(steno("audit", "last", "--tool", "fs.read", "--json").out)
    assert [entry["id"] for entry in found["entries"]] == ["uuid-3", "uuid-4"]
    assert "fs.read" in steno("audit", "last").out
    assert "fs.read" in steno("sessions", "show", "last").out
    exported = steno("sessions", "export", "last", "--format", "audit").out
    assert json.loads(exported) == json.loads(DOCUMENT)


def with_last_message(**message: object) -> bytes:
    """Return the document with another message in its last entry."""
    document = json.loads(DOCUMENT)
    document["entries"][-1]["message"] = message
    return json.dumps(document).encode()


@pytest.mark.requirement("S1-08")
def test_a_failed_result_of_another_program_is_loaded_and_written_again_unchanged() -> None:
    failed = {"tool_name": "fs.read", "success": False, "error": "no such file"}
    data = with_last_message(type="tool_error", **failed)
    imported = FORMATS["audit"].decode(data)
    message = imported.entries[-1].message
    assert isinstance(message, ToolResultMessage)
    assert (message.is_error, message.text) == (True, "no such file")
    exported = FORMATS["audit"].encode(imported.header, imported.entries)
    assert json.loads(exported.data) == json.loads(data)


@pytest.mark.requirement("S1-07")
@pytest.mark.parametrize(
    "message",
    [
        {"type": "user", "content": " "},
        {"type": "assistant_action", "tool_name": "", "tool_args": {}},
        {"type": "assistant_action", "tool_args": {}},
        {"content": "text without a type"},
    ],
)
def test_an_audit_log_with_an_invalid_message_is_refused(message: dict[str, object]) -> None:
    with pytest.raises(InvalidDocument) as caught:
        FORMATS["audit"].decode(with_last_message(**message))
    assert "entries[3].message" in str(caught.value)


@pytest.mark.requirement("S1-08")
def test_every_entry_of_our_own_log_has_the_five_members(audit_log: list[dict[str, Any]]) -> None:
    for entry in audit_log:
        assert list(entry) == ["id", "timestamp", "message", "decision", "audit"]
        assert entry["timestamp"].endswith("Z")
        assert isinstance(entry["audit"], dict)
    assert len({entry["id"] for entry in audit_log}) == len(audit_log)


@pytest.mark.requirement("S1-08")
def test_every_entry_of_our_own_log_has_a_decision(audit_log: list[dict[str, Any]]) -> None:
    assert [entry["message"] for entry in audit_log if not entry["decision"]] == []


@pytest.mark.requirement("S1-08")
@pytest.mark.parametrize("call_id", ["read", "asked", "failed"])
def test_the_result_of_a_call_that_ran_has_its_time_and_size(
    call_id: str, audit_log: list[dict[str, Any]]
) -> None:
    entry = result_of(audit_log, call_id)
    message, audit = entry["message"], entry["audit"]
    text = message.get("result", message.get("error"))
    assert audit["execution_time_ms"] >= 0
    assert audit["result_size_bytes"] == len(text.encode())


@pytest.mark.requirement("S1-08")
@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.ERROR])
@pytest.mark.parametrize("text", ["one page", "eine Säule für 5 €, 漢字 und 🙂", ""])
def test_the_time_is_in_milliseconds_and_the_size_in_bytes_of_utf8(
    text: str, outcome: Outcome
) -> None:
    calling = ChatMessage.assistant(None, [CALLS["read"]])
    result = ChatMessage.tool_result("read", text, outcome=outcome, duration_s=0.042)
    exported = FORMATS["audit"].encode(Header(id="s"), Conversation([calling, result]).entries())
    entry = result_of(json.loads(exported.data)["entries"], "read")
    assert entry["audit"]["execution_time_ms"] == 42
    assert entry["audit"]["result_size_bytes"] == len(text.encode("utf-8"))


@pytest.mark.requirement("S1-08")
@pytest.mark.parametrize("call_id", ["refused", "forbidden", "invalid", "unknown"])
def test_the_result_of_a_call_that_did_not_run_has_no_time(
    call_id: str, audit_log: list[dict[str, Any]]
) -> None:
    assert "execution_time_ms" not in result_of(audit_log, call_id)["audit"]


@pytest.mark.requirement("S1-08")
def test_our_own_log_can_be_loaded_again(own_run: Conversation) -> None:
    audit = FORMATS["audit"]
    exported = audit.encode(Header(id="s"), own_run.entries())
    imported = audit.decode(exported.data)
    assert [entry.payload for entry in imported.entries] == [
        entry.payload for entry in own_run.entries()
    ]
    assert json.loads(audit.encode(imported.header, imported.entries).data) == json.loads(
        exported.data
    )


# -- storage -------------------------------------------------------------------------------------


@pytest.fixture(params=["memory:", "sqlite:{}/s.db", "jsonl:{}/s", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "postgresql":
        address = str(request.getfixturevalue("postgres_address"))
    else:
        address = str(request.param).format(tmp_path)
    with open_store(address) as store:
        yield store


@pytest.mark.requirement("S1-09")
def test_every_kind_is_equal_after_it_was_stored(store: Store) -> None:
    original = one_of_each_kind().entries()
    store.add_session(Header(id="kept"), build_records(original))
    assert store.open("kept").entries() == original


@pytest.mark.requirement("S1-09")
def test_a_whole_run_is_equal_after_it_was_stored(store: Store) -> None:
    recorded = run_session(store).entries()
    assert store.open("own-run").entries() == recorded


# -- the chat loop -------------------------------------------------------------------------------


@pytest.mark.requirement("S1-10")
def test_the_loop_creates_typed_messages(own_run: Conversation) -> None:
    kinds = [type(message).__name__ for message in own_run.messages()]
    assert kinds == [
        *("SystemMessage", "UserMessage", "AssistantMessage"),
        *["ToolResultMessage"] * len(CALLS),
        "AssistantMessage",
    ]


@pytest.mark.requirement("S1-10")
@pytest.mark.parametrize(
    ("call_id", "statuses", "actor", "rule"),
    [
        ("read", ["approved"], None, "default read"),
        ("asked", ["pending", "approved"], "ada", None),
        ("refused", ["pending", "denied"], "ada", None),
        ("forbidden", ["denied"], None, "deny execute(rm)"),
        ("failed", ["approved"], None, "allow execute(broken)"),
    ],
)
def test_each_decision_is_recorded_with_the_person_or_the_rule(
    call_id: str,
    statuses: list[str],
    actor: str | None,
    rule: str | None,
    own_run: Conversation,
) -> None:
    approvals = [
        entry.payload
        for entry in own_run.entries()
        if isinstance(entry.payload, Approval) and entry.payload.call_id == call_id
    ]
    assert [approval.status for approval in approvals] == statuses
    assert (approvals[-1].actor, approvals[-1].rule) == (actor, rule)


@pytest.mark.requirement("S1-10")
@pytest.mark.parametrize(
    ("call_id", "decision"),
    [
        ("read", "executed"),
        ("asked", "executed"),
        ("failed", "failed"),
        ("refused", "denied"),
        ("forbidden", "denied"),
    ],
)
def test_the_end_of_each_call_is_recorded(
    call_id: str, decision: str, own_run: Conversation
) -> None:
    [entry] = [
        entry
        for entry in own_run.entries()
        if entry.message is not None and entry.message.tool_call_id == call_id
    ]
    assert entry_decision(entry) == decision


@pytest.mark.requirement("S1-10")
@pytest.mark.parametrize(
    ("call_id", "decision"),
    [
        ("read", "tool_call_approved"),
        ("asked", "tool_call_approved"),
        ("refused", "tool_call_denied"),
        ("forbidden", "tool_call_denied"),
    ],
)
def test_the_audit_log_shows_the_decision_about_each_action(
    call_id: str, decision: str, audit_log: list[dict[str, Any]]
) -> None:
    assert action_of(audit_log, call_id)["decision"] == decision


# -- notes: replay and feedback ------------------------------------------------------------------


def recorded_session() -> tuple[MemoryStore, Conversation, ScriptedTool]:
    store = MemoryStore()
    conversation = store.new([ChatMessage.system("You fix code.")])
    runner_tool = ScriptedTool("run_tests", ["3 passed"])
    asked = ChatMessage.assistant("I run them.", [call("run_tests", "c1")])
    provider = ScriptedProvider([asked, "All pass."])
    agent = Agent(provider, conversation, tools=[runner_tool], model="lab/large")
    asyncio.run(agent.run("Do they pass?"))
    return store, conversation, runner_tool


@pytest.mark.requirement("S1-11")
def test_a_replay_makes_the_same_log() -> None:
    store, conversation, runner_tool = recorded_session()
    result = asyncio.run(replay(list(store.records(conversation.id))))
    assert result.is_same
    assert result.entries == len(conversation.entries())
    assert len(runner_tool.calls) == 1  # the replay runs no tool


@pytest.mark.requirement("S1-11")
def test_another_model_answers_the_same_prompts_and_the_difference_is_named() -> None:
    store, conversation, runner_tool = recorded_session()
    small = ScriptedProvider(
        [ChatMessage.assistant("I run them.", [call("run_tests", "c1")]), "Three tests pass."]
    )

    def build(reuse: RecordedResults) -> Agent:
        return Agent(
            small,
            conversation,
            tools=[runner_tool],
            gate=reuse.wrap_gate(Gate()),
            runner=reuse.wrap_runner(Runner(store)),
            model="lab/small",
        )

    compared = asyncio.run(rerun(conversation, build, name="small"))
    assert compared.divergence is not None
    assert compared.divergence.turn == 2
    assert (compared.recorded.text, compared.new.text) == ("All pass.", "Three tests pass.")
    assert [message.text for message in small.requests[0].messages][-1] == "Do they pass?"


@pytest.mark.requirement("S1-12")
def test_feedback_on_a_message_reaches_the_model_with_the_next_request() -> None:
    provider = ScriptedProvider(["The test is wrong.", "You are right."])
    conversation = Conversation()
    agent = Agent(provider, conversation)
    asyncio.run(agent.run("What is wrong?"))
    answer = conversation.entries()[-1]
    conversation.append(Feedback(target=answer.id, text="Please reconsider."))
    asyncio.run(agent.run("Again."))
    sent = [str(message.text) for message in provider.requests[-1].messages]
    [feedback] = [text for text in sent if "Please reconsider." in text]
    assert "The test is wrong." in feedback  # the model sees what the feedback is about
    assert sent[-1] == "Again."
    assert [entry for entry in conversation.entries() if isinstance(entry.payload, Feedback)]


@pytest.mark.requirement("S1-12")
def test_feedback_on_an_unknown_message_is_refused() -> None:
    conversation = Conversation([ChatMessage.user("Hello")])
    with pytest.raises(Missing):
        conversation.append(Feedback(target="no-such-entry", text="Please reconsider."))
    assert len(conversation) == 1


@pytest.mark.requirement("S1-12")
def test_feedback_on_the_command_line_names_the_message_by_its_number(
    steno: Callable[..., CommandOutput], tmp_path: Path
) -> None:
    address = f"sqlite:{tmp_path}/sessions.db"
    with open_store(address) as store:
        asked = store.new([ChatMessage.user("What is wrong?")], id="s")
    assert steno("feedback", "s", "1", "Please reconsider.", store=address).status == 0
    with open_store(address) as store:
        last = store.open("s").entries()[-1]
    assert last.payload == Feedback(target=asked.entries()[0].id, text="Please reconsider.")
    unknown = steno("feedback", "s", "no-such-entry", "Please reconsider.", store=address)
    assert unknown.status == 1
    assert "no-such-entry" in unknown.err
