"""The suggestions of `steno decode` and `steno convert` for data of another kind."""

from __future__ import annotations

import json

import pytest

from tests.cli.program import CommandOutput, ProgramOutput, run_steno


def events(*payloads: object) -> bytes:
    return b"".join([b"data: " + json.dumps(payload).encode() + b"\n\n" for payload in payloads])


START = {"type": "message_start", "message": {"id": "m", "model": "c-1", "content": []}}
BLOCK = {
    "type": "content_block_start",
    "index": 0,
    "content_block": {"type": "text", "text": "Hello"},
}
CREATED = {"type": "response.created", "response": {"id": "r", "model": "g-1", "output": []}}
DELTA = {
    "type": "response.output_text.delta",
    "item_id": "i",
    "output_index": 0,
    "content_index": 0,
    "delta": "Hello",
}
CHUNK = {"model": "g-1", "choices": [{"index": 0, "delta": {"content": "Hello"}}]}
SILENT = {"model": "g-1", "choices": [{"index": 0, "delta": {"role": "assistant"}}]}
CANDIDATE: dict[str, object] = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "Hello"}]}}]
}
LINE: dict[str, object] = {
    "model": "l-1",
    "message": {"role": "assistant", "content": "Hello"},
    "done": False,
}
HALF = b'data: {"type": "content_b'
CUT = {
    "anthropic_messages": events(START, BLOCK) + HALF,
    "gemini": events(CANDIDATE) + HALF,
    "ollama_chat": json.dumps(LINE).encode() + b"\n" + b'{"model": "l-',
    "openai_chat": events(CHUNK) + HALF,
    "openai_responses": events(CREATED, DELTA) + HALF,
}
"""Streams that broke off in the middle of something."""
WITHOUT_TEXT = {
    "anthropic_messages": events(START) + HALF,
    "openai_chat": events(SILENT) + HALF,
    "openai_responses": events(CREATED) + HALF,
}
"""Streams that broke off before the first text."""
WHOLE: dict[str, dict[str, object]] = {
    "anthropic_messages": {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": "Hello"}],
        "stop_reason": "end_turn",
    },
    "gemini": CANDIDATE,
    "ollama_chat": LINE | {"done": True},
    "openai_chat": {"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]},
    "openai_responses": {
        "status": "completed",
        "output": [
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Hello"}],
            }
        ],
    },
}
REQUESTS = {
    "anthropic_messages": {
        "model": "c-1",
        "max_tokens": 5,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    },
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
    "openai_chat": {
        "model": "g-1",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": {"name": "f", "strict": True}}],
        "tool_choice": "required",
    },
    "openai_responses": {"model": "g-1", "input": "Hi"},
}
PAIRS = [(wire, other) for wire in WHOLE for other in WHOLE if wire != other]


def decode(data: bytes, *options: str) -> CommandOutput:
    output = run_steno("decode", *options, data=data)
    assert output.err.count("\n") == bool(output.err)
    return output


# -- decode --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wire", "other"), PAIRS)
def test_a_stream_that_was_cut_is_recognised(wire: str, other: str) -> None:
    output = decode(CUT[wire], "--wire", other, "--stream")
    assert (output.status, output.out) == (1, "")
    assert output.err.endswith(f" --wire {wire}\n")


@pytest.mark.parametrize("wire", WITHOUT_TEXT)
def test_a_stream_that_was_cut_before_the_first_text_is_recognised(wire: str) -> None:
    for other in WHOLE:
        output = decode(WITHOUT_TEXT[wire], "--wire", other, "--stream")
        assert (output.status, output.out) == (1, "")
        is_suggested = output.err.endswith(f" --wire {wire}\n")
        assert is_suggested == (other != wire)


@pytest.mark.parametrize("wire", CUT)
def test_the_text_before_a_cut_is_printed(wire: str) -> None:
    output = decode(CUT[wire], "--wire", wire, "--stream")
    assert output.status == 1
    message = json.loads(output.out)
    assert message["content"] == [{"type": "text", "text": "Hello"}]
    assert message["stop_reason"] == "error"
    assert (output.code, output.place) == ("stream_truncated", "stream")


@pytest.mark.parametrize("options", [["--stream"], ["--events"], ["--stream", "--envelope"]])
def test_nothing_is_printed_of_a_stream_that_was_not_understood(options: list[str]) -> None:
    for data in (*CUT.values(), b"data: what?\n\n", b"\x00\x01"):
        for wire in WHOLE:
            if data != CUT[wire]:
                output = decode(data, "--wire", wire, *options)
                assert (output.status, output.out) == (1, "")


@pytest.mark.parametrize(("wire", "other"), PAIRS)
def test_a_whole_answer_is_recognised(wire: str, other: str) -> None:
    output = decode(json.dumps(WHOLE[wire]).encode(), "--wire", other)
    assert (output.status, output.out) == (1, "")
    assert output.err.endswith(f" --wire {wire}\n")


