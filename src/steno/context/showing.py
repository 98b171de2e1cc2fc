"""One message as one model gets to see it: references resolved, images only for those with eyes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

from msgspec.structs import replace

from steno.content import Block, FileReference, Image, ImageFile, Resource, Text
from steno.context.frames import no_image, not_read, nothing_in
from steno.context.report import Change, ChangeCode
from steno.entry import Resolution, ResolutionStatus
from steno.message import Message, SystemMessage, UserMessage

Pointer: TypeAlias = FileReference | Image | Resource
"""What points at something that can be resolved."""
_POINTERS: Final = frozenset({FileReference, Image, Resource})


class Shown(NamedTuple):
    """A message as it is shown, and what was changed for that."""

    message: Message
    changes: tuple[Change, ...] = ()


def has_pointers(message: Message) -> bool:
    """Tell whether there is something in a message that need not be shown as it is."""
    return not _POINTERS.isdisjoint(map(type, message.content))


def show(
    message: Message,
    *,
    entry_id: str,
    vision: bool | None,
    resolutions: Mapping[int, Resolution],
) -> Shown:
    """Return a message as it is shown; `resolutions` go by the number of the block."""
    if not has_pointers(message) or isinstance(message, SystemMessage):
        return Shown(message)
    is_said = isinstance(message, UserMessage)
    content: list[Block] = []
    changes: list[Change] = []

    def note(code: ChangeCode, explanation: str) -> None:
        changes.append(Change(code=code, explanation=explanation, entry=entry_id))

    for number, block in enumerate(message.content):
        blocks: tuple[Block, ...] = (block,)
        if is_said and isinstance(block, Pointer):
            blocks, finding = _resolved(block, resolutions.get(number))
            if finding is not None:
                note(finding, _WORDS[finding].format(number))
        for part in blocks:
            if isinstance(part, Image) and vision is False:
                content.append(no_image(part))
                note(ChangeCode.IMAGE_LEFT_OUT, _WORDS[ChangeCode.IMAGE_LEFT_OUT].format(number))
            else:
                content.append(part)
    if content == [*message.content]:
        return Shown(message, tuple(changes))
    struct: Any = message  # whatever stands here now may stand in a message of the kind
    return Shown(cast("Message", replace(struct, content=tuple(content))), tuple(changes))


_WORDS: Final = {
    ChangeCode.RESOLVED: "block {}: what it points at is shown",
    ChangeCode.UNRESOLVED: "block {}: nobody has resolved it, only its name is shown",
    ChangeCode.UNREADABLE: "block {}: it could not be read, which is said instead",
    ChangeCode.IMAGE_LEFT_OUT: "block {}: the model takes no images, which is said instead",
}


def _resolved(
    block: Pointer, resolution: Resolution | None
) -> tuple[tuple[Block, ...], ChangeCode | None]:
    """Return what a block turned out to be."""
    if resolution is None or resolution.status is ResolutionStatus.PENDING:
        return (block,), ChangeCode.UNRESOLVED if _is_a_name(block) else None
    if resolution.status is ResolutionStatus.FAILED:
        return (not_read(block, resolution.error or ""),), ChangeCode.UNREADABLE
    if all(isinstance(part, Text) and not part.text.strip() for part in resolution.content):
        return (nothing_in(block),), ChangeCode.RESOLVED
    return resolution.content, ChangeCode.RESOLVED


def _is_a_name(block: Pointer) -> bool:
    """Tell whether a block holds nothing of what it points at, not even an address for others."""
    match block:
        case FileReference():
            return True
        case Image():
            return isinstance(block.source, ImageFile)
        case Resource():
            return block.text is None and block.data is None
