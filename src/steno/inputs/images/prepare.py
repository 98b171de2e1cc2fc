"""Prepare an image for a model, upright, without metadata and within the limits of an API.

An image that already meets these requirements is sent unchanged. Any other image is decoded and
encoded again, which removes everything except its pixels. Graphics become PNG and photographs
become JPEG, at the highest quality within the limits. The first bytes of a file select its decoder,
not its name or declared type, and nothing is decoded before the size in the header is checked. Call
these functions in a thread, because they are slow. This module depends on Pillow, but not on models
or paths.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from steno.errors import MissingExtra, ToolFailed
from steno.messages.content import Image, ImageData
from steno.tools.text_file import decode_text_file, describe_binary, detect_image_type

_PNG_AND_JPEG: Final = frozenset({"image/png", "image/jpeg"})


class ImageLimits(NamedTuple):
    """The limits for one image in a request."""

    max_bytes: int
    """The maximum size of the file; its base64 encoding is a third larger."""
    max_edge: int
    """The maximum length of the longer edge in pixels; APIs refuse or shrink larger images."""
    types: frozenset[str] = _PNG_AND_JPEG
    """The accepted MIME types; empty if the API does not accept images."""


# llama.cpp serves the wires of OpenAI and Anthropic. It decodes images with stb_image, which does
# not support WebP, and ignores such an image without an error. So only PNG and JPEG are sent,
# although OpenAI and Anthropic also accept GIF and WebP. xAI accepts only PNG and JPEG.
# OpenAI: 20 MB per image, 50 MB per request; an image that does not fit into 2048 x 2048 is shrunk
# (guide "Images and vision"). Groq: 4 MB in base64 (guide "Vision"), the lowest limit of all.
_OPENAI_LIMITS: Final = ImageLimits(max_bytes=3_000_000, max_edge=2048)

IMAGE_LIMITS: Final[Mapping[str, ImageLimits]] = {
    "openai_chat": _OPENAI_LIMITS,
    "openai_responses": _OPENAI_LIMITS,
    # "image exceeds 5 MB maximum": 5,242,880 bytes counted in base64, still on Bedrock and Vertex.
    # Above 8000 pixels, or 2000 with more than 20 images in a request, an image is refused; above
    # 1568, older models see no more detail (guide "Vision").
    "anthropic_messages": ImageLimits(max_bytes=3_750_000, max_edge=1568),
    # 20 MB per request, 7 MB per file on Vertex, assumed to be counted in base64. There is no limit
    # on pixels; models before Gemini 3 shrank images to 3072 (guide "Image understanding").
    "gemini": ImageLimits(max_bytes=5_000_000, max_edge=3072, types=_PNG_AND_JPEG | {"image/webp"}),
    # No limits are documented; every version decodes PNG and JPEG (ollama#2457).
    "ollama_chat": ImageLimits(max_bytes=5_000_000, max_edge=2048),
    # Flat messages contain only text.
    "chat": ImageLimits(max_bytes=0, max_edge=0, types=frozenset()),
}
"""The limits of each wire, by name."""

_FALLBACK_LIMITS: Final = ImageLimits(max_bytes=3_000_000, max_edge=1568)


def image_limits_for(wire: str) -> ImageLimits:
    """Return the image limits of a wire; for an unknown wire, limits that every API accepts."""
    return IMAGE_LIMITS.get(wire, _FALLBACK_LIMITS)


if TYPE_CHECKING:
    import PIL.Image
    from PIL.ImageFile import ImageFile

MAX_IMAGE_FILE_BYTES: Final = 50_000_000
MAX_PIXELS: Final = 64_000_000
"""The maximum number of pixels, which large cameras reach. Decoded, they take 256 MB."""
MAX_EDGE: Final = 65_535
"""The maximum edge length. Some decoders print a line for each bad row of longer images."""
MAX_OCR_EDGE: Final = 4096
"""The maximum edge length for OCR; more pixels only make recognition slower."""


class BadImage(ToolFailed):
    """An image cannot be opened safely, or cannot be sent. The message does not name the image."""

    code = "bad_image"


class PreparedImage(NamedTuple):
    """An image that can be sent, and a description of the changes for the log."""

    image: Image
    details: dict[str, Any]
    """The sha256, bytes, mime_type, width and height of the original, and `sent` and `changed`.

    `sent` contains the same values for the image that is sent. `changed` lists the changes.
    """


def prepare_for_model(data: bytes, limits: ImageLimits) -> PreparedImage:
    """Prepare an image for an API.

    Raises BadImage if the image cannot be used, and ImportError if Pillow is not installed.
    """
    mime_type = check_image_type(data)
    with open_image(data, mime_type) as image:
        details = image_facts(data, mime_type, image.size)
        if (
            mime_type in limits.types
            and len(data) <= limits.max_bytes
            and max(image.size) <= limits.max_edge
            and image.mode in _PLAIN_MODES
            and is_pixels_only(data, mime_type)
        ):
            image.load()  # fails if the file is incomplete
            return _build_prepared(data, mime_type, image.size, [], details)
        is_photograph = mime_type == "image/jpeg" or (
            mime_type == "image/webp" and is_lossy_webp(data)
        )
        pixels, changed = _decode_pixels(image, limits.max_edge)
    if not is_pixels_only(data, mime_type):
        changed.append("metadata removed")
    sent, size = _encode_to_fit(pixels, limits, is_photograph=is_photograph)
    if size != pixels.size:
        changed.append("shrunk to fit")
    sent_type = check_image_type(sent)
    if sent_type != mime_type:
        changed.append(f"written as {sent_type.removeprefix('image/').upper()}")
    return _build_prepared(sent, sent_type, size, changed, details)


def prepare_for_ocr(data: bytes) -> bytes:
    """Return an image as an upright PNG of limited size.

    Raises BadImage if the image cannot be used, and ImportError if Pillow is not installed.
    """
    with open_image(data, check_image_type(data)) as image:
        pixels, _ = _decode_pixels(image, MAX_OCR_EDGE)
        return _encode(_flatten_transparency(pixels), "PNG")


def describe_image(data: bytes) -> dict[str, Any]:
    """Return the hash, the type and the size of an image for the log, without decoding it.

    Raises BadImage if the image cannot be opened, and ImportError if Pillow is not installed.
    """
    mime_type = check_image_type(data)
    with open_image(data, mime_type) as image:
        return image_facts(data, mime_type, image.size)


def image_facts(data: bytes, mime_type: str, size: tuple[int, int]) -> dict[str, Any]:
    """Return the hash, the type and the size of an image for the log."""
    return {
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "mime_type": mime_type,
        "width": size[0],
        "height": size[1],
    }


def _build_prepared(
    sent: bytes,
    mime_type: str,
    size: tuple[int, int],
    changed: list[str],
    details: dict[str, Any],
) -> PreparedImage:
    image = Image(source=ImageData(sent), mime_type=mime_type)
    sent_facts = image_facts(sent, mime_type, size)
    return PreparedImage(image, details | {"sent": sent_facts, "changed": changed})


# -- opening --------------------------------------------------------------------------------------

_KNOWN_FORMATS: Final = "PNG, JPEG, GIF, WebP, BMP or TIFF"
DECODER_ERRORS: Final = (
    *(OSError, SyntaxError, ValueError, TypeError, ArithmeticError, LookupError, EOFError),
    *(AssertionError, MemoryError, struct.error, zlib.error, Warning),
)
"""Exceptions that decoders raise for invalid bytes, including warnings turned into errors."""


def check_image_type(data: bytes) -> str:
    """Return the MIME type of an image, detected from its first bytes.

    Raises BadImage if the type is not supported or the file is too large.
    """
    if len(data) > MAX_IMAGE_FILE_BYTES:
        raise BadImage(
            f"has {len(data):,} bytes, more than the limit of {MAX_IMAGE_FILE_BYTES:,};"
            " make it smaller",
            code="image_too_large",
        )
    if data.startswith(b"BM"):
        return "image/bmp"
    if data.startswith((b"II*\0", b"MM\0*")):
        return "image/tiff"
    if found := detect_image_type(data):
        return found
    kind = "text" if decode_text_file(data[:4096]) is not None else describe_binary(data)
    raise BadImage(
        f"is {kind if data else 'empty'}, not a supported image; use {_KNOWN_FORMATS}",
        code="not_an_image",
    )


@contextmanager
def open_image(data: bytes, mime_type: str) -> Generator[ImageFile, None, None]:
    """Open an image for the `with` block, and read its header.

    Raises BadImage if the image is too large or has too many scans, and if the decoder raises an
    exception, even within the block. Raises ImportError if Pillow is not installed.
    """
    decoder = _load_decoders()[mime_type]
    from PIL.Image import DecompressionBombError  # noqa: PLC0415 - already loaded

    if mime_type == "image/jpeg" and has_too_many_scans(data):
        message = f"has more than {_MAX_SCANS} scans, which take too long to decode"
        raise BadImage(message, code="too_many_scans")
    try:
        with decoder(BytesIO(data)) as image:
            _check_image_size(*image.size)
            yield image
    except DecompressionBombError as exc:
        message = f"has more than {MAX_PIXELS:,} pixels; make it smaller"
        raise BadImage(message, code="too_many_pixels") from exc
    except DECODER_ERRORS as exc:
        message = "is damaged, incomplete, or not of the type that its first bytes indicate"
        raise BadImage(message, code="image_damaged") from exc


def _check_image_size(width: int, height: int) -> None:
    """Raise BadImage if an image is too large; the header of a small file can claim any size."""
    if (edge := max(width, height)) > MAX_EDGE:
        message = f"is {edge:,} pixels long, more than the limit of {MAX_EDGE:,}"
        raise BadImage(f"{message}; make it smaller", code="image_too_long")
    if width * height > MAX_PIXELS:
        message = f"has {width:,} x {height:,} pixels, more than the limit of {MAX_PIXELS:,}"
        raise BadImage(f"{message}; make it smaller", code="too_many_pixels")


def _load_decoders() -> Mapping[str, Callable[[BytesIO], ImageFile]]:
    """Return the decoder for each MIME type.

    `Image.open` is not used, because it warns about large images before they can be refused.
    """
    try:
        # Imported with the first image, because importing Pillow takes longer than all of steno.
        from PIL.BmpImagePlugin import BmpImageFile  # noqa: PLC0415
        from PIL.GifImagePlugin import GifImageFile  # noqa: PLC0415
        from PIL.JpegImagePlugin import JpegImageFile  # noqa: PLC0415
        from PIL.PngImagePlugin import PngImageFile  # noqa: PLC0415
        from PIL.TiffImagePlugin import TiffImageFile  # noqa: PLC0415
        from PIL.WebPImagePlugin import WebPImageFile  # noqa: PLC0415
    except ModuleNotFoundError as exc:
        raise MissingExtra("images need Pillow", extra="images") from exc
    return {
        "image/bmp": BmpImageFile,
        "image/gif": GifImageFile,
        "image/jpeg": JpegImageFile,
        "image/png": PngImageFile,
        "image/tiff": TiffImageFile,
        "image/webp": WebPImageFile,
    }


# -- metadata -------------------------------------------------------------------------------------

_PNG_CHUNKS: Final = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND", b"sRGB"})
_PNG_HEADER_BYTES: Final = 8
_PNG_DEPTH_OFFSET: Final = 24
"""The offset of the bit depth; not every decoder supports 16 bits."""

_JPEG_END: Final = 0xD9
_JPEG_SCAN: Final = 0xDA
_JPEG_MARKER: Final = re.compile(rb"\xff([^\x00\x01\xd0-\xd8\xff])")
"""Matches the marker at the start of a segment or at the end of the file."""
_MAX_SCANS: Final = 200
"""The maximum number of scans in a JPEG file; progressive files have about ten."""
_JPEG_JFIF: Final = 0xE0
_JPEG_ADOBE: Final = 0xEE
"""The segment that states how colours are encoded, which decoders need."""
_JPEG_TABLES: Final = frozenset({0xC4, 0xDB, 0xDD, _JPEG_SCAN})
_JPEG_FRAMES: Final = frozenset({0xC0, 0xC1, 0xC2})
# Within the data of a scan, 0xFF is followed by a stuffed zero or a restart marker only.
_JPEG_STUFFED: Final = frozenset({0x00, *range(0xD0, 0xD8)})
_JFIF_BYTES: Final = 16
"""The length of a JFIF segment without a thumbnail."""
_ADOBE_BYTES: Final = 14

_WEBP_CHUNKS: Final = frozenset({b"VP8 ", b"VP8L", b"VP8X", b"ALPH"})
_WEBP_HEADER_BYTES: Final = 12


def is_pixels_only(data: bytes, mime_type: str) -> bool:
    """Return whether a file contains only pixels and no metadata.

    The result is False for formats other than PNG, JPEG and WebP, and for invalid files.
    """
    check = _CHECKS.get(mime_type)
    return check is not None and check(data)


def has_too_many_scans(data: bytes) -> bool:
    """Return whether a JPEG file has too many scans.

    An empty scan takes only a hundred bytes, but is as slow to decode as any other scan.
    """
    offset, scans = 2, 0
    while scans <= _MAX_SCANS and (found := _JPEG_MARKER.search(data, offset)) is not None:
        marker, offset = found[1][0], found.end()
        if marker == _JPEG_END:
            break
        scans += marker == _JPEG_SCAN
        offset += int.from_bytes(data[offset : offset + 2])
    return scans > _MAX_SCANS


def is_lossy_webp(data: bytes) -> bool:
    """Return whether a WebP file uses lossy compression, as photographs do."""
    return b"VP8 " in _webp_chunks(data)


def _is_pixels_only_png(data: bytes) -> bool:
    if data[_PNG_DEPTH_OFFSET : _PNG_DEPTH_OFFSET + 1] > b"\x08":
        return False
    offset = _PNG_HEADER_BYTES
    while offset + 12 <= len(data):
        kind = data[offset + 4 : offset + 8]
        offset += 12 + int.from_bytes(data[offset : offset + 4])
        if kind not in _PNG_CHUNKS:
            return False
        if kind == b"IEND":
            return offset == len(data)
    return False


def _is_pixels_only_jpeg(data: bytes) -> bool:
    offset = 2
    while offset + 4 <= len(data) and data[offset] == 0xFF:
        marker = data[offset + 1]
        length = int.from_bytes(data[offset + 2 : offset + 4])
        if not _is_plain_segment(marker, length, data[offset + 4 : offset + 9]):
            return False
        offset += 2 + length
        if marker == _JPEG_SCAN:
            offset = _scan_end(data, offset)
            if data[offset : offset + 2] == bytes((0xFF, _JPEG_END)):
                return offset + 2 == len(data)
    return False


def _is_plain_segment(marker: int, length: int, name: bytes) -> bool:
    if marker == _JPEG_JFIF:
        return name == b"JFIF\0" and length == _JFIF_BYTES
    if marker == _JPEG_ADOBE:
        return name == b"Adobe" and length == _ADOBE_BYTES
    return marker in _JPEG_TABLES or marker in _JPEG_FRAMES


def _scan_end(data: bytes, offset: int) -> int:
    """Return the position of the next marker after the data of a scan."""
    while (offset := data.find(0xFF, offset)) >= 0 and offset + 1 < len(data):
        if data[offset + 1] not in _JPEG_STUFFED:
            return offset
        offset += 2
    return len(data)


def _is_pixels_only_webp(data: bytes) -> bool:
    size = int.from_bytes(data[4:8], "little") + 8
    return size == len(data) and all(kind in _WEBP_CHUNKS for kind in _webp_chunks(data))


def _webp_chunks(data: bytes) -> Iterator[bytes]:
    offset = _WEBP_HEADER_BYTES
    while offset < len(data):
        yield data[offset : offset + 4]
        length = int.from_bytes(data[offset + 4 : offset + 8], "little")
        offset += 8 + length + length % 2


_CHECKS: Final[Mapping[str, Callable[[bytes], bool]]] = {
    "image/png": _is_pixels_only_png,
    "image/jpeg": _is_pixels_only_jpeg,
    "image/webp": _is_pixels_only_webp,
}


# -- pixels ---------------------------------------------------------------------------------------

_PLAIN_MODES: Final = frozenset({"1", "L", "LA", "P", "RGB", "RGBA"})
"""Pixel modes that every decoder supports."""
_ORIENTATION_TAG: Final = 0x0112
"""The EXIF tag for the orientation of the camera."""
_PROFILED_MODES: Final = frozenset({"RGB", "RGBA", "CMYK"})
# The values of Pillow's `Transpose`, copied because Pillow may not be installed.
_FLIP_SIDES, _FLIP_ENDS, _LEFT, _OVER, _RIGHT, _TRANSPOSE, _TRANSVERSE = range(7)
_TRANSPOSES: Final[Mapping[int, int]] = {
    2: _FLIP_SIDES,
    3: _OVER,
    4: _FLIP_ENDS,
    5: _TRANSPOSE,
    6: _RIGHT,
    7: _TRANSVERSE,
    8: _LEFT,
}


def _decode_pixels(image: ImageFile, max_edge: int) -> tuple[PIL.Image.Image, list[str]]:
    """Return the first frame of an image, and a description of each change.

    The frame is upright, has the mode L, RGB or RGBA, and no edge longer than `max_edge`.
    """
    from PIL.Image import Transpose  # noqa: PLC0415 - already loaded

    changed = ["first frame only"] if getattr(image, "is_animated", False) else []
    profile = image.info.get("icc_profile")
    mode, size = image.mode, image.size
    image.draft(None, _scale_size(size, max_edge))  # JPEG can be decoded at a smaller size
    image.load()
    pixels = _shrink(_convert_to_plain_mode(image), max_edge)
    if max(pixels.size) < max(size):
        changed.append("shrunk")
    try:
        orientation = int(image.getexif().get(_ORIENTATION_TAG, 1))
    except DECODER_ERRORS:  # an unreadable orientation counts as upright
        orientation = 1
    transpose = _TRANSPOSES.get(orientation)
    if transpose is not None:
        pixels = pixels.transpose(Transpose(transpose))
        changed.append("turned upright")
    unconverted = pixels
    if profile and pixels.mode in _PROFILED_MODES:
        pixels = _convert_to_srgb(pixels, profile)
    if pixels is not unconverted or mode not in _PLAIN_MODES:
        changed.append("colours converted")
    pixels = pixels.copy() if pixels.mode in {"L", "RGB", "RGBA"} else pixels.convert("RGB")
    pixels.info.clear()  # or Pillow writes comments, profiles and the resolution
    return pixels, changed


def _scale_size(size: tuple[int, int], max_edge: int) -> tuple[int, int]:
    width, height = size
    scale = min(1.0, max_edge / max(size))
    return max(1, round(width * scale)), max(1, round(height * scale))


def _shrink(image: PIL.Image.Image, max_edge: int) -> PIL.Image.Image:
    from PIL.Image import Resampling  # noqa: PLC0415 - already loaded

    size = _scale_size(image.size, max_edge)
    return image if size == image.size else image.resize(size, Resampling.LANCZOS)


def _convert_to_plain_mode(image: PIL.Image.Image) -> PIL.Image.Image:
    """Return an image with one byte for each of its channels, and no palette."""
    mode = image.mode
    if mode.startswith("I;16"):
        return image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if mode in {"I", "F"}:
        # The range is unknown, so scale the values that occur.
        low, high = (
            float(value) for value in image.getextrema() if isinstance(value, (int, float))
        )
        scale = 255 / (high - low or 1)
        return image.point(lambda value: value * scale + -low * scale).convert("L")
    if image.has_transparency_data:
        return image if mode == "RGBA" else image.convert("RGBA")
    if mode in {"1", "L"}:
        return image.convert("L")
    return image if mode in {"RGB", "CMYK"} else image.convert("RGB")


def _convert_to_srgb(image: PIL.Image.Image, profile: bytes) -> PIL.Image.Image:
    """Return an image converted to sRGB; unchanged if its profile is invalid."""
    from PIL import ImageCms  # noqa: PLC0415 - only some images have a profile

    try:
        converted = ImageCms.profileToProfile(
            image,
            ImageCms.ImageCmsProfile(BytesIO(profile)),
            ImageCms.createProfile("sRGB"),
            outputMode="RGBA" if image.mode == "RGBA" else "RGB",
        )
    except (ImageCms.PyCMSError, OSError):
        return image
    return converted or image


def _flatten_transparency(image: PIL.Image.Image) -> PIL.Image.Image:
    """Return an image on a white background, without transparency."""
    if image.mode != "RGBA":
        return image
    import PIL.Image  # noqa: PLC0415 - already loaded

    background = PIL.Image.new("RGBA", image.size, "white")
    return PIL.Image.alpha_composite(background, image).convert("RGB")


# -- encoding -------------------------------------------------------------------------------------

_JPEG_QUALITIES: Final = (90, 80, 65, 50)
_MIN_EDGE: Final = 64
"""The edge length at which shrinking stops, because smaller images are useless."""


def _encode_to_fit(
    image: PIL.Image.Image, limits: ImageLimits, *, is_photograph: bool
) -> tuple[bytes, tuple[int, int]]:
    """Encode an image within the limits; return the file, and the size in pixels.

    Raises BadImage if the image cannot be made small enough, or if the API accepts neither PNG nor
    JPEG.
    """
    takes_jpeg, takes_png = "image/jpeg" in limits.types, "image/png" in limits.types
    if not (takes_jpeg or takes_png):
        message = "cannot be sent: this API accepts neither PNG nor JPEG"
        raise BadImage(message, code="api_takes_no_images")
    prefers_jpeg = takes_jpeg and is_photograph and image.mode != "RGBA"
    while True:
        if takes_png and not prefers_jpeg:
            data = _encode(image, "PNG")
            if len(data) <= limits.max_bytes:
                return data, image.size
        for quality in _JPEG_QUALITIES if takes_jpeg else ():
            data = _encode(_flatten_transparency(image), "JPEG", quality=quality)
            if len(data) <= limits.max_bytes:
                return data, image.size
        if max(image.size) <= _MIN_EDGE:
            message = f"cannot be shrunk to {limits.max_bytes:,} bytes"
            raise BadImage(message, code="image_does_not_fit")
        image = _shrink(image, max(image.size) * 3 // 4)


def _encode(image: PIL.Image.Image, format: str, **options: int) -> bytes:
    buffer = BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()
