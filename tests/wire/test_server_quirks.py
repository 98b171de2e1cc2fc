"""Undocumented data that servers send is neither lost nor the cause of an error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steno import (
    AssistantMessage,
    ChatMessage,
    Opaque,
    ProtocolError,
    Request,
    StopReason,
    Text,
    Thinking,
    ToolCall,
)
from steno.errors import CutShort, ProviderError
from steno.json_object import is_deep_json
from steno.messages.call import AnyToolCall
from steno.wire import (
    Wire,
    anthropic_messages,
    chat,
    gemini,
    ollama_chat,
    openai_chat,
    openai_responses,
)
from steno.wire.errors import decode_error
from steno.wire.openai_chat import DIALECTS
from tests.wire.decode_helpers import assemble_message, decode_events, sse


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def decode_with_envelope(*chunks: dict[str, Any]) -> tuple[AssistantMessage, dict[str, Any]]:
    """Return the message of a stream of chat completions, and its envelope."""
    decoder = openai_chat.StreamDecoder()
    events = [*decoder.feed(sse(*chunks, chunk("stop"))), *decoder.close()]
    return assemble_message(events), decoder.envelope


def sent_again(message: AssistantMessage, dialect: str = "openai") -> Any:
    request = Request(model="m", messages=(ChatMessage.user("?"), message))
    encoded = openai_chat.encode_request(request, dialect=DIALECTS[dialect])
    assert encoded.losses == ()
    return encoded.json["messages"][1]


# -- details of reasoning ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "joined"),
    [
        ((None, "a"), "a"),
        (("a", None), "a"),
        (("a", None, "b"), "ab"),
        ((None, None), None),
        (([1], "a"), "a"),
        (("a", [1]), [1]),
    ],
)
def test_empty_details_remove_nothing(texts: tuple[Any, ...], joined: Any) -> None:
    detail = {"type": "reasoning.text", "index": 0}
    chunks = [chunk(reasoning_details=[detail | {"text": text}]) for text in texts]
    signed = chunk(reasoning_details=[detail | {"signature": "s"}])
    (thinking,) = decode_with_envelope(*chunks, signed)[0].content
    assert isinstance(thinking, Thinking)
    assert thinking.seal is not None
    assert json.loads(thinking.seal.data) == [detail | {"text": joined, "signature": "s"}]


# -- calls ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("custom", "name", "arguments"),
    [
        ({"name": "x", "input": {"a": 1}}, "x", '{"a":1}'),
        ({"name": "x", "input": "abc", "more": 1}, "x", "abc"),
        ({"name": "x", "input": None}, "x", "{}"),
    ],
)
def test_the_input_of_a_custom_tool_is_text_whatever_it_came_as(
    custom: dict[str, Any], name: str, arguments: str
) -> None:
    call = {"index": 0, "id": "a", "type": "custom", "custom": custom}
    message, _ = decode_with_envelope(chunk(tool_calls=[call]))
    (made,) = message.content
    assert isinstance(made, AnyToolCall)
    assert (made.name, made.arguments) == (name, arguments)
    written = sent_again(message)["tool_calls"][0]
    assert written["type"] == "custom"
    assert written["custom"].get("more") == custom.get("more")


def test_a_legacy_call_keeps_fragments_after_its_name() -> None:
    message, envelope = decode_with_envelope(
        chunk(function_call={"name": "f", "arguments": "{}"}), chunk(function_call={"late": 1})
    )
    assert [call.name for call in message.tool_calls] == ["f"]
    assert envelope["late"] == 1


@pytest.mark.parametrize(
    "call",
    [
        {"id": "a", "type": "mcp", "mcp": {"x": 1}},
        {"id": "a", "type": "mcp", "function": {"name": "f", "arguments": "{}"}},
        {"id": "a", "function": {"name": "f", "arguments": "{}"}},
        {"id": "a", "type": "", "function": {"name": "f", "arguments": "{}"}},
        {"id": "a", "type": "function"},
        {"id": "a", "type": "custom"},
    ],
)
def test_a_call_of_another_type_is_sent_back_unchanged(call: dict[str, Any]) -> None:
    body = {
        "model": "m",
        "messages": [{"role": "assistant", "content": None, "tool_calls": [call]}],
    }
    again = openai_chat.encode_request(openai_chat.decode_request(json.dumps(body)))
    assert again.json == body


# -- the end -------------------------------------------------------------------------------------


def test_an_end_without_a_stop_reason_is_cut_short() -> None:
    decoder = openai_chat.StreamDecoder()
    list(decoder.feed(sse(chunk("", content="Half a"))))
    with pytest.raises(CutShort):
        list(decoder.close())


def test_an_end_without_a_reason_keeps_the_earlier_reason() -> None:
    events = decode_events(openai_chat, sse(chunk("", content="a"), chunk("stop"), chunk("")))
    message = assemble_message(events)
    assert (message.stop_reason, message.raw_stop_reason) == (StopReason.END_TURN, "stop")


def test_the_model_may_be_named_at_the_end() -> None:
    last = chunk("stop") | {"service_tier": "flex", "system_fingerprint": "fp"}
    counted = {"choices": [], "usage": {"prompt_tokens": 1}, "provider": "p"}
    _, envelope = decode_with_envelope(chunk(content="a"), last, counted)
    told = {name: envelope[name] for name in ("service_tier", "system_fingerprint", "provider")}
    assert told == {"service_tier": "flex", "system_fingerprint": "fp", "provider": "p"}


# -- content in parts ----------------------------------------------------------------------------

REFERENCE = {"type": "reference", "reference_ids": [1]}


def text_part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def test_text_after_a_part_stays_after_it() -> None:
    parts = [text_part("A"), REFERENCE, text_part("B")]
    answer = {"choices": [{"message": {"content": parts}, "finish_reason": "stop"}]}
    message = openai_chat.decode_response(json.dumps(answer))
    assert [type(block) for block in message.content] == [Text, Opaque, Text]
    assert sent_again(message, "mistral")["content"] == parts


def test_streamed_text_continues_after_a_part() -> None:
    words = [chunk(content=word) for word in "abc"]
    message, _ = decode_with_envelope(*words, chunk(content=[REFERENCE]), *words)
    assert [block.text for block in message.content if isinstance(block, Text)] == ["abc", "abc"]
    whole = sse(*words, chunk(content=[REFERENCE]), *words, chunk("stop"))
    by_bytes = assemble_message(decode_events(openai_chat, *(bytes([byte]) for byte in whole)))
    assert by_bytes.content == message.content


def test_unknown_members_of_parts_are_in_the_envelope() -> None:
    thinking = {"type": "thinking", "thinking": [text_part("t"), REFERENCE], "signature": "s"}
    message, envelope = decode_with_envelope(chunk(content=[text_part("hi") | {"x": 1}, thinking]))
    assert [block.text for block in message.content if isinstance(block, Text | Thinking)] == [
        "hi",
        "t",
    ]
    assert envelope["content"] == [
        {"type": "text", "x": 1},
        {"type": "thinking", "thinking": [REFERENCE], "signature": "s"},
    ]


@pytest.mark.parametrize(
    "odd",
    [
        {"content": {"type": "text", "text": "hello"}},
        {"content": 5},
        {"reasoning_details": {"a": 1}},
        {"reasoning_details": [5]},
        {"function_call": "x"},
    ],
)
def test_members_of_another_type_are_in_the_envelope(odd: dict[str, Any]) -> None:
    (name, value), *_ = odd.items()
    assert decode_with_envelope(chunk(**odd), chunk(content="a"))[1][name] == value


def test_thoughts_that_are_not_text_are_kept_unchanged() -> None:
    part = {"type": "thinking", "thinking": [{"type": "text", "text": 5}, text_part("t")]}
    message, envelope = decode_with_envelope(chunk(content=[part]))
    assert [block.text for block in message.content if isinstance(block, Thinking)] == ["t"]
    assert envelope["content"] == [{"type": "thinking", "thinking": [{"type": "text", "text": 5}]}]


# -- empty and unusual errors --------------------------------------------------------------------

ITEM = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hi"}],
}
ANSWERS: dict[str, tuple[Wire, dict[str, Any]]] = {
    "openai_chat": (
        openai_chat,
        {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]},
    ),
    "openai_responses": (
        openai_responses,
        {"status": "completed", "output": [ITEM]},
    ),
    "anthropic_messages": (
        anthropic_messages,
        {"type": "message", "content": [text_part("Hi")], "stop_reason": "end_turn"},
    ),
    "gemini": (
        gemini,
        {"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]},
    ),
    "ollama_chat": (ollama_chat, {"message": {"content": "Hi"}, "done": True}),
    "chat": (chat, {"role": "assistant", "content": "Hi", "stop_reason": "end_turn"}),
}


@pytest.mark.parametrize("empty", [None, "", False, {}, []])
@pytest.mark.parametrize("name", ANSWERS)
def test_an_empty_error_is_ignored(name: str, empty: Any) -> None:
    wire, answer = ANSWERS[name]
    body = json.dumps(answer | {"error": empty})
    message = wire.decode_response(body)
    assert (message.text, message.stop_reason) == ("Hi", StopReason.END_TURN)
    with pytest.raises(ProviderError) as caught:
        wire.decode_response(json.dumps(answer | {"error": {"message": "no more"}}))
    assert caught.value.message == "no more"


@pytest.mark.parametrize("code", ["²", "٥٠٣", "9" * 5000, "-1", "503"])
def test_a_code_may_be_anything(code: str) -> None:
    error = decode_error(200, json.dumps({"error": {"code": code, "message": "no"}}))
    assert error.retryable is (code == "503")


def test_counts_of_groq_may_be_null() -> None:
    first = {"x_groq": {"id": "a", "usage": None}, "choices": []}
    assert decode_with_envelope(first, chunk(content="a"))[0].text == "a"


@pytest.mark.parametrize("name", ANSWERS)
def test_text_with_a_lone_surrogate_is_not_a_response(name: str) -> None:
    with pytest.raises(ProtocolError):
        ANSWERS[name][0].decode_response('{"a":"\ud800"}')


def test_counts_of_gemini_that_cannot_be_read_leave_the_message() -> None:
    part = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}], "usageMetadata": {"a": 1}}
    decoder = gemini.StreamDecoder()
    events = list(decoder.feed(sse(part).replace(b'"a"', b'"\xff"')))
    assert assemble_message(events).text == "Hi"
    assert decoder.usage is None


def test_a_mode_of_gemini_that_is_not_text_is_sent_back() -> None:
    body = {
        "contents": [{"role": "user", "parts": [{"text": "a"}]}],
        "toolConfig": {"functionCallingConfig": {"mode": ["ANY"]}},
    }
    assert gemini.encode_request(gemini.decode_request(json.dumps(body))).json == body


@pytest.mark.parametrize("inner", [5, "x", None])
def test_extras_of_gemini_that_are_not_objects_do_not_crash(inner: Any) -> None:
    call = ToolCall(id="a", name="f", arguments="{}", extras={"gemini": {"functionCall": inner}})
    request = Request(
        model="m", messages=(ChatMessage.user("?"), ChatMessage.assistant(None, [call]))
    )
    parts = gemini.encode_request(request).json["contents"][1]["parts"]
    assert len(parts) == 1


@pytest.mark.parametrize(
    ("text", "is_json"),
    [
        (r'"\"\\\/\b\f\n\r\t\u00e4"', True),
        (r'"\u00e"', False),
        (r'"\x"', False),
        ('"a\tb"', False),
        ('"' + r"\n" * 100_000 + '"', True),
        ('"' + r"\n" * 100_000, False),
    ],
)
def test_strings_of_deep_json_are_read_by_its_rules(text: str, is_json: bool) -> None:
    assert is_deep_json(text) is is_json


@pytest.mark.parametrize("first", ["", '{"x":2}'])
def test_calls_of_one_id_and_one_name_are_two_if_their_indexes_are(first: str) -> None:
    def part(index: int, arguments: str, **named: str) -> dict[str, Any]:
        function = {"arguments": arguments} | ({"name": "f"} if named else {})
        return chunk(tool_calls=[{"index": index, "function": function} | named])

    rest = [part(1, '{"x":2}')] if not first else []
    message, _ = decode_with_envelope(
        part(0, '{"x":', id="c"), part(0, "1}"), part(1, first, id="c"), *rest
    )
    assert [call.arguments for call in message.tool_calls] == ['{"x":1}', '{"x":2}']


def responses_call(arguments: str | None) -> dict[str, Any]:
    return {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments or ""}


def with_two_calls(name: str, arguments: str | None) -> dict[str, Any]:
    """Return a whole response of a wire with two calls that share an id and a name."""
    value = None if arguments is None else json.loads(arguments)
    function = {"name": "f"} | ({} if value is None else {"arguments": value})
    text = {"name": "f"} | ({} if arguments is None else {"arguments": arguments})
    match name:
        case "openai_chat":
            message = {"tool_calls": [{"id": "c", "type": "function", "function": text}] * 2}
            return {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
        case "openai_responses":
            return {"status": "completed", "output": [responses_call(arguments)] * 2}
        case "anthropic_messages":
            block = {"type": "tool_use", "id": "c", "name": "f", "input": value}
            return {"type": "message", "content": [block] * 2, "stop_reason": "tool_use"}
        case "gemini":
            part = {"functionCall": {"id": "c", "name": "f", "args": value}}
            content = {"parts": [part] * 2}
            return {"candidates": [{"content": content, "finishReason": "STOP"}]}
        case "ollama_chat":
            call = {"id": "c", "function": function}
            return {"message": {"content": "", "tool_calls": [call] * 2}, "done": True}
        case _:
            call = {"id": "c", **text}
            return {"role": "assistant", "tool_calls": [call] * 2, "stop_reason": "tool_use"}


@pytest.mark.requirement("P-21")
@pytest.mark.parametrize("arguments", [None, "{}", '{"x":1}'])
@pytest.mark.parametrize("name", ANSWERS)
def test_two_calls_of_a_whole_response_never_share_an_id(name: str, arguments: str | None) -> None:
    body = json.dumps(with_two_calls(name, arguments), separators=(",", ":"))
    first, second = ANSWERS[name][0].decode_response(body).tool_calls
    assert (first.id, first.name, first.arguments) == ("c", "f", arguments or "{}")
    assert (second.name, second.arguments) == ("f", arguments or "{}")
    assert second.id != first.id


def test_calls_of_responses_that_are_announced_together_stay_apart() -> None:
    added = [
        {"type": "response.output_item.added", "output_index": index, "item": responses_call(None)}
        for index in range(2)
    ]
    done = [
        {
            "type": "response.output_item.done",
            "output_index": index,
            "item": responses_call(json.dumps({"n": index})),
        }
        for index in range(2)
    ]
    end = {"type": "response.completed", "response": {"status": "completed"}}
    message = assemble_message(decode_events(openai_responses, sse(*added, *done, end)))
    assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == [
        ("c", "f", '{"n": 0}'),
        ("made_up", "f", '{"n": 1}'),
    ]


def test_a_call_that_repeats_its_id_and_name_is_one_under_whatever_index() -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": '{"x":'}}
    more = {"id": "c", "function": {"name": "f", "arguments": "1}"}}
    message, _ = decode_with_envelope(
        chunk(tool_calls=[call | {"index": 0}]), chunk(tool_calls=[more | {"index": 1}])
    )
    assert [call.arguments for call in message.tool_calls] == ['{"x":1}']


@pytest.mark.parametrize("parts", [("",), (" \n",), ("", " "), (None,), ("", "abc", "")])
def test_the_input_of_a_custom_tool_is_never_made_an_object(parts: tuple[str | None, ...]) -> None:
    def part(input: str | None, **named: str) -> dict[str, Any]:
        custom = {"input": input} | ({"name": "x", "more": 1} if named else {})
        return chunk(tool_calls=[{"index": 0, "type": "custom", "custom": custom} | named])

    first, *rest = parts
    message, _ = decode_with_envelope(part(first, id="a"), *[part(more) for more in rest])
    assert sent_again(message)["tool_calls"] == [
        {
            "id": "a",
            "type": "custom",
            "custom": {"name": "x", "input": "".join(filter(None, parts)), "more": 1},
        }
    ]


def test_details_go_on_without_their_id() -> None:
    first = {"type": "reasoning.text", "index": 0, "id": "r1", "text": "a"}
    more = {"type": "reasoning.text", "index": 0, "text": "b", "signature": "s"}
    other = {"type": "reasoning.text", "index": 0, "id": "r2", "text": "c"}
    chunks = [chunk(reasoning_details=[detail]) for detail in (first, more, other)]
    (thinking,) = decode_with_envelope(*chunks)[0].content
    assert isinstance(thinking, Thinking)
    assert thinking.seal is not None
    assert json.loads(thinking.seal.data) == [
        first | {"text": "ab", "signature": "s"},
        other,
    ]


# -- indexes -------------------------------------------------------------------------------------


def test_a_negative_index_of_a_call_counts_as_a_missing_index() -> None:
    calls: list[dict[str, Any]] = [
        {"index": -1, "id": "c1", "function": {"name": "read", "arguments": '{"a"'}},
        {"index": -1, "function": {"arguments": ": 1}"}},
    ]
    message, _ = decode_with_envelope(*(chunk(tool_calls=[call]) for call in calls))
    assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == [
        ("c1", "read", '{"a": 1}')
    ]


def test_a_negative_index_of_a_block_counts_as_that_of_the_latest_block() -> None:
    start = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": ""},
    }
    delta = {
        "type": "content_block_delta",
        "index": -3,
        "delta": {"type": "text_delta", "text": "Hi"},
    }
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    decoder = anthropic_messages.StreamDecoder()
    data = sse(start, delta, end, {"type": "message_stop"})
    message = assemble_message([*decoder.feed(data), *decoder.close()])
    assert message.content == (Text("Hi"),)


def test_a_negative_index_of_a_fragment_is_kept_as_metadata() -> None:
    data = b'{"index": -1, "id": "c1", "name": "read", "arguments_delta": "{}"}\n'
    decoder = chat.StreamDecoder()
    events = [
        *decoder.feed(data),
        *decoder.feed(b'{"stop_reason": "tool_use"}\n'),
        *decoder.close(),
    ]
    assert [call.name for call in assemble_message(events).tool_calls] == ["read"]
    assert decoder.envelope["index"] == -1
