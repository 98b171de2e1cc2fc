"""One message as one model gets to see it: references resolved, images only for those with eyes.

What a server holds is framed, so that nobody takes it for words of the person; how much of it is
shown is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias, cast

from msgspec.structs import replace

from steno.content import Block, FileReference, Image, ImageFile, Resource, Text
from steno.context.frames import (
    no_image,
    not_read,
    nothing_in,
    resource_bytes,
    resource_frame,
    resource_left_out,
)
from steno.context.line import shortened_block
from steno.context.report import Change, ChangeCode
from steno.entry import Resolution, ResolutionStatus
from steno.message import Message, SystemMessage, UserMessage

Pointer: TypeAlias = FileReference | Image | Resource
"""What points at something that can be resolved."""
_POINTERS: Final = frozenset({FileReference, Image, Resource})


class Extent(IntEnum):
    """How much of a resource is shown."""

    WHOLE = 0
    SHORTENED = 1
    LEFT_OUT = 2


class HeldResource(NamedTuple):
    """A resource in a message of the person, and what it turned out to be."""

    reference: Resource
    content: tuple[Block, ...]
    is_resolved: bool

    @property
    def key(self) -> tuple[str, str]:
        """Its server, and its URI there."""
        return self.reference.server, self.reference.uri

    def blocks_for(self, extent: Extent) -> tuple[Block, ...]:
        """Return as much of it as is to be shown."""
        if extent is Extent.LEFT_OUT:
            return (resource_left_out(self.reference),)
        content: Iterable[Block] = self.content
        if extent is Extent.SHORTENED:
            content = [_shortened(part) for part in content]
        return tuple(map(_framed, content)) if self.is_resolved else tuple(content)


class Shown(NamedTuple):
    """A message as it is shown, and what was changed for that."""

    message: Message
    changes: tuple[Change, ...] = ()
    resources: Mapping[int, HeldResource] = {}
    """What it holds of servers, by the number of the block."""


def has_pointers(message: Message) -> bool:
    """Tell whether there is something in a message that need not be shown as it is."""
    return not _POINTERS.isdisjoint(map(type, message.content))


def show(
    message: Message,
    *,
    entry_id: str,
    vision: bool | None,
    resolutions: Mapping[int, Resolution],
    extents: Mapping[int, Extent],
) -> Shown:
    """Return a message as it is shown; `resolutions` and `extents` go by the number of the block."""
    if not has_pointers(message) or isinstance(message, SystemMessage):
        return Shown(message)
    is_said = isinstance(message, UserMessage)
    content: list[Block] = []
    changes: list[Change] = []
    resources: dict[int, HeldResource] = {}

    def note(code: ChangeCode, words: str) -> None:
        changes.append(Change(code=code, explanation=words.format(number), entry=entry_id))

    for number, block in enumerate(message.content):
        blocks: tuple[Block, ...] = (block,)
        finding: ChangeCode | None = None
        if is_said and isinstance(block, Pointer):
            blocks, finding = _resolved(block, resolutions.get(number))
            if finding is not None:
                note(finding, _WORDS[finding])
        if vision is False:
            for _ in filter(_is_image, blocks):
                note(ChangeCode.IMAGE_LEFT_OUT, _WORDS[ChangeCode.IMAGE_LEFT_OUT])
            blocks = tuple([no_image(part) if isinstance(part, Image) else part for part in blocks])
        if is_said and isinstance(block, Resource) and finding in _HELD:
            held = HeldResource(block, blocks, finding is not None)
            extent = extents.get(number, Extent.WHOLE)
            if extent is not Extent.WHOLE:
                note(*_LESS[extent])
            resources[number], blocks = held, held.blocks_for(extent)
        content += blocks if blocks == (block,) else _apart(content, blocks)
    if content == [*message.content]:
        return Shown(message, tuple(changes), resources)
    struct: Any = message  # whatever stands here now may stand in a message of the kind
    new = cast("Message", replace(struct, content=tuple(content)))
    return Shown(new, tuple(changes), resources)


def _apart(before: Sequence[Block], blocks: Iterable[Block]) -> Iterator[Block]:
    """Let every text begin on a line of its own: not every API keeps blocks from one another."""
    follows_text = bool(before) and isinstance(before[-1], Text)
    for block in blocks:
        if follows_text and isinstance(block, Text):
            yield replace(block, text=f"\n\n{block.text}")
        else:
            yield block
        follows_text = isinstance(block, Text)


_WORDS: Final = {
    ChangeCode.RESOLVED: "block {}: what it points at is shown",
    ChangeCode.UNRESOLVED: "block {}: nobody has resolved it, only its name is shown",
    ChangeCode.UNREADABLE: "block {}: it could not be read, which is said instead",
    ChangeCode.IMAGE_LEFT_OUT: "block {}: the model takes no images, which is said instead",
}
_LESS: Final = {
    Extent.SHORTENED: (
        ChangeCode.SHORTENED,
        "block {}: the middle of the resource is left out to save room",
    ),
    Extent.LEFT_OUT: (
        ChangeCode.RESOURCE_LEFT_OUT,
        "block {}: the resource is left out to save room, which is said instead",
    ),
}
_HELD: Final = frozenset({None, ChangeCode.RESOLVED})
"""What was found out about a block that holds more than a name."""


def _resolved(
    block: Pointer, resolution: Resolution | None
) -> tuple[tuple[Block, ...], ChangeCode | None]:
    """Return what a block turned out to be."""
    if resolution is None or resolution.status is ResolutionStatus.PENDING:
        return (block,), ChangeCode.UNRESOLVED if _is_a_name(block) else None
    if resolution.status is ResolutionStatus.FAILED:
        return (not_read(block, resolution.error or ""),), ChangeCode.UNREADABLE
    if all(map(_is_blank, resolution.content)):
        return (nothing_in(block),), ChangeCode.RESOLVED
    return resolution.content, ChangeCode.RESOLVED


def _is_blank(part: Block) -> bool:
    text = part.text if isinstance(part, (Text, Resource)) else None
    return text is not None and not text.strip()


def _is_image(part: Block) -> bool:
    return isinstance(part, Image)


def _shortened(part: Block) -> Block:
    return shortened_block(part) if isinstance(part, (Text, Image, Resource)) else part


def _framed(part: Block) -> Block:
    """Return a part as what it is: neither the person nor the model has said it."""
    if isinstance(part, Resource) and part.text is not None:
        return resource_frame(part, part.text)
    if isinstance(part, Resource) and part.data is not None:
        return resource_bytes(part, len(part.data))
    return part


def _is_a_name(block: Pointer) -> bool:
    """Tell whether a block holds nothing of what it points at, not even an address for others."""
    match block:
        case FileReference():
            return True
        case Image():
            return isinstance(block.source, ImageFile)
        case Resource():
            return block.text is None and block.data is None
