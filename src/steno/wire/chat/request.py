"""Write requests."""

from __future__ import annotations

from typing import Any, Final, assert_never, final

from msgspec import Raw

from steno.call import AnyToolCall, InvalidToolCall, ToolCall
from steno.content import FileReference, Image, Opaque, Resource, Text, Thinking
from steno.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.outcome import Outcome
from steno.request import Request
from steno.tool import ToolDefinition
from steno.wire.chat.shapes import ANY_NAME, NAME, PROVIDER
from steno.wire.extras import extras_of, merge_extras, take_form, take_inner
from steno.wire.functions import function_of, given, write_tools
from steno.wire.report import Encoded, LossCode, Losses
from steno.wire.writing import (
    MESSAGE,
    ListWriter,
    MessageWriter,
    Target,
    call_name,
    dump,
    is_sendable,
    reference_text,
    wire_name,
    write_arguments,
)
from steno.wire.writing import Encoder as BaseEncoder

_BETWEEN_TEXTS: Final = "\n\n"
"""What stands between the texts of a user or a tool; those of a model are one text cut up."""
_NOTHING: Final[dict[str, dict[str, Any]]] = {
    "absent": {},
    "null": {"content": None},
    "empty": {"content": ""},
}
"""How content that says nothing was written."""

Part = dict[str, Any] | Raw


def encode_request(request: Request, *, stream: bool | None = None) -> Encoded:
    """Encode one request; an `Encoder` does the same for every turn of a conversation."""
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
        extras = extras_of(request, NAME, losses)
        form = take_form(extras)
        members = _settings(request, extras, losses)
        if stream is not None:
            members["stream"] = stream
        if not members and form.get("body") == "list":
            return b"[" + messages + b"]"
        # Messages last: the body of the next turn then begins with the bytes of this one.
        head = dump(members)[:-1]
        return b"".join([head, b"," if members else b"", b'"messages":[', messages, b"]}"])


def _settings(request: Request, extras: dict[str, Any], losses: Losses) -> dict[str, Any]:
    members = given(
        model=request.model or None,
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=list(request.stop) or None,
        tool_choice=request.tool_choice or None,
    )
    members |= write_tools(request, extras, lambda tool, at: _tool(tool, losses, at))
    return merge_extras(members, extras, losses)


def _tool(tool: ToolDefinition, losses: Losses, at: str) -> dict[str, Any]:
    extras = extras_of(tool, NAME, losses, at=at)
    form = take_form(extras)
    members = function_of(tool, wire_name(tool, ANY_NAME, losses, at=at))
    strict = form.get("strict", "absent" if tool.strict else False)
    return members | ({} if strict == "absent" else {"strict": strict}) | extras


# -- messages --------------------------------------------------------------------------------


@final
class _Writer(ListWriter):
    """Writes one object for each message."""

    def _add_prompt(self, message: SystemMessage | UserMessage) -> None:
        first = message.content[0]
        if isinstance(first, Opaque) and first.kind == MESSAGE:
            if is_sendable(first, NAME, self.losses, at=".content[0]"):
                self._written.append(first.raw.encode())
            return
        self._write(message, {"role": message.role.value})

    def _add_assistant(self, message: AssistantMessage) -> None:
        calls: list[dict[str, Any]] = []
        is_moved = False
        for number, block in enumerate(message.content):
            if isinstance(block, AnyToolCall):
                calls.append(self._write_call(block, f".content[{number}]"))
            else:
                is_moved = is_moved or bool(calls)
        if is_moved:
            self.losses.note(LossCode.ORDER, "the calls stand behind the text")
        self._write(message, {"role": "assistant"}, {"tool_calls": calls} if calls else {})

    def _write_call(self, call: AnyToolCall, at: str) -> dict[str, Any]:
        extras = extras_of(call, NAME, self.losses, at=at)
        form = take_form(extras)
        self._note_seal_loss(call, at)
        name: str = (
            form["name"] if "name" in form else call_name(call, ANY_NAME, self.losses, at=at)
        )
        members = {} if form.get("id") == "absent" else {"id": call.id}
        inner = {"name": name} | write_arguments(call, form.get("arguments"), self.losses, at=at)
        if form.get("function") == "inside":
            told = take_inner(extras, "function")
            inner = {"function": merge_extras(inner, told, self.losses, at=at)}
        return merge_extras(members | inner, extras, self.losses, at=at)

    def _add_result(self, message: ToolResultMessage) -> None:
        members: dict[str, Any] = {"role": "tool", "tool_call_id": message.tool_call_id}
        if message.is_error and message.outcome is not Outcome.ERROR:
            self.losses.note(
                LossCode.OUTCOME, f"told as an error that it ended as {message.outcome}"
            )
        self._write(message, members, {"is_error": True} if message.is_error else {})

    # -- content -----------------------------------------------------------------------------

    def _write(
        self, message: Message, head: dict[str, Any], tail: dict[str, Any] | None = None
    ) -> None:
        extras = extras_of(message, NAME, self.losses)
        form: str | None = take_form(extras).get("content")
        is_model = isinstance(message, AssistantMessage)
        parts = self._write_parts(message)
        if form == "parts" or any(isinstance(part, Raw) for part in parts):
            content: dict[str, Any] = {"content": parts}
        elif parts:
            content = {"content": self._join_texts(parts, "" if is_model else _BETWEEN_TEXTS)}
        else:
            content = _NOTHING.get(form or "", {} if is_model else {"content": ""})
        self._written.append(dump(head | content | (tail or {}) | extras))

    def _write_parts(self, message: Message) -> list[Part]:
        parts: list[Part] = []
        for number, block in enumerate(message.content):
            at = f".content[{number}]"
            match block:
                case Text():
                    self._note_seal_loss(block, at)
                    extras = extras_of(block, NAME, self.losses, at=at)
                    part = {"type": "text", "text": block.text}
                    parts.append(merge_extras(part, extras, self.losses, at=at))
                case FileReference() | Resource():
                    text = reference_text(block, self.losses, at=at)
                    extras = extras_of(block, NAME, self.losses, at=at)
                    part = {"type": "text", "text": text}
                    parts.append(merge_extras(part, extras, self.losses, at=at))
                case Thinking():
                    self._note_seal_loss(block, at)
                    self.losses.note(LossCode.THINKING, "left out what the model thought", at=at)
                case Image():
                    self.losses.note(LossCode.IMAGE, "left out: there is text and no more", at=at)
                case Opaque():
                    if is_sendable(block, NAME, self.losses, at=at):
                        parts.append(Raw(block.raw.encode()))
                case ToolCall() | InvalidToolCall():
                    pass  # these stand beside the content
                case _:
                    assert_never(block)
        return parts

    def _join_texts(self, parts: list[Part], separator: str) -> str:
        """Make one text of several."""
        texts = [part for part in parts if isinstance(part, dict)]
        if len(texts) > 1:
            self.losses.note(LossCode.ORDER, "several texts became one")
        if any(text.keys() != {"type", "text"} for text in texts):
            self.losses.note(LossCode.EXTRAS, "left out: a text has no members here")
        return separator.join([text["text"] for text in texts])

    def _note_seal_loss(self, block: Text | Thinking | AnyToolCall, at: str) -> None:
        if block.seal is not None:
            self.losses.note(LossCode.SEAL, "left out the seal of another model", at=at)
