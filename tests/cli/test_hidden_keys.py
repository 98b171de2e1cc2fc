"""The program keeps no keys in its own environment, and what needs them has them all the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from steno.messages.message import ToolResultMessage
from steno.providers import CATALOG
from steno.secret_names import is_secret_name
from steno.store import open_store
from tests.app.project_setup import make_project, write_settings
from tests.app.scripted_vendor import Call, run_vendor
from tests.cli.program import run_process
from tests.cli.reference_setup import write_servers
from tests.inputs.mcp.real_servers import own_spec

_WATCHER = """
import atexit, json, os, subprocess, sys
from pathlib import Path

def note():
    child = subprocess.run(["env", "-0"], capture_output=True, check=True).stdout.decode()
    Path(os.environ["NOTES"]).write_text(json.dumps([str(dict(os.environ)), child]))

if sys.orig_argv[1:3] == ["-m", "steno"]:
    atexit.register(note)
"""


class Notes(NamedTuple):
    """What a run of the program had in its environment when it ended."""

    own: str
    child: str
    """The environment of a program that was started without one of its own."""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, which is where we are, and a module that watches each run of the program."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(_WATCHER)
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("NOTES", str(tmp_path / "notes.json"))
    return make_project(tmp_path, monkeypatch)


def notes_of_run() -> Notes:
    return Notes(*json.loads(Path(os.environ["NOTES"]).read_text()))


@pytest.mark.parametrize("key", ["LAB_KEY", "LAB_LOGIN"])
def test_a_key_reaches_the_provider_and_the_user_s_shell_only(
    home: Path, tmp_path: Path, key: str
) -> None:
    """The second name does not look like that of a key; only the settings say that it is one."""
    tool = "mcp__own__environment"
    write_servers(tmp_path / "servers.json", own_spec())
    with run_vendor([Call(tool, {})], "Done.") as vendor:
        row = f'{vendor.settings}key_variables = ["{key}"]\nneeds_key = true\n'
        write_settings(home, f'model = "lab/tester"\n{row}')
        variables = {key: "hush-hush", "PGPASSWORD": "libpq", "http_proxy": "http://127.0.0.1:9"}
        options = ("--plain", "--allow", tool, "--mcp-config", tmp_path / "servers.json")
        typed = f'Ask the server.\n!echo "shell ${key}"\n'.encode()
        output = run_process("run", *options, data=typed, **variables)
    assert output.status == 0, output.err
    assert len(vendor.seen) == 2
    assert "shell hush-hush" in output.out
    with open_store() as store:
        [header] = store.headers()
        messages = store.open(header.id).messages()
    [result] = [message for message in messages if isinstance(message, ToolResultMessage)]
    assert "PATH" in result.text
    assert "hush-hush" not in result.text
    notes = notes_of_run()
    assert "hush-hush" not in notes.own + notes.child
    for kept in ("PGPASSWORD", "http_proxy"):  # libraries read these themselves
        assert kept in notes.own
        assert kept in notes.child


def test_commands_of_the_model_get_only_the_variables_that_the_settings_name(home: Path) -> None:
    command = 'echo "${LAB_TOKEN-none} ${OTHER_TOKEN-none}"'
    with run_vendor([Call("bash", {"command": command})], "Done.") as vendor:
        write_settings(home, f'model = "lab/tester"\nenv = ["LAB_TOKEN"]\n{vendor.settings}')
        arguments = ("run", "-p", "Go.", "--allow", "bash")
        output = run_process(*arguments, LAB_TOKEN="hush-hush", OTHER_TOKEN="other")
    assert output.status == 0, output.err
    assert vendor.seen[-1]["messages"][-1]["content"].startswith("hush-hush none\n")


def test_servers_get_the_variables_that_they_are_configured_with(tmp_path: Path) -> None:
    spec = own_spec()
    row = {"command": spec.command, "args": [*spec.args], "env": {"NAMED": "${LAB_TOKEN}"}}
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"own": row}}))
    command = ("mcp", "call", "own", "environment", "--mcp-config", file)
    output = run_process(*command, LAB_TOKEN="hush-hush", OTHER_TOKEN="other")
    variables = json.loads(output.out)
    assert variables["NAMED"] == "hush-hush"
    assert not {"LAB_TOKEN", "OTHER_TOKEN"} & set(variables)
    assert "hush-hush" not in "".join(notes_of_run())


def test_doctor_and_models_find_the_keys(home: Path) -> None:
    with run_vendor() as vendor:
        row = f'{vendor.settings}key_variables = ["LAB_KEY"]\nneeds_key = true\n'
        write_settings(home, f'model = "lab/tester"\n{row}')
        models = run_process("models", "--provider", "lab", LAB_KEY="hush-hush")
        doctor = run_process("doctor", "--json", LAB_KEY="hush-hush")
    assert "lab/tester" in models.out
    checks = [json.loads(line) for line in doctor.out.splitlines()]
    states = {check["check"]: check["state"] for check in checks}
    assert states["model lab"] == states["model in use"] == "ok"
    assert "hush-hush" not in "".join(notes_of_run())


def test_every_key_variable_of_the_catalog_looks_like_a_secret() -> None:
    names = {name for vendor in CATALOG.values() for name in vendor.key_variables}
    assert names
    assert all(map(is_secret_name, names))


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is needed")
def test_keys_are_erased_from_the_initial_environment() -> None:
    program = """
import os
from steno.app.environment import hide_keys, user_environment
from steno.cli.process_hardening import erase_initial_variables

erase_initial_variables(hide_keys())
with open("/proc/self/environ", "rb") as file:
    initial = file.read()
own = user_environment()
print(b"hush" in initial, b"PLAIN=text" in initial, own["A_TOKEN"], own["Z_KEY"], os.getenv("PLAIN"))
"""
    variables = {"A_TOKEN": "hush-1", "PLAIN": "text", "Z_KEY": "hush-2"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "True", "hush-1", "hush-2", "text"]


def test_the_library_leaves_the_environment_alone() -> None:
    program = """
import os
from steno.app.environment import hide_variables, user_environment
from steno.cli.main import main

hide_variables(["A_TOKEN"])
try:
    main(["--version"])
except SystemExit:
    pass
print(os.environ["A_TOKEN"], user_environment()["A_TOKEN"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"A_TOKEN": "hush"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[-2:] == ["hush", "hush"]
