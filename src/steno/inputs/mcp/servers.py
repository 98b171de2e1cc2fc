"""All servers of a session: by name, started when they are needed, ended together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self, final

from steno.errors import ServerFailed
from steno.inputs.mcp.connection import Connection
from steno.inputs.mcp.specs import ServerSpec


@final
class Servers:
    """The servers that a user has set up; `async with` ends them. Constructing starts none.

    Of two specs of one name the later one counts. Iterating gives those that can be asked.
    """

    def __init__(
        self,
        specs: Iterable[ServerSpec],
        *,
        folder: Path,
        notify: Callable[[str], object] = lambda _: None,
    ) -> None:
        by_name = {spec.name: spec for spec in specs}
        self.specs: Final[Mapping[str, ServerSpec]] = MappingProxyType(by_name)
        """Every server by its name, also those that cannot be used."""
        self._connections = {
            spec.name: Connection(spec, folder=folder, notify=notify)
            for spec in by_name.values()
            if spec.is_usable
        }

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._connections.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The servers that can be asked."""
        return tuple(self._connections)

    def get(self, name: str) -> Connection:
        """Return a server. Raises ServerFailed, which says which there are, or what it lacks."""
        if (connection := self._connections.get(name)) is not None:
            return connection
        if (spec := self.specs.get(name)) is not None:
            raise ServerFailed(f"mcp {name}: {spec.problem or 'it is switched off'}")
        known = ", ".join(self._connections) or "none"
        raise ServerFailed(f"mcp: there is no server of this name; those there are: {known}")

    async def aclose(self) -> None:
        """End all of them, at once."""
        await asyncio.gather(*[server.aclose() for server in self._connections.values()])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
