"""An image as lines on the screen: each character shows two pixels, one above the other.

That works in every terminal with colours, and while scrolling. The bytes are untrusted: the first
bytes select the decoder, the size is checked before anything is decoded, and callers run this in a
thread. This is the only module of the interface that imports Pillow.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Final

from PIL.GifImagePlugin import GifImageFile
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

MAX_DRAWN_PIXELS: Final = 64_000_000
"""The maximal number of pixels of a drawn image, enough for photos of most cameras."""
MAX_SCANS: Final = 100
"""The maximal number of scans of a JPEG; each scan takes as long as the first."""
MAX_ROWS: Final = 24
"""The maximal height of an image, so that there is room for text."""

_READERS: Final[Mapping[bytes, tuple[str, Callable[[BytesIO], ImageFile]]]] = {
    b"\x89PNG": ("png", PngImageFile),
    b"\xff\xd8": ("jpeg", JpegImageFile),
    b"GIF8": ("gif", GifImageFile),
    b"RIFF": ("webp", WebPImageFile),
}
"""The decoders by the first bytes of a file; `Image.open` would print warnings on stderr."""
_DECODER_ERRORS: Final = (
    *(OSError, SyntaxError, ValueError, TypeError, ArithmeticError, LookupError, EOFError),
    *(AssertionError, MemoryError, struct.error, zlib.error, Warning),
)


def draw_image(data: bytes, width: int, *, has_color: bool = True) -> Sequence[Strip]:
    """Return the lines of a caption and of the image, which is scaled down to the width.

    Only the caption is returned if `has_color` is false, or if the image is too large, damaged or
    of an unknown type.
    """
    reader_entry = next(
        (reader_entry for first, reader_entry in _READERS.items() if data.startswith(first)), None
    )
    if reader_entry is None:
        return _caption_lines("[image]")
    kind, reader = reader_entry
    try:
        with reader(BytesIO(data)) as image:
            caption = f"image {image.width}×{image.height} {kind}"  # noqa: RUF001 - the sign for it
            if image.width * image.height > MAX_DRAWN_PIXELS:
                return _caption_lines(f"[{caption}; too large to show]")
            if kind == "jpeg" and data.count(b"\xff\xda") > MAX_SCANS:
                return _caption_lines(f"[{caption}; would take too long to show]")
            if not has_color:
                return _caption_lines(f"[{caption}]")
            return [*_caption_lines(f"[{caption}]"), *_half_blocks(image, width)]
    except _DECODER_ERRORS:
        return _caption_lines(f"[image {kind}; damaged]")


def _caption_lines(text: str) -> Sequence[Strip]:
    return [Strip([Segment(text, Style(dim=True))])]


def _half_blocks(image: ImageFile, width: int) -> list[Strip]:
    # A cell is about twice as high as wide, so half a cell is about a square.
    scale = min(1.0, width / image.width, 2 * MAX_ROWS / image.height)
    columns = max(1, round(image.width * scale))
    pixel_rows = max(2, 2 * round(image.height * scale / 2))
    image.draft("RGB", (columns, pixel_rows))  # a JPEG is decoded at a reduced size
    scaled = image.convert("RGBA").resize((columns, pixel_rows))
    raw = scaled.tobytes()
    pixels = [raw[offset : offset + 4] for offset in range(0, len(raw), 4)]
    rows = [pixels[offset : offset + columns] for offset in range(0, len(pixels), columns)]
    return [
        Strip([_cell(*pair) for pair in zip(upper, lower, strict=True)], columns)
        for upper, lower in zip(rows[::2], rows[1::2], strict=True)
    ]


def _cell(upper: bytes, lower: bytes) -> Segment:
    """Return a character for two pixels; transparent pixels show the background."""
    match upper[3] > 127, lower[3] > 127:
        case True, True:
            return Segment("▀", Style(color=_color(upper), bgcolor=_color(lower)))
        case True, False:
            return Segment("▀", Style(color=_color(upper)))
        case False, True:
            return Segment("▄", Style(color=_color(lower)))
        case _:
            return Segment(" ", Style())


def _color(pixel: bytes) -> Color:
    return Color.from_rgb(*pixel[:3])
