"""Content blocks, the parts of a message.

A block is a frozen, tagged struct that holds only content. References to files and to images on
disk are resolved by other modules, and the log records the resolved content.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Final, TypeAlias, final

from msgspec.structs import force_setattr

from steno.json_object import is_json_text
from steno.messages.call import InvalidToolCall, Seal, ToolCall
from steno.values import (
    NOTHING,
    RawJson,
    Sendable,
    Value,
    check_fields,
    check_sha256,
    is_prechecked,
    is_utf8_text,
    refuse,
    refuse_text,
)

OWN_FORMAT = "steno"


class _ContentBlock(Sendable, frozen=True, tag_field="type"):
    """The struct settings that all blocks share."""


class _SealedBlock(_ContentBlock, frozen=True, kw_only=True):
    """A block that may carry a seal from the model that created it."""

    seal: Seal | None = None


@final
class Text(_SealedBlock, frozen=True, tag="text"):
    """Plain text in a message of any role."""

    text: str

    def __post_init__(self) -> None:
        if is_prechecked() and self.extras is None:
            return
        text = self.text
        if type(text) is not str or not (text.isascii() or is_utf8_text(text)):
            refuse_text(self, "text", text)
        if self.seal is not None or self.extras is not None or self.unknown is not NOTHING:
            check_fields(self)


class _RedactableBlock(_SealedBlock, frozen=True, kw_only=True):
    """A block that a model may send redacted, with a seal but without content."""

    redacted: bool = False


@final
class Thinking(_RedactableBlock, frozen=True, tag="thinking"):
    """The reasoning of a model before its response. If `redacted`, the model sent only a seal."""

    text: str

    def __post_init__(self) -> None:
        if not is_prechecked() or self.extras is not None:
            check_fields(self)
        if self.redacted and self.seal is None:
            rule = "a redacted block needs a seal"
            refuse(self, rule, code="redacted_without_seal", field="seal")


# -- images ----------------------------------------------------------------------------------


class RecognitionMode(StrEnum):
    """The form in which a model receives an image: image, recognised text, or chosen by steno."""

    AUTO = "auto"
    VISION = "vision"
    OCR = "ocr"


class _ImageSource(Value, frozen=True, tag_field="type"):
    """The struct settings that all image sources share."""


@final
class ImageData(_ImageSource, frozen=True, tag="data"):
    """The bytes of an image, stored in the message."""

    data: bytes

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.data:
            refuse(self, "data must not be empty", code="empty", field="data")


@final
class ImageBlob(_ImageSource, frozen=True, tag="blob", kw_only=True):
    """The bytes of an image, stored as a blob under their SHA-256."""

    sha256: str
    size: int

    def __post_init__(self) -> None:
        check_fields(self)
        check_sha256(self, "sha256")
        if self.size < 1:
            refuse(self, "size must be at least one byte", code="out_of_range", field="size")


@final
class ImageUrl(_ImageSource, frozen=True, tag="url"):
    """The http or https URL of an image."""

    url: str

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.url.startswith(("https://", "http://")):
            rule = "url must start with https:// or http://"
            refuse(self, rule, code="invalid_url", field="url")


@final
class ImageFile(_ImageSource, frozen=True, tag="file"):
    """The path of an image in the workspace."""

    path: str

    def __post_init__(self) -> None:
        check_fields(self)
        force_setattr(self, "path", _normal_path(self))


ImageSource: TypeAlias = ImageData | ImageBlob | ImageUrl | ImageFile


@final
class Image(_ContentBlock, frozen=True, tag="image", kw_only=True):
    """An image, and the form (`mode`) in which a model should receive it."""

    shown: ClassVar[frozenset[str]] = frozenset({"mime_type"})

    source: ImageSource
    mime_type: str | None = None
    mode: RecognitionMode = RecognitionMode.AUTO

    def __post_init__(self) -> None:
        check_fields(self)
        if self.mime_type is None:
            if isinstance(self.source, (ImageData, ImageBlob)):
                rule = "image bytes need a mime_type such as image/png"
                refuse(self, rule, code="missing_mime_type", field="mime_type")
        elif not self.mime_type.startswith("image/"):
            rule = "mime_type must start with image/"
            refuse(self, rule, code="invalid_mime_type", field="mime_type")


# -- references ------------------------------------------------------------------------------


@final
class FileReference(_ContentBlock, frozen=True, tag="file_reference", kw_only=True):
    """A reference to a file or to a range of its lines (1-based, both ends included)."""

    path: str
    start_line: int | None = None
    end_line: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        force_setattr(self, "path", _normal_path(self))
        if self.start_line is None:
            if self.end_line is not None:
                rule = "end_line requires start_line"
                refuse(self, rule, code="end_without_start", field="end_line")
        elif self.start_line < 1:
            refuse(self, "start_line must be at least 1", code="out_of_range", field="start_line")
        elif self.end_line is not None and self.end_line < self.start_line:
            rule = "end_line must not be less than start_line"
            refuse(self, rule, code="end_before_start", field="end_line")


@final
class Resource(_ContentBlock, frozen=True, tag="resource", kw_only=True):
    """A resource of an MCP server: its text, its bytes, or only a link if both are None."""

    shown: ClassVar[frozenset[str]] = frozenset({"server", "mime_type"})

    server: str
    uri: str
    mime_type: str | None = None
    text: str | None = None
    data: bytes | None = None
    retrieved_at: datetime | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.server or not self.uri:
            field = "uri" if self.server else "server"
            refuse(self, "server and uri must not be empty", code="empty", field=field)
        if self.text is not None and self.data is not None:
            refuse(self, "set text or data, not both", code="text_and_data", field="data")


# -- unknown blocks --------------------------------------------------------------------------


EMPTY_TEXT_KIND: Final = "$empty_text"
"""The kind of an `Opaque` block that is an empty text of a system or user message.

