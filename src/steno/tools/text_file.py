"""Detect the type of a file from its bytes: text in some encoding, an image, or binary data.

Data is text if it begins with a byte order mark, is valid UTF-8, looks like UTF-16, or contains no
control characters; in the last case each byte is one character. Data that cannot be decoded, or
whose text contains a NUL character, is not text. New text is encoded like the original text. This
module opens no files.
"""

from __future__ import annotations

from typing import AnyStr, Final, Generic, NamedTuple, final

_BYTE_ORDER_MARKS: Final = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),  # before UTF-16, whose mark is a prefix of this one
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)

# cp1252 has quotes and dashes where Latin-1 has control characters. It leaves a few bytes
# undefined; a text with one of these bytes is decoded as Latin-1.
_SINGLE_BYTE_ENCODINGS: Final = ("cp1252", "latin-1")
_NON_TEXT_BYTES: Final = bytes({*range(0x20), 0x7F} - set(b"\t\n\r\f\x1b"))

_IMAGE_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_BINARY_SIGNATURES: Final = (
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive or a document in ZIP format"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"BZh", "bzip2-compressed data"),
    (b"\xfd7zXZ\x00", "xz-compressed data"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x7fELF", "an ELF program or library"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program or library"),
    (b"\xca\xfe\xba\xbe", "a Java class or a Mach-O program"),
    (b"MZ", "a Windows program or library"),
    (b"\x00asm", "a WebAssembly module"),
    (b"OggS", "Ogg audio or video"),
    (b"ID3", "MP3 audio"),
)


class TextFile(NamedTuple):
    """The decoded text of a file, with its encoding and its byte order mark."""

    text: str
    encoding: str
    byte_order_mark: bytes = b""
    """The byte order mark at the beginning; empty if there is none."""

    @property
    def label(self) -> str:
        """Python's name for the encoding; `utf-8-sig` for UTF-8 with a byte order mark."""
        return "utf-8-sig" if self.byte_order_mark and self.encoding == "utf-8" else self.encoding

    @property
    def line_count(self) -> int:
        """The number of lines; an empty last line is left out."""
        return self.text.count("\n") + (bool(self.text) and not self.text.endswith("\n"))

    @property
    def line_end(self) -> str:
        """The line end of most lines: CR LF or LF."""
        return "\r\n" if self.text.count("\r\n") * 2 > self.text.count("\n") else "\n"

    def encode(self, text: str) -> bytes:
        """Encode a text with the encoding and the byte order mark of the file.

        Raises UnicodeEncodeError if the encoding lacks a character of the text.
        """
        return self.byte_order_mark + text.encode(self.encoding)


@final
class LineReader(Generic[AnyStr]):
    """Reads lines of a text by ascending numbers, counted from 1, without a list of all lines.

    A list of the lines of a hostile file may need fifty times the memory of its text. Lines end
    with a line feed; an empty last line is left out.
    """

    def __init__(self, text: AnyStr, line_feed: AnyStr) -> None:
        self._text: AnyStr = text
        self._line_feed: AnyStr = line_feed
        self._number = 1
        self._start = 0  # the position at which the line with this number begins

    def read(self, number: int) -> AnyStr | None:
        """Return a line without its line feed; None if the text has no such line."""
        if number < self._number or not self._find(number) or self._start >= len(self._text):
            return None
        end = self._text.find(self._line_feed, self._start)
        return self._text[self._start : end if end >= 0 else None]

    def _find(self, number: int) -> bool:
        """Move to the start of a line; return whether there is one."""
        while (missing := number - self._number) > 0:
            block_end = self._start + _BLOCK_SIZE
            if missing > _NEAR_LINES:
                count = self._text.count(self._line_feed, self._start, block_end)
                if count < missing:
                    if block_end >= len(self._text):
                        return False
                    self._number += count
                    self._start = block_end
                    continue
            for _ in range(missing):
                end = self._text.find(self._line_feed, self._start)
                if end < 0:
                    return False
                self._start = end + 1
            self._number = number
        return True


_BLOCK_SIZE: Final = 65_536
_NEAR_LINES: Final = 64
"""The number of lines from which on blocks are skipped by counting their lines."""


def format_numbered_line(number: int, line: str) -> str:
    """Return a line as models see it, in the format of `cat -n`: its number, a tab, the line."""
    return f"{number:6}\t{line}\n"


def decode_text_file(data: bytes) -> TextFile | None:
    """Decode the content of a text file; None if it is not text."""
    for byte_order_mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(byte_order_mark):
            return _decode(data[len(byte_order_mark) :], encoding, byte_order_mark)
    if b"\0" in data:
        guess = _guess_utf_16(data)
        return None if guess is None else _decode(data, guess)
    if found := _decode(data, "utf-8"):
        return found
    if len(data.translate(None, _NON_TEXT_BYTES)) < len(data):
        return None
    return next(
        filter(None, (_decode(data, encoding) for encoding in _SINGLE_BYTE_ENCODINGS)), None
    )


def detect_image_type(data: bytes) -> str | None:
    """Return the MIME type of an image that models can read; None for anything else."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return next(
        (mime_type for magic, mime_type in _IMAGE_SIGNATURES if data.startswith(magic)), None
    )


def describe_binary(data: bytes) -> str:
    """Return a description of binary data, based on its first bytes."""
    return next(
        (kind for magic, kind in _BINARY_SIGNATURES if data.startswith(magic)), "binary data"
    )


def _decode(data: bytes, encoding: str, byte_order_mark: bytes = b"") -> TextFile | None:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else TextFile(text, encoding, byte_order_mark)


def _guess_utf_16(data: bytes) -> str | None:
    """Guess whether data is UTF-16 without a byte order mark; return the encoding or None.

    In Latin text, every other byte of UTF-16 is zero.
    """
    sample = data[:4096]
    first, second = sample[0::2], sample[1::2]
    if second.count(0) * 2 > len(second) and 0 not in first:
        return "utf-16-le"
    if first.count(0) * 2 > len(first) and 0 not in second:
        return "utf-16-be"
    return None
