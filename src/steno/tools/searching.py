"""What the tools that search have in common: where they look, with what, and for how long."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Final

from msgspec import Struct

from steno.call import ToolCall
from steno.ports import Capability
from steno.tool import ToolDefinition
from steno.tools.arguments import arguments_of
from steno.tools.ripgrep import engine_for
from steno.tools.search import Engine
from steno.tools.workspace import Workspace

TIME_LIMIT_S: Final = 30.0


class Wanted(Struct, frozen=True, kw_only=True):
    """What every search is told."""

    pattern: str
    path: str = "."


class SearchTool:
    """A tool that looks for something below a path. Deny rules for reading count for it, too."""

    _arguments: ClassVar[type[Wanted]]
    _verb: ClassVar[str]

    def __init__(
        self,
        workspace: Workspace,
        definition: ToolDefinition,
        *,
        engine: Engine | None,
        time_limit_s: float,
    ) -> None:
        """Take the best engine that there is, unless one is given."""
        self._workspace = workspace
        self._engine = engine if engine is not None else engine_for(workspace)
        self._time_limit_s = time_limit_s
        self.definition = definition
        self.capability = Capability.READ
        self.ruled_as: Final = ("read",)

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return the file or folder that is searched."""
        return (self._workspace.relative(arguments_of(call, self._arguments).path),)

    async def preview(self, call: ToolCall) -> str:
        """Return the pattern and the place."""
        arguments = arguments_of(call, self._arguments)
        place = await asyncio.to_thread(self._workspace.relative, arguments.path)
        return f"{self._verb} {arguments.pattern} in {place}"
