"""What a scripted server says, line by line, in no protocol yet.

A `ScriptedServer` puts these lines into the bytes of its protocol. They are about what a server does,
bad habits included, not about what we make of it: that is written in the cases.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

from steno.messages.usage import StopReason, Usage
from steno.wire import Wire

# -- words -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TextPiece:
    """A piece of text."""

    text: str


@dataclass(frozen=True)
class ThinkingPiece:
    """A piece of thinking."""

    text: str


@dataclass(frozen=True)
class ThinkingSeal:
    """The seal of the thinking before it."""

    token: str


@dataclass(frozen=True)
class RedactedThinking:
    """Thinking of which only the seal is handed out."""

    token: str


@dataclass(frozen=True)
class Refusal:
    """The model declines, in words, where the protocol has a place for that."""

    text: str


# -- calls -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CallFragment:
    """A fragment of a call. None is left out, the empty string is sent as such."""

    index: int | None
    id: str | None = None
    name: str | None = None
    arguments: str | None = None


@dataclass(frozen=True)
class WholeCall:
    """A call in one piece, as the protocol likes to send it. `arguments` is JSON text."""

    id: str | None
    name: str
    arguments: str | None = "{}"


# -- what nobody has a name for --------------------------------------------------------------


@dataclass(frozen=True)
class UnknownEvent:
    """An event, line or chunk of a kind that is new; `token` stands somewhere inside."""

    token: str


@dataclass(frozen=True)
class UnknownMember:
    """A usual event with a member that is new; `token` is its value."""

    token: str


@dataclass(frozen=True)
class UnknownBlock:
    """A part of the answer of a kind that is new, where text or a call might stand."""

    token: str


# -- the end and the rest --------------------------------------------------------------------


@dataclass(frozen=True)
class KeepAlive:
    """What is sent so that nobody hangs up, and says nothing."""


@dataclass(frozen=True)
class UsageOnly:
    """A message about tokens alone; behind an `TurnEnd` without usage."""

    usage: Usage


@dataclass(frozen=True)
class TurnEnd:
    """The turn is over. `raw` is a word for the reason that the protocol does not know yet."""

    reason: StopReason = StopReason.END_TURN
    usage: Usage | None = None
    raw: str | None = None
    has_end_marker: bool = True
    """Whether the protocol's own sign of the end follows, where it has one."""


@dataclass(frozen=True)
class ServerFailure:
    """An error inside an answer that began well."""

    message: str


@dataclass(frozen=True)
class StalledConnection:
    """The server says nothing more and does not hang up: the last line of a script, if at all.

    It is for providers; no bytes say it.
    """


ScriptLine: TypeAlias = (
    TextPiece
    | ThinkingPiece
    | ThinkingSeal
    | RedactedThinking
    | Refusal
    | CallFragment
    | WholeCall
    | UnknownEvent
    | UnknownMember
    | UnknownBlock
    | KeepAlive
    | UsageOnly
    | TurnEnd
    | ServerFailure
    | StalledConnection
)


Script: TypeAlias = Sequence[ScriptLine]


# -- a script as one answer ------------------------------------------------------------------


@dataclass(frozen=True)
class WholeThinking:
    """Thinking with its seal, as it stands in a whole answer."""

    text: str
    token: str | None = None


ResponsePart: TypeAlias = (
    TextPiece | WholeThinking | RedactedThinking | Refusal | WholeCall | UnknownBlock
)


@dataclass(frozen=True)
class WholeResponse:
    """What a script amounts to: its parts in order, and how it ends."""

    parts: tuple[ResponsePart, ...]
    end: TurnEnd

    @property
    def text(self) -> str | None:
        """All text, for protocols that have one place for it."""
        texts = [part.text for part in self.parts if isinstance(part, TextPiece)]
        return "".join(texts) if texts else None

    @property
    def calls(self) -> list[WholeCall]:
        """All calls, in order."""
        return [part for part in self.parts if isinstance(part, WholeCall)]


def build_whole_response(script: Script) -> WholeResponse:
    """Put a script together: neighbours joined, each call in one piece."""
    parts: list[ResponsePart] = []
    end = TurnEnd()
    for line in script:
        last = parts[-1] if parts else None
        match line:
            case TextPiece() if isinstance(last, TextPiece):
                parts[-1] = TextPiece(last.text + line.text)
            case ThinkingPiece() if isinstance(last, WholeThinking) and last.token is None:
                parts[-1] = WholeThinking(last.text + line.text)
            case ThinkingPiece():
                parts.append(WholeThinking(line.text))
            case ThinkingSeal() if isinstance(last, WholeThinking):
                parts[-1] = WholeThinking(last.text, line.token)
            case ThinkingSeal():
                parts.append(WholeThinking("", line.token))
            case TextPiece() | RedactedThinking() | Refusal() | WholeCall() | UnknownBlock():
                parts.append(line)
            case TurnEnd():
                end = line
            case _:
                raise ValueError(f"{type(line).__name__} is no part of a whole answer")
    return WholeResponse(tuple(parts), end)


# -- server ---------------------------------------------------------------------------------------
#
# How a wire takes part: somebody who speaks its protocol.
#
# A server is the server's side of a wire, and so knows nothing of the wire but its name. What a
# protocol has no way to say raises `NotExpressible`, and the case is not asked of it.


class NotExpressible(Exception):
    """The protocol has no way to say this."""

    def __init__(self, what: object) -> None:
        """Take a line of a script, or words for what cannot be said."""
        super().__init__(what if isinstance(what, str) else type(what).__name__)


class ScriptedServer(ABC):
    """Says scripted answers in the bytes that a server of one protocol would send."""

    wire: Wire
    """The wire that has to understand this server: a module, or whatever is like one."""
    legal_call_id: re.Pattern[str] | None = None
    """What the protocol allows as the id of a call; None if it allows anything."""

    requests: tuple[bytes, ...] = ()
    """Requests as clients of the protocol write them, odd members included.

    The wire has to read them and write the same again.
    """

    @abstractmethod
    def frames(self, script: Script) -> list[bytes]:
        """Return what a server sends for the script, event by event. Raises NotExpressible."""

    def response(self, script: Script) -> bytes:
        """Return the same as one whole answer. Raises NotExpressible."""
        raise NotExpressible("an answer that comes at once")


def raise_not_expressible(what: object) -> NoReturn:
    """Raise NotExpressible, where an expression is wanted."""
    raise NotExpressible(what)


# -- bytes -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class JsonText:
    """JSON text that is to stand in other JSON as it is, down to the last blank."""

    text: str


def encode_json(value: Any) -> bytes:
    """Write JSON as servers do: text as it is, and half a character as an escape."""
    kept: list[str] = []

    def keep(part: JsonText) -> str:
        kept.append(part.text)
        return f"\0{len(kept) - 1}\0"

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=keep)
    for number, part in enumerate(kept):
        text = text.replace(f'"\\u0000{number}\\u0000"', part, 1)
    return _LONE_SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text).encode()


_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def json_object_text(arguments: str) -> JsonText:
    """Return arguments for a protocol that has an object there. Raises NotExpressible."""
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except ValueError:
        is_object = False
    if not is_object:
        raise NotExpressible("arguments that are no object")
    return JsonText(arguments)


def encode_sse_event(payload: Any, *, event: str | None = None) -> bytes:
    """Write one server-sent event."""
    name = b"" if event is None else f"event: {event}\n".encode()
    return name + b"data: " + encode_json(payload) + b"\n\n"


def without_none(**members: Any) -> dict[str, Any]:
    """Return the members that are there."""
    return {name: value for name, value in members.items() if value is not None}
