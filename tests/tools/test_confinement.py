"""A confined command cannot leave its scope: attacks on paths, sockets, terminals and the kernel."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import replace

from steno.tools.shell.sandbox import (
    LandlockSandbox,
    NetworkAccess,
    Sandbox,
    SandboxScope,
)
from steno.tools.shell.supervisor import cgroup, command, namespaces, seccomp
from steno.tools.shell.supervisor.orders import LISTENER_PORT
from steno.tools.shell.supervisor.specification import SocketRule
from tests.tools.command_setup import (
    PATIENCE_S,
    SANDBOXES,
    owning_sandboxes,
    real_sandboxes,
    sandbox_id,
)
from tests.tools.confinement_setup import PYTHON, run_as_other_user, run_confined, start

pytestmark = pytest.mark.requirement("P-29")

proxy_sandboxes = pytest.mark.parametrize(
    "sandbox", [each for each in SANDBOXES if each.has_proxy], ids=sandbox_id
)


@pytest.fixture
def scope() -> Iterator[SandboxScope]:
    """A workspace with a repository, source code and a secret, which every user can reach."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        base = Path(name).resolve()
        base.chmod(0o755)
        work = base / "work"
        for folder in (".git/hooks", ".git/refs", "src", "secrets"):
            (work / folder).mkdir(parents=True)
        (work / ".git" / "config").write_text("CONFIG\n")
        (work / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (work / ".git" / "hooks" / "pre-commit").write_text("HOOK\n")
        (work / ".env").write_text("SECRET\n")
        (work / "secrets" / "key").write_text("SECRET\n")
        (base / "scratch").mkdir()
        yield SandboxScope(
            roots=(work,),
            protected=tuple(
                work / path
                for path in (".git/hooks", ".git/config", ".envrc", ".husky", "absent/.mcp.json")
            ),
            hidden=(work / ".env", work / "secrets"),
            scratch=base / "scratch",
        )


def files_of(folder: Path) -> dict[str, str]:
    """Return the files below a folder with their content, and its folders."""
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }


# -- protected and hidden paths ------------------------------------------------------------------

PLANTING = {
    "a new hook": "echo EVIL > .git/hooks/post-checkout",
    "a changed hook": "echo EVIL >> .git/hooks/pre-commit",
    "a truncated hook": ": > .git/hooks/pre-commit",
    "a removed hook": "rm -f .git/hooks/pre-commit",
    "a mode": "chmod 777 .git/hooks/pre-commit .git/config",
    "a time": "touch -d 2001-01-01 .git/hooks/pre-commit",
    "a setting": "git config core.fsmonitor 'echo EVIL'; git config core.hooksPath src",
    "an appended setting": "echo EVIL >> .git/config",
    "a replaced setting": "echo EVIL > new; mv -f new .git/config; cp -f new .git/config; rm -f new",
    "a moved repository": "mv .git other && mkdir .git && cp -r other/. .git && echo EVIL > .git/config; rm -rf other",
    "a moved folder of hooks": "mv .git/hooks old; mkdir .git/hooks; ln -s ../src .git/hooks; rm -rf old",
    "an exchanged repository": "mkdir twin && mv -T --exchange twin .git; rm -rf twin",
    "a hard link": "ln .git/config hard; ln .git/hooks/pre-commit hard2; rm -f hard hard2",
    "a symbolic link": "ln -s .git/hooks link; echo EVIL > link/new; rm -f link",
    "the way through /proc": "echo EVIL > /proc/self/cwd/.git/config; echo EVIL > /proc/$$/root$PWD/.git/config",
    "a new file": "echo EVIL > .envrc",
    "a new folder": "mkdir -p .husky/_ && echo EVIL > .husky/_/h",
    "an exchanged folder": "rmdir .husky .envrc; mv src .husky; mv .envrc x",
    "a removed repository": "rm -rf .git/hooks .git/config",
    "a mount": "umount .git/hooks; mount --bind src .git/hooks; mount -o remount,rw .git/hooks",
}


