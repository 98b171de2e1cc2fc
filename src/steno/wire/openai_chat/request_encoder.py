"""Encode requests for the Chat Completions API, in the dialect of a server.

For servers that require user and assistant messages to alternate, adjacent messages of one role are
merged.
"""

from __future__ import annotations

from functools import partial
from typing import Any, assert_never, final

import msgspec

from steno.messages.call import InvalidToolCall, ToolCall
from steno.messages.change import ChangeCode
from steno.messages.content import Image, Opaque, Text, Thinking
from steno.messages.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.wire import request_encoder as base
from steno.wire.extras import Members, get_form, pop_object
from steno.wire.openai_chat import dialect as dialects
from steno.wire.openai_chat.dialect import FUNCTION_EXTRAS, LEGACY_CALL, OPENAI, Dialect
from steno.wire.openai_chat.payload import LEGAL_NAME, NAME
from steno.wire.request_encoder import PartJson, RequestTarget, ValueWriter
from steno.wire.tolerant import read_as


def encode_request(
    request: Request, *, dialect: Dialect = OPENAI, stream: bool | None = None
) -> base.EncodedRequest:
    """Encode one request; use an `Encoder` for the successive requests of a conversation."""
    return Encoder(dialect).encode(request, stream=stream)


@final
class Encoder(base.Encoder):
    """Encodes the successive requests of a conversation; each message is encoded only once."""

    def __init__(self, dialect: Dialect = OPENAI) -> None:
        """Start a conversation with a server of this dialect."""
        super().__init__(dialect.provider, NAME, partial(CompletionMessageWriter, dialect=dialect))
        self._dialect = dialect

    def _body(
        self, request: Request, messages: bytes, values: ValueWriter, *, stream: bool | None
    ) -> bytes:
        members = _write_settings(request, self._dialect, values) | base.drop_none(stream=stream)
        if stream and self._dialect.has_stream_options:
            members.setdefault("stream_options", dialects.USAGE_STREAM_OPTIONS)
        return base.join_body(members, "messages", b"[", messages, b"]")


def _write_settings(request: Request, dialect: Dialect, values: ValueWriter) -> Members:
    extras, form = values.read_extras(request)
    limit: str = form.get("max_tokens", dialect.max_tokens_field)
    is_string = form.get("stop") == "string" and len(request.stop) == 1
    members = base.drop_none(
        model=request.model or None,
        **{limit: request.max_tokens},
        temperature=request.temperature,
        top_p=request.top_p,
        stop=request.stop[0] if is_string else list(request.stop) or None,
        stream_options=dialects.USAGE_STREAM_OPTIONS if "stream_options" in form else None,
    )
    members |= base.write_tools(
        request, extras, lambda tool, at: _write_tool(tool, dialect, values, at)
    )
    members |= base.write_tool_choice(
        request, lambda tool: base.wrap_function({"name": values.tool_name(tool, LEGAL_NAME)})
    )
    if "max_tokens" not in form and limit in members:
        # Servers accept only one name of the limit; a recorded request with both is kept.
        extras = {
            limit if name in dialects.MAX_TOKENS_FIELDS else name: value
            for name, value in extras.items()
        }
    return values.merge(members, extras)


def _write_tool(tool: ToolDefinition, dialect: Dialect, values: ValueWriter, at: str) -> Members:
    extras, form = values.read_extras(tool, at)
    function = base.write_function(tool, values.tool_name(tool, LEGAL_NAME, at))
    if not dialect.has_strict_tools:
        values.note_unenforced_schema(tool, at)
    elif tool.strict:
        function["strict"] = True
    function = _omit(form.get("absent", []), function) | pop_object(form, "function")
    return base.wrap_function(function) | extras


