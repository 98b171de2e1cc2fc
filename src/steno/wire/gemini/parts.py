"""Read parts: whatever is said that is neither a call nor a result."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from msgspec import Raw

from steno.call import Seal
from steno.content import Image, ImageData, ImageUrl, Opaque, Text, Thinking
from steno.errors import InvalidRequest
from steno.wire.extras import FORM
from steno.wire.gemini.shapes import NAME
from steno.wire.gemini.spelling import Fields, camel_case, snake_case
from steno.wire.open import read_members
from steno.wire.reading import Members, bytes_of
from steno.wire.writing import Target

CALL: Final = "functionCall"
RESULT: Final = "functionResponse"
SIGNATURE: Final = "thoughtSignature"

SENTINEL: Final = "skip_thought_signature_validator"
"""What Google wants in place of a signature on calls that were not made by the model at hand."""
_NO_SEALS: Final = frozenset(
    {
        SENTINEL,
        base64.b64encode(SENTINEL.encode()).decode(),
        "context_engineering_is_the_way_to_go",
        base64.b64encode(b"context_engineering_is_the_way_to_go").decode(),
    }
)
_BESIDE: Final = frozenset({"thought", SIGNATURE, "thought_signature", "partMetadata"})
_FILES: Final = "https://generativelanguage.googleapis.com/"
"""Where files lie that only the API itself can read."""


def take_seal(part: Fields, target: Target) -> Seal | None:
    """Take the signature of a part; what only stands for one stays where it is."""
    data = part.peek(SIGNATURE, str)
    if not data or data in _NO_SEALS:
        return None
    part.take(SIGNATURE, str)
    return target.seal(data)


def words_of(raw: Raw, target: Target) -> Text | Thinking | None:
    """Read a part of the model's that is text or thinking, if only a seal of it."""
    part = Fields(raw, "part")
    is_thought = part.peek("thought", bool) is True
    text = part.take("text", str)
    seal = take_seal(part, target)
    if text is None:
        if seal is None or _kind_of(raw):
            return None
        part.form["text"] = "absent"
    elif not text and seal is None:
        part.form["text"] = "empty"  # such a part of ours would be left out
    if is_thought:
        part.take("thought", bool)
        return Thinking(text or "", seal=seal, extras=part.extras())
    return Text(text or "", seal=seal, extras=part.extras())


def text_of_user(raw: Raw) -> Text | None:
    """Read a part that is text and says something."""
    part = Fields(raw, "part")
    if part.peek("thought", bool) is True:
        return None
    text = part.take("text", str)
    return None if text is None else Text(text, extras=part.extras())


def block_of(raw: Raw, target: Target | None = None) -> Image | Opaque:
    """Read a part that is an image, or keep it as it is; `target` is whom signatures are for."""
    try:
        return _image_of(Fields(raw, "part"), target) or opaque_of(raw, target)
    except InvalidRequest:  # a name of ours among the members
        return opaque_of(raw, target)


def opaque_of(raw: Raw, target: Target | None = None) -> Opaque:
    """Keep a part that we have no name for. Raises InvalidRequest if it is not an object."""
    part = Members(raw, "part")
    form = _signed(part.peek(SIGNATURE, str) or part.peek(snake_case(SIGNATURE), str), target)
    extras = {NAME: {FORM: form}} if form else None
    return Opaque(kind=_kind_of(raw), raw=part.raw, origin=NAME, extras=extras)


def _kind_of(raw: Raw) -> str:
    """Return the name of what a part holds, in the usual spelling."""
    names = (name for name in read_members(raw, NAME) if name not in _BESIDE)
    return camel_case(next(names, ""))


def _signed(signature: str | None, target: Target | None) -> dict[str, Any]:
    """Note whose signature a block carries that has no seal of its own."""
    if target is None or not signature or signature in _NO_SEALS:
        return {}
    return {"signed": [target.provider, target.model]}


def _image_of(part: Fields, target: Target | None) -> Image | None:
    """Read an image; None for one that would not be written the same way, or was only thought."""
    if part.peek("thought", bool) is True:
        return None
    inline, file = part.take_object("inlineData"), part.take_object("fileData")
    inner = inline or file
    if inner is None or (inline is not None and file is not None):
        return None
    mime_type = inner.take("mimeType", str) or ""
    if not mime_type.startswith("image/"):
        return None
    source: ImageData | ImageUrl
    if inline is not None:
        data = inner.take("data", str) or ""
        found = bytes_of(data)
        if found is None:
            found = _bytes_of_url_form(data)
            part.form["base64"] = "url"
        if not found:
            return None
        source = ImageData(found)
    else:
        uri = inner.take("fileUri", str) or ""
        if not uri.startswith(("https://", "http://")) or uri.startswith(_FILES):
            return None
        source = ImageUrl(uri)
    part.put_back("inlineData" if inline is not None else "fileData", inner)
    part.form |= _signed(part.peek(SIGNATURE, str), target)
    return Image(source=source, mime_type=mime_type, extras=part.extras())


def _bytes_of_url_form(text: str) -> bytes | None:
    """Read base64 with `-` and `_`, as Google's own client writes it."""
    try:
        data = base64.urlsafe_b64decode(text)
    except (binascii.Error, ValueError):
        return None
    return data if base64.urlsafe_b64encode(data).decode() == text else None
