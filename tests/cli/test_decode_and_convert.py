"""`steno decode` and `steno convert`, run as people run them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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


def steno(*arguments: str | Path, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "steno", *map(str, arguments)]
    return subprocess.run(
        command, input=data, capture_output=True, check=False, timeout=60, cwd=ROOT
    )


def test_the_version_is_told() -> None:
    assert steno("--version").stdout.startswith(b"steno 0.")


@pytest.mark.parametrize("arguments", [["--help"], ["decode", "--help"], ["convert", "--help"]])
def test_help_is_there(arguments: list[str]) -> None:
    output = steno(*arguments)
    assert output.returncode == 0
    assert b"usage: steno" in output.stdout


@pytest.mark.parametrize(
    "arguments",
    [["decode"], ["decode", "--wire", "morse"], ["convert", "--from", "chat"]],
)
def test_a_command_line_that_makes_no_sense_is_explained(arguments: list[str]) -> None:
    output = steno(*arguments)
    assert output.returncode == 2
    assert b"usage: steno" in output.stderr


@pytest.mark.parametrize(
    ("name", "meant"),
    [("anthropic", "anthropic_messages"), ("openai", "openai_chat"), ("ollama", "ollama_chat")],
)
def test_a_wire_that_is_almost_one_is_suggested(name: str, meant: str) -> None:
    output = steno("decode", "--wire", name)
    assert output.returncode == 2
    assert output.stderr.endswith(f"no wire of that name; do you mean {meant}?\n".encode())


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
    output = steno("decode", "--wire", wire, "--stream", data=data)
    assert output.returncode == 1
    assert output.stderr.endswith(f"; this looks like {other}: try --wire {other}\n".encode())
    assert steno("decode", "--wire", other, "--stream", data=data).returncode == 0


def test_an_answer_that_another_wire_can_read_is_recognised() -> None:
    answer = b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}'
    output = steno("decode", "--wire", "gemini", data=answer)
    assert (output.returncode, output.stdout) == (1, b"")
    assert output.stderr.endswith(b"; this looks like openai_chat: try --wire openai_chat\n")


def test_a_stream_that_was_read_in_part_is_not_taken_for_another_one() -> None:
    output = steno("decode", "--wire", "openai_chat", "--stream", data=STREAM.split(b"\n\n")[0])
    assert output.returncode == 1
    assert b"looks like" not in output.stderr


def test_a_stream_is_decoded_from_a_file_or_from_stdin(tmp_path: Path) -> None:
    file = tmp_path / "answer.sse"
    file.write_bytes(STREAM)
    arguments = ("decode", "--wire", "openai_chat", "--stream")
    output = steno(*arguments, file)
    assert output.returncode == 0
    assert json.loads(output.stdout) == {
        "type": "assistant",
        "content": [{"type": "text", "text": "Hello"}],
        "stop_reason": "end_turn",
        "raw_stop_reason": "stop",
    }
    assert steno(*arguments, data=STREAM).stdout == output.stdout
    assert steno(*arguments, "-", data=STREAM).stdout == output.stdout


def test_a_whole_answer_is_decoded() -> None:
    answer = b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}'
    output = steno("decode", "--wire", "openai_chat", data=answer)
    assert json.loads(output.stdout)["content"] == [{"type": "text", "text": "Hi"}]


def test_events_are_printed_one_a_line() -> None:
    output = steno("decode", "--wire", "openai_chat", "--events", data=STREAM)
    events = [json.loads(line) for line in output.stdout.splitlines()]
    assert [event["type"] for event in events] == ["text_delta", "text_delta", "finished"]


def test_half_a_character_is_an_event_of_its_own() -> None:
    halves = [
        b'data: {"choices":[{"index":0,"delta":{"content":"\\%b"}}]}' % half for half in HALVES
    ]
    output = steno("decode", "--wire", "openai_chat", "--events", data=b"\n\n".join([*halves, b""]))
    assert [json.loads(line)["text"] for line in output.stdout.splitlines()] == ["\ud83d", "\ude00"]


def test_an_error_in_the_answer_is_told_and_so_is_what_came_before_it() -> None:
    data = STREAM.split(b"\n\n")[0] + b'\n\ndata: {"error":{"message":"engine died"}}\n\n'
    output = steno("decode", "--wire", "openai_chat", "--stream", data=data)
    assert output.returncode == 1
    assert b"engine died" in output.stderr
    message = json.loads(output.stdout)
    assert message["content"] == [{"type": "text", "text": "Hel"}]
    assert message["stop_reason"] == "error"


def test_what_was_counted_of_an_answer_that_was_cut_is_printed() -> None:
    counted = ANTHROPIC.replace(b'"usage":{}', b'"usage":{"input_tokens":7}', 1)
    data = counted.partition(b"event: content_block_stop")[0]
    output = steno("decode", "--wire", "anthropic_messages", "--stream", data=data)
    assert output.returncode == 1
    assert json.loads(output.stdout)["usage"] == {"input_tokens": 7}


@pytest.mark.parametrize("data", [b"nonsense", b"{}", b"\xff\xff"])
def test_what_is_no_answer_is_refused_in_one_line(data: bytes) -> None:
    output = steno("decode", "--wire", "openai_chat", data=data)
    assert output.returncode == 1
    assert output.stderr.startswith(b"steno: openai_chat: ")
    assert output.stderr.count(b"\n") == 1
    assert output.stdout == b""


def test_a_stream_that_was_not_announced_is_recognised() -> None:
    output = steno("decode", "--wire", "openai_chat", data=STREAM)
    assert output.returncode == 1
    assert output.stderr == b"steno: input: it looks like a stream; add --stream\n"


def test_a_file_that_is_not_there_is_named() -> None:
    output = steno("decode", "--wire", "openai_chat", "no/such/file")
    assert output.returncode == 1
    assert output.stderr == b"steno: no/such/file: No such file or directory\n"


NAMELESS = b"""\
{"message":{"role":"assistant","tool_calls":[
{"function":{"name":"f","arguments":{}}},{"id":"c9","function":{"name":"g","arguments":{}}},
{"function":{"name":"f","arguments":{}}}]},"done":true,"done_reason":"stop"}
""".replace(b"\n", b"")


@pytest.mark.parametrize("how", [[], ["--stream"], ["--events"]])
def test_calls_without_an_id_get_the_same_one_in_each_run(how: list[str]) -> None:
    arguments = ("decode", "--wire", "ollama_chat", *how)
    first = steno(*arguments, data=NAMELESS)
    assert first.returncode == 0
    assert steno(*arguments, data=NAMELESS).stdout == first.stdout
    ids = re.findall(r'"id":"(call_[0-9a-f]{16}_[12]|c9)"', first.stdout.decode())
    assert len(set(ids)) == 3
    other = steno(*arguments, data=NAMELESS.replace(b"f", b"h"))
    assert set(re.findall(r'"id":"(\w+)"', other.stdout.decode())) & set(ids) == {"c9"}


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


def test_what_is_said_beside_the_message_is_printed_on_demand() -> None:
    arguments = ("decode", "--wire", "openai_chat", "--stream")
    both = json.loads(steno(*arguments, "--envelope", data=CHOICES).stdout)
    assert both.keys() == {"message", "envelope"}
    assert both["message"] == json.loads(steno(*arguments, data=CHOICES).stdout)
    assert (both["envelope"]["id"], both["envelope"]["model"]) == ("r-1", "m-1")
    events = steno(*arguments, "--events", "--envelope", data=CHOICES).stdout.splitlines()
    assert json.loads(events[-1]) == {"type": "envelope", "envelope": both["envelope"]}
    assert json.loads(events[-2])["type"] == "finished"


def test_the_envelope_of_a_whole_answer_is_the_answer() -> None:
    output = steno("decode", "--wire", "openai_chat", "--envelope", data=b"{}")
    assert output.returncode == 2
    assert output.stderr.startswith(b"steno: --envelope: goes with --stream")


def test_further_choices_are_not_ignored_in_silence() -> None:
    output = steno("decode", "--wire", "openai_chat", "--stream", data=CHOICES)
    assert output.returncode == 0
    assert output.stderr == b"steno: answer: further choices in it were ignored: 1\n"
    part = {"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}
    candidates = [part, {**part, "index": 1}, {**part, "index": 2}]
    answer = json.dumps({"candidates": candidates}).encode()
    output = steno("decode", "--wire", "gemini", data=answer)
    assert output.returncode == 0
    assert output.stderr == b"steno: answer: further choices in it were ignored: 2\n"
    assert steno("decode", "--wire", "openai_chat", "--stream", data=STREAM).stderr == b""


def test_a_byte_order_mark_is_no_matter() -> None:
    mark = b"\xef\xbb\xbf"
    plain = steno("decode", "--wire", "openai_chat", "--stream", data=STREAM)
    marked = steno("decode", "--wire", "openai_chat", "--stream", data=mark + STREAM)
    assert (marked.returncode, marked.stdout) == (0, plain.stdout)
    output = steno("decode", "--wire", "openai_chat", data=mark + STREAM)
    assert output.stderr == b"steno: input: it looks like a stream; add --stream\n"
    data = mark + json.dumps(REQUEST).encode()
    assert steno("convert", "--from", "openai_chat", "--to", "chat", data=data).returncode == 0


# -- convert -------------------------------------------------------------------------------------


def test_a_request_is_translated_and_what_is_lost_is_listed(tmp_path: Path) -> None:
    data = json.dumps(REQUEST).encode()
    arguments = ("convert", "--from", "openai_chat", "--to", "anthropic_messages")
    output = steno(*arguments, data=data)
    assert output.returncode == 0
    body = json.loads(output.stdout)
    assert body["system"] == "Be brief."
    assert [message["role"] for message in body["messages"]] == ["user"]
    lost = b"messages[1]: left out what is kept for openai_chat alone: name (extras)\n"
    model_notice = b"steno: request: the model is m-1, as it was; --model NAME asks another\n"
    assert output.stderr == lost + model_notice
    report = tmp_path / "report.json"
    again = steno(*arguments, "--report", report, "--strict", data=data)
    assert again.returncode == 3
    assert again.stderr == model_notice
    assert json.loads(report.read_bytes()) == [
        {
            "code": "extras",
            "place": "messages[1]",
            "done": "left out what is kept for openai_chat alone: name",
        }
    ]


def test_the_same_protocol_gives_the_same_request() -> None:
    data = json.dumps(REQUEST).encode()
    output = steno("convert", "--from", "openai_chat", "--to", "openai_chat", "--strict", data=data)
    assert output.returncode == 0
    assert json.loads(output.stdout) == REQUEST


def test_what_is_no_request_is_refused() -> None:
    output = steno("convert", "--from", "openai_chat", "--to", "chat", data=b"{}")
    assert output.returncode == 1
    assert output.stderr == b"steno: request: messages must be a list\n"


def convert(*arguments: str | Path, **body: object) -> subprocess.CompletedProcess[bytes]:
    data = json.dumps(body).encode()
    return steno("convert", "--from", "openai_chat", *arguments, data=data)


def test_the_model_can_be_another_one() -> None:
    output = convert("--to", "anthropic_messages", "--model", "m-2", **REQUEST)
    assert json.loads(output.stdout)["model"] == "m-2"
    unnamed = convert("--to", "chat", "--model", "m-2", messages=REQUEST["messages"])
    assert json.loads(unnamed.stdout)["model"] == "m-2"


@pytest.mark.parametrize("role", ["critic", "system"])
@pytest.mark.parametrize("target", ["anthropic_messages", "gemini", "openai_responses"])
def test_a_request_without_a_message_left_is_refused(target: str, role: str) -> None:
    output = convert("--to", target, messages=[{"role": role, "content": "Hm."}])
    assert output.returncode == 1
    assert output.stdout == b""
    *losses, error = output.stderr.decode().splitlines()
    assert error.startswith("steno: request: nothing is left to send; add a message")
    assert error.endswith(f"that {target} has words for")
    assert len(losses) == (role == "critic")


def test_members_that_say_nothing_are_no_loss_to_be_strict_about() -> None:
    answer: dict[str, object] = {
        "role": "assistant",
        "content": "Hi",
        "refusal": None,
        "annotations": [],
    }
    messages = [{"role": "user", "content": "Hi"}, answer, {"role": "user", "content": "Well?"}]
    output = convert("--to", "openai_responses", "--strict", model="m-1", messages=messages)
    assert (output.returncode, output.stderr) == (0, b"")


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
    assert output.returncode == 0
    roles = [message["role"] for message in json.loads(output.stdout)["messages"]]
    assert roles == ["user", "assistant", "tool", "user"]
    lines = output.stderr.decode().splitlines()
    assert lines[0] == "messages[1]: repaired: leave the result out (result_orphaned)"
    assert lines[1].startswith("messages[2]: repaired: answer it with a result")
    report = tmp_path / "report.json"
    again = convert(*arguments, "--strict", "--report", report, messages=BROKEN)
    assert again.returncode == 3
    assert again.stderr == b""
    rows = json.loads(report.read_bytes())
    assert [f"{row['place']}: {row['done']} ({row['code']})" for row in rows] == lines
    plain = convert("--to", "chat", messages=BROKEN)
    assert len(json.loads(plain.stdout)["messages"]) == len(BROKEN)


def test_a_history_in_order_is_not_repaired() -> None:
    output = convert("--to", "chat", "--repair", "--strict", messages=BROKEN[:1])
    assert (output.returncode, output.stderr) == (0, b"")


def test_a_history_of_which_repair_leaves_nothing_is_refused() -> None:
    output = convert("--to", "openai_chat", "--repair", messages=BROKEN[1:2])
    assert output.returncode == 1
    assert output.stderr.startswith(b"steno: request: nothing is left to send after the repair")


# -- wires of one's own --------------------------------------------------------------------------

OWN = "tests.providers.example_wire"


def test_a_wire_of_ones_own_is_named_as_a_module() -> None:
    output = steno("decode", "--wire", OWN, "--stream", data=b"Hel\nlo\nstop\n")
    assert (output.returncode, output.stderr) == (0, b"")
    assert json.loads(output.stdout)["content"] == [{"type": "text", "text": "Hello"}]
    output = convert("--to", OWN, "--strict", messages=BROKEN[:1], stream=True)
    assert (output.returncode, output.stderr) == (0, b"")
    assert json.loads(output.stdout) == {"to": "", "said": ["Hi"], "stream": True}


@pytest.mark.parametrize("option", ["--from", "--to"])
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("morse", "there is none of that name; one of anthropic_messages, chat, gemini, "),
        ("tests.nowhere", "there is no module of that name to import"),
        ("tests.providers.provider_setup", "it has no NAME; see steno.wire.Wire"),
    ],
)
def test_what_is_no_wire_is_told_with_what_there_is(option: str, name: str, reason: str) -> None:
    arguments = {"--from": "chat", "--to": "chat"} | {option: name}
    output = steno("convert", *[argument for pair in arguments.items() for argument in pair])
    assert output.returncode == 2
    assert f"steno: {option}: {reason}".encode() in output.stderr


def test_a_stream_is_asked_for_in_the_other_words_as_well() -> None:
    request = REQUEST | {"messages": BROKEN[:1], "stream": True}
    output = convert("--to", "anthropic_messages", "--strict", "--model", "m-2", **request)
    assert (output.returncode, output.stderr) == (0, b"")
    assert json.loads(output.stdout)["stream"] is True


# -- a full disk ---------------------------------------------------------------------------------

FULL = Path("/dev/full")


def test_a_full_disk_is_not_blamed_on_the_input() -> None:
    output = convert("--to", "chat", "--report", FULL, **REQUEST)
    assert output.returncode == 1
    assert output.stderr.decode() == (
        "steno: /dev/full: cannot be written: No space left on device; "
        "make room or write elsewhere\n"
    )


@pytest.mark.parametrize("repeat", [1, 20_000])
def test_a_full_disk_behind_stdout_is_told_once(repeat: int) -> None:
    data = STREAM.replace(b"Hel", b"Hel" * repeat)
    command = [sys.executable, "-m", "steno", "decode", "--wire", "openai_chat", "--stream"]
    with FULL.open("wb") as full:
        output = subprocess.run(
            command, input=data, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60
        )
    assert output.returncode == 1
    assert output.stderr.decode() == (
        "steno: stdout: cannot be written: No space left on device; make room or write elsewhere\n"
    )


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
    output = steno("decode", "--wire", wire, "--stream", "--envelope", data=body % first[wire])
    assert output.returncode == 0
    assert json.loads(output.stdout)["message"]["content"][0]["text"] == "a"
