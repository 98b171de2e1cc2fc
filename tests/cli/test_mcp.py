"""`steno mcp`, with real servers from npm and PyPI, and with such as do not start."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from steno.app.trust import TRUST_COMMAND
from steno.inputs.mcp.server_spec import McpServerSpec
from tests.app.config_files import trust_project
from tests.app.project_setup import make_project, write_settings
from tests.cli.program import COMMAND, ProgramOutput, on_terminal, run_steno
from tests.inputs.mcp.real_servers import everything_spec, git_spec, time_spec

FEATURES = "demo://resource/static/document/features.md"
BLOB = "demo://resource/dynamic/blob/1"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, which is where we are."""
    return make_project(tmp_path, monkeypatch)


def row_of(spec: McpServerSpec) -> dict[str, Any]:
    """Return a server as `.mcp.json` has it."""
    return {"command": spec.command, "args": list(spec.args), "env": dict(spec.env)}


def write(project: Path, **rows: Any) -> Path:
    """Let a project have these servers."""
    file = project / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": rows}))
    return file


def trust(home: Path, project: Path, text: str = "") -> None:
    """Let the user's settings be these, and trust the project as it is now."""
    write_settings(home, text)
    trust_project(project)


@pytest.fixture
def everything(home: Path, project: Path) -> None:
    """The server that has something of everything."""
    write(project, everything=row_of(everything_spec()))
    trust(home, project)


@pytest.fixture
def time(home: Path, project: Path) -> None:
    """A server that returns the time."""
    write(project, time=row_of(time_spec()))
    trust(home, project)


def lines(output: ProgramOutput) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.out.splitlines()]


# -- list ------------------------------------------------------------------------------------


def test_no_configured_server_is_reported() -> None:
    for command in (("list",), ("list", "--check"), ("tools",), ("resources",), ("prompts",)):
        output = run_steno("mcp", *command)
        assert (output.status, output.out) == (0, "")
        assert output.err.startswith("steno: ")
    assert run_steno("mcp", "list", "--json").out == ""


def test_list_reports_the_state_of_each_server_and_starts_none(home: Path, project: Path) -> None:
    marker = project / "started"
    row = {"command": "touch", "args": [str(marker)]}
    file = write(
        project, ready=row, off=row | {"disabled": True}, poor=row | {"env": {"A": "${B}"}}
    )
    trust(home, project, '[mcp_servers.web]\nurl = "https://ada:hush@x.example/mcp?key=hush"\n')
    output = run_steno("mcp", "list", "--json")
    own = str(home / ".config" / "steno" / "config.toml")
    states = {line["name"]: (line["kind"], line["state"], line["from"]) for line in lines(output)}
    assert output.status == 0
    assert "hush" not in output.out + output.err
    assert states == {
        "off": ("stdio", "disabled", str(file)),
        "poor": ("stdio", "needs the variable B: set it in the environment", str(file)),
        "ready": ("stdio", "configured", str(file)),
        "web": ("http", "configured", own),
    }
    assert run_steno("mcp", "list").out.splitlines()[1].split() == [
        "off",
        "stdio",
        "disabled",
        str(file),
    ]
    assert not marker.exists()


def test_a_missing_program_is_reported_without_starting_anything(home: Path, project: Path) -> None:
    (project / "serve").write_text("#!/bin/sh\n")
    (project / "serve").chmod(0o700)
    write(
        project,
        absent={"command": "no-such-program"},
        near={"command": "./serve", "cwd": str(project)},
        far={"command": "./serve", "cwd": str(home)},
        own={"command": "serve", "env": {"PATH": str(project)}},
    )
    trust(home, project)
    states = {line["name"]: line["state"] for line in lines(run_steno("mcp", "list", "--json"))}
    assert states == {
        "absent": "not found: no-such-program",
        "far": "not found: ./serve",
        "near": "configured",
        "own": "configured",
    }


