"""Write messages: one item for each of what people and tools say, turns as they were."""

from __future__ import annotations

from typing import assert_never, final

from msgspec import Raw

from steno.content import FileReference, Image, Opaque, Resource, Text
from steno.message import (
    AssistantMessage,
    Message,
    ResultBlock,
    SystemMessage,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from steno.wire.extras import FORM, extras_of, take_form
from steno.wire.functions import given
from steno.wire.openai_responses.item import custom_ids
from steno.wire.openai_responses.shapes import CUSTOM_RESULT, LEGAL_ID, NAME, RESULT
from steno.wire.openai_responses.turns import Members, TurnWriter
from steno.wire.report import LossCode
from steno.wire.writing import (
    MESSAGE,
    MessageWriter,
    Target,
    dump,
    gathered,
    image_url,
    is_sendable,
    reference_text,
    wire_id,
)


def instructions_of(message: Message) -> str | None:
    """Return the words that go out of band if this message is the first; None if it stays."""
    if not isinstance(message, SystemMessage) or len(message.content) != 1:
        return None
    mine = (message.extras or {}).get(NAME)
    if mine is not None and mine != {FORM: {"place": "instructions"}}:
        return None
    return None if NAME in (message.content[0].extras or {}) else message.text


@final
class Writer(MessageWriter):
    """Writes the items of messages; words that go out of band are left to the request."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._written: list[bytes] = []
        self._is_first = True
        self._sent_ids: dict[str, str] = {}
        """The ids under which calls were sent."""
        self._custom_call_ids: set[str] = set()
        """The ids of calls of custom tools."""

    def add(self, message: Message) -> None:
        """Write one more message."""
        is_first, self._is_first = self._is_first, False
        match message:
            case SystemMessage():
                item = self._write_prompt(message)
                if not is_first or instructions_of(message) is None:
                    self._write(item)
            case UserMessage():
                self._write(self._write_user(message))
            case AssistantMessage():
                self._custom_call_ids |= custom_ids(message.content)
                for part in TurnWriter(message, self.target, self.losses, self._sent_ids).write_items():
                    self._write(part)
            case ToolResultMessage():
                self._write(self._write_result(message))
            case _:
                assert_never(message)

    def finish(self) -> bytes:
        """Return everything written; more may follow."""
        self._written = gathered(self._written)
        return b",".join(self._written)

    def _write(self, item: Members | Raw | None) -> None:
        if item is not None:
            self._written.append(dump(item))

    # -- what others say ---------------------------------------------------------------------

    def _write_user(self, message: UserMessage) -> Members | Raw | None:
        first = message.content[0]
        if isinstance(first, Opaque) and first.kind == MESSAGE and message.extras is None:
            sendable = is_sendable(first, NAME, self.losses, at=".content[0]")
            return Raw(first.raw.encode()) if sendable else None
        return self._write_prompt(message)

    def _write_prompt(self, message: SystemMessage | UserMessage) -> Members:
        extras = extras_of(message, NAME, self.losses)
        form = take_form(extras)
        head = given(type=form.get("type"), role=message.role.value)
        return head | self._write_content(message.content, "content", form) | extras

    def _write_result(self, message: ToolResultMessage) -> Members:
        extras = extras_of(message, NAME, self.losses)
        form = take_form(extras)
        output = self._write_content(message.content, "output", form)
        if message.is_error:
            self.losses.note(LossCode.OUTCOME, f"not told that the call ended as {message.outcome}")
            output = output if output["output"] else {"output": str(message.outcome)}
        call_id = self._write_call_id(message.tool_call_id, form)
        kind = CUSTOM_RESULT if message.tool_call_id in self._custom_call_ids else RESULT
        return {"type": kind, "call_id": call_id} | output | extras

    def _write_call_id(self, id: str, form: Members) -> str:
        """Return the id that the call of a result was sent under."""
        sent = self._sent_ids.get(id, id if form.get("call_id") == id else None)
        if sent is None:
            return wire_id(id, LEGAL_ID, self.losses)
        if sent != id:
            self.losses.note(LossCode.CALL_ID, f"sent under the id {sent}")
        return sent

    def _write_content(
        self, blocks: tuple[UserBlock | ResultBlock, ...], name: str, form: Members
    ) -> Members:
        """Write a single plain text as a string, unless it came as a list."""
        parts: list[Members | Raw] = []
        for number, block in enumerate(blocks):
            parts += self._write_part(block, f".content[{number}]")
        if name in form:
            return {name: parts}
        if not parts:
            return {name: ""}
        only = parts[0]
        if len(parts) == 1 and isinstance(only, dict) and only.keys() == {"type", "text"}:
            return {name: only["text"]}
        return {name: parts}

    def _write_part(self, block: UserBlock | ResultBlock, at: str) -> list[Members | Raw]:
        match block:
            case Text():
                if block.seal is not None:
                    self.losses.note(LossCode.SEAL, "left out the seal of a model", at=at)
                extras = extras_of(block, NAME, self.losses, at=at)
                return [{"type": "input_text", "text": block.text} | extras]
            case Image():
                url = image_url(block)
                if url is None:
                    done = "left out an image whose bytes are not here"
                    self.losses.note(LossCode.IMAGE, done, at=at)
                    return []
                extras = extras_of(block, NAME, self.losses, at=at)
                # OpenAI's own types want the detail; other servers' recordings do without.
                detail = {} if extras.pop(FORM, None) else {"detail": "auto"}
                return [{"type": "input_image", "image_url": url} | detail | extras]
            case FileReference() | Resource():
                return [{"type": "input_text", "text": reference_text(block, self.losses, at=at)}]
            case Opaque():
                if is_sendable(block, NAME, self.losses, at=at):
                    return [Raw(block.raw.encode())]
                return []
            case _:
                assert_never(block)
