"""Bytes that may be an image, opened as far as their header: what they are, and how large.

What a file is called, or is said to be, counts for nothing: its first bytes say which decoder gets
to see it, and no other does. Nothing is decoded before the header's own size was looked at. This
file knows Pillow, and nothing of models and what they take.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from steno.errors import ToolFailed
from steno.inputs.images.bare import has_many_scans
from steno.tools.text_file import image_type, kind_of, read_text

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

MOST_FILE_BYTES: Final = 50_000_000
MOST_PIXELS: Final = 64_000_000
"""What the largest cameras make; decoded that is a quarter of a gigabyte."""

LONGEST_EDGE: Final = 65_535
"""Nobody would see anything of what is longer. Some decoders print a line for each bad one."""

_KNOWN: Final = "PNG, JPEG, GIF, WebP, BMP and TIFF"

FAULTS: Final = (
    *(OSError, SyntaxError, ValueError, TypeError, ArithmeticError, LookupError, EOFError),
    *(AssertionError, MemoryError, struct.error, zlib.error, Warning),
)
"""What decoders raise on bytes that are not what they seem; warnings, where those are errors."""


class BadImage(ToolFailed):
    """Bytes that cannot be opened as an image, or not safely; the message says why, not where."""


def describe(data: bytes) -> dict[str, Any]:
    """Return what there is to know of an image without decoding it, for the record.

    Raises BadImage, and ImportError if Pillow is not installed.
    """
    mime_type = check_kind(data)
    with opened(data, mime_type) as image:
        return facts(data, mime_type, image.size)


def facts(data: bytes, mime_type: str, size: tuple[int, int]) -> dict[str, Any]:
    """Return the particulars of an image for the record."""
    return {
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "mime_type": mime_type,
        "width": size[0],
        "height": size[1],
    }


def check_kind(data: bytes) -> str:
    """Return the MIME type that the first bytes tell. Raises BadImage if it is none of ours."""
    if len(data) > MOST_FILE_BYTES:
        raise BadImage(
            f"has {len(data):,} bytes, and no more than {MOST_FILE_BYTES:,} are opened;"
            " make it smaller"
        )
    if found := _type_of(data):
        return found
    what = "text" if read_text(data[:4096]) is not None else kind_of(data)
    raise BadImage(
        f"is {what if data else 'empty'}, not an image that can be opened; {_KNOWN} can be"
    )


@contextmanager
def opened(data: bytes, mime_type: str) -> Generator[ImageFile, None, None]:
    """Open an image as far as its header; whatever its decoder raises inside is a BadImage."""
    decoder = _decoders()[mime_type]
    from PIL.Image import DecompressionBombError  # noqa: PLC0415 - it is loaded by now

    if mime_type == "image/jpeg" and has_many_scans(data):
        raise BadImage("is drawn anew too often, which would take for ever")
    try:
        with decoder(BytesIO(data)) as image:
            check_size(image.size)
            yield image
    except DecompressionBombError as exc:
        raise BadImage(f"would have more than {MOST_PIXELS:,} pixels; make it smaller") from exc
    except FAULTS as exc:
        raise BadImage("is damaged, cut short, or not what it begins like") from exc


def check_size(size: tuple[int, int]) -> None:
    """Raise BadImage for more pixels than anybody needs: a small file can claim any number."""
    width, height = size
    if max(size) > LONGEST_EDGE:
        raise BadImage(
            f"would be {max(size):,} pixels long, and no more than {LONGEST_EDGE:,} are"
            " opened; make it smaller"
        )
    if width * height > MOST_PIXELS:
        raise BadImage(
            f"would have {width:,} x {height:,} pixels, and no more than"
            f" {MOST_PIXELS:,} are opened; make it smaller"
        )


def _type_of(data: bytes) -> str | None:
    if data.startswith(b"BM"):
        return "image/bmp"
    if data.startswith((b"II*\0", b"MM\0*")):
        return "image/tiff"
    return image_type(data)


def _decoders() -> Mapping[str, Callable[[BytesIO], ImageFile]]:
    """Return who reads what.

    Not `Image.open`, which would warn of large images on standard error before we can refuse them.
    """
    try:
        # Loaded when an image is there: it takes longer than all of steno.
        from PIL.BmpImagePlugin import BmpImageFile  # noqa: PLC0415
        from PIL.GifImagePlugin import GifImageFile  # noqa: PLC0415
        from PIL.JpegImagePlugin import JpegImageFile  # noqa: PLC0415
        from PIL.PngImagePlugin import PngImageFile  # noqa: PLC0415
        from PIL.TiffImagePlugin import TiffImageFile  # noqa: PLC0415
        from PIL.WebPImagePlugin import WebPImageFile  # noqa: PLC0415
    except ModuleNotFoundError as exc:
        raise ImportError("images need Pillow: pip install 'steno[images]'") from exc
    return {
        "image/bmp": BmpImageFile,
        "image/gif": GifImageFile,
        "image/jpeg": JpegImageFile,
        "image/png": PngImageFile,
        "image/tiff": TiffImageFile,
        "image/webp": WebPImageFile,
    }
