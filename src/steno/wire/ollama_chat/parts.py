"""What a message is made of here: one text, and beside it thinking, images and calls.

Their order among each other cannot be said: the server puts images before the text and calls
behind it. What stood otherwise is reported.
"""

from __future__ import annotations

import base64
from typing import Any, Final, assert_never, final

from msgspec import Raw

from steno.call import AnyToolCall
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
from steno.message import UserBlock
from steno.wire.extras import extras_of
from steno.wire.ollama_chat.shapes import IMAGE, NAME
from steno.wire.report import LossCode, Losses
from steno.wire.writing import is_sendable, reference_text

_THINKING: Final = 0
_IMAGES: Final = 1
_TEXT: Final = 2
_CALLS: Final = 3


@final
class Parts:
    """Collects the parts of one message, block by block."""

    def __init__(self, losses: Losses, separator: str) -> None:
        """Start with nothing. `separator` stands between two texts that become one."""
        self._losses = losses
        self._separator = separator
        self._texts: list[str] = []
        self._thinking: list[str] = []
        self._images: list[str | Raw] = []
        self._calls: list[dict[str, Any]] = []
        self._latest_position = _THINKING
        self._is_reordered = False

    def add(self, block: UserBlock, at: str) -> None:
        """Add a block of a user or a tool."""
        match block:
            case Text():
                self.add_text(block, at)
            case Image():
                self.add_image(block, at)
            case FileReference() | Resource():
                self._note_position(_TEXT)
                self._note_extras_loss(block, at)
                self._texts.append(reference_text(block, self._losses, at=at))
            case Opaque():
                self.add_opaque(block, at)
            case _:
                assert_never(block)

    def add_text(self, block: Text, at: str) -> None:
        """Add a text."""
        self._note_position(_TEXT)
        self.note_seal_loss(block, at)
        self._note_extras_loss(block, at)
        self._texts.append(block.text)

    def add_thinking(self, block: Thinking, at: str) -> None:
        """Add what a model thought: this one takes it, whoever thought it."""
        self._note_position(_THINKING)
        self.note_seal_loss(block, at)
        self._note_extras_loss(block, at)
        self._thinking.append(block.text)

    def add_image(self, block: Image, at: str) -> None:
        """Add an image, if its bytes are here."""
        match block.source:
            case ImageData():
                self._note_position(_IMAGES)
                self._note_extras_loss(block, at)
                self._images.append(base64.b64encode(block.source.data).decode())
            case ImageUrl():
                self._losses.note(LossCode.IMAGE, "left out: the server fetches nothing", at=at)
            case ImageBlob() | ImageFile():
                self._losses.note(LossCode.IMAGE, "left out: its bytes are not here", at=at)
            case _:
                assert_never(block.source)

    def add_opaque(self, block: Opaque, at: str) -> None:
        """Add an image of a format that we do not know."""
        if not is_sendable(block, NAME, self._losses, at=at):
            return
        if block.kind == IMAGE:
            self._note_position(_IMAGES)
            self._images.append(Raw(block.raw.encode()))
        else:
            self._losses.note(LossCode.OPAQUE, "left out: it has no place in a message", at=at)

    def add_call(self, call: dict[str, Any]) -> None:
        """Add a call, written already."""
        self._note_position(_CALLS)
        self._calls.append(call)

    def members(self, form: dict[str, Any], *, otherwise: str = "") -> dict[str, Any]:
        """Return it all as members of a message, and note what was moved or joined.

        `form` tells how a message without text was written, `otherwise` is its text else.
        """
        if self._is_reordered:
            self._losses.note(LossCode.ORDER, "images stand before the text, calls behind it")
        if len(self._texts) > 1:
            self._losses.note(LossCode.ORDER, "several texts became one")
        members: dict[str, Any] = {}
        text = self._separator.join(self._texts) or otherwise
        if text or "content" not in form:
            members["content"] = text
        elif form["content"] == "null":
            members["content"] = None
        thinking = "".join(self._thinking)
        if thinking:
            members["thinking"] = thinking
        if self._images:
            members["images"] = self._images
        if self._calls:
            members["tool_calls"] = self._calls
        return members

    def note_seal_loss(self, block: Text | Thinking | AnyToolCall, at: str) -> None:
        """Note that a seal is left out: there are none here."""
        if block.seal is not None:
            self._losses.note(LossCode.SEAL, "left out the seal of another model", at=at)

    def _note_extras_loss(self, block: UserBlock | Thinking, at: str) -> None:
        if extras_of(block, NAME, self._losses, at=at):
            self._losses.note(LossCode.EXTRAS, "left out: blocks have no members here", at=at)

    def _note_position(self, place: int) -> None:
        """Note whether a part follows those that the server puts before it."""
        self._is_reordered = self._is_reordered or place < self._latest_position
        self._latest_position = max(place, self._latest_position)
