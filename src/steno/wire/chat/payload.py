"""The JSON of responses, as far as steno reads it, with tables of stop reasons and usage."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw

from steno.messages.usage import StopReason
from steno.wire.tolerant import BlockIndex, TolerantStruct

NAME: Final = "chat"
PROVIDER: Final = "steno"
"""The provider name for this protocol, which no real provider uses."""


class Function(TolerantStruct):
    """The name and arguments of a call, in OpenAI's nested form."""

    name: str | None = None
    arguments: Raw = Raw()


class Call(TolerantStruct):
    """A complete tool call; its name and arguments may be in `function`."""

    id: str | None = None
    type: str | None = None
    name: str | None = None
    arguments: Raw = Raw()
    function: Function | None = None


class MessageChunk(TolerantStruct):
    """A whole message, more of its content, or a fragment of one of its calls."""

    growing = ("content", "arguments_delta")
    role: str | None = None
    content: str | None = None
    tool_calls: list[Call] | None = None
    stop_reason: str | None = None
    raw_stop_reason: str | None = None
    usage: dict[str, Any] | None = None
    index: BlockIndex | None = None
    id: str | None = None
    name: str | None = None
    arguments_delta: str | None = None


STOP_REASONS: Final = {reason.value: reason for reason in StopReason}
USAGE: Final = {
    f"{kind}_tokens": (f"{kind}_tokens",)
    for kind in ("input", "output", "cache_read", "cache_write", "thinking")
}
