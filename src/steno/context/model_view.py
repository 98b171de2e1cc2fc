"""One message as one model sees it: references resolved, images only for models with vision.

The content of an MCP resource is framed, so that the model does not take it for text of the user.
How much of a resource is shown is decided by the builder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, cast

from msgspec.structs import replace

from steno.context.notes import (
    binary_resource_note,
    empty_reference_note,
    frame_resource_text,
    image_omitted_note,
    resource_omitted_note,
    unreadable_note,
)
from steno.context.window import shorten_block
from steno.messages.change import Change, ChangeCode
from steno.messages.content import (
    Block,
    FileReference,
    Image,
    ImageFile,
    ReferenceBlock,
    Resource,
    Text,
    has_references,
)
from steno.messages.message import Message, SystemMessage, UserMessage
from steno.records.entry import Resolution, ResolutionStatus


class ResourceExtent(IntEnum):
    """How much of a resource is shown."""

    WHOLE = 0
    SHORTENED = 1
    LEFT_OUT = 2


class MessageResource(NamedTuple):
    """A resource in a user message, and its content."""

    reference: Resource
    content: tuple[Block, ...]
    is_resolved: bool

    @property
    def key(self) -> tuple[str, str]:
        """Its server and its URI."""
        return self.reference.server, self.reference.uri

    def blocks_for(self, extent: ResourceExtent) -> tuple[Block, ...]:
        """Return the blocks that are shown of it."""
        if extent is ResourceExtent.LEFT_OUT:
            return (resource_omitted_note(self.reference),)
        content: Iterable[Block] = self.content
        if extent is ResourceExtent.SHORTENED:
            content = [_shorten_part(part) for part in content]
        return tuple(map(_frame_part, content)) if self.is_resolved else tuple(content)


class ModelView(NamedTuple):
    """A message as it is shown, and the changes that this took."""

    message: Message
    changes: tuple[Change, ...] = ()
    resources: Mapping[int, MessageResource] = {}
    """Its MCP resources, by the number of the block."""


def build_model_view(
    message: Message,
    *,
    entry_id: str,
    vision: bool | None,
    resolutions: Mapping[int, Resolution],
    extents: Mapping[int, ResourceExtent],
) -> ModelView:
    """Return a message as it is shown; keys of `resolutions` and `extents` are block numbers."""
    if not has_references(message.content) or isinstance(message, SystemMessage):
        return ModelView(message)
    is_from_user = isinstance(message, UserMessage)
    content: list[Block] = []
    changes: list[Change] = []
    resources: dict[int, MessageResource] = {}

    def add_change(code: ChangeCode, reason: str) -> None:
        changes.append(Change(code, reason, entry=entry_id, number=number))

    for number, block in enumerate(message.content):
        blocks: tuple[Block, ...] = (block,)
        code: ChangeCode | None = None
        if is_from_user and isinstance(block, ReferenceBlock):
            blocks, code = _resolve_block(block, resolutions.get(number))
            if code is not None:
                add_change(code, _REASONS[code])
        if vision is False:
            for _ in filter(_is_image, blocks):
                add_change(ChangeCode.IMAGE_LEFT_OUT, "model_without_vision")
            blocks = tuple(
                [image_omitted_note(part) if isinstance(part, Image) else part for part in blocks]
            )
        if is_from_user and isinstance(block, Resource) and code in _CODES_WITH_CONTENT:
            resource = MessageResource(block, blocks, code is not None)
            extent = extents.get(number, ResourceExtent.WHOLE)
            if extent is not ResourceExtent.WHOLE:
                add_change(*_EXTENT_CHANGES[extent])
            resources[number], blocks = resource, resource.blocks_for(extent)
        content += blocks if blocks == (block,) else _separate_texts(content, blocks)
    if content == [*message.content]:
        return ModelView(message, tuple(changes), resources)
    struct: Any = message  # every block here may stand in a message of this type
    new = cast("Message", replace(struct, content=tuple(content)))
    return ModelView(new, tuple(changes), resources)


def _separate_texts(before: Sequence[Block], blocks: Iterable[Block]) -> Iterator[Block]:
    """Begin every text on a line of its own: some APIs join blocks."""
    follows_text = bool(before) and isinstance(before[-1], Text)
    for block in blocks:
        if follows_text and isinstance(block, Text):
            yield replace(block, text=f"\n\n{block.text}")
        else:
            yield block
        follows_text = isinstance(block, Text)


_REASONS: Final = {
    ChangeCode.RESOLVED: "content_shown",
    ChangeCode.UNRESOLVED: "name_shown",
    ChangeCode.UNREADABLE: "error_shown",
}
_EXTENT_CHANGES: Final = {
    ResourceExtent.SHORTENED: (ChangeCode.SHORTENED, "resource"),
    ResourceExtent.LEFT_OUT: (ChangeCode.RESOURCE_LEFT_OUT, "to_save_room"),
}
_CODES_WITH_CONTENT: Final = frozenset({None, ChangeCode.RESOLVED})
"""The codes of blocks that hold content; None: the block itself does."""


def _resolve_block(
    block: ReferenceBlock, resolution: Resolution | None
) -> tuple[tuple[Block, ...], ChangeCode | None]:
    """Return the blocks to show for a reference, and the change that reports them."""
    if resolution is None or resolution.status is ResolutionStatus.PENDING:
        return (block,), ChangeCode.UNRESOLVED if _is_name_only(block) else None
    if resolution.status is ResolutionStatus.FAILED:
        return (unreadable_note(block, resolution.error or ""),), ChangeCode.UNREADABLE
    if all(map(_is_blank, resolution.content)):
        return (empty_reference_note(block),), ChangeCode.RESOLVED
    return resolution.content, ChangeCode.RESOLVED


def _is_blank(part: Block) -> bool:
    text = part.text if isinstance(part, (Text, Resource)) else None
    return text is not None and not text.strip()


def _is_image(part: Block) -> bool:
    return isinstance(part, Image)


def _shorten_part(part: Block) -> Block:
    return shorten_block(part) if isinstance(part, (Text, Image, Resource)) else part


def _frame_part(part: Block) -> Block:
    """Frame text of a resource, and describe its bytes: neither the user nor the model wrote it."""
    if isinstance(part, Resource) and part.text is not None:
        return frame_resource_text(part, part.text)
    if isinstance(part, Resource) and part.data is not None:
        return binary_resource_note(part, len(part.data))
    return part


def _is_name_only(block: ReferenceBlock) -> bool:
    """Return whether a block holds only a name: no content, and no address for a provider."""
    match block:
        case FileReference():
            return True
        case Image():
            return isinstance(block.source, ImageFile)
        case Resource():
            return block.text is None and block.data is None
