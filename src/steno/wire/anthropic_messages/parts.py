"""Write blocks as the parts of a message's content.

What the provider would refuse is left out or said otherwise, and reported: seals of other
models, blank text, kinds of images, ids and names. What was recorded is written as it was.
"""

from __future__ import annotations

import base64
from collections import Counter, deque
from typing import Any, Final, assert_never, final

import msgspec

from steno.call import InvalidToolCall, ToolCall
from steno.content import (
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    Opaque,
    Resource,
    Text,
    Thinking,
)
from steno.message import AssistantBlock, UserBlock
from steno.wire.anthropic_messages.kept import is_unfinished
from steno.wire.anthropic_messages.shapes import (
    ABSENT,
    AS_IT_WAS,
    IMAGE_TYPES,
    LEGAL_ID,
    LEGAL_NAME,
    NAME,
    PARTS,
    UNSIGNED,
    is_blank,
)
from steno.wire.extras import extras_of, merge_extras, take_form
from steno.wire.report import LossCode, Losses
from steno.wire.writing import (
    Target,
    call_name,
    is_sendable,
    raw_arguments,
    reference_text,
    wire_id,
)

Part = dict[str, Any] | msgspec.Raw
_WANTED: Final = "the target takes JPEG, PNG, GIF and WebP"


