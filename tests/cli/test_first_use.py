"""First use: typing errors, missing parts, and models with few abilities."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from steno.agent import EndReason, RunResult
from steno.app.compose import target_for
from steno.app.settings import Settings
from steno.messages.usage import Usage
from steno.providers.model_discovery import find_model
from steno.render.run_output import TextReporter
from steno.store import MemoryStore, open_store
from tests.app.project_setup import (
    OFFLINE,
    events_of,
    make_project,
    result_of,
    scripted_model,
    write_settings,
)
from tests.app.scripted_vendor import Call, run_vendor
from tests.cli.program import COMMAND, ProgramOutput, copy_to_store, run_steno
from tests.cli.running_program import PATIENCE_S, start_on_terminal

PUPPET = Path(__file__).parents[1] / "data" / "puppet" / "puppet.gguf"
WITHOUT_AIOHTTP = (
    "import sys; sys.modules['aiohttp'] = None; from steno.cli.main import main; main()"
)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a file in it, which is where we are."""
    return make_project(tmp_path, monkeypatch)


def strange_settings(project: Path, text: str) -> Path:
    """Write settings into the untrusted project."""
    file = project / ".steno" / "config.toml"
    file.parent.mkdir()
    file.write_text(text)
    return file


# -- rules -----------------------------------------------------------------------------------------


def test_an_allow_rule_that_matches_no_tool_is_reported(home: Path) -> None:
    file = write_settings(home, 'allow = ["read", "bsh(git *)"]')
    output = run_steno("-p", "list files", *OFFLINE)
    assert output.status == 0
    [notice] = [line for line in output.err.splitlines() if "bsh" in line]
    assert notice.startswith(f"steno: {file}: allow[1]: ")
    assert notice.endswith(" bash?")


def test_a_rule_of_a_file_that_denies_no_tool_is_an_error(home: Path) -> None:
    file = write_settings(home, 'deny = ["Bash(git push *)"]')
    output = run_steno("-p", "list files", *OFFLINE)
    assert (output.status, output.out) == (1, "")
    assert (output.code, output.place) == ("tool_unknown", f"{file}: deny[0]")
    assert output.err.endswith(" bash?\n")


def test_only_what_can_be_meant_is_allowed_for_good(home: Path) -> None:
    output = run_steno("permissions", "allow", "Bash(git log *)", "--user")
    assert (output.status, output.code, output.place) == (2, "tool_unknown", "rule")
    assert output.err.endswith(" bash?\n")
    output = run_steno("permissions", "allow", "bash", "--project", "--folder", "/nope")
    assert (output.status, output.code, output.place) == (2, "folder_missing", "--folder")
    assert list(home.iterdir()) == []
    assert run_steno("permissions", "allow", "mcp__files__*", "--user").status == 0


def test_unreadable_grants_are_reported_once_and_do_not_stop_a_run(home: Path) -> None:
    file = home / ".config" / "steno" / "grants.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[user\nallow = ['write']")
    file.chmod(0o600)
    with scripted_model(home, [Call("write", {"path": "a", "content": "x"})], "Too bad."):
        output = run_steno("-p", "x")
    assert (output.status, output.out) == (0, "Too bad.\n")
    assert output.err.count(f"steno: {file}: ") == 1
    assert not Path("a").exists()
    lines = [json.loads(line) for line in run_steno("doctor", "--json").out.splitlines()]
    assert [line["state"] for line in lines if line["check"] == "grants"] == ["broken"]
    file.write_text("[user]\nallow = ['write']")
    lines = [json.loads(line) for line in run_steno("doctor", "--json").out.splitlines()]
    (grants,) = [line for line in lines if line["check"] == "grants"]
    assert (grants["state"], grants["text"]) == ("ok", f"1 rule ({file})")


def test_subjects_that_no_rule_covers_are_named(home: Path) -> None:
    call = Call("bash", {"command": "ls && make install"})
    with scripted_model(home, [call], "Too bad.", [call], "Too bad."):
        output = run_steno("-p", "x", "--allow", "bash(ls *)")
        other = run_steno("-p", "x", "--allow", "write(src/**)")
    assert any(
        line.startswith("! bash: ") and line.endswith(": make install")
        for line in output.err.splitlines()
    )
    assert not any(line.endswith(": make install") for line in other.err.splitlines())


