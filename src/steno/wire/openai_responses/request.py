"""Write requests."""

from __future__ import annotations

from typing import Any, final

from steno.content import Text
from steno.json_object import freeze_mapping
from steno.message import UserMessage
from steno.request import Request
from steno.tool import ToolDefinition
from steno.wire.openai_responses.messages import Writer, instructions_of
from steno.wire.openai_responses.shapes import LEGAL_NAME, NAME, PROVIDER
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
from steno.wire.writing import (
    Encoder as BaseEncoder,
)


def encode_request(
    request: Request, *, provider: str = PROVIDER, stream: bool | None = None
) -> Encoded:
    """Encode one request; an `Encoder` does the same for every turn of a conversation."""
    return Encoder(provider).encode(request, stream=stream)


@final
class Encoder(BaseEncoder):
    """Encodes the requests of a conversation, each message once."""

    def __init__(self, provider: str = PROVIDER) -> None:
        """Take the name of who will read the requests: what others sealed is not for them."""
        super().__init__()
        self._provider = provider

    def _target(self, request: Request) -> Target:
        return Target(self._provider, NAME, request.model)

    def _new_writer(self, target: Target) -> MessageWriter:
        return Writer(target)

    def _body(
        self, request: Request, messages: bytes, losses: Losses, *, stream: bool | None
    ) -> bytes:
        extras = extras_of(request, NAME, losses)
        form: dict[str, Any] = extras.pop(FORM, {})
        members = _settings(request, extras, losses)
        if stream is not None:
            extras["stream"] = stream
        # Messages last: the body of the next turn then begins with the bytes of this one.
        head = dump(members | extras)[:-1]
        if not messages and form.get("input") == "absent":
            return head + b"}"
        return head + (b"," if len(head) > 1 else b"") + _input(request, messages, form) + b"}"


def _input(request: Request, messages: bytes, form: dict[str, Any]) -> bytes:
    first, last = request.messages[0], request.messages[-1]
    is_alone = len(request.messages) == (1 if instructions_of(first) is None else 2)
    if (
        form.get("input") == "string"
        and is_alone
        and last == UserMessage((Text(last.text or " "),))
    ):
        return b'"input":' + dump(last.text)
    return b'"input":[' + messages + b"]"


# -- settings and tools ----------------------------------------------------------------------


def _settings(request: Request, extras: dict[str, Any], losses: Losses) -> dict[str, Any]:
    members: dict[str, Any] = {}
    if request.model:
        members["model"] = request.model
    instructions = instructions_of(request.messages[0])
    if instructions is not None:
        members["instructions"] = instructions
    if request.max_tokens is not None:
        members["max_output_tokens"] = request.max_tokens
    if request.temperature is not None:
        members["temperature"] = request.temperature
    if request.top_p is not None:
        members["top_p"] = request.top_p
    if request.stop:
        losses.note(LossCode.SETTING, "left out texts to stop at", at=".stop")
    if request.tools or "tools" in extras:
        tools = [_tool(tool, losses, f".tools[{n}]") for n, tool in enumerate(request.tools)]
        members["tools"] = add_others(tools, extras.pop("tools", None))
    if request.tool_choice is not None:
        members["tool_choice"] = _tool_choice(request, losses)
    return members


def _tool_choice(request: Request, losses: Losses) -> Any:
    choice = request.tool_choice
    for tool in request.tools:
        if tool.name == choice:
            return {"type": "function", "name": _tool_name(tool, losses, "")}
    return choice


def _tool(tool: ToolDefinition, losses: Losses, at: str) -> dict[str, Any]:
    extras = extras_of(tool, NAME, losses, at=at)
    form: dict[str, Any] = extras.pop(FORM, {})
    members: dict[str, Any] = {
        "type": "function",
        "name": _tool_name(tool, losses, at),
        "description": tool.description,
        "parameters": freeze_mapping(tool.parameters).thaw(),
        # Written out either way: here a tool is strict unless it says otherwise.
        "strict": tool.strict,
    }
    for name in form.get("absent", ()):
        members.pop(name, None)
    return members | extras


def _tool_name(tool: ToolDefinition, losses: Losses, at: str) -> str:
    form = extras_of(tool, NAME, Losses()).get(FORM, {})
    return str(form["name"]) if "name" in form else wire_name(tool, LEGAL_NAME, losses, at=at)
