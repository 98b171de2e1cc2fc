"""Split JSON text into members without parsing their values, so that the values stay unchanged.

The scanner is not recursive, so it accepts nesting of any depth. It does not validate the JSON;
callers call `check_syntax` first.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from steno.errors import InvalidDocument
from steno.json_object import is_deep_json, replace_lone_surrogate_escapes
from steno.schema.msgspec_errors import read_syntax_error
from steno.values import replace_lone_surrogates


class RawMember(NamedTuple):
    """A member of a JSON object: its decoded name, and the original text of its name and value."""

    name: str
    key: bytes
    value: bytes


# Possessive, so that a string of many megabytes costs no backtracking stack.
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},:]', re.DOTALL)
_JSON_WHITESPACE: Final = b" \t\r\n"
_BOM: Final = b"\xef\xbb\xbf"


def clean_input(data: bytes | str) -> tuple[bytes, int]:
    """Return UTF-8 bytes without a byte order mark, and the number of replaced lone surrogates.

    Raises InvalidDocument if `data` is neither str nor bytes, or if the bytes are not valid UTF-8.
    """
    if isinstance(data, str):
        text = replace_lone_surrogates(data)
        replaced = text.count("\ufffd") - data.count("\ufffd")
        raw = text.encode().removeprefix(_BOM)
    elif isinstance(data, (bytes, bytearray, memoryview)):
        replaced = 0
        raw = bytes(data).removeprefix(_BOM)
        try:
            raw.decode()
        except UnicodeDecodeError as exc:
            raise InvalidDocument(f"not valid UTF-8 at byte {exc.start}", code="not_utf8") from None
    else:
        message = f"pass bytes or str, such as path.read_bytes(), not {type(data).__name__}"
        raise InvalidDocument(message, code="wrong_type", place="input")
    raw, replaced_escapes = replace_lone_surrogate_escapes(raw)
    return raw, replaced + replaced_escapes


def check_syntax(raw: bytes) -> None:
    """Raise InvalidDocument if `raw` is not valid JSON."""
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)
    except msgspec.DecodeError as exc:
        rule = f"not valid JSON: {_describe_syntax_error(raw, exc)}"
        raise InvalidDocument(rule, code="not_json") from None
    except RecursionError:
        if not is_deep_json(raw.decode()):
            rule = "not valid JSON: syntax error in deeply nested data"
            raise InvalidDocument(rule, code="not_json") from None


def _describe_syntax_error(raw: bytes, exc: msgspec.DecodeError) -> str:
    """Return the text of a syntax error, with its line and column."""
    if not raw.strip():
        return "the text is empty"
    message, byte = read_syntax_error(exc)
    if byte is None:
        return message
    *lines, last = raw[:byte].split(b"\n")
    column = len(last.decode(errors="replace")) + 1
    return f"{message} (line {len(lines) + 1}, column {column})"


def replace_line_breaks(raw: bytes) -> bytes:
    """Return the same JSON on one line. Line breaks occur only between tokens, not in strings."""
    return raw.replace(b"\r", b" ").replace(b"\n", b" ") if b"\n" in raw or b"\r" in raw else raw


def sort_members(raw: bytes) -> bytes:
    """Return the same JSON with the members of every object sorted by name.

    JSON with numbers or nesting beyond Python's limits is returned unchanged.
    """
    with suppress(msgspec.MsgspecError, RecursionError, OverflowError):
        return msgspec.json.encode(msgspec.json.decode(raw), order="sorted")
    return raw


def split_array(raw: bytes) -> list[bytes] | None:
    """Return the text of each element; None if `raw` is not an array."""
    raw = raw.strip(_JSON_WHITESPACE)
    if not raw.startswith(b"["):
        return None
    return _split_container(raw)


def split_object(raw: bytes) -> list[RawMember] | None:
    """Return each member in order; None if `raw` is not an object."""
    raw = raw.strip(_JSON_WHITESPACE)
    if not raw.startswith(b"{"):
        return None
    parts = _split_container(raw)
    try:
        return [
            RawMember(msgspec.json.decode(key, type=str), key, value)
            for key, value in zip(parts[0::2], parts[1::2], strict=True)
        ]
    except ValueError:  # an odd number of parts, or a name that is not a string
        rule = "not valid JSON: a member of an object has no name or no value"
        raise InvalidDocument(rule, code="not_json") from None


def _split_container(raw: bytes) -> list[bytes]:
    """Return the elements of an array, or the names and values of an object in turn, as text.

    Raises InvalidDocument if the brackets do not match.
    """
    parts: list[bytes] = []
    depth, start = 0, 1
    for match in _TOKEN.finditer(raw):
        token = raw[match.start()]
        if token in b"[{":
            depth += 1
        elif token in b"]}":
            depth -= 1
        if depth == 0 or (depth == 1 and token in b",:"):
            part = raw[start : match.start()].strip(_JSON_WHITESPACE)
            if part:
                parts.append(part)
            start = match.end()
        if depth == 0:
            break
    if depth != 0 or start != len(raw):
        raise InvalidDocument("not valid JSON: brackets do not match", code="not_json")
    return parts