@final
class PartWriter:
    """Writes the blocks of a conversation for one target."""

    def __init__(self, target: Target, losses: Losses) -> None:
        self._target = target
        self._losses = losses
        self._recorded_ids: set[str] = set()
        """Forbidden ids that were recorded, and so are sent as they were."""
        self._uses: Counter[str] = Counter()
        """How many calls have an id: some models count theirs anew in every turn."""
        self._unanswered_ids: dict[str, deque[str]] = {}
        """The ids that calls of this turn were sent under and that have no result yet."""

    def write_user_blocks(self, blocks: tuple[UserBlock, ...]) -> list[Part]:
        """Write what users and tools say."""
        parts: list[Part] = []
        for number, block in enumerate(blocks):
            at = f".content[{number}]"
            match block:
                case Text():
                    parts += self._text(block, at)
                case Image():
                    parts += self._image(block, at)
                case FileReference() | Resource():
                    parts.append(
                        {"type": "text", "text": reference_text(block, self._losses, at=at)}
                    )
                case Opaque():
                    parts += self._opaque(block, at)
                case _:
                    assert_never(block)
        return parts

    def write_assistant_blocks(self, blocks: tuple[AssistantBlock, ...]) -> list[Part]:
        """Write what a model says, in the order it came."""
        parts: list[Part] = []
        self._unanswered_ids.clear()
        for number, block in enumerate(blocks):
            at = f".content[{number}]"
            match block:
                case Text():
                    parts += self._text(block, at)
                case Thinking():
                    parts += self._thinking(block, at)
                case ToolCall() | InvalidToolCall():
                    parts.append(self._call(block, at))
                case Image():
                    self._losses.note(LossCode.IMAGE, "left out an image of the model's", at=at)
                case Opaque():
                    parts += self._opaque(block, at)
                case _:
                    assert_never(block)
        return parts

    def result_id(self, id: str, form: dict[str, Any]) -> str:
        """Return the id that the target sees of the call that a result is for."""
        waiting = self._unanswered_ids.get(id)
        if waiting:
            sent = waiting.popleft()
            if sent != id:
                self._losses.note(LossCode.CALL_ID, f"sent under the id {sent}")
            return sent
        return self._legal_id(id, form)

    def _call_id(self, id: str, form: dict[str, Any]) -> str:
        """Return the id that the target sees of one more call: no other has the same."""
        if "id" in form:
            self._recorded_ids.add(id)
        self._uses[id] += 1
        if self._uses[id] == 1 or id in self._recorded_ids:
            sent = self._legal_id(id, form)
        else:
            sent = wire_id(f"{id} {self._uses[id]}", LEGAL_ID, self._losses)
        self._unanswered_ids.setdefault(id, deque()).append(sent)
        return sent

    def _legal_id(self, id: str, form: dict[str, Any]) -> str:
        if form.get("id") == id or id in self._recorded_ids:
            return id
        return wire_id(id, LEGAL_ID, self._losses)

    def _text(self, block: Text, at: str) -> list[Part]:
        extras = extras_of(block, NAME, self._losses, at=at)
        form = take_form(extras)
        if block.seal is not None:
            self._losses.note(LossCode.SEAL, "left out a seal that text has no place for", at=at)
        if is_blank(block.text) and AS_IT_WAS not in form:
            if block.text or extras:
                self._losses.note(LossCode.BLANK, "left out text without a word in it", at=at)
            return []
        return [self._merge_extras({"type": "text", "text": block.text}, extras, at)]

    def _merge_extras(self, members: dict[str, Any], extras: dict[str, Any], at: str) -> dict[str, Any]:
        return merge_extras(members, extras, self._losses, at=at)

    def _thinking(self, block: Thinking, at: str) -> list[Part]:
        extras = extras_of(block, NAME, self._losses, at=at)
        form = take_form(extras)
        if block.seal is not None and self._target.accepts(block.seal):
            if block.redacted:
                redacted = {"type": "redacted_thinking", "data": block.seal.data}
                return [self._merge_extras(redacted, extras, at)]
            signed = {"type": "thinking", "thinking": block.text, "signature": block.seal.data}
            return [self._merge_extras(signed, extras, at)]
        if block.seal is not None:
            self._losses.note(LossCode.SEAL, "left out the seal of another model", at=at)
        elif form.get(UNSIGNED) == [self._target.provider, self._target.model]:
            return [self._merge_extras({"type": "thinking", "thinking": block.text}, extras, at)]
        if block.text:
            self._losses.note(LossCode.THINKING, "left out what the model thought", at=at)
        return []

    def _call(self, call: ToolCall | InvalidToolCall, at: str) -> dict[str, Any]:
        extras = extras_of(call, NAME, self._losses, at=at)
        form = take_form(extras)
        if call.seal is not None:
            self._losses.note(LossCode.SEAL, "left out a seal that calls have no place for", at=at)
        members: dict[str, Any] = {
            "type": "tool_use",
            "id": self._call_id(call.id, form),
            "name": self._name(call, form, at),
        }
        if form.get("input") == AS_IT_WAS:
            members["input"] = msgspec.Raw(call.arguments.encode())
        elif form.get("input") != ABSENT:
            members["input"] = raw_arguments(call, self._losses, at=at)
        return self._merge_extras(members, extras, at)

    def _name(self, call: ToolCall | InvalidToolCall, form: dict[str, Any], at: str) -> str:
        if "name" in form:
            return str(form["name"])
        return call_name(call, LEGAL_NAME, self._losses, at=at)

    def _image(self, block: Image, at: str) -> list[Part]:
        extras = extras_of(block, NAME, self._losses, at=at)
        match block.source:
            case ImageData() if block.mime_type in IMAGE_TYPES:
                data = base64.b64encode(block.source.data).decode()
                source = {"type": "base64", "media_type": block.mime_type, "data": data}
            case ImageUrl():
                source = {"type": "url", "url": block.source.url}
            case ImageData():
                self._losses.note(LossCode.IMAGE, f"left out an image: {_WANTED}", at=at)
                return []
            case ImageBlob() | ImageFile():
                self._losses.note(
                    LossCode.IMAGE, "left out an image whose bytes are not here", at=at
                )
                return []
            case _:
                assert_never(block.source)
        return [self._merge_extras({"type": "image", "source": source}, extras, at)]

    def _opaque(self, block: Opaque, at: str) -> list[Part]:
        sendable = is_sendable(block, NAME, self._losses, at=at)
        if block.origin == NAME and is_unfinished(block):
            done = "left out a block that came in parts which steno cannot put together"
            self._losses.note(LossCode.OPAQUE, done, at=at)
        return [msgspec.Raw(block.raw.encode())] if sendable else []


def content_of(parts: list[Part], form: dict[str, Any]) -> str | list[Part]:
    """Return a single plain text as a string, unless it came as a list."""
    if len(parts) == 1 and form.get("content") != PARTS:
        only = parts[0]
        if isinstance(only, dict) and only.keys() == {"type", "text"}:
            return str(only["text"])
    return parts


def parts_of(content: str | list[Part]) -> list[Part]:
    """Return content as a list, however it was written."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
