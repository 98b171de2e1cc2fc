"""A scripted server, a manual clock and scripted permissions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from steno.errors import ServerFailed, ToolFailed
from steno.inputs.mcp.protocol import (
    CallToolResult,
    ListedPrompt,
    ListedResource,
    ListedTool,
    PromptMessage,
    ReadResourceResult,
    ResourceContents,
)
from steno.messages.content import Resource
from steno.ports import Capability, ResolveContext, ResolvedReference
from steno.records.entry import Resolution, ResolutionStatus


class ResourceServer:
    """A `Server` with resources and prompts, which counts its requests."""

    def __init__(
        self,
        name: str = "lib",
        *,
        holds: Mapping[str, ReadResourceResult] = {},
        prompts: tuple[ListedPrompt, ...] = (),
        says: tuple[PromptMessage, ...] = (),
        failure: ServerFailed | None = None,
    ) -> None:
        self.name = name
        self.read_only_tools: tuple[str, ...] = ()
        self.holds = dict(holds)
        self.failure = failure
        self.reads: list[str] = []
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self._prompts = prompts
        self._says = says

    async def tools(self) -> tuple[ListedTool, ...]:
        return ()

    async def resources(self) -> tuple[ListedResource, ...]:
        return ()

    async def prompts(self) -> tuple[ListedPrompt, ...]:
        if self.failure is not None:
            raise self.failure
        return self._prompts

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, progress: Callable[[str], object]
    ) -> CallToolResult:
        raise ServerFailed(f"mcp {self.name}: it has no tools")

    async def read(self, uri: str) -> ReadResourceResult:
        self.reads.append(uri)
        if self.failure is not None:
            raise self.failure
        if uri not in self.holds:
            raise ServerFailed("there is no such resource", place=f"mcp {self.name}")
        return self.holds[uri]

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> tuple[PromptMessage, ...]:
        self.asked.append((name, arguments))
        return self._says


class ManualClock:
    """A clock that only moves when a test sets it."""

    def __init__(self) -> None:
        self.time = datetime(2026, 5, 6, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def turn(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class ScriptedPermission:
    """Allows everything that is not denied, and records the requests."""

    def __init__(self, *denied: str) -> None:
        self.asked: list[tuple[str, Capability, str]] = []
        self._denied = denied

    async def __call__(
        self, tool: str, capability: Capability, subject: str, *, preview: str = ""
    ) -> str:
        self.asked.append((tool, capability, subject))
        if subject in self._denied:
            raise ToolFailed("a rule denies it", code="denied", place=tool)
        return "test"


def make_context(keeper: ScriptedPermission | None = None) -> ResolveContext:
    return ResolveContext(authorize=ScriptedPermission() if keeper is None else keeper)


def text_resource(
    words: str, kind: str | None = "text/plain", ttl_s: float | None = None
) -> ReadResourceResult:
    """Return a resource of one part."""
    return ReadResourceResult((ResourceContents(uri="lib://a", mime_type=kind, text=words),), ttl_s)


def bytes_resource(content: bytes, kind: str | None = None) -> ReadResourceResult:
    """Return a resource of bytes."""
    return ReadResourceResult((ResourceContents(uri="lib://a", mime_type=kind, data=content),))


def resource_reference(uri: str = "lib://a", server: str = "lib") -> Resource:
    return Resource(server=server, uri=uri)


def recorded_resolution(finding: ResolvedReference) -> Resolution:
    """Return a resolved reference as an agent records it."""
    return Resolution(
        target="e1",
        block=0,
        status=ResolutionStatus.RESOLVED,
        content=finding.content,
        details=finding.details,
    )