It begins with `$`, so that it is not the type of a block of a provider.
"""


@final
class Opaque(_ContentBlock, frozen=True, tag="opaque", kw_only=True):
    """A block of an unknown kind, which is preserved as JSON and sent only over its own wire.

    `origin` is the wire that the block came from, or "steno" for a block written by a newer version
    of steno, which is written back unchanged. An empty text of a system or user message is also
    preserved in this way, because these messages refuse it as a `Text`.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"kind", "origin"})

    kind: str
    raw: str
    origin: str

    def __post_init__(self) -> None:
        unknown: object = self.unknown  # not checked yet
        if isinstance(unknown, RawJson) and unknown and unknown.text == self.raw:
            force_setattr(self, "unknown", NOTHING)  # set again below unless `origin` was replaced
        check_fields(self)
        if self.origin == OWN_FORMAT:
            if is_prechecked():
                rule = 'origin must not be "steno"; blocks of steno are stored without a wrapper'
                refuse(self, rule, code="own_format_wrapped", field="origin")
            if not is_json_text(self.raw):
                rule = "raw must be JSON, because it is written back unchanged"
                refuse(self, rule, code="not_json", field="raw")
            force_setattr(self, "unknown", RawJson(self.raw))

    @property
    def is_empty_text(self) -> bool:
        """Whether the block is an empty text, so that nothing is missing if it is left out."""
        return self.kind == EMPTY_TEXT_KIND

    def has_valid_unknown(self) -> bool:
        """Return whether the unknown members are valid; True for a block of a newer version."""
        return self.origin == OWN_FORMAT or super().has_valid_unknown()


Block: TypeAlias = (
    Text | Thinking | Image | FileReference | Resource | ToolCall | InvalidToolCall | Opaque
)

ReferenceBlock: TypeAlias = FileReference | Image | Resource
"""A block that refers to external content, or holds content that not every model accepts."""
_REFERENCE_TYPES: Final = frozenset({FileReference, Image, Resource})


def has_references(content: Iterable[Block]) -> bool:
    """Return whether any block is a `ReferenceBlock`."""
    return not _REFERENCE_TYPES.isdisjoint(map(type, content))


def _normal_path(value: ImageFile | FileReference) -> str:
    """Return the path without empty, `.` and inner `..` segments.

    A path that leaves its root is refused. The permission to read the file is not checked until
    the file is opened.
    """
    if not value.path:
        refuse(value, "path must not be empty", code="empty", field="path")
    if "\0" in value.path:
        refuse(value, "path contains a NUL character", code="nul_character", field="path")
    normal = posixpath.normpath(value.path)
    if normal == ".." or normal.startswith("../"):
        rule = "path must not use .. to leave its root"
        refuse(value, rule, code="path_leaves_root", field="path")
    return normal
