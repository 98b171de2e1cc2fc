"""`steno -p` for programs: only JSON on stdout, as the guide documents it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from steno.codec import encode_entry
from steno.store import open_store
from tests.app.project_setup import OFFLINE, events_of, make_project, result_of, scripted_model
from tests.app.scripted_vendor import Call, Fault, Thought, Turn
from tests.cli.program import COMMAND, ProgramOutput, run_steno

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "headless.md"
SECTION = re.compile(r"^### `(\w+)`\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
SHOWN = re.compile(
    r"^```sh\n(?P<line>[^\n]*)\n```\n\n(?P<fence>````?)text\n(?P<output>.*?)^(?P=fence)\n",
    re.MULTILINE | re.DOTALL,
)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a file in it, which is where we are."""
    return make_project(tmp_path, monkeypatch)


def documented() -> dict[str, set[str]]:
    """Return the fields of each event as the guide has them."""
    text = GUIDE.read_text(encoding="utf-8")
    return {name: set(FIELD.findall(section)) for name, section in SECTION.findall(text)}


def everything(home: Path) -> ProgramOutput:
    """Run something in which everything happens that can."""
    turn: Turn = [Thought("Hm."), "I try.", Call("bash", {"command": "expr out"})]
    with scripted_model(home, turn):
        return run_steno("-p", "x", "--yes", "--max-turns", "1", "--output-format", "stream-json")


# -- the guide -------------------------------------------------------------------------------------


def test_events_have_the_fields_of_the_guide(home: Path) -> None:
    output = everything(home)
    assert output.status == 4
    seen: dict[str, set[str]] = {}
    for event in events_of(output):
        assert seen.setdefault(event["type"], set(event)) == set(event)
    assert seen == documented()


def test_the_result_object_has_the_fields_of_the_guide(home: Path) -> None:
    for answer in ("Fine.", Fault(401, "no")):
        with scripted_model(home, answer):
            output = run_steno("-p", "x", "--output-format", "json")
        assert output.out.count("\n") == 1
        assert set(result_of(output)) == documented()["result"]
        usage = result_of(output)["usage"]
        assert all(f"`{name}`" in GUIDE.read_text(encoding="utf-8") for name in usage)


def test_the_output_in_the_guide_is_the_actual_output(project: Path) -> None:
    shown = list(SHOWN.finditer(GUIDE.read_text(encoding="utf-8")))
    assert shown
    for block in shown:
        ran = subprocess.run(
            [*COMMAND, *shlex.split(block["line"])[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=60,
        )
        assert ran.stdout.decode() == block["output"]


def test_the_guide_lists_every_option() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    options = set(re.findall(r"--[a-z-]+", run_steno("run", "--help").out))
    assert {option for option in options if option not in text} == {"--help", "--prompt"}


# -- what comes when -------------------------------------------------------------------------------


def test_events_come_in_the_order_of_what_happens(home: Path) -> None:
    types = [event["type"] for event in events_of(everything(home))]
    assert types == [
        *("session", "entry", "entry", "turn", "thinking", "text", "entry"),
        *("entry", "asked", "entry", "call", "output", "entry", "notice", "result"),
    ]


def test_entries_are_those_of_the_log(home: Path) -> None:
    entries = [event["entry"] for event in events_of(everything(home)) if event["type"] == "entry"]
    with open_store() as store:
        (header,) = store.headers()
        log = store.open(header.id).entries()[1:]  # the first is the system prompt
    assert entries == [json.loads(encode_entry(entry)) for entry in log]


def test_an_entry_that_the_agent_wrote_is_printed_as_stored_with_its_code(home: Path) -> None:
    with scripted_model(home, [Call("bash", {"command": "expr out"})], "Denied."):
        printed = run_steno("-p", "x", "--output-format", "stream-json")
    entries = [event["entry"] for event in events_of(printed) if event["type"] == "entry"]
    codes = [row["payload"]["details"]["code"] for row in entries if "details" in row["payload"]]
    assert codes == ["no_approver"]
    lines = run_steno("sessions", "show", "last", "--json").out.splitlines()
    shown = [json.loads(line) for line in lines]
    assert shown[-len(entries) :] == entries


def test_calls_are_reported_with_their_preview(home: Path) -> None:
    events = {event["type"]: event for event in events_of(everything(home))}
    call = {"id": "call_1", "name": "bash", "arguments": '{"command": "expr out"}'}
    assert events["asked"]["call"] == events["call"]["call"] == call
    assert "expr out" in events["asked"]["preview"]
    assert events["output"] == {"type": "output", "call_id": "call_1", "text": "out\n"}
    assert events["thinking"]["text"] == "Hm."


def test_the_result_has_turns_usage_and_cost(home: Path) -> None:
    result = result_of(everything(home))
    assert (result["ending"], result["reason"], result["error"]) == ("limit", "1 turn", None)
    assert (result["turns"], result["model"], result["branch"]) == (1, "lab/tester", "main")
    assert (result["usage"]["input_tokens"], result["usage"]["output_tokens"]) == (10, 5)
    assert result["cost_usd"] is None
    assert result["denied"] == []


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["json", "stream-json"])
def test_a_model_that_fails_is_a_result(home: Path, format: str) -> None:
    with scripted_model(home, Fault(401, "no such key")):
        output = run_steno("-p", "x", "--output-format", format)
    result = result_of(output)
    assert output.status == 1
    assert (result["ending"], result["error"]) == ("failed", "AuthenticationFailed")
    assert "no such key" in result["reason"]
    assert "steno: no such key" in output.err


@pytest.mark.parametrize("format", ["json", "stream-json"])
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--model", "unknown/x"], 2),
        (["-r", "nope", *OFFLINE], 1),
        (["--allow", "bash(", *OFFLINE], 2),
        (["--store", "nonsense:x", *OFFLINE], 2),
        (["--mode", "dream"], 2),
    ],
)
def test_an_error_before_the_start_is_not_a_result(
    format: str, arguments: list[str], status: int
) -> None:
    output = run_steno("-p", "x", "--output-format", format, *arguments)
    assert (output.status, output.out) == (status, "")
    assert output.err


def test_only_json_is_on_stdout_whatever_else_is_reported(home: Path, project: Path) -> None:
    (project / ".steno").mkdir()
    (project / ".steno" / "config.toml").write_text('model = "evil/x"\n')
    (project / "AGENTS.md").write_bytes(b"\0")
    output = everything(home)
    assert all(json.loads(line) for line in output.out.splitlines())
    assert f"{project}/.steno/config.toml: " in output.err
    assert "AGENTS.md" in output.err


def test_json_is_utf_8_whatever_the_locale_is(home: Path) -> None:
    with scripted_model(home, "± é 漢"):
        ran = subprocess.run(
            [*COMMAND, "-p", "x", "-q", "--output-format", "json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=60,
            env=os.environ | {"PYTHONIOENCODING": "latin-1"},
        )
    assert json.loads(ran.stdout)["text"] == "± é 漢"
