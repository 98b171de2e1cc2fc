"""An image as a model may have it: upright, without metadata, within the limits of an API.

An image that is all that already is passed on byte for byte. Any other is decoded and written anew,
which leaves behind whatever its file held besides pixels. Graphics become PNG, photographs JPEG;
quality goes before size. All of this takes time: call it in a thread. It knows no model and no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from steno.content import Image, ImageData
from steno.inputs.images.bare import is_bare, is_lossy_webp
from steno.inputs.images.limits import ImageLimits
from steno.inputs.images.opening import FAULTS, BadImage, check_kind, facts, opened

if TYPE_CHECKING:
    import PIL.Image
    from PIL.ImageFile import ImageFile

__all__ = ["OCR_EDGE", "BadImage", "Prepared", "for_ocr", "prepare"]

OCR_EDGE: Final = 4096
"""More pixels than this make text no more legible, only slower to find."""

_QUALITIES: Final = (90, 80, 65, 50)
_LEAST_EDGE: Final = 64
"""An image that has to be smaller than this to fit shows nothing any more."""
_PLAIN_MODES: Final = frozenset({"1", "L", "LA", "P", "RGB", "RGBA"})
"""How decoders everywhere expect pixels to be stored."""
_ORIENTATION: Final = 0x0112
"""The EXIF tag for how the camera was held."""
_PROFILED_MODES: Final = frozenset({"RGB", "RGBA", "CMYK"})

# Pillow's numbers (`Transpose`), since it may not be there when this file is loaded.
_FLIP_SIDES, _FLIP_ENDS, _LEFT, _OVER, _RIGHT, _TRANSPOSE, _TRANSVERSE = range(7)
_TURNS: Final[Mapping[int, int]] = {
    2: _FLIP_SIDES,
    3: _OVER,
    4: _FLIP_ENDS,
    5: _TRANSPOSE,
    6: _RIGHT,
    7: _TRANSVERSE,
    8: _LEFT,
}


class Prepared(NamedTuple):
    """An image that can be sent, and for the record what was done to it."""

    image: Image
    details: dict[str, Any]
    """Of the original: sha256, bytes, mime_type, width, height. The same in `sent`; `changed`."""


def prepare(data: bytes, limits: ImageLimits) -> Prepared:
    """Make an image fit for an API. Raises BadImage, and ImportError without Pillow."""
    mime_type = check_kind(data)
    with opened(data, mime_type) as image:
        details = facts(data, mime_type, image.size)
        if _fits(data, image, mime_type, limits):
            image.load()  # whether it is whole shows only now
            return _prepared(data, mime_type, image.size, [], details)
        is_photograph = mime_type == "image/jpeg" or (
            mime_type == "image/webp" and is_lossy_webp(data)
        )
        pixels, changed = _decoded(image, limits.longest_edge)
    if not is_bare(data, mime_type):
        changed.append("metadata removed")
    sent, size = _encoded(pixels, limits, is_photograph=is_photograph)
    if size != pixels.size:
        changed.append("shrunk to fit")
    sent_type = check_kind(sent)
    if sent_type != mime_type:
        changed.append(f"written as {sent_type.removeprefix('image/').upper()}")
    return _prepared(sent, sent_type, size, changed, details)


def for_ocr(data: bytes) -> bytes:
    """Return an image as an upright PNG of a sane size. Raises BadImage, ImportError."""
    with opened(data, check_kind(data)) as image:
        pixels, _ = _decoded(image, OCR_EDGE)
        return _png(_opaque(pixels))


def _fits(data: bytes, image: ImageFile, mime_type: str, limits: ImageLimits) -> bool:
    """Tell whether an image can be sent as it is."""
    return (
        mime_type in limits.types
        and len(data) <= limits.most_bytes
        and max(image.size) <= limits.longest_edge
        and image.mode in _PLAIN_MODES
        and is_bare(data, mime_type)
    )


def _prepared(
    sent: bytes,
    mime_type: str,
    size: tuple[int, int],
    changed: list[str],
    details: dict[str, Any],
) -> Prepared:
    image = Image(source=ImageData(sent), mime_type=mime_type)
    return Prepared(image, details | {"sent": facts(sent, mime_type, size), "changed": changed})


# -- pixels ----------------------------------------------------------------------------------


def _decoded(image: ImageFile, longest_edge: int) -> tuple[PIL.Image.Image, list[str]]:
    """Return the first frame upright, with plain colours, no larger than allowed; and what changed."""
    from PIL.Image import Transpose  # noqa: PLC0415 - it is loaded by now

    changed = ["first frame only"] if getattr(image, "is_animated", False) else []
    profile = image.info.get("icc_profile")
    mode, size = image.mode, image.size
    image.draft(None, _within(size, longest_edge))  # JPEG can be decoded smaller at once
    image.load()
    pixels = _shrunk(_plain(image), longest_edge)
    if max(pixels.size) < max(size):
        changed.append("shrunk")
    turn = _TURNS.get(_orientation(image))
    if turn is not None:
        pixels = pixels.transpose(Transpose(turn))
        changed.append("turned upright")
    before = pixels
    if profile and pixels.mode in _PROFILED_MODES:
        pixels = _in_srgb(pixels, profile)
    if pixels is not before or mode not in _PLAIN_MODES:
        changed.append("colours converted")
    pixels = pixels.copy() if pixels.mode in {"L", "RGB", "RGBA"} else pixels.convert("RGB")
    pixels.info.clear()  # what is left there would be written: comments, profiles, resolution
    return pixels, changed


def _orientation(image: ImageFile) -> int:
    """Return how the camera was held, in the numbers of EXIF; what cannot be read is 1, upright."""
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except FAULTS:
        return 1


def _within(size: tuple[int, int], longest_edge: int) -> tuple[int, int]:
    width, height = size
    scale = min(1.0, longest_edge / max(size))
    return max(1, round(width * scale)), max(1, round(height * scale))


def _shrunk(image: PIL.Image.Image, longest_edge: int) -> PIL.Image.Image:
    from PIL.Image import Resampling  # noqa: PLC0415 - it is loaded by now

    size = _within(image.size, longest_edge)
    return image if size == image.size else image.resize(size, Resampling.LANCZOS)


def _plain(image: PIL.Image.Image) -> PIL.Image.Image:
    """Return an image with one byte for each of its channels, and no palette."""
    mode = image.mode
    if mode.startswith("I;16"):
        return image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if mode in {"I", "F"}:
        # There is no telling what the brightest value would be: take that which is there.
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


def _in_srgb(image: PIL.Image.Image, profile: bytes) -> PIL.Image.Image:
    """Return an image in the colours that everybody expects; as it is if its profile is no good."""
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


def _opaque(image: PIL.Image.Image) -> PIL.Image.Image:
    """Return an image as it looks on white paper."""
    if image.mode != "RGBA":
        return image
    import PIL.Image  # noqa: PLC0415 - it is loaded by now

    paper = PIL.Image.new("RGBA", image.size, "white")
    return PIL.Image.alpha_composite(paper, image).convert("RGB")


# -- bytes -----------------------------------------------------------------------------------


def _encoded(
    image: PIL.Image.Image, limits: ImageLimits, *, is_photograph: bool
) -> tuple[bytes, tuple[int, int]]:
    """Return an image as a file that is small enough, and the size in pixels that it has then."""
    takes_jpeg, takes_png = "image/jpeg" in limits.types, "image/png" in limits.types
    if not (takes_jpeg or takes_png):
        raise BadImage("cannot be sent: this API takes neither PNG nor JPEG")
    prefers_jpeg = takes_jpeg and is_photograph and image.mode != "RGBA"
    while True:
        if takes_png and not prefers_jpeg:
            data = _png(image)
            if len(data) <= limits.most_bytes:
                return data, image.size
        for quality in _QUALITIES if takes_jpeg else ():
            data = _jpeg(_opaque(image), quality)
            if len(data) <= limits.most_bytes:
                return data, image.size
        if max(image.size) <= _LEAST_EDGE:
            raise BadImage(f"cannot be made to fit into {limits.most_bytes:,} bytes")
        image = _shrunk(image, max(image.size) * 3 // 4)


def _png(image: PIL.Image.Image) -> bytes:
    buffer = BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def _jpeg(image: PIL.Image.Image, quality: int) -> bytes:
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()
