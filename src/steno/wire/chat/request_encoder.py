"""Encode requests as the flat JSON of steno: text, and calls and results in own members."""

from __future__ import annotations

from typing import Any, Final, assert_never, final

from msgspec import Raw

from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall
from steno.messages.change import ChangeCode
from steno.messages.content import FileReference, Image, Opaque, Resource, Text, Thinking
from steno.messages.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.outcome import Outcome
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.wire.chat.payload import NAME, PROVIDER
from steno.wire.extras import merge_extras, pop_form, pop_object, select_extras
from steno.wire.report import ChangeCollector, EncodedRequest
from steno.wire.request_encoder import (
    ANY_NAME,
    WHOLE_MESSAGE_KIND,
    MessageListWriter,
    MessageWriter,
    PartJson,
    RequestTarget,
    call_name,
    encode_json,
    is_sendable,
    reference_text,
    wire_name,
    write_arguments,
)
from steno.wire.request_encoder import Encoder as BaseEncoder
from steno.wire.tools_and_settings import drop_none, write_function, write_tools

_TEXT_SEPARATOR: Final = "\n\n"
"""Between the texts of a user or a tool; those of a model are pieces of one text."""
_EMPTY_CONTENT: Final[dict[str, dict[str, Any]]] = {
    "absent": {},
    "null": {"content": None},
    "empty": {"content": ""},
}
"""Empty content, by the form in which it was read."""


def encode_request(request: Request, *, stream: bool | None = None) -> EncodedRequest:
    """Encode one request; an `Encoder` does the same for every turn of a conversation."""
    return Encoder().encode(request, stream=stream)


@final
class Encoder(BaseEncoder):
    """Encodes the requests of a conversation, each message once."""

    def _target(self, request: Request) -> RequestTarget:
        return RequestTarget(PROVIDER, NAME, request.model)

    def _new_writer(self, target: RequestTarget) -> MessageWriter:
        return _ChatMessageWriter(target)

    def _body(
        self, request: Request, messages: bytes, losses: ChangeCollector, *, stream: bool | None
    ) -> bytes:
        extras = select_extras(request, NAME, losses)
        form = pop_form(extras)
        members = _write_settings(request, extras, losses)
        if stream is not None:
            members["stream"] = stream
        if not members and form.get("body") == "list":
            return b"[" + messages + b"]"
        # Messages last: the body of the next turn then begins with the bytes of this one.
        head = encode_json(members)[:-1]
        return b"".join([head, b"," if members else b"", b'"messages":[', messages, b"]}"])


def _write_settings(
    request: Request, extras: dict[str, Any], losses: ChangeCollector
) -> dict[str, Any]:
    members = drop_none(
        model=request.model or None,
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=list(request.stop) or None,
        tool_choice=request.tool_choice or None,
    )
    members |= write_tools(request, extras, lambda tool, at: _write_tool(tool, losses, at))
    return merge_extras(members, extras, losses)


def _write_tool(tool: ToolDefinition, losses: ChangeCollector, at: str) -> dict[str, Any]:
    extras = select_extras(tool, NAME, losses, at=at)
    form = pop_form(extras)
    members = write_function(tool, wire_name(tool, ANY_NAME, losses, at=at))
    strict = form.get("strict", "absent" if tool.strict else False)
    return members | ({} if strict == "absent" else {"strict": strict}) | extras


# -- messages --------------------------------------------------------------------------------------


@final
class _ChatMessageWriter(MessageListWriter):
    """Writes one object for each message."""

    def _add_prompt(self, message: SystemMessage | UserMessage) -> None:
        first = message.content[0]
        if isinstance(first, Opaque) and first.kind == WHOLE_MESSAGE_KIND:
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
            self.losses.note(ChangeCode.ORDER, "calls_after_text")
        self._write(message, {"role": "assistant"}, {"tool_calls": calls} if calls else {})

    def _write_call(self, call: AnyToolCall, at: str) -> dict[str, Any]:
        extras = select_extras(call, NAME, self.losses, at=at)
        form = pop_form(extras)
        self._note_seal_loss(call, at)
        name: str = (
            form["name"] if "name" in form else call_name(call, ANY_NAME, self.losses, at=at)
        )
        members = {} if form.get("id") == "absent" else {"id": call.id}
        inner = {"name": name} | write_arguments(call, form.get("arguments"), self.losses, at=at)
        if form.get("function") == "inside":
            members_inside = pop_object(extras, "function")
            inner = {"function": merge_extras(inner, members_inside, self.losses, at=at)}
        return merge_extras(members | inner, extras, self.losses, at=at)

    def _add_result(self, message: ToolResultMessage) -> None:
        members: dict[str, Any] = {"role": "tool", "tool_call_id": message.tool_call_id}
        if message.is_error and message.outcome is not Outcome.ERROR:
            self.losses.note(ChangeCode.OUTCOME, "sent_as_error", value=message.outcome.value)
        self._write(message, members, {"is_error": True} if message.is_error else {})

    # -- content -----------------------------------------------------------------------------

    def _write(
        self, message: Message, head: dict[str, Any], tail: dict[str, Any] | None = None
    ) -> None:
        extras = select_extras(message, NAME, self.losses)
        form: str | None = pop_form(extras).get("content")
        is_model = isinstance(message, AssistantMessage)
        parts = self._write_parts(message)
        if form == "parts" or any(isinstance(part, Raw) for part in parts):
            content: dict[str, Any] = {"content": parts}
        elif parts:
            content = {"content": self._join_texts(parts, "" if is_model else _TEXT_SEPARATOR)}
        else:
            content = _EMPTY_CONTENT.get(form or "", {} if is_model else {"content": ""})
        self._written.append(encode_json(head | content | (tail or {}) | extras))

    def _write_parts(self, message: Message) -> list[PartJson]:
        parts: list[PartJson] = []
        for number, block in enumerate(message.content):
            at = f".content[{number}]"
            match block:
                case Text():
                    self._note_seal_loss(block, at)
                    extras = select_extras(block, NAME, self.losses, at=at)
                    part = {"type": "text", "text": block.text}
                    parts.append(merge_extras(part, extras, self.losses, at=at))
                case FileReference() | Resource():
                    text = reference_text(block, self.losses, at=at)
                    extras = select_extras(block, NAME, self.losses, at=at)
                    part = {"type": "text", "text": text}
                    parts.append(merge_extras(part, extras, self.losses, at=at))
                case Thinking():
                    self._note_seal_loss(block, at)
                    self.losses.note(ChangeCode.THINKING, "no_place", at=at)
                case Image():
                    self.losses.note(ChangeCode.IMAGE, "text_only", at=at)
                case Opaque():
                    if is_sendable(block, NAME, self.losses, at=at):
                        parts.append(Raw(block.raw.encode()))
                case ToolCall() | InvalidToolCall():
                    pass  # these are members of their own
                case _:
                    assert_never(block)
        return parts

    def _join_texts(self, parts: list[PartJson], separator: str) -> str:
        """Join several texts."""
        texts = [part for part in parts if isinstance(part, dict)]
        if len(texts) > 1:
            self.losses.note(ChangeCode.ORDER, "texts_joined")
        if any(text.keys() != {"type", "text"} for text in texts):
            self.losses.note(ChangeCode.EXTRAS, "no_place_in_text")
        return separator.join([text["text"] for text in texts])

    def _note_seal_loss(self, block: Text | Thinking | AnyToolCall, at: str) -> None:
        if block.seal is not None:
            self.losses.note(ChangeCode.SEAL, "other_model", at=at)
