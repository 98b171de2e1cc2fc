"""The MCP servers of a session: found once, listed in the background, and awaited once.

Each server has a task of its own. A slow one delays only the first prompt, for a while; its tools
are available to later prompts. A server that failed is not started again here; if it connects for
another reason, it is listed again.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple, final

from steno.app.mcp_servers import ConfiguredServers, find_servers
from steno.app.settings import Settings
from steno.app.settings_loader import LoadedSettings
from steno.inputs.mcp.connection import McpConnection, McpServers
from steno.inputs.mcp.tools import (
    McpTools,
    drop_ambiguous_servers,
    list_mcp_tools,
    mcp_server_name,
    merge_mcp_tools,
)
from steno.messages.call import MCP_TOOL_PREFIX
from steno.ports import PrepareImage, SetupNotice
from steno.suggest import suggest_name
from steno.tools import Workspace

_logger: Final = logging.getLogger("steno.app")
_SILENT_WAIT_S: Final = 1.0
"""How long a wait is not reported."""
MAX_SERVER_WAIT_S: Final = 10.0
"""How long a prompt waits after that: most servers are ready by then."""


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
                else "none is set up"
            )
            text = f"rule {rule}: there is no such MCP server; {advice}"
            yield SetupNotice("server_not_found", text)
            continue
        is_about_tools = rule.tool != server and known[server] in listed_servers
        if is_about_tools and not any(rule.names_tool(tool.definition.name) for tool in tools):
            text = f"rule {rule}: there is no such tool; steno mcp tools {known[server]} lists them"
            yield SetupNotice("tool_unknown", text)


@final
class McpStartup:
    """The MCP servers of a session and their tools. They end with it."""

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
        `on_progress` receives what is waited for, and `on_notice` notices for the user. A wait of
        `silent_wait_s` is not reported; `max_wait_s` is its limit after that. If it is None, every
        prompt waits until each server has answered or failed.
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
            _logger.exception("session: the tools of an MCP server were not used")
            text = f"mcp {server.name}: a fault in steno: {exc}"
            found = McpTools((), (SetupNotice("internal_error", text),))
        if not server.is_connected:
            self._failed.add(server.name)
        self._tools_by_server[server.name] = found
        self._on_change()
        if server.name in self._reported_late and found.tools:
            text = f"mcp {server.name}: it is there now; what you say next goes with its tools"
            self._on_notice(SetupNotice("server_ready", text))

    @property
    def is_pending(self) -> bool:
        """Whether a server has not answered yet, so that a prompt would wait."""
        return bool(self._unfinished())

    async def wait(self) -> None:
        """Wait for the servers: shortly for all, and once longer for each of them.

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
            limit = f"{self._max_wait_s:g} s at most"
            text = f"{text}, {limit}; interrupt it to take back what you said"
            self._on_notice(SetupNotice("waiting_for_servers", text))
            await asyncio.wait(late.values(), timeout=self._max_wait_s)
        for name in self._unfinished(excluding=self._reported_late):
            self._reported_late.add(name)
            text = f"mcp {name}: it has not answered yet; what you said goes without its tools"
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
