"""A resource as it was read, as blocks of ours: what a model can read, and the rest kept or named.

All parts share one measure of text, one of bytes and one of images: a server that sends a
thousand parts gets no more room than one that sends a single one. Nothing here asks a server.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias, final

from steno.content import Image, Resource, Text
from steno.inputs.mcp.definitions import cleaned
from steno.inputs.mcp.said import Contents
from steno.inputs.mcp.uris import shown_uri
from steno.ports import Fit
from steno.value import replace_lone_surrogates

LONGEST_TYPE: Final = 100
_LEAST_TEXT: Final = 200
"""Less than so many characters of a part say nothing."""
_MOST_IMAGES: Final = 20
_HEAD_PART: Final = 2 / 3
"""Of what is shown of a long text, so much is its beginning; the rest is its end."""

_Part: TypeAlias = Text | Image | Resource


class ResourceLimits(NamedTuple):
    """How much of resources is kept and shown."""

    most_bytes: int = 32 * 1024 * 1024
    """What is kept in memory, of all resources together."""
    longest_text: int = 64 * 1024
    """The characters of one resource that a model sees."""
    most_data: int = 1024 * 1024
    """The bytes of one resource that are recorded, where they are neither text nor an image."""
    most_parts: int = 100


class Parts(NamedTuple):
    """What became of the parts of a resource."""

    content: tuple[_Part, ...]
    sha256: str
    """Of all that the server sent, one part behind the other."""
    size: int
    shortened: int
    """How many characters of text were left out."""
    notes: tuple[str, ...]
    """What a person should know about it."""


def parts_of(
    contents: tuple[Contents, ...],
    about: Resource,
    *,
    limits: ResourceLimits,
    fit: Fit | None,
    retrieved_at: datetime,
) -> Parts:
    """Return what a model sees of a resource, and how it came about. May take a while."""
    reader = _Reader(about, limits, fit, retrieved_at)
    for number, part in enumerate(contents):
        if number == limits.most_parts or reader.is_full:
            reader.leave_out(contents[number:])
            break
        reader.add(part)
    return Parts(
        content=tuple(reader.content),
        sha256=_digest(contents),
        size=sum([len(bytes_of(part)) for part in contents]),
        shortened=reader.shortened,
        notes=tuple(dict.fromkeys(reader.notes)),
    )


def type_of(mime_type: str | None) -> str | None:
    """Return a type as it may be recorded and shown; None for an empty one."""
    return cleaned(mime_type or "", LONGEST_TYPE) or None


@final
class _Reader:
    """Reads one part after the other, and counts how much there was."""

    def __init__(
        self, about: Resource, limits: ResourceLimits, fit: Fit | None, retrieved_at: datetime
    ) -> None:
        self.content: list[_Part] = []
        self.notes: list[str] = []
        self.shortened = 0
        self._about = about
        self._fit = fit
        self._retrieved_at = retrieved_at
        self._text = limits.longest_text
        self._data = limits.most_data
        self._images = _MOST_IMAGES

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another text."""
        return self._text < _LEAST_TEXT and bool(self.content)

    def add(self, part: Contents) -> None:
        """Read a part."""
        text = _text_of(part)
        if text is not None:
            self.content.append(self._resource(part, text=self._truncate(text)))
        elif part.data is not None:
            self._add_bytes(part, part.data)

    def leave_out(self, rest: tuple[Contents, ...]) -> None:
        """Say of parts that there is no room for them."""
        self.shortened += sum([len(_text_of(part) or "") for part in rest])
        parts = "1 more part" if len(rest) == 1 else f"{len(rest):,} more parts"
        self.content.append(Text(f"[{parts} left out here: {self._whole_hint}]"))
        self.notes.append(f"{parts} of it are not shown")

    @property
    def _whole_hint(self) -> str:
        return f"the MCP server {self._about.server} has the whole"

    def _resource(
        self, part: Contents, *, text: str | None = None, data: bytes | None = None
    ) -> Resource:
        return Resource(
            server=self._about.server,
            uri=shown_uri(part.uri) or shown_uri(self._about.uri) or "?",
            mime_type=type_of(part.mime_type),
            text=text,
            data=data,
            retrieved_at=self._retrieved_at,
        )

    def _truncate(self, text: str) -> str:
        room, self._text = self._text, max(0, self._text - len(text))
        if len(text) <= room:
            return text
        head = int(room * _HEAD_PART)
        tail = room - head
        left = len(text) - room
        self.shortened += left
        self.notes.append("only its beginning and its end are shown")
        end = text[len(text) - tail :]
        return f"{text[:head]}\n[… {left:,} characters left out here: {self._whole_hint} …]\n{end}"

    def _add_bytes(self, part: Contents, data: bytes) -> None:
        if (type_of(part.mime_type) or "").lower().startswith("image/"):
            image = self._image(data)
            if image is not None:
                self.content.append(image)
                return
        if len(data) <= self._data:
            self._data -= len(data)
            self.content.append(self._resource(part, data=data))
        else:
            kind = type_of(part.mime_type) or "unknown type"
            self.content.append(
                Text(f"[{kind}, {len(data):,} bytes, not shown and not kept: {self._whole_hint}]")
            )

    def _image(self, data: bytes) -> Image | None:
        if self._fit is None:
            self.notes.append("an image of it is not shown: pip install 'steno[images]'")
            return None
        if not self._images:
            self.notes.append(f"only {_MOST_IMAGES} images of it are shown")
            return None
        self._images -= 1
        try:
            return self._fit(data)
        except Exception as exc:  # noqa: BLE001 - what a decoder of images raises is anybody's guess
            self.notes.append(f"an image of it cannot be shown: {cleaned(str(exc), 200)}")
            return None


def _text_of(part: Contents) -> str | None:
    """Return the text of a part; some servers send text as bytes, and what they say may be a lie."""
    if part.text is not None:
        return replace_lone_surrogates(part.text)
    if part.data is None or not (type_of(part.mime_type) or "").lower().startswith("text/"):
        return None
    try:
        return part.data.decode()
    except UnicodeDecodeError:
        return None


def bytes_of(part: Contents) -> bytes:
    """Return what a part holds, a text as UTF-8."""
    if part.text is not None:
        return replace_lone_surrogates(part.text).encode()
    return part.data or b""


def _digest(contents: Iterable[Contents]) -> str:
    digest = sha256()
    for part in contents:
        digest.update(bytes_of(part))
    return digest.hexdigest()