@owning_sandboxes
@pytest.mark.parametrize("command", PLANTING.values(), ids=PLANTING.keys())
def test_protected_paths_are_not_changed_and_nothing_is_left_behind(
    scope: SandboxScope, sandbox: Sandbox, command: str
) -> None:
    before = files_of(scope.roots[0])
    run_confined(sandbox, scope, f"exec 2>/dev/null; {command}")
    assert files_of(scope.roots[0]) == before


@owning_sandboxes
def test_a_user_without_privileges_has_the_same_protection(
    scope: SandboxScope, sandbox: Sandbox
) -> None:
    before = files_of(scope.roots[0])
    commands = "; ".join(f"({command}) 2>/dev/null" for command in PLANTING.values())
    text = run_as_other_user(sandbox, scope, f"{commands}; cat .env secrets/key; id -u; echo end")
    assert files_of(scope.roots[0]) == before
    assert "SECRET" not in text
    assert "end" in text


@owning_sandboxes
def test_work_beside_protected_paths_is_possible(scope: SandboxScope, sandbox: Sandbox) -> None:
    work = scope.roots[0]
    command = (
        "set -e; echo x > .git/index; mv .git/index .git/refs/moved; mkdir -p absent/deep; "
        "mv src source; echo y > .gitignore; cat .git/config .git/hooks/pre-commit"
    )
    ended = run_confined(sandbox, scope, command)
    assert (ended.exit.exit_code, ended.text) == (0, "CONFIG\nHOOK\n")
    assert (work / ".git" / "refs" / "moved").read_text() == "x\n"
    assert (work / "source").is_dir()
    assert not (work / ".envrc").exists()


@owning_sandboxes
@pytest.mark.parametrize(
    "command",
    [
        "cat .env",
        "cat < .env",
        "cp .env copy && cat copy; rm -f copy",
        "ln .env hard && cat hard; rm -f hard",
        "mv .env other && cat other",
        "cat secrets/key; cat secrets/*",
        "mv secrets s && cat s/key",
        "cat /proc/self/cwd/.env /proc/self/root$PWD/.env",
        "cat /proc/$PPID/root$PWD/.env /proc/$PPID/cwd/.env",
        "umount .env secrets; cat .env secrets/key",
        "tar c . | cat",
        "grep -r SECRET .",
    ],
)
def test_hidden_paths_inside_the_workspace_are_not_read(
    scope: SandboxScope, sandbox: Sandbox, command: str
) -> None:
    before = files_of(scope.roots[0])
    assert "SECRET" not in run_confined(sandbox, scope, command).text
    assert files_of(scope.roots[0]) == before


@owning_sandboxes
def test_nothing_outside_changes_its_mode_or_owner(scope: SandboxScope, sandbox: Sandbox) -> None:
    file = scope.scratch.parent / "outside"
    file.write_text("")
    file.chmod(0o600)
    before = file.stat()
    run_confined(
        sandbox,
        scope,
        f"chmod 777 {file}; chown 1:1 {file}; touch {file}; setfattr -n user.x {file}",
    )
    assert file.stat() == before


@real_sandboxes
def test_a_read_only_workspace_is_not_written(scope: SandboxScope, sandbox: Sandbox) -> None:
    before = files_of(scope.roots[0])
    command = "echo x > new; rm -rf src; echo x > .git/HEAD; cat .git/config; echo y > $TMPDIR/f"
    ended = run_confined(sandbox, replace(scope, is_read_only=True), command)
    assert "CONFIG" in ended.text
    assert files_of(scope.roots[0]) == before


@real_sandboxes
def test_temporary_folders_around_and_inside_a_read_only_workspace_are_not_written(
    scope: SandboxScope, sandbox: Sandbox
) -> None:
    work = scope.roots[0]
    before = files_of(work)
    limited = replace(scope, is_read_only=True, temporary=(work.parent, work / "src"))
    command = "echo x > new; echo x > src/new; rm .git/HEAD; echo y > ../new"
    run_confined(sandbox, limited, command)
    assert files_of(work) == before
    assert not (work.parent / "new").exists()


