"""Write the messages of a request."""

from __future__ import annotations

from typing import Any, assert_never, final

import msgspec

from steno.call import InvalidToolCall, ToolCall
from steno.content import FileReference, Image, Opaque, Resource, Text, Thinking
from steno.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from steno.wire.extras import (
    FORM,
    extras_of,
    form_of,
    merge_extras,
    take_form,
    take_inner,
)
from steno.wire.functions import (
    given,
)
from steno.wire.open import read_as
from steno.wire.openai_chat.dialect import (
    INNER,
    LEGACY,
    USUAL_ID,
    Dialect,
)
from steno.wire.openai_chat.neighbours import Part, is_neighbour, merge
from steno.wire.openai_chat.shapes import LEGAL_NAME, NAME
from steno.wire.report import LossCode
from steno.wire.writing import (
    MESSAGE,
    MessageWriter,
    Target,
    call_name,
    dump,
    gathered,
    image_url,
    is_sendable,
    reference_text,
    wire_id,
)


@final
class Writer(MessageWriter):
    """Writes one object for each message."""

    def __init__(self, target: Target, dialect: Dialect) -> None:
        super().__init__(target)
        self._dialect = dialect
        self._parsed_fields = {"arguments"} if dialect.parses_arguments else set[str]()
        """What the server reads as JSON; the input of a custom tool is any text."""
        self._written: list[bytes] = []
        self._latest: dict[str, Any] | bytes | None = None
        """The newest message, which a neighbour may be merged into."""
        self._images: list[Part] = []
        """Images of tool results, which have to wait until all results are told."""
        self._legacy_names: dict[str, str | None] = {}
        """The name that a legacy call goes by, by the id that we made up for it."""

    def add(self, message: Message) -> None:
        """Write one more message."""
        if self._images and not isinstance(message, ToolResultMessage):
            self._write({"role": "user", "content": self._images})
            self._images = []
        match message:
            case SystemMessage():
                self._write(self._write_system(message))
            case UserMessage():
                self._write(self._write_user(message))
            case AssistantMessage():
                self._write(self._write_assistant(message))
            case ToolResultMessage():
                self._write(self._write_result(message))
            case _:
                assert_never(message)

    def finish(self) -> bytes:
        """Return everything written; more may follow."""
        self._written = gathered(self._written)
        waiting = [{"role": "user", "content": self._images}] if self._images else []
        newest = [] if self._latest is None else [self._latest]
        return b",".join([*self._written, *map(_bytes, [*newest, *waiting])])

    def _write(self, message: dict[str, Any] | bytes | None) -> None:
        if message is None:
            return
        if self._dialect.merges_neighbours and isinstance(message, dict):
            if message["role"] == "system" and self._latest is not None:
                self.losses.note(LossCode.SYSTEM, "sent as the words of the user")
                message["role"] = "user"
            thinking = self._dialect.thinking_field
            if isinstance(self._latest, dict) and is_neighbour(self._latest, message, thinking):
                self.losses.note(LossCode.ORDER, "merged with the message before it")
                self._latest = merge(self._latest, message, thinking)
                return
        if self._latest is not None:
            self._written.append(_bytes(self._latest))
        self._latest = message

    def _write_system(self, message: SystemMessage) -> dict[str, Any]:
        extras = extras_of(message, NAME, self.losses)
        form = take_form(extras)
        members = {"role": self._dialect.system_role}
        return self._with_content(members, self._write_texts(message.content), form) | extras

    def _write_user(self, message: UserMessage) -> dict[str, Any] | bytes | None:
        first = message.content[0]
        if isinstance(first, Opaque) and first.kind == MESSAGE:
            sendable = is_sendable(first, NAME, self.losses, at=".content[0]")
            return first.raw.encode() if sendable else None
        extras = extras_of(message, NAME, self.losses)
        form = take_form(extras)
        parts: list[Part] = []
        for number, block in enumerate(message.content):
            at = f".content[{number}]"
            parts += self._write_parts(block, at)
        if not parts:
            self._note_empty_message()
            return None
        return self._with_content({"role": "user"}, parts, form) | extras

    def _note_empty_message(self) -> None:
        """Note that nothing is left of a message, which is not sent then: servers refuse null."""
        self.losses.note(LossCode.BLANK, "left out a message with nothing in it")

    def _write_parts(self, block: UserBlock, at: str) -> list[Part]:
        """Write what a user or a tool says."""
        match block:
            case Text():
                return [self._write_text(block, at)]
            case Image():
                return self._write_image(block, at)
            case FileReference() | Resource():
                return [{"type": "text", "text": reference_text(block, self.losses, at=at)}]
            case Opaque():
                sendable = is_sendable(block, NAME, self.losses, at=at)
                return [msgspec.Raw(block.raw.encode())] if sendable else []
            case _:
                assert_never(block)

    def _write_assistant(self, message: AssistantMessage) -> dict[str, Any] | None:
        extras = extras_of(message, NAME, self.losses)
        form = take_form(extras)
        parts: list[Part] = []
        calls: list[dict[str, Any]] = []
        legacy: dict[str, Any] = {}
        thinking: list[str] = []
        field = form.get("thinking", self._dialect.thinking_field)
        for number, block in enumerate(message.content):
            at = f".content[{number}]"
            match block:
                case Text():
                    parts.append(self._write_text(block, at))
                case Thinking():
                    thinking += self._write_thinking(block, field, at)
                case ToolCall() | InvalidToolCall():
                    if not legacy and _is_legacy(block):
                        legacy[LEGACY] = self._write_legacy_call(block, at)
                    else:
                        calls.append(self._write_call(block, at))
                case Image():
                    self.losses.note(LossCode.IMAGE, "left out an image of the model's", at=at)
                case Opaque():
                    if is_sendable(block, NAME, self.losses, at=at):
                        parts.append(msgspec.Raw(block.raw.encode()))
                case _:
                    assert_never(block)
        members = self._with_content({"role": "assistant"}, parts, form)
        if field is not None and any(thinking):
            members[field] = "".join(thinking)
        details = self._write_details(message)
        if details:
            members["reasoning_details"] = details
        if calls:
            members["tool_calls"] = calls
        members |= legacy | extras
        if message.content and members == {"role": "assistant", "content": None}:
            self._note_empty_message()
            return None
        return members

    def _write_thinking(self, block: Thinking, field: str | None, at: str) -> list[str]:
        if block.seal is not None and not self.target.accepts(block.seal):
            self.losses.note(LossCode.SEAL, "left out the seal of another model", at=at)
        if field is not None or not block.text:
            return [block.text]
        self.losses.note(LossCode.THINKING, "left out what the model thought", at=at)
        return []

    def _write_details(self, message: AssistantMessage) -> list[msgspec.Raw]:
        """Return the seals of what the model thought: lists of details, in the order they came."""
        found: list[msgspec.Raw] = []
        for number, block in enumerate(message.content):
            if isinstance(block, Thinking) and block.seal and self.target.accepts(block.seal):
                details = read_as(block.seal.data.encode(), list[msgspec.Raw])
                if details is None:
                    at = f".content[{number}]"
                    self.losses.note(LossCode.SEAL, "left out a seal that is none", at=at)
                found += details or ()
        return found

    def _write_call(self, call: ToolCall | InvalidToolCall, at: str) -> dict[str, Any]:
        extras = extras_of(call, NAME, self.losses, at=at)
        form = take_form(extras)
        is_custom = extras.get("type") == "custom"
        if is_custom and not self._dialect.has_custom_tools:
            self.losses.note(LossCode.TOOL, "sent as the call of a function", at=at)
            del extras["type"]
            is_custom = False
        members: dict[str, Any] = {"id": self._write_call_id(call.id, form)}
        if is_custom:
            members["type"] = extras.pop("type")
        elif form.get("type") != "absent":
            members["type"] = form.get("type", "function")
        field = "input" if is_custom else "arguments"
        function = self._write_function(call, form, at, field=field)
        if form.get("function") != "absent":
            members["custom" if is_custom else "function"] = function
        return merge_extras(members, extras, self.losses, at=at)

    def _write_legacy_call(self, call: ToolCall | InvalidToolCall, at: str) -> dict[str, Any]:
        form: dict[str, Any] = extras_of(call, NAME, self.losses, at=at)[FORM]
        function = self._write_function(call, form, at, field="arguments")
        self._legacy_names[call.id] = function.get("name")
        return function

    def _write_function(
        self, call: ToolCall | InvalidToolCall, form: dict[str, Any], at: str, *, field: str
    ) -> dict[str, Any]:
        """Write name and arguments."""
        if call.seal is not None and not self.target.accepts(call.seal):
            self.losses.note(LossCode.SEAL, "left out the seal of another model", at=at)
        absent: list[str] = form.get("absent", [])
        name = "" if "name" in absent else form.get("name")
        if name is None:
            name = call_name(call, LEGAL_NAME, self.losses, at=at)
        arguments: Any = form.get("arguments", call.arguments)
        if form.get("arguments_are") == "object":
            arguments = msgspec.Raw(call.arguments.encode())
        elif isinstance(call, InvalidToolCall) and field in self._parsed_fields:
            self.losses.note(LossCode.INVALID_CALL, "sent the raw text as an argument", at=at)
            arguments = dump({"invalid_arguments": call.arguments}).decode()
        return without(absent, {"name": name, field: arguments}) | take_inner(form, INNER)

    def _write_result(self, message: ToolResultMessage) -> dict[str, Any]:
        extras = extras_of(message, NAME, self.losses)
        form = take_form(extras)
        parts: list[Part] = []
        for number, block in enumerate(message.content):
            at = f".content[{number}]"
            if isinstance(block, Image) and form.get("images") != "inside":
                self.losses.note(LossCode.IMAGE, "moved into a user message behind", at=at)
                self._images += self._write_image(block, at)
            else:
                parts += self._write_parts(block, at)
        if message.is_error:
            self.losses.note(LossCode.OUTCOME, f"not told that the call ended as {message.outcome}")
        if not parts and "content" not in form:
            parts.append({"type": "text", "text": str(message.outcome) if message.is_error else ""})
        members = self._with_content(self._write_call_reference(message, form), parts, form)
        return merge_extras(members, extras, self.losses)

    def _write_call_reference(self, message: ToolResultMessage, form: dict[str, Any]) -> dict[str, Any]:
        """Say which call a result is of: by its id, or by name if the call is a legacy one."""
        id = message.tool_call_id
        if LEGACY in form or id in self._legacy_names:
            name = form.get(LEGACY, self._legacy_names.get(id))
            return {"role": "function"} | given(name=name)
        return {"role": "tool", "tool_call_id": self._write_call_id(id, form)}

    def _write_call_id(self, id: str, form: dict[str, Any]) -> str:
        """Return the id of a call; one that was recorded here and breaks the rule stays."""
        legal, length = self._dialect.call_id, self._dialect.call_id_length
        if "id" in form and legal is USUAL_ID:
            return id
        return wire_id(id, legal, self.losses, length=length)

    # -- parts -------------------------------------------------------------------------------

    def _with_content(
        self, members: dict[str, Any], parts: list[Part], form: dict[str, Any]
    ) -> dict[str, Any]:
        """Write a single plain text as a string, unless it came as a list."""
        content: Any = parts
        if not parts:
            content = [] if form.get("content") == "parts" else None
        elif len(parts) == 1 and "content" not in form:
            only = parts[0]
            if isinstance(only, dict) and only.keys() == {"type", "text"}:
                content = only["text"]
        if content is None and form.get("content") == "absent":
            return members
        return members | {"content": content}

    def _write_texts(self, blocks: tuple[Text, ...]) -> list[Part]:
        return [self._write_text(block, f".content[{number}]") for number, block in enumerate(blocks)]

    def _write_text(self, block: Text, at: str) -> dict[str, Any]:
        if block.seal is not None and not self.target.accepts(block.seal):
            self.losses.note(LossCode.SEAL, "left out the seal of another model", at=at)
        extras = extras_of(block, NAME, self.losses, at=at)
        return merge_extras({"type": "text", "text": block.text}, extras, self.losses, at=at)

    def _write_image(self, block: Image, at: str) -> list[Part]:
        url = image_url(block)
        if url is None:
            self.losses.note(LossCode.IMAGE, "left out an image whose bytes are not here", at=at)
            return []
        extras = extras_of(block, NAME, self.losses, at=at)
        inner = merge_extras({"url": url}, take_inner(extras, "image_url"), self.losses, at=at)
        part = {"type": "image_url", "image_url": inner}
        return [merge_extras(part, extras, self.losses, at=at)]


def _is_legacy(call: ToolCall | InvalidToolCall) -> bool:
    return LEGACY in form_of(call, NAME)


def without(absent: list[str], members: dict[str, Any]) -> dict[str, Any]:
    """Leave out the members that were not there where it was recorded."""
    return {name: value for name, value in members.items() if name not in absent}


def _bytes(message: dict[str, Any] | bytes) -> bytes:
    return message if isinstance(message, bytes) else dump(message)
