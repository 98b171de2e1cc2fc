"""What a server answers, as values of ours: fields of the wrong type are left out, never trusted.

What stands in an answer at all is JSON; that names mean what they say is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from steno.errors import InvalidValue
from steno.inputs.mcp.foreign import from_base64, lawful
from steno.inputs.mcp.said import (
    Called,
    Contents,
    ListedPrompt,
    ListedResource,
    ListedTool,
    PromptArgument,
    PromptMessage,
    ReadResource,
)
from steno.value import replace_lone_surrogates

_LONGEST_MS: Final = 10**12
_LEAST_WEIGHT: Final = 8
Answer = Mapping[str, Any]


def tools_in(answer: Answer) -> Iterator[ListedTool]:
    """Return the tools of a page. One without a name could not be called, and is left out."""
    for tool in _objects(answer.get("tools")):
        if name := _text(tool.get("name")):
            hints = _object(tool.get("annotations"))
            yield ListedTool(
                name=name,
                # What is no object stays: that the schema is wrong is for others to see.
                schema=cast("Mapping[str, Any]", lawful(tool.get("inputSchema"))),
                description=_text(tool.get("description")),
                title=_text(tool.get("title")) or _text(hints.get("title")),
                hints=hints,
            )


def resources_in(answer: Answer) -> Iterator[ListedResource]:
    """Return the resources of a page."""
    yield from _resources(answer.get("resources"), "uri")


def templates_in(answer: Answer) -> Iterator[ListedResource]:
    """Return the templates of a page."""
    yield from _resources(answer.get("resourceTemplates"), "uriTemplate")


def _resources(listed: object, key: str) -> Iterator[ListedResource]:
    for resource in _objects(listed):
        if uri := _text(resource.get(key)):
            size = resource.get("size")
            yield ListedResource(
                uri=uri,
                name=_text(resource.get("title")) or _text(resource.get("name")),
                description=_text(resource.get("description")),
                mime_type=_text(resource.get("mimeType")) or None,
                size=size if type(size) is int and size >= 0 else None,
                is_template=key == "uriTemplate",
            )


def prompts_in(answer: Answer) -> Iterator[ListedPrompt]:
    """Return the prompts of a page."""
    for prompt in _objects(answer.get("prompts")):
        if name := _text(prompt.get("name")):
            arguments = [
                PromptArgument(
                    name=_text(argument.get("name")),
                    description=_text(argument.get("description")),
                    is_required=argument.get("required") is True,
                )
                for argument in _objects(prompt.get("arguments"))
            ]
            yield ListedPrompt(
                name=name,
                description=_text(prompt.get("description")),
                arguments=tuple([argument for argument in arguments if argument.name]),
            )


def called(answer: Answer) -> Called:
    """Return what came of a call."""
    return Called(
        content=tuple(_objects(answer.get("content"))),
        structured=lawful(answer.get("structuredContent")),
        is_error=answer.get("isError") is True,
    )


def resource_in(answer: Answer) -> ReadResource:
    """Return a resource that was read. Raises InvalidValue."""
    return ReadResource(
        contents=tuple(map(_contents, _objects(answer.get("contents")))),
        ttl_s=_ttl(answer.get("ttlMs")),
    )


def _contents(part: Answer) -> Contents:
    text, blob = part.get("text"), part.get("blob")
    data: bytes | None = None
    if isinstance(blob, str) and not isinstance(text, str):
        data = from_base64(blob)
        if data is None:
            raise InvalidValue("resource: its bytes are not in base64")
    return Contents(
        uri=_text(part.get("uri")),
        mime_type=_text(part.get("mimeType")) or None,
        text=_text(text) if isinstance(text, str) else None,
        data=data,
    )


def _ttl(given: object) -> float | None:
    """Return seconds; servers of the older protocol give none, and 0 is something given."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    return max(0.0, min(given, _LONGEST_MS) / 1000)


def messages_in(answer: Answer) -> tuple[PromptMessage, ...]:
    """Return the messages of a prompt."""
    return tuple(
        [
            PromptMessage(role=_text(message.get("role")) or "user", content=content)
            for message in _objects(answer.get("messages"))
            if (content := _object(message.get("content")))
        ]
    )


def weight(answer: object) -> int:
    """Return how much an answer says, more or less: characters, and a few for each other value."""
    total, rest = 0, [answer]
    while rest:
        value = rest.pop()
        total += len(value) if isinstance(value, str) else _LEAST_WEIGHT
        if isinstance(value, dict):
            members = cast("dict[str, object]", value)
            rest += [*members, *members.values()]
        elif isinstance(value, list):
            rest += cast("list[object]", value)
    return total


# -- JSON from elsewhere -------------------------------------------------------------------------


def _text(value: object) -> str:
    return replace_lone_surrogates(value) if isinstance(value, str) else ""


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", lawful(value)) if isinstance(value, dict) else {}


def _objects(values: object) -> list[dict[str, Any]]:
    listed = cast("list[object]", values) if isinstance(values, list) else []
    return [_object(value) for value in listed if isinstance(value, dict)]