@owning_sandboxes
@pytest.mark.parametrize(
    ("approved", "command"),
    [
        (".git/config", "echo x > new && mv new .git/config && cat .git/config"),
        (".git/hooks", "echo x > .git/hooks/new && cat .git/hooks/new"),
        (".git/hooks/pre-commit", "echo x > .git/hooks/pre-commit && cat .git/hooks/pre-commit"),
        (".envrc", "echo x > .envrc && cat .envrc"),
        (".husky", "mkdir .husky && echo x > .husky/h && cat .husky/h"),
        ("../outside", "echo x > ../outside && cat ../outside"),
        ("../beside", "echo x > ../beside/new && cat ../beside/new"),
    ],
)
def test_an_approved_path_can_be_written(
    scope: SandboxScope, sandbox: Sandbox, approved: str, command: str
) -> None:
    base = scope.scratch.parent
    (base / "outside").write_text("")
    (base / "beside").mkdir()
    path = Path(os.path.realpath(scope.roots[0] / approved))
    command = f"{command}; echo EVIL > .git/hooks/other"
    ended = run_confined(sandbox, replace(scope, writable=(path,)), command)
    assert ended.text.splitlines()[0] == "x"
    if approved != ".git/hooks":
        assert not (scope.roots[0] / ".git" / "hooks" / "other").exists()


@real_sandboxes
@pytest.mark.parametrize("command", ["echo x > ../new", "true", "touch ../new", "rm -f ../new"])
def test_an_approved_missing_file_can_be_created_and_nothing_beside_it(
    scope: SandboxScope, sandbox: Sandbox, command: str
) -> None:
    base = scope.scratch.parent
    new = base / "new"
    missing = base / "absent" / "deep"
    command = f"{command}; echo EVIL > ../evil; mkdir ../evils; echo end"
    ended = run_confined(sandbox, replace(scope, writable=(new, missing)), command)
    assert ended.text.endswith("end\n")
    assert sorted({"scratch", "work", *(["new"] if new.exists() else [])}) == sorted(
        path.name for path in base.iterdir()
    )
    assert new.exists() == (command.startswith(("echo", "touch")))


@owning_sandboxes
def test_an_approved_file_in_a_missing_protected_folder_can_be_created(
    scope: SandboxScope, sandbox: Sandbox
) -> None:
    target = scope.roots[0] / ".husky" / "h"
    command = "mkdir -p .husky && echo x > .husky/h; echo EVIL > .envrc"
    run_confined(sandbox, replace(scope, writable=(target,)), command)
    assert target.read_text() == "x\n"
    assert not (scope.roots[0] / ".envrc").exists()


# -- placeholders --------------------------------------------------------------------------------


@owning_sandboxes
def test_a_placeholder_remains_while_any_command_uses_it(
    scope: SandboxScope, sandbox: Sandbox
) -> None:
    work = scope.roots[0]
    os.mkfifo(work / "go")

    async def main() -> str:
        ready = asyncio.Event()
        first = await start(
            sandbox,
            scope,
            "echo ready; read line < go; echo EVIL > .envrc; mkdir -p .husky/_",
            on_output=lambda data: ready.set(),
        )
        async with asyncio.timeout(PATIENCE_S):
            await ready.wait()
        second = await start(sandbox, scope, "true")
        assert (await second.wait(PATIENCE_S)).exit_code == 0
        assert (work / ".envrc").is_dir()
        await asyncio.to_thread((work / "go").write_text, "go\n")
        await first.wait(PATIENCE_S)
        return first.capture.take().decode()

    asyncio.run(main())
    assert not (work / ".envrc").exists()
    assert not (work / ".husky").exists()


