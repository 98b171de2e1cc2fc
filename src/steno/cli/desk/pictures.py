"""The images of a session: as they were said, or as what was pointed at was opened.

Where one is to be found is known at once; to read it may take a while, and is for another thread.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import final

from steno.content import Block, Image, ImageBlob, ImageData
from steno.conversation import Conversation
from steno.entry import Entry, Resolution
from steno.errors import LogError
from steno.message import Message
from steno.store import Store
from steno.tui.desk import ReadsImage


@final
class Pictures:
    """Finds the bytes of images; what references turned out to be is read once."""

    def __init__(self, store: Store) -> None:
        """Take where large images lie."""
        self._store = store
        self._resolved: dict[tuple[str, int], Image] = {}
        """What the references of the branch turned out to be: by their entry, and their block."""
        self._scanned: tuple[int, Entry | None] = (0, None)
        """How many entries of the branch were read, and the last of them."""

    def find(self, conversation: Conversation, entry: str, block: int) -> ReadsImage | None:
        """Return what reads an image of an entry; None where it is not at hand."""
        with suppress(LogError):  # whoever draws can do nothing about a store that fails
            payload = conversation.entry(entry).payload
            if isinstance(payload, Message) and block < len(payload.content):
                opened = self._resolved_in(conversation).get((entry, block))
                source = _held_by(payload.content[block]) or _held_by(opened)
                return None if source is None else partial(self._read_source, source)
        return None

    def _read_source(self, source: ImageBlob | ImageData) -> bytes | None:
        if isinstance(source, ImageData):
            return source.data
        with suppress(LogError):
            return self._store.blob(source.sha256)
        return None

    def _resolved_in(self, conversation: Conversation) -> dict[tuple[str, int], Image]:
        """Read what is new in the branch; all of it in another one, or after a rewind."""
        entries, (count, last) = conversation.entries_view(), self._scanned
        if count > len(entries) or (count and entries[count - 1] is not last):
            self._resolved, count = {}, 0
        for number in range(count, len(entries)):
            found = entries[number].payload
            if isinstance(found, Resolution):
                shown = next((one for one in found.content if isinstance(one, Image)), None)
                if shown is not None:
                    self._resolved[found.target, found.block] = shown
                else:
                    self._resolved.pop((found.target, found.block), None)
        self._scanned = (len(entries), entries[-1] if entries else None)
        return self._resolved


def _held_by(block: Block | None) -> ImageBlob | ImageData | None:
    """Return what has the bytes of a block, if it is an image and they are ours."""
    source = block.source if isinstance(block, Image) else None
    return source if isinstance(source, ImageBlob | ImageData) else None
