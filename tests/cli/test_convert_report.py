"""The notices and the loss report of `steno convert`."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from steno.providers.catalog import CATALOG
from steno.providers.endpoint import ENDPOINTS
from tests.cli.program import (
    COMMAND,
    CommandOutput,
    ProgramOutput,
    on_terminal,
    run_process,
    run_steno,
)

REQUEST: dict[str, object] = {
    "model": "m-1",
    "max_tokens": 50,
    "messages": [{"role": "user", "content": "Hi", "name": "bob"}],
}
LOST = ("messages[0]: ", "name (extras)")
"""How the line about the lost member begins and ends."""
CONTENTS = b'{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}'
HI = {"role": "user", "content": "Hi"}
CALL = {
    "role": "assistant",
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "found"}


def convert(target: str, *options: str | Path, **members: object) -> CommandOutput:
    body = {name: value for name, value in (REQUEST | members).items() if value is not None}
    arguments = ("convert", "--from", "openai_chat", "--to", target, *options)
    return run_steno(*arguments, data=json.dumps(body).encode())


def is_like(line: str, start: str, end: str) -> bool:
    return line.startswith(start) and line.endswith(end)


def is_model_notice(line: str, model: str = "m-1") -> bool:
    """Whether a line reports that the request still names its model."""
    return (
        line.startswith(f"steno: request: the model is still {model}; ") and "--model NAME" in line
    )


CONVERT = ("convert", "--from", "openai_chat", "--to", "chat")


def convert_into(folder: Path, *options: str, **streams: Any) -> int:
    """Run the program in a process of its own, whose streams are files."""
    return subprocess.run(
        [*COMMAND, *CONVERT, *options],
        input=json.dumps(REQUEST).encode(),
        check=False,
        timeout=60,
        cwd=folder,
        **streams,
    ).returncode


# -- what is not in the body ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "method"),
    [
        (None, "generateContent"),
        (False, "generateContent"),
        (True, "streamGenerateContent?alt=sse"),
    ],
)
def test_fields_in_the_url_of_gemini_are_reported_once(stream: bool | None, method: str) -> None:
    output = convert("gemini", stream=stream)
    assert output.status == 0
    assert json.loads(output.out).keys() == {"contents", "generationConfig"}
    lost, address, model = output.err.splitlines()
    assert is_like(lost, *LOST)
    assert address.endswith(f"POST /v1beta/models/m-1:{method}")
    assert is_model_notice(model)


@pytest.mark.parametrize("model", ["gemini-x", "publishers/google/models/x", "tuned models/x"])
def test_the_address_is_the_one_that_we_send_to_ourselves(model: str) -> None:
    output = convert("gemini", "--model", model, stream=True)
    path = output.err.splitlines()[-1].rpartition(" POST ")[2]
    address = CATALOG["google"].base_url + ENDPOINTS["gemini"].path_for(model)
    assert address.endswith(f".com{path}")


def test_the_address_has_a_place_for_a_model_that_is_not_named() -> None:
    assert convert("gemini", model=None).err.endswith(
        " POST /v1beta/models/MODEL:generateContent\n"
    )


def test_fields_outside_the_body_are_not_losses(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    output = convert("gemini", "--strict", "--report", report, messages=[HI])
    assert output.status == 0
    address, model = output.err.splitlines()
    assert address.endswith(" POST /v1beta/models/m-1:generateContent")
    assert is_model_notice(model)
    assert json.loads(report.read_bytes()) == []


def test_a_request_of_gemini_names_no_model() -> None:
    arguments = ("convert", "--from", "gemini", "--to")
    output = run_steno(*arguments, "openai_chat", data=CONTENTS)
    assert (output.named_place, "--model" in output.err) == ("request", True)
    assert run_steno(*arguments, "openai_chat", "--model", "m-1", data=CONTENTS).err == ""
    assert run_steno(*arguments, "chat", data=CONTENTS).err == ""  # which is sent to no provider
    assert run_steno(*arguments, "gemini", data=CONTENTS).err == ""  # where it has been is known
    assert (
        " POST /v1beta/models/m-1:"
        in run_steno(*arguments, "gemini", "--model", "m-1", data=CONTENTS).err
    )


def test_an_added_limit_is_reported() -> None:
    output = convert("anthropic_messages", "--model", "m-2", max_tokens=None)
    limit = json.loads(output.out)["max_tokens"]
    lost, notice = output.err.splitlines()
    assert is_like(lost, *LOST)
    assert notice.startswith(f"steno: request: max_tokens is set to {limit}")
    assert "anthropic_messages" in notice
    [line] = convert("anthropic_messages", "--model", "m-2").err.splitlines()
    assert is_like(line, *LOST)


def test_an_unchanged_model_name_is_reported_for_another_provider() -> None:
    lost, model = convert("anthropic_messages").err.splitlines()
    assert is_like(lost, *LOST)
    assert is_model_notice(model)
    _, model = convert("anthropic_messages", model="a\nb\x1b").err.splitlines()
    assert is_model_notice(model, "a b\\x1b")
    for target in ("openai_chat", "openai_responses", "chat"):  # one vendor, or none
        assert not any(is_model_notice(line) for line in convert(target).err.splitlines())


@pytest.mark.parametrize("name", ["", " "])
def test_a_model_has_a_name(name: str) -> None:
    output = convert("gemini", "--model", name)
    assert (output.status, output.out) == (2, "")
    assert output.named_place == "--model"


@pytest.mark.parametrize(
    ("messages", "place", "codes"),
    [
        ([HI, CALL], "messages[1]", ["call_unanswered"]),
        ([HI, CALL, HI], "messages[1]", ["call_unanswered"]),
        ([HI, RESULT], "messages[1]", ["result_orphaned"]),
        ([RESULT, HI, CALL], "messages[0]", ["result_early"]),
        ([HI, CALL, HI, RESULT], "messages[3]", ["result_late"]),
        ([HI, CALL, RESULT, RESULT], "messages[3]", ["result_repeated"]),
        (
            [HI, RESULT | {"tool_call_id": "c2"}, CALL],
            "messages[1]",
            ["result_orphaned", "call_unanswered"],
        ),
    ],
)
def test_a_history_that_providers_refuse_is_reported_with_repair(
    messages: list[object], place: str, codes: list[str]
) -> None:
    output = convert("anthropic_messages", "--model", "m-2", "--strict", messages=messages)
    last = output.err.splitlines()[-1]
    assert last.startswith(f"steno: request: {place} ")
    assert ("--repair" in last, "(and 1 more)" in last) == (True, len(codes) == 2)
    repaired = convert("anthropic_messages", "--model", "m-2", "--repair", messages=messages)
    assert "--repair" not in repaired.err
    reported = [line.rpartition(" ")[2] for line in repaired.err.splitlines()]
    assert reported == [f"({code})" for code in codes]


def test_no_repair_is_suggested_for_a_valid_history() -> None:
    assert "--repair" not in convert("gemini", messages=[HI, CALL, RESULT]).err
    assert (
        "--repair" not in convert("chat", messages=[HI, CALL]).err
    )  # which is sent to no provider
    # The provider may have the call: it goes by the answer that came before.
    assert "--repair" not in convert("openai_chat", messages=[HI, RESULT]).err
    assert "--repair" in convert("openai_chat", messages=[HI, CALL]).err


# -- what got lost -------------------------------------------------------------------------------


def test_names_in_a_request_do_not_act_on_the_terminal() -> None:
    output = convert(
        "chat", messages=[{"role": "user", "content": "Hi", "\x1b]0;x\x07\nsteno: y": 1}]
    )
    [line] = output.err.splitlines()
    assert is_like(line, "messages[0]: ", ": \\x1b]0;x\\x07 steno: y (extras)")


def test_an_unknown_message_is_reported_by_its_role() -> None:
    output = convert("chat", messages=[{"role": "us\nr", "content": "Hello"}, HI])
    [line] = output.err.splitlines()
    assert is_like(line, "messages[0].content[0]: ", " (opaque)")
    assert '"us r"' in line
    unknown = {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}
    [line] = convert("chat", messages=[unknown]).err.splitlines()
    assert is_like(line, "messages[0].content[0]: ", " (opaque)")
    assert "openai_chat" in line


def test_a_report_takes_the_place_of_another_as_a_whole(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text("the one of yesterday, which was much longer " * 100)
    assert convert("chat", "--report", report).status == 0
    assert [row["code"] for row in json.loads(report.read_bytes())] == ["extras"]
    assert {place.name for place in tmp_path.iterdir()} == {"home", "report.json"}


def test_a_report_goes_where_a_link_points(tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to(target)
    assert convert("chat", "--report", link).status == 0
    assert link.is_symlink()
    assert json.loads(target.read_bytes())[0]["code"] == "extras"


def test_a_report_goes_through_a_pipe() -> None:
    output = run_process(
        *("convert", "--from", "openai_chat", "--to", "chat", "--report", "/dev/stderr"),
        data=json.dumps(REQUEST).encode(),
    )
    assert output.status == 0
    assert [row["code"] for row in json.loads(output.err)] == ["extras"]


@pytest.mark.parametrize(
    "place", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/proc/thread-self/fd/1", "link", "it"]
)
@pytest.mark.parametrize("mode", ["ab", "r+b"])
def test_a_report_is_appended_to_an_open_file(place: str, mode: str, tmp_path: Path) -> None:
    file = tmp_path / "it"
    file.write_text("precious\n")
    file.chmod(0o640)
    (tmp_path / "link").symlink_to("/dev/stdout")
    with file.open(mode) as out:
        out.seek(0, os.SEEK_END)
        status = convert_into(tmp_path, "--report", place, stdout=out.fileno())
    assert status == 0
    earlier, report, body = file.read_text().splitlines()
    assert earlier == "precious"
    assert [row["code"] for row in json.loads(report)] == ["extras"]
    assert json.loads(body)["model"] == "m-1"
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_report_goes_to_any_descriptor_that_is_open(tmp_path: Path) -> None:
    file = tmp_path / "it"
    file.write_text("precious\n")
    with file.open("ab") as open_file, (tmp_path / "out").open("wb") as out:
        number = open_file.fileno()
        place = f"/dev/fd/{number}"
        status = convert_into(
            tmp_path, "--report", place, stdout=out.fileno(), stderr=number, pass_fds=(number,)
        )
    assert status == 0
    earlier, report = file.read_text().splitlines()
    assert (earlier, json.loads(report)[0]["code"]) == ("precious", "extras")
    output = run_process(*CONVERT, "--report", "/dev/fd/999", data=json.dumps(REQUEST).encode())
    assert (output.status, output.out) == (1, "")
    assert output.named_place == "/dev/fd/999"


def test_a_report_goes_through_a_pipe_that_has_a_name(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()
    assert convert("chat", "--report", pipe).status == 0
    reader.join(60)
    assert json.loads(received[0])[0]["code"] == "extras"
    assert pipe.is_fifo()


def test_nothing_is_printed_where_no_report_can_be_written(tmp_path: Path) -> None:
    for place in (tmp_path, Path("/dev/full")):
        output = convert("chat", "--report", place)
        assert (output.status, output.out, output.place) == (1, "", str(place))
        assert output.code in ("EISDIR", "ENOSPC")
        assert output.err.count("\n") == 1


def test_a_report_wants_a_folder_that_is_there(tmp_path: Path) -> None:
    link, file = tmp_path / "link", tmp_path / "file"
    link.symlink_to(tmp_path / "none" / "report.json")
    file.touch()
    for place in (tmp_path / "none" / "report.json", link, file / "report.json"):
        output = convert("chat", "--report", place)
        assert (output.status, output.out) == (2, "")
        assert (output.code, output.place) == ("report_folder_missing", "--report")


def test_a_report_is_not_written_where_links_lead_nowhere(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    output = convert("chat", "--report", loop)
    assert (output.status, output.out) == (1, "")
    assert (output.code, output.place) == ("ELOOP", str(loop))
    assert loop.is_symlink()


def test_a_report_may_have_a_name_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert convert("chat", "--report", "report.json").status == 0
    assert json.loads((tmp_path / "report.json").read_bytes())[0]["code"] == "extras"


def test_a_report_does_not_take_the_place_of_the_request(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(REQUEST))
    arguments = ("convert", "--from", "openai_chat", "--to", "chat", file, "--report")
    for place in (file, tmp_path / "home" / ".." / "request.json"):
        output = run_steno(*arguments, place)
        assert (output.status, output.out) == (2, "")
        assert (output.code, output.place) == ("report_replaces_file", "--report")
    assert json.loads(file.read_text()) == REQUEST


def test_a_report_has_a_name() -> None:
    output = convert("chat", "--report", "-")
    assert (output.status, output.out) == (2, "")
    assert (output.code, output.place) == ("report_not_a_file", "--report")


@pytest.mark.parametrize("name", [".", ".chat", "a..b", "chat.", "my-own.wire"])
def test_a_name_that_is_not_a_module_is_not_a_wire(name: str) -> None:
    output = run_steno("convert", "--from", "chat", "--to", name)
    assert output.status == 2
    assert output.named_place == "--to"
    assert "anthropic_messages, chat, " in output.err


# -- wires of one's own --------------------------------------------------------------------------

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_wire_of_ones_own_need_not_write_json() -> None:
    output = run_process(
        *("convert", "--from", "openai_chat", "--to", "lab.lines"),
        data=b'{"messages":[{"role":"user","content":"Hi"}]}',
        PYTHONPATH=str(EXAMPLES),
    )
    assert output == ProgramOutput(0, 'user "Hi"\n', "")


def test_a_body_that_is_no_json_does_not_act_on_a_terminal(tmp_path: Path) -> None:
    package = tmp_path / "mine"
    package.mkdir()
    (package / "odd.py").write_text(ODD)
    file = tmp_path / "request.json"
    file.write_text(json.dumps(REQUEST))
    output = on_terminal(
        *("convert", "--from", "openai_chat", "--to", "mine.odd", file),
        environment={"PYTHONPATH": f"{EXAMPLES}:{tmp_path}"},
    )
    assert output == ProgramOutput(0, "one\n\\x1b]0;x\\x07 \ufffd\n", "")


ODD = """
from lab.lines import StreamDecoder, decode_error, decode_request, decode_response
from steno.wire import EncodedRequest

