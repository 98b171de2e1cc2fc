"""The tools of servers, as they arrive: asked for beside everything else, and waited for once.

Each server is asked by a task of its own. Whoever is slow holds up the first words that are said,
for a while, and nothing else; what it brings later is there for the words behind them. A server
that failed is not started again here; if somebody else gets it to answer, it is asked again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final, final

from steno.app.input_setup import ServerSetup
from steno.inputs.mcp.connection import McpConnection
from steno.inputs.mcp.tools import McpTools, drop_ambiguous_servers, list_mcp_tools, merge_mcp_tools
from steno.ports import PrepareImage

_logger: Final = logging.getLogger("steno.cli")
_SILENT_WAIT_S: Final = 1.0
"""How long nobody minds to wait."""
_MAX_WAIT_S: Final = 10.0
"""How long what is said waits behind that: most servers are there by then, and the next words come."""


@final
class McpStartup:
    """What servers bring, and who has not answered yet. They end with it."""

    def __init__(
        self,
        server_setup: ServerSetup,
        *,
        prepare_image: PrepareImage,
        on_change: Callable[[], object],
        on_progress: Callable[[str], object],
        on_notice: Callable[[str], object],
        silent_wait_s: float = _SILENT_WAIT_S,
        max_wait_s: float = _MAX_WAIT_S,
    ) -> None:
        """Take servers; none is asked yet.

        `prepare_image` makes images fit for a model, `changed` is called when a server has brought
        something, `say` is told what is waited for, and `tell` what a person should know.
        Nothing is told of a wait of `unnoticed_s`; `patience_s` is how long it lasts behind that.
        """
        self.server_setup: Final = server_setup
        self._servers, self._notes = drop_ambiguous_servers(server_setup.servers)
        self._prepare_image = prepare_image
        self._on_change = on_change
        self._on_progress = on_progress
        self._on_notice = on_notice
        self._silent_wait_s = silent_wait_s
        self._max_wait_s = max_wait_s
        self._tools_by_server: dict[str, McpTools] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failed: set[str] = set()
        """Those that were not there when they were asked."""
        self._waited_for: set[str] = set()
        """Those that somebody has waited for: nobody does so for long again."""
        self._reported_late: set[str] = set()
        """Those that something was said without."""

    @property
    def tools(self) -> McpTools:
        """What there is by now, in the order of the servers' names."""
        found = [
            self._tools_by_server[one.name]
            for one in self._servers
            if one.name in self._tools_by_server
        ]
        return merge_mcp_tools(found, self._notes)

    def start(self) -> None:
        """Ask who was not asked yet, and who was not there then and is now; nobody waits for it."""
        for server in self._servers:
            is_there_after_all = server.name in self._failed and server.is_connected
            if server.name not in self._tasks or is_there_after_all:
                self._failed.discard(server.name)
                self._tasks[server.name] = asyncio.create_task(self._list_tools(server))

    async def _list_tools(self, server: McpConnection) -> None:
        try:
            found = await list_mcp_tools([server], prepare_image=self._prepare_image)
        except Exception as exc:  # a fault of ours must not take the others with it
            _logger.exception("desk: the tools of a server were not taken")
            found = McpTools((), (f"mcp {server.name}: a fault in steno: {exc}",))
        if not server.is_connected:
            self._failed.add(server.name)
        self._tools_by_server[server.name] = found
        self._on_change()
        if server.name in self._reported_late and found.tools:
            self._on_notice(
                f"mcp {server.name}: it is there now; what you say next goes with its tools"
            )

    @property
    def is_pending(self) -> bool:
        """Whether somebody was asked and has not answered yet, so that it would be waited for them."""
        return bool(self._unfinished())

    async def wait(self) -> None:
        """Wait for who has not answered yet: a moment, and for each of them once a while.

        Whoever stops waiting stops nothing else.
        """
        self.start()
        if late := self._unfinished():
            await asyncio.wait(late.values(), timeout=self._silent_wait_s)
        if late := self._unfinished(but=self._waited_for):
            self._waited_for |= late.keys()
            awaited = f"waiting for MCP server{'s' * (len(late) > 1)} {', '.join(late)}"
            self._on_progress(awaited)
            limit = f"{self._max_wait_s:g} s at most"
            self._on_notice(f"{awaited}, {limit}; interrupt it to take back what you said")
            await asyncio.wait(late.values(), timeout=self._max_wait_s)
        for name in self._unfinished(but=self._reported_late):
            self._reported_late.add(name)
            self._on_notice(
                f"mcp {name}: it has not answered yet; what you said goes without its tools"
            )

    def _unfinished(self, *, but: Collection[str] = ()) -> dict[str, asyncio.Task[None]]:
        return {
            name: task for name, task in self._tasks.items() if not task.done() and name not in but
        }

    async def aclose(self) -> None:
        """End all servers, and ask nobody any more. May be called again."""
        for task in self._tasks.values():
            task.cancel()
        try:
            await self.server_setup.servers.aclose()
        finally:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
