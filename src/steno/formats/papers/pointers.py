"""What people and messages point at, by name; never with a password in an address."""

from __future__ import annotations

import re
from typing import Final, assert_never

from steno.content import FileReference, Image, ImageBlob, ImageData, ImageFile, ImageUrl, Resource
from steno.ports.carrier import without_secrets
from steno.printable import on_one_line

_USER: Final = re.compile(r"(?<=://)[^/?#\s]*@")
"""Who reads a resource, maybe with a password."""


def name_of(pointer: FileReference | Resource | Image) -> str:
    """Return what something is called that a message points at."""
    match pointer:
        case FileReference(path=path, start_line=first, end_line=last):
            lines = "" if first is None else f":{first}" if last is None else f":{first}-{last}"
            return on_one_line(path) + lines
        case Resource(server=server, uri=uri):
            return f"{on_one_line(server)}:{on_one_line(_USER.sub('', uri))}"
        case Image():
            return _name_of_image(pointer)
        case _:
            assert_never(pointer)


def _name_of_image(image: Image) -> str:
    kind, source = on_one_line(image.mime_type or "image"), image.source
    match source:
        case ImageUrl(url):
            return without_secrets(url) or "an address"
        case ImageFile(path):
            return on_one_line(path)
        case ImageData(data):
            return f"{kind}, {len(data):,} bytes"
        case ImageBlob():
            return f"{kind}, {source.size:,} bytes, not at hand"
        case _:
            assert_never(source)
