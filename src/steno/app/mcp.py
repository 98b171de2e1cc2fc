"""The MCP servers of a session: their configuration, status and start in the background.

Servers are configured in the settings, in `.mcp.json`, and in files that the user names. The
servers of a project that the user has not trusted, or that have changed since, are listed but not
started. In a project that is not trusted, the user's own servers are started in the home folder unless they have a `cwd`, because most programs load
settings, and some load code, from their working directory.

A separate task lists the tools of each server. In an interactive session, a slow server delays the
first prompt for a limited time and later prompts for at most a second; once it is ready, its tools
are available to the next prompt. A server that failed is not restarted here; its tools are listed
again if it connects later.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import msgspec
from msgspec.structs import replace

from steno.app.environment import user_environment
from steno.app.folders import home_folder, working_folder
from steno.app.settings import LoadedSettings, Settings, read_config_file
from steno.app.trust import (
    TRUST_CHANGED,
    TRUST_COMMAND,
    TrustState,
    server_digest,
    trust_advice,
)
from steno.errors import InvalidValue
from steno.inputs.mcp.connection import McpConnection, McpServers
from steno.inputs.mcp.prompts import McpPrompt
from steno.inputs.mcp.server_spec import McpServerSpec, read_server_specs
from steno.inputs.mcp.tools import (
    McpTools,
    drop_ambiguous_servers,
    list_mcp_tools,
    mcp_server_name,
    merge_mcp_tools,
)
from steno.lazy_task import start_task
from steno.messages.call import MCP_TOOL_PREFIX
from steno.ports import PrepareImage, SetupNotice, strip_url_secrets
from steno.render.quantities import format_count
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.suggest import suggest_name
from steno.tools import Workspace
from steno.values import replace_lone_surrogates

_logger: Final = logging.getLogger("steno.app")
_SILENT_WAIT_S: Final = 1.0
"""The time that a prompt waits for servers before the wait is reported."""
MAX_SERVER_WAIT_S: Final = 10.0
"""The maximum time that a prompt waits after the wait is reported; most servers need less."""
MCP_FILE_NAME: Final = ".mcp.json"
"""The file in a project that configures MCP servers; other programs read it too."""
_CONFIGURED: Final = "configured"
"""The state of a server that can be started; it is not known whether the server responds."""
_SERVERS_KEY: Final = "mcpServers"
_MAX_NAME_LENGTH: Final = 40
_MAX_LIST_LENGTH: Final = 400
_MAX_NOTICES: Final = 20
"""The maximum number of notices about one file, which may belong to an untrusted project."""


# -- finding servers --------------------------------------------------------------------------


class ConfiguredServers(NamedTuple):
    """All configured servers, and notices about their configuration."""

    specs: tuple[McpServerSpec, ...]
    """The servers, sorted by name; `problem` is set for each server that cannot be used."""
    notices: tuple[SetupNotice, ...]
    project_rows: Mapping[str, object] = {}
    """The valid servers of the project's `.mcp.json`, as in the file."""
    project_digests: Mapping[str, str] = {}
    """The digests of all servers of the project; those in its settings take precedence."""


def find_servers(
    loaded: LoadedSettings, environ: Mapping[str, str], *, files: Sequence[str | Path] = ()
) -> ConfiguredServers:
    """Return the MCP servers that are configured for the project of `loaded`.

    `files` have the format of `.mcp.json` and are trusted, because the user named them. They take
    precedence over the settings, and the settings over the project's file. Raises InvalidValue if
    one of `files` is invalid; invalid servers of the project are ignored with a notice.
    """
    fallback_cwd = None if loaded.trusts_project else home_folder(environ) or Path("/")
    collector = _ServerCollector(environ)
    for file in reversed(files):  # the last file takes precedence, as with all options
        is_inside = loaded.project in Path(os.path.realpath(file)).parents
        collector.add_named_file(Path(file), fallback_cwd=None if is_inside else fallback_cwd)
    collector.add(loaded.settings.mcp_servers, fallback_cwd=fallback_cwd)
    collector.add_project_file(loaded)
    specs = tuple([collector.specs[name] for name in sorted(collector.specs)])
    spec_notices = [
        SetupNotice("server_spec_doubtful", f"{spec.origin}: {spec.name}: {spec.notice}")
        for spec in specs
        if spec.notice
    ]
    notices = (*collector.notices, *_describe_untrusted(specs), *spec_notices)
    return ConfiguredServers(
        specs,
        notices,
        project_rows=collector.project_rows,
        project_digests={**collector.project_digests, **loaded.project_settings.server_digests},
    )


