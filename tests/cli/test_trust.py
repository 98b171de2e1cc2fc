"""`steno trust`: the review of a project, the question, the list and the revocation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steno.app.trust import TRUST_COMMAND, TrustFile
from tests.app.project_setup import OFFLINE, make_project
from tests.cli.program import on_terminal, run_steno

pytestmark = pytest.mark.requirement("S2-18", "P-35")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = make_project(tmp_path, monkeypatch)
    (folder / ".steno").mkdir()
    write_settings(folder, "network = true\nmax_turns = 3\n")
    write_server(folder, "mcp-server-time")
    return folder


def write_settings(project: Path, text: str) -> None:
    (project / ".steno" / "config.toml").write_text(text)


def write_server(project: Path, command: str) -> None:
    row = {"command": command, "args": ["--zone", "UTC"]}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"time": row}}))


def trusted(home: Path) -> list[str]:
    return list(TrustFile(home / ".config" / "steno" / "trust.toml").read())


def network() -> bool:
    settings = json.loads(run_steno("config", "show", "--json").out)
    value: bool = settings["network"]["value"]
    return value


def test_yes_trusts_the_project_and_shows_what_it_trusts(home: Path, project: Path) -> None:
    assert not network()
    output = run_steno("trust", "--yes")
    assert output.status == 0
    assert "network = true" in output.out
    assert 'command = "mcp-server-time"' in output.out
    assert '["--zone", "UTC"]' in output.out
    assert "max_turns" not in output.out  # harmless, so it applies without trust
    assert (trusted(home), network()) == ([str(project)], True)
    again = run_steno("trust")
    assert (again.status, again.out) == (0, "")


@pytest.mark.parametrize(("answer", "is_trusted"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_the_question_is_asked_on_a_terminal(
    home: Path, project: Path, answer: str, is_trusted: bool
) -> None:
    output = on_terminal("trust", answer=answer)
    assert output.status == (0 if is_trusted else 1)
    assert "network = true" in output.out
    assert bool(trusted(home)) is is_trusted


def test_without_a_terminal_nothing_is_trusted(home: Path, project: Path) -> None:
    output = run_steno("trust", data=b"y\n")
    assert (output.status, output.code, output.place) == (2, "confirmation_needed", "trust")
    assert "network = true" in output.out
    assert trusted(home) == []


def test_a_change_is_reported_at_the_start_and_reviewed_again(home: Path, project: Path) -> None:
    run_steno("trust", "--yes")
    write_settings(project, "network = true\nallow = ['bash']\n")
    write_server(project, "evil")
    output = run_steno("-p", "list files", *OFFLINE)
    assert output.status == 0
    notices = [line for line in output.err.splitlines() if TRUST_COMMAND in line]
    assert len(notices) == 2
    assert any("allow" in line for line in notices)
    assert any("time" in line for line in notices)
    assert not network()
    review = run_steno("trust", "--yes")
    assert "changed since you trusted it" in review.out
    assert 'allow = ["bash"]' in review.out
    assert network()


def test_trusted_projects_are_listed(home: Path, project: Path) -> None:
    assert run_steno("trust", "--list").out == ""
    run_steno("trust", "--yes")
    assert str(project) in run_steno("trust", "--list").out
    [line] = run_steno("trust", "--list", "--json").out.splitlines()
    listed = json.loads(line)
    assert (listed["project"], list(listed["servers"])) == (str(project), ["time"])
    assert len(listed["settings"]) == 64


def test_trust_is_revoked_also_for_a_folder_that_is_gone(
    home: Path, project: Path, tmp_path: Path
) -> None:
    run_steno("trust", "--yes")
    assert run_steno("trust", "--revoke").status == 0
    assert (trusted(home), network()) == ([], False)
    output = run_steno("trust", "--revoke")
    assert (output.status, output.code) == (1, "project_not_trusted")
    run_steno("trust", "--yes")
    project.rename(tmp_path / "moved")
    assert run_steno("trust", "--revoke", "--folder", project).status == 0
    assert trusted(home) == []


def test_a_folder_may_be_named(
    home: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_steno("trust", "--yes", "--folder", project).status == 0
    assert trusted(home) == [str(project)]
    output = run_steno("trust", "--yes", "--folder", "nowhere")
    assert (output.status, output.code, output.place) == (2, "folder_missing", "--folder")


@pytest.mark.parametrize(
    "options", [["--yes", "--list"], ["--list", "--revoke"], ["--json"], ["--yes", "--json"]]
)
def test_options_that_contradict_each_other_are_refused(project: Path, options: list[str]) -> None:
    assert run_steno("trust", *options).status == 2


def test_a_broken_project_does_not_stop_a_run_or_a_review(home: Path, project: Path) -> None:
    run_steno("trust", "--yes")
    (project / ".steno" / "config.toml").write_bytes(b"\xff")
    (project / ".mcp.json").write_text("{")
    output = run_steno("-p", "list files", *OFFLINE)
    assert output.status == 0
    for name in ("config.toml", ".mcp.json"):
        [notice] = [line for line in output.err.splitlines() if name in line]
        assert notice.endswith("the file is ignored")
    assert run_steno("sessions", "list").status == 0
    assert run_steno("mcp", "list").status == 0
    assert run_steno("trust", "--yes").status == 0
    assert not network()


def test_text_of_a_project_cannot_control_the_terminal(project: Path) -> None:
    write_settings(project, 'model = "a\\u001b[2J\\u202eb"\n')
    write_server(project, "x\x1b[2J\u202e")
    output = on_terminal("trust", "--yes", environment={"NO_COLOR": "1", "TERM": "dumb"})
    assert output.status == 0
    assert "\x1b[2J" not in output.out
    assert "\u202e" not in output.out
