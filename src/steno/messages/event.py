"""Events: the parts of a response in the order in which a model streams them.

Wires decode bytes into events, and the Assembler builds a message from the events. An event
carries only the new part, never the message so far. Transport and protocol errors are raised as
exceptions, not sent as events. Events are numerous and short-lived: pieces of text check nothing,
the others check what routes them, and the Assembler validates the message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn, TypeAlias, final

from msgspec.structs import force_setattr

from steno.errors import InvalidValue
from steno.json_object import as_json_object
from steno.messages.call import AnyToolCall, Seal
from steno.messages.content import Image, Opaque
from steno.messages.usage import StopReason, Usage
from steno.values import RedactedRepr, class_label


class _Event(RedactedRepr, frozen=True, tag_field="type", omit_defaults=True):
    """The struct settings that all events share."""


class _IndexedEvent(_Event, frozen=True):
    """An event whose `index` is a number from 0; in some events, it may also be None."""

    _index_is_optional: ClassVar[bool] = True

    index: int | None

    def __post_init__(self) -> None:
        index = self.index
        if (type(index) is not int or index < 0) and not (
            index is None and self._index_is_optional
        ):
            refuse_index(type(self), index)


class _BlockEvent(_IndexedEvent, frozen=True):
    """An event about the block at `index`."""

    _index_is_optional: ClassVar[bool] = False

    index: int


def refuse_index(cls: type, index: object, *, field: str = "index") -> NoReturn:
    """Raise InvalidValue for an index in a field of `cls` that is not a number from 0."""
    raise InvalidValue(
        f"{field} must be an int from 0",
        code="out_of_range" if type(index) is int else "wrong_type",
        place=class_label(cls),
        field=field,
    )


@final
class TextDelta(_Event, frozen=True, tag="text_delta"):
    """A piece of text for the block at `index`; all pieces with one index form one block."""

    index: int
    text: str


@final
class ThinkingDelta(_Event, frozen=True, tag="thinking_delta"):
    """A piece of thinking for the block at `index`."""

    index: int
    text: str
    redacted: bool = False


@final
class ToolCallBegin(_IndexedEvent, frozen=True, tag="tool_call_begin"):
    """The start of the tool call with the number `index` in its message.

    A field that the provider has not sent yet is None.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"id", "name"})

    id: str | None = None
    name: str | None = None


@final
class ToolCallDelta(_IndexedEvent, frozen=True, tag="tool_call_delta"):
    """A further part of the tool call with the number `index` in its message.

    If the provider does not number its calls, `index` is None or any number unique to the call.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"id", "name"})

    id: str | None = None
    name: str | None = None
    arguments_delta: str | None = None

    def __post_init__(self) -> None:
        index, text = self.index, self.arguments_delta
        # One test for both fields, because a response has thousands of these events.
        if ((type(index) is int and index >= 0) or index is None) and (
            type(text) is str or text is None
        ):
            return
        super().__post_init__()
        raise InvalidValue(
            "arguments_delta must be a str",
            code="wrong_type",
            place=class_label(type(self)),
            field="arguments_delta",
        )


@final
class ToolCallEnd(_IndexedEvent, frozen=True, tag="tool_call_end"):
    """The end of the tool call with the number `index`; the Assembler sets the complete `call`."""

    shown: ClassVar[frozenset[str]] = frozenset({"id"})

    id: str | None = None
    call: AnyToolCall | None = None


@final
class BlockSealed(_BlockEvent, frozen=True, tag="block_sealed"):
    """The seal of the text, thinking or tool call at `index`."""

    seal: Seal


@final
class BlockAdded(_BlockEvent, frozen=True, tag="block_added"):
    """A block that arrives in one piece: an image, or a block of an unknown kind."""

    block: Image | Opaque


@final
class ExtrasAdded(_IndexedEvent, frozen=True, tag="extras_added"):
    """Wire-specific members of the block at `index`, or of the message if `index` is None.

    `extras` is keyed by wire, as in `Text.extras`.
    """

    extras: Mapping[str, Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        force_setattr(self, "extras", as_json_object(self.extras))


@final
class Finished(_Event, frozen=True, tag="finished"):
    """The end of the turn, with the normalized stop reason and the one that the provider sent."""

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
