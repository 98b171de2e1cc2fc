"""Confine a command with the best sandbox that works on this machine.

    sandbox      rights of the command
    bubblewrap   writes only allowed paths; sees no secrets, no other processes and no network
    landlock     the same, but sees other processes and creates no sockets at all
    none         has all rights of the user

A sandbox translates a scope into a confinement, which the supervisor of the command applies. A
probe runs a command to find out whether the sandbox works. ADR 40 explains the mechanisms.
"""

from __future__ import annotations

import os
import platform
import select
import stat
import sys
import tempfile
from collections.abc import Collection
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import ClassVar, Final, Protocol, final

from msgspec import Struct
from msgspec.structs import replace

from steno.errors import ToolFailed
from steno.ports import SetupNotice
from steno.tools.programs import find_program
from steno.tools.protected_paths import HIDDEN_HOME_PATHS as HIDDEN_HOME_PATHS  # noqa: PLC0414 - re-exported
from steno.tools.protected_paths import find_hidden_paths as find_hidden_paths  # noqa: PLC0414 - re-exported
from steno.tools.shell.launch import launch_supervisor, read_status
from steno.tools.shell.mount_plan import (
    MountPlan,
    find_new_files,
    find_reachable_sockets,
    plan_mounts,
)
from steno.tools.shell.supervisor import landlock, seccomp
from steno.tools.shell.supervisor.kernel import ROOT_CAPABILITIES
from steno.tools.shell.supervisor.specification import Confinement, Mount, SocketRule
from steno.values import RedactedRepr

BWRAP_USER_OPTIONS: Final = ("--unshare-user",)
BWRAP_ROOT_OPTIONS: Final = tuple(
    argument for name in ROOT_CAPABILITIES for argument in ("--cap-add", name)
)
"""Options with which root retains access to the files of other users.

They create no user namespace, because other users would not exist in a new one.
"""


class SandboxSetting(StrEnum):
    """Whether a sandbox is optional, required or off."""

    AUTO = "auto"
    """Use the best sandbox that works, or no sandbox if none works."""
    REQUIRE = "require"
    """Run no command without a sandbox."""
    OFF = "off"


class NetworkAccess(StrEnum):
    """The hosts that a command may reach."""

    NONE = "none"
    PROXY = "proxy"
    """Only the proxy of steno, on LISTENER_PORT of 127.0.0.1; NONE if the sandbox cannot do this."""
    ALL = "all"


@final
class SandboxScope(RedactedRepr, frozen=True, kw_only=True):
    """The files and the network that a command may reach inside a sandbox."""

    shown: ClassVar[frozenset[str]] = frozenset({"network"})

    roots: tuple[Path, ...]
    """Real paths of folders that the command may write to. It runs in the first folder."""
    is_read_only: bool = False
    """Whether the command may only read the roots."""
    protected: tuple[Path, ...] = ()
    """Paths that the command may not change, whether they exist or not.

    Landlock without namespaces cannot protect them.
    """
    hidden: tuple[Path, ...] = ()
    """Real paths of files and folders that the command may not read.

    Landlock without namespaces cannot hide paths inside of the roots.
    """
    revealed: tuple[Path, ...] = ()
    """Real paths that the user approved for reading, even if they are hidden."""
    writable: tuple[Path, ...] = ()
    """Further real paths that the user approved for writing, even if they are protected or hidden.

    In place of a missing file, an empty one is created, which goes if the command leaves it empty.
    """
    scratch: Path
    """A folder for temporary files of this session."""
    temporary: tuple[Path, ...] = ()
    """Further writable folders, used if the sandbox cannot mount `scratch` as /tmp."""
    network: NetworkAccess = NetworkAccess.NONE

    @property
    def usable_temporary(self) -> tuple[Path, ...]:
        """The real paths of the folders in `temporary` that do not reach into the roots.

        A writable folder would make the roots inside it writable, whatever else is decided.
        """
        real = dict.fromkeys(Path(os.path.realpath(path)) for path in self.temporary)
        return tuple(
            path
            for path in real
            if not any(
                root.is_relative_to(path) or (self.is_read_only and path.is_relative_to(root))
                for root in self.roots
            )
        )


