"""What messages point at, and what was found there, in words.

Records come from anywhere: of their details only those are told that are what they should be.
Everything here is printable, nothing is opened, and nothing of what was found is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from steno.captions import name_of
from steno.content import FileReference, Image, Resource
from steno.entry import Resolution, ResolutionStatus
from steno.inputs.ocr.engine import rounded_down
from steno.message import UserMessage
from steno.printable import counted, on_one_line, printable

_HASH_LENGTH: Final = 8
_NOTHING: Final[Mapping[str, Any]] = {}


class Facts(NamedTuple):
    """What the record says of something that was found, in short."""

    how: str = ""
    """How it was shown: `lines 1-2 of 40, utf-16-le`, `vision`, `ocr rapidocr 3.10.0 0.97 de`, `cache`."""
    size: int | None = None
    sha256: str = ""

    @property
    def short_hash(self) -> str:
        """Enough of the hash to tell one from another."""
        return self.sha256[:_HASH_LENGTH]


def facts_of(details: Mapping[str, Any] | None) -> Facts:
    """Return what the details of a resolution say."""
    given = _NOTHING if details is None else details
    size, sha256 = _number(given, "bytes"), _word(given, "sha256")
    match given.get("kind"):
        case "file":
            return Facts(_lines_shown(given) + _encoding(given), size, sha256)
        case "folder":
            left_out = _number(given, "left_out")
            rest = f", {left_out:,} more names left out" if left_out else ""
            return Facts(f"listing{rest}", None, sha256)
        case "pattern":
            return _facts_of_files(given)
        case "image":
            return Facts(" ".join(_how_read(given)), size, sha256)
        case "resource":
            shortened = ", shortened" if given.get("shortened") else ""
            how = "cache" if given.get("from_cache") is True else "read"
            return Facts(how + shortened, size, sha256)
        case _:
            return Facts("", size, sha256)


def finding_in_words(message: object, resolution: Resolution) -> str:
    """Return what a resolution says about a block of a message, on one line."""
    name = f"block {resolution.block}"
    if isinstance(message, UserMessage) and resolution.block < len(message.content):
        block = message.content[resolution.block]
        if isinstance(block, FileReference | Image | Resource):
            name += f": {name_of(block, is_sized=False)}"
    if resolution.status is not ResolutionStatus.RESOLVED:
        error = "" if resolution.error is None else f": {printable(resolution.error)}"
        return f"{name}: {resolution.status}{error}"
    told = ", ".join(_told(resolution.details or _NOTHING))
    return f"{name}: {told or resolution.status}"


# -- facts -----------------------------------------------------------------------------------


def _lines_shown(details: Mapping[str, Any]) -> str:
    first, last = _number(details, "first_line"), _number(details, "last_line")
    count = _number(details, "lines")
    if count is None:
        return ""
    if first is None or last is None:
        return "empty"
    if (first, last) == (1, count):
        return counted(count, "line", "lines")
    which = f"line {first:,}" if first == last else f"lines {first:,}-{last:,}"
    return f"{which} of {count:,}"


def _encoding(details: Mapping[str, Any]) -> str:
    """Return what a file was read as, unless that is what everybody expects."""
    encoding = _word(details, "encoding")
    return "" if encoding in ("", "utf-8") else f", {encoding}"


def _facts_of_files(details: Mapping[str, Any]) -> Facts:
    listed: Any = details.get("files")
    files = [file for file in listed if isinstance(file, Mapping)] if _is_list(listed) else []
    sizes = [_number(file, "bytes") or 0 for file in files]
    return Facts(counted(len(files), "file", "files"), sum(sizes))


def _how_read(details: Mapping[str, Any]) -> Iterator[str]:
    if used := _word(details, "used"):
        yield used
    if engine := _word(details, "engine"):
        yield engine
    confidence = _confidence(details)
    if confidence is not None:
        yield confidence
    if language := _word(details, "language"):
        yield language


def _told(details: Mapping[str, Any]) -> Iterator[str]:
    """Return the facts as `steno sessions show` tells them, where there is room."""
    facts = facts_of(details)
    if details.get("used") == "ocr":
        yield f"text recognised by {_word(details, 'engine') or 'OCR'}"
        confidence = _confidence(details)
        if confidence is not None:
            yield f"confidence {confidence}"
        if language := _word(details, "language"):
            yield language
    elif facts.how:
        yield facts.how
    if facts.size is not None:
        yield counted(facts.size, "byte", "bytes")
    if facts.sha256:
        yield f"sha256 {facts.short_hash}…"
    if fallback := _word(details, "fallback"):
        yield f"since {fallback}"


def _confidence(details: Mapping[str, Any]) -> str | None:
    value = details.get("confidence")
    # It is from 0 to 1; a number of hundreds of digits could not even be written this way.
    return rounded_down(value) if isinstance(value, float | int) and 0 <= value <= 1 else None


def _word(details: Mapping[str, Any], name: str) -> str:
    value = details.get(name)
    return on_one_line(value) if isinstance(value, str) else ""


def _number(details: Mapping[str, Any], name: str) -> int | None:
    value = details.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)
