"""`steno decode` and `steno convert` with recorded files as they occur in practice."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import on_terminal, run_steno

ANSWER = b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}'


LINES = b"""\
{"message":{"role":"assistant","content":"Hel"},"done":false}
{"message":{"role":"assistant","content":"lo"},"done":true,"done_reason":"stop"}
"""


REQUEST = b'{"model":"m-1","messages":[{"role":"user","content":"Hi"}]}'


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nvia: a\r\n\r\n"


PROXY = b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/2 100\r\n\r\n"


READERS = (
    ("decode", "--wire", "openai_chat"),
    ("convert", "--from", "openai_chat", "--to", "chat"),
)


@pytest.mark.parametrize("head", [HEAD, PROXY + HEAD, HEAD.replace(b"\r", b"")])
def test_headers_before_a_body_are_left_out(head: bytes) -> None:
    decode = ("decode", "--wire", "openai_chat")
    assert run_steno(*decode, data=head + ANSWER) == run_steno(*decode, data=ANSWER)
    lines = ("decode", "--wire", "ollama_chat", "--stream")
    assert run_steno(*lines, data=head + LINES) == run_steno(*lines, data=LINES)
    assert run_steno(*lines, data=LINES).status == 0


def test_headers_before_a_request_are_left_out() -> None:
    convert = ("convert", "--from", "openai_chat", "--to", "chat")
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: example.org\r\n\r\n"
    output = run_steno(*convert, data=head + REQUEST)
    assert (output.status, json.loads(output.out)) == (0, json.loads(REQUEST))


def test_headers_inside_of_a_body_stay() -> None:
    data = b'\n{"a":0,\nGET / HTTP/1.1\n\n' + ANSWER.removeprefix(b"{")
    output = run_steno("decode", "--wire", "openai_chat", data=data)
    assert (output.status, output.out) == (1, "")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("data", "code", "named"),
    [
        (b"", "input_empty", ""),
        (b" \n", "input_empty", ""),
        (HEAD, "input_empty", ""),
        (gzip.compress(ANSWER, mtime=0), "input_packed", "gzip -dc"),
        (HEAD + gzip.compress(ANSWER, mtime=0), "input_packed", "gzip -dc"),
        (b"\x28\xb5\x2f\xfd...", "input_packed", "zstd -dc"),
        (ANSWER.decode().encode("utf-16"), "input_packed", "UTF-16"),
        (json.dumps(ANSWER.decode()).encode(), "input_packed", "JSON string"),
    ],
)
def test_a_compressed_body_is_refused_with_the_unpack_command(
    reader: tuple[str, ...], data: bytes, code: str, named: str
) -> None:
    output = run_steno(*reader, data=data)
    assert (output.status, output.out) == (1, "")
    assert (output.code, output.place) == (code, "input")
    assert named in output.err
    assert output.err.count("\n") == 1


@pytest.mark.parametrize("reader", READERS)
def test_endless_input_is_not_read_to_its_end(reader: tuple[str, ...]) -> None:
    output = run_steno(*reader, "/dev/zero")
    assert (output.status, output.out) == (1, "")
    assert (output.code, output.place) == ("input_too_large", "input")
    assert "268,435,456" in output.err


@pytest.mark.parametrize("reader", READERS)
def test_a_place_that_cannot_be_read_is_named(reader: tuple[str, ...], tmp_path: Path) -> None:
    output = run_steno(*reader, tmp_path)
    assert (output.status, output.code, output.place) == (1, "EISDIR", str(tmp_path))
    missing = tmp_path / "none.json"
    output = run_steno(*reader, missing)
    assert (output.status, output.code, output.place) == (1, "ENOENT", str(missing))
    assert output.named_place == str(missing)


def test_a_user_at_a_terminal_sees_what_is_waited_for() -> None:
    output = on_terminal("decode", "--wire", "openai_chat", answer=ANSWER.decode() + "\n\x04")
    assert output.status == 0
    assert "steno: reading stdin until Ctrl-D; pass a file name to read a file\n" in output.out
    assert '"text": "Hi"' in output.out


# -- several bodies, and none --------------------------------------------------------------------

ONE_OF = ": sed -n 1p FILE | steno "


@pytest.mark.parametrize(
    ("value", "decode", "convert"),
    [
        (REQUEST, "convert --from openai_chat --to WIRE", "convert --from openai_chat --to WIRE"),
        (ANSWER, "decode --wire openai_chat", "decode --wire openai_chat"),
        (
            b'{"model":"m-1","prompt":"Hi","completion":"Ho"}',
            "decode --wire openai_chat",
            "convert --from openai_chat --to WIRE",
        ),
    ],
)
def test_of_several_bodies_one_has_to_be_given(value: bytes, decode: str, convert: str) -> None:
    for end in (b"\n", b"\r\n", b"\n\n"):
        for reader, advice in zip(READERS, (decode, convert), strict=True):
            output = run_steno(*reader, data=(value + end) * 3)
            assert (output.status, output.out) == (1, "")
            assert output.err.endswith(f"{ONE_OF}{advice}\n")


def test_of_several_bodies_of_another_wire_that_one_is_named() -> None:
    output = run_steno("decode", "--wire", "gemini", data=ANSWER + b"\n" + ANSWER)
    assert output.err.endswith(f"{ONE_OF}decode --wire openai_chat\n")
    output = run_steno("decode", "--wire", "gemini", data=REQUEST + b"\n" + REQUEST)
    assert output.err.endswith(f"{ONE_OF}convert --from WIRE --to WIRE\n")  # more than one reads it


def test_pieces_of_one_answer_are_not_several() -> None:
    piece = b'{"candidates":[{"content":{"role":"model","parts":[{"text":"Hello"}]}}]}\n'
    output = run_steno("decode", "--wire", "gemini", data=piece * 2)
    assert output.err.endswith(" --stream\n")
    assert "--wire" not in output.err
    output = run_steno("decode", "--wire", "gemini", data=LINES)
    assert output.err.endswith(": try --wire ollama_chat --stream\n")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"detail": "Invalid API Key"}, "Invalid API Key"),
        ({"message": "Forbidden"}, "Forbidden"),
        ({"message": "No such model", "code": 404, "object": "error"}, "No such model (404)"),
        ({"msg": "bad\x1b]0;x\x07 key", "type": "auth"}, "bad ]0;x  key (auth)"),
        ({"detail": [{"msg": "field required"}]}, '[{"msg":"field required"}]'),
        ({"errors": [{"message": "No route", "code": 7003}]}, "No route (7003)"),
        ({"errors": ["No route"], "success": False}, '["No route"]'),
    ],
)
@pytest.mark.parametrize("stream", [(), ("--stream",)])
def test_an_error_in_a_foreign_shape_is_reported_with_its_own_text(
    body: dict[str, object], message: str, stream: tuple[str, ...]
) -> None:
    for wire in ("openai_chat", "anthropic_messages", "gemini"):
        output = run_steno("decode", "--wire", wire, *stream, data=json.dumps(body).encode())
        assert (output.status, output.out) == (1, "")
        assert output.err.endswith(f": {message}\n")


def test_a_body_without_an_error_is_not_guessed_to_be_one() -> None:
    for body in (b'{"detail":null,"ok":true}', b'{"message":{"content":{}}}'):
        output = run_steno("decode", "--wire", "openai_chat", data=body)
        assert (output.code, output.place) == ("choices_missing", "openai_chat")
        assert output.err.count("\n") == 1
        assert ";" not in output.err  # a guess would stand after it


# -- test spread -----------------------------------------------------------------------------------
#
# `steno decode` of responses that were reformatted.


SPREAD_ANSWER = {
    "message": {"role": "assistant", "content": "Hi"},
    "done": True,
    "done_reason": "stop",
}


@pytest.mark.parametrize("options", [[], ["--stream"]])
def test_a_whole_answer_of_ollama_may_be_spread_over_many_lines(options: list[str]) -> None:
    output = subprocess.run(
        [sys.executable, "-m", "steno", "decode", "--wire", "ollama_chat", *options],
        input=json.dumps(SPREAD_ANSWER, indent=2).encode(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert json.loads(output.stdout)["content"] == [{"type": "text", "text": "Hi"}]
