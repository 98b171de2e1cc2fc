"""The images of a session, for interfaces that show them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeAlias, final

from steno.errors import LogError
from steno.log.conversation import Conversation
from steno.messages.content import Block, Image, ImageBlob, ImageData
from steno.records.entry import Entry, Resolution

ImageReader: TypeAlias = Callable[[], bytes | None]
"""Returns the bytes of an image; None if they cannot be read. That may take a while."""


@final
class SessionImages:
    """The images of a session: as sent, or as references were resolved; those are read once."""

    def __init__(self, read_blob: Callable[[str], bytes]) -> None:
        """Take the function that reads a large image by its digest."""
        self._read_blob = read_blob
        self._resolved: dict[tuple[str, int], Image] = {}
        """The resolved references of the branch, by entry and block."""
        self._read_position: tuple[int, Entry | None] = (0, None)
        """How many entries of the branch were read, and the last of them."""

    def find(self, conversation: Conversation, entry: str, block: int) -> ImageReader | None:
        """Return a reader for an image of an entry; None if it is not available."""
        with suppress(LogError):  # drawing an image cannot handle a store that fails
            message = conversation.entry(entry).message
            if message is not None and block < len(message.content):
                resolved = self._resolved_in(conversation).get((entry, block))
                source = _stored_source(message.content[block]) or _stored_source(resolved)
                return None if source is None else partial(self._read_source, source)
        return None

    def _read_source(self, source: ImageBlob | ImageData) -> bytes | None:
        if isinstance(source, ImageData):
            return source.data
        with suppress(LogError):
            return self._read_blob(source.sha256)
        return None

    def _resolved_in(self, conversation: Conversation) -> dict[tuple[str, int], Image]:
        """Read the new entries of the branch; all of them on another branch, or after a rewind."""
        entries, (count, last) = conversation.entries_view(), self._read_position
        if count > len(entries) or (count and entries[count - 1] is not last):
            self._resolved, count = {}, 0
        for number in range(count, len(entries)):
            payload = entries[number].payload
            if isinstance(payload, Resolution):
                image = next((block for block in payload.content if isinstance(block, Image)), None)
                if image is not None:
                    self._resolved[payload.target, payload.block] = image
                else:
                    self._resolved.pop((payload.target, payload.block), None)
        self._read_position = (len(entries), entries[-1] if entries else None)
        return self._resolved


def _stored_source(block: Block | None) -> ImageBlob | ImageData | None:
    """Return the source of a block, if it is an image whose bytes are stored."""
    source = block.source if isinstance(block, Image) else None
    return source if isinstance(source, ImageBlob | ImageData) else None
