"""Acceptance tests of document S3: the provider-agnostic message API and stored rows."""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from steno import (
    ChatMessage,
    Conversation,
    InvalidDocument,
    InvalidMessage,
    Outcome,
    ToolCall,
    ToolResultMessage,
)
from steno.agent import Agent
from steno.codec import encode_header, encode_record
from steno.formats import FORMATS, build_records, message_of_row
from steno.store import MemoryStore, Store, open_store
from steno.testing import ReplayingProvider, ScriptedProvider, ScriptedTool
from steno.wire import WIRES, load_wire
from tests.acceptance.command_line import CommandOutput, run_steno
from tests.acceptance.costs import memory_of, steps_of
from tests.acceptance.provider_responses import openai_stream


def row(kind: str, content: str | None = None, data: object = None) -> dict[str, object]:
    """A row as a database stores it: `data_json` is JSON text inside of JSON."""
    return {
        "kind": kind,
        "content": content,
        "data_json": None if data is None else json.dumps(data),
    }


CALL = row("tool_call", None, {"tool_call_id": "c1", "name": "run", "arguments": '{"fast": true}'})
RESULT = row("tool_result", None, {"tool_call_id": "c1", "output": "3 passed", "success": True})


def import_rows(*rows: dict[str, object], store: Store) -> Conversation:
    imported = FORMATS["rows"].decode(json.dumps(rows).encode())
    store.add_session(imported.header, build_records(imported.entries))
    return store.open(imported.header.id)


def sent_by(conversation: Conversation) -> str:
    """All that an agent sends to a model for the next prompt, as JSON."""
    provider = ScriptedProvider(["Yes."])
    asyncio.run(Agent(provider, conversation).run("Well?"))
    return json.dumps(load_wire("openai_chat").encode_request(provider.requests[-1]).json)


# -- 1. message creation -------------------------------------------------------------------------


@pytest.mark.requirement("S3-01")
@pytest.mark.parametrize(
    ("message", "role"),
    [(ChatMessage.user("Hello"), "user"), (ChatMessage.assistant("Hello"), "assistant")],
)
def test_one_call_creates_a_text_message(message: ChatMessage, role: str) -> None:
    assert (message.role, message.text, message.tool_calls) == (role, "Hello", ())


@pytest.mark.requirement("S3-01")
def test_one_call_creates_a_tool_call_message() -> None:
    call = ToolCall(id="c1", name="run", arguments='{"fast": true}')
    message = ChatMessage.assistant(None, [call])
    [created] = message.tool_calls
    assert (message.role, created.id, created.name) == ("assistant", "c1", "run")
    assert created.arguments == '{"fast": true}'


@pytest.mark.requirement("S3-01")
@pytest.mark.parametrize("is_error", [True, False])
def test_one_call_creates_a_tool_result_message(is_error: bool) -> None:
    outcome = Outcome.ERROR if is_error else Outcome.OK
    message = ChatMessage.tool_result("c1", "3 passed", outcome=outcome)
    assert (message.role, message.tool_call_id, message.text) == ("tool", "c1", "3 passed")
    assert message.is_error is is_error


# -- 1. rows of the database ---------------------------------------------------------------------


@pytest.mark.requirement("S3-02")
def test_a_user_row_becomes_a_user_message() -> None:
    assert message_of_row(row("user", "Hello")) == ChatMessage.user("Hello")


@pytest.mark.requirement("S3-02")
def test_an_assistant_row_becomes_an_assistant_message() -> None:
    message = message_of_row(row("assistant", "Hello"))
    assert message is not None
    assert (message.role, message.text) == ("assistant", "Hello")


@pytest.mark.requirement("S3-02")
def test_a_tool_call_row_becomes_a_message_with_the_call() -> None:
    message = message_of_row(CALL)
    assert message is not None
    [call] = message.tool_calls
    assert (message.role, call.id, call.name) == ("assistant", "c1", "run")
    assert call.arguments == '{"fast": true}'


@pytest.mark.requirement("S3-02")
@pytest.mark.parametrize("kind", ["tool_result", "tool"])
@pytest.mark.parametrize("success", [True, False])
def test_a_tool_result_row_becomes_a_result(kind: str, success: bool) -> None:
    """`tool` is the older name of the kind."""
    data = {"tool_call_id": "c1", "output": "3 passed", "success": success}
    message = message_of_row(row(kind, None, data))
    assert isinstance(message, ToolResultMessage)
    assert (message.tool_call_id, message.text) == ("c1", "3 passed")
    assert message.is_error is not success


