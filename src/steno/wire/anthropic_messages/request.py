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
from steno.wire.anthropic_messages.writer import Writer, is_lifted
from steno.wire.extras import extras_of, merge_extras, take_form
from steno.wire.functions import function_name, given, note_not_strict, write_tools
from steno.wire.report import Encoded, LossCode, Losses
from steno.wire.writing import Encoder as BaseEncoder
from steno.wire.writing import MessageWriter, Target, dump


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
        extras = extras_of(request, NAME, losses)
        form = take_form(extras)
        members = self._write_settings(request, extras, form, losses)
        members |= given(stream=stream, system=self._write_system(request, losses))
        members = merge_extras(members, extras, losses)
        # Messages last: the body of the next turn then begins with the bytes of this one.
        head = dump(members)[:-1]
        return b"".join([head, b"," if members else b"", b'"messages":[', messages, b"]}"])

    def _write_settings(
        self, request: Request, extras: dict[str, Any], form: dict[str, Any], losses: Losses
    ) -> dict[str, Any]:
        limit, temperature = request.max_tokens, request.temperature
        if limit is None and "max_tokens" not in extras and form.get("max_tokens") != ABSENT:
            limit = DEFAULT_MAX_TOKENS
        if temperature is not None and temperature > HIGHEST_TEMPERATURE:
            temperature = HIGHEST_TEMPERATURE
            losses.note(LossCode.SETTING, "lowered to 1, the highest there is", at=".temperature")
        members = given(
            model=request.model or None,
            max_tokens=limit,
            temperature=temperature,
            top_p=request.top_p,
            stop_sequences=list(request.stop) or None,
        )
        members |= write_tools(request, extras, lambda tool, at: self._write_tool(tool, losses, at))
        if request.tool_choice is not None:
            members["tool_choice"] = _tool_choice(request) | form.get("tool_choice", {})
            if _thinks(extras) and members["tool_choice"].get("type") in _FORCED:
                done = "sent, though the provider takes no forced call while the model thinks"
                losses.note(LossCode.SETTING, done, at=".tool_choice")
        return members

    def _write_system(self, request: Request, losses: Losses) -> str | list[Part] | None:
        """Return the system prompt: the messages that stand before all others."""
        lifted = [m for m in takewhile(is_lifted, request.messages) if isinstance(m, SystemMessage)]
        writer = Writer(self._target(request))
        prompt = writer.write_system(lifted)
        losses.found += writer.losses.found
        return prompt

    def _write_tool(self, tool: ToolDefinition, losses: Losses, at: str) -> dict[str, Any]:
        extras = extras_of(tool, NAME, losses, at=at)
        form = take_form(extras)
        members: dict[str, Any] = {"name": _tool_name(tool, losses, at)}
        if form.get("description") != ABSENT:
            members["description"] = tool.description
        members["input_schema"] = expose(freeze_mapping(tool.parameters))
        if not self._has_strict_tools:
            note_not_strict(tool, losses, at=at)
        elif tool.strict:
            members["strict"] = True
        return members | extras


def _tool_name(tool: ToolDefinition, losses: Losses, at: str) -> str:
    return function_name(tool, NAME, LEGAL_NAME, losses, at=at)


def _tool_choice(request: Request) -> dict[str, Any]:
    choice = request.tool_choice or ""
    for tool in request.tools:
        if tool.name == choice:
            return {"type": "tool", "name": _tool_name(tool, Losses(), "")}
    if choice in _CHOICES:
        return {"type": _CHOICES[choice]}
    return {"type": "tool", "name": choice}


def _thinks(extras: dict[str, Any]) -> bool:
    thinking = extras.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive")


_CHOICES: Final = {"auto": "auto", "none": "none", "required": "any"}
_FORCED: Final = frozenset({"any", "tool"})
