"""Make untrusted text and JSON safe to print, record and send."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast
from unicodedata import category

from steno.invisible import is_visible, remove_hidden
from steno.values import is_utf8_text, replace_lone_surrogates

# -- text -----------------------------------------------------------------------------------------

_MAX_CLEANED_CHARACTERS: Final = 20_000
"""The length to which a text is truncated before it is cleaned."""
_ESCAPE_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # colours, cursor movements
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]*[0-~]?"
)
_UNREADABLE_CATEGORIES: Final = frozenset({"Cf", "Cn", "Co", "Cs"})
"""Characters that have no glyph in most fonts, besides those that `steno.invisible` lists."""
_JOINERS: Final = frozenset("\u200c\u200d")


def clean_text(text: str, max_characters: int) -> str:
    """Truncate a text, and remove invisible characters and terminal controls."""
    text = replace_lone_surrogates(text[:_MAX_CLEANED_CHARACTERS])
    text = _ESCAPE_SEQUENCE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    text = "".join(filter(_has_glyph, remove_hidden(text))).strip()
    return text if len(text) <= max_characters else f"{text[: max_characters - 1].rstrip()}…"


def has_hidden_characters(text: str) -> bool:
    """Return whether a text has characters that may hide text from a human reader."""
    if text.isascii() and text.isprintable():
        return False
    text = text.replace("\r", "\n")
    return remove_hidden(text) != text or not all(map(_has_glyph, text))


def _has_glyph(character: str) -> bool:
    return category(character) not in _UNREADABLE_CATEGORIES or character in _JOINERS


def escape_text(text: str, max_characters: int = 1000) -> str:
    """Truncate a text and escape its control characters, so that it is safe to print."""
    shown = text if len(text) <= max_characters else f"{text[:max_characters]}…"
    if is_visible(shown):
        return shown
    shown = shown.replace("\r\n", "\n").replace("\t", " ")
    return "".join([c if is_visible(c) or c == "\n" else ascii(c)[1:-1] for c in shown])


# -- JSON -----------------------------------------------------------------------------------------

_MAX_DEPTH: Final = 150
_MAX_NUMBER_BITS: Final = 1024
"""The maximum size of an integer in bits; a larger integer is replaced by a text."""


def sanitize_json(value: Any, depth: int = 0) -> Any:
    """Return a copy of untrusted JSON.

    Values that cannot be recorded or sent are replaced by text.
    """
    match value:
        case None | bool():
            return value
        case str():
            return replace_lone_surrogates(value)
        case int():
            return value if value.bit_length() <= _MAX_NUMBER_BITS else "[a very large number]"
        case float():
            return value if math.isfinite(value) else str(value)
        case _ if depth > _MAX_DEPTH:
            return "[nested too deeply]"
        case Mapping():
            return {
                replace_lone_surrogates(str(name)): sanitize_json(member, depth + 1)
                for name, member in value.items()
            }
        case list() | tuple():
            return [sanitize_json(member, depth + 1) for member in value]
        case _:
            return f"[{type(value).__name__}]"


def decode_base64(text: str) -> bytes | None:
    """Return the bytes that base64 text encodes, with or without line breaks; None if invalid."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        return None


def walk_values(value: object) -> Iterator[object]:
    """Yield a value and all names and values in it, in any order."""
    pending = [value]
    while pending:
        item = pending.pop()
        yield item
        if isinstance(item, Mapping):
            members = cast("Mapping[object, object]", item)
            pending += [*members, *members.values()]
        elif isinstance(item, list | tuple):
            pending += cast("list[object]", item)


def is_encodable(value: object) -> bool:
    """Return whether all strings in a value can be encoded as UTF-8."""
    return all(is_utf8_text(item) for item in walk_values(value) if isinstance(item, str))
