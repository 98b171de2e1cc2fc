"""Read the parts of a content that are neither calls nor results, in requests and responses.

Google accepts names in camel case and in snake case, such as `thought_signature`. Both are read,
and written as they were recorded.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final, TypeVar, final

from msgspec import Raw

from steno.errors import InvalidRequest
from steno.messages.call import Seal
from steno.messages.content import Image, ImageData, ImageUrl, Opaque, Text, Thinking
from steno.values import FORM_KEY
from steno.wire.extras import Members
from steno.wire.gemini.payload import NAME, SIGNATURE_SENTINEL, THOUGHT_SIGNATURE
from steno.wire.request_decoder import ObjectMembers, read_base64
from steno.wire.request_encoder import RequestTarget
from steno.wire.tolerant import read_members

T = TypeVar("T")

SNAKE_CASE_KEY: Final = "snake"
"""The note that lists the members that were recorded in snake case."""
_PLACEHOLDER_SIGNATURES: Final = frozenset(
    {
        SIGNATURE_SENTINEL,
        base64.b64encode(SIGNATURE_SENTINEL.encode()).decode(),
        "context_engineering_is_the_way_to_go",
        base64.b64encode(b"context_engineering_is_the_way_to_go").decode(),
    }
)
"""Values that clients send if they have no signature."""
_PART_METADATA: Final = frozenset(
    {"thought", THOUGHT_SIGNATURE, "thought_signature", "partMetadata"}
)
_FILES_API_URL: Final = "https://generativelanguage.googleapis.com/"
"""The prefix of the URLs of uploaded files, which only the API itself can read."""


# -- the case of names -----------------------------------------------------------------------


@final
class EitherCaseMembers(ObjectMembers):
    """The members of a JSON object with names in camel case or snake case.

    A note lists the names that were recorded in snake case. An inner object shares this note with
    the outer object, since no name occurs in both.
    """

    def __init__(
        self, raw: bytes | str | Raw, place: str, outer: EitherCaseMembers | None = None
    ) -> None:
        """Decode a JSON object. Raises InvalidRequest for other data, or for a reserved name."""
        super().__init__(raw, place)
        if FORM_KEY in self:
            raise InvalidRequest(
                f"the member name {FORM_KEY} is reserved for steno",
                code="reserved_name",
                place=place,
            )
        self._snake_case_names: list[str] = [] if outer is None else outer._snake_case_names

    def __contains__(self, name: str) -> bool:
        return self._actual_name(name) in self._remaining

    def peek(self, name: str, hint: type[T]) -> T | None:
        """Return a member if it has the type `hint`, without taking it; else None."""
        return super().peek(self._actual_name(name), hint)

    def take(self, name: str, hint: type[T]) -> T | None:
        """Take and return a member if it has the type `hint`; else return None.

        A member of another type is not taken, so it becomes an extra.
        """
        actual = self._actual_name(name)
        value = super().take(actual, hint)
        if value is not None and actual != name:
            self._snake_case_names.append(name)
        return value

    def take_object(self, name: str) -> EitherCaseMembers | None:
        """Take an inner object to read its members; None if the member is not an object."""
        if self.peek(name, dict[str, Raw]) is None:
            return None
        raw = self.take(name, Raw)
        return None if raw is None else EitherCaseMembers(raw, self._place, self)

    def take_list(self, name: str) -> list[Raw] | None:
        """Take an array, and return its elements as JSON text.

        A single object counts as an array with one element. Return None for any other value.
        """
        found = self.take(name, list[Raw])
        if found is None and self.peek(name, dict[str, Raw]) is not None:
            self.form[name] = "object"
            only = self.take(name, Raw)
            return None if only is None else [only]
        return found

    def extras(self, wire: str = NAME) -> dict[str, Members] | None:
        """Return the remaining members and the notes as extras; None if there are none."""
        if self._snake_case_names:
            self.form[SNAKE_CASE_KEY] = sorted(self._snake_case_names)
        return super().extras(wire)

    def _actual_name(self, name: str) -> str:
        if name in self._remaining:
            return name
        other = to_snake_case(name)
        return other if other in self._remaining else name


@lru_cache(maxsize=256)
def to_snake_case(name: str) -> str:
    """Convert a name from camel case to snake case."""
    return re.sub(r"[A-Z]", lambda match: "_" + match.group().lower(), name)


def to_camel_case(name: str) -> str:
    """Convert a name from snake case to camel case."""
    return re.sub(r"_([a-z])", lambda match: match.group(1).upper(), name)


def restore_case(members: Members, form: Members) -> Members:
    """Return members with names in the case in which they were recorded."""
    snake: Collection[str] = form.get(SNAKE_CASE_KEY, ())
    if not snake:
        return members
    return {
        to_snake_case(name) if name in snake else name: value for name, value in members.items()
    }


# -- parts -----------------------------------------------------------------------------------


def take_seal(part: EitherCaseMembers, target: RequestTarget) -> Seal | None:
    """Take the signature of a part as a seal; a placeholder signature becomes an extra."""
    data = part.peek(THOUGHT_SIGNATURE, str)
    if not data or data in _PLACEHOLDER_SIGNATURES:
        return None
    part.take(THOUGHT_SIGNATURE, str)
    return target.seal(data)


def read_text_or_thinking(raw: Raw, target: RequestTarget) -> Text | Thinking | None:
    """Read a part of the model's content that has text, thinking or only a signature.

    Return None for any other part.
    """
    part = EitherCaseMembers(raw, "part")
    is_thought = part.peek("thought", bool) is True
    text = part.take("text", str)
    seal = take_seal(part, target)
    if text is None:
        if seal is None or _read_part_kind(raw):
            return None
        part.form["text"] = "absent"
    elif not text and seal is None:
        part.form["text"] = "empty"  # without this note, the encoder would omit the part
    if is_thought:
        part.take("thought", bool)
        return Thinking(text or "", seal=seal, extras=part.extras())
    return Text(text or "", seal=seal, extras=part.extras())


def read_user_text(raw: Raw) -> Text | None:
    """Read a text part of user content or the system instruction; None for any other part."""
    part = EitherCaseMembers(raw, "part")
    if part.peek("thought", bool) is True:
        return None
    text = part.take("text", str)
    return None if text is None else Text(text, extras=part.extras())


def read_image_or_opaque(raw: Raw, target: RequestTarget | None = None) -> Image | Opaque:
    """Read an image, or build an opaque block for any other part.

    If the part has a signature, a note records that `target` issued it.
    """
    try:
        return _read_image(EitherCaseMembers(raw, "part"), target) or read_opaque(raw, target)
    except InvalidRequest:  # a reserved name among the members
        return read_opaque(raw, target)


def read_opaque(raw: Raw, target: RequestTarget | None = None) -> Opaque:
    """Build an opaque block for a part. Raises InvalidRequest if the part is not an object."""
    part = ObjectMembers(raw, "part")
    form = _build_signature_note(
        part.peek(THOUGHT_SIGNATURE, str) or part.peek(to_snake_case(THOUGHT_SIGNATURE), str),
        target,
    )
    extras = {NAME: {FORM_KEY: form}} if form else None
    return Opaque(kind=_read_part_kind(raw), raw=part.raw, origin=NAME, extras=extras)


def _read_part_kind(raw: Raw) -> str:
    """Return the name of the first member that is not metadata, in camel case; empty if none."""
    names = (name for name in read_members(raw, NAME) if name not in _PART_METADATA)
    return to_camel_case(next(names, ""))


def _build_signature_note(signature: str | None, target: RequestTarget | None) -> Members:
    """Return the note on the issuer of a signature; empty if there is no real signature.

    Images and opaque blocks need the note, because they have no field for a seal.
    """
    if target is None or not signature or signature in _PLACEHOLDER_SIGNATURES:
        return {}
    return {"signed": [target.provider, target.model]}


def _read_image(part: EitherCaseMembers, target: RequestTarget | None) -> Image | None:
    """Read an image.

    Return None for a thought, for a part that is not an image, and for an image that the encoder
    would write differently.
    """
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
    part.keep_rest("inlineData" if inline is not None else "fileData", inner)
    part.form |= _build_signature_note(part.peek(THOUGHT_SIGNATURE, str), target)
    return Image(source=source, mime_type=mime_type, extras=part.extras())


def _read_urlsafe_base64(text: str) -> bytes | None:
    """Decode URL-safe base64, which Google's own client writes; None if it is invalid."""
    try:
        data = base64.urlsafe_b64decode(text)
    except (binascii.Error, ValueError):
        return None
    return data if base64.urlsafe_b64encode(data).decode() == text else None
