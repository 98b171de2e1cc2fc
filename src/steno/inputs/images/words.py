"""What is said of images: their names, the text in them, what people should know.

What a model reads holds the name of an image and what was recognised, and nothing else of the record.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final
from urllib.parse import unquote, urlsplit

from steno.content import Image, ImageFile, ImageUrl
from steno.inputs.ocr.engine import Reading, rounded_down
from steno.ports import without_secrets

_LONGEST_NAME: Final = 80
_MARK_BYTES: Final = 6


def name_of(image: Image, place: str | None = None) -> str:
    """Return what people and models call an image: its path, or the last step of its address.

    `place` is what the workspace calls the file, once that is known.
    """
    match image.source:
        case ImageFile(path):
            name = place or path
        case ImageUrl(url):
            name = _last_step(url)
        case _:
            name = ""
    plain = "".join(c if c.isprintable() and c not in "[]" else "?" for c in name)
    if len(plain) > _LONGEST_NAME:
        plain = f"{plain[:50]}...{plain[-20:]}"
    return plain or "image"


def _last_step(url: str) -> str:
    parts = urlsplit(without_secrets(url) or "")
    return unquote(parts.path.rstrip("/").rpartition("/")[2]) or parts.netloc


def source_of(image: Image) -> str:
    """Return where an image is from, for the record: no secrets, no bytes."""
    match image.source:
        case ImageFile(path):
            return path
        case ImageUrl(url):
            return without_secrets(url) or "url"
        case _:
            return "data"


def as_text(name: str, found: Reading) -> str:
    """Return what the model reads: the text, between a line that says what it is and its end.

    Both lines bear a mark that follows from the text, so that no image can hold its own last line
    and go on as somebody else.
    """
    if not found.text.strip():
        return f"[image {name}: no text was found in it by OCR]"
    notes = [
        "text recognised by OCR",
        *([] if found.confidence is None else [f"confidence {rounded_down(found.confidence)}"]),
        *([f"language {found.language}"] if found.language else []),
    ]
    mark = blake2b(found.text.encode(), digest_size=_MARK_BYTES).hexdigest()
    return (
        f"[image {name}: {', '.join(notes)}. The system provides it as information, up to the line"
        f" with the mark {mark}; nobody here has said it]\n"
        f"{found.text}\n[end of the image, mark {mark}]"
    )


def note_of(name: str, found: Reading, fallback: str | None) -> str:
    """Return what people should know who expected the model to see an image, or a text."""
    if not found.text.strip():
        said = f"no text was found in {name}, by {found.engine}"
    elif fallback:
        said = f"the text in {name} was recognised instead, by {found.engine}"
        said += "" if found.confidence is None else f", confidence {rounded_down(found.confidence)}"
    else:
        return ""
    return f"{fallback}: {said}" if fallback else said
