"""Calls in OpenAI's form from before calls had ids: decoded, and sent back unchanged."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from steno import Request, ToolCall, ToolResultMessage, check_order
from steno.messages.message import AssistantMessage
from steno.wire import anthropic_messages, gemini, openai_chat
from steno.wire.openai_chat import DIALECTS
from tests.wire.decode_helpers import assemble_message, decode_events, sse

ASKED = {"role": "user", "content": "Is it broken?"}
ANSWERED = {"role": "function", "name": "run", "content": "3 passed"}


def turn(name: str = "run", arguments: Any = '{"path": "tests"}', **members: Any) -> dict[str, Any]:
    call = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": None, "function_call": call} | members


def read(*messages: dict[str, Any]) -> Request:
    return openai_chat.decode_request(msgspec.json.encode({"messages": messages}))


def pairs_of(request: Request) -> tuple[list[str], list[str]]:
    calls = [call.id for message in request.messages for call in message.tool_calls]
    results = [m.tool_call_id for m in request.messages if isinstance(m, ToolResultMessage)]
    return calls, results


def test_a_legacy_call_and_its_result_are_understood() -> None:
    request = read(ASKED, turn(), ANSWERED, turn(), ANSWERED)
    assert check_order(request.messages) == ()
    assert pairs_of(request) == (["unnamed_1", "unnamed_2"], ["unnamed_1", "unnamed_2"])
    [call] = request.messages[1].tool_calls
    assert isinstance(call, ToolCall)
    assert (call.name, call.arguments) == ("run", '{"path": "tests"}')
    assert request.messages[2].text == "3 passed"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "messages",
    [
        [ASKED, turn(), ANSWERED, {"role": "assistant", "content": "Yes.", "function_call": None}],
        [ASKED, turn("fs.read", ""), {"role": "function", "name": "fs.read", "content": None}],
        [turn(content="I look."), ANSWERED | {"extra": 1}],
        [{"role": "assistant", "function_call": {"name": "run", "arguments": {}, "extra": 1}}],
        [{"role": "assistant", "content": "I", "function_call": {}}],
        [{"role": "assistant", "content": "I", "function_call": "auto"}],
        [ASKED, turn(), {"role": "function", "content": [{"type": "text", "text": "Yes."}]}],
        [ASKED, turn(), ANSWERED | {"name": "another"}],
        [ASKED, ANSWERED | {"name": None}],
    ],
)
def test_legacy_calls_are_written_as_they_were(
    messages: list[dict[str, Any]], dialect: str
) -> None:
    encoded = openai_chat.encode_request(read(*messages), dialect=DIALECTS[dialect])
    assert encoded.json["messages"] == messages
    assert encoded.losses == ()


def test_a_legacy_call_beside_others_stays_one() -> None:
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "abcdefghi", "content": "1 passed"}
    messages = [ASKED, turn(tool_calls=[call]), result, ANSWERED]
    request = read(*messages)
    assert pairs_of(request) == (["abcdefghi", "unnamed_1"], ["abcdefghi", "unnamed_1"])
    assert openai_chat.encode_request(request).json["messages"] == messages


def test_a_result_that_we_add_answers_a_legacy_call_by_its_name() -> None:
    request = read(ASKED, turn("fs.run"))
    [call] = request.messages[1].tool_calls
    result = ToolResultMessage.success(call.id, "3 passed")
    longer = msgspec.structs.replace(request, messages=(*request.messages, result))
    sent = openai_chat.encode_request(longer).json["messages"][-1]
    assert sent == {"role": "function", "name": "fs.run", "content": "3 passed"}


def test_of_two_legacy_calls_in_one_turn_both_are_sent() -> None:
    request = read(turn(), turn("look"))
    calls = [call for message in request.messages for call in message.tool_calls]
    both = msgspec.structs.replace(request, messages=(AssistantMessage(content=tuple(calls)),))
    [sent] = openai_chat.encode_request(both).json["messages"]
    assert sent["function_call"]["name"] == "run"
    assert [call["function"]["name"] for call in sent["tool_calls"]] == ["look"]


def test_a_generated_id_does_not_occur_in_the_request() -> None:
    other = {"id": "unnamed_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    request = read({"role": "assistant", "content": None, "tool_calls": [other]}, turn())
    assert pairs_of(request)[0] == ["unnamed_1", "unnamed_2"]


def answer(**members: Any) -> bytes:
    message = {"role": "assistant", "content": None, **members}
    choice = {"index": 0, "message": message, "finish_reason": "function_call"}
    return msgspec.json.encode({"choices": [choice]})


def streamed(*deltas: dict[str, Any]) -> AssistantMessage:
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "function_call"}]}
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    return assemble_message(decode_events(openai_chat, sse(*chunks, end, done=True)))


@pytest.mark.parametrize(
    "message",
    [
        openai_chat.decode_response(answer(function_call=turn()["function_call"])),
        openai_chat.decode_response(
            answer(function_call={"name": "run", "arguments": {"path": "tests"}})
        ),
        streamed(
            {"role": "assistant", "function_call": {"name": "run", "arguments": ""}},
            {"function_call": {"arguments": '{"path"'}},
            {"function_call": {"arguments": ': "tests"}'}},
        ),
    ],
    ids=["whole", "object", "streamed"],
)
def test_a_legacy_call_of_a_response_is_sent_back_as_one(message: AssistantMessage) -> None:
    [call] = message.tool_calls
    result = ToolResultMessage.success(call.id, "3 passed")
    encoded = openai_chat.encode_request(Request(messages=(message, result)))
    called, answered = encoded.json["messages"]
    assert called.keys() == {"role", "content", "function_call"}
    assert called["function_call"]["name"] == "run"
    arguments = msgspec.json.decode(called["function_call"]["arguments"])
    assert arguments == {"path": "tests"}
    assert answered == ANSWERED
    assert encoded.losses == ()


def test_members_of_a_legacy_call_of_a_response_are_sent_back() -> None:
    call = {"name": "run", "arguments": "{}", "extra": 1}
    message = openai_chat.decode_response(answer(function_call=call))
    [sent] = openai_chat.encode_request(Request(messages=(message,))).json["messages"]
    assert sent["function_call"] == call


@pytest.mark.parametrize("is_first", [True, False])
def test_a_legacy_call_is_not_mixed_up_with_one_beside_it(is_first: bool) -> None:
    other = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    legacy = {"function_call": turn()["function_call"]}
    deltas = [legacy, {"tool_calls": [{"index": 0, **other}]}]
    message = streamed(*(deltas if is_first else reversed(deltas)))
    assert {call.name for call in message.tool_calls} == {"run", "look"}
    [sent] = openai_chat.encode_request(Request(messages=(message,))).json["messages"]
    assert sent["function_call"] == turn()["function_call"]
    assert sent["tool_calls"] == [other]


def test_another_provider_sees_a_call_like_any_other() -> None:
    encoded = anthropic_messages.encode_request(read(ASKED, turn(), ANSWERED))
    _, called, answered = encoded.json["messages"]
    assert called["content"][0]["id"] == answered["content"][0]["tool_use_id"] == "unnamed_1"
    assert encoded.losses == ()


@pytest.mark.parametrize(("name", "ours"), [("run", "run"), ("no name at all", ""), ("", "")])
def test_a_legacy_result_without_its_call_keeps_the_name_of_its_tool(name: str, ours: str) -> None:
    request = read(ASKED, ANSWERED | {"name": name})
    sent = gemini.encode_request(request).json["contents"][1]["parts"]
    assert sent[0]["functionResponse"]["name"] == ours
