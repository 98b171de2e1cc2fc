"""Bytes that pretend to be an image, or are one that should not be opened."""

from __future__ import annotations

import struct
import zipfile
import zlib
from io import BytesIO
from random import Random

import PIL.Image
import pytest

from steno.inputs.images.prepare import (
    MAX_IMAGE_FILE_BYTES,
    MAX_PIXELS,
    BadImage,
    ImageLimits,
    describe_image,
    image_limits_for,
    prepare_for_model,
    prepare_for_ocr,
)
from tests.inputs.images.image_samples import (
    ROOMY,
    decode_image,
    encode_image,
    noise_image,
    png_chunk,
    red_image,
    sent,
)
from tests.raised_errors import raises_code

LIMITS = image_limits_for("anthropic_messages")


def png_of(width: int, height: int, depth: int = 8) -> bytes:
    """Return a PNG file that claims a size and has almost no data."""
    header = struct.pack(">IIBBBBB", width, height, depth, 2, 0, 0, 0)
    body = png_chunk(b"IDAT", zlib.compress(b"\0" * 1000))
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + body + png_chunk(b"IEND", b"")


def gif_of(width: int, height: int) -> bytes:
    data = bytearray(encode_image(red_image().convert("P"), "GIF"))
    data[6:10] = struct.pack("<HH", width, height)
    return bytes(data)


def bmp_of(width: int, height: int) -> bytes:
    data = bytearray(encode_image(red_image(), "BMP"))
    data[18:26] = struct.pack("<ii", width, height)
    return bytes(data)


def webp_of(width: int, height: int) -> bytes:
    frames = [PIL.Image.new("RGB", (40, 20), "green")]
    data = bytearray(encode_image(red_image(), "WEBP", save_all=True, append_images=frames))
    data[24:30] = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return bytes(data)


def jpeg_of(width: int, height: int) -> bytes:
    data = bytearray(encode_image(red_image(), "JPEG"))
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = struct.pack(">HH", height, width)
    return bytes(data)


