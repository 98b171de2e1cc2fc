"""How a wire takes part: somebody who speaks its protocol.

A speaker is the server's side of a wire, and so knows nothing of the wire but its name. What a
protocol has no way to say raises `CannotSay`, and the case is not asked of it.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from steno.testing.conformance.script import Script
from steno.wire import Wire


class CannotSay(Exception):
    """The protocol has no way to say this."""

    def __init__(self, what: object) -> None:
        """Take a line of a script, or words for what cannot be said."""
        super().__init__(what if isinstance(what, str) else type(what).__name__)


class Speaker(ABC):
    """Says scripted answers in the bytes that a server of one protocol would send."""

    wire: Wire
    """The wire that has to understand this speaker: a module, or whatever is like one."""
    legal_call_id: re.Pattern[str] | None = None
    """What the protocol allows as the id of a call; None if it allows anything."""

    requests: tuple[bytes, ...] = ()
    """Requests as clients of the protocol write them, odd members included.

    The wire has to read them and write the same again.
    """

    @abstractmethod
    def frames(self, script: Script) -> list[bytes]:
        """Return what a server sends for the script, event by event. Raises CannotSay."""

    def response(self, script: Script) -> bytes:
        """Return the same as one whole answer. Raises CannotSay."""
        raise CannotSay("an answer that comes at once")


def cannot_say(what: object) -> NoReturn:
    """Raise CannotSay, where an expression is wanted."""
    raise CannotSay(what)


# -- bytes -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verbatim:
    """JSON text that is to stand in other JSON as it is, down to the last blank."""

    text: str


def as_json(value: Any) -> bytes:
    """Write JSON as servers do: text as it is, and half a character as an escape."""
    kept: list[str] = []

    def keep(part: Verbatim) -> str:
        kept.append(part.text)
        return f"\0{len(kept) - 1}\0"

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=keep)
    for number, part in enumerate(kept):
        text = text.replace(f'"\\u0000{number}\\u0000"', part, 1)
    return _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text).encode()


_HALF: Final = re.compile("[\ud800-\udfff]")


def object_text(arguments: str) -> Verbatim:
    """Return arguments for a protocol that has an object there. Raises CannotSay."""
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except ValueError:
        is_object = False
    if not is_object:
        raise CannotSay("arguments that are no object")
    return Verbatim(arguments)


def sse(payload: Any, *, event: str | None = None) -> bytes:
    """Write one server-sent event."""
    name = b"" if event is None else f"event: {event}\n".encode()
    return name + b"data: " + as_json(payload) + b"\n\n"


def without_none(**members: Any) -> dict[str, Any]:
    """Return the members that are there."""
    return {name: value for name, value in members.items() if value is not None}
