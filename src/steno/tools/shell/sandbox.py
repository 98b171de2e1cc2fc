"""Confine a command with the best sandbox that works on this machine.

    sandbox      rights of the command
    bubblewrap   writes only allowed paths; sees no secrets, no other processes and no network
    landlock     writes only allowed paths; reads no secrets and uses no TCP
    none         has all rights of the user

A sandbox adds a prefix to the command line. A probe finds out whether the sandbox works.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import tempfile
from collections.abc import Collection, Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import ClassVar, Final, Protocol, final

from msgspec import Struct

from steno.errors import ToolFailed
from steno.tools.programs import find_program, isolated_python_command
from steno.tools.protected_paths import HIDDEN_HOME_PATHS as HIDDEN_HOME_PATHS  # noqa: PLC0414 - re-exported
from steno.tools.protected_paths import find_hidden_paths as find_hidden_paths  # noqa: PLC0414 - re-exported
from steno.tools.shell import landlock
from steno.tools.shell.landlock import ROOT_CAPABILITIES
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


@final
class SandboxScope(RedactedRepr, frozen=True, kw_only=True):
    """The files and the network that a command may reach inside a sandbox."""

    roots: tuple[Path, ...]
    """Real paths of folders that the command may write to. It runs in the first folder."""
    hidden: tuple[Path, ...] = ()
    """Real paths of files and folders that the command may not read."""
    scratch: Path
    """A folder for temporary files of this session."""
    temporary: tuple[Path, ...] = ()
    """Further writable folders, used if the sandbox cannot mount `scratch` as /tmp."""
    network: bool = False


class Sandbox(Protocol):
    """A mechanism that confines commands."""

    name: ClassVar[str]
    is_wrapper: ClassVar[bool]
    """Whether the sandbox is a process around the command that runs until the command ends."""

    def wrap(self, argv: tuple[str, ...], scope: SandboxScope) -> tuple[str, ...]:
        """Return a command line that runs `argv` in the sandbox.

        Raises ToolFailed if a sandbox is required and none works.
        """
        ...

    def describe(self) -> str:
        """Describe what the sandbox prevents and allows, and why no better sandbox is used."""
        ...


@final
class BubblewrapSandbox(Struct, frozen=True):
    """A sandbox that uses `bwrap` for a separate view of files, processes and the network."""

    name: ClassVar[str] = "bubblewrap"
    is_wrapper: ClassVar[bool] = True

    bwrap: str
    user_options: tuple[str, ...] = BWRAP_USER_OPTIONS

    def wrap(self, argv: tuple[str, ...], scope: SandboxScope) -> tuple[str, ...]:
        """Return the command prefixed by `bwrap` and its options."""
        return (self.bwrap, *_BWRAP_OPTIONS, *self.user_options, *_bwrap_scope(scope), *argv)

    def describe(self) -> str:
        """Describe what bubblewrap prevents."""
        return (
            "bubblewrap: commands write only to the workspace and a private /tmp, see no other "
            "processes, and have no network unless it is allowed"
        )


@final
class LandlockSandbox(Struct, frozen=True):
    """A sandbox that uses the Linux security module Landlock to restrict a process."""

    name: ClassVar[str] = "landlock"
    is_wrapper: ClassVar[bool] = False

    version: int
    why_not_better: str = ""

    def wrap(self, argv: tuple[str, ...], scope: SandboxScope) -> tuple[str, ...]:
        """Return the command prefixed by the program `landlock`, which restricts itself first."""
        policy: landlock.LandlockPolicy = {
            "writable": [*map(str, (*scope.roots, scope.scratch, *scope.temporary))],
            "hidden": [*map(str, scope.hidden)],
            "network": scope.network,
        }
        encoded = json.dumps(policy, ensure_ascii=False)
        return (*isolated_python_command(landlock.__file__), encoded, *argv)

    def describe(self) -> str:
        """Describe what the Landlock version of this kernel prevents."""
        tcp = "have no TCP unless it is allowed" if self.version >= 4 else "can use the network"
        missing = [
            *(["truncating files elsewhere"] if self.version < 3 else []),
            *(["signals to other processes"] if self.version < 6 else []),
            "changing modes and owners, UDP and sockets of services",
        ]
        return (
            f"landlock {self.version}: commands write only to the workspace and the temporary "
            f"folders, cannot read known secrets, and {tcp}; not prevented: {', '.join(missing)}"
            f"{_reason_suffix(self.why_not_better)}"
        )


@final
class NoSandbox(Struct, frozen=True):
    """No sandbox: a command has all rights of the user."""

    name: ClassVar[str] = "none"
    is_wrapper: ClassVar[bool] = False

    why_not_better: str
    is_refusal: bool = False
    """Whether a sandbox is required, so that no command runs."""

    def wrap(self, argv: tuple[str, ...], scope: SandboxScope) -> tuple[str, ...]:
        """Return the command unchanged. Raises ToolFailed if a sandbox is required."""
        if self.is_refusal:
            why = _reason_suffix(self.why_not_better)
            message = f"a sandbox is required, but none works on this machine{why}"
            raise ToolFailed(message, recoverable=False, code="sandbox_required", place="sandbox")
        return argv

    def describe(self) -> str:
        """Describe the effect of the missing sandbox, and the reason why it is missing."""
        effect = "no command runs" if self.is_refusal else "commands have all rights of the user"
        return f"none: {effect}{_reason_suffix(self.why_not_better)}"


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
        return NoSandbox("the sandbox is switched off")
    sandboxes = find_working_sandboxes(outside=outside)
    if sandboxes:
        return sandboxes[0]
    bwrap = _find_bwrap(outside)
    reasons = f"{_probe_bubblewrap(bwrap)[1]}; {_probe_landlock(bwrap)[1]}"
    return NoSandbox(reasons, is_refusal=setting is SandboxSetting.REQUIRE)


def find_working_sandboxes(*, outside: Collection[Path] = ()) -> tuple[Sandbox, ...]:
    """Return every sandbox that works on this machine, the best first."""
    bwrap = _find_bwrap(outside)
    return tuple(
        found
        for found, _ in (_probe_bubblewrap(bwrap), _probe_landlock(bwrap))
        if found is not None
    )


# -- options of bwrap -----------------------------------------------------------------------------

_BWRAP_OPTIONS: Final = (
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--die-with-parent",
    "--new-session",
    # Root could use its capabilities to remount everything.
    *("--cap-drop", "ALL"),
)
_PROC_SETTINGS: Final = ("sys", "sysrq-trigger", "irq", "bus", "fs")
"""Files in /proc with which root could change the whole machine."""
_VISIBLE_IN_RUN: Final = (
    "/run/current-system",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager/resolv.conf",
)
"""Programs of NixOS and possible targets of /etc/resolv.conf; the rest of /run is hidden."""


def _bwrap_scope(scope: SandboxScope) -> tuple[str, ...]:
    """Return the options for a scope, up to the final `--`; `scratch` is mounted as /tmp."""
    mounts = [
        *[(Path(path), option) for path, option in _system_mounts(scope.scratch)],
        *[(path, _hide_options(path)) for path in scope.hidden if path not in scope.roots],
        *[(root, ("--bind", str(root), str(root))) for root in scope.roots],
    ]
    # A mount covers earlier mounts below it, so outer paths are mounted first.
    mounts.sort(key=lambda mount: len(mount[0].parts))
    return (
        *(() if scope.network else ("--unshare-net",)),
        *[argument for _, option in mounts for argument in option],
        *("--chdir", str(scope.roots[0]), "--"),
    )


def _system_mounts(scratch: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "/", ("--ro-bind", "/", "/")
    yield "/dev", ("--dev", "/dev")
    yield "/proc", ("--proc", "/proc")
    for name in _PROC_SETTINGS:
        yield f"/proc/{name}", ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")
    yield "/tmp", ("--bind", str(scratch), "/tmp")  # noqa: S108 - inside the sandbox
    if Path("/run").is_dir():
        yield "/run", ("--tmpfs", "/run")
        for path in _VISIBLE_IN_RUN:
            yield path, ("--ro-bind-try", path, path)


def _hide_options(path: Path) -> tuple[str, ...]:
    """Return the options that mount an empty file or folder over a path; empty if it is missing."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return ()
    is_folder = stat.S_ISDIR(mode)
    return ("--tmpfs", str(path)) if is_folder else ("--ro-bind", "/dev/null", str(path))


