"""The images of a conversation: read and drawn in a thread when they are seen, and a few kept.

A session may hold hundreds, so nobody asks for the bytes of one that is not looked at. It knows
blocks and no widget; what takes long to load is loaded with the first image.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeAlias, final

from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.strip import Strip

from steno.render.items import ImageLocation, TranscriptItem
from steno.ui.tui.transcript.deferred import load_image_drawing
from steno.ui.tui.transcript.item_drawing import DrawImage

MAX_CACHED_IMAGES: Final = 64
"""How many images stay drawn."""

ReadImageBytes: TypeAlias = Callable[[], bytes | None]
"""Returns the bytes of an image, in any thread; None if they cannot be read."""
FindImage: TypeAlias = Callable[[str, int], ReadImageBytes | None]
"""Returns what reads an image: by its entry, and its number among the parts there."""


def find_no_image(entry: str, number: int) -> ReadImageBytes | None:
    """Return nothing: nobody has any images."""
    return None


@final
class ImageCache:
    """Draws images, and says when one is there."""

    def __init__(
        self,
        start: Callable[[Coroutine[Any, Any, None]], object],
        on_change: Callable[[TranscriptItem], None],
        *,
        has_colours: Callable[[], bool],
    ) -> None:
        """Take who starts what takes long, and who is told that a block looks otherwise now."""
        self.find_image: FindImage = find_no_image
        """Who has the bytes."""
        self._start = start
        self._on_change = on_change
        self._has_colours = has_colours
        self._drawn: LRUCache[tuple[ImageLocation, int], Sequence[Strip]] = LRUCache(
            MAX_CACHED_IMAGES
        )
        self._pending: dict[tuple[ImageLocation, int], set[TranscriptItem]] = {}

    def drawer_for(self, item: TranscriptItem) -> DrawImage:
        """Return who brings the images of a block: at once, or a word now and them later."""

        def picture(image: ImageLocation, width: int) -> Sequence[Strip]:
            key = (image, width)
            if (found := self._drawn.get(key)) is not None:
                return found
            if key not in self._pending:
                read = self.find_image(*image)
                if read is None:
                    return []  # it may be at hand later
                self._pending[key] = set()
                self._start(self._draw(read, key))
            self._pending[key].add(item)
            return [Strip([Segment("[image …]", Style(dim=True))])]

        return picture

    async def _draw(self, read: ReadImageBytes, key: tuple[ImageLocation, int]) -> None:
        self._drawn[key] = await asyncio.to_thread(
            _read_and_draw, read, key[1], self._has_colours()
        )
        for item in self._pending.pop(key):
            self._on_change(item)


def _read_and_draw(read: ReadImageBytes, width: int, has_colours: bool) -> Sequence[Strip]:
    """Read and draw an image; to load who can do so takes time as well."""
    data = read()
    if data is None:
        return [Strip([Segment("[image; it cannot be read]")])]
    try:
        draw = load_image_drawing()
    except ImportError:
        return [Strip([Segment("[image; to see it: pip install 'steno[images]']")])]
    return draw(data, width, has_colours=has_colours)