class Sandbox(Protocol):
    """A mechanism that confines commands."""

    name: ClassVar[str]

    is_confining: ClassVar[bool]
    """Whether commands have fewer rights than the user."""

    @property
    def has_own_files(self) -> bool:
        """Whether protected and hidden paths are effective everywhere, and /tmp is private."""
        ...

    has_proxy: ClassVar[bool]
    """Whether the network can be limited to the proxy of steno."""

    def confine(self, scope: SandboxScope) -> Confinement | None:
        """Return the confinement of a command; None if it is not confined.

        May block for a moment. Raises ToolFailed if a sandbox is required and none works.
        """
        ...

    def describe(self) -> str:
        """Describe what the sandbox prevents and allows, and why no better sandbox is used."""
        ...


@final
class BubblewrapSandbox(Struct, frozen=True):
    """A sandbox that uses `bwrap` for a separate view of files, processes and the network."""

    name: ClassVar[str] = "bubblewrap"
    is_confining: ClassVar[bool] = True
    has_proxy: ClassVar[bool] = True

    bwrap: str
    user_options: tuple[str, ...] = BWRAP_USER_OPTIONS

    @property
    def has_own_files(self) -> bool:
        """Whether protected and hidden paths are effective everywhere, and /tmp is private."""
        return True

    def confine(self, scope: SandboxScope) -> Confinement:
        """Return the options of `bwrap` for a scope."""
        plan = _plan_mounts(scope)
        return {
            "mechanism": "bubblewrap",
            "command": [
                self.bwrap,
                *_BWRAP_OPTIONS,
                *self.user_options,
                *(() if scope.network is NetworkAccess.ALL else ("--unshare-net",)),
                *_bwrap_mounts(plan),
                *("--chdir", str(scope.roots[0])),
            ],
            "hidden_sockets": [
                mount["path"] for mount in plan.mounts if mount["kind"] == "hidden_socket"
            ],
            "placeholders": [*plan.placeholders],
            "new_files": [*plan.new_files],
            "sockets": "common",
            "scopes_sockets": scope.network is NetworkAccess.ALL and not _is_setuid(self.bwrap),
            "listens": scope.network is NetworkAccess.PROXY,
        }

    def describe(self) -> str:
        """Describe what bubblewrap prevents."""
        return (
            "bubblewrap: commands write only to the workspace and a private /tmp, see no other "
            "processes, and have no network unless it is allowed"
            f"{_filter_suffix()}"
        )


