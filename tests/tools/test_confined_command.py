"""A command in the sandbox, behind its proxy, and watched by the guard."""

from __future__ import annotations

import asyncio
import http.server
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from steno import Outcome, ToolCall
from steno.ports import AccessKind, Capability, SandboxAccess, Subject, ToolOutput
from steno.tools.bash import BashOutputTool, BashTool
from steno.tools.shell.confined_command import CommandAccess
from steno.tools.shell.environment import build_environment
from steno.tools.shell.process import CommandProcess
from steno.tools.shell.sandbox import Sandbox
from steno.tools.workspace import Workspace
from tests.tools.command_setup import (
    SANDBOXES,
    bounded,
    call,
    details_of,
    every_sandbox,
    make_bash,
    owning_sandboxes,
    real_sandboxes,
    sandbox_id,
    text_of,
    wait_until,
)
from tests.tools.fake_tool_context import FakeToolContext

pytestmark = pytest.mark.requirement("P-34")

PYTHON = Path(sys.executable).resolve()
"""Python outside of any virtual environment, which may be in a folder that sandboxes hide."""
EVERYTHING = SandboxAccess(AccessKind.EVERYTHING)
with_proxy = pytest.mark.parametrize(
    "sandbox", [each for each in SANDBOXES if each.has_proxy], ids=sandbox_id
)


def write_to(path: Path) -> SandboxAccess:
    return SandboxAccess(AccessKind.WRITE, str(path))


def tool_in(
    workspace: Workspace, sandbox: Sandbox, access: CommandAccess | None = None
) -> BashTool:
    home = workspace.root.parent / "home"
    home.mkdir(exist_ok=True)
    return make_bash(workspace, sandbox, home=home, access=access)


def run_in(
    workspace: Workspace,
    sandbox: Sandbox,
    command: str,
    *given: SandboxAccess,
    access: CommandAccess | None = None,
) -> ToolOutput:
    """Run a command whose subjects were approved, with more access if any is given."""

    async def main() -> ToolOutput:
        tool = tool_in(workspace, sandbox, access)
        context = FakeToolContext(subjects=tool.subjects(call(command)), access=given)
        try:
            return await tool.run(call(command), context)
        finally:
            await tool.aclose()

    return bounded(main())


# -- environment -----------------------------------------------------------------------------------


def test_no_variable_changes_how_a_shell_reads_the_command() -> None:
    names = ("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "CDPATH", "GLOBIGNORE", "POSIXLY_CORRECT")
    evaluated = dict.fromkeys((*names, "BASH_FUNC_git%%"), "x")
    passed = build_environment({**evaluated, "BASH_IT": "y"}, ["*", "BASH_ENV"])
    assert not evaluated.keys() & passed
    assert passed["BASH_IT"] == "y"


@real_sandboxes
def test_temporary_files_are_in_the_folder_of_the_session(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    """The workspace of this test is inside the folder that is for temporary files otherwise."""
    access = CommandAccess(temporary=(workspace.root.parent,))
    output = run_in(workspace, sandbox, "mktemp; ls -A $TMPDIR >&2; echo x > ../new", access=access)
    assert text_of(output).startswith("/tmp/")
    assert not (workspace.root.parent / "new").exists()


# -- protected paths -------------------------------------------------------------------------------


@every_sandbox
@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("mkdir -p a/b/.vscode && echo '{}' > a/b/.vscode/tasks.json", "a/b/.vscode"),
        ("git init --quiet nested", "nested/.git"),
        ("sh -c 'echo export X=1 > deep/.envrc'", "deep/.envrc"),
    ],
)
def test_what_a_command_creates_at_a_protected_place_is_moved_away(
    workspace: Workspace, sandbox: Sandbox, command: str, path: str
) -> None:
    (workspace.root / "deep").mkdir()
    output = run_in(workspace, sandbox, command)
    assert not (workspace.root / path).exists()
    assert output.outcome is Outcome.ERROR
    if sandbox.is_confining and not output.blocked:
        raise AssertionError("the user must be able to allow it")
    changes = details_of(output).get("protected_changes", [])
    assert all(change["is_restored"] for change in changes)


