"""One message or one tool call of an older version, read by itself."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from steno import (
    AssistantMessage,
    ChatMessage,
    InvalidDocument,
    InvalidToolCall,
    Opaque,
    Outcome,
    StopReason,
    Thinking,
    ToolCall,
    ToolResultMessage,
)
from steno.codec import (
    decode_call,
    decode_document,
    decode_message,
    decode_messages,
    encode_call,
    encode_document,
    encode_message,
)
from steno.testing import messages
from steno.values import RawJson
from tests.property.old_formats import OldDocument, flat_chats, sessions
from tests.property.raw_json import Array, Node, Object, render, spacings

USER = '{\n  "role": "user",\n  "content": "Write a hello world program"\n}'
CALL = r"""{"id": "call_001", "name": "write_file",
  "arguments": {"path": "hello.cs", "content": "Console.WriteLine(\"Hello, World!\");"}}"""
ASSISTANT = f'{{"role": "assistant", "content": null, "tool_calls": [{CALL}]}}'
RESULT = '{"role": "tool", "tool_call_id": "call_001", "content": "File written successfully"}'
ARGUMENTS = {"path": "hello.cs", "content": 'Console.WriteLine("Hello, World!");'}


@pytest.mark.requirement("FR-004a-24", "FR-004a-26", "S2-10")
def test_the_flat_examples_are_messages() -> None:
    assert decode_message(USER) == ChatMessage.user("Write a hello world program")
    turn = decode_message(ASSISTANT)
    assert isinstance(turn, AssistantMessage)
    assert turn.text is None
    [call] = turn.tool_calls
    assert isinstance(call, ToolCall)
    assert (call.id, call.name) == ("call_001", "write_file")
    assert dict(call.parsed) == ARGUMENTS
    assert decode_message(RESULT) == ChatMessage.tool_result(
        "call_001", "File written successfully"
    )


@pytest.mark.requirement("S2-10")
@pytest.mark.parametrize("raw", [USER, ASSISTANT, RESULT])
def test_a_flat_message_is_read_as_it_is_in_a_list(raw: str) -> None:
    message = decode_message(raw)
    assert not isinstance(message, Opaque)
    assert decode_document(f"[{raw}]").messages == (message,)
    assert decode_messages(f"[{raw}, {raw}]") == (message, message)
    assert decode_message(raw.encode()) == message
    assert decode_message(encode_message(message)) == message


def listed_messages(tree: Node) -> list[Node]:
    found = tree["messages"] if isinstance(tree, Object) else tree
    assert isinstance(found, Array)
    return list(found.parts)


@given(flat_chats(), st.data())
def test_any_flat_message_is_read_as_it_is_in_a_list(
    chat: OldDocument, data: st.DataObject
) -> None:
    spacing = data.draw(spacings())
    parts = [render(part, spacing) for part in listed_messages(chat.tree)]
    assert tuple(map(decode_message, parts)) == decode_document(f"[{','.join(parts)}]").messages


@given(sessions(), st.data())
def test_any_message_of_a_session_file_is_read_as_it_is_there(
    session: OldDocument, data: st.DataObject
) -> None:
    """Members without a place in a message of version 2 stay unknown members of the message."""
    spacing = data.draw(spacings())
    for part in listed_messages(session.tree):
        assert isinstance(part, Object)
        members = {json.loads(name): render(node, spacing).strip() for name, node in part.members}
        raw = render(part, spacing)
        [there] = decode_document(f'{{"version": 1, "messages": [{raw}]}}').messages
        message = decode_message(raw)
        unknown = json.loads(f"{{{there.unknown.text}}}")
        unknown["timestamp"] = json.loads(members["timestamp"])
        if members.get("is_error") == "false":
            unknown["is_error"] = False
        assert json.loads(f"{{{message.unknown.text}}}") == unknown
        assert replace(message, unknown=there.unknown) == there


@pytest.mark.requirement("S2-10")
def test_a_message_of_a_session_file_keeps_its_meaning() -> None:
    failed = decode_message(
        '{"type": "tool_result", "tool_call_id": "c", "content": [], "is_error": true}'
    )
    assert isinstance(failed, ToolResultMessage)
    assert failed.outcome is Outcome.ERROR
    turn = decode_message(
        '{"type": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}]}'
    )
    assert turn == AssistantMessage(content=(Thinking("Hm."),))


TEXT = '[{"type":"text","text":"a"}]'
RESULT_2 = '{"type":"tool_result","tool_call_id":"c","content":[]'


@pytest.mark.parametrize(
    "raw",
    [
        RESULT_2 + ',"outcome":"denied","is_error":true}',
        RESULT_2 + ',"outcome":"denied","is_error":true,"timestamp":"2026-02-18T12:00:00Z"}',
        RESULT_2 + ',"details":{"n":1},"is_error":true}',
        RESULT_2 + ',"is_error":false}',
        RESULT_2 + ',"timestamp":null,"is_error":null}',
        RESULT_2 + ',"timestamp":"0001-01-01T00:00:00Z","is_error":false}',
        f'{{"type":"user","content":{TEXT},"timestamp":null}}',
        f'{{"type":"user","content":{TEXT},"is_error":true,"stop_reason":"x"}}',
        f'{{"type":"system","content":{TEXT},"timestamp":"now","stop_reason":"x","is_error":true}}',
        '{"type":"assistant","content":[{"type":"thinking","text":"z","thinking":"h"}]}',
        '{"type":"assistant","content":[{"type":"thinking","text":"z","thinking":"h"}],"timestamp":1}',
        '{"type":"assistant","content":[{"type":"thinking","thinking":"h","redacted":true}]}',
        '{"type":"user","content":[{"type":"image","source":{"type":"url","url":"u:a"},"data":"eA=="}]}',
        '{"type":"assistant","content":[],"raw_stop_reason":"","timestamp":null}',
        '{"type":"assistant","content":[{"type":"text","text":"a","extras":{}}],"timestamp":"2026"}',
    ],
)
def test_a_current_message_with_members_of_version_1_is_not_changed(raw: str) -> None:
    """Never silent loss: in a message of version 2, these members are unknown data."""
    for message in (decode_message(raw), *decode_messages(f"[{raw}]")):
        assert encode_message(message).decode() == raw


OLD_MEMBERS = st.dictionaries(
    st.sampled_from(["timestamp", "role", "thinking", "data", "system_prompt"]),
    st.sampled_from(['"2026-02-18T12:00:00Z"', "null", "false", "1.50", '"user"']),
    min_size=1,
)


@given(messages(), OLD_MEMBERS)
def test_any_current_message_keeps_members_of_old_versions(
    message: ChatMessage, members: dict[str, str]
) -> None:
    """Except for an empty raw stop reason, with which version 1 states that there is none."""
    assume(getattr(message, "raw_stop_reason", None) != "")
    added = ",".join(f'"{name}":{text}' for name, text in members.items())
    current = replace(message, unknown=RawJson(added))
    assert decode_message(encode_message(current)) == current


def test_an_empty_raw_stop_reason_of_version_1_is_none() -> None:
    """The time shows that the message has version 1."""
    ended = '"stop_reason":"end_turn","raw_stop_reason":"","timestamp":"2026-02-18T12:00:00Z"'
    message = decode_message(f'{{"type":"assistant","content":{TEXT},{ended}}}')
    assert isinstance(message, AssistantMessage)
    assert (message.stop_reason, message.raw_stop_reason) == (StopReason.END_TURN, None)


def test_a_denial_stays_a_denial_in_every_form() -> None:
    denied = ChatMessage.tool_result("c", "no", outcome=Outcome.DENIED)
    for raw in (
        RESULT_2 + ',"outcome":"denied","is_error":true}',
        '{"role":"tool","tool_call_id":"c","content":"no","outcome":"denied","is_error":true}',
    ):
        message = decode_message(raw)
        assert isinstance(message, ToolResultMessage)
        assert message.outcome is denied.outcome
        assert message.unknown.text == '"is_error":true'
        document = decode_document(f'{{"version":1,"messages":[{raw}]}}')
        if "role" in raw:
            document = decode_document(f"[{raw}]")
        assert document.messages == (message,)


def test_members_of_version_1_stay_in_their_blocks_if_a_document_has_both_forms() -> None:
    blocks = (
        '{"type":"thinking","text":"z","thinking":"h"}',
        '{"type":"tool_call","id":"c","name":"fs.x","original_name":"y"}',
    )
    raw = f'{{"type":"assistant","content":[{",".join(blocks)}]}}'
    document = decode_document(f'{{"version":1,"messages":[{raw}]}}')
    saved = encode_document(document).decode()
    for part in ('"thinking":"h"', '"text":"z"', '"name":"fs.x"', '"original_name":"y"'):
        assert part in saved


def test_the_documented_members_of_version_1_cause_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    decode_message(RESULT_2 + ',"is_error":false,"timestamp":"2026-02-18T12:00:00Z"}')
    assert caplog.records == []
    decode_message(RESULT_2 + ',"is_error":false,"mood":"sunny"}')
    assert [record.__dict__["code"] for record in caplog.records] == ["unknown_members"]


def test_an_unknown_role_is_preserved() -> None:
    raw = '{"role": "critic",  "content": [1.50]}'
    message = decode_message(raw)
    assert isinstance(message, Opaque)
    assert (message.kind, message.raw) == ("critic", raw)
    assert encode_message(message).decode() == raw


def test_a_current_message_with_an_unknown_role_member_is_not_migrated() -> None:
    raw = b'{"type":"user","content":[{"type":"text","text":"a"}],"role":"user"}'
    assert encode_message(decode_message(raw)) == raw


# -- tool calls ----------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-48")
@pytest.mark.parametrize(
    "raw",
    [
        CALL,
        json.dumps({**json.loads(CALL), "arguments": json.dumps(ARGUMENTS)}),
        json.dumps({**json.loads(CALL), "type": "tool_call"}),
        json.dumps(
            {
                "id": "call_001",
                "type": "function",
                "function": {"name": "write_file", "arguments": json.dumps(ARGUMENTS)},
            }
        ),
    ],
    ids=["flat", "flat_text", "tagged", "openai"],
)
def test_a_call_is_read_by_itself(raw: str) -> None:
    call = decode_call(raw)
    assert isinstance(call, ToolCall)
    assert (call.id, call.name) == ("call_001", "write_file")
    assert dict(call.parsed) == ARGUMENTS
    listed = decode_document(f'[{{"role": "assistant", "tool_calls": [{raw}]}}]')
    assert listed.messages[0].tool_calls == (call,)


@pytest.mark.requirement("FR-004a-47", "FR-004a-48")
def test_a_call_is_written_and_read_again() -> None:
    for call in (
        ToolCall(id="c1", name="read", arguments='{"n": 1.0}'),
        ToolCall(id="c1", name="fs_read", original_name="fs.read"),
        InvalidToolCall(id="c1", name="a b", arguments="[", reason="broken"),
    ):
        assert decode_call(encode_call(call)) == call


def test_unknown_members_of_a_call_are_preserved() -> None:
    call = decode_call('{"id": "c1", "name": "read", "arguments": {}, "mood": 1.50}')
    assert b'"mood":1.50' in encode_call(call).replace(b": ", b":")


def test_a_call_that_breaks_a_rule_is_invalid(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "steno.codec")
    for members in (
        '"name": "read", "arguments": [1]',
        '"name": "read", "arguments": "{"',
        '"x": 1',
    ):
        call = decode_call(f'{{"id": "c1", {members}}}')
        assert isinstance(call, InvalidToolCall)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        ("{}", "not_a_call"),
        ("[]", "not_a_call"),
        ("5", "not_a_call"),
        ('{"name": "read", "arguments": {}}', "not_a_call"),
        ('{"id": "", "name": "read"}', "not_a_call"),
        ('{"id": 5, "name": "read"}', "not_a_call"),
        ('{"id": "c", "name": 5}', "not_a_call"),
        ('{"id": "c", "name": null}', "not_a_call"),
        (USER, "not_a_call"),
        ("{", "not_json"),
    ],
)
def test_anything_else_is_not_a_call(raw: str, code: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        decode_call(raw)
    assert caught.value.code == code
