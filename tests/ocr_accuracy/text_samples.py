"""Images of known text: clean, small, noisy, faint, rotated, skewed, and in several languages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from random import Random
from typing import Final, NamedTuple

from PIL import Image, ImageFilter, ImageOps

from tests.inputs.ocr.text_images import draw_text, encode_png, rotate_image
from tests.ocr_accuracy.fonts_and_data import Parts

ENGLISH: Final = (
    "The quick brown fox jumps over the lazy dog.\n"
    "Invoice 2024-117: total 1,234.50 EUR, due on 15 March.\n"
    "def read(path: str) -> bytes: return open(path).read()\n"
    "Ship it on Friday, or tell Ada why not."
)
GERMAN: Final = (
    "Größere Änderungen müssen früh besprochen werden.\n"
    "Die Rechnung über 1.234,50 € ist am 15. März fällig.\n"
    "Falsches Üben von Xylophonmusik quält jeden größeren Zwerg."
)
FRENCH: Final = (
    "Où est passée la clé du garage ? Là-bas, près de l'entrée.\n"
    "Le maître a reçu ça dès Noël, malgré l'été très chaud.\n"
    "Voilà une leçon à répéter : être prêt, c'est réussir."
)
SPANISH: Final = (
    "¿Cuándo llegará el camión? Mañana, según el año pasado.\n"
    "El niño pidió más azúcar, ¡qué sorpresa!\n"
    "La reunión será el miércoles después del almuerzo."
)
CHINESE: Final = (
    "今天天气很好，我们去公园散步。\n请在星期五之前提交报告。\n这个程序可以识别图片中的文字。"
)
OTHERS: Final = {
    "German": ("de", GERMAN),
    "French": ("fr", FRENCH),
    "Spanish": ("es", SPANISH),
    "Chinese": ("zh", CHINESE),
}


class Sample(NamedTuple):
    """An image and its text."""

    name: str
    image: bytes
    text: str
    language: str
    floor: float = 0.95
    """What part of it every engine has to get right at least; 0 where one may find nothing."""


def samples(parts: Parts) -> Iterator[Sample]:
    """Yield all images that can be drawn with these parts."""
    page = draw_text(ENGLISH, size=22, font=parts.font)
    for name, change in _CHANGES.items():
        yield Sample(name, change(page), ENGLISH, "en", _FLOORS.get(name, 0.95))
    for size in (8, 11, 48):
        name = f"letters of {size} pixels"
        image = draw_text(ENGLISH, size=size, font=parts.font)
        yield Sample(name, encode_png(image), ENGLISH, "en", _FLOORS.get(name, 0.95))
    for name, (language, text) in OTHERS.items():
        font = parts.chinese if name == "Chinese" else parts.font
        if font is not None:
            yield Sample(name, encode_png(draw_text(text, size=22, font=font)), text, language, 0.9)


def _noisy(image: Image.Image, part: float) -> Image.Image:
    """Blend an image with noise; the same noise each time."""
    width, height = image.size
    noise = Image.frombytes("L", image.size, Random(7).randbytes(width * height))
    return Image.blend(image, noise.convert("RGB"), part)


def _faint(image: Image.Image) -> Image.Image:
    """Return the image as grey on slightly lighter grey."""
    return image.point(lambda value: value * (40 / 255) + 150)


def _jpeg(image: Image.Image) -> bytes:
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=20)
    return buffer.getvalue()


_CHANGES: Final[dict[str, Callable[[Image.Image], bytes]]] = {
    "clean": encode_png,
    "white on black": lambda image: encode_png(ImageOps.invert(image)),
    "low contrast": lambda image: encode_png(_faint(image)),
    "noisy": lambda image: encode_png(_noisy(image, 0.4)),
    "very noisy": lambda image: encode_png(_noisy(image, 0.65)),
    "blurred": lambda image: encode_png(image.filter(ImageFilter.GaussianBlur(1.2))),
    "JPEG of low quality": _jpeg,
    "on its left side": lambda image: encode_png(rotate_image(image, 90)),
    "upside down": lambda image: encode_png(rotate_image(image, 180)),
    "on its right side": lambda image: encode_png(rotate_image(image, 270)),
    "skewed by 2 degrees": lambda image: encode_png(rotate_image(image, 2)),
    "skewed by -5 degrees": lambda image: encode_png(rotate_image(image, -5)),
    "skewed and upside down": lambda image: encode_png(rotate_image(image, 184)),
}
_FLOORS: Final = {"very noisy": 0.0, "letters of 8 pixels": 0.8, "letters of 11 pixels": 0.9}
