"""The content of a resource as blocks for a model, within limits, with notices for the user.

The parts of a server are text, images or other bytes. Parts that do not fit are left out, and a
note in their place names the server that has the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias, final

from steno.bounded_text import truncate_middle
from steno.inputs.mcp.protocol import ResourceContents
from steno.inputs.mcp.resource_uri import redact_uri
from steno.inputs.mcp.untrusted_data import clean_text
from steno.messages.content import Image, Resource, Text
from steno.ports import PrepareImage
from steno.values import replace_lone_surrogates

MAX_TYPE_CHARACTERS: Final = 100
_MIN_TEXT_CHARACTERS: Final = 200
"""A shorter excerpt is useless."""
_MAX_IMAGES: Final = 20
_HEAD_SHARE: Final = 2 / 3
"""Of what is shown of a long text, so much is its beginning; the rest is its end."""

_ResourceBlock: TypeAlias = Text | Image | Resource


class ResourceLimits(NamedTuple):
    """Limits for resources."""

    max_bytes: int = 32 * 1024 * 1024
    """Of the cache, all resources together."""
    max_text_characters: int = 64 * 1024
    """The characters of one resource that a model sees."""
    max_data_bytes: int = 1024 * 1024
    """The bytes of one resource that are recorded, where they are neither text nor an image."""
    max_parts: int = 100


class ResourceBlocks(NamedTuple):
    """The blocks of a resource, and facts about its parts."""

    content: tuple[_ResourceBlock, ...]
    sha256: str
    """Of everything that the server sent, part after part."""
    size: int
    shortened: int
    """How many characters of text were left out."""
    notices: tuple[str, ...]
    """Notices for the user."""


def build_resource_blocks(
    contents: tuple[ResourceContents, ...],
    reference: Resource,
    *,
    limits: ResourceLimits,
    prepare_image: PrepareImage | None,
    retrieved_at: datetime,
) -> ResourceBlocks:
    """Return the blocks of a resource. May take a while."""
    builder = _ResourceBlockBuilder(reference, limits, prepare_image, retrieved_at)
    for number, part in enumerate(contents):
        if number == limits.max_parts or builder.is_full:
            builder.leave_out(contents[number:])
            break
        builder.add(part)
    return ResourceBlocks(
        content=tuple(builder.content),
        sha256=_digest_parts(contents),
        size=sum([len(part_bytes(part)) for part in contents]),
        shortened=builder.shortened,
        notices=tuple(dict.fromkeys(builder.notices)),
    )


def clean_mime_type(mime_type: str | None) -> str | None:
    """Return a type as it may be recorded and shown; None for an empty one."""
    return clean_text(mime_type or "", MAX_TYPE_CHARACTERS) or None


@final
class _ResourceBlockBuilder:
    """Converts one part after the other, within limits for all of them together."""

    def __init__(
        self,
        reference: Resource,
        limits: ResourceLimits,
        prepare_image: PrepareImage | None,
        retrieved_at: datetime,
    ) -> None:
        self.content: list[_ResourceBlock] = []
        self.notices: list[str] = []
        self.shortened = 0
        self._reference = reference
        self._prepare_image = prepare_image
        self._retrieved_at = retrieved_at
        self._text = limits.max_text_characters
        self._data = limits.max_data_bytes
        self._images = _MAX_IMAGES

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another text."""
        return self._text < _MIN_TEXT_CHARACTERS and bool(self.content)

    def add(self, part: ResourceContents) -> None:
        """Read a part."""
        text = _part_text(part)
        if text is not None:
            self.content.append(self._resource(part, text=self._truncate(text)))
        elif part.data is not None:
            self._add_bytes(part, part.data)

    def leave_out(self, rest: tuple[ResourceContents, ...]) -> None:
        """Add a note about parts that do not fit."""
        self.shortened += sum([len(_part_text(part) or "") for part in rest])
        parts = "1 more part" if len(rest) == 1 else f"{len(rest):,} more parts"
        self.content.append(Text(f"[{parts} left out here: {self._whole_hint}]"))
        self.notices.append(f"{parts} of it are not shown")

    @property
    def _whole_hint(self) -> str:
        return f"the MCP server {self._reference.server} has the whole"

    def _resource(
        self, part: ResourceContents, *, text: str | None = None, data: bytes | None = None
    ) -> Resource:
        return Resource(
            server=self._reference.server,
            uri=redact_uri(part.uri) or redact_uri(self._reference.uri) or "?",
            mime_type=clean_mime_type(part.mime_type),
            text=text,
            data=data,
            retrieved_at=self._retrieved_at,
        )

    def _truncate(self, text: str) -> str:
        remaining, self._text = self._text, max(0, self._text - len(text))
        if len(text) <= remaining:
            return text
        head = int(remaining * _HEAD_SHARE)
        self.shortened += len(text) - remaining
        self.notices.append("only its beginning and its end are shown")
        note = f"\n[… {{omitted}} characters left out here: {self._whole_hint} …]\n"
        return truncate_middle(text, max_head=head, max_tail=remaining - head, note=note)

    def _add_bytes(self, part: ResourceContents, data: bytes) -> None:
        if (clean_mime_type(part.mime_type) or "").lower().startswith("image/"):
            image = self._image(data)
            if image is not None:
                self.content.append(image)
                return
        if len(data) <= self._data:
            self._data -= len(data)
            self.content.append(self._resource(part, data=data))
        else:
            kind = clean_mime_type(part.mime_type) or "unknown type"
            self.content.append(
                Text(f"[{kind}, {len(data):,} bytes, not shown and not kept: {self._whole_hint}]")
            )

    def _image(self, data: bytes) -> Image | None:
        if self._prepare_image is None:
            self.notices.append("an image of it is not shown: pip install 'steno[images]'")
            return None
        if not self._images:
            self.notices.append(f"only {_MAX_IMAGES} images of it are shown")
            return None
        self._images -= 1
        try:
            return self._prepare_image(data)
        except Exception as exc:  # noqa: BLE001 - a decoder of images may raise anything
            self.notices.append(f"an image of it cannot be shown: {clean_text(str(exc), 200)}")
            return None


def _part_text(part: ResourceContents) -> str | None:
    """Return the text of a part; some servers send text as bytes, and their types may be wrong."""
    if part.text is not None:
        return replace_lone_surrogates(part.text)
    if part.data is None or not (clean_mime_type(part.mime_type) or "").lower().startswith("text/"):
        return None
    try:
        return part.data.decode()
    except UnicodeDecodeError:
        return None


def part_bytes(part: ResourceContents) -> bytes:
    """Return what a part holds, a text as UTF-8."""
    if part.text is not None:
        return replace_lone_surrogates(part.text).encode()
    return part.data or b""


def _digest_parts(contents: Iterable[ResourceContents]) -> str:
    digest = sha256()
    for part in contents:
        digest.update(part_bytes(part))
    return digest.hexdigest()