@final
class CompletionMessageWriter(base.MessageWriter):
    """Writes one object for each message, unless the dialect merges adjacent messages."""

    def __init__(self, target: RequestTarget, dialect: Dialect) -> None:
        super().__init__(target)
        self._dialect = dialect
        self._parsed_fields = {"arguments"} if dialect.parses_arguments else set[str]()
        """The fields that the server parses as JSON; the input of a custom tool is any text."""
        self._images: list[PartJson] = []
        """The images of tool results, which are sent in a user message after the last result.

        A result itself may have only text.
        """
        self._moves_images = False
        """Whether images of the current tool result are moved to a user message."""
        self._legacy_names: dict[str, str | None] = {}
        """The tool name of each legacy call, by the id that steno generated for the call."""

    def add(self, message: Message) -> None:
        """Write the next message, after any images of the tool results before it."""
        if self._images and not isinstance(message, ToolResultMessage):
            self._add_raw({"role": "user", "content": self._images})
            self._images = []
        super().add(message)

    def _unfinished(self) -> list[Members]:
        waiting = [{"role": "user", "content": self._images}] if self._images else []
        return [*super()._unfinished(), *waiting]

    def _add_raw(self, message: Members | bytes) -> None:
        if isinstance(message, bytes):
            super()._add_raw(message)
            return
        if self._dialect.merges_neighbours:
            if message["role"] == "system" and (self._written or self._latest is not None):
                self.losses.note(ChangeCode.SYSTEM, "sent_as_user")
                message["role"] = "user"
            thinking = self._dialect.thinking_field
            if self._latest is not None and _can_merge(self._latest, message, thinking):
                self.losses.note(ChangeCode.ORDER, "merged")
                self._latest = _merge_adjacent(self._latest, message, thinking)
                return
        if self._latest is not None:  # as in the base class, inlined for speed
            self._written.append(base.encode_json(self._latest))
        self._latest = message

    def _add_system(self, message: SystemMessage) -> None:
        extras, form = self.read_extras(message)
        parts = self.write_prompt(message.content)
        members = {"role": self._dialect.system_role}
        self._add_raw(self._with_content(members, parts, form) | extras)

    def _add_user(self, message: UserMessage) -> None:
        extras, form = self.read_extras(message)
        parts = self.write_prompt(message.content)
        if parts:
            self._add_raw(self._with_content({"role": "user"}, parts, form) | extras)
        else:  # servers reject a user message whose content is null
            self.losses.note(ChangeCode.BLANK, "empty_message")

    def _add_assistant(self, message: AssistantMessage) -> None:
        extras, form = self.read_extras(message)
        parts: list[PartJson] = []
        calls: list[Members] = []
        legacy: Members = {}
        thinking: list[str] = []
        details: list[msgspec.Raw] = []
        field = form.get("thinking", self._dialect.thinking_field)
        for at, block in self.model_blocks(message.content):
            match block:
                case Text():
                    parts += self.write_text(block, at)
                case Thinking():
                    thinking += self._write_thinking(block, field, at)
                    details += self._write_details(block, at)
                case ToolCall() | InvalidToolCall():
                    if not legacy and LEGACY_CALL in get_form(block, NAME):
                        legacy[LEGACY_CALL] = self._write_legacy_call(block, at)
                    else:
                        calls.append(self._write_call(block, at))
                case Image():
                    self.losses.note(ChangeCode.IMAGE, "from_model", at=at)
                case Opaque():
                    parts += self.write_opaque(block, at)
                case _:
                    assert_never(block)
        members = self._with_content({"role": "assistant"}, parts, form)
        if field is not None and any(thinking):
            members[field] = "".join(thinking)
        if details:
            members["reasoning_details"] = details
        if calls:
            members["tool_calls"] = calls
        members |= legacy | extras
        if message.content and members == {"role": "assistant", "content": None}:
            self.losses.note(ChangeCode.BLANK, "empty_message")
        else:
            self._add_raw(members)

    def _write_thinking(self, block: Thinking, field: str | None, at: str) -> list[str]:
        self.note_foreign_seal(block, at)
        if field is not None or not block.text:
            return [block.text]
        self.losses.note(ChangeCode.THINKING, "no_place", at=at)
        return []

    def _write_details(self, block: Thinking, at: str) -> list[msgspec.Raw]:
        """Return the reasoning details in the seal of a block, if the target issued the seal."""
        if block.seal is None or not self.target.accepts(block.seal):
            return []
        details = read_as(block.seal.data.encode(), list[msgspec.Raw])
        if details is None:
            self.losses.note(ChangeCode.SEAL, "unreadable", at=at)
        return details or []

    def _write_call(self, call: ToolCall | InvalidToolCall, at: str) -> Members:
        extras, form = self.read_extras(call, at)
        is_custom = extras.get("type") == "custom"
        if is_custom and not self._dialect.has_custom_tools:
            self.losses.note(ChangeCode.TOOL, "sent_as_function_call", at=at)
            del extras["type"]
            is_custom = False
        members: Members = {"id": self._write_call_id(call.id, form)}
        if is_custom:
            members["type"] = extras.pop("type")
        elif form.get("type") != "absent":
            members["type"] = form.get("type", "function")
        field = "input" if is_custom else "arguments"
        function = self._write_function(call, form, at, field=field)
        if form.get("function") != "absent":
            members["custom" if is_custom else "function"] = function
        return self.merge(members, extras, at)

    def _write_legacy_call(self, call: ToolCall | InvalidToolCall, at: str) -> Members:
        _, form = self.read_extras(call, at)
        function = self._write_function(call, form, at, field="arguments")
        self._legacy_names[call.id] = function.get("name")
        return function

    def _write_function(
        self, call: ToolCall | InvalidToolCall, form: Members, at: str, *, field: str
    ) -> Members:
        self.note_foreign_seal(call, at)
        absent: list[str] = form.get("absent", [])
        name = "" if "name" in absent else self.call_name(call, form, LEGAL_NAME, at)
        arguments: Any = form.get("arguments", call.arguments)
        if form.get("arguments_are") == "object":
            arguments = msgspec.Raw(call.arguments.encode())
        elif isinstance(call, InvalidToolCall) and field in self._parsed_fields:
            self.losses.note(
                ChangeCode.INVALID_CALL,
                "raw_text_as_argument",
                at=at,
                value=call.name,
                target=call.id,
            )
            arguments = base.encode_json({"invalid_arguments": call.arguments}).decode()
        return _omit(absent, {"name": name, field: arguments}) | pop_object(form, FUNCTION_EXTRAS)

    def _add_result(self, message: ToolResultMessage) -> None:
        extras, form = self.read_extras(message)
        self._moves_images = form.get("images") != "inside"
        parts = self.write_prompt(message.content)
        self._moves_images = False
        if message.is_error:
            self.losses.note(ChangeCode.OUTCOME, "not_sent", value=message.outcome.value)
        if not parts and "content" not in form:
            parts.append({"type": "text", "text": str(message.outcome) if message.is_error else ""})
        members = self._with_content(self._write_call_reference(message, form), parts, form)
        self._add_raw(self.merge(members, extras))

    def _write_call_reference(self, message: ToolResultMessage, form: Members) -> Members:
        """Return the role of a result, with its call id or, for a legacy call, its tool name."""
        id = message.tool_call_id
        if LEGACY_CALL in form or id in self._legacy_names:
            name = form.get(LEGACY_CALL, self._legacy_names.get(id))
            return {"role": "function"} | base.drop_none(name=name)
        return {"role": "tool", "tool_call_id": self._write_call_id(id, form)}

    def _write_call_id(self, id: str, form: Members) -> str:
        """Return the call id to send.

        An id that the dialect does not accept is replaced by a hash, but a recorded id is kept if
        the dialect has only the default rule.
        """
        legal, length = self._dialect.call_id, self._dialect.call_id_length
        if "id" in form and legal is dialects.DEFAULT_CALL_ID:
            return id
        return self.legal_id(id, legal, length=length)

    # -- parts -------------------------------------------------------------------------------

    def _with_content(self, members: Members, parts: list[PartJson], form: Members) -> Members:
        """Return the members with the content added.

        A single plain text is written as a string, unless it was recorded as a list. Empty content
        is null, unless it was recorded as absent or as an empty list.
        """
        content: Any = parts
        if not parts:
            content = [] if form.get("content") == "parts" else None
        elif "content" not in form and (text := base.get_plain_text(parts)) is not None:
            content = text
        if content is None and form.get("content") == "absent":
            return members
        return members | {"content": content}

    def write_text(self, block: Text, at: str) -> list[PartJson]:
        """Write a text block."""
        self.note_foreign_seal(block, at)
        extras = base.select_extras(block, NAME, self.losses, at=at)
        return [self.merge({"type": "text", "text": block.text}, extras, at)]

    def write_image(self, block: Image, at: str) -> list[PartJson]:
        """Write an image.

        An image of a tool result is moved to a user message after the results, unless it was
        recorded in the result.
        """
        if self._moves_images:
            self.losses.note(ChangeCode.IMAGE, "moved_to_user_message", at=at)
        url = base.image_url(block)
        if url is None:
            self.losses.note(ChangeCode.IMAGE, "bytes_missing", at=at)
            return []
        extras = base.select_extras(block, NAME, self.losses, at=at)
        inner = self.merge({"url": url}, pop_object(extras, "image_url"), at)
        part = self.merge({"type": "image_url", "image_url": inner}, extras, at)
        if not self._moves_images:
            return [part]
        self._images.append(part)
        return []