def test_a_response_without_text_is_recognised() -> None:
    answer = {**WHOLE["anthropic_messages"], "content": [], "stop_reason": "refusal"}
    output = decode(json.dumps(answer).encode(), "--wire", "openai_chat")
    assert output.err.endswith(" --wire anthropic_messages\n")


@pytest.mark.parametrize("wire", ["anthropic_messages", "openai_responses"])
def test_a_whole_answer_is_not_taken_for_a_stream(wire: str) -> None:
    data = json.dumps(WHOLE[wire]).encode()
    output = decode(data, "--wire", wire, "--stream")
    assert (output.code, "--wire" in output.err) == ("stream_truncated", False)
    assert output.err.endswith(" --stream\n")
    output = decode(data, "--wire", "gemini", "--stream")
    assert f" --wire {wire} " in output.err
    assert output.err.endswith(" --stream\n")


@pytest.mark.parametrize(
    ("wire", "options"),
    [("ollama_chat", "--stream"), ("gemini", "--wire ollama_chat --stream")],
)
def test_lines_that_were_not_announced_as_a_stream_are_recognised(wire: str, options: str) -> None:
    output = decode(CUT["ollama_chat"], "--wire", wire)
    assert (output.status, output.out) == (1, "")
    assert (output.code, output.place) == ("not_json", wire)
    assert output.err.endswith(f": try {options}\n")


@pytest.mark.parametrize("payloads", [(CHUNK, CHUNK), (SILENT, CHUNK), (START, BLOCK)])
def test_events_that_lost_their_frame_are_recognised(payloads: tuple[object, ...]) -> None:
    wire = "anthropic_messages" if START in payloads else "openai_chat"
    data = b"\n".join([json.dumps(payload).encode() for payload in payloads])
    output = decode(data, "--wire", wire, "--stream")
    assert (output.status, output.out) == (1, "")
    assert output.code == "stream_truncated"
    assert wire in output.err
    assert ": sed " in output.err


@pytest.mark.parametrize("options", [[], ["--stream"]])
@pytest.mark.parametrize("wire", REQUESTS)
def test_a_request_is_no_answer(wire: str, options: list[str]) -> None:
    output = decode(json.dumps(REQUESTS[wire]).encode(), "--wire", wire, *options)
    assert (output.status, output.out) == (1, "")
    assert output.err.endswith(f" steno convert --from {wire}\n")


def test_an_error_of_the_provider_is_reported_as_one() -> None:
    body = {"error": {"message": "no such key", "type": "invalid_request_error"}}
    for data, options in ((json.dumps(body).encode(), []), (events(body), ["--stream"])):
        output = decode(data, "--wire", "openai_chat", *options)
        assert (output.status, output.out) == (1, "")
        assert (output.code, output.place) == ("provider_error", "answer")
        assert output.err.endswith(": no such key (invalid_request_error)\n")


# -- convert -------------------------------------------------------------------------------------


def convert(data: bytes, source: str) -> CommandOutput:
    output = run_steno("convert", "--from", source, "--to", "chat", data=data)
    assert output.err.count("\n") == bool(output.err)
    return output


@pytest.mark.parametrize(("wire", "other"), PAIRS)
def test_an_answer_is_no_request(wire: str, other: str) -> None:
    output = convert(json.dumps(WHOLE[wire]).encode(), other)
    assert (output.status, output.out) == (1, "")
    assert output.err.endswith(f" steno decode --wire {wire}\n")
    output = convert(CUT[wire], other)
    assert (output.status, output.out) == (1, "")
    assert output.err.endswith(f" steno decode --wire {wire} --stream\n")


@pytest.mark.parametrize("wire", REQUESTS)
@pytest.mark.parametrize("other", ["gemini", "openai_responses"])
def test_a_request_of_another_wire_is_recognised(wire: str, other: str) -> None:
    output = convert(json.dumps(REQUESTS[wire]).encode(), other)
    if wire == other:
        assert output.status == 0
    else:
        assert (output.status, output.out) == (1, "")
        assert output.err.endswith(f" --from {wire}\n")


def test_a_request_that_several_wires_can_read_is_reported_with_all_of_them() -> None:
    output = convert(b'{"model":"m","messages":[{"role":"user","content":"Hi"}]}', "gemini")
    names = "ollama_chat or openai_chat"
    assert f" {names}: " in output.err
    assert " --from" in output.err
    output = decode(
        b'{"model":"m","messages":[{"role":"user","content":"Hi"}]}', "--wire", "gemini"
    )
    assert output.err.endswith(f" steno convert --from {names}\n")


PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
IMAGE = {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}
LONG: dict[str, dict[str, object]] = {
    "anthropic_messages": {
        "model": "c-1",
        "max_tokens": 5,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Add."}]},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "2"}],
            },
        ],
        "tools": [{"name": "f", "description": "Adds.", "input_schema": PARAMETERS}],
    },
    "ollama_chat": {
        "model": "l-1",
        "options": {"num_predict": 5, "num_ctx": 9},
        "messages": [
            {"role": "user", "content": "Add.", "images": ["iVBORw0KGgoAAAANSUhEUg=="]},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}],
            },
            {"role": "tool", "tool_name": "f", "content": "2"},
        ],
    },
    "openai_chat": {
        "model": "g-1",
        "seed": 7,
        "max_tokens": 5,
        "temperature": 1.5,
        "response_format": {"type": "json_object"},
        "logit_bias": {"5": 1},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "name": "bob", "content": [{"type": "text", "text": "Add."}, IMAGE]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "f", "arguments": '{"a": 1}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "2"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "f", "parameters": PARAMETERS, "strict": True},
            }
        ],
    },
}
"""Requests with a history, of the wires that all have `messages`."""
SHORT: dict[str, dict[str, object]] = {
    "anthropic_messages": {
        "model": "c-1",
        "max_tokens": 5,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Hi"}],
    },
    "ollama_chat": {
        "model": "l-1",
        "options": {"temperature": 1},
        "messages": [{"role": "user", "content": "Hi"}],
    },
    "openai_chat": {
        "model": "g-1",
        "seed": 7,
        "messages": [{"role": "user", "name": "bob", "content": [{"type": "text", "text": "Hi"}]}],
        "tools": [
            {
                "type": "function",
                "function": {"name": "f", "parameters": {"type": "object"}, "strict": True},
            }
        ],
    },
}
"""Requests with few distinguishing members."""
ALIKE = [(body, wire) for bodies in (LONG, SHORT) for wire, body in bodies.items()]


@pytest.mark.parametrize(("body", "wire"), ALIKE)
def test_the_wire_that_knows_most_of_a_request_is_named(body: dict[str, object], wire: str) -> None:
    output = convert(json.dumps(body).encode(), "gemini")
    assert (output.status, output.out) == (1, "")
    assert output.err.endswith(f" --from {wire}\n")


def convert_from(body: dict[str, object], source: str, *options: str) -> ProgramOutput:
    arguments = ("convert", "--from", source, "--to", "openai_responses", *options)
    return run_steno(*arguments, data=json.dumps(body).encode())


@pytest.mark.parametrize(("body", "wire"), ALIKE)
def test_a_request_that_another_wire_knows_more_of_is_doubted(
    body: dict[str, object], wire: str
) -> None:
    for source in LONG:
        first = convert_from(body, source).err.partition("\n")[0]
        if source == wire:
            assert "--from" not in first
        else:
            assert first.endswith(f" {wire}: try --from {wire}")


def test_a_doubt_changes_only_the_notice() -> None:
    body: dict[str, object] = {
        "model": "g-1",
        "messages": [{"role": "user", "content": "Hi"}],
        "refusal": None,
        "user": "",
        "seed": None,
    }
    output = convert_from(body, "ollama_chat", "--strict", "--model", "g-1")
    assert output.status == 0
    assert json.loads(output.out)["model"] == "g-1"
    assert output.err.count("\n") == 1
    assert output.err.endswith(" openai_chat: try --from openai_chat\n")


def test_a_doubt_names_all_wires_that_know_as_much() -> None:
    body: dict[str, object] = {
        "model": "m",
        "max_tokens": 5,
        "top_p": 0.5,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    }
    first = convert_from(body, "ollama_chat").err.partition("\n")[0]
    names = "anthropic_messages or openai_chat"
    assert f" {names}: try --from " in first


@pytest.mark.parametrize("member", ["top_k", "think", "provider"])
def test_a_name_of_a_server_alone_raises_no_doubt(member: str) -> None:
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}
    assert "--from" not in convert_from(body | {member: 5}, "openai_chat").err


@pytest.mark.parametrize(("wire", "member"), [("openai_chat", "messages"), ("gemini", "contents")])
def test_messages_alone_are_no_request(wire: str, member: str) -> None:
    output = convert(b'[{"role":"user","content":"Hi"}]', wire)
    assert output.status == 1
    assert (output.code, output.place) == ("unexpected_type", "request")
    assert output.err.endswith(f": jq '{{{member}: .}}'\n")


# -- neither -------------------------------------------------------------------------------------


def test_a_har_file_is_recognised() -> None:
    data = json.dumps({"log": {"version": "1.2", "entries": []}}).encode()
    command = ": jq -r '.log.entries[0]"
    for options in ([], ["--stream"]):
        output = decode(data, "--wire", "openai_chat", *options)
        assert output.err.endswith(f"{command}.response.content.text'\n")
    output = convert(data, "openai_chat")
    assert output.err.endswith(f"{command}.request.postData.text'\n")


@pytest.mark.parametrize("data", [b"<html><title>502</title></html>", b"\x89PNG\r\n\x00\x01"])
def test_input_that_is_no_body_gets_no_suggestion(data: bytes) -> None:
    for output in (
        decode(data, "--wire", "openai_chat"),
        decode(data, "--wire", "openai_chat", "--stream"),
        convert(data, "openai_chat"),
    ):
        assert (output.status, output.out) == (1, "")
        assert output.code in ("not_json", "not_utf8", "stream_truncated")
        assert not any(option in output.err for option in ("--wire", "--from", "--stream"))
