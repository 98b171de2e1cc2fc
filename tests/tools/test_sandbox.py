"""Every sandbox that works here keeps its promises and describes itself."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from steno import Outcome
from steno.errors import ToolFailed
from steno.tools.shell.confined_command import CommandAccess
from steno.tools.shell.sandbox import (
    HIDDEN_HOME_PATHS,
    BubblewrapSandbox,
    LandlockSandbox,
    NoSandbox,
    Sandbox,
    SandboxScope,
    SandboxSetting,
    find_hidden_paths,
    find_sandbox,
    sandbox_notice,
)
from steno.tools.workspace import Workspace
from tests.raised_errors import raises_code
from tests.tools.command_setup import SANDBOXES, call, make_bash, real_sandboxes, run, text_of
from tests.tools.fake_tool_context import FakeToolContext


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with a key, and a link to it."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("PRIVATE KEY")
    (home / ".netrc").write_text("PRIVATE KEY")
    (home / "harmless").write_text("harmless\n")
    (home / "link").symlink_to(home / ".ssh")
    return home


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        yield server


def test_some_sandbox_works_here() -> None:
    assert SANDBOXES


# -- files ---------------------------------------------------------------------------------------


@real_sandboxes
@pytest.mark.parametrize(
    "command",
    [
        "echo x > {outside}/new",
        "echo x >> {outside}/secret.txt",
        "rm -f {outside}/secret.txt",
        "mv {outside}/secret.txt here",
        "truncate -s 0 {outside}/secret.txt",
        "ln -s {outside} link; echo x > link/new",
        "ln {outside}/secret.txt hard; echo x > hard",
        "mkdir {outside}/folder",
        "cd /proc/self/root{outside} && echo x > new",
        "mkfifo {outside}/pipe",
        "cp {outside}/secret.txt {outside}/copy",
    ],
)
def test_nothing_outside_of_the_workspace_is_changed(
    workspace: Workspace, outside: Path, sandbox: Sandbox, command: str
) -> None:
    run(make_bash(workspace, sandbox), command.format(outside=outside))
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "SECRET\n"


@real_sandboxes
def test_the_workspace_can_be_changed_in_every_way(
    workspace: Workspace, folder: Path, sandbox: Sandbox
) -> None:
    command = (
        "mkdir -p a/b && echo x > a/b/f && ln -s f a/b/l && ln a/b/f a/h && mv a/b/f g && "
        "mkfifo p && rm -r a && chmod 700 g && cat g && ls"
    )
    assert text_of(run(make_bash(workspace, sandbox), command)) == "x\ng\np\n"
    assert sorted(path.name for path in folder.iterdir()) == ["g", "p"]


@real_sandboxes
def test_every_folder_of_the_workspace_can_be_written(
    folder: Path, outside: Path, sandbox: Sandbox
) -> None:
    output = run(make_bash(Workspace([folder, outside]), sandbox), f"echo new > {outside}/new")
    assert output.outcome is Outcome.OK
    assert (outside / "new").read_text() == "new\n"


@real_sandboxes
def test_secrets_in_the_home_folder_cannot_be_read_and_the_rest_can(
    workspace: Workspace, home: Path, sandbox: Sandbox, tmp_path: Path
) -> None:
    """In the sandbox with a private /tmp, the home folder is visible as part of a workspace."""
    both = Workspace([workspace.root, home]) if sandbox.has_own_files else workspace
    command = (
        "cat ~/.ssh/id ~/.netrc ~/link/id /proc/self/root$HOME/.ssh/id; "
        "cp -r ~/.ssh copy; cat copy/*; cat ~/harmless"
    )
    output = run(make_bash(both, sandbox, home=home), command)
    assert "PRIVATE" not in text_of(output)
    assert text_of(output).endswith("harmless\n")


@real_sandboxes
def test_a_home_folder_whose_name_is_not_utf8_is_protected(
    workspace: Workspace, home: Path, sandbox: Sandbox
) -> None:
    odd = home.rename(Path(os.fsdecode(os.fsencode(home) + b"\xff")))
    output = run(make_bash(workspace, sandbox, home=odd), "cat ~/.ssh/id; cat ~/harmless; echo end")
    assert "PRIVATE" not in text_of(output)
    assert text_of(output).endswith("end\n")
    if not sandbox.has_own_files:  # a private /tmp does not show this folder at all
        assert "harmless\n" in text_of(output)


@real_sandboxes
def test_a_long_command_may_be_in_any_script(workspace: Workspace, sandbox: Sandbox) -> None:
    output = run(make_bash(workspace, sandbox), f"printf %s {'あ' * 30_000} | wc -m")
    assert text_of(output).strip() == "30000"


@real_sandboxes
def test_more_can_be_hidden(
    workspace: Workspace, folder: Path, outside: Path, sandbox: Sandbox
) -> None:
    access = CommandAccess(hidden=(outside / "secret.txt", outside / "nothing"), temporary=())
    tool = make_bash(workspace, sandbox, access=access)
    assert "SECRET" not in text_of(run(tool, f"cat {outside}/secret.txt"))


@real_sandboxes
def test_a_workspace_inside_of_a_hidden_folder_can_be_used(home: Path, sandbox: Sandbox) -> None:
    inner = home / ".ssh" / "project"
    inner.mkdir()
    output = run(make_bash(Workspace([inner]), sandbox, home=home), "echo x > f; cat f; cat ../id")
    assert text_of(output).startswith("x\n")
    assert "PRIVATE" not in text_of(output)


@real_sandboxes
def test_temporary_files_last_from_one_command_to_the_next_and_no_longer(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    async def main() -> tuple[str, Path | None]:
        tool = make_bash(workspace, sandbox, access=CommandAccess())
        made = text_of(
            await tool.run(call("f=$(mktemp); echo kept > $f; echo $f"), FakeToolContext())
        )
        output = await tool.run(call(f"f={made.strip()}; cat $f; rm $f"), FakeToolContext())
        scratch = tool._runner._scratch
        await tool.aclose()
        return text_of(output), scratch

    said, scratch = asyncio.run(main())
    assert said == "kept\n"
    assert scratch is not None
    assert not scratch.exists()


@real_sandboxes
def test_devices_that_hold_nothing_can_be_used(workspace: Workspace, sandbox: Sandbox) -> None:
    command = "echo x > /dev/null; head -c 2 /dev/zero | wc -c; head -c 3 /dev/urandom | wc -c; echo z > /dev/stdout"
    assert text_of(run(make_bash(workspace, sandbox), command)).split() == ["2", "3", "z"]


@real_sandboxes
def test_settings_of_the_kernel_and_devices_cannot_be_changed(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    command = (
        "cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern && echo CHANGED; "
        "mknod disk b 8 0 && echo MADE; mount -o remount,rw / && echo MOUNTED; "
        "mkdir /sys/fs/cgroup/made && echo MADE && rmdir /sys/fs/cgroup/made"
    )
    said = text_of(run(make_bash(workspace, sandbox), command))
    assert not {"CHANGED", "MADE", "MOUNTED"} & {*said.split()}


# -- processes and the network -------------------------------------------------------------------


@real_sandboxes
def test_other_processes_cannot_be_read_or_signalled(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    """The variables of this process must not be readable through /proc."""
    command = f"cat /proc/{os.getpid()}/environ; kill -CONT {os.getpid()} && echo SENT"
    said = text_of(run(make_bash(workspace, sandbox), command))
    assert "PYTEST_CURRENT_TEST" not in said
    if not (isinstance(sandbox, LandlockSandbox) and sandbox.version < 6):
        assert "SENT" not in said


@real_sandboxes
def test_there_is_no_network(workspace: Workspace, sandbox: Sandbox, server: socket.socket) -> None:
    port = server.getsockname()[1]
    output = run(make_bash(workspace, sandbox), f"exec 3<>/dev/tcp/127.0.0.1/{port}")
    assert output.outcome is Outcome.ERROR
    with pytest.raises(BlockingIOError):
        server.accept()


@real_sandboxes
def test_the_network_can_be_allowed(
    workspace: Workspace, sandbox: Sandbox, server: socket.socket
) -> None:
    access = CommandAccess(network=True, temporary=())
    port = server.getsockname()[1]
    output = run(make_bash(workspace, sandbox, access=access), f"exec 3<>/dev/tcp/127.0.0.1/{port}")
    assert output.outcome is Outcome.OK
    server.accept()[0].close()


# -- which one -----------------------------------------------------------------------------------


def test_a_sandbox_that_is_required_and_not_there_refuses_every_command(
    workspace: Workspace, folder: Path
) -> None:
    tool = make_bash(workspace, NoSandbox("bwrap is not installed", is_refusal=True))
    with raises_code(ToolFailed, "sandbox_required", place="sandbox"):
        run(tool, "touch made")
    assert [*folder.iterdir()] == []


def test_a_sandbox_can_be_required_or_switched_off() -> None:
    assert find_sandbox(SandboxSetting.REQUIRE) == find_sandbox(SandboxSetting.AUTO) == SANDBOXES[0]
    assert find_sandbox(SandboxSetting.OFF).name == "none"


def test_a_sandbox_describes_itself_and_why_no_better_one_is_used() -> None:
    assert "no network" in BubblewrapSandbox("bwrap").describe()
    told = LandlockSandbox(3, why_not_better="bwrap is not installed").describe()
    assert "signals to other processes" in told
    assert "changing modes" in told
    assert told.endswith("(bwrap is not installed)")
    assert "changing modes" not in LandlockSandbox(7, has_namespaces=True).describe()
    assert NoSandbox("x").describe() == "none: commands have all rights of the user (x)"
    assert NoSandbox("x", is_refusal=True).describe() == "none: no command runs (x)"


def test_a_missing_sandbox_is_noticed_unless_it_was_chosen() -> None:
    notice = sandbox_notice(NoSandbox("bwrap is not installed"))
    assert notice is not None
    assert notice.code == "sandbox_missing"
    assert notice.text.endswith("(bwrap is not installed)")
    assert sandbox_notice(NoSandbox("x", is_refusal=True)) is not None
    assert sandbox_notice(find_sandbox(SandboxSetting.OFF)) is None
    assert sandbox_notice(SANDBOXES[0]) is None


def test_only_secrets_that_exist_are_hidden_and_links_are_followed(home: Path) -> None:
    target = home / "elsewhere"
    target.mkdir()
    (home / ".aws").symlink_to(target)
    found = find_hidden_paths({"HOME": str(home)}, (home / "nothing",))
    assert {*found} == {home / ".ssh", home / ".netrc", target}
    assert {".ssh", ".aws", ".config/steno"} <= {*HIDDEN_HOME_PATHS}


def test_outer_folders_are_mounted_before_inner_ones(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True)
    scope = SandboxScope(
        roots=(inner, tmp_path), hidden=(tmp_path / "a", tmp_path / "a" / "b"), scratch=tmp_path
    )
    confinement = BubblewrapSandbox("bwrap").confine(scope)
    assert confinement["mechanism"] == "bubblewrap"
    line = confinement["command"]
    places = [line.index(str(path)) for path in (tmp_path / "a", inner)]
    assert str(tmp_path / "a" / "b") not in line  # the outer folder hides it already
    assert line.index(str(tmp_path)) < places[0]
    assert places == sorted(places)
    assert line[-2:] == ["--chdir", str(inner)]
