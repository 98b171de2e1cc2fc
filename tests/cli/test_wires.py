"""`steno decode` and `steno convert`, run as people run them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

STREAM = b"""\
data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}

data: {"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}

data: [DONE]

"""
REQUEST = {
    "model": "m-1",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi", "name": "bob"},
    ],
}


def steno(*arguments: str | Path, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "steno", *map(str, arguments)]
    return subprocess.run(command, input=data, capture_output=True, check=False, timeout=60)


def test_the_version_is_told() -> None:
    assert steno("--version").stdout.startswith(b"steno 0.")


@pytest.mark.parametrize("arguments", [["--help"], ["decode", "--help"], ["convert", "--help"]])
def test_help_is_there(arguments: list[str]) -> None:
    told = steno(*arguments)
    assert told.returncode == 0
    assert b"usage: steno" in told.stdout


@pytest.mark.parametrize(
    "arguments",
    [[], ["decode"], ["decode", "--wire", "morse"], ["convert", "--from", "chat"]],
)
def test_a_command_line_that_makes_no_sense_is_explained(arguments: list[str]) -> None:
    told = steno(*arguments)
    assert told.returncode == 2
    assert b"usage: steno" in told.stderr


# -- decode --------------------------------------------------------------------------------------


def test_a_stream_is_decoded_from_a_file_or_from_stdin(tmp_path: Path) -> None:
    file = tmp_path / "answer.sse"
    file.write_bytes(STREAM)
    arguments = ("decode", "--wire", "openai_chat", "--stream")
    told = steno(*arguments, file)
    assert told.returncode == 0
    assert json.loads(told.stdout) == {
        "type": "assistant",
        "content": [{"type": "text", "text": "Hello"}],
        "stop_reason": "end_turn",
        "raw_stop_reason": "stop",
    }
    assert steno(*arguments, data=STREAM).stdout == told.stdout
    assert steno(*arguments, "-", data=STREAM).stdout == told.stdout


def test_a_whole_answer_is_decoded() -> None:
    answer = b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}'
    told = steno("decode", "--wire", "openai_chat", data=answer)
    assert json.loads(told.stdout)["content"] == [{"type": "text", "text": "Hi"}]


def test_events_are_printed_one_a_line() -> None:
    told = steno("decode", "--wire", "openai_chat", "--events", data=STREAM)
    events = [json.loads(line) for line in told.stdout.splitlines()]
    assert [event["type"] for event in events] == ["text_delta", "text_delta", "finished"]


def test_an_error_in_the_answer_is_told_and_so_is_what_came_before_it() -> None:
    data = STREAM.split(b"\n\n")[0] + b'\n\ndata: {"error":{"message":"engine died"}}\n\n'
    told = steno("decode", "--wire", "openai_chat", "--stream", data=data)
    assert told.returncode == 1
    assert b"engine died" in told.stderr
    message = json.loads(told.stdout)
    assert message["content"] == [{"type": "text", "text": "Hel"}]
    assert message["stop_reason"] == "error"


@pytest.mark.parametrize("data", [b"", b"nonsense", b"\xff\xfe"])
def test_what_is_no_answer_is_refused_in_one_line(data: bytes) -> None:
    told = steno("decode", "--wire", "openai_chat", data=data)
    assert told.returncode == 1
    assert told.stderr.startswith(b"steno: openai_chat: ")
    assert told.stderr.count(b"\n") == 1
    assert told.stdout == b""


def test_a_stream_that_was_not_announced_is_recognised() -> None:
    told = steno("decode", "--wire", "openai_chat", data=STREAM)
    assert told.returncode == 1
    assert told.stderr == b"steno: input: it looks like a stream; add --stream\n"


def test_a_file_that_is_not_there_is_named() -> None:
    told = steno("decode", "--wire", "openai_chat", "no/such/file")
    assert told.returncode == 1
    assert told.stderr == b"steno: no/such/file: No such file or directory\n"


# -- convert -------------------------------------------------------------------------------------


def test_a_request_is_translated_and_what_is_lost_is_listed(tmp_path: Path) -> None:
    data = json.dumps(REQUEST).encode()
    arguments = ("convert", "--from", "openai_chat", "--to", "anthropic_messages")
    told = steno(*arguments, data=data)
    assert told.returncode == 0
    body = json.loads(told.stdout)
    assert body["system"] == "Be brief."
    assert [message["role"] for message in body["messages"]] == ["user"]
    assert told.stderr == (
        b"messages[1]: left out what only openai_chat has a name for: name (extras)\n"
    )
    report = tmp_path / "report.json"
    again = steno(*arguments, "--report", report, "--strict", data=data)
    assert again.returncode == 3
    assert again.stderr == b""
    assert json.loads(report.read_bytes()) == [
        {
            "code": "extras",
            "place": "messages[1]",
            "done": "left out what only openai_chat has a name for: name",
        }
    ]


def test_the_same_protocol_gives_the_same_request() -> None:
    data = json.dumps(REQUEST).encode()
    told = steno("convert", "--from", "openai_chat", "--to", "openai_chat", "--strict", data=data)
    assert told.returncode == 0
    assert json.loads(told.stdout) == REQUEST


def test_what_is_no_request_is_refused() -> None:
    told = steno("convert", "--from", "openai_chat", "--to", "chat", data=b"{}")
    assert told.returncode == 1
    assert told.stderr == b"steno: request: messages must be a list\n"


def test_a_reader_that_has_gone_is_no_error_to_talk_about() -> None:
    command = f"{sys.executable} -m steno decode --wire openai_chat --stream | true"
    told = subprocess.run(command, shell=True, input=STREAM, capture_output=True, check=False)
    assert told.stderr == b""
