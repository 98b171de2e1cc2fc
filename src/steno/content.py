"""Content blocks: the parts that messages are made of.

Frozen, tagged structs. A block says what it is, never where it is or who decided about it.
What a block refers to (a file, an image on disk) is resolved elsewhere and recorded in the log.
"""

from __future__ import annotations

import posixpath
from datetime import UTC, datetime
from enum import StrEnum
from typing import ClassVar, TypeAlias, final

from msgspec.structs import force_setattr

from steno.call import InvalidToolCall, Seal, ToolCall
from steno.errors import InvalidMessage
from steno.value import Value, Verbatim, explain_text, is_text

OWN_FORMAT = "steno"


class _Block(Value, frozen=True, tag_field="type"):
    """Shared settings; never named outside this file."""


@final
class Text(_Block, frozen=True, tag="text"):
    """Words, as the user, the model or a tool put them."""

    text: str
    seal: Seal | None = None

    def __post_init__(self) -> None:
        text = self.text
        if type(text) is str and text.isascii():  # is_text(), without the call: the hot path
            return
        if not is_text(text):
            raise InvalidMessage(f"text: {explain_text(text)}")


@final
class Thinking(_Block, frozen=True, tag="thinking"):
    """What a model thought before it spoke. `redacted`: only its seal was handed out."""

    text: str
    seal: Seal | None = None
    redacted: bool = False

    def __post_init__(self) -> None:
        if not is_text(self.text):
            raise InvalidMessage(f"thinking: {explain_text(self.text)}")
        if self.redacted and self.seal is None:
            raise InvalidMessage("thinking: redacted without a seal says nothing to anybody")


# -- images ----------------------------------------------------------------------------------


class RecognitionMode(StrEnum):
    """How an image reaches a model: as an image, as recognised text, or whichever works."""

    AUTO = "auto"
    VISION = "vision"
    OCR = "ocr"


class _ImageSource(Value, frozen=True, tag_field="type"):
    """Shared settings; never named outside this file."""


@final
class ImageData(_ImageSource, frozen=True, tag="data"):
    """The bytes of an image, inside the message."""

    data: bytes

    def __post_init__(self) -> None:
        if type(self.data) is not bytes or not self.data:
            raise InvalidMessage("image: data must be non-empty bytes")


@final
class ImageBlob(_ImageSource, frozen=True, tag="blob"):
    """The bytes of an image, kept beside the messages under their SHA-256."""

    sha256: str
    size: int

    def __post_init__(self) -> None:
        if len(self.sha256) != 64 or not set(self.sha256) <= set("0123456789abcdef"):
            raise InvalidMessage("image: sha256 must be 64 lower-case hexadecimal digits")
        if self.size < 1:
            raise InvalidMessage("image: size must be at least one byte")


@final
class ImageUrl(_ImageSource, frozen=True, tag="url"):
    """The address of an image."""

    url: str

    def __post_init__(self) -> None:
        if not (is_text(self.url) and self.url.startswith(("https://", "http://"))):
            raise InvalidMessage("image: url must start with https:// or http://")


@final
class ImageFile(_ImageSource, frozen=True, tag="file"):
    """The path of an image in the workspace."""

    path: str

    def __post_init__(self) -> None:
        force_setattr(self, "path", _normalise_path(self.path, "image"))


ImageSource: TypeAlias = ImageData | ImageBlob | ImageUrl | ImageFile


@final
class Image(_Block, frozen=True, tag="image", kw_only=True):
    """An image, and how it should be recognised. What came of it is recorded in the log."""

    shown: ClassVar[frozenset[str]] = frozenset({"mime_type"})

    source: ImageSource
    mime_type: str | None = None
    mode: RecognitionMode = RecognitionMode.AUTO

    def __post_init__(self) -> None:
        if not isinstance(self.source, ImageSource):
            raise InvalidMessage("image: source must be ImageData, ImageBlob, ImageUrl, ImageFile")
        if self.mime_type is None:
            if isinstance(self.source, (ImageData, ImageBlob)):
                raise InvalidMessage("image: bytes need a mime_type such as image/png")
        elif not (is_text(self.mime_type) and self.mime_type.startswith("image/")):
            raise InvalidMessage("image: mime_type must start with image/")
        if type(self.mode) is not RecognitionMode:
            raise InvalidMessage("image: mode must be a RecognitionMode")


