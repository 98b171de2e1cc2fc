"""Encode requests as the flat chat JSON of steno, with calls in a separate member."""

from __future__ import annotations

from typing import Final, assert_never, final

from msgspec import Raw

from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall
from steno.messages.change import ChangeCode
from steno.messages.content import Image, Opaque, Text, Thinking
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
from steno.wire import request_encoder as base
from steno.wire.chat.payload import NAME, PROVIDER
from steno.wire.extras import Members, pop_object
from steno.wire.request_encoder import PartJson, ValueWriter

_TEXT_SEPARATOR: Final = "\n\n"
"""Separates the texts of a prompt or tool result; the texts of a model are joined without it."""
_EMPTY_CONTENT: Final[dict[str, Members]] = {
    "absent": {},
    "null": {"content": None},
    "empty": {"content": ""},
}
"""The members of a message without content, by the recorded form of the content."""


def encode_request(request: Request, *, stream: bool | None = None) -> base.EncodedRequest:
    """Encode one request; use an `Encoder` for the successive requests of a conversation."""
    return Encoder().encode(request, stream=stream)


@final
class Encoder(base.Encoder):
    """Encodes the successive requests of a conversation; each message is encoded only once."""

    def __init__(self) -> None:
        super().__init__(PROVIDER, NAME, _ChatMessageWriter)

    def _body(
        self, request: Request, messages: bytes, values: ValueWriter, *, stream: bool | None
    ) -> bytes:
        extras, form = values.read_extras(request)
        members = base.drop_none(
            model=request.model or None,
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            stop=list(request.stop) or None,
            tool_choice=request.tool_choice or None,
        )
        members |= base.write_tools(request, extras, lambda tool, at: _write_tool(tool, values, at))
        members = values.merge(members, extras) | base.drop_none(stream=stream)
        if not members and form.get("body") == "list":
            return b"[" + messages + b"]"
        return base.join_body(members, "messages", b"[", messages, b"]")


def _write_tool(tool: ToolDefinition, values: ValueWriter, at: str) -> Members:
    extras, form = values.read_extras(tool, at)
    members = base.write_function(tool, values.tool_name(tool, base.ANY_NAME, at))
    strict = form.get("strict", "absent" if tool.strict else False)
    return members | ({} if strict == "absent" else {"strict": strict}) | extras


@final
class _ChatMessageWriter(base.MessageWriter):
    """Writes one object for each message."""

    def _add_prompt(self, message: SystemMessage | UserMessage) -> None:
        self._write(message, {"role": message.role.value})

    def _add_assistant(self, message: AssistantMessage) -> None:
        calls: list[Members] = []
        is_moved = False
        for number, block in enumerate(message.content):
            if isinstance(block, AnyToolCall):
                calls.append(self._write_call(block, f".content[{number}]"))
            else:
                is_moved = is_moved or bool(calls)
        if is_moved:
            self.losses.note(ChangeCode.ORDER, "calls_after_text")
        self._write(message, {"role": "assistant"}, {"tool_calls": calls} if calls else {})

    def _write_call(self, call: AnyToolCall, at: str) -> Members:
        extras, form = self.read_extras(call, at)
        self.note_foreign_seal(call, at)
        name = self.call_name(call, form, base.ANY_NAME, at)
        members = {} if form.get("id") == "absent" else {"id": call.id}
        inner = {"name": name} | self.write_recorded_arguments(call, form.get("arguments"), at)
        if form.get("function") == "inside":
            inner = {"function": self.merge(inner, pop_object(extras, "function"), at)}
        return self.merge(members | inner, extras, at)

    def _add_result(self, message: ToolResultMessage) -> None:
        members: Members = {"role": "tool", "tool_call_id": message.tool_call_id}
        if message.is_error and message.outcome is not Outcome.ERROR:
            self.losses.note(ChangeCode.OUTCOME, "sent_as_error", value=message.outcome.value)
        self._write(message, members, {"is_error": True} if message.is_error else {})

    # -- content -----------------------------------------------------------------------------

    def _write(self, message: Message, head: Members, tail: Members | None = None) -> None:
        extras, notes = self.read_extras(message)
        form: str | None = notes.get("content")
        is_model = isinstance(message, AssistantMessage)
        blocks = (
            self.model_blocks(message.content)
            if isinstance(message, AssistantMessage)
            else self.prompt_blocks(message.content)
        )
        parts = [part for at, block in blocks for part in self._write_parts(block, at)]
        if form == "parts" or any(isinstance(part, Raw) for part in parts):
            content: Members = {"content": parts}
        elif parts:
            content = {"content": self._join_texts(parts, "" if is_model else _TEXT_SEPARATOR)}
        else:
            content = _EMPTY_CONTENT.get(form or "", {} if is_model else {"content": ""})
        self._written.append(base.encode_json(head | content | (tail or {}) | extras))

    def _write_parts(self, block: base.ModelBlock, at: str) -> list[PartJson]:
        match block:
            case Text():
                self.note_foreign_seal(block, at)
                extras, _ = self.read_extras(block, at)
                return [self.merge({"type": "text", "text": block.text}, extras, at)]
            case Thinking():
                self.note_foreign_seal(block, at)
                self.losses.note(ChangeCode.THINKING, "no_place", at=at)
            case Image():
                self.losses.note(ChangeCode.IMAGE, "text_only", at=at)
            case Opaque():
                return [Raw(block.raw.encode())]
            case ToolCall() | InvalidToolCall():
                pass  # calls are written into `tool_calls`
            case _:
                assert_never(block)
        return []

    def _join_texts(self, parts: list[PartJson], separator: str) -> str:
        texts = [part for part in parts if isinstance(part, dict)]
        if len(texts) > 1:
            self.losses.note(ChangeCode.ORDER, "texts_joined")
        if any(text.keys() != {"type", "text"} for text in texts):
            self.losses.note(ChangeCode.EXTRAS, "no_place_in_text")
        return separator.join([text["text"] for text in texts])