def _describe_untrusted(specs: Iterable[McpServerSpec]) -> Iterator[SetupNotice]:
    """Yield a notice about the servers of each file that are not started for lack of trust."""
    names_by_problem: dict[tuple[str, str], list[str]] = {}
    for spec in specs:
        if not spec.is_trusted and not spec.disabled:
            names_by_problem.setdefault((spec.origin, spec.problem), []).append(spec.name)
    for (origin, problem), found in names_by_problem.items():
        names = truncate_to_width(", ".join(sorted(found)), _MAX_LIST_LENGTH)
        if problem == TRUST_CHANGED:
            advice = f"they changed since you trusted them; review them with `{TRUST_COMMAND}`"
            yield SetupNotice("trust_changed", f"{origin}: servers not started: {names}; {advice}")
        else:
            text = f"{origin}: servers not started: {names}; {trust_advice(TrustState.UNKNOWN)}"
            yield SetupNotice("not_trusted", text)


@final
class _ServerCollector:
    """The servers found so far; of several servers with the same name, the first is used."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.specs: dict[str, McpServerSpec] = {}
        self.notices: list[SetupNotice] = []
        self.project_rows: dict[str, object] = {}
        self.project_digests: dict[str, str] = {}
        self._environ = environ

    def add(self, specs: Mapping[str, McpServerSpec], *, fallback_cwd: Path | None = None) -> None:
        """Add servers; those without a working directory are started in `fallback_cwd`."""
        for name, configured in specs.items():
            spec = replace(configured, cwd=configured.cwd or fallback_cwd)
            existing = self.specs.setdefault(name, spec)
            if existing is not spec:
                self._report_overridden(spec, existing)

    def _report_overridden(self, spec: McpServerSpec, existing: McpServerSpec) -> None:
        if not existing.disabled:
            text = (
                f"{spec.origin}: {spec.name}: this server is ignored; {existing.origin} has a "
                "server with the same name"
            )
            self.notices.append(SetupNotice("server_overridden", text))

    def add_named_file(self, file: Path, *, fallback_cwd: Path | None) -> None:
        table = _read_servers_table(file, inside=None)
        if table is None:
            raise InvalidValue("file not found", code="file_not_found", place=str(file))
        folder = file.absolute().parent
        specs = _read_specs_from(table, file, environ=self._environ, base=folder)
        self.add(specs, fallback_cwd=fallback_cwd)

    def add_project_file(self, loaded: LoadedSettings) -> None:
        file = loaded.project / MCP_FILE_NAME
        try:
            table = _read_servers_table(file, inside=loaded.project) or {}
        except InvalidValue as exc:  # a project must not prevent the user from starting steno
            self.notices.append(SetupNotice(exc.code, f"{exc}; the file is ignored"))
            return
        for name, (expanded, unexpanded) in self._read_valid_specs(table, file).items():
            digest = server_digest(expanded, table[name])
            spec = loaded.trust.apply(expanded, unexpanded, digest)
            self.project_rows[name], self.project_digests[name] = table[name], digest
            existing = self.specs.setdefault(name, spec)
            if existing is not spec and loaded.trusts_project:
                self._report_overridden(spec, existing)

    def _read_valid_specs(
        self, table: Mapping[str, Any], file: Path
    ) -> dict[str, tuple[McpServerSpec, McpServerSpec]]:
        """Return the valid servers of a project, with variables expanded and not expanded.

        Add notices about the invalid servers.
        """
        specs: dict[str, tuple[McpServerSpec, McpServerSpec]] = {}
        rejected: list[SetupNotice] = []
        for name, row in table.items():
            try:
                expanded, unexpanded = (
                    _read_specs_from({name: row}, file, environ=environ, base=file.parent)
                    for environ in (self._environ, {})
                )
                specs[name] = (expanded[name], unexpanded[name])
            except InvalidValue as exc:
                short = truncate_to_width(terminal_line(name), _MAX_NAME_LENGTH)
                rejected.append(SetupNotice(exc.code, f"{exc}; server {short} is skipped"))
        self.notices += rejected[:_MAX_NOTICES]
        if extra_count := len(rejected[_MAX_NOTICES:]):
            more = format_count(extra_count, "more server is", "more servers are")
            text = f"{file}: {more} skipped"
            self.notices.append(SetupNotice("more_servers_left_out", text))
        return specs


class _McpFile(msgspec.Struct, rename={"servers": _SERVERS_KEY}):
    servers: dict[str, Any]


def _read_specs_from(
    table: Mapping[str, Any], file: Path, *, environ: Mapping[str, str], base: Path
) -> dict[str, McpServerSpec]:
    specs = read_server_specs(table, place=f"{file}: {_SERVERS_KEY}", environ=environ, base=base)
    origin = replace_lone_surrogates(str(file))
    return {name: replace(spec, origin=origin) for name, spec in specs.items()}


def _read_servers_table(file: Path, *, inside: Path | None) -> dict[str, Any] | None:
    """Return the table of servers in a file; None if the file does not exist."""
    data = read_config_file(file, inside=inside)
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=_McpFile).servers
    except msgspec.ValidationError:
        raise InvalidValue(
            f'must be a JSON object with the member "{_SERVERS_KEY}", which must be an object',
            code="not_a_table",
            place=str(file),
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise InvalidValue(f"is not JSON: {exc}", code="not_json", place=str(file)) from None
    except RecursionError:
        raise InvalidValue(
            "is nested too deeply", code="file_too_complex", place=str(file)
        ) from None


# -- status -----------------------------------------------------------------------------------


class ServerStatus(NamedTuple):
    """The state of a server as a short text, determined without starting the server."""

    text: str
    is_problem: bool


def server_status(spec: McpServerSpec) -> ServerStatus:
    """Return the status of a server.

    `is_problem` is true if the server is enabled but cannot be started.
    """
    if spec.is_usable and spec.command and not _is_program_found(spec):
        return ServerStatus(f"not found: {spec.redact_secrets(spec.command)}", is_problem=True)
    return ServerStatus(_configured_state(spec), bool(spec.problem) and not spec.disabled)


def _is_program_found(spec: McpServerSpec) -> bool:
    """Return whether the program of a server exists, at its path or on the PATH."""
    command = spec.command
    if "/" in command:
        command = str((spec.cwd or working_folder()) / command)
    return shutil.which(command, path=spec.env.get("PATH")) is not None


def _configured_state(spec: McpServerSpec) -> str:
    return "disabled" if spec.disabled else spec.problem or _CONFIGURED


def describe_server(spec: McpServerSpec) -> dict[str, Any]:
    """Return the public properties of a server, without its arguments, variables and headers."""
    facts: dict[str, Any] = {"kind": ""}  # an entry that only disables a server
    if spec.url:
        facts = {"kind": "http", "url": spec.redact_secrets(strip_url_secrets(spec.url) or "")}
    elif spec.command:
        command = replace_lone_surrogates(spec.redact_secrets(spec.command))
        facts = {"kind": "stdio", "command": command}
    return {**facts, "state": _configured_state(spec), "from": spec.origin}


def prompt_arguments(prompt: McpPrompt) -> str:
    """Return the argument names of an MCP prompt for display, the optional ones in brackets."""
    names = [
        f"{argument.name}=…" if argument.is_required else f"[{argument.name}=…]"
        for argument in prompt.arguments
    ]
    return terminal_line(" ".join(names))


# -- starting servers -------------------------------------------------------------------------


class McpOptions(NamedTuple):
    """The command-line options for MCP servers."""

    config_files: tuple[str, ...] = ()
    """Paths of files in the format of `.mcp.json`."""
    is_disabled: bool = False
    """Whether all MCP servers are disabled."""


DEFAULT_MCP_OPTIONS: Final = McpOptions()


class ServerSetup(NamedTuple):
    """The MCP servers of a session, which the caller must close."""

    servers: McpServers
    notices: tuple[SetupNotice, ...]
    """Notices about the configuration of the servers."""


def set_up_servers(
    loaded: LoadedSettings,
    folder: Path,
    options: McpOptions,
    *,
    notify: Callable[[SetupNotice], object],
) -> ServerSetup:
    """Find the MCP servers for work in a folder, without starting them.

    `notify` receives notices about later events of the servers. Raises InvalidValue if a file that
    configures servers cannot be read.
    """
    configured = ConfiguredServers((), ())
    if not options.is_disabled:
        configured = find_servers(loaded, user_environment(), files=options.config_files)
    problems = [
        SetupNotice("server_misconfigured", f"mcp {spec.name}: {spec.problem}")
        for spec in configured.specs
        if spec.problem and spec.is_trusted
    ]
    servers = McpServers(configured.specs, folder=Workspace(folder).root, notify=notify)
    return ServerSetup(servers, (*configured.notices, *problems))


def unmatched_rule_notices(
    settings: Settings, servers: McpServers, mcp_tools: McpTools
) -> Iterator[SetupNotice]:
    """Yield a notice for each rule that has no effect, because its server or tool is unknown."""
    tools = mcp_tools.tools
    known = {mcp_server_name(name): name for name in servers.specs}
    listed_servers = {tool.server for tool in tools}
    for rule in (*settings.allow, *settings.deny):
        server = "__".join(rule.tool.split("__")[:2])
        if not server.startswith(MCP_TOOL_PREFIX) or "*" in server:
            continue
        if server not in known:
            advice = (
                suggest_name(server.removeprefix(MCP_TOOL_PREFIX), known.values())
                if known
                else "no server is configured"
            )
            text = f"rule {rule}: unknown MCP server; {advice}"
            yield SetupNotice("server_not_found", text)
            continue
        is_about_tools = rule.tool != server and known[server] in listed_servers
        if is_about_tools and not any(rule.names_tool(tool.definition.name) for tool in tools):
            text = f"rule {rule}: unknown tool; run 'steno mcp tools {known[server]}' to list its tools"
            yield SetupNotice("tool_unknown", text)


@final
class McpStartup:
    """The MCP servers of a session and their tools. The servers stop when the session is closed."""

    def __init__(
        self,
        server_setup: ServerSetup,
        *,
        prepare_image: PrepareImage,
        on_change: Callable[[], object],
        on_progress: Callable[[str], object],
        on_notice: Callable[[SetupNotice], object],
        silent_wait_s: float = _SILENT_WAIT_S,
        max_wait_s: float | None = MAX_SERVER_WAIT_S,
    ) -> None:
        """Initialize the startup without starting a server.

        `prepare_image` prepares images for a model, `on_change` is called when a server has listed
        its tools or failed, `on_progress` receives the reason for a wait, and `on_notice` receives
        notices for the user. A wait is reported after `silent_wait_s` seconds, and ends at most
        `max_wait_s` seconds later. If `max_wait_s` is None, every prompt waits until each server is
        ready or has failed.
        """
        self.server_setup: Final = server_setup
        self._servers, self._notices = drop_ambiguous_servers(server_setup.servers)
        self._prepare_image = prepare_image
        self._on_change = on_change
        self._on_progress = on_progress
        self._on_notice = on_notice
        self._silent_wait_s = silent_wait_s
        self._max_wait_s = max_wait_s
        self._tools_by_server: dict[str, McpTools] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failed: set[str] = set()
        """Servers that were not connected after the attempt to list their tools."""
        self._waited_for: set[str] = set()
        """Servers that a prompt has waited for; later prompts wait for at most `silent_wait_s`."""
        self._reported_late: set[str] = set()
        """Servers that a notice has reported as not ready."""

    @property
    def tools(self) -> McpTools:
        """The available tools, in the order of the servers' names."""
        listings = [
            self._tools_by_server[server.name]
            for server in self._servers
            if server.name in self._tools_by_server
        ]
        return merge_mcp_tools(listings, self._notices)

    def start(self) -> None:
        """Start to list the tools of new servers, and of failed servers that are now connected."""
        for server in self._servers:
            is_connected_now = server.name in self._failed and server.is_connected
            if server.name not in self._tasks or is_connected_now:
                self._failed.discard(server.name)
                self._tasks[server.name] = start_task(self._list_tools(server))

    async def _list_tools(self, server: McpConnection) -> None:
        try:
            found = await list_mcp_tools([server], prepare_image=self._prepare_image)
        except Exception as exc:  # a bug in steno must not affect the other servers
            _logger.exception("session: listing the tools of an MCP server failed")
            text = f"mcp {server.name}: a bug in steno: {exc}"
            found = McpTools((), (SetupNotice("internal_error", text),))
        if not server.is_connected:
            self._failed.add(server.name)
        self._tools_by_server[server.name] = found
        self._on_change()
        if server.name in self._reported_late and found.tools:
            text = f"mcp {server.name}: ready; its tools are available from the next prompt on"
            self._on_notice(SetupNotice("server_ready", text))

    @property
    def is_pending(self) -> bool:
        """Whether a server is not ready yet, so that a prompt would wait."""
        return bool(self._unfinished())

    async def wait(self) -> None:
        """Start the servers, and wait within the time limits until they are ready or have failed.

        Only the first prompt waits up to `max_wait_s` for a server. Cancelling the wait does not
        cancel the start of the servers.
        """
        self.start()
        if self._max_wait_s is None:
            while late := self._unfinished():
                self._on_progress(f"starting {', '.join(late)}")
                await asyncio.wait(late.values())
            return
        if late := self._unfinished():
            await asyncio.wait(late.values(), timeout=self._silent_wait_s)
        if late := self._unfinished(excluding=self._waited_for):
            self._waited_for |= late.keys()
            text = f"waiting for MCP server{'s' * (len(late) > 1)} {', '.join(late)}"
            self._on_progress(text)
            limit = f"at most {self._max_wait_s:g} s"
            text = f"{text}, {limit}; interrupt to take back your prompt"
            self._on_notice(SetupNotice("waiting_for_servers", text))
            await asyncio.wait(late.values(), timeout=self._max_wait_s)
        for name in self._unfinished(excluding=self._reported_late):
            self._reported_late.add(name)
            text = f"mcp {name}: not ready yet; your prompt is sent without its tools"
            self._on_notice(SetupNotice("server_not_ready", text))

    def _unfinished(self, *, excluding: Collection[str] = ()) -> dict[str, asyncio.Task[None]]:
        return {
            name: task
            for name, task in self._tasks.items()
            if not task.done() and name not in excluding
        }

    async def aclose(self) -> None:
        """Stop all servers and tasks. It is safe to call this more than once."""
        for task in self._tasks.values():
            task.cancel()
        try:
            await self.server_setup.servers.aclose()
        finally:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