@owning_sandboxes
def test_a_folder_of_the_user_is_never_removed(scope: SandboxScope, sandbox: Sandbox) -> None:
    """An empty folder that existed before, and one that the user fills while a command runs."""
    work = scope.roots[0]
    (work / ".husky").mkdir()

    async def main() -> None:
        ready = asyncio.Event()
        process = await start(
            sandbox, scope, "echo ready; sleep 1000", on_output=lambda data: ready.set()
        )
        async with asyncio.timeout(PATIENCE_S):
            await ready.wait()
        (work / ".envrc" / "mine").write_text("mine")
        process.stop()
        await process.wait()

    asyncio.run(main())
    assert (work / ".husky").is_dir()
    assert (work / ".envrc" / "mine").read_text() == "mine"


@owning_sandboxes
def test_the_next_command_removes_what_a_killed_supervisor_left(
    scope: SandboxScope, sandbox: Sandbox
) -> None:
    work = scope.roots[0]

    async def main() -> None:
        ready = asyncio.Event()
        process = await start(
            sandbox, scope, "echo ready; sleep 1000", on_output=lambda data: ready.set()
        )
        async with asyncio.timeout(PATIENCE_S):
            await ready.wait()
        process._child.kill()
        await process.wait()

    asyncio.run(main())
    assert (work / ".envrc").is_dir()
    run_confined(sandbox, scope, "true")
    assert not (work / ".envrc").exists()


@owning_sandboxes
def test_threads_do_not_count_as_processes(scope: SandboxScope, sandbox: Sandbox) -> None:
    program = (
        "import threading; stop = threading.Event(); threading.stack_size(65536); "
        "all = [threading.Thread(target=stop.wait) for _ in range(700)]; "
        "[each.start() for each in all]; stop.set(); print('started')"
    )
    text = run_as_other_user(sandbox, scope, f'{PYTHON} -c "{program}"')
    assert text.startswith("started\n")


# -- sockets and the network ---------------------------------------------------------------------

SOCKETS = """
import json, socket, sys
def attempt(use):
    try:
        use()
    except OSError as exc:
        return exc.errno
    return 0
result = {
    f"{family} {kind} {protocol}": attempt(lambda: socket.socket(family, kind, protocol))
    for family, kind, protocol in %s
}
result["pair"] = attempt(socket.socketpair)
def send():
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"EVIL", sys.argv[1])
result["send"] = attempt(send)
def connect(address):
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"EVIL", address)
result["path"] = attempt(lambda: connect(sys.argv[1]))
result["abstract"] = attempt(lambda: connect("\\0" + sys.argv[2]))
print(json.dumps(result))
"""
EXOTIC = [(17, 3, 0), (38, 5, 0), (40, 1, 0), (30, 1, 0), (29, 3, 1), (31, 3, 1), (15, 3, 2)]
COMMON = [(1, 1, 0), (2, 1, 0), (2, 2, 0), (2, 1, 262), (10, 1, 0), (10, 2, 0), (16, 3, 0)]


