"""What is too large for a record, and lies beside it under its SHA-256: images, long results.

In its place stands a reference that says how large it is, or where it lies. Nothing here stores
anything: whoever calls brings the place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar, cast

from msgspec.structs import replace

from steno.content import Image, ImageBlob, ImageData, Resource, Text
from steno.message import ToolResultMessage

P = TypeVar("P")

LARGE_IMAGE: Final = 16 * 1024
LARGE_TEXT: Final = 256 * 1024
"""From so many bytes on, something is put aside."""
_SERVER: Final = "steno"
_SCHEME: Final = "blob:"
_CARRIERS: Final = frozenset({Image, Resource})


def put_aside(payload: P, put: Callable[[bytes], str]) -> P:
    """Return a payload in whose place large parts lie elsewhere; `put` takes them there."""
    if not any(map(_may_be_large, _blocks(payload))):  # nearly always, and for every entry
        return payload

    def lighten(block: Any) -> Any:
        if isinstance(block, Image) and isinstance(block.source, ImageData):
            data = block.source.data
            if len(data) >= LARGE_IMAGE:
                return replace(block, source=ImageBlob(sha256=put(data), size=len(data)))
        if (
            isinstance(payload, ToolResultMessage)
            and isinstance(block, Text)
            and len(block.text) >= LARGE_TEXT
            and block == Text(block.text)
        ):
            uri = _SCHEME + put(block.text.encode())
            return Resource(server=_SERVER, uri=uri, mime_type="text/plain")
        return block

    return _with_blocks(payload, lighten)


def _may_be_large(block: object) -> bool:
    return isinstance(block, Image) or (isinstance(block, Text) and len(block.text) >= LARGE_TEXT)


def bring_back(payload: P, get: Callable[[str], bytes]) -> P:
    """Return a payload as it was before parts of it were put aside; `get` brings them."""

    def restore(block: Any) -> Any:
        if isinstance(block, Image) and isinstance(block.source, ImageBlob):
            return replace(block, source=ImageData(get(block.source.sha256)))
        digest = _digest_of(block)
        return block if digest is None else Text(get(digest).decode())

    return _with_blocks(payload, restore)


def digests_of(payload: object) -> tuple[str, ...]:
    """Return the SHA-256 of everything that lies beside a payload."""
    if _CARRIERS.isdisjoint(
        map(type, _blocks(payload))
    ):  # nearly always: this runs for every entry
        return ()
    found = [_digest_of(block) for block in _blocks(payload)]
    return tuple([digest for digest in found if digest is not None])


def _digest_of(block: object) -> str | None:
    if isinstance(block, Image) and isinstance(block.source, ImageBlob):
        return block.source.sha256
    if isinstance(block, Resource) and block.server == _SERVER and block.text is None:
        scheme, _, digest = block.uri.partition(":")
        return digest if f"{scheme}:" == _SCHEME else None
    return None


def _blocks(payload: object) -> Iterable[Any]:
    return getattr(payload, "content", ())


def _with_blocks(payload: P, change: Callable[[Any], Any]) -> P:
    content = tuple(_blocks(payload))
    changed = tuple(map(change, content))
    if all(new is old for new, old in zip(changed, content, strict=True)):
        return payload
    struct: Any = payload
    return cast("P", replace(struct, content=changed))