def test_servers_of_an_untrusted_project_are_listed_and_never_started(
    project: Path,
) -> None:
    marker = project / "started"
    write(project, evil={"command": "touch", "args": [str(marker)]})
    output = run_steno("mcp", "list", "--check", "--json")
    assert [line["state"] for line in lines(output)] == ["not trusted"]
    [notice] = output.err.splitlines()
    assert "evil" in notice
    assert TRUST_COMMAND in notice
    for command in (["tools", "evil"], ["call", "evil", "x"], ["read", "evil", "x:y"]):
        output = run_steno("mcp", *command)
        assert (output.status, output.code) == (1, "server_misconfigured")
        assert output.place == "mcp evil"
    output = run_steno("mcp", "tools")
    assert output.status == 1
    assert "'steno mcp list'" in output.err.splitlines()[-1]
    assert not marker.exists()


def test_a_module_in_the_project_does_not_replace_a_server(home: Path, project: Path) -> None:
    """Python imports from its working directory, and others read settings and packages from there."""
    (project / "mcp_server_time.py").write_text("open('ran', 'w').close()")
    args = json.dumps(["-m", "mcp_server_time"])
    write_settings(home, f'[mcp_servers.time]\ncommand = "{sys.executable}"\nargs = {args}\n')
    output = run_steno("mcp", "tools", "time", "--json")
    assert [row["original_name"] for row in lines(output)] == ["convert_time", "get_current_time"]
    assert not (project / "ran").exists()


def test_check_starts_the_servers_and_reports_errors(home: Path, project: Path) -> None:
    quits = {"command": sys.executable, "args": ["-c", "import sys; sys.exit('no \\x1b[2Jmood')"]}
    write(
        project,
        time=row_of(time_spec()),
        everything=row_of(everything_spec()),
        absent={"command": str(project / "no-such-program")},
        quits=quits,
    )
    trust(home, project)
    output = run_steno("mcp", "list", "--check", "--json")
    by_name = {line["name"]: line for line in lines(output)}
    assert output.status == 1
    for line in by_name.values():
        assert {"state", "tools", "protocol", "error"} <= line.keys()
    assert (by_name["time"]["tools"], by_name["time"]["error"]) == (2, None)
    states = {name: line["state"] for name, line in by_name.items()}
    assert states == dict.fromkeys(("time", "everything"), "responds") | dict.fromkeys(
        ("absent", "quits"), "failed"
    )
    assert by_name["everything"]["tools"] > 5
    assert by_name["absent"]["error"].startswith("mcp absent: cannot be started: ")
    assert "no-such-program" in by_name["absent"]["error"]
    assert by_name["quits"]["tools"] is None
    assert "mood" in by_name["quits"]["error"]
    assert "\x1b" not in by_name["quits"]["error"]


def test_secrets_are_never_printed(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_TOKEN", "hush-hush-1")
    monkeypatch.setenv("OTHER_TOKEN", "hush-hush-2")
    talks = "import os, sys; sys.exit(str(dict(os.environ)))"
    write(
        project,
        lab={"command": sys.executable, "args": ["-c", talks], "env": {"API_KEY": "${LAB_TOKEN}"}},
        web={"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer ${LAB_TOKEN}"}},
        bare={"command": "x", "env": {"API_KEY": "hush-hush-3"}, "disabled": True},
    )
    trust(home, project)
    printed = ""
    for command in (
        ["mcp", "list"],
        ["mcp", "list", "--check"],
        ["mcp", "list", "--check", "--json"],
        ["mcp", "tools", "lab"],
        ["config", "show", "--json"],
        ["doctor", "--json", "--store", "memory:"],
    ):
        output = run_steno(*command)
        printed += output.out + output.err
    assert "env.API_KEY: use a variable" in printed
    assert "API_KEY': '***'" in printed
    assert "hush-hush" not in printed


# -- tools -----------------------------------------------------------------------------------