@final
class LandlockSandbox(Struct, frozen=True):
    """A sandbox that uses the Linux security module Landlock to restrict a process."""

    name: ClassVar[str] = "landlock"
    is_confining: ClassVar[bool] = True
    has_proxy: ClassVar[bool] = False

    version: int
    has_namespaces: bool = False
    """Whether the kernel also allows a view of the file system of the command's own."""
    why_not_better: str = ""

    @property
    def has_own_files(self) -> bool:
        """Whether protected and hidden paths are effective everywhere, and /tmp is private."""
        return self.has_namespaces

    def confine(self, scope: SandboxScope) -> Confinement:
        """Return the restrictions that the process of the command applies to itself."""
        allows_network = scope.network is NetworkAccess.ALL
        sockets: SocketRule = "none"
        if allows_network:
            # Without mounts, nothing else keeps a command from sockets such as that of a container
            # service.
            sockets = "common" if self.has_namespaces else "local"
        writable = [*(() if scope.is_read_only else scope.roots), *scope.writable]
        plan = _plan_mounts(scope, has_sockets=allows_network) if self.has_namespaces else None
        new_files: tuple[str, ...] = ()
        if plan is None:
            new_files = tuple(
                str(path)
                for path in find_new_files(scope.writable)
                if scope.is_read_only or not any(map(path.is_relative_to, scope.roots))
            )
            writable += [scope.scratch, *scope.usable_temporary]
        else:
            new_files = plan.new_files
            kinds = ("writable", "new_file")
            writable = [Path(mount["path"]) for mount in plan.mounts if mount["kind"] in kinds]
        return {
            "mechanism": "landlock",
            "mounts": None if plan is None else [*plan.mounts],
            "folder": str(scope.roots[0]),
            "placeholders": [] if plan is None else [*plan.placeholders],
            "new_files": [*new_files],
            "writable": [*map(str, writable)],
            "hidden": [*map(str, scope.hidden)] if plan is None else [],
            "revealed": [*map(str, scope.revealed)] if plan is None else [],
            "allows_network": allows_network,
            "sockets": sockets,
        }

    def describe(self) -> str:
        """Describe what the Landlock version of this kernel prevents."""
        files = (
            "write only to the workspace and a private /tmp"
            if self.has_namespaces
            else "write only to the workspace and the temporary folders, cannot read known secrets"
        )
        missing = [
            *(["truncating files elsewhere"] if self.version < 3 else []),
            *(["signals to other processes"] if self.version < 6 else []),
            *(
                ["changing modes and owners", "changes of protected paths in the workspace"]
                if not self.has_namespaces
                else []
            ),
            "listing other processes",
        ]
        return (
            f"landlock {self.version}: commands {files}, and have no network unless all of it is "
            f"allowed; not prevented: {', '.join(missing)}{_filter_suffix()}"
            f"{_reason_suffix(self.why_not_better)}"
        )


@final
class NoSandbox(Struct, frozen=True):
    """No sandbox: a command has all rights of the user."""

    name: ClassVar[str] = "none"
    is_confining: ClassVar[bool] = False
    has_proxy: ClassVar[bool] = False

    why_not_better: str
    is_refusal: bool = False
    """Whether a sandbox is required, so that no command runs."""
    is_chosen: bool = False
    """Whether the user switched the sandbox off."""

    @property
    def has_own_files(self) -> bool:
        """Whether protected and hidden paths are effective everywhere, and /tmp is private."""
        return False

    def confine(self, scope: SandboxScope) -> None:
        """Return None. Raises ToolFailed if a sandbox is required."""
        if self.is_refusal:
            why = _reason_suffix(self.why_not_better)
            message = f"a sandbox is required, but none works on this machine{why}"
            raise ToolFailed(message, recoverable=False, code="sandbox_required", place="sandbox")

    def describe(self) -> str:
        """Describe the effect of the missing sandbox, and the reason why it is missing."""
        effect = "no command runs" if self.is_refusal else "commands have all rights of the user"
        return f"none: {effect}{_reason_suffix(self.why_not_better)}"


def sandbox_notice(sandbox: Sandbox) -> SetupNotice | None:
    """Return the notice for the start of a session without a sandbox; None if there is one.

    There is no notice if the user switched the sandbox off.
    """
    if not isinstance(sandbox, NoSandbox) or sandbox.is_chosen:
        return None
    effect = (
        "no command runs" if sandbox.is_refusal else "a command can change everything that you can"
    )
    why = _reason_suffix(sandbox.why_not_better)
    return SetupNotice("sandbox_missing", f"no sandbox: {effect}{why}")


def _plan_mounts(scope: SandboxScope, *, has_sockets: bool = True) -> MountPlan:
    return plan_mounts(
        roots=scope.roots,
        is_read_only=scope.is_read_only,
        writable=scope.writable,
        protected=scope.protected,
        hidden=scope.hidden,
        revealed=scope.revealed,
        scratch=scope.scratch,
        sockets=find_reachable_sockets((*scope.roots, *scope.writable)) if has_sockets else (),
    )


def _is_setuid(program: str) -> bool:
    """Return whether a program runs with the rights of its owner."""
    return bool(Path(program).stat().st_mode & stat.S_ISUID)


