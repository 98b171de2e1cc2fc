"""A scripted server, and code that the tests of tools share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from steno.errors import ServerFailed
from steno.inputs.mcp.protocol import (
    CallToolResult,
    ListedPrompt,
    ListedResource,
    ListedTool,
    PromptMessage,
    ReadResourceResult,
)
from steno.inputs.mcp.tools import McpTools, list_mcp_tools
from steno.messages.content import Image, ImageData

T = TypeVar("T")
ANYTHING: Mapping[str, Any] = {"type": "object"}


def run(main: Coroutine[Any, Any, T], limit_s: float = 60) -> T:
    """Run a test with a time limit."""

    async def limited() -> T:
        async with asyncio.timeout(limit_s):
            return await main

    return asyncio.run(limited())


class ScriptedMcpServer:
    """A `Server` with some tools, whose calls all return the same result."""

    def __init__(
        self,
        name: str,
        *tools: ListedTool,
        called: CallToolResult | ServerFailed | None = None,
        progress: Sequence[str] = (),
        failure: ServerFailed | None = None,
        ready: asyncio.Event | None = None,
        readers: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.read_only_tools = readers
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self._tools = tools
        self._called = called or CallToolResult(content=({"type": "text", "text": "ok"},))
        self._progress = progress
        self._failure = failure
        self._ready = ready

    async def tools(self) -> tuple[ListedTool, ...]:
        if self._ready is not None:
            await self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self._tools

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, progress: Callable[[str], object]
    ) -> CallToolResult:
        self.calls.append((tool, arguments))
        for text in self._progress:
            progress(text)
        if isinstance(self._called, ServerFailed):
            raise self._called
        return self._called

    async def resources(self) -> tuple[ListedResource, ...]:
        return ()

    async def prompts(self) -> tuple[ListedPrompt, ...]:
        return ()

    async def read(self, uri: str) -> ReadResourceResult:
        raise ServerFailed(f"mcp {self.name}: there is no {uri}")

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> tuple[PromptMessage, ...]:
        raise ServerFailed(f"mcp {self.name}: there is no {name}")


def listed_tool(name: str = "look", schema: Any = ANYTHING, **more: Any) -> ListedTool:
    """Return a tool as a server lists it, whatever that schema is."""
    return ListedTool(name=name, schema=schema, **more)


def load_tools(*servers: ScriptedMcpServer, **settings: Any) -> McpTools:
    """List the tools of servers."""
    return run(list_mcp_tools(servers, **settings))


def fit_image(data: bytes) -> Image:
    """Replace image preparation: accept all bytes that begin like an image."""
    if not data.startswith(b"PNG"):
        raise OSError("no image")
    return Image(source=ImageData(data), mime_type="image/png")
