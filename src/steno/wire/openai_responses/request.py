"""Write requests."""

from __future__ import annotations

from typing import Any, final

from steno.content import Text
from steno.message import UserMessage
from steno.request import Request
from steno.tool import ToolDefinition
from steno.wire.extras import extras_of, merge_extras, take_form
from steno.wire.functions import (
    function_name,
    function_of,
    given,
    write_choice,
    write_tools,
)
from steno.wire.openai_responses.messages import Writer, instructions_of
from steno.wire.openai_responses.shapes import LEGAL_NAME, NAME, PROVIDER
from steno.wire.report import Encoded, LossCode, Losses
from steno.wire.writing import Encoder as BaseEncoder
from steno.wire.writing import MessageWriter, Target, dump


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
        form = take_form(extras)
        members = _settings(request, extras, losses) | given(stream=stream)
        # Messages last: the body of the next turn then begins with the bytes of this one.
        head = dump(merge_extras(members, extras, losses))[:-1]
        if not messages and form.get("input") == "absent":
            return head + b"}"
        comma = b"," if len(head) > 1 else b""
        return b"".join([head, comma, b'"input":', *_input(request, messages, form), b"}"])


def _input(request: Request, messages: bytes, form: dict[str, Any]) -> tuple[bytes, ...]:
    first, last = request.messages[0], request.messages[-1]
    is_alone = len(request.messages) == (1 if instructions_of(first) is None else 2)
    if (
        form.get("input") == "string"
        and is_alone
        and last == UserMessage((Text(last.text or " "),))
    ):
        return (dump(last.text),)
    return b"[", messages, b"]"


# -- settings and tools ----------------------------------------------------------------------


def _settings(request: Request, extras: dict[str, Any], losses: Losses) -> dict[str, Any]:
    members = given(
        model=request.model or None,
        instructions=instructions_of(request.messages[0]),
        max_output_tokens=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
    )
    if request.stop:
        losses.note(LossCode.SETTING, "left out texts to stop at", at=".stop")
    members |= write_tools(request, extras, lambda tool, at: _tool(tool, losses, at))
    return members | write_choice(
        request, lambda tool: {"type": "function", "name": _tool_name(tool, losses)}
    )


def _tool(tool: ToolDefinition, losses: Losses, at: str) -> dict[str, Any]:
    extras = extras_of(tool, NAME, losses, at=at)
    form = take_form(extras)
    # Written out either way: here a tool is strict unless it says otherwise.
    function = function_of(tool, _tool_name(tool, losses, at=at)) | {"strict": tool.strict}
    for name in form.get("absent", ()):
        function.pop(name, None)
    return {"type": "function"} | function | extras


def _tool_name(tool: ToolDefinition, losses: Losses, *, at: str = "") -> str:
    return function_name(tool, NAME, LEGAL_NAME, losses, at=at)
