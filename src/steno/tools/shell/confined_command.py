"""Run a command line in the workspace: in a sandbox, behind a proxy, and watched by a guard.

    SandboxAccess… ─► SandboxScope ─► Confinement ─► CommandProcess
                      sandbox          supervisor     NetworkProxy, PathGuard ─► CommandReport

A command that only reads gets a read-only workspace and no network. Any other command may contact
approved domains if the sandbox has a proxy, and the guard undoes what it changed in protected paths.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, final

from steno.messages.outcome import Outcome
from steno.ports import AccessKind, SandboxAccess
from steno.tools.path_guard import GuardSnapshot, PathGuard, ProtectedChange
from steno.tools.programs import find_program
from steno.tools.protected_paths import find_hidden_paths
from steno.tools.shell.blocked_access import ALL_DOMAINS, find_blocked
from steno.tools.shell.domain_rules import DomainRules, is_domain_pattern
from steno.tools.shell.environment import build_environment
from steno.tools.shell.network_proxy import (
    ContactedServer,
    FindUpstream,
    NetworkProxy,
    proxy_environment,
)
from steno.tools.shell.process import CommandExit, CommandLimits, CommandProcess, OutputCapture
from steno.tools.shell.sandbox import (
    NetworkAccess,
    NoSandbox,
    Sandbox,
    SandboxScope,
    SandboxSetting,
    find_sandbox,
)
from steno.tools.shell.supervisor.orders import LISTENER_PORT
from steno.tools.workspace import Workspace, run_to_completion
from steno.values import RedactedRepr

_EVERYTHING: Final = SandboxAccess(AccessKind.EVERYTHING)
_BLOCKED_TEXTS: Final = {
    AccessKind.NETWORK: "network access to {target}",
    AccessKind.WRITE: "writing to {target}",
    AccessKind.READ: "reading {target}, which may contain secrets",
    AccessKind.EVERYTHING: "an action that no sandbox allows",
}


@final
class CommandAccess(RedactedRepr, frozen=True, kw_only=True):
    """The resources outside of the workspace that commands may use."""

    network: bool = False
    """Whether commands may use the network. Only a sandbox can block it."""
    denied_domains: tuple[str, ...] = ()
    """Domains that commands may not contact, whatever else allows them, such as `*.example.org`."""
    environment: tuple[str, ...] = ()
    """Names of further environment variables to inherit; `*` at the end matches any suffix."""
    hidden: tuple[Path, ...] = ()
    """Paths that commands may not read, in addition to the known locations of secrets."""
    temporary: tuple[Path, ...] = (Path("/tmp"),)  # noqa: S108 - where commands expect it
    """Further folders that commands may write to, if the sandbox cannot provide a private /tmp."""


class CommandRequest(NamedTuple):
    """A command line, and what it may do."""

    command: str
    is_read_only: bool = False
    """Whether the command gets a read-only workspace and no network."""
    access: tuple[SandboxAccess, ...] = ()
    """The access beyond that of other commands, from rules and approvals."""

    def targets(self, kind: AccessKind) -> tuple[str, ...]:
        """Return the targets of one kind of access."""
        return tuple([each.target for each in self.access if each.kind is kind])


@final
class CommandRunner:
    """Starts the commands of one workspace. Close it to remove the temporary folder."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        sandbox: Sandbox | SandboxSetting,
        access: CommandAccess,
        limits: CommandLimits,
        environ: Mapping[str, str],
        find_upstream: FindUpstream | None = None,
    ) -> None:
        self.access: Final = access
        self.limits: Final = limits
        self._workspace = workspace
        self._sandbox = sandbox
        self._environ = environ
        self._find_upstream = find_upstream
        self._scratch: Path | None = None
        self._guard = PathGuard(workspace.policy, _state_folder(environ))
        workspace.protected_write_listeners.append(self._guard.accept)

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox of commands; the first use tests what works and may block for a moment."""
        if isinstance(self._sandbox, SandboxSetting):
            self._sandbox = find_sandbox(self._sandbox, outside=self._workspace.roots)
        return self._sandbox

    async def start(
        self, request: CommandRequest, *, on_output: Callable[[bytes], None] | None = None
    ) -> ConfinedCommand:
        """Start a command. Raises ToolFailed if it cannot be started."""
        sandbox = await asyncio.to_thread(lambda: self.sandbox)
        if _EVERYTHING in request.access:
            sandbox = NoSandbox("approved for this command", is_chosen=True)
        approved: tuple[str | Path, ...] = request.targets(AccessKind.WRITE)
        if _EVERYTHING in request.access:
            approved = self._workspace.roots
        snapshot = await asyncio.to_thread(self._guard.begin, approved=approved)
        environ = build_environment(self._environ, self.access.environment)
        scope = self._build_scope(request, sandbox, environ)
        if sandbox.has_own_files:
            environ["TMPDIR"] = "/tmp"  # noqa: S108 - a private folder inside the sandbox
        elif sandbox.is_confining:
            environ["TMPDIR"] = str(scope.scratch)
        if scope.network is NetworkAccess.PROXY:
            environ |= proxy_environment(LISTENER_PORT)
        if request.is_read_only:
            environ["GIT_OPTIONAL_LOCKS"] = "0"  # git status would write its cache
        shell = find_program("bash", outside=self._workspace.roots, path=environ["PATH"])
        confinement = await asyncio.to_thread(sandbox.confine, scope)
        # A grant may contain a pattern that is no domain; it allows nothing.
        allowed = [text for text in self._allowed_domains(request) if is_domain_pattern(text)]
        rules = DomainRules.parse(allowed, self.access.denied_domains)
        command = ConfinedCommand(request, sandbox, scope, guard=self._guard, snapshot=snapshot)
        try:
            process = await CommandProcess.start(
                (str(shell or "/bin/sh"), "-c", request.command),
                folder=self._workspace.root,
                environ=environ,
                limits=self.limits,
                confinement=confinement,
                on_output=on_output,
                on_listener=lambda listener: command.serve_proxy(
                    listener, rules, self._find_upstream
                ),
            )
        except BaseException:  # the command may have run until the start was cancelled
            await command.abandon()
            raise
        command.process = process
        return command

    async def aclose(self) -> None:
        """Remove the temporary folder."""
        if self._scratch is not None:
            await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)
            self._scratch = None

    def _build_scope(
        self, request: CommandRequest, sandbox: Sandbox, environ: Mapping[str, str]
    ) -> SandboxScope:
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="steno-")).resolve()
            # For programs that end without closing the tool.
            weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        temporary = self.access.temporary
        if "TMPDIR" in environ:
            temporary = (*temporary, Path(environ["TMPDIR"]))
        policy = self._workspace.policy
        hidden = dict.fromkeys(
            [*policy.sandbox_hidden(), *find_hidden_paths(self._environ, self.access.hidden)]
        )
        return SandboxScope(
            roots=self._workspace.roots,
            is_read_only=request.is_read_only,
            protected=policy.sandbox_protected(),
            hidden=tuple(hidden),
            revealed=tuple(map(Path, request.targets(AccessKind.READ))),
            writable=tuple(map(Path, request.targets(AccessKind.WRITE))),
            scratch=self._scratch,
            temporary=temporary,
            network=self._find_network(request, sandbox),
        )

    def _find_network(self, request: CommandRequest, sandbox: Sandbox) -> NetworkAccess:
        if request.is_read_only:
            return NetworkAccess.NONE
        is_limited = bool(self.access.denied_domains)
        if ALL_DOMAINS in self._allowed_domains(request) and not is_limited:
            return NetworkAccess.ALL
        return NetworkAccess.PROXY if sandbox.has_proxy else NetworkAccess.NONE

    def _allowed_domains(self, request: CommandRequest) -> tuple[str, ...]:
        everything = (ALL_DOMAINS,) if self.access.network else ()
        return (*everything, *request.targets(AccessKind.NETWORK))


@final
class CommandReport(RedactedRepr, frozen=True, kw_only=True):
    """The exit of a command, what it was refused, and what was undone."""

    exit: CommandExit
    sandbox: Sandbox
    scope: SandboxScope
    refused: tuple[SandboxAccess, ...] = ()
    """The domains that the proxy refused."""
    changes: tuple[ProtectedChange, ...] = ()
    """The changes of protected paths, which were undone."""
    contacted: tuple[ContactedServer, ...] = ()
    is_guarded: bool = True
    """Whether the guard examined the whole workspace."""

    def find_blocked(self, output: bytes) -> tuple[SandboxAccess, ...]:
        """Return the accesses that were blocked, as far as the output and the records show."""
        found = dict.fromkeys(
            SandboxAccess(AccessKind.WRITE, str(change.path)) for change in self.changes
        )
        if self.exit.outcome is not Outcome.OK:
            named = find_blocked(output, self.exit.exit_code, self.scope, self.sandbox)
            if self.refused:  # the proxy knows the domains, the output may only guess them
                named = tuple([each for each in named if each.kind is not AccessKind.NETWORK])
            found |= dict.fromkeys((*self.refused, *named))
        return tuple(found)

    @property
    def outcome(self) -> Outcome:
        """The outcome for the tool result; a command whose changes were undone has failed."""
        outcome = self.exit.outcome
        return Outcome.ERROR if self.changes and outcome is Outcome.OK else outcome

    @property
    def notes(self) -> list[str]:
        """Notes for the model about the exit and about changes that were undone."""
        notes = self.exit.notes
        for change in self.changes:
            state = "undone" if change.is_restored else "not undone completely"
            kept = "" if change.quarantine is None else f"; the new version is {change.quarantine}"
            notes.append(f"protected path {change.kind}: {change.path}: {state}{kept}")
        if not self.is_guarded:
            notes.append("the workspace is too large to examine all of it for protected paths")
        return notes

    @property
    def details(self) -> dict[str, Any]:
        """The details of the tool result."""
        details: dict[str, Any] = {**self.exit.details, "sandbox": self.sandbox.name}
        if self.contacted:
            details["contacted"] = [
                {
                    "target": each.target,
                    "connections": each.connections,
                    "sent_bytes": each.sent_bytes,
                    "received_bytes": each.received_bytes,
                }
                for each in self.contacted
            ]
        if self.changes:
            details["protected_changes"] = [
                {
                    "path": str(change.path),
                    "kind": str(change.kind),
                    "is_restored": change.is_restored,
                    "quarantine": None if change.quarantine is None else str(change.quarantine),
                }
                for change in self.changes
            ]
        return details


def describe_blocked(blocked: Iterable[SandboxAccess]) -> list[str]:
    """Return a note for the model about each access that was blocked."""
    return [
        "the sandbox blocked "
        + _BLOCKED_TEXTS[each.kind].format(target=each.target).replace("to *", "of any kind")
        + "; only the user can allow it"
        for each in blocked
    ]


@final
class ConfinedCommand:
    """A running command with its proxy and its guard."""

    process: CommandProcess

    def __init__(
        self,
        request: CommandRequest,
        sandbox: Sandbox,
        scope: SandboxScope,
        *,
        guard: PathGuard,
        snapshot: GuardSnapshot,
    ) -> None:
        self.sandbox: Final = sandbox
        self._request = request
        self._scope = scope
        self._guard = guard
        self._snapshot = snapshot
        self._proxy: NetworkProxy | None = None

    @property
    def capture(self) -> OutputCapture:
        """The output of the command so far."""
        return self.process.capture

    def serve_proxy(
        self, listener: socket.socket, rules: DomainRules, find_upstream: FindUpstream | None
    ) -> None:
        """Serve the proxy of this command on a socket inside its network."""
        self._proxy = NetworkProxy(listener, rules, find_upstream=find_upstream)
        self._proxy.start()

    def stop(self) -> None:
        """Begin to end the command; `wait` returns when it has ended."""
        self.process.stop()

    async def abandon(self) -> None:
        """Close the proxy and undo changes, for a command whose start failed or was cancelled."""
        await self._finish()

    async def wait(self, timeout_s: float | None = None) -> CommandReport:
        """Wait until the command has ended and its changes of protected paths are undone.

        The command is ended after `timeout_s` seconds, or if the waiting task is cancelled. Raises
        ToolFailed if the command could not be started.
        """
        changes: tuple[ProtectedChange, ...] = ()
        try:
            command_exit = await self.process.wait(timeout_s)
        finally:
            changes = await self._finish()
        return CommandReport(
            exit=command_exit,
            sandbox=self.sandbox,
            scope=self._scope,
            refused=() if self._proxy is None else self._proxy.blocked,
            changes=changes,
            contacted=() if self._proxy is None else self._proxy.contacted,
            is_guarded=self._snapshot.is_complete,
        )

    async def _finish(self) -> tuple[ProtectedChange, ...]:
        try:
            if self._proxy is not None:
                await self._proxy.aclose()
        finally:
            changes = await run_to_completion(self._undo_changes)
        return changes

    def _undo_changes(self) -> tuple[ProtectedChange, ...]:
        """Undo the changes of protected paths that were not approved."""
        is_read_only = self._request.is_read_only and self.sandbox.has_own_files
        if is_read_only or _EVERYTHING in self._request.access:
            self._guard.end(self._snapshot)
            return ()
        return self._guard.finish(
            self._snapshot,
            allowed=self._request.targets(AccessKind.WRITE),
            enforced=self.sandbox.has_own_files,
        )


def _state_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for files that the guard moved out of the workspace."""
    state = environ.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        return Path(state, "steno")
    home = environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - Path.home() may raise
    return Path(home, ".local", "state", "steno")
