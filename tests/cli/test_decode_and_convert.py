"""`steno decode` and `steno convert`."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import CommandOutput, run_steno

STREAM = b"""\
data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}

data: {"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}

data: [DONE]

"""
REQUEST = {
    "model": "m-1",
    "max_tokens": 50,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi", "name": "bob"},
    ],
}


def test_the_version_is_printed() -> None:
    assert run_steno("--version").out.startswith("steno 0.")


@pytest.mark.parametrize("arguments", [["--help"], ["decode", "--help"], ["convert", "--help"]])
def test_help_is_there(arguments: list[str]) -> None:
    output = run_steno(*arguments)
    assert output.status == 0
    assert "usage: steno" in output.out


@pytest.mark.parametrize(
    "arguments",
    [["decode"], ["decode", "--wire", "morse"], ["convert", "--from", "chat"]],
)
def test_a_command_line_that_makes_no_sense_is_explained(arguments: list[str]) -> None:
    output = run_steno(*arguments)
    assert output.status == 2
    assert "usage: steno" in output.err


@pytest.mark.parametrize(
    ("name", "meant"),
    [("anthropic", "anthropic_messages"), ("openai", "openai_chat"), ("ollama", "ollama_chat")],
)
def test_a_wire_that_is_almost_one_is_suggested(name: str, meant: str) -> None:
    output = run_steno("decode", "--wire", name)
    assert output.status == 2
    assert output.named_place == "--wire"
    assert output.err.endswith(f" {meant}?\n")


# -- decode --------------------------------------------------------------------------------------


HALVES = (b"ud83d", b"ude00")
ANTHROPIC = b"""\
event: message_start
data: {"type":"message_start","message":{"id":"m","role":"assistant","content":[],"usage":{}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hi"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{}}

event: message_stop
data: {"type":"message_stop"}

"""


@pytest.mark.parametrize(
    ("wire", "data", "other"),
    [
        ("openai_chat", ANTHROPIC, "anthropic_messages"),
        ("openai_responses", ANTHROPIC, "anthropic_messages"),  # which keeps what it does not know
        ("anthropic_messages", STREAM, "openai_chat"),
        ("ollama_chat", STREAM, "openai_chat"),
    ],
)
def test_a_stream_that_another_wire_can_read_is_recognised(
    wire: str, data: bytes, other: str
) -> None:
    output = run_steno("decode", "--wire", wire, "--stream", data=data)
    assert output.status == 1
    assert output.err.endswith(f" --wire {other}\n")
    assert run_steno("decode", "--wire", other, "--stream", data=data).status == 0


def test_an_answer_that_another_wire_can_read_is_recognised() -> None:
    answer = b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}'
    output = run_steno("decode", "--wire", "gemini", data=answer)
    assert (output.status, output.out) == (1, "")
    assert (output.code, output.place) == ("candidates_missing", "gemini")
    assert output.err.endswith(" --wire openai_chat\n")


def test_a_stream_that_was_read_in_part_is_not_taken_for_another_one() -> None:
    output = run_steno("decode", "--wire", "openai_chat", "--stream", data=STREAM.split(b"\n\n")[0])
    assert output.status == 1
    assert output.code == "stream_truncated"
    assert "--wire" not in output.err


def test_a_stream_is_decoded_from_a_file_or_from_stdin(tmp_path: Path) -> None:
    file = tmp_path / "answer.sse"
    file.write_bytes(STREAM)
    arguments = ("decode", "--wire", "openai_chat", "--stream")
    output = run_steno(*arguments, file)
    assert output.status == 0
    assert json.loads(output.out) == {
        "type": "assistant",
        "content": [{"type": "text", "text": "Hello"}],
        "stop_reason": "end_turn",
        "raw_stop_reason": "stop",
    }
    assert run_steno(*arguments, data=STREAM).out == output.out
    assert run_steno(*arguments, "-", data=STREAM).out == output.out


def test_a_whole_answer_is_decoded() -> None:
    answer = b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}'
    output = run_steno("decode", "--wire", "openai_chat", data=answer)
    assert json.loads(output.out)["content"] == [{"type": "text", "text": "Hi"}]


def test_events_are_printed_one_a_line() -> None:
    output = run_steno("decode", "--wire", "openai_chat", "--events", data=STREAM)
    events = [json.loads(line) for line in output.out.splitlines()]
    assert [event["type"] for event in events] == ["text_delta", "text_delta", "finished"]


def test_half_a_character_is_an_event_of_its_own() -> None:
    halves = [
        b'data: {"choices":[{"index":0,"delta":{"content":"\\%b"}}]}' % half for half in HALVES
    ]
    output = run_steno(
        "decode", "--wire", "openai_chat", "--events", data=b"\n\n".join([*halves, b""])
    )
    assert [json.loads(line)["text"] for line in output.out.splitlines()] == ["\ud83d", "\ude00"]


def test_an_error_in_the_response_is_reported_with_the_text_before_it() -> None:
    data = STREAM.split(b"\n\n")[0] + b'\n\ndata: {"error":{"message":"engine died"}}\n\n'
    output = run_steno("decode", "--wire", "openai_chat", "--stream", data=data)
    assert output.status == 1
    assert "engine died" in output.err
    message = json.loads(output.out)
    assert message["content"] == [{"type": "text", "text": "Hel"}]
    assert message["stop_reason"] == "error"


def test_usage_of_a_truncated_response_is_printed() -> None:
    counted = ANTHROPIC.replace(b'"usage":{}', b'"usage":{"input_tokens":7}', 1)
    data = counted.partition(b"event: content_block_stop")[0]
    output = run_steno("decode", "--wire", "anthropic_messages", "--stream", data=data)
    assert output.status == 1
    assert json.loads(output.out)["usage"] == {"input_tokens": 7}


@pytest.mark.parametrize("data", [b"nonsense", b"{}", b"\xff\xff"])
def test_a_body_that_is_not_a_response_is_refused_on_one_line(data: bytes) -> None:
    output = run_steno("decode", "--wire", "openai_chat", data=data)
    assert output.status == 1
    assert output.err.startswith("steno: openai_chat: ")
    assert output.err.count("\n") == 1
    assert output.out == ""


def test_a_stream_that_was_not_announced_is_recognised() -> None:
    output = run_steno("decode", "--wire", "openai_chat", data=STREAM)
    assert output.status == 1
    assert (output.code, output.place) == ("input_is_stream", "input")
    assert "--stream" in output.err


def test_a_file_that_is_not_there_is_named() -> None:
    output = run_steno("decode", "--wire", "openai_chat", "no/such/file")
    assert (output.status, output.code, output.place) == (1, "ENOENT", "no/such/file")


NAMELESS = b"""\
{"message":{"role":"assistant","tool_calls":[
{"function":{"name":"f","arguments":{}}},{"id":"c9","function":{"name":"g","arguments":{}}},
{"function":{"name":"f","arguments":{}}}]},"done":true,"done_reason":"stop"}
""".replace(b"\n", b"")


@pytest.mark.parametrize("how", [[], ["--stream"], ["--events"]])
def test_calls_without_an_id_get_the_same_one_in_each_run(how: list[str]) -> None:
    arguments = ("decode", "--wire", "ollama_chat", *how)
    first = run_steno(*arguments, data=NAMELESS)
    assert first.status == 0
    assert run_steno(*arguments, data=NAMELESS).out == first.out
    ids = re.findall(r'"id":"(call_[0-9a-f]{16}_[12]|c9)"', first.out)
    assert len(set(ids)) == 3
    other = run_steno(*arguments, data=NAMELESS.replace(b"f", b"h"))
    assert set(re.findall(r'"id":"(\w+)"', other.out)) & set(ids) == {"c9"}


def chunks(*payloads: object) -> bytes:
    return b"".join([b"data: " + json.dumps(payload).encode() + b"\n\n" for payload in payloads])


CHOICES = chunks(
    {
        "id": "r-1",
        "model": "m-1",
        "choices": [
            {"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"},
            {"index": 1, "delta": {"content": "Hel"}},
            {"index": 1, "delta": {"content": "lo"}},
        ],
    }
)


def test_the_envelope_is_printed_on_demand() -> None:
    arguments = ("decode", "--wire", "openai_chat", "--stream")
    both = json.loads(run_steno(*arguments, "--envelope", data=CHOICES).out)
    assert both.keys() == {"message", "envelope"}
    assert both["message"] == json.loads(run_steno(*arguments, data=CHOICES).out)
    assert (both["envelope"]["id"], both["envelope"]["model"]) == ("r-1", "m-1")
    events = run_steno(*arguments, "--events", "--envelope", data=CHOICES).out.splitlines()
    assert json.loads(events[-1]) == {"type": "envelope", "envelope": both["envelope"]}
    assert json.loads(events[-2])["type"] == "finished"


def test_the_envelope_of_a_whole_answer_is_the_answer() -> None:
    output = run_steno("decode", "--wire", "openai_chat", "--envelope", data=b"{}")
    assert output.status == 2
    assert output.named_place == "--envelope"
    assert "--stream" in output.err


def test_further_choices_are_not_ignored_in_silence() -> None:
    output = run_steno("decode", "--wire", "openai_chat", "--stream", data=CHOICES)
    assert output.status == 0
    assert output.named_place == "response"
    assert "1 further choice is ignored" in output.err
    part = {"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}
    candidates = [part, {**part, "index": 1}, {**part, "index": 2}]
    answer = json.dumps({"candidates": candidates}).encode()
    output = run_steno("decode", "--wire", "gemini", data=answer)
    assert output.status == 0
    assert output.named_place == "response"
    assert "2 further choices are ignored" in output.err
    assert run_steno("decode", "--wire", "openai_chat", "--stream", data=STREAM).err == ""


def test_a_byte_order_mark_is_no_matter() -> None:
    mark = b"\xef\xbb\xbf"
    plain = run_steno("decode", "--wire", "openai_chat", "--stream", data=STREAM)
    marked = run_steno("decode", "--wire", "openai_chat", "--stream", data=mark + STREAM)
    assert (marked.status, marked.out) == (0, plain.out)
    output = run_steno("decode", "--wire", "openai_chat", data=mark + STREAM)
    assert (output.code, output.place) == ("input_is_stream", "input")
    assert "--stream" in output.err
    data = mark + json.dumps(REQUEST).encode()
    assert run_steno("convert", "--from", "openai_chat", "--to", "chat", data=data).status == 0


# -- convert -------------------------------------------------------------------------------------


def test_a_request_is_translated_and_what_is_lost_is_listed(tmp_path: Path) -> None:
    data = json.dumps(REQUEST).encode()
    arguments = ("convert", "--from", "openai_chat", "--to", "anthropic_messages")
    output = run_steno(*arguments, data=data)
    assert output.status == 0
    body = json.loads(output.out)
    assert body["system"] == "Be brief."
    assert [message["role"] for message in body["messages"]] == ["user"]
    lost, model = output.err.splitlines(keepends=True)
    assert lost.startswith("messages[1]: ")
    assert lost.endswith(": name (extras)\n")
    assert model.startswith("steno: request: the model is still m-1; ")
    report = tmp_path / "report.json"
    again = run_steno(*arguments, "--report", report, "--strict", data=data)
    assert again.status == 3
    assert again.err == model
    [row] = json.loads(report.read_bytes())
    assert (row["code"], row["place"]) == ("extras", "messages[1]")
    assert row["explanation"].endswith(": name")


def test_the_same_protocol_gives_the_same_request() -> None:
    data = json.dumps(REQUEST).encode()
    output = run_steno(
        "convert", "--from", "openai_chat", "--to", "openai_chat", "--strict", data=data
    )
    assert output.status == 0
    assert json.loads(output.out) == REQUEST


def test_a_body_that_is_not_a_request_is_refused() -> None:
    output = run_steno("convert", "--from", "openai_chat", "--to", "chat", data=b"{}")
    assert (output.status, output.code, output.place) == (1, "messages_missing", "request")


def convert(*arguments: str | Path, **body: object) -> CommandOutput:
    data = json.dumps(body).encode()
    return run_steno("convert", "--from", "openai_chat", *arguments, data=data)


def test_the_model_can_be_another_one() -> None:
    output = convert("--to", "anthropic_messages", "--model", "m-2", **REQUEST)
    assert json.loads(output.out)["model"] == "m-2"
    unnamed = convert("--to", "chat", "--model", "m-2", messages=REQUEST["messages"])
    assert json.loads(unnamed.out)["model"] == "m-2"


@pytest.mark.parametrize("role", ["critic", "system"])
@pytest.mark.parametrize("target", ["anthropic_messages", "gemini", "openai_responses"])
def test_a_request_without_a_message_left_is_refused(target: str, role: str) -> None:
    output = convert("--to", target, messages=[{"role": role, "content": "Hm."}])
    assert output.status == 1
    assert output.out == ""
    *losses, error = output.err.splitlines()
    assert (output.code, output.place) == ("nothing_to_send", "request")
    assert target in error
    assert len(losses) == (role == "critic")


def test_empty_members_are_no_loss() -> None:
    answer: dict[str, object] = {
        "role": "assistant",
        "content": "Hi",
        "refusal": None,
        "annotations": [],
    }
    messages = [{"role": "user", "content": "Hi"}, answer, {"role": "user", "content": "Well?"}]
    output = convert("--to", "openai_responses", "--strict", model="m-1", messages=messages)
    assert (output.status, output.err) == (0, "")


CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
BROKEN = [
    {"role": "user", "content": "Hi"},
    {"role": "tool", "tool_call_id": "c0", "content": "lost"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "user", "content": "Well?"},
]


def test_a_broken_history_is_repaired_on_demand(tmp_path: Path) -> None:
    arguments = ("--to", "chat", "--repair")
    output = convert(*arguments, messages=BROKEN)
    assert output.status == 0
    roles = [message["role"] for message in json.loads(output.out)["messages"]]
    assert roles == ["user", "assistant", "tool", "user"]
    lines = output.err.splitlines()
    assert [(line.partition(": ")[0], line.rpartition(" ")[2]) for line in lines[:2]] == [
        ("messages[1]", "(result_orphaned)"),
        ("messages[2]", "(call_unanswered)"),
    ]
    report = tmp_path / "report.json"
    again = convert(*arguments, "--strict", "--report", report, messages=BROKEN)
    assert again.status == 3
    assert again.err == ""
    rows = json.loads(report.read_bytes())
    assert [f"{row['place']}: {row['explanation']} ({row['code']})" for row in rows] == lines
    plain = convert("--to", "chat", messages=BROKEN)
    assert len(json.loads(plain.out)["messages"]) == len(BROKEN)


def test_a_history_in_order_is_not_repaired() -> None:
    output = convert("--to", "chat", "--repair", "--strict", messages=BROKEN[:1])
    assert (output.status, output.err) == (0, "")


def test_a_history_of_which_repair_leaves_nothing_is_refused() -> None:
    output = convert("--to", "openai_chat", "--repair", messages=BROKEN[1:2])
    assert (output.status, output.code, output.place) == (1, "nothing_to_send", "request")


# -- wires of one's own --------------------------------------------------------------------------

OWN = "tests.providers.example_wire"


def test_a_wire_of_ones_own_is_named_as_a_module() -> None:
    output = run_steno("decode", "--wire", OWN, "--stream", data=b"Hel\nlo\nstop\n")
    assert (output.status, output.err) == (0, "")
    assert json.loads(output.out)["content"] == [{"type": "text", "text": "Hello"}]
    output = convert("--to", OWN, "--strict", messages=BROKEN[:1], stream=True)
    assert (output.status, output.err) == (0, "")
    assert json.loads(output.out) == {"to": "", "said": ["Hi"], "stream": True}


@pytest.mark.parametrize("option", ["--from", "--to"])
@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("morse", " anthropic_messages, chat, gemini, "),
        ("tests.nowhere", " module "),
        ("tests.providers.provider_setup", " no NAME; "),
    ],
)
def test_an_unknown_wire_is_reported_with_the_known_ones(
    option: str, name: str, named: str
) -> None:
    arguments = {"--from": "chat", "--to": "chat"} | {option: name}
    output = run_steno("convert", *[argument for pair in arguments.items() for argument in pair])
    assert output.status == 2
    assert output.named_place == option
    assert named in output.err


def test_a_streaming_request_stays_one_in_the_other_wire() -> None:
    request = REQUEST | {"messages": BROKEN[:1], "stream": True}
    output = convert("--to", "anthropic_messages", "--strict", "--model", "m-2", **request)
    assert (output.status, output.err) == (0, "")
    assert json.loads(output.out)["stream"] is True


# -- a full disk ---------------------------------------------------------------------------------

FULL = Path("/dev/full")


def test_a_full_disk_is_not_blamed_on_the_input() -> None:
    output = convert("--to", "chat", "--report", FULL, **REQUEST)
    assert (output.status, output.code, output.place) == (1, "ENOSPC", "/dev/full")
    assert output.named_place == "/dev/full"


@pytest.mark.parametrize("repeat", [1, 20_000])
def test_a_full_disk_at_stdout_is_reported_once(repeat: int) -> None:
    data = STREAM.replace(b"Hel", b"Hel" * repeat)
    command = [sys.executable, "-m", "steno", "decode", "--wire", "openai_chat", "--stream"]
    with FULL.open("wb") as full:
        output = subprocess.run(
            command, input=data, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60
        )
    assert output.returncode == 1
    [line] = output.stderr.decode().splitlines()
    assert line.startswith("steno: stdout: ")
    assert os.strerror(errno.ENOSPC) in line


def test_a_reader_that_has_gone_is_no_error_to_talk_about() -> None:
    command = f"{sys.executable} -m steno decode --wire openai_chat --stream | true"
    output = subprocess.run(command, shell=True, input=STREAM, capture_output=True, check=False)
    assert output.stderr == b""


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        ("openai_chat", b'data: {"other_choices":5,"choices":[%b]}\n\ndata: [DONE]\n\n'),
        ("gemini", b'{"candidates":[%b,{"index":[]}]}'),
    ],
)
def test_a_server_may_call_anything_another_choice(wire: str, body: bytes) -> None:
    first = {
        "openai_chat": b'{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}',
        "gemini": b'{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}',
    }
    output = run_steno("decode", "--wire", wire, "--stream", "--envelope", data=body % first[wire])
    assert output.status == 0
    assert json.loads(output.out)["message"]["content"][0]["text"] == "a"