BOMBS = {
    "PNG": (png_of(100_000, 100_000), "image_too_long"),
    "PNG of 2**31": (png_of(2**31 - 1, 2**31 - 1), "image_too_long"),
    "GIF": (gif_of(65_535, 65_535), "too_many_pixels"),
    "BMP": (bmp_of(100_000, 100_000), "image_too_long"),
    "WebP": (webp_of(16_384, 16_384), "too_many_pixels"),
    "WebP of 2**32": (webp_of(65_536, 65_535), "too_many_pixels"),
    "JPEG": (jpeg_of(65_500, 65_500), "too_many_pixels"),
    "too long": (png_of(1, 65_536), "image_too_long"),
    "just too many": (png_of(MAX_PIXELS // 1000 + 1, 1000), "too_many_pixels"),
}


@pytest.mark.parametrize("case", BOMBS)
@pytest.mark.requirement("S2-28")
def test_an_image_that_claims_too_many_pixels_is_refused_before_it_is_decoded(case: str) -> None:
    """If it were decoded, each of them would be reported as damaged: it has almost no data."""
    data, code = BOMBS[case]
    for act in (lambda data: prepare_for_model(data, LIMITS), prepare_for_ocr, describe_image):
        with raises_code(BadImage, code):
            act(data)


def segment(marker: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def jpeg_of_scans(count: int) -> bytes:
    """Return a JPEG file of 16 x 16 pixels with many empty scans."""
    tables = segment(0xDB, b"\0" + b"\1" * 64)
    frame = segment(0xC2, struct.pack(">BHHBBBB", 8, 16, 16, 1, 1, 0x11, 0))
    codes = b"".join(
        segment(0xC4, kind + b"\1" + bytes(15) + symbol)
        for kind, symbol in ((b"\x00", b"\x00"), (b"\x10", b"\xe0"))
    )
    colours = segment(0xDA, bytes((1, 1, 0, 0, 0, 0))) + b"\x0f"
    nothing = segment(0xDA, bytes((1, 1, 0, 1, 63, 0))) + b"\x7f\xff\x00"
    return b"\xff\xd8" + tables + frame + codes + colours + nothing * count + b"\xff\xd9"


def test_an_image_with_too_many_scans_is_refused_before_it_is_decoded() -> None:
    assert prepare_for_model(jpeg_of_scans(100), LIMITS).details["width"] == 16
    for act in (lambda data: prepare_for_model(data, LIMITS), prepare_for_ocr, describe_image):
        with raises_code(BadImage, "too_many_scans"):
            act(jpeg_of_scans(201))


def test_bytes_after_the_end_of_an_image_are_not_counted_as_scans() -> None:
    film = b"\xff\xda\0\2" * 1_000
    assert prepare_for_model(encode_image(red_image(), "JPEG") + film, LIMITS).details["bytes"]


def test_a_file_that_is_too_large_is_not_looked_at() -> None:
    data = encode_image(red_image()) + bytes(MAX_IMAGE_FILE_BYTES)
    with raises_code(BadImage, "image_too_large"):
        prepare_for_model(data, LIMITS)


def test_of_a_bomb_of_frames_one_is_decoded() -> None:
    frames = [PIL.Image.new("P", (200, 200), n % 200) for n in range(1500)]
    data = encode_image(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert decode_image(sent(prepare_for_model(data, LIMITS))).size == (200, 200)


# -- not an image --------------------------------------------------------------------------------


def archive() -> bytes:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("shot.png", encode_image(red_image()))
    return buffer.getvalue()


NO_IMAGES = {
    "svg": (b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>', "is text"),
    "xml": (b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>', "text"),
    "html": (b"<html><body>404</body></html>", "is text"),
    "zip": (archive(), "a ZIP archive"),
    "pdf": (b"%PDF-1.7\n\xff\xfe\0\0", "a PDF document"),
    "postscript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is text"),
    "nothing": (b"", "is empty"),
    "a zero": (b"\0", "binary data"),
    "avif": (encode_image(red_image(), "AVIF"), "binary data"),
    "ico": (encode_image(red_image(), "ICO"), "binary data"),
    "jpeg 2000": (encode_image(red_image(), "JPEG2000"), "binary data"),
}


@pytest.mark.parametrize("case", NO_IMAGES)
@pytest.mark.requirement("S2-28")
def test_an_unsupported_format_is_named_and_not_opened(case: str) -> None:
    data, what = NO_IMAGES[case]
    with raises_code(BadImage, "not_an_image") as caught:
        prepare_for_model(data, LIMITS)
    assert what in caught.value.message
    assert "PNG, JPEG, GIF, WebP, BMP or TIFF" in caught.value.message


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
def test_an_image_that_is_cut_short_is_an_error(kind: str) -> None:
    data = encode_image(noise_image(64, 64), kind)
    for part in (data[: len(data) // 2], data[:12]):
        with pytest.raises(BadImage):
            prepare_for_model(part, ROOMY)
        with pytest.raises(BadImage):
            prepare_for_ocr(part)


def test_a_magic_number_and_nothing_else_is_an_error() -> None:
    for magic in (b"BM", b"II*\0", b"GIF89a", b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBP"):
        with pytest.raises(BadImage):
            prepare_for_model(magic, LIMITS)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
def test_of_a_file_that_is_two_things_only_the_image_is_sent(kind: str) -> None:
    """An archive is read from its end, an image from its start: one file can be both."""
    polyglot = encode_image(red_image(), kind) + archive()
    assert zipfile.is_zipfile(BytesIO(polyglot))
    result = sent(prepare_for_model(polyglot, ROOMY))
    assert decode_image(result).size == (40, 20)
    assert not zipfile.is_zipfile(BytesIO(result))


def test_a_script_inside_a_gif_is_not_sent_on() -> None:
    data = encode_image(red_image().convert("P"), "GIF", comment=b"<script>alert(1)</script>")
    limits = ROOMY._replace(types=frozenset({"image/gif", "image/png"}))
    assert b"script" not in sent(prepare_for_model(data, limits))


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow's warnings about damaged files
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
def test_any_damage_gives_an_image_or_a_clear_error(kind: str) -> None:
    random = Random(f"damage to {kind}")
    whole = encode_image(red_image(24, 16), kind)
    limits = ImageLimits(max_bytes=100_000, max_edge=20)
    outcomes = set()
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(random.randint(1, 6)):
            data[random.randrange(len(data))] = random.randrange(256)
        try:
            outcomes.add(max(decode_image(sent(prepare_for_model(bytes(data), limits))).size) <= 20)
        except BadImage:
            outcomes.add(True)
    assert outcomes == {True}
