"""The values of the Model Context Protocol, and their decoders.

All values are untrusted: names and texts may contain anything, and hints may be false. Fields of
the wrong type are ignored. This module does not know how requests are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol, cast

from steno.errors import InvalidValue
from steno.inputs.mcp.untrusted_data import decode_base64, sanitize_json, walk_values
from steno.values import replace_lone_surrogates


class ListedTool(NamedTuple):
    """A tool that a server offers."""

    name: str
    schema: Mapping[str, Any]
    description: str = ""
    title: str = ""
    hints: Mapping[str, Any] = {}
    """Claims of the server (`readOnlyHint`, ...), which are not checked."""


class ListedResource(NamedTuple):
    """A resource that a server offers, or a template, whose URI contains names in braces."""

    uri: str
    name: str = ""
    description: str = ""
    mime_type: str | None = None
    size: int | None = None
    is_template: bool = False


class PromptArgument(NamedTuple):
    """An argument that a prompt accepts."""

    name: str
    description: str = ""
    is_required: bool = False


class ListedPrompt(NamedTuple):
    """A prompt that a server offers."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class ResourceContents(NamedTuple):
    """One part of a resource: text or bytes."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    data: bytes | None = None


class ReadResourceResult(NamedTuple):
    """The content of a resource, and the time that it stays fresh."""

    contents: tuple[ResourceContents, ...]
    ttl_s: float | None = None
    """The time that the content stays fresh according to the server; None if unknown."""


class CallToolResult(NamedTuple):
    """The result of a tool call, as the server returned it."""

    content: tuple[Mapping[str, Any], ...]
    """The blocks in the format of the protocol: `{"type": "text", "text": ...}`."""
    structured: Any = None
    """Structured JSON in addition to the blocks; None if there is none."""
    is_error: bool = False


class PromptMessage(NamedTuple):
    """One message of a prompt that the server has filled in."""

    role: str
    content: Mapping[str, Any]
    """One block in the format of the protocol."""


class McpServer(Protocol):
    """A server that is started by the first request, and restarted if it has ended.

    Every request may raise ServerFailed, with a message that names the server.
    """

    @property
    def name(self) -> str:
        """The name that the user gave the server."""
        ...

    @property
    def read_only_tools(self) -> tuple[str, ...]:
        """Tools that the user declares read-only: names, or patterns with `*`."""
        ...

    async def tools(self) -> tuple[ListedTool, ...]:
        """Return all tools, from all pages."""
        ...

    async def resources(self) -> tuple[ListedResource, ...]:
        """Return all resources and templates."""
        ...

    async def prompts(self) -> tuple[ListedPrompt, ...]:
        """Return all prompts."""
        ...

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, progress: Callable[[str], object]
    ) -> CallToolResult:
        """Call a tool; cancelling the task also cancels the call on the server.

        `progress` is called at most ten times per second, and always with the last report.
        """
        ...

    async def read(self, uri: str) -> ReadResourceResult:
        """Read a resource from the server, never from a cache."""
        ...

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> tuple[PromptMessage, ...]:
        """Return a prompt with its arguments filled in."""
        ...


# -- decoding -------------------------------------------------------------------------------------

ResultJson = Mapping[str, Any]

_MAX_TTL_MS: Final = 10**12
_MIN_VALUE_SIZE: Final = 8


def decode_tools(response: ResultJson) -> Iterator[ListedTool]:
    """Yield the tools of a page, except tools without a name, which cannot be called."""
    for tool in _objects_in(response.get("tools")):
        if name := _text(tool, "name"):
            hints = _object_or_empty(tool.get("annotations"))
            yield ListedTool(
                name=name,
                # Any value is accepted here; `define_tool` refuses an invalid schema.
                schema=cast("Mapping[str, Any]", sanitize_json(tool.get("inputSchema"))),
                description=_text(tool, "description"),
                title=_text(tool, "title") or _text(hints, "title"),
                hints=hints,
            )


def decode_resources(response: ResultJson) -> Iterator[ListedResource]:
    """Return the resources of a page."""
    return _decode_listed(response.get("resources"), "uri")


def decode_templates(response: ResultJson) -> Iterator[ListedResource]:
    """Return the templates of a page."""
    return _decode_listed(response.get("resourceTemplates"), "uriTemplate")


def _decode_listed(listed: object, key: str) -> Iterator[ListedResource]:
    for resource in _objects_in(listed):
        if uri := _text(resource, key):
            size = resource.get("size")
            yield ListedResource(
                uri=uri,
                name=_text(resource, "title") or _text(resource, "name"),
                description=_text(resource, "description"),
                mime_type=_text(resource, "mimeType") or None,
                size=size if type(size) is int and size >= 0 else None,
                is_template=key == "uriTemplate",
            )


def decode_prompts(response: ResultJson) -> Iterator[ListedPrompt]:
    """Yield the prompts of a page."""
    for prompt in _objects_in(response.get("prompts")):
        if name := _text(prompt, "name"):
            arguments = [
                PromptArgument(
                    argument_name, _text(argument, "description"), argument.get("required") is True
                )
                for argument in _objects_in(prompt.get("arguments"))
                if (argument_name := _text(argument, "name"))
            ]
            yield ListedPrompt(name, _text(prompt, "description"), tuple(arguments))


def decode_call_result(response: ResultJson) -> CallToolResult:
    """Decode the result of a tool call."""
    return CallToolResult(
        content=tuple(_objects_in(response.get("content"))),
        structured=sanitize_json(response.get("structuredContent")),
        is_error=response.get("isError") is True,
    )


def decode_resource(response: ResultJson) -> ReadResourceResult:
    """Decode the content of a resource. Raises InvalidValue if its base64 is invalid."""
    contents = tuple(map(_decode_contents, _objects_in(response.get("contents"))))
    ttl_ms = response.get("ttlMs")
    # Servers of the older protocol send no time; 0 is a valid time.
    if isinstance(ttl_ms, bool) or not isinstance(ttl_ms, int | float):
        return ReadResourceResult(contents)
    return ReadResourceResult(contents, max(0.0, min(ttl_ms, _MAX_TTL_MS) / 1000))


def _decode_contents(part: ResultJson) -> ResourceContents:
    text, blob = part.get("text"), part.get("blob")
    data: bytes | None = None
    if isinstance(blob, str) and not isinstance(text, str):
        data = decode_base64(blob)
        if data is None:
            message = "the data is not valid base64"
            raise InvalidValue(message, code="invalid_base64", place="resource")
    return ResourceContents(
        uri=_text(part, "uri"),
        mime_type=_text(part, "mimeType") or None,
        text=_text(part, "text") if isinstance(text, str) else None,
        data=data,
    )


def decode_prompt_messages(response: ResultJson) -> tuple[PromptMessage, ...]:
    """Decode the messages of a prompt."""
    return tuple(
        [
            PromptMessage(_text(message, "role") or "user", content)
            for message in _objects_in(response.get("messages"))
            if (content := _object_or_empty(message.get("content")))
        ]
    )


def estimate_size(response: object) -> int:
    """Return the approximate size of a response.

    A text counts with its length, and any other value counts with `_MIN_VALUE_SIZE`.
    """
    values = walk_values(response)
    return sum(len(value) if isinstance(value, str) else _MIN_VALUE_SIZE for value in values)


def _text(members: ResultJson, key: str) -> str:
    value = members.get(key)
    return replace_lone_surrogates(value) if isinstance(value, str) else ""


def _object_or_empty(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", sanitize_json(value)) if isinstance(value, dict) else {}


def _objects_in(values: object) -> list[dict[str, Any]]:
    listed = cast("list[object]", values) if isinstance(values, list) else []
    return [_object_or_empty(value) for value in listed if isinstance(value, dict)]
