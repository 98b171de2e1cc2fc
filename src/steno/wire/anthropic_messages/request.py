"""Write requests: settings, tools and the system prompt; `writer` has the messages."""

from __future__ import annotations

from itertools import takewhile
from typing import Any, Final, final

from steno.json_object import expose, freeze_mapping
from steno.message import SystemMessage
from steno.request import Request
from steno.tool import ToolDefinition
from steno.wire.anthropic_messages.parts import Part
from steno.wire.anthropic_messages.shapes import (
    ABSENT,
    DEFAULT_MAX_TOKENS,
    HIGHEST_TEMPERATURE,
    LEGAL_NAME,
    NAME,
    PROVIDER,
)
from steno.wire.anthropic_messages.writer import Writer, form_of, is_lifted
from steno.wire.report import Encoded, LossCode
from steno.wire.writing import (
    FORM,
    Losses,
    MessageWriter,
    Target,
    add_others,
    dump,
    extras_of,
    wire_name,
)
from steno.wire.writing import Encoder as BaseEncoder


def encode_request(
    request: Request,
    *,
    provider: str = PROVIDER,
    stream: bool | None = None,
    strict_tools: bool = True,
) -> Encoded:
    """Encode one request; an `Encoder` does the same for every turn of a conversation."""
    return Encoder(provider=provider, strict_tools=strict_tools).encode(request, stream=stream)


@final
class Encoder(BaseEncoder):
    """Encodes the requests of a conversation, each message once."""

    def __init__(self, *, provider: str = PROVIDER, strict_tools: bool = True) -> None:
        """Take whom seals are for, and whether the model can be held to the schema of a tool."""
        super().__init__()
        self._provider = provider
        self._has_strict_tools = strict_tools

    def _target(self, request: Request) -> Target:
        return Target(self._provider, NAME, request.model)

    def _new_writer(self, target: Target) -> MessageWriter:
        return Writer(target)

    def _body(
        self, request: Request, messages: bytes, losses: Losses, *, stream: bool | None
    ) -> bytes:
        members = self._settings(request, losses)
        if stream is not None:
            members["stream"] = stream
        system = self._system(request, losses)
        if system is not None:
            members["system"] = system
        # Messages last: the body of the next turn then begins with the bytes of this one.
        head = dump(members)[:-1]
        return head + (b"," if members else b"") + b'"messages":[' + messages + b"]}"

    def _settings(self, request: Request, losses: Losses) -> dict[str, Any]:
        extras = extras_of(request, NAME, losses)
        form: dict[str, Any] = extras.pop(FORM, {})
        members: dict[str, Any] = {}
        if request.model:
            members["model"] = request.model
        if request.max_tokens is not None:
            members["max_tokens"] = request.max_tokens
        elif form.get("max_tokens") != ABSENT:
            members["max_tokens"] = DEFAULT_MAX_TOKENS
        if request.temperature is not None:
            members["temperature"] = min(request.temperature, HIGHEST_TEMPERATURE)
            if request.temperature > HIGHEST_TEMPERATURE:
                losses.note(
                    LossCode.SETTING, "lowered to 1, the highest there is", at=".temperature"
                )
        if request.top_p is not None:
            members["top_p"] = request.top_p
        if request.stop:
            members["stop_sequences"] = request.stop
        tools = [self._tool(tool, losses, f".tools[{n}]") for n, tool in enumerate(request.tools)]
        if tools or "tools" in extras:
            members["tools"] = add_others(tools, extras.pop("tools", None))
        if request.tool_choice is not None:
            members["tool_choice"] = _tool_choice(request) | form.get("tool_choice", {})
        return members | extras

    def _system(self, request: Request, losses: Losses) -> str | list[Part] | None:
        """Return the system prompt: the messages that stand before all others."""
        lifted = [m for m in takewhile(is_lifted, request.messages) if isinstance(m, SystemMessage)]
        return Writer(self._target(request), losses).system(lifted)

    def _tool(self, tool: ToolDefinition, losses: Losses, at: str) -> dict[str, Any]:
        extras = extras_of(tool, NAME, losses, at=at)
        form: dict[str, Any] = extras.pop(FORM, {})
        members: dict[str, Any] = {"name": _tool_name(tool, losses, at)}
        if form.get("description") != ABSENT:
            members["description"] = tool.description
        members["input_schema"] = expose(freeze_mapping(tool.parameters))
        if tool.strict and self._has_strict_tools:
            members["strict"] = True
        elif tool.strict:
            losses.note(LossCode.TOOL, "the model is not held to the schema", at=at)
        return members | extras


def _tool_name(tool: ToolDefinition, losses: Losses, at: str) -> str:
    recorded: str | None = form_of(tool).get("name")
    return recorded or wire_name(tool, LEGAL_NAME, losses, at=at)


def _tool_choice(request: Request) -> dict[str, Any]:
    choice = request.tool_choice or ""
    for tool in request.tools:
        if tool.name == choice:
            return {"type": "tool", "name": _tool_name(tool, Losses(), "")}
    if choice in _CHOICES:
        return {"type": _CHOICES[choice]}
    return {"type": "tool", "name": choice}


_CHOICES: Final = {"auto": "auto", "none": "none", "required": "any"}