def test_tools_are_listed_by_the_names_that_rules_know(home: Path, project: Path) -> None:
    write(project, everything=row_of(everything_spec()))
    text = f'[mcp_servers.time]\ncommand = {json.dumps(time_spec().command)}\nreads = ["get_*"]\n'
    trust(home, project, f"{text}args = {json.dumps(time_spec().args)}\n")
    output = run_steno("mcp", "tools", "--json")
    by_name = {line["name"]: line for line in lines(output)}
    echo, time = by_name["mcp__everything__echo"], by_name["mcp__time__get_current_time"]
    assert output.status == 0
    assert (echo["server"], echo["original_name"]) == ("everything", "echo")
    assert (echo["capability"], time["capability"]) == ("execute", "read")
    rows = run_steno("mcp", "tools", "time").out.splitlines()
    assert len(rows) == 3
    assert rows[2].split()[:3] == ["mcp__time__get_current_time", "get_current_time", "read"]
    assert rows[2].endswith("  Get current time in a specific timezone")


def test_the_schema_of_a_tool_is_printed_by_either_name(time: None) -> None:
    output = run_steno("mcp", "tools", "time", "--schema", "convert_time")
    assert json.loads(output.out)["required"] == ["source_timezone", "time", "target_timezone"]
    assert run_steno("mcp", "tools", "--schema", "mcp__time__convert_time").out == output.out
    missing = run_steno("mcp", "tools", "time", "--schema", "convert_tmie")
    assert (missing.status, missing.code) == (1, "tool_unknown")
    assert missing.err.endswith(" convert_time?\n")


def test_one_server_that_fails_does_not_hide_the_tools_of_another(
    home: Path, project: Path
) -> None:
    write(project, time=row_of(time_spec()), absent={"command": str(project / "none")})
    trust(home, project)
    output = run_steno("mcp", "tools")
    assert output.status == 0
    assert "mcp__time__convert_time" in output.out
    assert output.named_place == "mcp absent"
    assert run_steno("mcp", "tools", "absent").status == 1


def test_an_unknown_server_is_reported_with_a_suggestion(time: None) -> None:
    output = run_steno("mcp", "tools", "tiem")
    assert (output.status, output.out) == (1, "")
    assert (output.code, output.place) == ("server_not_found", "mcp tiem")
    assert output.err.endswith(" time?\n")


# -- call ------------------------------------------------------------------------------------


def test_a_call_takes_pairs_or_json_and_either_name(time: None) -> None:
    pairs = ["source_timezone=UTC", "target_timezone=Asia/Tokyo", "time=12:00"]
    output = run_steno("mcp", "call", "time", "convert_time", *pairs)
    assert output.status == 0
    assert json.loads(output.out)["time_difference"] == "+9.0h"
    arguments = json.dumps(dict(pair.split("=") for pair in pairs))
    output = run_steno("mcp", "call", "time", "mcp__time__convert_time", arguments, "--json")
    [result] = lines(output)
    assert result.keys() == {"content", "structured", "is_error"}
    assert (output.status, result["is_error"]) == (0, False)
    assert json.loads(result["content"][0]["text"])["time_difference"] == "+9.0h"


def test_a_call_that_failed_in_the_server_has_another_status(time: None) -> None:
    output = run_steno("mcp", "call", "time", "get_current_time", "timezone=Nowhere/At-All")
    assert output.status == 1
    assert "Nowhere/At-All" in output.out
    assert output.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        ([], "invalid_arguments", "timezone"),
        (["timezone"], "argument_malformed", "key=value"),
        (["timezone=UTC", "timezone=UTC"], "argument_repeated", "timezone"),
        (["{"], "argument_malformed", "JSON"),
        (['{"timezone": 3}'], "invalid_arguments", "/timezone: "),
    ],
)
def test_invalid_arguments_are_reported_before_the_server_sees_them(
    time: None, arguments: list[str], code: str, named: str
) -> None:
    result = run_steno("mcp", "call", "time", "get_current_time", *arguments)
    assert (result.status, result.out) == (2, "")
    assert result.code == code
    assert named in result.err


