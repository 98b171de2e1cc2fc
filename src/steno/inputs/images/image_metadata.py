"""Whether the bytes of an image are the image and nothing else.

Walks the segments of a file by an allow-list: what tells colours and pixels may stay, and anything
else (EXIF, XMP, profiles, comments, thumbnails, further frames, what follows the end) is not bare.
Files that are bare can be passed on as they are. This file decodes nothing and knows no library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

_PNG_CHUNKS: Final = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND", b"sRGB"})
_PNG_HEADER_BYTES: Final = 8
_PNG_DEPTH_OFFSET: Final = 24
"""Where the bits of a sample are told; with 16 of them not every decoder can do."""

_JPEG_END: Final = 0xD9
_JPEG_SCAN: Final = 0xDA
_JPEG_MARKER: Final = re.compile(rb"\xff([^\x00\x01\xd0-\xd8\xff])")
"""What begins a segment, or ends the file."""
_MAX_SCANS: Final = 200
"""Files that appear bit by bit have about ten."""
_JPEG_JFIF: Final = 0xE0
_JPEG_ADOBE: Final = 0xEE
"""Tells how colours are stored; without it they would be wrong."""
_JPEG_TABLES: Final = frozenset({0xC4, 0xDB, 0xDD, _JPEG_SCAN})
_JPEG_FRAMES: Final = frozenset({0xC0, 0xC1, 0xC2})
# Within the data of a scan 0xFF stands before a stuffed zero or a restart, and nothing else.
_JPEG_STUFFED: Final = frozenset({0x00, *range(0xD0, 0xD8)})
_JFIF_BYTES: Final = 16
"""The length of a JFIF segment that holds no thumbnail."""
_ADOBE_BYTES: Final = 14

_WEBP_CHUNKS: Final = frozenset({b"VP8 ", b"VP8L", b"VP8X", b"ALPH"})
_WEBP_HEADER_BYTES: Final = 12


def is_pixels_only(data: bytes, mime_type: str) -> bool:
    """Tell whether a file of this type holds its image alone; False if that cannot be told."""
    walk = _CHECKS.get(mime_type)
    return walk is not None and walk(data)


def has_too_many_scans(data: bytes) -> bool:
    """Tell whether a JPEG file draws its image anew more often than anybody wants to see.

    A scan that changes nothing takes a hundred bytes, and as long as any other.
    """
    place, scans = 2, 0
    while scans <= _MAX_SCANS and (found := _JPEG_MARKER.search(data, place)) is not None:
        marker, place = found[1][0], found.end()
        if marker == _JPEG_END:
            break
        scans += marker == _JPEG_SCAN
        place += int.from_bytes(data[place : place + 2])
    return scans > _MAX_SCANS


def is_lossy_webp(data: bytes) -> bool:
    """Tell whether a WebP file is compressed the way photographs are."""
    return b"VP8 " in _webp_chunks(data)


def _is_pixels_only_png(data: bytes) -> bool:
    if data[_PNG_DEPTH_OFFSET : _PNG_DEPTH_OFFSET + 1] > b"\x08":
        return False
    place = _PNG_HEADER_BYTES
    while place + 12 <= len(data):
        kind = data[place + 4 : place + 8]
        place += 12 + int.from_bytes(data[place : place + 4])
        if kind not in _PNG_CHUNKS:
            return False
        if kind == b"IEND":
            return place == len(data)
    return False


def _is_pixels_only_jpeg(data: bytes) -> bool:
    place = 2
    while place + 4 <= len(data) and data[place] == 0xFF:
        marker = data[place + 1]
        length = int.from_bytes(data[place + 2 : place + 4])
        if not _is_plain_segment(marker, length, data[place + 4 : place + 9]):
            return False
        place += 2 + length
        if marker == _JPEG_SCAN:
            place = _scan_end(data, place)
            if data[place : place + 2] == bytes((0xFF, _JPEG_END)):
                return place + 2 == len(data)
    return False


def _is_plain_segment(marker: int, length: int, name: bytes) -> bool:
    if marker == _JPEG_JFIF:
        return name == b"JFIF\0" and length == _JFIF_BYTES
    if marker == _JPEG_ADOBE:
        return name == b"Adobe" and length == _ADOBE_BYTES
    return marker in _JPEG_TABLES or marker in _JPEG_FRAMES


def _scan_end(data: bytes, place: int) -> int:
    """Return where the next marker stands behind the data of a scan."""
    while (place := data.find(0xFF, place)) >= 0 and place + 1 < len(data):
        if data[place + 1] not in _JPEG_STUFFED:
            return place
        place += 2
    return len(data)


def _is_pixels_only_webp(data: bytes) -> bool:
    size = int.from_bytes(data[4:8], "little") + 8
    return size == len(data) and all(kind in _WEBP_CHUNKS for kind in _webp_chunks(data))


def _webp_chunks(data: bytes) -> Iterator[bytes]:
    place = _WEBP_HEADER_BYTES
    while place < len(data):
        yield data[place : place + 4]
        length = int.from_bytes(data[place + 4 : place + 8], "little")
        place += 8 + length + length % 2


_CHECKS: Final[Mapping[str, Callable[[bytes], bool]]] = {
    "image/png": _is_pixels_only_png,
    "image/jpeg": _is_pixels_only_jpeg,
    "image/webp": _is_pixels_only_webp,
}
