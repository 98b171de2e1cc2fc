"""Write contents: messages become turns of `user` and `model`, made of parts."""

from __future__ import annotations

from typing import Any, assert_never, final

from msgspec import Raw

from steno.call import InvalidToolCall, ToolCall
from steno.content import FileReference, Image, Opaque, Resource, Text, Thinking
from steno.json_object import is_json_text
from steno.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.wire.extras import extras_of, take_inner
from steno.wire.gemini.blocks import BlockWriter, Form, Part
from steno.wire.gemini.parts import RESULT
from steno.wire.gemini.shapes import NAME
from steno.wire.gemini.spelling import spell
from steno.wire.report import LossCode
from steno.wire.writing import MESSAGE, MessageWriter, Target, dump, gathered, is_sendable


@final
class ContentsWriter(MessageWriter):
    """Writes contents; results of one turn share one, and leading system messages none."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.system: dict[str, Any] | None = None
        """The instruction that stands beside the contents."""
        self.count = 0
        """How many contents there are."""
        self._blocks = BlockWriter(target, self.losses)
        self._written: list[bytes] = []
        self._latest: dict[str, Any] | None = None
        """The content that more parts may join."""
        self._ends_in_result = False

    def add(self, message: Message) -> None:
        """Write one more message."""
        match message:
            case SystemMessage():
                self._add_system(message)
            case UserMessage():
                self._add_user(message)
            case AssistantMessage():
                self._add_assistant(message)
            case ToolResultMessage():
                self._add_result(message)
            case _:
                assert_never(message)
        self._ends_in_result = isinstance(message, ToolResultMessage)

    def finish(self) -> bytes:
        """Return everything written; more may follow."""
        self._written = gathered(self._written)
        newest = [] if self._latest is None else [dump(self._latest)]
        return b",".join([*self._written, *newest])

    def _write(
        self,
        role: str,
        parts: list[Part],
        members: dict[str, Any],
        form: Form,
        *,
        joins: bool = False,
    ) -> None:
        """Write parts into a content of their own, or into the latest."""
        if form.get("content", "joined" if joins else "own") == "joined" and self._latest:
            self._latest["parts"] += parts
            return
        self._close()
        self.count += 1
        named: str | None = form.get("role", role)
        content = ({} if named is None else {"role": named}) | members
        if form.get("parts") == "object" and len(parts) == 1:
            self._written.append(dump({**content, "parts": parts[0]}))
        else:
            self._latest = {**content, "parts": parts}

    def _close(self) -> None:
        if self._latest is not None:
            self._written.append(dump(self._latest))
            self._latest = None

    # -- messages ----------------------------------------------------------------------------

    def _add_system(self, message: SystemMessage) -> None:
        extras, form = self._blocks.read_extras(message)
        texts = enumerate(message.content)
        parts = [self._blocks.write_text(block, f".content[{number}]") for number, block in texts]
        if self._written or self._latest is not None:
            self.losses.note(LossCode.SYSTEM, "sent as the words of the user")
            self._write("user", parts, {}, {})
        elif self.system is not None:
            earlier = self.system["parts"]
            self.system["parts"] = [*(earlier if isinstance(earlier, list) else [earlier]), *parts]
        else:
            is_object = form.get("parts") == "object" and len(parts) == 1
            self.system = {**extras, "parts": parts[0] if is_object else parts}

    def _add_user(self, message: UserMessage) -> None:
        first = message.content[0]
        if isinstance(first, Opaque) and first.kind == MESSAGE:
            if is_sendable(first, NAME, self.losses, at=".content[0]"):
                self._close()
                self.count += 1
                self._written.append(first.raw.encode())
            return
        extras, form = self._blocks.read_extras(message)
        parts: list[Part] = []
        for number, block in enumerate(message.content):
            at = f".content[{number}]"
            match block:
                case Text():
                    parts.append(self._blocks.write_text(block, at))
                case Image():
                    parts += self._blocks.write_image(block, at)
                case FileReference() | Resource():
                    parts.append(self._blocks.write_reference(block, at))
                case Opaque():
                    parts += self._blocks.write_opaque(block, at)
                case _:
                    assert_never(block)
        if parts:
            self._write("user", parts, extras, form)

    def _add_assistant(self, message: AssistantMessage) -> None:
        extras, form = self._blocks.read_extras(message)
        parts: list[Part] = []
        is_first = True
        for number, block in enumerate(message.content):
            at = f".content[{number}]"
            match block:
                case Text() | Thinking():
                    parts += self._blocks.write_assistant_text(block, at)
                case ToolCall() | InvalidToolCall():
                    parts.append(self._blocks.write_call(block, at, is_first=is_first))
                    is_first = False
                case Image():
                    parts += self._blocks.write_image(block, at)
                case Opaque():
                    parts += self._blocks.write_opaque(block, at)
                case _:
                    assert_never(block)
        if parts:
            self._write("model", parts, extras, form)
        else:
            self.losses.note(LossCode.ORDER, "left out a turn that says nothing")

    def _add_result(self, message: ToolResultMessage) -> None:
        extras, form = self._blocks.read_extras(message)
        texts, media = self._write_result_content(message)
        self._blocks.anonymous_calls.add_result(message.tool_call_id)
        known = self._blocks.sent_calls.get(message.tool_call_id)
        id, name = known or (message.tool_call_id, message.tool_name)
        members: dict[str, Any] = {
            "id": form.get("id", id),
            "name": form.get("name", name),
            "response": _response(message, "\n".join(texts), form),
            "parts": media if media or form.get("media") == "empty" else None,
        }
        if form.get("media") == "object" and len(media) == 1:
            members["parts"] = media[0]
        inner = {key: value for key, value in members.items() if value is not None}
        part: Part = spell({RESULT: inner | take_inner(extras, RESULT)}, form) | extras
        content: dict[str, Any] = form.get("members", {})
        self._write("user", [part], content, form, joins=self._ends_in_result)

    def _write_result_content(self, message: ToolResultMessage) -> tuple[list[str], list[Part]]:
        """Return what goes into the response, and what stands beside it."""
        texts: list[str] = []
        media: list[Part] = []
        for number, block in enumerate(message.content):
            at = f".content[{number}]"
            match block:
                case Text():
                    extras_of(block, NAME, self.losses, at=at)
                    texts.append(block.text)
                case Image():
                    media += self._blocks.write_image(block, at)
                case FileReference() | Resource():
                    part = self._blocks.write_reference(block, at)
                    if "text" in part:
                        texts.append(part["text"])
                    else:
                        media.append(part)
                case Opaque():
                    media += self._blocks.write_opaque(block, at)
                case _:
                    assert_never(block)
        return texts, media


def _response(message: ToolResultMessage, text: str, form: Form) -> Any:
    """Return what a tool gave back as an object; by convention under `output` or `error`."""
    match form.get("response"):
        case "absent" if not text:
            return None
        case "json" if is_json_text(text):
            return Raw(text.encode())
        case _:
            if message.is_error:
                return {"error": text or str(message.outcome)}
            return {"output": text}