# -- probes ---------------------------------------------------------------------------------------

_PROBE_TIMEOUT_S: Final = 10.0


def _find_bwrap(outside: Collection[Path]) -> str | None:
    found = find_program("bwrap", outside=outside)
    return None if found is None else str(found)


@cache
def _probe_bubblewrap(bwrap: str | None) -> tuple[Sandbox | None, str]:
    """Return the sandbox if it works, or None and the reason for the failure."""
    if bwrap is None:
        return None, "bubblewrap: bwrap is not installed"
    why_not = ""
    root_options = (BWRAP_ROOT_OPTIONS,) if os.geteuid() == 0 else ()
    for user_options in (*root_options, BWRAP_USER_OPTIONS):
        sandbox = BubblewrapSandbox(bwrap, user_options)
        why_not = _probe_failure(sandbox)
        if not why_not:
            return sandbox, ""
    return None, why_not


@cache
def _probe_landlock(bwrap: str | None) -> tuple[Sandbox | None, str]:
    """Return the sandbox if it works, or None and the reason for the failure."""
    version = landlock.abi_version()
    if not version:
        return None, "landlock: the kernel does not support it, or it is disabled"
    sandbox = LandlockSandbox(version, why_not_better=_probe_bubblewrap(bwrap)[1])
    why_not = _probe_failure(sandbox)
    return (None, why_not) if why_not else (sandbox, "")


def _probe_failure(sandbox: Sandbox) -> str:
    """Run `true` in a sandbox; return the reason for a failure, or an empty string."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name).resolve()
        scope = SandboxScope(roots=(scratch,), scratch=scratch)
        try:
            done = subprocess.run(  # noqa: S603 - a command line of ours
                sandbox.wrap(("true",), scope),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=_PROBE_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            return f"{sandbox.name}: {type(exc).__name__}"
    reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return "" if done.returncode == 0 else f"{sandbox.name}: {' '.join(reason) or 'failed'}"
