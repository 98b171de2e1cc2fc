"""Images of text, drawn with the font that comes with Pillow, which has only ASCII."""

from __future__ import annotations

from io import BytesIO

from PIL import Image, ImageDraw, ImageFont
from PIL.Image import Resampling

PAPER = (255, 255, 255)
INK = (0, 0, 0)


def draw_text(text: str, *, size: int = 22, font: str | None = None) -> Image.Image:
    """Draw black text on white."""
    letters = ImageFont.truetype(font, size) if font else ImageFont.load_default(size)
    spacing = size // 2
    ruler = ImageDraw.Draw(Image.new("RGB", (1, 1)))
    _, _, right, bottom = ruler.multiline_textbbox((0, 0), text, font=letters, spacing=spacing)
    image = Image.new("RGB", (int(right) + 2 * size, int(bottom) + 2 * size), PAPER)
    pen = ImageDraw.Draw(image)
    pen.multiline_text((size, size), text, font=letters, fill=INK, spacing=spacing)
    return image


def rotate_image(image: Image.Image, degrees: float) -> Image.Image:
    """Rotate an image counter-clockwise, and enlarge it to fit."""
    return image.rotate(degrees, expand=True, fillcolor=PAPER, resample=Resampling.BICUBIC)


def encode_png(image: Image.Image) -> bytes:
    """Encode an image as PNG."""
    buffer = BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()