@pytest.mark.requirement("S3-02")
def test_the_calls_of_one_turn_become_one_message_and_the_conversation_goes_on() -> None:
    """Providers want the calls of a turn in one message, before all of their results."""
    second_call = row("tool_call", None, {"tool_call_id": "c2", "name": "run", "arguments": "{}"})
    second = row("tool_result", None, {"tool_call_id": "c2", "output": "pass", "success": True})
    rows = (row("user", "Go"), CALL, second_call, RESULT, second)
    conversation = import_rows(*rows, store=MemoryStore())
    turn = conversation.messages()[1]
    assert [call.id for call in turn.tool_calls] == ["c1", "c2"]
    roles = [message["role"] for message in json.loads(sent_by(conversation))["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "user"]


@pytest.mark.requirement("S3-03")
def test_a_system_row_becomes_no_message() -> None:
    assert message_of_row(row("system", "Be brief.")) is None


@pytest.mark.requirement("S3-03")
def test_system_rows_are_sent_as_the_system_prompt() -> None:
    conversation = import_rows(
        row("system", "Be brief."), row("user", "Hello"), store=MemoryStore()
    )
    provider = ScriptedProvider(["Yes."])
    asyncio.run(Agent(provider, conversation).run("Well?"))
    [request] = provider.requests
    assert "Be brief." in (request.system_prompt or "")
    body = load_wire("anthropic_messages").encode_request(request).json
    assert "Be brief." in json.dumps(body["system"])
    assert "Be brief." not in json.dumps(body["messages"])


@pytest.mark.requirement("S3-04")
@pytest.mark.parametrize("kind", ["tool_call", "tool_result", "tool"])
@pytest.mark.parametrize(
    "data_json",
    [
        "{",
        "",
        "null",
        "[]",
        '"text"',
        '{"name": "run", "arguments": "{}", "output": "x", "success": true}',  # no id
        '{"tool_call_id": 7, "name": "run", "arguments": "{}", "output": "x", "success": true}',
    ],
)
def test_a_row_with_malformed_data_is_an_error(kind: str, data_json: str) -> None:
    with pytest.raises((InvalidDocument, InvalidMessage)):
        message_of_row({"kind": kind, "content": None, "data_json": data_json})


@pytest.mark.requirement("S3-04")
def test_an_import_with_one_malformed_row_creates_nothing(
    steno: Callable[..., CommandOutput], tmp_path: Path
) -> None:
    rows = [row("user", "Hello"), {"kind": "tool_call", "content": None, "data_json": "{"}]
    imported = steno("sessions", "import", "-", "--format", "rows", stdin=json.dumps(rows))
    assert imported.status == 1
    assert "rows[1].data_json" in imported.err
    with open_store(f"sqlite:{tmp_path}/sessions.db") as store:
        assert list(store.headers()) == []


@pytest.mark.requirement("S3-04")
@pytest.mark.parametrize("missing", ["success", "output"])
def test_a_result_row_without_its_success_or_output_is_reported(missing: str) -> None:
    """It is not taken as a result that succeeded."""
    data = {"tool_call_id": "c1", "output": "3 passed", "success": True}
    del data[missing]
    with pytest.raises(InvalidDocument) as caught:
        message_of_row(row("tool_result", None, data))
    assert missing in str(caught.value)


@pytest.mark.requirement("S3-04")
@pytest.mark.parametrize("success", ["yes", 1, None])
def test_a_result_row_whose_success_is_no_boolean_is_an_error(success: object) -> None:
    data = {"tool_call_id": "c1", "output": "3 passed", "success": success}
    with pytest.raises(InvalidDocument) as caught:
        message_of_row(row("tool_result", None, data))
    assert "success" in str(caught.value)


# -- 2. the messages of an agent -----------------------------------------------------------------


@pytest.mark.requirement("S3-05")
def test_added_messages_are_kept_in_order() -> None:
    conversation = Conversation()
    for number in range(20):
        conversation.append(ChatMessage.user(str(number)))
    assert [message.text for message in conversation.messages()] == [str(n) for n in range(20)]


@pytest.mark.requirement("S3-05")
def test_adding_a_message_does_not_touch_the_earlier_ones() -> None:
    """The 10,000th message is appended at the cost of the 100th, and no list is copied.

    The lists of messages and entries may grow their memory now and then, so the median of several
    calls counts.
    """
    conversation = Conversation([ChatMessage.user("first")] * 100)
    append = partial(conversation.append, ChatMessage.user("one more"))
    costs = []
    for length in (100, 10_000):
        while len(conversation) < length:
            append()
        assert len(conversation.messages()) == len(conversation.entries())  # both are in memory
        peaks = [memory_of(append).peak for _ in range(5)]
        costs.append((steps_of(append), statistics.median(peaks)))
    (early_steps, _), (late_steps, late_peak) = costs
    assert late_steps < 1.5 * early_steps  # a new id may take a few steps more
    assert late_peak < 8_192  # a tenth of a list of 10,000 messages


@pytest.mark.requirement("S3-05")
def test_clear_empties_the_context_and_keeps_the_history() -> None:
    conversation = Conversation([ChatMessage.user("Hello"), ChatMessage.assistant("Hi")])
    cleared = conversation.clear()
    assert conversation.messages() == ()
    assert conversation.entries()[-1] == cleared
    assert len(conversation.entries()) == 3
    body = sent_by(conversation)
    assert "Hello" not in body
    assert "Well?" in body


@pytest.mark.requirement("S3-05")
def test_clear_keeps_the_system_prompt() -> None:
    conversation = Conversation([ChatMessage.system("Be brief."), ChatMessage.user("Hello")])
    conversation.clear()
    body = sent_by(conversation)
    assert "Be brief." in body
    assert "Hello" not in body


@pytest.mark.requirement("S3-05")
def test_messages_are_added_after_a_clear_that_left_calls_without_results() -> None:
    call = ToolCall(id="c1", name="run")
    conversation = Conversation([ChatMessage.user("Go"), ChatMessage.assistant(None, [call])])
    conversation.clear()
    conversation.append(ChatMessage.user("Hello"))
    assert conversation.messages() == (ChatMessage.user("Hello"),)


@pytest.mark.requirement("S3-05", "S3-06")
def test_a_clone_has_equal_messages_and_is_independent() -> None:
    call = ToolCall(id="c1", name="run", arguments='{"fast": true}')
    original = Conversation([ChatMessage.user("Go"), ChatMessage.assistant(None, [call])])
    clone = original.clone()
    assert clone.messages() == original.messages()
    clone.append(ChatMessage.tool_result("c1", "of the clone"))
    original.append(ChatMessage.tool_result("c1", "of the original"))
    original.clear()
    assert clone.messages()[-1].text == "of the clone"
    assert len(clone.messages()) == 3
    assert original.messages() == ()


@pytest.mark.requirement("S3-06")
def test_a_fork_never_sees_what_happens_on_another_branch() -> None:
    conversation = Conversation([ChatMessage.user("Name a colour.")])
    conversation.fork("second")
    conversation.append(ChatMessage.assistant("Red."))
    conversation.append(ChatMessage.assistant("Blue."), branch="second")
    assert [message.text for message in conversation.messages("main")] == ["Name a colour.", "Red."]
    assert [message.text for message in conversation.messages("second")] == [
        *("Name a colour.", "Blue.")
    ]


# -- 3. one representation -----------------------------------------------------------------------


RUN_TESTS = {"index": 0, "id": "c1", "function": {"name": "run_tests", "arguments": "{}"}}
RUN = [
    openai_stream({"content": "I run them."}, {"tool_calls": [RUN_TESTS]}, finish="tool_calls"),
    openai_stream({"content": "All pass."}),
    openai_stream({"content": "You are welcome."}),
]
TEXTS = [
    *("You fix code.", "Do they pass?", "I run them.", "3 passed", "All pass."),
    *("Thanks.", "You are welcome."),
]


@pytest.fixture(params=["jsonl:{}/store", "memory:", "postgresql", "sqlite:{}/store"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store of each kind."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_address"))
    return str(request.param).format(tmp_path)


@pytest.mark.requirement("S3-07")
def test_a_stored_run_has_each_text_once_and_nothing_in_the_shape_of_a_provider(
    address: str, tmp_path: Path
) -> None:
    """Also the audit data, the header and the blobs hold no copy; a search index is none."""
    with open_store(address) as store:
        conversation = store.new([ChatMessage.system("You fix code.")], id="s")
        provider = ReplayingProvider("openai_chat", RUN)
        agent = Agent(provider, conversation, tools=[ScriptedTool("run_tests", ["3 passed"])])
        for prompt in ("Do they pass?", "Thanks."):
            asyncio.run(agent.run(prompt))
        for request in provider.requests:
            for name in WIRES:
                load_wire(name).encode_request(request)
        messages = store.open("s").messages()
        stored = [encode_header(store.header("s")), *map(encode_record, store.records("s"))]
    assert [message.text for message in messages] == TEXTS
    copies = [b"".join(stored)]
    if address.startswith("jsonl:"):  # all bytes of the store
        files = [file for file in tmp_path.rglob("*") if file.is_file()]
        copies.append(b"".join(file.read_bytes() for file in files))
    for copy in copies:
        assert {text: copy.count(text.encode()) for text in TEXTS} == dict.fromkeys(TEXTS, 1)
        for member in ("role", "messages", "tool_calls", "function", "parts", "choices", "delta"):
            assert f'"{member}":'.encode() not in copy


@pytest.mark.requirement("S3-07")
def test_the_same_message_values_are_stored_queried_and_sent() -> None:
    hello = ChatMessage.user("Hello")
    provider = ScriptedProvider(["Hi."])
    conversation = Conversation([hello])
    asyncio.run(Agent(provider, conversation).run())
    assert conversation.entries()[0].message is hello
    assert conversation.messages()[0] is hello
    assert hello in provider.requests[0].messages


# -- kinds that are no conversation --------------------------------------------------------------

OTHER_KINDS = ("mark", "rewind", "fork", "usage", "command", "agent_killed", "metadata")


@pytest.mark.requirement("S3-08")
@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_a_row_of_another_kind_is_kept_and_never_sent(kind: str) -> None:
    rows = (row("user", "Hello"), row(kind, "secret note", {"n": 1}), row("assistant", "Hi"))
    assert message_of_row(rows[1]) is None
    conversation = import_rows(*rows, store=MemoryStore())
    assert len(conversation.entries()) == 3
    assert [message.text for message in conversation.messages()] == ["Hello", "Hi"]
    body = sent_by(conversation)
    assert "Hello" in body
    assert "secret note" not in body


@pytest.mark.requirement("S3-08")
@pytest.mark.parametrize("kind", [*OTHER_KINDS, "clear"])
def test_a_row_of_another_kind_is_exported_as_it_was_read(kind: str) -> None:
    rows = [row("user", "Hello"), row(kind, "note", {"n": 1}), CALL, RESULT]
    imported = FORMATS["rows"].decode(json.dumps(rows).encode())
    exported = FORMATS["rows"].encode(imported.header, imported.entries)
    assert json.loads(exported.data) == rows


@pytest.mark.requirement("S3-08")
def test_a_clear_row_empties_the_context() -> None:
    rows = (
        *(row("system", "Be brief."), row("user", "Before"), row("assistant", "Yes")),
        *(row("clear"), row("user", "After")),
    )
    conversation = import_rows(*rows, store=MemoryStore())
    assert len(conversation.entries()) == len(rows)
    body = sent_by(conversation)
    assert "Be brief." in body
    assert "After" in body
    assert "Before" not in body


@pytest.fixture
def steno(tmp_path: Path) -> Callable[..., CommandOutput]:
    """The program, with a home folder and a store of its own."""
    return partial(run_steno, home=tmp_path, store=f"sqlite:{tmp_path}/sessions.db")


@pytest.mark.requirement("S3-02", "S3-08")
def test_rows_are_imported_shown_and_exported_on_the_command_line(
    steno: Callable[..., CommandOutput],
) -> None:
    rows = [row("user", "Hello"), CALL, RESULT, row("mark", "lunch"), row("assistant", "Done")]
    assert steno("sessions", "import", "-", stdin=json.dumps(rows)).status == 0
    shown = steno("sessions", "show", "last").out
    for text in ("Hello", "run", "3 passed", "Done"):
        assert text in shown
    exported = steno("sessions", "export", "last", "--format", "rows")
    assert json.loads(exported.out) == rows