def test_ask_without_a_terminal_is_refused_before_anything_is_sent(home: Path) -> None:
    with scripted_model(home, "Never.") as model:
        output = subprocess.run(
            ["setsid", *COMMAND, "-p", "x", "--ask"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=PATIENCE_S,
        )
    assert output.returncode == 2
    last = output.stderr.decode().splitlines()[-1]
    assert last.startswith("steno: --ask: ")
    assert model.seen == []


@pytest.mark.parametrize("keys", ["\x04", "\x03"])
def test_an_abandoned_question_ends_its_line(home: Path, keys: str) -> None:
    call = Call("write", {"path": "a", "content": "x"})
    with scripted_model(home, [call], "Too bad."), start_on_terminal("-p", "x", "--ask") as person:
        person.see("h help? ")
        person.type(keys)
        person.end()
    answered = person.screen.partition("h help? ")[2]
    assert answered.removeprefix("^C").startswith("\n")


# -- models ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code"),
    [("antropic/x", "provider_unknown"), ("gpt\x1b[2J", "model_name_malformed")],
)
def test_a_model_that_there_is_not_is_repeated_with_where_it_was_named(
    home: Path, name: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = name.replace("\x1b", "\\x1b")
    output = run_steno("-p", "x", "--model", name)
    assert (output.status, output.code, output.place) == (2, code, f"--model {shown}")
    file = write_settings(home, f"model = {json.dumps(name)}")
    output = run_steno("-p", "x")
    assert (output.status, output.code, output.place) == (1, code, f"{file}: model {shown}")
    monkeypatch.setenv("STENO_MODEL", name)
    output = run_steno("-p", "x")
    assert (output.status, output.code, output.place) == (1, code, f"STENO_MODEL {shown}")
    assert "\x1b" not in output.err


def test_a_model_file_that_is_not_there_is_named() -> None:
    output = run_steno("-p", "x", "--model", "embedded:/nope.gguf")
    assert output.code == "model_file_missing"


def test_the_model_chosen_for_a_vendor_alone_is_reported(home: Path) -> None:
    with scripted_model(home, "Hello."):
        output = run_steno("-p", "x", "--model", "lab/")
    assert output.out == "Hello.\n"
    [notice] = [line for line in output.err.splitlines() if "1 model at http" in line]
    assert "lab/tester" in notice


def test_a_missing_key_is_reported_with_its_variable_and_nothing_else() -> None:
    output = run_steno("-p", "x", "--model", "anthropic/claude")
    assert (output.status, output.out, output.code, output.place) == (
        1,
        "",
        "key_missing",
        "anthropic",
    )


@pytest.mark.parametrize("format", ["text", "stream-json"])
def test_a_model_without_tool_calls_is_reported(home: Path, format: str) -> None:
    with scripted_model(home, "Hello.", settings='[models."lab/tester"]\ntools = false\n'):
        output = run_steno("-p", "x", "--output-format", format)
    if format == "text":
        [notice] = [line for line in output.err.splitlines() if line[0] == "!"]
        assert "lab/tester" in notice
    else:
        notices = [event for event in events_of(output) if event["type"] == "notice"]
        assert notices[0]["code"] == "context"
        assert "lab/tester" in notices[0]["text"]


def test_an_embedded_model_is_not_left_to_talk_without_end() -> None:
    found = asyncio.run(find_model(f"embedded:{PUPPET}"))
    assert target_for(found, Settings()).max_tokens == 512
    assert target_for(found, Settings(max_tokens=2000)).max_tokens == 2000
    assert target_for(asyncio.run(find_model("offline")), Settings()).max_tokens is None


def test_a_prompt_that_an_embedded_model_cannot_read_is_refused_before_it_is_loaded(
    home: Path,
) -> None:
    output = run_steno("-p", "word " * 20_000, "--model", f"embedded:{PUPPET}")
    assert (output.status, output.out) == (1, "")
    assert (output.code, output.place) == ("prompt_too_long", "prompt")
    assert "--model" in output.err
    assert list(home.iterdir()) == []


def test_the_reason_of_a_completed_run_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reporter = TextReporter()
    reason = "the answer was cut off at its length limit"
    reporter.end(RunResult(EndReason.DONE, None, 1, Usage(), reason=reason))
    assert capsys.readouterr().err == f"! {reason}\n"


def test_ignored_fields_are_reported_in_one_line(home: Path) -> None:
    with run_vendor("a", "b", "c") as known:
        row = known.settings.replace("vllm", "lmstudio")
        write_settings(home, f'model = "lab/tester"\n{row}')
        output = run_steno("-p", "x")
        verbose = run_steno("-p", "x", "--verbose")
        streamed = run_steno("-p", "x", "--output-format", "stream-json")
    notices = [line for line in output.err.splitlines() if line.startswith("! ")]
    assert len(notices) == 1
    found = re.fullmatch(
        r"! the server ignores (\d+) fields of this request \(tools\); use --verbose to list them",
        notices[0],
    )
    assert found is not None
    count = int(found[1])
    assert verbose.err.count("\n! request.tools[") == count > 1
    assert sum(event["type"] == "notice" for event in events_of(streamed)) == count


# -- what is not installed -------------------------------------------------------------------------


def without_aiohttp(*arguments: str) -> ProgramOutput:
    command = WITHOUT_AIOHTTP.replace("main()", "sys.exit(main())")
    ran = subprocess.run(
        [sys.executable, "-c", command, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )
    return ProgramOutput(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


def test_a_missing_package_is_a_one_line_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    output = without_aiohttp("-p", "x", "--model", "anthropic/claude", "-q")
    extra = "pip install 'steno-agent[http]'"
    assert (output.status, output.out, output.err.count("\n")) == (1, "", 1)
    assert output.err.endswith(f": {extra}\n")
    output = without_aiohttp("-p", "list files")
    assert output.status == 0
    [notice] = [line for line in output.err.splitlines() if "ANTHROPIC_API_KEY" in line]
    assert extra in notice


# -- what is stored --------------------------------------------------------------------------------


def test_an_error_in_untrusted_settings_does_not_block_reading_commands(project: Path) -> None:
    session = result_of(run_steno("-p", "list files", *OFFLINE, "--output-format", "json"))[
        "session"
    ]
    file = strange_settings(project, "max_turn = 3")
    for command in (["sessions", "list"], ["audit", session], ["verify", session], ["usage"]):
        output = run_steno(*command)
        assert output.status == 0
        assert output.err.startswith(f"steno: {file}: max_turn: ")
        assert " max_turns?" in output.err.splitlines()[0]
    assert run_steno("explain", session).status == 0
    output = run_steno("-p", "list files", *OFFLINE)
    assert output.status == 0
    assert f"steno: {file}: max_turn: " in output.err


def test_a_slip_in_one_s_own_settings_is_an_error_everywhere(home: Path) -> None:
    file = write_settings(home, "max_turn = 3")
    output = run_steno("sessions", "list")
    assert output.status == 1
    assert output.err.startswith(f"steno: {file}: max_turn: ")


def test_sessions_are_listed_with_their_folders(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_steno("-p", "list files", *OFFLINE)
    (home / "work").mkdir()
    monkeypatch.chdir(home / "work")
    none = run_steno("sessions", "list", "--here")
    assert (none.status, none.out, none.err.count("\n")) == (0, "", 1)
    run_steno("-p", "list files", *OFFLINE)
    shown = run_steno("sessions", "list").out.splitlines()
    assert shown[0].endswith("folder")
    assert [line.split()[-1] for line in shown[1:]] == ["~/work", str(project)]
    (here,) = run_steno("sessions", "list", "--here", "--json").out.splitlines()
    assert json.loads(here)["folder"] == str(home / "work")


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_sessions_are_found_by_the_words_of_their_titles(tmp_path: Path, kind: str) -> None:
    address = f"{kind}:{tmp_path / 'store'}"
    made = MemoryStore()
    made.new(id="one", title="Mend the build")
    made.new(id="two", title="Build a boat")
    copy_to_store(made, address)
    found = run_steno("sessions", "search", "mend", "BUILD", "--store", address)
    assert [line.split()[:3] for line in found.out.splitlines()[1:]] == [["one", "-", "title"]]
    (line,) = run_steno("sessions", "search", "boat", "--json", "--store", address).out.splitlines()
    described = json.loads(line)
    del described["time"]
    assert described == {
        "session": "two",
        "number": None,
        "entry": None,
        "type": "title",
        "snippet": "Build a boat",
    }


def test_the_actor_is_shown_in_brackets() -> None:
    run_steno("-p", "list files", *OFFLINE)
    shown = run_steno("sessions", "show", "last").out
    assert "  [by " in shown


def test_an_unknown_decision_is_reported_with_the_recorded_ones() -> None:
    run_steno("-p", "list files", *OFFLINE)
    output = run_steno("audit", "last", "--decision", "aproved")
    assert output.status == 0
    assert "aproved" in output.err
    assert ", approved, executed," in output.err


def test_a_file_that_is_no_store_is_refused(project: Path) -> None:
    output = run_steno("sessions", "list", "--store", "sqlite:note.txt")
    assert (output.code, output.place) == ("not_a_store", "store")
    output = run_steno("-p", "list files", *OFFLINE, "--store", "sqlite:no/where.db")
    assert (output.status, output.code, output.place) == (1, "store_folder_missing", "store")
    assert f"{project}/no" in output.err
    assert not (project / "no").exists()


def test_an_existing_store_file_needs_no_suffix_or_kind(project: Path) -> None:
    open_store("sqlite:store").close()
    assert run_steno("sessions", "list", "--store", "store", "--json") == (0, "", "")