# -- references ------------------------------------------------------------------------------


@final
class FileReference(_Block, frozen=True, tag="file_reference", kw_only=True):
    """A file that the user points at, or some of its lines (1-indexed, both ends included)."""

    path: str
    start_line: int | None = None
    end_line: int | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "path", _normalise_path(self.path, "file reference"))
        if self.start_line is None:
            if self.end_line is not None:
                raise InvalidMessage("file reference: end_line needs a start_line")
            return
        if type(self.start_line) is not int or self.start_line < 1:
            raise InvalidMessage("file reference: start_line counts from 1")
        if self.end_line is not None and (
            type(self.end_line) is not int or self.end_line < self.start_line
        ):
            raise InvalidMessage("file reference: end_line must not come before start_line")


@final
class Resource(_Block, frozen=True, tag="resource", kw_only=True):
    """What an MCP server holds under a URI: text, bytes, or (with neither) a link to it."""

    shown: ClassVar[frozenset[str]] = frozenset({"server", "mime_type"})

    server: str
    uri: str
    mime_type: str | None = None
    text: str | None = None
    data: bytes | None = None
    retrieved_at: datetime | None = None

    def __post_init__(self) -> None:
        for field in ("server", "uri"):
            value = getattr(self, field)
            if not (value and is_text(value)):
                raise InvalidMessage(f"resource: {field} must be a non-empty string")
        if self.text is not None and self.data is not None:
            raise InvalidMessage("resource: text and data exclude each other")
        if self.text is not None and not is_text(self.text):
            raise InvalidMessage(f"resource: text {explain_text(self.text)}")
        if self.data is not None and type(self.data) is not bytes:
            raise InvalidMessage("resource: data must be bytes")
        if self.retrieved_at is not None:
            force_setattr(self, "retrieved_at", as_utc(self.retrieved_at, "resource: retrieved_at"))


# -- what we have no name for ----------------------------------------------------------------


@final
class Opaque(_Block, frozen=True, tag="opaque", kw_only=True):
    """JSON that is kept but not understood; never sent to anybody but where it came from.

    `origin` is the wire it came from, or "steno" for data of a newer steno, which is written
    back word for word.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"kind", "origin"})

    kind: str
    raw: str
    origin: str

    def __post_init__(self) -> None:
        for field in ("kind", "raw", "origin"):
            value = getattr(self, field)
            if not is_text(value):
                raise InvalidMessage(f"opaque: {field} {explain_text(value)}")
        if self.origin == OWN_FORMAT:
            force_setattr(self, "unknown", Verbatim(self.raw))


Block: TypeAlias = (
    Text | Thinking | Image | FileReference | Resource | ToolCall | InvalidToolCall | Opaque
)


def as_utc(moment: object, place: str) -> datetime:
    """Return `moment` in UTC. Raises InvalidMessage if it is no time or has no time zone."""
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise InvalidMessage(f"{place} must be a datetime with a time zone")
    return moment.astimezone(UTC)


def _normalise_path(path: str, place: str) -> str:
    """Return `path` without empty, `.` and inner `..` steps.

    A path that climbs out of where it starts is refused here; whether the file behind it lies
    in an allowed folder is decided when it is opened.
    """
    if not (path and is_text(path)):
        raise InvalidMessage(f"{place}: path must be a non-empty string")
    if "\0" in path:
        raise InvalidMessage(f"{place}: path holds a NUL character")
    normal = posixpath.normpath(path)
    if normal == ".." or normal.startswith("../"):
        raise InvalidMessage(f"{place}: path must not lead out of its root with ..")
    return normal