def test_values_are_json_where_that_fits_and_else_text(everything: None) -> None:
    output = run_steno("mcp", "call", "everything", "get-sum", "a=2", "b=40")
    assert "42" in output.out
    output = run_steno("mcp", "call", "everything", "get-sum", "a=x", "b=1")
    assert (output.code, "/a: " in output.err) == ("invalid_arguments", True)
    assert run_steno("mcp", "call", "everything", "echo", "message=12").out == "Echo: 12\n"


def test_text_of_a_server_cannot_control_the_terminal(everything: None) -> None:
    evil = "\x1b[2J\u202egone\x07"
    output = on_terminal(
        *("mcp", "call", "everything", "echo", f"message={evil}"),
        environment={"NO_COLOR": "1", "TERM": "dumb"},
    )
    assert output.status == 0
    assert r"Echo: \x1b[2J\u202egone\x07" in output.out
    assert not [one for one in ("\x1b[2J", "\u202e", "\x07") if one in output.out]
    output = run_steno("mcp", "call", "everything", "echo", f"message={evil}", "--json")
    assert lines(output)[0]["content"][0]["text"] == f"Echo: {evil}"
    assert "\u202e" not in output.out


def test_content_that_is_not_text_is_named_and_complete_in_json(everything: None) -> None:
    output = run_steno("mcp", "call", "everything", "get-tiny-image")
    assert output.status == 0
    assert "image/png" in output.err
    assert "--json" in output.err
    output = run_steno("mcp", "call", "everything", "get-tiny-image", "--json")
    assert "image" in [block["type"] for block in lines(output)[0]["content"]]