def _omit(absent: list[str], members: Members) -> Members:
    """Return the members without those in `absent`, which the recorded request did not have."""
    return {name: value for name, value in members.items() if name not in absent}


# -- adjacent messages -----------------------------------------------------------------------


def _can_merge(first: Members, second: Members, thinking: str | None) -> bool:
    """Return whether two messages can be merged without losing a member.

    Only two user messages or two assistant messages can be merged.
    """
    if first["role"] != second["role"] or first["role"] not in ("user", "assistant"):
        return False
    merged = {"role", "content", "tool_calls", thinking}
    return all(
        first.get(name) == second.get(name) for name in (first.keys() | second.keys()) - merged
    )


def _merge_adjacent(first: Members, second: Members, thinking: str | None) -> Members:
    contents = [message["content"] for message in (first, second) if message.get("content")]
    merged = first | second
    if all(isinstance(content, str) for content in contents):
        merged["content"] = "\n\n".join(contents) if contents else None
    else:
        merged["content"] = [part for content in contents for part in base.expand_content(content)]
    calls = [*(first.get("tool_calls") or ()), *(second.get("tool_calls") or ())]
    if thinking is not None:
        thoughts = [message[thinking] for message in (first, second) if message.get(thinking)]
        merged |= {thinking: "\n\n".join(thoughts)} if thoughts else {}
    return merged | ({"tool_calls": calls} if calls else {})
