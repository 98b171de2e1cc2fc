"""Daily work of three projects: what runs without an approval while a sandbox is in force."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from steno import ToolCall
from steno.agent.permissions.rules import AutoRun, DecisionKind, Permissions
from steno.records.entry import Mode
from steno.tools import Workspace
from tests.tools.command_setup import bash_in_fake_sandbox

pytestmark = pytest.mark.requirement("P-32")

FILE = Path(__file__).parents[1] / "data" / "daily_commands.toml"
PROJECTS = tomllib.loads(FILE.read_text(encoding="utf-8"))
COMMANDS = [
    pytest.param(command, kind, id=f"{project}-{command}")
    for project, kinds in PROJECTS.items()
    for kind, commands in kinds.items()
    for command in commands
]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "src").mkdir()
    return Workspace(tmp_path)


def decided(
    workspace: Workspace,
    command: str,
    *,
    mode: Mode = Mode.ACT,
    auto_run: AutoRun = AutoRun.ROUTINE,
) -> DecisionKind:
    call = ToolCall.create("bash", {"command": command})
    tool = bash_in_fake_sandbox(workspace)
    return Permissions(auto_run=auto_run).decide(tool, call, mode=mode).kind


def test_there_are_twenty_commands_of_each_project_and_at_most_ten_ask() -> None:
    counts = {project: sum(map(len, kinds.values())) for project, kinds in PROJECTS.items()}
    assert counts == {"python": 20, "node": 20, "rust": 20}
    assert sum(len(kinds["ask"]) for kinds in PROJECTS.values()) <= 10


@pytest.mark.parametrize(("command", "kind"), COMMANDS)
def test_a_daily_command_asks_only_if_it_must(
    workspace: Workspace, command: str, kind: str
) -> None:
    expected = DecisionKind.ASK if kind == "ask" else DecisionKind.ALLOW
    assert decided(workspace, command) is expected


@pytest.mark.parametrize(("command", "kind"), COMMANDS)
def test_commands_that_only_read_run_in_plan_mode_too(
    workspace: Workspace, command: str, kind: str
) -> None:
    expected = DecisionKind.ALLOW if kind == "read" else DecisionKind.DENY
    assert decided(workspace, command, mode=Mode.PLAN) is expected


@pytest.mark.parametrize(("command", "kind"), COMMANDS)
def test_the_setting_limits_what_runs_without_an_approval(
    workspace: Workspace, command: str, kind: str
) -> None:
    expected = DecisionKind.ALLOW if kind == "read" else DecisionKind.ASK
    assert decided(workspace, command, auto_run=AutoRun.READ) is expected
    assert decided(workspace, command, auto_run=AutoRun.NONE) is DecisionKind.ASK


@pytest.mark.parametrize(
    ("rule", "line", "kind"),
    [
        ("read(private/**)", "grep -r x .", DecisionKind.ASK),
        ("read(private/**)", "git diff", DecisionKind.ASK),
        ("read(private/**)", "pytest -q", DecisionKind.ASK),
        ("read(private/**)", "cat src/a", DecisionKind.ALLOW),
        ("write(private/**)", "prettier --write private/a", DecisionKind.ASK),
        ("edit(private/**)", "echo x > private/a", DecisionKind.DENY),
        ("write(private/**)", "touch private/a", DecisionKind.DENY),
        ("write(private/**)", "touch src/a", DecisionKind.ALLOW),
        ("write(private/**)", "grep -r x .", DecisionKind.ALLOW),
        ("bash(rm *)", "pytest -q", DecisionKind.ALLOW),
    ],
)
def test_while_a_rule_denies_files_commands_that_may_use_them_ask(
    workspace: Workspace, rule: str, line: str, kind: DecisionKind
) -> None:
    call = ToolCall.create("bash", {"command": line})
    tool = bash_in_fake_sandbox(workspace)
    assert Permissions.of(deny=[rule]).decide(tool, call, mode=Mode.ACT).kind is kind