def _filter_suffix() -> str:
    """Return a note if the numbers of the system calls of this machine are unknown."""
    if seccomp.build_filter("none", has_own_processes=True):
        return ""
    return f"; system calls are not filtered on {platform.machine()}"


def _reason_suffix(reason: str) -> str:
    return f" ({reason})" if reason else ""


def find_sandbox(
    setting: SandboxSetting = SandboxSetting.AUTO, *, outside: Collection[Path] = ()
) -> Sandbox:
    """Return the best sandbox that works on this machine.

    Returns `NoSandbox` if the setting is OFF or if no sandbox works. The first call tests the
    sandboxes and may block. Programs in the folders `outside`, such as a workspace, are skipped,
    since a test runs them.
    """
    if setting is SandboxSetting.OFF:
        return NoSandbox("the sandbox is switched off", is_chosen=True)
    is_refusal = setting is SandboxSetting.REQUIRE
    if sys.platform != "linux":
        return NoSandbox(f"steno has no sandbox for {platform.system()}", is_refusal=is_refusal)
    sandboxes = find_working_sandboxes(outside=outside)
    if sandboxes:
        return sandboxes[0]
    bwrap = _find_bwrap(outside)
    reasons = f"{_probe_bubblewrap(bwrap)[1]}; {_probe_landlock(bwrap)[1]}"
    return NoSandbox(reasons, is_refusal=is_refusal)


def find_working_sandboxes(*, outside: Collection[Path] = ()) -> tuple[Sandbox, ...]:
    """Return every sandbox that works on this machine, the best first."""
    bwrap = _find_bwrap(outside)
    found = [_probe_bubblewrap(bwrap)[0], _probe_landlock(bwrap)[0]]
    if isinstance(found[1], LandlockSandbox) and found[1].has_namespaces:
        found.append(replace(found[1], has_namespaces=False))
    return tuple(sandbox for sandbox in found if sandbox is not None)


# -- options of bwrap -----------------------------------------------------------------------------

_BWRAP_OPTIONS: Final = (
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--die-with-parent",
    "--new-session",
    # Root could use its capabilities to remount everything.
    *("--cap-drop", "ALL"),
)
_PROC_SETTINGS: Final = ("sys", "sysrq-trigger", "irq", "bus", "fs")
"""Files in /proc with which root could change the whole machine."""


def _bwrap_mounts(plan: MountPlan) -> tuple[str, ...]:
    """Return the options that mount a plan over a read-only view of the machine."""
    base = ["--ro-bind", "/", "/"]
    for mount in plan.mounts:
        if mount["path"] == "/":
            base += _bwrap_mount(mount)
    base += ["--dev", "/dev", "--proc", "/proc"]
    for name in _PROC_SETTINGS:
        base += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
    for mount in plan.mounts:
        if mount["path"] != "/":
            base += _bwrap_mount(mount)
    for mount in plan.mounts:
        if mount["kind"] == "hidden_folder":
            base += ["--remount-ro", mount["path"]]
    return tuple(base)


def _bwrap_mount(mount: Mount) -> list[str]:
    path, source = mount["path"], mount["source"]
    match mount["kind"]:
        case "writable":
            return ["--bind", source, path]
        case "read_only":
            return ["--ro-bind", source, path]
        case "placeholder":
            return ["--ro-bind-try", source, path]
        case "new_file":
            return ["--bind-try", source, path]
        case "hidden_file":
            # A device on such a mount cannot be opened, not even by root.
            return ["--ro-bind", "/dev/null", path]
        case "hidden_socket":
            return []  # the supervisor covers those that exist when the command starts
        case "hidden_folder" | "empty_folder":
            return ["--tmpfs", path]


# -- probes ---------------------------------------------------------------------------------------

