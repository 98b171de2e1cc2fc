"""Write requests."""

from __future__ import annotations

from typing import Any, Final, assert_never, final

from steno.call import AnyToolCall, InvalidToolCall, ToolCall
from steno.content import Image, Opaque, Text, Thinking
from steno.message import (
    AssistantMessage,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.request import Request
from steno.wire.extras import FORM, extras_of, merge_extras, take_form, take_inner
from steno.wire.functions import given, write_tools
from steno.wire.ollama_chat.parts import Parts
from steno.wire.ollama_chat.shapes import NAME, PROVIDER
from steno.wire.ollama_chat.tools import ANY_NAME, write_tool
from steno.wire.report import Encoded, LossCode, Losses
from steno.wire.writing import (
    MESSAGE,
    Anonymous,
    ListWriter,
    MessageWriter,
    Target,
    call_name,
    dump,
    is_sendable,
    write_arguments,
)
from steno.wire.writing import Encoder as BaseEncoder

_BETWEEN_TEXTS: Final = "\n\n"
"""What stands between the texts of a user or a tool; those of a model are one text cut up."""


def encode_request(request: Request, *, stream: bool | None = None) -> Encoded:
    """Encode one request; an `Encoder` does the same for every turn of a conversation.

    Without a word about `stream` the server streams: ask for a whole answer with False.
    """
    return Encoder().encode(request, stream=stream)


@final
class Encoder(BaseEncoder):
    """Encodes the requests of a conversation, each message once."""

    def _target(self, request: Request) -> Target:
        return Target(PROVIDER, NAME, request.model)

    def _new_writer(self, target: Target) -> MessageWriter:
        return _Writer(target)

    def _body(
        self, request: Request, messages: bytes, losses: Losses, *, stream: bool | None
    ) -> bytes:
        members = _settings(request, losses)
        if stream is not None:
            members["stream"] = stream
        # Messages last: the body of the next turn then begins with the bytes of this one.
        head = dump(members)[:-1]
        return b"".join([head, b"," if members else b"", b'"messages":[', messages, b"]}"])


def _settings(request: Request, losses: Losses) -> dict[str, Any]:
    extras = extras_of(request, NAME, losses)
    extras.pop(FORM, None)
    members = given(model=request.model or None)
    members |= write_tools(request, extras, lambda tool, at: write_tool(tool, losses, at))
    if request.tool_choice not in (None, "auto"):
        losses.note(LossCode.SETTING, "left out the choice of a tool, which is the model's here")
    options = given(
        num_predict=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=list(request.stop) or None,
    )
    if options and isinstance(extras.get("options"), dict):
        options = merge_extras(options, extras.pop("options"), losses, at=".options")
    return merge_extras(members | given(options=options or None), extras, losses)


# -- messages --------------------------------------------------------------------------------


@final
class _Writer(ListWriter):
    """Writes one object for each message."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._names: dict[str, tuple[str, str]] = {}
        """By the id of a call: the name of its tool, ours and the server's."""
        self._generated_ids: set[str] = set()
        """Ids that the server never gave, and is not told."""
        self._anonymous_calls = Anonymous(self.losses)

    def _add_prompt(self, message: SystemMessage | UserMessage) -> None:
        first = message.content[0]
        if isinstance(first, Opaque) and first.kind == MESSAGE:
            if is_sendable(first, NAME, self.losses, at=".content[0]"):
                self._written.append(first.raw.encode())
            return
        extras = extras_of(message, NAME, self.losses)
        form = take_form(extras)
        parts = Parts(self.losses, _BETWEEN_TEXTS)
        for number, block in enumerate(message.content):
            parts.add(block, f".content[{number}]")
        self._write({"role": message.role.value}, parts.members(form), extras)

    def _add_assistant(self, message: AssistantMessage) -> None:
        extras = extras_of(message, NAME, self.losses)
        form = take_form(extras)
        parts = Parts(self.losses, "")
        for number, block in enumerate(message.content):
            at = f".content[{number}]"
            match block:
                case Thinking():
                    parts.add_thinking(block, at)
                case ToolCall() | InvalidToolCall():
                    parts.note_seal_loss(block, at)
                    parts.add_call(self._write_call(block, at))
                case Text() | Image() | Opaque():
                    parts.add(block, at)
                case _:
                    assert_never(block)
        self._write({"role": "assistant"}, parts.members(form), extras)

    def _write_call(self, call: AnyToolCall, at: str) -> dict[str, Any]:
        extras = extras_of(call, NAME, self.losses, at=at)
        form = take_form(extras)
        name: str = (
            form["name"] if "name" in form else call_name(call, ANY_NAME, self.losses, at=at)
        )
        self._names[call.id] = (call.name, name)
        function: dict[str, Any] = {
            "name": name,
            **write_arguments(call, form.get("arguments"), self.losses, at=at),
        }
        if "index" in form:
            function["index"] = form["index"]
        members: dict[str, Any] = {"id": call.id}
        if form.get("id") == "absent":
            self._generated_ids.add(call.id)
            self._anonymous_calls.add_call(call.id, name)
            members = {}
        if "type" in form:
            members["type"] = form["type"]
        inner = merge_extras(function, take_inner(extras, "function"), self.losses, at=at)
        return merge_extras(members | {"function": inner}, extras, self.losses, at=at)

    def _add_result(self, message: ToolResultMessage) -> None:
        extras = extras_of(message, NAME, self.losses)
        form = take_form(extras)
        members: dict[str, Any] = {"role": "tool"}
        id = message.tool_call_id
        self._anonymous_calls.add_result(id)
        name = form.get("tool_name") or self._tool_name(message)
        if name and name != "absent":
            members["tool_name"] = name
        if form.get("tool_call_id") != "absent" and id not in self._generated_ids:
            members["tool_call_id"] = id
        parts = Parts(self.losses, _BETWEEN_TEXTS)
        for number, block in enumerate(message.content):
            parts.add(block, f".content[{number}]")
        if message.is_error:
            self.losses.note(LossCode.OUTCOME, f"not told that the call ended as {message.outcome}")
        otherwise = message.outcome.value if message.is_error else ""
        self._write(members, parts.members(form, otherwise=otherwise), extras)

    def _tool_name(self, message: ToolResultMessage) -> str:
        """Return the name that the server knows the tool by."""
        ours, theirs = self._names.get(message.tool_call_id, ("", ""))
        return theirs if message.tool_name in ("", ours) else message.tool_name

    def _write(self, *members: dict[str, Any]) -> None:
        written: dict[str, Any] = {}
        for some in members:
            written |= some
        self._written.append(dump(written))
