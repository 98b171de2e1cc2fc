"""The pixels of an image, for the engines."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from steno.errors import Unrecognised

if TYPE_CHECKING:
    from PIL.Image import Image


def decode_rgb_image(image: bytes) -> Image:
    """Decode a PNG or JPEG image. Raises Unrecognised, also if Pillow is not installed."""
    try:
        from PIL import Image  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as exc:
        raise Unrecognised("OCR needs Pillow: pip install 'steno[ocr]'") from exc
    try:
        with Image.open(BytesIO(image), formats=("PNG", "JPEG")) as opened:
            return opened.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as exc:
        raise Unrecognised("not a whole PNG or JPEG image: save it anew") from exc


def background_colour(picture: Image) -> tuple[int, ...]:
    """Return the colour that an image goes on in, where there has to be more of it."""
    colour = picture.getpixel((0, 0))
    return colour if isinstance(colour, tuple) else (255, 255, 255)