@every_sandbox
def test_changes_of_a_command_whose_start_is_cancelled_are_undone(
    workspace: Workspace, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start_and_be_cancelled(*_: object, **__: object) -> None:
        (workspace.root / "deep" / ".envrc").write_text("EVIL")
        raise asyncio.CancelledError

    (workspace.root / "deep").mkdir()
    monkeypatch.setattr(CommandProcess, "start", start_and_be_cancelled)
    with pytest.raises(asyncio.CancelledError):
        run_in(workspace, sandbox, "make all")
    assert not (workspace.root / "deep" / ".envrc").exists()


@every_sandbox
def test_an_approved_protected_path_can_be_changed(workspace: Workspace, sandbox: Sandbox) -> None:
    target = workspace.root / "nested" / ".git"
    output = run_in(workspace, sandbox, "git init --quiet nested", write_to(target))
    assert output.outcome is Outcome.OK
    assert (target / "HEAD").is_file()


@every_sandbox
def test_an_approved_redirection_to_a_protected_path_works(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    (workspace.root / ".vscode").mkdir()
    output = run_in(workspace, sandbox, "echo '{}' > .vscode/settings.json")
    assert output.outcome is Outcome.OK
    assert (workspace.root / ".vscode/settings.json").read_text() == "{}\n"


@every_sandbox
def test_existing_hooks_and_settings_of_git_cannot_be_changed(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    git = workspace.root / ".git"
    (git / "hooks").mkdir(parents=True)
    (git / "config").write_text("[core]\n")
    plant = "echo evil > .git/hooks/pre-commit; echo '[core] fsmonitor = evil' >> .git/config"
    run_in(workspace, sandbox, f'sh -c "{plant}"; true')
    assert list((git / "hooks").iterdir()) == []
    assert (git / "config").read_text() == "[core]\n"


@real_sandboxes
def test_everything_is_possible_without_the_sandbox(workspace: Workspace, sandbox: Sandbox) -> None:
    outside = workspace.root.parent / "outside"
    command = f"echo 1 > {outside}; git init --quiet nested"
    output = run_in(workspace, sandbox, command, EVERYTHING)
    assert output.outcome is Outcome.OK
    assert outside.is_file()
    assert (workspace.root / "nested/.git/HEAD").is_file()
    assert details_of(output)["access"] == [{"kind": "everything", "target": ""}]


@real_sandboxes
def test_the_changes_of_a_job_are_undone_when_it_ends(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    (workspace.root / "deep").mkdir()

    async def main() -> ToolOutput:
        tool = tool_in(workspace, sandbox)
        await tool.run(call("sh -c 'echo x > deep/.envrc'", background=True), FakeToolContext())
        output = BashOutputTool(tool.jobs)
        try:
            return await output.run(call_output("1"), FakeToolContext())
        finally:
            await tool.aclose()

    report = bounded(main())
    assert not (workspace.root / "deep/.envrc").exists()
    assert details_of(report)["protected_changes"][0]["kind"] == "created"


def call_output(job: str) -> Any:
    return ToolCall.create("bash_output", {"job": job, "wait_s": 60})


# -- commands that only read -----------------------------------------------------------------------


@real_sandboxes
def test_a_command_that_only_reads_gets_a_read_only_workspace(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    reading = Subject(text="ls", capability=Capability.READ, is_confined=True)

    async def main() -> ToolOutput:
        tool = tool_in(workspace, sandbox)
        try:
            return await tool.run(call("echo 1 > made"), FakeToolContext(subjects=(reading,)))
        finally:
            await tool.aclose()

    assert bounded(main()).outcome is Outcome.ERROR
    assert not (workspace.root / "made").exists()


@real_sandboxes
def test_git_status_works_in_a_read_only_workspace(workspace: Workspace, sandbox: Sandbox) -> None:
    run_git(workspace.root, "init", "--quiet")
    (workspace.root / "a.py").write_text("pass\n")
    output = run_in(workspace, sandbox, "git status --short")
    assert output.outcome is Outcome.OK
    assert text_of(output) == "?? a.py\n"


def run_git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


# -- secrets ---------------------------------------------------------------------------------------


@owning_sandboxes
@pytest.mark.parametrize("name", [".env", "deep/er/.env.local"])
def test_a_secret_in_the_workspace_is_hidden_until_reading_it_is_approved(
    workspace: Workspace, sandbox: Sandbox, name: str
) -> None:
    secret = workspace.root / name
    secret.parent.mkdir(parents=True, exist_ok=True)
    secret.write_text("KEY=hunter2\n")
    assert "hunter2" not in text_of(run_in(workspace, sandbox, f"sh -c 'cat {name}'"))
    # The subject of this command is the file itself, so approving the command reveals it.
    assert text_of(run_in(workspace, sandbox, f"cat {name}")) == "KEY=hunter2\n"
    reading = SandboxAccess(AccessKind.READ, str(secret))
    assert "hunter2" in text_of(run_in(workspace, sandbox, f"sh -c 'cat {name}'", reading))


@real_sandboxes
def test_only_the_approved_file_of_a_hidden_folder_is_revealed(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    folder = workspace.root.parent / "home" / ".ssh"
    folder.mkdir(parents=True)
    (folder / "config").write_text("Host a\n")
    (folder / "id_rsa").write_text("hunter2\n")
    reading = SandboxAccess(AccessKind.READ, str(folder / "config"))
    command = f"sh -c 'cat {folder}/config; cat {folder}/id_rsa'"
    text = text_of(run_in(workspace, sandbox, command, reading))
    assert "Host a" in text
    assert "hunter2" not in text


# -- network ---------------------------------------------------------------------------------------

_FETCH = """
import http.client, json, os, sys
from urllib.parse import urlsplit
proxy = urlsplit(os.environ["http_proxy"])
connection = http.client.HTTPConnection(proxy.hostname, proxy.port)
connection.request("GET", sys.argv[1])
response = connection.getresponse()
print(response.status, response.read().decode())
sys.exit(0 if response.status == 200 else 1)
"""


@contextmanager
def server() -> Generator[int]:
    """Serve HTTP on loopback; yield the port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        try:
            yield served.server_address[1]
        finally:
            served.shutdown()
            thread.join()


def fetch_command(workspace: Workspace, port: int) -> str:
    (workspace.root / "fetch.py").write_text(_FETCH)
    return f"{PYTHON} -I fetch.py http://127.0.0.1:{port}/"


@with_proxy
def test_a_command_reaches_an_approved_server_and_no_other(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    with server() as port:
        command = fetch_command(workspace, port)
        target = SandboxAccess(AccessKind.NETWORK, f"127.0.0.1:{port}")
        refused = run_in(workspace, sandbox, command)
        assert refused.outcome is Outcome.ERROR
        assert refused.blocked == (target,)
        allowed = run_in(workspace, sandbox, command, target)
    assert text_of(allowed) == "200 hello\n"
    (contacted,) = details_of(allowed)["contacted"]
    assert contacted["target"] == f"127.0.0.1:{port}"
    assert contacted["connections"] == 1


@with_proxy
def test_a_denied_domain_stays_denied(workspace: Workspace, sandbox: Sandbox) -> None:
    with server() as port:
        command = fetch_command(workspace, port)
        target = SandboxAccess(AccessKind.NETWORK, f"127.0.0.1:{port}")
        access = CommandAccess(denied_domains=("127.0.0.1",))
        output = run_in(workspace, sandbox, command, target, access=access)
    assert output.outcome is Outcome.ERROR
    assert output.blocked == ()


@with_proxy
def test_servers_of_a_command_work_on_loopback(workspace: Workspace, sandbox: Sandbox) -> None:
    script = """
import socket
served = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(served.getsockname())
print(served.accept()[1] == client.getsockname())
"""
    (workspace.root / "loop.py").write_text(script)
    assert text_of(run_in(workspace, sandbox, f"{PYTHON} -I loop.py")) == "True\n"


@real_sandboxes
def test_a_pattern_that_is_no_domain_allows_nothing(workspace: Workspace, sandbox: Sandbox) -> None:
    odd = SandboxAccess(AccessKind.NETWORK, "http://*/a b")
    assert run_in(workspace, sandbox, "echo ok", odd).outcome is Outcome.OK


# -- stopping --------------------------------------------------------------------------------------


@every_sandbox
def test_a_stopped_command_leaves_no_change_of_a_protected_path(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    (workspace.root / "deep").mkdir()

    async def main() -> ToolOutput:
        tool = tool_in(workspace, sandbox)
        task = asyncio.create_task(
            tool.run(
                call("sh -c 'echo x > deep/.envrc'; touch ready; sleep 600"), FakeToolContext()
            )
        )
        ready = workspace.root / "ready"
        await asyncio.to_thread(wait_until, ready.exists)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await tool.aclose()
        return ToolOutput.of("")

    bounded(main())
    assert not (workspace.root / "deep/.envrc").exists()
