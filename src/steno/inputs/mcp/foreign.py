"""JSON from somebody else's program, and JSON for it: what can be recorded, sent, or neither."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any, Final, cast

from steno.value import is_text, replace_lone_surrogates

_DEEPEST: Final = 150
_WIDEST_NUMBER: Final = 1024
"""In bits; what is longer is no number to anybody."""


def lawful(value: Any, depth: int = 0) -> Any:
    """Return foreign JSON as a value that can be recorded and sent: any text, any number."""
    match value:
        case None | bool():
            return value
        case str():
            return replace_lone_surrogates(value)
        case int():
            return value if value.bit_length() <= _WIDEST_NUMBER else "[a very large number]"
        case float():
            return value if math.isfinite(value) else str(value)
        case _ if depth > _DEEPEST:
            return "[nested too deeply]"
        case Mapping():
            return {
                replace_lone_surrogates(str(name)): lawful(member, depth + 1)
                for name, member in value.items()
            }
        case list() | tuple():
            return [lawful(member, depth + 1) for member in value]
        case _:
            return f"[{type(value).__name__}]"


def from_base64(text: str) -> bytes | None:
    """Return the bytes that a text stands for, in lines or not; None if it stands for none."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        return None


def is_sendable(value: object) -> bool:
    """Tell whether all texts in a value can be written: half a surrogate pair cannot."""
    rest = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, str):
            if not is_text(one):
                return False
        elif isinstance(one, Mapping):
            members = cast("Mapping[object, object]", one)
            rest += [*members, *members.values()]
        elif isinstance(one, list | tuple):
            rest += cast("list[object]", one)
    return True
