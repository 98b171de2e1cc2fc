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

from steno.cli.opening import SetUp
from steno.inputs.mcp.connection import Connection
from steno.inputs.mcp.tools import McpTools, together, told_apart, tools_of
from steno.ports import Fit

_logger: Final = logging.getLogger("steno.cli")
_UNNOTICED_S: Final = 1.0
"""How long nobody minds to wait."""
_PATIENCE_S: Final = 10.0
"""How long what is said waits behind that: most servers are there by then, and the next words come."""


@final
class Arrivals:
    """What servers bring, and who has not answered yet. They end with it."""

    def __init__(
        self,
        set_up: SetUp,
        *,
        fit: Fit,
        changed: Callable[[], object],
        say: Callable[[str], object],
        tell: Callable[[str], object],
        unnoticed_s: float = _UNNOTICED_S,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        """Take servers; none is asked yet.

        `fit` makes images fit for a model, `changed` is called when a server has brought
        something, `say` is told what is waited for, and `tell` what a person should know.
        Nothing is told of a wait of `unnoticed_s`; `patience_s` is how long it lasts behind that.
        """
        self.set_up: Final = set_up
        self._servers, self._notes = told_apart(set_up.servers)
        self._fit = fit
        self._changed = changed
        self._say = say
        self._tell = tell
        self._unnoticed_s = unnoticed_s
        self._patience_s = patience_s
        self._found: dict[str, McpTools] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._down: set[str] = set()
        """Those that were not there when they were asked."""
        self._awaited: set[str] = set()
        """Those that somebody has waited for: nobody does so for long again."""
        self._missed: set[str] = set()
        """Those that something was said without."""

    @property
    def found(self) -> McpTools:
        """What there is by now, in the order of the servers' names."""
        found = [self._found[one.name] for one in self._servers if one.name in self._found]
        return together(found, self._notes)

    def ask(self) -> None:
        """Ask who was not asked yet, and who was not there then and is now; nobody waits for it."""
        for server in self._servers:
            is_there_after_all = server.name in self._down and server.is_up
            if server.name not in self._asking or is_there_after_all:
                self._down.discard(server.name)
                self._asking[server.name] = asyncio.create_task(self._ask(server))

    async def _ask(self, server: Connection) -> None:
        try:
            found = await tools_of([server], fit=self._fit)
        except Exception as exc:  # a fault of ours must not take the others with it
            _logger.exception("desk: the tools of a server were not taken")
            found = McpTools((), (f"mcp {server.name}: a fault in steno: {exc}",))
        if not server.is_up:
            self._down.add(server.name)
        self._found[server.name] = found
        self._changed()
        if server.name in self._missed and found.tools:
            self._tell(f"mcp {server.name}: it is there now; what you say next goes with its tools")

    @property
    def are_awaited(self) -> bool:
        """Whether somebody was asked and has not answered yet, so that it would be waited for them."""
        return bool(self._late())

    async def wait(self) -> None:
        """Wait for who has not answered yet: a moment, and for each of them once a while.

        Whoever stops waiting stops nothing else.
        """
        self.ask()
        if late := self._late():
            await asyncio.wait(late.values(), timeout=self._unnoticed_s)
        if late := self._late(but=self._awaited):
            self._awaited |= late.keys()
            awaited = f"waiting for MCP server{'s' * (len(late) > 1)} {', '.join(late)}"
            self._say(awaited)
            limit = f"{self._patience_s:g} s at most"
            self._tell(f"{awaited}, {limit}; interrupt it to take back what you said")
            await asyncio.wait(late.values(), timeout=self._patience_s)
        for name in self._late(but=self._missed):
            self._missed.add(name)
            self._tell(f"mcp {name}: it has not answered yet; what you said goes without its tools")

    def _late(self, *, but: Collection[str] = ()) -> dict[str, asyncio.Task[None]]:
        return {
            name: task for name, task in self._asking.items() if not task.done() and name not in but
        }

    async def aclose(self) -> None:
        """End all servers, and ask nobody any more. May be called again."""
        for task in self._asking.values():
            task.cancel()
        try:
            await self.set_up.servers.aclose()
        finally:
            await asyncio.gather(*self._asking.values(), return_exceptions=True)