_PROBE_TIMEOUT_S: Final = 10.0
_NAMESPACE_SETTINGS: Final = (
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor forbids user namespaces; add a profile that allows them for bwrap",
    ),
    ("kernel/unprivileged_userns_clone", "0", "only root may create user namespaces"),
    ("user/max_user_namespaces", "0", "no user namespaces are allowed"),
)
"""Settings of the kernel that forbid the namespaces of a sandbox, with the bad value."""


def _find_bwrap(outside: Collection[Path]) -> str | None:
    found = find_program("bwrap", outside=outside)
    return None if found is None else str(found)


@cache
def _probe_bubblewrap(bwrap: str | None) -> tuple[Sandbox | None, str]:
    """Return the sandbox if it works, or None and the reason for the failure."""
    if bwrap is None:
        return (
            None,
            "bubblewrap: bwrap is not installed; install it, as with apt install bubblewrap",
        )
    why_not = ""
    root_options = (BWRAP_ROOT_OPTIONS,) if os.geteuid() == 0 else ()
    for user_options in (*root_options, BWRAP_USER_OPTIONS):
        sandbox = BubblewrapSandbox(bwrap, user_options)
        why_not = _probe_failure(sandbox)
        if not why_not:
            return sandbox, ""
    return None, f"{why_not}{_namespace_advice()}"


@cache
def _probe_landlock(bwrap: str | None) -> tuple[Sandbox | None, str]:
    """Return the sandbox if it works, or None and the reason for the failure."""
    version = landlock.abi_version()
    if not version:
        return None, "landlock: the kernel does not support it, or it is disabled"
    why_not = ""
    for has_namespaces in (True, False):
        sandbox = LandlockSandbox(
            version, has_namespaces=has_namespaces, why_not_better=_probe_bubblewrap(bwrap)[1]
        )
        why_not = _probe_failure(sandbox)
        if not why_not:
            return sandbox, ""
    return None, why_not


def _namespace_advice() -> str:
    """Return advice if a setting of the kernel forbids user namespaces."""
    for name, bad, text in _NAMESPACE_SETTINGS:
        try:
            value = Path("/proc/sys", name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if value == bad and os.geteuid() != 0:
            return f"; {name.replace('/', '.')} = {bad}: {text}"
    return ""


def _probe_failure(sandbox: Sandbox) -> str:
    """Run `true` in a sandbox; return the reason for a failure, or an empty string."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name).resolve()
        scope = SandboxScope(roots=(scratch,), scratch=scratch)
        try:
            exit_code, output = _run_probe(sandbox.confine(scope), scratch)
        except (OSError, TimeoutError) as exc:
            return f"{sandbox.name}: {type(exc).__name__}"
        except ToolFailed as exc:
            return f"{sandbox.name}: {exc.message}"
    reason = output.decode(errors="replace").strip().splitlines()[-1:]
    return "" if exit_code == 0 else f"{sandbox.name}: {' '.join(reason) or 'failed'}"


def _run_probe(confinement: Confinement | None, folder: Path) -> tuple[int, bytes]:
    """Return the exit code and the output of `true` in a sandbox."""
    launched = launch_supervisor(
        {
            "argv": ["true"],
            "confinement": confinement,
            "grace_s": 0,
            "max_processes": 64,
            "max_file_bytes": 1 << 20,
            "max_memory_bytes": None,
        },
        folder,
        {"PATH": os.environ.get("PATH", os.defpath)},
    )
    with launched.supervisor as supervisor:
        try:
            status, output = (
                _read_all(file, _PROBE_TIMEOUT_S) for file in (launched.status, launched.output)
            )
        finally:
            supervisor.kill()
            os.close(launched.status)
            os.close(launched.output)
    found = read_status(status)
    return (1 if found is None else found["exit_code"]), output


def _read_all(file: int, timeout_s: float) -> bytes:
    """Return everything from a pipe. Raises TimeoutError if nothing arrives for too long."""
    parts: list[bytes] = []
    while True:
        if not select.select([file], [], [], timeout_s)[0]:
            raise TimeoutError
        part = os.read(file, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
