"""Encode requests for the Anthropic Messages API.

In this protocol, tool results are content of user messages. All results of one turn must be in one
message, before any text, so the next user message is appended to that message. The role is written
first and the content last, so that an extended message begins with the same bytes. Content that
Anthropic would reject is left out or replaced, and reported: seals (signatures of thinking) of
other models, blank text, unsupported image types, and illegal ids and names. Recorded content is
written unchanged.
"""

from __future__ import annotations

import base64
from collections import Counter, deque
from itertools import takewhile
from typing import Final, assert_never, final

import msgspec

from steno.messages.call import InvalidToolCall, ToolCall
from steno.messages.change import Change, ChangeCode
from steno.messages.content import (
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    Opaque,
    Text,
    Thinking,
)
from steno.messages.message import (
    AssistantBlock,
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.wire import request_encoder as base
from steno.wire.anthropic_messages import payload
from steno.wire.anthropic_messages.payload import LEGAL_ID, LEGAL_NAME, NAME, PROVIDER, is_blank
from steno.wire.extras import Members, get_form, pop_object
from steno.wire.request_encoder import ChangeCollector, PartJson, RequestTarget, ValueWriter

_TOOL_CHOICES: Final = {"auto": "auto", "none": "none", "required": "any"}
_FORCED_CHOICES: Final = frozenset({"any", "tool"})
"""Tool choices that Anthropic rejects together with extended thinking."""


def encode_request(
    request: Request,
    *,
    provider: str = PROVIDER,
    stream: bool | None = None,
    strict_tools: bool = True,
) -> base.EncodedRequest:
    """Encode one request; use an `Encoder` for the successive requests of a conversation."""
    return Encoder(provider=provider, strict_tools=strict_tools).encode(request, stream=stream)


@final
class Encoder(base.Encoder):
    """Encodes the successive requests of a conversation; each message is encoded only once."""

    def __init__(self, *, provider: str = PROVIDER, strict_tools: bool = True) -> None:
        """Set the provider whose seals are sent, and whether it enforces strict schemas."""
        super().__init__(provider, NAME, AnthropicMessageWriter)
        self._has_strict_tools = strict_tools

    def _body(
        self, request: Request, messages: bytes, values: ValueWriter, *, stream: bool | None
    ) -> bytes:
        extras, form = values.read_extras(request)
        members = self._write_settings(request, extras, form, values)
        members |= base.drop_none(stream=stream, system=_write_system(request, values))
        members = values.merge(members, extras)
        return base.join_body(members, "messages", b"[", messages, b"]")

    def _write_settings(
        self, request: Request, extras: Members, form: Members, values: ValueWriter
    ) -> Members:
        limit, temperature = request.max_tokens, request.temperature
        if limit is None and "max_tokens" not in extras and form.get("max_tokens") != "absent":
            limit = payload.DEFAULT_MAX_TOKENS
        if temperature is not None and temperature > payload.MAX_TEMPERATURE:
            temperature = payload.MAX_TEMPERATURE
            lowered = "temperature_lowered"
            values.losses.note(
                ChangeCode.SETTING, lowered, at=".temperature", value=f"{temperature:g}"
            )
        members = base.drop_none(
            model=request.model or None,
            max_tokens=limit,
            temperature=temperature,
            top_p=request.top_p,
            stop_sequences=list(request.stop) or None,
        )
        members |= base.write_tools(
            request, extras, lambda tool, at: self._write_tool(tool, values, at)
        )
        if request.tool_choice is not None:
            members["tool_choice"] = _write_tool_choice(request, values) | form.get(
                "tool_choice", {}
            )
            thinking = pop_object({**extras}, "thinking").get("type")
            is_forced = members["tool_choice"].get("type") in _FORCED_CHOICES
            if is_forced and thinking in ("enabled", "adaptive"):
                values.losses.note(
                    ChangeCode.SETTING, "forced_call_with_thinking", at=".tool_choice"
                )
        return members

    def _write_tool(self, tool: ToolDefinition, values: ValueWriter, at: str) -> Members:
        extras, form = values.read_extras(tool, at)
        members: Members = {"name": values.tool_name(tool, LEGAL_NAME, at)}
        if form.get("description") != "absent":
            members["description"] = tool.description
        members["input_schema"] = base.write_schema(tool)
        if not self._has_strict_tools:
            values.note_unenforced_schema(tool, at)
        elif tool.strict:
            members["strict"] = True
        return members | extras


def _write_tool_choice(request: Request, values: ValueWriter) -> Members:
    choice = request.tool_choice or ""
    for tool in request.tools:
        if tool.name == choice:
            # A changed name is already noted for the tool itself.
            silent = ValueWriter(values.target, ChangeCollector())
            return {"type": "tool", "name": silent.tool_name(tool, LEGAL_NAME)}
    if choice in _TOOL_CHOICES:
        return {"type": _TOOL_CHOICES[choice]}
    return {"type": "tool", "name": choice}


def _write_system(request: Request, values: ValueWriter) -> str | list[PartJson] | None:
    """Return the system prompt: the text of the leading system messages."""
    blocks = ContentBlockWriter(values.target, ChangeCollector())
    parts: list[PartJson] = []
    leading = takewhile(_is_system_prompt, request.messages)
    lifted = [message for message in leading if isinstance(message, SystemMessage)]
    for position, message in enumerate(lifted):
        blocks.losses.place = f"messages[{position}]"
        parts += blocks.write_prompt(message.content)
        extras, _ = blocks.read_extras(message)
        if extras:
            blocks.losses.note(ChangeCode.EXTRAS, "no_place_in_prompt")
    values.losses.found += blocks.losses.found
    return _collapse_content(parts, get_form(lifted[0], NAME) if lifted else {}) or None


@final
class AnthropicMessageWriter(base.MessageWriter):
    """Writes messages; tool results and the user message after them become one message."""

    def __init__(self, target: RequestTarget) -> None:
        super().__init__(target)
        self._blocks = ContentBlockWriter(target, self.losses)
        self._keeps_trailing_blanks = False
        """Whether the newest assistant message was recorded with whitespace at its end."""
        self._trim_loss: Change | None = None

    def add(self, message: Message) -> None:
        """Write the next message, unless it belongs to the system prompt."""
        if self._previous is not None or not _is_system_prompt(message):
            super().add(message)

    def _unfinished(self) -> list[Members]:
        newest = self._trim_trailing_blanks(self._latest)
        return [] if newest is None else [newest]

    # -- turns -------------------------------------------------------------------------------

    def _add_system(self, message: SystemMessage) -> None:
        extras, form = self.read_extras(message)
        parts = self._blocks.write_prompt(message.content)
        if form.get(payload.IN_MESSAGES):
            self._write("system", _collapse_content(parts, form), extras)
        else:
            self.losses.note(ChangeCode.SYSTEM, "sent_as_user")
            self._write("user", _collapse_content(parts, form), extras, joins=self._follows_result)

    def _add_user(self, message: UserMessage) -> None:
        extras, form = self.read_extras(message)
        content = _collapse_content(self._blocks.write_prompt(message.content), form)
        self._write(
            "user", content, extras, joins=form.get(payload.JOINS_PREVIOUS, self._follows_result)
        )

    def _add_assistant(self, message: AssistantMessage) -> None:
        extras, form = self.read_extras(message)
        parts = self._blocks.write_turn(message.content)
        self._keeps_trailing_blanks = bool(message.content) and payload.VERBATIM in get_form(
            message.content[-1], NAME
        )
        self._write("assistant", _collapse_content(parts, form), extras)

    def _add_result(self, message: ToolResultMessage) -> None:
        extras, form = self.read_extras(message)
        members: Members = {
            "type": "tool_result",
            "tool_use_id": self._blocks.result_id(message.tool_call_id, form),
        }
        if message.is_error or "is_error" in form:
            members["is_error"] = message.is_error
        parts = self._blocks.write_prompt(message.content)
        if parts or form.get("content") == "parts":
            members["content"] = _collapse_content(parts, form)
        elif message.is_error and form.get("content") != "absent" and "content" not in extras:
            # Anthropic rejects an error without content.
            members["content"] = str(message.outcome)
        joins = form.get(payload.JOINS_PREVIOUS, self._follows_result)
        part = self.merge(members, extras)
        self._write("user", [part], pop_object(form, "message"), joins=joins)

    # -- the message being written -----------------------------------------------------------

    def _write(
        self, role: str, content: str | list[PartJson], extras: Members, *, joins: bool = False
    ) -> None:
        latest = self._latest
        if not content and isinstance(content, list):
            self.losses.note(ChangeCode.BLANK, "empty_message")
        elif joins and latest is not None and latest["role"] == role:
            latest["content"] = [
                *base.expand_content(latest["content"]),
                *base.expand_content(content),
            ]
            latest |= extras
        else:
            self._add_raw({"role": role, **extras, "content": content})

    def _trim_trailing_blanks(self, message: Members | None) -> Members | None:
        """Strip whitespace from the end of a final assistant message, as Anthropic rejects it."""
        if self._trim_loss is not None:
            self.losses.found.remove(self._trim_loss)  # that message is no longer the last
            self._trim_loss = None
        if message is None or message["role"] != "assistant" or self._keeps_trailing_blanks:
            return message
        parts = base.expand_content(message["content"])
        last = parts[-1]
        if not isinstance(last, dict) or last["type"] != "text":
            return message
        text = last["text"].rstrip()
        if text == last["text"]:
            return message
        self.losses.note(ChangeCode.BLANK, "trailing_blanks")
        self._trim_loss = self.losses.found[-1]
        if isinstance(message["content"], str):
            return message | {"content": text}
        return message | {"content": [*parts[:-1], last | {"text": text}]}


def _is_system_prompt(message: Message) -> bool:
    """Return whether a leading message belongs to the system prompt."""
    return isinstance(message, SystemMessage) and not get_form(message, NAME).get(
        payload.IN_MESSAGES
    )


@final
class ContentBlockWriter(ValueWriter):
    """Writes the blocks of a conversation for one target."""

    def __init__(self, target: RequestTarget, losses: ChangeCollector) -> None:
        super().__init__(target, losses)
        self._recorded_ids: set[str] = set()
        """Recorded ids that are illegal or repeated, but are sent unchanged."""
        self._uses: Counter[str] = Counter()
        """The number of calls with each id; some servers number calls from 0 in every turn."""
        self._unanswered_ids: dict[str, deque[str]] = {}
        """The ids under which unanswered calls of this turn were sent, by their ids in the log."""

    def write_turn(self, blocks: tuple[AssistantBlock, ...]) -> list[PartJson]:
        """Write the blocks of an assistant message, in order."""
        parts: list[PartJson] = []
        self._unanswered_ids.clear()
        for at, block in self.model_blocks(blocks):
            match block:
                case Text():
                    parts += self.write_text(block, at)
                case Thinking():
                    parts += self._thinking(block, at)
                case ToolCall() | InvalidToolCall():
                    parts.append(self._call(block, at))
                case Image():
                    self.losses.note(ChangeCode.IMAGE, "from_model", at=at)
                case Opaque():
                    parts += self.write_opaque(block, at)
                case _:
                    assert_never(block)
        return parts

    def is_sendable(self, block: Opaque, at: str) -> bool:
        """Return whether an opaque block can be sent.

        A block that could not be assembled from its deltas cannot be sent, and is reported as a
        loss.
        """
        is_sendable = super().is_sendable(block, at)
        if (
            block.origin == NAME
            and not is_sendable
            and block.raw.startswith(payload.UNFINISHED_PREFIX)
        ):
            self.losses.note(ChangeCode.OPAQUE, "in_parts", at=at, kind=block.kind)
        return is_sendable

    def result_id(self, id: str, form: Members) -> str:
        """Return the id under which the call of a result was sent."""
        waiting = self._unanswered_ids.get(id)
        if waiting:
            sent = waiting.popleft()
            if sent != id:
                self.losses.note(ChangeCode.CALL_ID, "replaced", value=sent)
            return sent
        return self._sent_id(id, form)

    def _call_id(self, id: str, form: Members) -> str:
        """Return the id to send for a call; a repeated id is replaced, unless it was recorded."""
        if "id" in form:
            self._recorded_ids.add(id)
        self._uses[id] += 1
        if self._uses[id] == 1 or id in self._recorded_ids:
            sent = self._sent_id(id, form)
        else:
            sent = self.legal_id(f"{id} {self._uses[id]}", LEGAL_ID)
        self._unanswered_ids.setdefault(id, deque()).append(sent)
        return sent

    def _sent_id(self, id: str, form: Members) -> str:
        if form.get("id") == id or id in self._recorded_ids:
            return id
        return self.legal_id(id, LEGAL_ID)

    def write_text(self, block: Text, at: str) -> list[PartJson]:
        """Write a text block.

        A blank text is left out unless it was recorded, because Anthropic rejects it.
        """
        extras, form = self.read_extras(block, at)
        if block.seal is not None:
            self.losses.note(ChangeCode.SEAL, "no_place_in_text", at=at)
        if is_blank(block.text) and payload.VERBATIM not in form:
            if block.text or extras:
                self.losses.note(ChangeCode.BLANK, "blank_text", at=at)
            return []
        return [self.merge({"type": "text", "text": block.text}, extras, at)]

    def _thinking(self, block: Thinking, at: str) -> list[PartJson]:
        extras, form = self.read_extras(block, at)
        if block.seal is not None and self.target.accepts(block.seal):
            if block.redacted:
                redacted = {"type": "redacted_thinking", "data": block.seal.data}
                return [self.merge(redacted, extras, at)]
            signed = {"type": "thinking", "thinking": block.text, "signature": block.seal.data}
            return [self.merge(signed, extras, at)]
        if block.seal is not None:
            self.losses.note(ChangeCode.SEAL, "other_model", at=at)
        elif form.get(payload.UNSIGNED) == [self.target.provider, self.target.model]:
            return [self.merge({"type": "thinking", "thinking": block.text}, extras, at)]
        if block.text:
            self.losses.note(ChangeCode.THINKING, "no_place", at=at)
        return []

    def _call(self, call: ToolCall | InvalidToolCall, at: str) -> Members:
        extras, form = self.read_extras(call, at)
        if call.seal is not None:
            self.losses.note(ChangeCode.SEAL, "no_place_in_calls", at=at)
        members: Members = {
            "type": "tool_use",
            "id": self._call_id(call.id, form),
            "name": self.call_name(call, form, LEGAL_NAME, at),
        }
        if form.get("input") == payload.VERBATIM:
            members["input"] = msgspec.Raw(call.arguments.encode())
        elif form.get("input") != "absent":
            members["input"] = self.write_arguments(call, at)
        return self.merge(members, extras, at)

    def write_image(self, block: Image, at: str) -> list[PartJson]:
        """Write an image block; the result is empty if Anthropic does not accept the image."""
        extras = base.select_extras(block, NAME, self.losses, at=at)
        match block.source:
            case ImageData() if block.mime_type in payload.IMAGE_TYPES:
                data = base64.b64encode(block.source.data).decode()
                source = {"type": "base64", "media_type": block.mime_type, "data": data}
            case ImageUrl():
                source = {"type": "url", "url": block.source.url}
            case ImageData():
                self.losses.note(ChangeCode.IMAGE, "type_not_supported", at=at)
                return []
            case ImageBlob() | ImageFile():
                self.losses.note(ChangeCode.IMAGE, "bytes_missing", at=at)
                return []
            case _:
                assert_never(block.source)
        return [self.merge({"type": "image", "source": source}, extras, at)]


def _collapse_content(parts: list[PartJson], form: Members) -> str | list[PartJson]:
    """Return a string for one plain text that was not recorded as a list, else the parts."""
    text = None if form.get("content") == "parts" else base.get_plain_text(parts)
    return parts if text is None else text
