"""Events: the parts of a response, as a model sends them.

Wires decode bytes into events, and the Assembler makes a message of them. An event carries the
new part, never the message so far; errors of transport and protocol are raised instead. Events
are many and short-lived, so they are frozen but not checked: the Assembler applies the rules to
the message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias, final

from msgspec.structs import force_setattr

from steno.json_object import as_json_object
from steno.messages.call import AnyToolCall, Seal
from steno.messages.content import Image, Opaque
from steno.messages.usage import StopReason, Usage
from steno.values import RedactedRepr


class _Event(RedactedRepr, frozen=True, tag_field="type", omit_defaults=True):
    """The struct settings that all events share."""


@final
class TextDelta(_Event, frozen=True, tag="text_delta"):
    """More text of the block at `index`; all text at one index belongs to one block."""

    index: int
    text: str


@final
class ThinkingDelta(_Event, frozen=True, tag="thinking_delta"):
    """More thinking of the block at `index`."""

    index: int
    text: str
    redacted: bool = False


@final
class ToolCallBegin(_Event, frozen=True, tag="tool_call_begin"):
    """The call with the number `index` in its message starts.

    A field that the provider has not sent yet is None.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"id", "name"})

    index: int | None
    id: str | None = None
    name: str | None = None


@final
class ToolCallDelta(_Event, frozen=True, tag="tool_call_delta"):
    """More of the call with the number `index` in its message.

    A caller that does not know the number passes None, or any number that is unique for each call.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"id", "name"})

    index: int | None
    id: str | None = None
    name: str | None = None
    arguments_delta: str | None = None


@final
class ToolCallEnd(_Event, frozen=True, tag="tool_call_end"):
    """The call with the number `index` in its message is complete; the Assembler adds it."""

    shown: ClassVar[frozenset[str]] = frozenset({"id"})

    index: int | None
    id: str | None = None
    call: AnyToolCall | None = None


@final
class BlockSealed(_Event, frozen=True, tag="block_sealed"):
    """The model sealed the text, thinking or call at `index`."""

    index: int
    seal: Seal


@final
class BlockAdded(_Event, frozen=True, tag="block_added"):
    """A block arrived whole: an image, or a block of an unknown kind."""

    index: int
    block: Image | Opaque


@final
class ExtrasAdded(_Event, frozen=True, tag="extras_added"):
    """Members that only one wire knows, of the block at `index` or (None) the message.

    `extras` is keyed by wire, as in `Text.extras`.
    """

    index: int | None
    extras: Mapping[str, Any]

    def __post_init__(self) -> None:
        force_setattr(self, "extras", as_json_object(self.extras))


@final
class Finished(_Event, frozen=True, tag="finished"):
    """The turn is over. `stop_reason` is normalized, `raw_stop_reason` is as sent."""

    shown: ClassVar[frozenset[str]] = frozenset({"raw_stop_reason"})

    stop_reason: StopReason
    raw_stop_reason: str | None = None
    usage: Usage | None = None


Event: TypeAlias = (
    TextDelta
    | ThinkingDelta
    | ToolCallBegin
    | ToolCallDelta
    | ToolCallEnd
    | BlockSealed
    | BlockAdded
    | ExtrasAdded
    | Finished
)