def test_a_namespace_that_cannot_be_used_is_not_entered(
    scope: SandboxScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AppArmor lets a program create a user namespace and then refuses to mount in it."""
    entered: list[int] = []

    def enter_and_fail() -> None:
        entered.append(os.getpid())
        raise PermissionError

    monkeypatch.setattr(namespaces, "enter_namespaces", enter_and_fail)
    options = command._hide_sockets([str(scope.roots[0] / ".env"), "/missing"])
    assert options == ["--ro-bind", "/dev/null", str(scope.roots[0] / ".env")]
    assert entered == []


@pytest.fixture
def services() -> Iterator[tuple[socket.socket, socket.socket, str, str]]:
    """Two services outside of the workspace: one at a path, one at an abstract address."""
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as name,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as at_path,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as abstract,
    ):
        Path(name).chmod(0o755)
        path, address = f"{name}/service", f"steno-{os.getpid()}-{os.urandom(4).hex()}"
        at_path.bind(path)
        Path(path).chmod(0o777)
        abstract.bind(f"\0{address}")
        at_path.settimeout(0)
        abstract.settimeout(0)
        yield at_path, abstract, path, address


@real_sandboxes
@pytest.mark.parametrize("network", list(NetworkAccess))
@pytest.mark.parametrize("is_other_user", [False, True])
def test_services_of_the_machine_are_out_of_reach(
    scope: SandboxScope,
    sandbox: Sandbox,
    services: tuple[socket.socket, socket.socket, str, str],
    network: NetworkAccess,
    is_other_user: bool,
) -> None:
    if is_other_user and network is NetworkAccess.PROXY:
        network = NetworkAccess.NONE  # its supervisor has no steno to send the listener to
    at_path, abstract, path, address = services
    program = SOCKETS % (EXOTIC + COMMON)
    (scope.roots[0] / "attack.py").write_text(program)
    scope = replace(scope, network=network)
    command = f"{PYTHON} attack.py {path} {address}"
    text = (
        run_as_other_user(sandbox, scope, command)
        if is_other_user
        else run_confined(sandbox, scope, command).text
    )
    result = json.loads(next((line for line in text.splitlines() if line.startswith("{")), text))
    for service in (at_path, abstract):
        with pytest.raises(BlockingIOError):
            service.recv(10)
    assert result.pop("pair") == 0
    for name in ("send", "path", "abstract"):
        assert result.pop(name) != 0
    assert all(result[f"{family} {kind} {number}"] for family, kind, number in EXOTIC)
    if isinstance(sandbox, LandlockSandbox) and network is not NetworkAccess.ALL:
        assert all(result.values())
    else:
        assert result["2 1 0"] == 0


@real_sandboxes
def test_datagrams_do_not_leave_the_sandbox(scope: SandboxScope, sandbox: Sandbox) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(0)
        port = server.getsockname()[1]
        run_confined(sandbox, scope, f"echo EVIL > /dev/udp/127.0.0.1/{port}")
        with pytest.raises(BlockingIOError):
            server.recv(10)


@proxy_sandboxes
def test_steno_receives_a_socket_that_listens_inside_the_sandbox(
    scope: SandboxScope, sandbox: Sandbox
) -> None:
    async def main() -> str:
        listeners: asyncio.Queue[socket.socket] = asyncio.Queue()
        process = await start(
            sandbox,
            replace(scope, network=NetworkAccess.PROXY),
            f"exec 3<>/dev/tcp/127.0.0.1/{LISTENER_PORT}; echo question >&3; cat <&3",
            on_listener=listeners.put_nowait,
        )
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(PATIENCE_S):
            with await listeners.get() as listener:
                connection, _ = await loop.sock_accept(listener)
                with connection:
                    question = await loop.sock_recv(connection, 100)
                    await loop.sock_sendall(connection, b"answer to " + question)
        await process.wait(PATIENCE_S)
        return process.capture.take().decode()

    assert asyncio.run(main()) == "answer to question\n"


@proxy_sandboxes
def test_a_command_inherits_no_file_of_the_sandbox(scope: SandboxScope, sandbox: Sandbox) -> None:
    for network in NetworkAccess:
        ended = run_confined(sandbox, replace(scope, network=network), "ls /proc/self/fd")
        assert ended.text.split() == ["0", "1", "2", "3"]  # 3 is the folder itself


@proxy_sandboxes
def test_programs_of_the_sandbox_reach_each_other_on_loopback(
    scope: SandboxScope, sandbox: Sandbox
) -> None:
    program = (
        "import socket as s; a = s.create_server(('127.0.0.1', 0)); "
        "b = s.create_connection(a.getsockname()); print('connected')"
    )
    assert run_confined(sandbox, scope, f'{PYTHON} -c "{program}"').text == "connected\n"


# -- the kernel and terminals --------------------------------------------------------------------

CALLS = """
import ctypes, fcntl, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
result = {}
for name, number, first in json.loads(sys.argv[1]):
    done = libc.syscall(ctypes.c_long(number), ctypes.c_long(first), 0, 0, 0, 0)
    result[name] = ctypes.get_errno() if done < 0 else 0
for name, request in (("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C)):
    try:
        fcntl.ioctl(0, request, b"x")
    except OSError as exc:
        result[name] = exc.errno
print(json.dumps(result))
"""


@real_sandboxes
def test_the_kernel_refuses_calls_that_lead_out_of_the_sandbox(
    scope: SandboxScope, sandbox: Sandbox
) -> None:
    machine = os.uname().machine
    column = 0 if machine == "x86_64" else 1
    refused = seccomp._REFUSED | (
        seccomp._REFUSED_OUTSIDE if isinstance(sandbox, LandlockSandbox) else {}
    )
    new_user = 0x10000000
    calls = [(name, numbers[column], 0) for name, numbers in refused.items()]
    calls += [("unshare", seccomp._UNSHARE[column], new_user)]
    calls += [("clone", seccomp._CLONE[column], new_user | 17)]
    (scope.roots[0] / "attack.py").write_text(CALLS)
    command = f"{PYTHON} attack.py '{json.dumps(calls)}'"
    result = json.loads(run_confined(sandbox, scope, command).text)
    assert result == dict.fromkeys(result, 1)
    calls = [("clone3", seccomp._CLONE3[column], 0)]
    if machine == "x86_64":
        calls.append(("x32", 0x40000000 + 39, 0))
    result = json.loads(
        run_confined(sandbox, scope, f"{PYTHON} attack.py '{json.dumps(calls)}'").text
    )
    assert {result[name] for name, _, _ in calls} == {38}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64", "loongarch64"])
@pytest.mark.parametrize("sockets", get_args(SocketRule))
def test_every_jump_of_a_filter_ends_inside_it(machine: str, sockets: SocketRule) -> None:
    program = seccomp.build_filter(sockets, has_own_processes=False, machine=machine)
    instructions = [*struct.iter_unpack("=HBBI", program)]
    assert len(instructions) < 4096
    for place, (code, skip, otherwise, _) in enumerate(instructions):
        if code & 7 == 5:  # a jump
            assert place + 1 + max(skip, otherwise) < len(instructions)
    assert instructions[-1] == (6, 0, 0, 0x7FFF0000)


def test_an_unknown_machine_has_no_filter() -> None:
    assert seccomp.build_filter("none", has_own_processes=True, machine="s390x") == b""


@real_sandboxes
def test_terminals_of_the_user_are_out_of_reach(scope: SandboxScope, sandbox: Sandbox) -> None:
    leader, follower = os.openpty()
    try:
        os.write(leader, b"PASSWORD\n")
        path = os.ttyname(follower)
        command = f"timeout 5 head -c 8 {path}; echo EVIL > {path}; echo EVIL > /dev/tty"
        assert "PASSWORD" not in run_confined(sandbox, scope, command).text
        os.set_blocking(leader, False)
        seen = os.read(leader, 100)  # the echo of the terminal itself
        assert b"EVIL" not in seen
    finally:
        os.close(leader)
        os.close(follower)


@owning_sandboxes
def test_a_command_can_open_terminals_of_its_own(scope: SandboxScope, sandbox: Sandbox) -> None:
    program = "import os; a, b = os.openpty(); os.write(b, b'hi'); print(os.read(a, 2).decode())"
    assert run_confined(sandbox, scope, f'{PYTHON} -c "{program}"').text == "hi\n"


@real_sandboxes
def test_shared_memory_and_processes_of_python_work(scope: SandboxScope, sandbox: Sandbox) -> None:
    (scope.roots[0] / "pool.py").write_text(
        "import multiprocessing\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.Pool(2) as pool: print(pool.map(abs, [-1, -2]))\n"
    )
    assert run_confined(sandbox, scope, f"{PYTHON} pool.py").text == "[1, 2]\n"


# -- control groups ------------------------------------------------------------------------------


def test_a_control_group_is_removed_even_if_its_supervisor_was_killed(tmp_path: Path) -> None:
    """In a folder that stands for the group of this process; a real group needs a delegation."""
    with subprocess.Popen(["true"]) as ended:
        pass
    (tmp_path / f"steno-{ended.pid}").mkdir()
    (tmp_path / f"steno-{os.getppid()}").mkdir()
    (tmp_path / "other").mkdir()
    cgroup._remove_stale_groups(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {f"steno-{os.getppid()}", "other"}
