"""What somebody typed, as the values that a schema asks for: `5`, `true`, `["a"]`, or plain text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from steno.schema.checks import check


def read_words(words: Mapping[str, str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of an object: a word is JSON where that fits the schema, and else text."""
    return {name: _value(name, word, schema) for name, word in words.items()}


def _value(name: str, word: str, schema: Mapping[str, Any]) -> Any:
    described = schema.get("properties", {}).get(name)
    if isinstance(described, Mapping) and described.get("type") == "string":
        return word
    try:
        value = msgspec.json.decode(word)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return word
    return word if check({name: value}, {**schema, "required": []}) else value
