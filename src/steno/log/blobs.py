"""Move large images and long tool results from payloads to blobs, named by their SHA-256.

A reference with the digest replaces the moved content. This module stores nothing; the caller
passes the functions that put and get bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar, cast

from msgspec.structs import replace

from steno.messages.content import Image, ImageBlob, ImageData, Resource, Text
from steno.messages.message import ToolResultMessage

ContentT = TypeVar("ContentT")

MIN_IMAGE_BLOB_BYTES: Final = 16 * 1024
"""The minimum size, in bytes, of an image that is moved to a blob."""
MIN_TEXT_BLOB_LENGTH: Final = 256 * 1024
"""The minimum number of characters of a text in a tool result that is moved to a blob."""
_BLOB_SERVER: Final = "steno"
_BLOB_SCHEME: Final = "blob:"
_BLOCKS_WITH_BLOBS: Final = frozenset({Image, Resource})


def extract_blobs(payload: ContentT, put_blob: Callable[[bytes], str]) -> ContentT:
    """Store the large parts of a payload, and return the payload with references to them."""
    if not any(map(_may_be_large, _blocks(payload))):  # the usual case; this runs for every entry
        return payload

    def extract(block: Any) -> Any:
        if isinstance(block, Image) and isinstance(block.source, ImageData):
            data = block.source.data
            if len(data) >= MIN_IMAGE_BLOB_BYTES:
                return replace(block, source=ImageBlob(sha256=put_blob(data), size=len(data)))
        if (
            isinstance(payload, ToolResultMessage)
            and isinstance(block, Text)
            and len(block.text) >= MIN_TEXT_BLOB_LENGTH
            and block == Text(block.text)
        ):
            uri = _BLOB_SCHEME + put_blob(block.text.encode())
            return Resource(server=_BLOB_SERVER, uri=uri, mime_type="text/plain")
        return block

    return _with_blocks(payload, extract)


def _may_be_large(block: object) -> bool:
    return isinstance(block, Image) or (
        isinstance(block, Text) and len(block.text) >= MIN_TEXT_BLOB_LENGTH
    )


def restore_blobs(payload: ContentT, get_blob: Callable[[str], bytes]) -> ContentT:
    """Return a payload with its blob references replaced by the content that `get_blob` reads."""

    def restore(block: Any) -> Any:
        if isinstance(block, Image) and isinstance(block.source, ImageBlob):
            return replace(block, source=ImageData(get_blob(block.source.sha256)))
        digest = _blob_digest(block)
        return block if digest is None else Text(get_blob(digest).decode())

    return _with_blocks(payload, restore)


def blob_digests(payload: object) -> tuple[str, ...]:
    """Return the SHA-256 of every blob that a payload refers to."""
    # A fast path: this runs for every entry, and most payloads refer to no blob.
    if _BLOCKS_WITH_BLOBS.isdisjoint(map(type, _blocks(payload))):
        return ()
    found = [_blob_digest(block) for block in _blocks(payload)]
    return tuple([digest for digest in found if digest is not None])


def _blob_digest(block: object) -> str | None:
    if isinstance(block, Image) and isinstance(block.source, ImageBlob):
        return block.source.sha256
    if isinstance(block, Resource) and block.server == _BLOB_SERVER and block.text is None:
        scheme, _, digest = block.uri.partition(":")
        return digest if f"{scheme}:" == _BLOB_SCHEME else None
    return None


def _blocks(payload: object) -> Iterable[Any]:
    return getattr(payload, "content", ())


def _with_blocks(payload: ContentT, convert: Callable[[Any], Any]) -> ContentT:
    content = tuple(_blocks(payload))
    changed = tuple(map(convert, content))
    if all(new is old for new, old in zip(changed, content, strict=True)):
        return payload
    struct: Any = payload
    return cast("ContentT", replace(struct, content=changed))
