"""Read parts: whatever is said that is neither a call nor a result."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from msgspec import Raw

from steno.errors import InvalidRequest
from steno.messages.call import Seal
from steno.messages.content import Image, ImageData, ImageUrl, Opaque, Text, Thinking
from steno.wire.extras import FORM_KEY
from steno.wire.gemini.key_case import EitherCaseMembers, to_camel_case, to_snake_case
from steno.wire.gemini.payload import NAME, SIGNATURE_SENTINEL, THOUGHT_SIGNATURE
from steno.wire.request_decoder import ObjectMembers, read_base64
from steno.wire.request_encoder import RequestTarget
from steno.wire.tolerant import read_members

_PLACEHOLDER_SIGNATURES: Final = frozenset(
    {
        SIGNATURE_SENTINEL,
        base64.b64encode(SIGNATURE_SENTINEL.encode()).decode(),
        "context_engineering_is_the_way_to_go",
        base64.b64encode(b"context_engineering_is_the_way_to_go").decode(),
    }
)


_PART_METADATA: Final = frozenset(
    {"thought", THOUGHT_SIGNATURE, "thought_signature", "partMetadata"}
)


_FILES_API_URL: Final = "https://generativelanguage.googleapis.com/"
"""Where files lie that only the API itself can read."""


def take_seal(part: EitherCaseMembers, target: RequestTarget) -> Seal | None:
    """Take the signature of a part; what only stands for one stays where it is."""
    data = part.peek(THOUGHT_SIGNATURE, str)
    if not data or data in _PLACEHOLDER_SIGNATURES:
        return None
    part.take(THOUGHT_SIGNATURE, str)
    return target.seal(data)


def read_text_or_thinking(raw: Raw, target: RequestTarget) -> Text | Thinking | None:
    """Read a part of the model's that is text or thinking, if only a seal of it."""
    part = EitherCaseMembers(raw, "part")
    is_thought = part.peek("thought", bool) is True
    text = part.take("text", str)
    seal = take_seal(part, target)
    if text is None:
        if seal is None or _read_part_kind(raw):
            return None
        part.form["text"] = "absent"
    elif not text and seal is None:
        part.form["text"] = "empty"  # such a part of ours would be left out
    if is_thought:
        part.take("thought", bool)
        return Thinking(text or "", seal=seal, extras=part.extras())
    return Text(text or "", seal=seal, extras=part.extras())


def read_user_text(raw: Raw) -> Text | None:
    """Read a part that is text and says something."""
    part = EitherCaseMembers(raw, "part")
    if part.peek("thought", bool) is True:
        return None
    text = part.take("text", str)
    return None if text is None else Text(text, extras=part.extras())


def read_image_or_opaque(raw: Raw, target: RequestTarget | None = None) -> Image | Opaque:
    """Read a part that is an image, or keep it as it is; `target` is whom signatures are for."""
    try:
        return _read_image(EitherCaseMembers(raw, "part"), target) or read_opaque(raw, target)
    except InvalidRequest:  # a name of ours among the members
        return read_opaque(raw, target)


def read_opaque(raw: Raw, target: RequestTarget | None = None) -> Opaque:
    """Keep a part that we have no name for. Raises InvalidRequest if it is not an object."""
    part = ObjectMembers(raw, "part")
    form = _build_signature_note(
        part.peek(THOUGHT_SIGNATURE, str) or part.peek(to_snake_case(THOUGHT_SIGNATURE), str),
        target,
    )
    extras = {NAME: {FORM_KEY: form}} if form else None
    return Opaque(kind=_read_part_kind(raw), raw=part.raw, origin=NAME, extras=extras)


def _read_part_kind(raw: Raw) -> str:
    """Return the name of what a part holds, in the usual spelling."""
    names = (name for name in read_members(raw, NAME) if name not in _PART_METADATA)
    return to_camel_case(next(names, ""))


def _build_signature_note(signature: str | None, target: RequestTarget | None) -> dict[str, Any]:
    """Note whose signature a block carries that has no seal of its own."""
    if target is None or not signature or signature in _PLACEHOLDER_SIGNATURES:
        return {}
    return {"signed": [target.provider, target.model]}


def _read_image(part: EitherCaseMembers, target: RequestTarget | None) -> Image | None:
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
        found = read_base64(data)
        if found is None:
            found = _read_urlsafe_base64(data)
            part.form["base64"] = "url"
        if not found:
            return None
        source = ImageData(found)
    else:
        uri = inner.take("fileUri", str) or ""
        if not uri.startswith(("https://", "http://")) or uri.startswith(_FILES_API_URL):
            return None
        source = ImageUrl(uri)
    part.put_back("inlineData" if inline is not None else "fileData", inner)
    part.form |= _build_signature_note(part.peek(THOUGHT_SIGNATURE, str), target)
    return Image(source=source, mime_type=mime_type, extras=part.extras())


def _read_urlsafe_base64(text: str) -> bytes | None:
    """Read base64 with `-` and `_`, as Google's own client writes it."""
    try:
        data = base64.urlsafe_b64decode(text)
    except (binascii.Error, ValueError):
        return None
    return data if base64.urlsafe_b64encode(data).decode() == text else None