NAME = "odd"


def encode_request(request, *, stream=None):
    return EncodedRequest(b"one\\n\\x1b]0;x\\x07 \\xff")
"""


def test_a_number_that_python_has_no_value_for_is_carried_along() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":[{"type":"x","n":1e999}]}]}'
    output = run_steno("convert", "--from", "openai_chat", "--to", "openai_chat", data=body)
    assert (output.status, output.err) == (0, "")
    assert "1e999" in output.out


def test_an_added_signature_is_reported() -> None:
    output = convert("gemini", messages=[HI, CALL, RESULT])
    assert "thoughtSignature" in output.out
    assert "skip_thought_signature_validator" in output.err
    assert "signature" not in convert("gemini", messages=[HI]).err


def test_a_report_does_not_take_the_place_of_what_is_read(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(REQUEST))
    with file.open("rb") as source:
        output = subprocess.run(
            [*COMMAND, *CONVERT, "--report", file],
            stdin=source,
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert (output.returncode, output.stdout) == (2, b"")
    assert b"is the input file" in output.stderr
    assert json.loads(file.read_text()) == REQUEST


def test_a_report_without_a_reader_is_an_error(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    output = subprocess.run(
        [*COMMAND, *CONVERT, "--report", f"/dev/fd/{writing}"],
        input=json.dumps(REQUEST).encode(),
        capture_output=True,
        pass_fds=(writing,),
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert (output.returncode, output.stdout) == (1, b"")
    assert b"cannot be written: Broken pipe" in output.stderr


@pytest.mark.parametrize("content", ["", 5])
def test_a_message_of_a_known_role_is_not_reported_as_unknown(content: object) -> None:
    output = convert("gemini", messages=[HI, {"role": "user", "content": content}])
    assert "role" not in output.err
    assert "messages[1]" in output.err


def test_a_request_without_messages_is_not_taken_for_a_stream() -> None:
    output = convert("gemini", messages=[])
    assert output.status == 1
    assert "stream" not in output.err
