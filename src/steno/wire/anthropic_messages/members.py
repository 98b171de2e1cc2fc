"""Members of an answer, taken one by one."""

from __future__ import annotations

from typing import Any, TypeVar

from steno.errors import ProtocolError
from steno.json_object import check_depth
from steno.wire.anthropic_messages.shapes import NAME
from steno.wire.open import NOT_AS_EXPECTED, Rest, explain, parsed, read_as

T = TypeVar("T")


def take(members: Rest, name: str, hint: type[T]) -> T | None:
    """Take a member out if it is of that type; of any other it stays."""
    value = read_as(members.get(name), hint)
    if value is not None:
        del members[name]
    return value


def has(members: Rest, name: str) -> bool:
    """Tell whether a member is there and says something."""
    return name in members and bytes(members[name]) != b"null"


def values(members: Rest) -> dict[str, Any]:
    """Return members as Python values. Raises ProtocolError for what no value of ours may hold."""
    try:
        found = parsed(members)
        check_depth(found)
    except NOT_AS_EXPECTED as exc:
        raise ProtocolError(f"{NAME}: {explain(exc)}") from None
    return found
