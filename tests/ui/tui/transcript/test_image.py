"""Images as characters, and captions in place of hostile or damaged images."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO

import pytest
from PIL import Image
from rich.color import Color

from steno.ui.tui.transcript.image import MAX_ROWS, draw_image


def image(size: tuple[int, int], kind: str = "PNG", mode: str = "RGB") -> bytes:
    buffer = BytesIO()
    picture = Image.new(mode, size, (255, 0, 0, 255)[: len(mode)])
    picture.paste((0, 0, 255, 255)[: len(mode)], (0, size[1] // 2, size[0], size[1]))
    picture.save(buffer, kind)
    return buffer.getvalue()


def claimed(width: int, height: int) -> bytes:
    """Return a small PNG whose header claims a larger size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    ending = b"IEND"
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            struct.pack(">I", len(header)) + chunk + struct.pack(">I", zlib.crc32(chunk)),
            struct.pack(">I", 0) + ending + struct.pack(">I", zlib.crc32(ending)),
        ]
    )


def test_two_pixels_stand_in_each_character() -> None:
    caption, upper, lower = draw_image(image((3, 4)), 40)
    assert caption.text == "[image 3×4 png]"
    assert (upper.text, lower.text) == ("▀▀▀", "▀▀▀")
    style = next(iter(lower)).style
    assert style is not None
    assert style.color == Color.from_rgb(0, 0, 255)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_every_format_that_a_model_takes_is_drawn(kind: str) -> None:
    assert len(draw_image(image((8, 8), kind), 40)) == 1 + 4


def test_an_image_fits_into_the_room_there_is() -> None:
    lines = draw_image(image((4_000, 3_000)), 30)
    assert max(line.cell_length for line in lines[1:]) <= 30
    assert len(draw_image(image((10, 4_000)), 30)) <= 1 + MAX_ROWS


def test_transparent_pixels_are_drawn_as_blanks() -> None:
    buffer = BytesIO()
    Image.new("RGBA", (2, 2), (0, 0, 0, 0)).save(buffer, "PNG")
    assert draw_image(buffer.getvalue(), 10)[1].text == "  "


def test_without_colours_an_image_is_a_line_with_its_description() -> None:
    assert [line.text for line in draw_image(image((3, 4)), 40, has_color=False)] == [
        "[image 3×4 png]"
    ]


def test_an_image_that_would_fill_the_memory_is_not_opened() -> None:
    assert [line.text for line in draw_image(claimed(100_000, 100_000), 40)] == [
        "[image 100000×100000 png; too large to show]"
    ]


def test_a_jpeg_that_is_drawn_over_and_over_is_not_opened() -> None:
    data = image((8, 8), "JPEG") + b"\xff\xda" * 1_000
    assert "would take too long" in draw_image(data, 40)[0].text


@pytest.mark.parametrize("data", [image((64, 64))[:90], b"\x89PNG", b"\xff\xd8\xff", b"RIFF1234"])
def test_a_damaged_image_is_reported_as_damaged(data: bytes) -> None:
    assert "damaged" in draw_image(data, 40)[-1].text


def test_an_invalid_image_is_shown_as_a_line() -> None:
    assert [line.text for line in draw_image(b"hello", 40)] == ["[image]"]
