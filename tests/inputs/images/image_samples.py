"""Generated images, and scripted permissions to open them."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Coroutine
from dataclasses import dataclass, field
from io import BytesIO
from random import Random
from typing import Any, TypeVar

import PIL.Image
from PIL.Image import Exif, Image

from steno.errors import ToolFailed
from steno.inputs.images.prepare import ImageLimits, PreparedImage, image_limits_for
from steno.messages.content import ImageData
from steno.ports import Capability

T = TypeVar("T")

GPS_SECRET = b"52 deg 31 min at home"
ORIENTATION = 0x0112
MAKER_NOTE = 0x927C
ROOMY = ImageLimits(
    max_bytes=5_000_000, max_edge=2000, types=image_limits_for("gemini").types | {"image/gif"}
)


def sent(prepared: PreparedImage) -> bytes:
    """Return the bytes that a model would receive."""
    assert isinstance(prepared.image.source, ImageData)
    return prepared.image.source.data


def run(main: Coroutine[Any, Any, T], limit_s: float = 60) -> T:
    """Run a test with a time limit."""

    async def limited() -> T:
        async with asyncio.timeout(limit_s):
            return await main

    return asyncio.run(limited())


def encode_image(image: Image, kind: str = "PNG", **settings: Any) -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind, **settings)
    return buffer.getvalue()


def decode_image(data: bytes) -> Image:
    with PIL.Image.open(BytesIO(data)) as image:
        image.load()
        return image


def red_image(width: int = 40, height: int = 20) -> Image:
    """Return a red image with a blue pixel in the upper left corner, to detect rotation."""
    image = PIL.Image.new("RGB", (width, height), "red")
    image.paste("blue", (0, 0, width // 4, height // 4))
    return image


def noise_image(width: int, height: int, mode: str = "RGB") -> Image:
    """Return an image that no encoder can compress."""
    bands = len(PIL.Image.new(mode, (1, 1)).getbands())
    return PIL.Image.frombytes(mode, (width, height), Random(7).randbytes(width * height * bands))


def exif_of(*, orientation: int = 1) -> Exif:
    exif = Exif()
    exif[ORIENTATION] = orientation
    exif[0x010E] = GPS_SECRET.decode()
    exif.get_ifd(0x8825)[2] = (52.0, 31.0, 0.0)
    return exif


def png_chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)


def with_chunk(png: bytes, kind: bytes, data: bytes) -> bytes:
    """Insert a chunk after the header of a PNG file."""
    return png[:33] + png_chunk(kind, data) + png[33:]


@dataclass
class ScriptedPermission:
    """Allows what a test sets, and records the requests."""

    denied: tuple[str, ...] = ()
    asked: list[tuple[str, Capability, str]] = field(default_factory=list)

    async def __call__(
        self, tool: str, capability: Capability, subject: str, *, preview: str = ""
    ) -> str:
        self.asked.append((tool, capability, subject))
        if subject in self.denied:
            raise ToolFailed("denied by a rule", code="denied", place=subject)
        return f"{tool}(*)"