def test_progress_is_printed_and_a_signal_cancels_the_call(everything: None) -> None:
    command = ["mcp", "call", "everything", "trigger-long-running-operation"]
    process = subprocess.Popen(
        [*COMMAND, *command, "duration=600", "steps=3000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # A shell starts its background jobs with SIGINT ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    try:
        assert select.select([process.stderr], [], [], 60)[0]
        assert b"/3000" in os.read(process.stderr.fileno(), 1_000)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        with process:
            process.kill()
    assert process.returncode == 130
    assert out == b""
    assert b"Traceback" not in err


def test_a_call_that_takes_too_long_is_given_up(everything: None) -> None:
    command = ["mcp", "call", "everything", "trigger-long-running-operation"]
    output = run_steno(*command, "duration=600", "--timeout", "0.5")
    assert output.status == 1
    assert (output.code, output.place) == ("server_timeout", "mcp everything")
    assert run_steno(*command, "--timeout", "0").status == 2


def test_a_git_server_reads_a_repository(home: Path, project: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(project)], check=True, timeout=60)
    write(project, git=row_of(git_spec(project)))
    trust(home, project)
    output = run_steno("mcp", "call", "git", "git_status", f"repo_path={project}")
    assert output.status == 0
    assert "note.txt" in output.out


# -- resources and prompts -------------------------------------------------------------------


def test_resources_are_listed_with_templates(everything: None) -> None:
    output = run_steno("mcp", "resources")
    assert output.status == 0
    assert FEATURES in output.out
    [template] = [line for line in output.out.splitlines() if "dynamic/text" in line]
    assert template.endswith("(template: fill in the braces)")
    listed = lines(run_steno("mcp", "resources", "everything", "--json"))
    for line in listed:
        names = {"server", "uri", "name", "description", "mime_type", "size", "is_template"}
        assert line.keys() == names
    assert ("everything", FEATURES) in [(line["server"], line["uri"]) for line in listed]


def test_a_resource_is_read_to_stdout_or_a_file(everything: None, project: Path) -> None:
    text = run_steno("mcp", "read", "everything", FEATURES)
    assert text.status == 0
    assert text.out.startswith("# ")
    file = project / "features.md"
    assert run_steno("mcp", "read", "everything", FEATURES, "-o", file) == (0, "", "")
    assert file.read_text(encoding="utf-8") == text.out
    again = run_steno("mcp", "read", "everything", FEATURES, "-o", file)
    assert again.status == 1
    assert again.code == "file_exists"
    before = file.stat().st_ino
    assert run_steno("mcp", "read", "everything", FEATURES, "-o", file, "--force").status == 0
    assert file.stat().st_ino != before  # replaced as a whole
    [part] = lines(run_steno("mcp", "read", "everything", FEATURES, "--json"))[0]["contents"]
    assert (part["uri"], part["mime_type"]) == (FEATURES, "text/markdown")
    assert part["text"] == text.out


def test_a_resource_is_appended_to_an_open_file(everything: None, project: Path) -> None:
    log = project / "log"
    log.write_text("precious\n")
    command = [*COMMAND, "mcp", "read", "everything", FEATURES, "-o", "/dev/stdout", "--force"]
    with log.open("ab") as out:
        subprocess.run(command, stdout=out, check=True, timeout=60)
    assert log.read_text(encoding="utf-8").startswith("precious\n# ")


def test_a_terminal_gets_one_line_break_after_a_resource(everything: None) -> None:
    text = run_steno("mcp", "read", "everything", FEATURES).out
    shown = on_terminal("mcp", "read", "everything", FEATURES, environment={"TERM": "dumb"}).out
    last = text.splitlines()[-1]
    assert shown.replace("\r\n", "\n").endswith(f"{last}\n")


def test_errors_are_printed_below_the_table_on_one_terminal(home: Path, project: Path) -> None:
    write(project, absent={"command": str(project / "none")})
    trust(home, project)
    run = subprocess.run(
        [*COMMAND, "mcp", "list", "--check"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        check=False,
    )
    shown = run.stdout.decode()
    assert (
        0 < shown.index("failed, see below") < shown.index("steno: mcp absent: cannot be started")
    )


def test_bytes_are_not_written_to_a_terminal(everything: None, project: Path) -> None:
    output = on_terminal("mcp", "read", "everything", BLOB)
    assert output.status == 1
    assert "write them to a file with -o FILE" in output.out
    file = project / "blob"
    assert run_steno("mcp", "read", "everything", BLOB, "-o", file).status == 0
    assert file.read_bytes().startswith(b"Resource 1")


def test_a_resource_that_there_is_not_is_an_error_of_its_server(everything: None) -> None:
    output = run_steno("mcp", "read", "everything", "demo://nothing")
    assert (output.status, output.out) == (1, "")
    assert (output.code, output.place) == ("server_refused", "mcp everything")


def test_a_template_has_to_be_filled_in_before_a_server_is_asked() -> None:
    output = run_steno("mcp", "read", "everything", "demo://resource/dynamic/text/{resourceId}")
    assert (output.status, output.out) == (2, "")
    assert (output.code, output.place) == ("uri_is_template", "resource")
    assert output.err.endswith(": resourceId\n")


def test_prompts_are_listed_as_they_are_called(everything: None) -> None:
    output = run_steno("mcp", "prompts")
    assert output.status == 0
    assert "/everything:args-prompt city=… [state=…]" in output.out
    by_name = {line["name"]: line for line in lines(run_steno("mcp", "prompts", "--json"))}
    arguments = by_name["args-prompt"]["arguments"]
    assert [one["name"] for one in arguments] == ["city", "state"]
    for argument in arguments:
        assert argument.keys() == {"name", "description", "is_required"}


# -- help and files --------------------------------------------------------------------------


def test_help_has_examples_for_every_command() -> None:
    assert "steno mcp call time" in run_steno("mcp", "--help").out
    for command in ("list", "tools", "resources", "prompts", "read", "call"):
        output = run_steno("mcp", command, "--help")
        assert output.status == 0
        assert f"example:\n  steno mcp {command} " in output.out


def test_a_file_that_is_named_brings_its_servers(tmp_path: Path) -> None:
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"named": {"command": "sh"}}}))
    output = run_steno("mcp", "list", "--json", "--mcp-config", file)
    assert [(line["name"], line["state"]) for line in lines(output)] == [("named", "configured")]
    output = run_steno("mcp", "list", "--mcp-config", tmp_path / "none.json")
    assert (output.status, output.out) == (1, "")
    assert output.code == "file_not_found"
