"""The MCP servers of a session: configured, found once, started in the background, awaited once.

Servers are configured in the settings, in `.mcp.json`, and in files the user names. The servers of
an untrusted project are listed with a problem that keeps them from being started. The user's own
servers are not started in its folder either: most programs take settings, and some their own code,
from their working directory.

Each server is listed by a separate task. A slow one delays only the first prompt, for a while;
its tools are available to later prompts. A server that failed is not started again here; if it
connects for another reason, it is listed again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import msgspec
from msgspec.structs import replace

from steno.app.folders import home_folder, working_folder
from steno.app.settings import LoadedSettings, Settings, read_config_file
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
from steno.messages.call import MCP_TOOL_PREFIX
from steno.ports import PrepareImage, SetupNotice, strip_url_secrets
from steno.render.quantities import format_count
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.suggest import suggest_name
from steno.tools import Workspace
from steno.values import replace_lone_surrogates

_logger: Final = logging.getLogger("steno.app")
_SILENT_WAIT_S: Final = 1.0
"""The duration of a wait that is not reported."""
MAX_SERVER_WAIT_S: Final = 10.0
"""The further time that a prompt waits; most servers are ready by then."""
MCP_FILE_NAME: Final = ".mcp.json"
"""The file of a project that configures its servers; other programs read it, too."""
NOT_TRUSTED: Final = "not trusted"
"""The problem of a server of an untrusted project."""
_CONFIGURED: Final = "configured"
"""The state of a server that can be started; only a request shows whether it responds."""
_SERVERS_KEY: Final = "mcpServers"
_MAX_NAME_LENGTH: Final = 40
_MAX_LIST_LENGTH: Final = 400
_MAX_NOTICES: Final = 20
"""The number of notices about one file, which may come from an untrusted project."""


# -- finding servers --------------------------------------------------------------------------


class ConfiguredServers(NamedTuple):
    """All configured servers, and notices about them."""

    specs: tuple[McpServerSpec, ...]
    """In the order of their names; those that cannot be used have a problem."""
    notices: tuple[SetupNotice, ...]


def find_servers(
    loaded: LoadedSettings, environ: Mapping[str, str], *, files: Sequence[str | Path] = ()
) -> ConfiguredServers:
    """Return the servers for work in the project of these settings.

    `files` have the form of `.mcp.json`; the user named them, so they are trusted and come first.
    The settings come next, and the file of the project last. Raises InvalidValue if one of the
    named files, or that of a trusted project, cannot be read.
    """
    fallback_cwd = None if loaded.trusts_project else home_folder(environ) or Path("/")
    collector = _ServerCollector(environ)
    for file in reversed(files):  # the later one wins, as with all options
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
    return ConfiguredServers(specs, (*collector.notices, *spec_notices))


@final
class _ServerCollector:
    """The servers so far; the first of several with the same name is used."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.specs: dict[str, McpServerSpec] = {}
        self.notices: list[SetupNotice] = []
        self._environ = environ

    def add(self, specs: Mapping[str, McpServerSpec], *, fallback_cwd: Path | None = None) -> None:
        """Add servers; those without a working directory are started in `fallback_cwd`."""
        for name, configured in specs.items():
            spec = replace(configured, cwd=configured.cwd or fallback_cwd)
            existing = self.specs.setdefault(name, spec)
            if existing is not spec and not existing.disabled:
                text = (
                    f"{spec.origin}: {name}: this server is ignored; {existing.origin} has one with "
                    "this name"
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
        except InvalidValue as exc:
            if loaded.trusts_project:
                raise InvalidValue(
                    f"{exc.message}; use --no-mcp to start without MCP servers",
                    code=exc.code,
                    place=exc.place,
                ) from None
            # An error in an untrusted project does not stop the user.
            self.notices.append(SetupNotice(exc.code, str(exc)))
            return
        if loaded.trusts_project:
            self.add(self._read_valid_specs(table, file, self._environ))
            return
        # No variable is expanded: values of an untrusted project must not hold the environment.
        untrusted = self._read_valid_specs(table, file, {})
        unused: list[str] = []
        for name, configured in untrusted.items():
            spec = replace(configured, problem=NOT_TRUSTED, is_trusted=False, notice="")
            if self.specs.setdefault(name, spec) is spec and not spec.disabled:
                unused.append(name)
        if unused:
            names = truncate_to_width(", ".join(sorted(unused)), _MAX_LIST_LENGTH)
            text = f"{file}: servers not started: {names}; {loaded.trust_advice}"
            self.notices.append(SetupNotice("not_trusted", text))

    def _read_valid_specs(
        self, table: Mapping[str, Any], file: Path, environ: Mapping[str, str]
    ) -> dict[str, McpServerSpec]:
        """Read the servers of a project one by one; invalid ones are skipped."""
        specs: dict[str, McpServerSpec] = {}
        rejected: list[SetupNotice] = []
        for name, row in table.items():
            try:
                specs |= _read_specs_from({name: row}, file, environ=environ, base=file.parent)
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
    """Return the servers that a file names; None if there is no such file."""
    data = read_config_file(file, inside=inside)
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=_McpFile).servers
    except msgspec.ValidationError:
        raise InvalidValue(
            f'must be an object with the member "{_SERVERS_KEY}", an object of servers',
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
    """The state of a server, as far as it is known without starting it."""

    text: str
    is_problem: bool


def server_status(spec: McpServerSpec) -> ServerStatus:
    """Return whether a server can be used, and why not; its program must be installed."""
    if spec.is_usable and spec.command and not _is_program_found(spec):
        return ServerStatus(f"not found: {spec.redact_secrets(spec.command)}", is_problem=True)
    return ServerStatus(_configured_state(spec), bool(spec.problem) and not spec.disabled)


def _is_program_found(spec: McpServerSpec) -> bool:
    """Return whether the program exists in a place where the system searches for it."""
    command = spec.command
    if "/" in command:
        command = str((spec.cwd or working_folder()) / command)
    return shutil.which(command, path=spec.env.get("PATH")) is not None


def _configured_state(spec: McpServerSpec) -> str:
    return "disabled" if spec.disabled else spec.problem or _CONFIGURED


def describe_server(spec: McpServerSpec) -> dict[str, Any]:
    """Return the public facts of a server: no arguments, variables or headers."""
    facts: dict[str, Any] = {"kind": ""}  # a server that the file only disables
    if spec.url:
        facts = {"kind": "http", "url": spec.redact_secrets(strip_url_secrets(spec.url) or "")}
    elif spec.command:
        command = replace_lone_surrogates(spec.redact_secrets(spec.command))
        facts = {"kind": "stdio", "command": command}
    return {**facts, "state": _configured_state(spec), "from": spec.origin}


def prompt_arguments(prompt: McpPrompt) -> str:
    """Return the arguments of a prompt, the optional ones in brackets."""
    names = [
        f"{argument.name}=…" if argument.is_required else f"[{argument.name}=…]"
        for argument in prompt.arguments
    ]
    return terminal_line(" ".join(names))


# -- starting servers -------------------------------------------------------------------------


class McpOptions(NamedTuple):
    """The options about MCP servers."""

    config_files: tuple[str, ...] = ()
    """Paths of files in the form of `.mcp.json`."""
    is_disabled: bool = False
    """Whether no server is used."""


DEFAULT_MCP_OPTIONS: Final = McpOptions()


class ServerSetup(NamedTuple):
    """The servers of a session; the caller closes them."""

    servers: McpServers
    notices: tuple[SetupNotice, ...]
    """Notices about their configuration."""


def set_up_servers(
    loaded: LoadedSettings,
    folder: Path,
    options: McpOptions,
    *,
    notify: Callable[[SetupNotice], object],
) -> ServerSetup:
    """Find the servers for work in a folder; none of them is started yet.

    `notify` receives a notice on each later event of a server. Raises InvalidValue.
    """
    configured = ConfiguredServers((), ())
    if not options.is_disabled:
        configured = find_servers(loaded, os.environ, files=options.config_files)
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
    """Yield a notice on each rule about an unknown server or tool: such a rule has no effect."""
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
                else "none is configured"
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
        """Take the servers; none is started yet.

        `prepare_image` prepares images for a model, `on_change` is called when tools have arrived,
        `on_progress` receives the reason for a wait, and `on_notice` notices for the user. A wait of
        `silent_wait_s` is not reported; `max_wait_s` is its limit after that. If it is None, every
        prompt waits until each server is ready or has failed.
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
        """Servers that were not connected when they were listed."""
        self._waited_for: set[str] = set()
        """Servers that a prompt has waited for: none waits long again."""
        self._reported_late: set[str] = set()
        """Servers that a prompt was sent without."""

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
        """List servers that were not listed yet, and failed ones that are connected now."""
        for server in self._servers:
            is_connected_now = server.name in self._failed and server.is_connected
            if server.name not in self._tasks or is_connected_now:
                self._failed.discard(server.name)
                self._tasks[server.name] = asyncio.create_task(self._list_tools(server))

    async def _list_tools(self, server: McpConnection) -> None:
        try:
            found = await list_mcp_tools([server], prepare_image=self._prepare_image)
        except Exception as exc:  # a bug of ours must not affect the other servers
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
        """Wait for the servers: briefly for all, and once longer for each of them.

        A cancelled wait cancels nothing else.
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
        """End all servers and tasks. May be called again."""
        for task in self._tasks.values():
            task.cancel()
        try:
            await self.server_setup.servers.aclose()
        finally:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
