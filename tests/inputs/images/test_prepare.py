"""A prepared image is upright, within limits, and contains only pixels."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from typing import Any

import PIL.Image
import pytest
from PIL import ImageCms
from PIL.PngImagePlugin import PngInfo

from steno.inputs.images.prepare import (
    MAX_OCR_EDGE,
    BadImage,
    image_limits_for,
    prepare_for_model,
    prepare_for_ocr,
)
from tests.inputs.images.image_samples import (
    GPS_SECRET,
    ROOMY,
    decode_image,
    encode_image,
    exif_of,
    noise_image,
    red_image,
    sent,
    with_chunk,
)
from tests.raised_errors import raises_code

SECRET = b"do not tell"


def around(colour: tuple[int, ...], wanted: tuple[int, ...], by: int = 12) -> bool:
    return all(abs(one - other) <= by for one, other in zip(colour, wanted, strict=True))


# -- as it was -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "mime_type", "settings"),
    [
        ("PNG", "image/png", {}),
        ("JPEG", "image/jpeg", {}),
        ("JPEG", "image/jpeg", {"progressive": True, "optimize": True}),
        ("WEBP", "image/webp", {"lossless": True}),
        ("WEBP", "image/webp", {}),
    ],
)
@pytest.mark.requirement("S2-29")
def test_an_image_that_fits_and_is_nothing_else_is_passed_byte_for_byte(
    kind: str, mime_type: str, settings: dict[str, Any]
) -> None:
    data = encode_image(red_image(), kind, **settings)
    prepared = prepare_for_model(data, ROOMY)
    assert sent(prepared) == data
    assert prepared.image.mime_type == mime_type
    assert prepared.details["changed"] == []
    assert prepared.details["sent"]["sha256"] == prepared.details["sha256"]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_plain_modes_of_png_are_passed_byte_for_byte(mode: str) -> None:
    data = encode_image(red_image().convert(mode))
    assert sent(prepare_for_model(data, ROOMY)) == data


def test_one_pixel_is_an_image() -> None:
    data = encode_image(PIL.Image.new("RGB", (1, 1), "red"))
    assert sent(prepare_for_model(data, ROOMY)) == data
    small = prepare_for_model(encode_image(PIL.Image.new("RGB", (1, 1), "red"), "BMP"), ROOMY)
    assert decode_image(sent(small)).size == (1, 1)


def test_details_describe_the_original_and_the_sent_image() -> None:
    data = encode_image(red_image(3000, 1500), "BMP")
    details = prepare_for_model(data, ROOMY).details
    assert details["sha256"] == hashlib.sha256(data).hexdigest()
    assert (details["bytes"], details["mime_type"]) == (len(data), "image/bmp")
    assert (details["width"], details["height"]) == (3000, 1500)
    assert (details["sent"]["width"], details["sent"]["height"]) == (2000, 1000)
    assert details["sent"]["mime_type"] == "image/png"
    assert {"shrunk", "written as PNG"} <= set(details["changed"])


# -- nothing but pixels --------------------------------------------------------------------------


def png_texts() -> bytes:
    texts = PngInfo()
    texts.add_text("Comment", SECRET.decode())
    texts.add_itxt("XML:com.adobe.xmp", SECRET.decode())
    return encode_image(red_image(), pnginfo=texts)


def gif_comment() -> bytes:
    return encode_image(red_image().convert("P"), "GIF", comment=SECRET)


LADEN = {
    "JPEG EXIF": (encode_image(red_image(), "JPEG", exif=exif_of()), GPS_SECRET),
    "JPEG comment": (encode_image(red_image(), "JPEG", comment=SECRET), SECRET),
    "JPEG XMP": (encode_image(red_image(), "JPEG", xmp=SECRET), SECRET),
    "PNG EXIF": (encode_image(red_image(), exif=exif_of()), GPS_SECRET),
    "PNG texts": (png_texts(), SECRET),
    "PNG chunk of its own": (with_chunk(encode_image(red_image()), b"prVt", SECRET), SECRET),
    "PNG trailer": (encode_image(red_image()) + SECRET, SECRET),
    "JPEG trailer": (encode_image(red_image(), "JPEG") + SECRET, SECRET),
    "WebP EXIF": (encode_image(red_image(), "WEBP", exif=exif_of()), GPS_SECRET),
    "WebP XMP": (encode_image(red_image(), "WEBP", xmp=SECRET), SECRET),
    "WebP trailer": (encode_image(red_image(), "WEBP") + SECRET, SECRET),
    "GIF comment": (gif_comment(), SECRET),
    "TIFF description": (encode_image(red_image(), "TIFF", description=SECRET.decode()), SECRET),
}


@pytest.mark.parametrize("case", LADEN)
@pytest.mark.requirement("S2-29")
def test_metadata_is_not_in_what_is_sent_nor_in_what_is_recognised(case: str) -> None:
    data, secret = LADEN[case]
    assert secret in data
    prepared = prepare_for_model(data, ROOMY)
    assert secret not in sent(prepared)
    assert b"Exif" not in sent(prepared)
    assert "metadata removed" in prepared.details["changed"]
    assert secret not in prepare_for_ocr(data)


def test_a_prepared_image_is_not_changed_again() -> None:
    once = sent(prepare_for_model(LADEN["JPEG EXIF"][0], ROOMY))
    assert sent(prepare_for_model(once, ROOMY)) == once


def test_a_thumbnail_in_the_head_of_a_jpeg_is_removed() -> None:
    data = encode_image(red_image(), "JPEG")
    head, rest = data[:4], data[6:18] + b"\x01\x01" + b"\x11\x22\x33" + data[20:]
    prepared = prepare_for_model(head + (19).to_bytes(2) + rest, ROOMY)
    assert b"\x11\x22\x33" not in sent(prepared)[:40]
    assert "metadata removed" in prepared.details["changed"]


def test_a_profile_is_removed_and_its_colours_are_kept() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    data = encode_image(PIL.Image.new("RGB", (8, 8), (200, 100, 50)), icc_profile=profile)
    prepared = prepare_for_model(data, ROOMY)
    assert b"iCCP" in data
    assert b"iCCP" not in sent(prepared)
    assert around(decode_image(sent(prepared)).getpixel((0, 0)), (200, 100, 50), 2)  # type: ignore[arg-type]  # RGB


def test_a_broken_profile_is_dropped() -> None:
    data = encode_image(red_image(), icc_profile=b"not a profile")
    prepared = prepare_for_model(data, ROOMY)
    assert decode_image(sent(prepared)).size == (40, 20)
    assert prepared.details["changed"] == ["metadata removed"]


def test_converted_colours_are_recorded_as_a_change() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    picture = PIL.Image.new("RGB", (8, 8), (200, 100, 50))
    grey = encode_image(picture.convert("L"), icc_profile=profile)
    for data, is_converted in (
        (encode_image(picture, icc_profile=profile), True),
        (encode_image(picture.convert("CMYK"), "JPEG"), True),
        (grey, False),
    ):
        changed = prepare_for_model(data, ROOMY).details["changed"]
        assert ("colours converted" in changed) is is_converted


# -- the right way up ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(2, 9))
def test_an_image_is_turned_as_the_camera_was_held(kind: str, orientation: int) -> None:
    """Rotated or mirrored, the blue corner ends where EXIF places it."""
    data = encode_image(red_image(80, 40), kind, exif=exif_of(orientation=orientation))
    corner = {2: "right top", 3: "right bottom", 4: "left bottom", 5: "left top"}
    corner |= {6: "right top", 7: "right bottom", 8: "left bottom"}
    for result in (sent(prepare_for_model(data, ROOMY)), prepare_for_ocr(data)):
        image = decode_image(result).convert("RGB")
        assert image.size == ((80, 40) if orientation < 5 else (40, 80))
        side, end = corner[orientation].split()
        place = (2 if side == "left" else image.width - 3, 2 if end == "top" else image.height - 3)
        assert around(image.getpixel(place), (0, 0, 255), 60)  # type: ignore[arg-type]  # RGB


@pytest.mark.filterwarnings(
    "ignore:Corrupt EXIF data"
)  # a warning of Pillow, which is an error only in tests
def test_exif_that_cannot_be_read_does_not_cost_the_image() -> None:
    data = encode_image(red_image(), "JPEG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff")
    assert decode_image(sent(prepare_for_model(data, ROOMY))).size == (40, 20)


# -- colours -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_cmyk_becomes_rgb(kind: str) -> None:
    data = encode_image(PIL.Image.new("RGB", (16, 16), (200, 30, 40)).convert("CMYK"), kind)
    image = decode_image(sent(prepare_for_model(data, ROOMY)))
    assert image.mode == "RGB"
    assert around(image.getpixel((8, 8)), (200, 30, 40))  # type: ignore[arg-type]  # RGB


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_become_eight_and_keep_their_shades(kind: str) -> None:
    image = PIL.Image.new("I;16", (3, 1))
    for x, value in enumerate((0, 0x8000, 0xFFFF)):
        image.putpixel((x, 0), value)
    result = decode_image(sent(prepare_for_model(encode_image(image, kind), ROOMY)))
    assert result.mode == "L"
    assert [result.getpixel((x, 0)) for x in range(3)] == [0, 128, 255]


def test_brightness_without_a_scale_is_spread_over_what_there_is() -> None:
    image = PIL.Image.new("F", (2, 1))
    image.putpixel((0, 0), -3.0)
    image.putpixel((1, 0), 5.0)
    result = decode_image(sent(prepare_for_model(encode_image(image, "TIFF"), ROOMY)))
    assert [result.getpixel((x, 0)) for x in range(2)] == [0, 255]


def test_transparency_is_kept_in_png_and_laid_on_white_otherwise() -> None:
    clear = PIL.Image.new("RGBA", (8, 8), (255, 0, 0, 0))
    data = encode_image(clear, "TIFF")
    assert decode_image(sent(prepare_for_model(data, ROOMY))).getpixel((0, 0)) == (255, 0, 0, 0)
    only_jpeg = ROOMY._replace(types=frozenset({"image/jpeg"}))
    assert decode_image(sent(prepare_for_model(data, only_jpeg))).getpixel((0, 0)) == (
        255,
        255,
        255,
    )
    assert decode_image(prepare_for_ocr(data)).getpixel((0, 0)) == (255, 255, 255)


def test_a_palette_with_a_clear_colour_keeps_it() -> None:
    data = encode_image(PIL.Image.new("P", (8, 8), 0), "GIF", transparency=0)
    only_png = ROOMY._replace(types=frozenset({"image/png"}))
    assert decode_image(sent(prepare_for_model(data, only_png))).mode == "RGBA"


# -- frames --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_of_several_frames_the_first_is_sent(kind: str) -> None:
    others = [PIL.Image.new("RGB", (40, 20), (0, 200 + n, 0)) for n in range(3)]
    data = encode_image(red_image(), kind, save_all=True, append_images=others)
    prepared = prepare_for_model(data, ROOMY)
    image = decode_image(sent(prepared))
    assert getattr(image, "n_frames", 1) == 1
    assert around(image.convert("RGB").getpixel((39, 19)), (255, 0, 0))  # type: ignore[arg-type]  # RGB
    assert "first frame only" in prepared.details["changed"]


def test_of_several_pictures_in_a_jpeg_the_first_is_sent() -> None:
    second = PIL.Image.new("RGB", (40, 20), "green")
    data = encode_image(red_image(), "MPO", save_all=True, append_images=[second])
    image = sent(prepare_for_model(data, ROOMY))
    assert image.count(b"\xff\xd8\xff") == 1
    assert around(decode_image(image).getpixel((39, 19)), (255, 0, 0))  # type: ignore[arg-type]  # RGB


# -- limits --------------------------------------------------------------------------------------


@pytest.mark.requirement("S2-29")
def test_a_large_image_is_shrunk_in_proportion() -> None:
    prepared = prepare_for_model(
        encode_image(red_image(3000, 900), "JPEG"), image_limits_for("anthropic_messages")
    )
    assert decode_image(sent(prepared)).size == (1568, 470)
    assert prepared.image.mime_type == "image/jpeg"
    assert prepared.details["changed"] == ["shrunk"]


def test_a_very_thin_image_keeps_at_least_one_pixel() -> None:
    prepared = prepare_for_model(encode_image(PIL.Image.new("L", (9000, 1))), ROOMY)
    assert decode_image(sent(prepared)).size == (2000, 1)


def test_a_graphic_stays_png_until_it_is_too_large_for_it() -> None:
    data = encode_image(noise_image(300, 300), "BMP")
    assert prepare_for_model(data, ROOMY).image.mime_type == "image/png"
    tight = prepare_for_model(data, ROOMY._replace(max_bytes=60_000))
    assert tight.image.mime_type == "image/jpeg"
    assert len(sent(tight)) <= 60_000
    assert decode_image(sent(tight)).size == (300, 300)


def test_an_image_that_no_quality_makes_small_enough_is_shrunk() -> None:
    prepared = prepare_for_model(
        encode_image(noise_image(600, 300)), ROOMY._replace(max_bytes=10_000)
    )
    assert len(sent(prepared)) <= 10_000
    assert "shrunk to fit" in prepared.details["changed"]
    width, height = decode_image(sent(prepared)).size
    assert width == pytest.approx(height * 2, abs=2)


def test_only_types_that_are_taken_are_sent() -> None:
    for kind in ("GIF", "WEBP", "BMP", "TIFF", "JPEG"):
        data = encode_image(red_image(), kind)
        only_png = prepare_for_model(data, ROOMY._replace(types=frozenset({"image/png"})))
        assert only_png.image.mime_type == "image/png", kind


def test_a_lossy_webp_becomes_jpeg_where_webp_is_not_taken() -> None:
    prepared = prepare_for_model(
        encode_image(noise_image(64, 64), "WEBP"), image_limits_for("openai_chat")
    )
    assert prepared.image.mime_type == "image/jpeg"


def test_an_api_that_takes_no_type_we_write_is_a_clear_error() -> None:
    with raises_code(BadImage, "api_takes_no_images"):
        prepare_for_model(
            encode_image(red_image()), ROOMY._replace(types=frozenset({"image/heic"}))
        )


def test_an_image_that_never_fits_is_a_clear_error() -> None:
    with raises_code(BadImage, "image_does_not_fit"):
        prepare_for_model(encode_image(noise_image(100, 100)), ROOMY._replace(max_bytes=100))


def test_text_is_recognised_on_a_png_no_larger_than_needed() -> None:
    result = prepare_for_ocr(
        encode_image(PIL.Image.new("L", (MAX_OCR_EDGE * 2, 100), "white"), "JPEG")
    )
    assert decode_image(result).size == (MAX_OCR_EDGE, 50)
    assert decode_image(result).format == "PNG"
    assert decode_image(prepare_for_ocr(encode_image(red_image(30, 10)))).size == (30, 10)


def test_pillow_is_loaded_only_when_an_image_is_opened() -> None:
    program = "import sys, steno.inputs.images.resolver; sys.exit('PIL' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_without_pillow_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['PIL'] = None\n"
        "from steno.inputs.images.prepare import prepare_for_ocr\n"
        "try: prepare_for_ocr(b'BM')\n"
        "except ImportError as exc: print(exc)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert "pip install 'steno-agent[images]'" in done.stdout
