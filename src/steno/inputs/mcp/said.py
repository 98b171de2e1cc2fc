"""What a server says, as plain values: nothing here knows how it was asked.

All of it comes from somebody else's program. Names may be anything, texts may hold anything, and
hints may be lies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol


class ListedTool(NamedTuple):
    """A tool that a server offers."""

    name: str
    schema: Mapping[str, Any]
    description: str = ""
    title: str = ""
    hints: Mapping[str, Any] = {}
    """What the server says of it (`readOnlyHint`, ...); nobody has checked that."""


class ListedResource(NamedTuple):
    """Something that a server holds; a template has names in braces in its address."""

    uri: str
    name: str = ""
    description: str = ""
    mime_type: str | None = None
    size: int | None = None
    is_template: bool = False


class PromptArgument(NamedTuple):
    """Something that a prompt has to be told."""

    name: str
    description: str = ""
    is_required: bool = False


class ListedPrompt(NamedTuple):
    """A prompt that a server has made ready."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class Contents(NamedTuple):
    """One part of a resource: text or bytes."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    data: bytes | None = None


class ReadResource(NamedTuple):
    """A resource as it was read."""

    contents: tuple[Contents, ...]
    ttl_s: float | None = None
    """How long the server says that it holds; None if it does not."""


class Called(NamedTuple):
    """What came of a call."""

    content: tuple[Mapping[str, Any], ...]
    """The blocks, as the protocol has them: `{"type": "text", "text": ...}`."""
    structured: Any = None
    """Any JSON beside them; None if there is none."""
    is_error: bool = False


class PromptMessage(NamedTuple):
    """One message of a prompt."""

    role: str
    content: Mapping[str, Any]
    """One block, as the protocol has it."""


class Server(Protocol):
    """A server that can be asked. It is started with the first question, and again if it is gone.

    Everything raises ServerFailed, which says which server it was and what to do.
    """

    @property
    def name(self) -> str:
        """What the user calls it."""
        ...

    @property
    def read_only_tools(self) -> tuple[str, ...]:
        """Tools of which the user says that they only read: names, or patterns with `*`."""
        ...

    async def tools(self) -> tuple[ListedTool, ...]:
        """Return all tools, whatever the number of pages."""
        ...

    async def resources(self) -> tuple[ListedResource, ...]:
        """Return all resources and templates."""
        ...

    async def prompts(self) -> tuple[ListedPrompt, ...]:
        """Return all prompts."""
        ...

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, progress: Callable[[str], object]
    ) -> Called:
        """Call a tool; if cancelled, the server is told so.

        `progress` is told how far it is, a few times a second at most, and the last word for sure.
        """
        ...

    async def read(self, uri: str) -> ReadResource:
        """Read a resource from the server, never from a cache."""
        ...

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> tuple[PromptMessage, ...]:
        """Return a prompt with its arguments filled in."""
        ...
