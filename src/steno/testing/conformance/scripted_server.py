"""Scripts of a response, and the servers that encode them as the bytes of one protocol.

A script is a list of lines that describe what a server sends, including known faults, without
naming a protocol. A `ScriptedServer` is the server's side of one wire: it encodes scripts, and of
the wire it knows only the name. If its protocol cannot express a line, it raises `NotExpressible`,
and the kit marks the case as not applicable. `decode_script` decodes the bytes with the wire; the
cases define the expected result.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, zip_longest
from typing import Any, Final, NoReturn, TypeAlias

from steno.assemble import Assembler, WireEvent
from steno.codec import encode_message
from steno.errors import ProtocolError, ProviderError
from steno.messages.event import Finished
from steno.messages.message import AssistantMessage
from steno.messages.usage import StopReason, Usage
from steno.testing.case_results import CaseFailure, expect, require
from steno.wire import Wire

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
MODEL: Final = "model-1"
"""The model of every request of the kit."""


# -- text and thinking -------------------------------------------------------------------------


@dataclass(frozen=True)
class _TextLine:
    text: str


@dataclass(frozen=True)
class _TokenLine:
    token: str


class TextPiece(_TextLine):
    """A piece of text."""


class ThinkingPiece(_TextLine):
    """A piece of thinking."""


class ThinkingSeal(_TokenLine):
    """The seal of the thinking before it."""


class RedactedThinking(_TokenLine):
    """Thinking of which the server sends only the seal."""


class Refusal(_TextLine):
    """A refusal of the model, where the protocol has a member for it."""


# -- tool calls --------------------------------------------------------------------------------


@dataclass(frozen=True)
class CallFragment:
    """A fragment of a call. A member that is None is left out; an empty string is sent."""

    index: int | None
    id: str | None = None
    name: str | None = None
    arguments: str | None = None


@dataclass(frozen=True)
class WholeCall:
    """A call in one piece, in the usual form of the protocol. `arguments` is JSON text."""

    id: str | None
    name: str
    arguments: str | None = "{}"


# -- unknown to every wire ---------------------------------------------------------------------


class UnknownEvent(_TokenLine):
    """An event, line or chunk of an unknown type that contains `token`."""


class UnknownMember(_TokenLine):
    """A usual event with an unknown member whose value is `token`."""


class UnknownBlock(_TokenLine):
    """A part of the response of an unknown type, among text and calls."""


# -- ends, errors and the rest -----------------------------------------------------------------


@dataclass(frozen=True)
class KeepAlive:
    """An event without content that keeps the connection open."""


@dataclass(frozen=True)
class UsageOnly:
    """An event with token counts only, after a `TurnEnd` without usage."""

    usage: Usage


@dataclass(frozen=True)
class TurnEnd:
    """The end of the turn. `raw` is a stop reason that the wire does not know."""

    reason: StopReason = StopReason.END_TURN
    usage: Usage | None = None
    raw: str | None = None
    has_end_marker: bool = True
    """Whether the end marker of the protocol follows, if it has one."""


@dataclass(frozen=True)
class ServerFailure:
    """An error inside a response with status 200."""

    message: str


@dataclass(frozen=True)
class StalledConnection:
    """The server stops sending and keeps the connection open; only at the end of a script.

    It is for cases about providers; a `ScriptedServer` does not encode it.
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


# -- servers -----------------------------------------------------------------------------------


class NotExpressible(Exception):
    """The protocol cannot express a line of a script."""

    def __init__(self, content: object) -> None:
        """Take the line, or a description of it."""
        super().__init__(content if isinstance(content, str) else type(content).__name__)


def raise_not_expressible(content: object) -> NoReturn:
    """Raise NotExpressible; for use in an expression."""
    raise NotExpressible(content)


def find_stop_reason(end: TurnEnd, known: Mapping[StopReason, str]) -> str:
    """Return the protocol's name of a stop reason, or `end.raw`. Raises NotExpressible."""
    if end.raw is not None:
        return end.raw
    return known.get(end.reason) or raise_not_expressible(f"stop reason {end.reason}")


class ScriptedServer(ABC):
    """Encodes scripts as the bytes that a server of one protocol sends."""

    wire: Wire
    """The wire that decodes the bytes of this server: a module, or an object like one."""
    legal_call_id: re.Pattern[str] | None = None
    """The ids of calls that the protocol allows; None if it allows any."""

    requests: tuple[bytes, ...] = ()
    """Requests as clients of the protocol write them, including unknown members.

    The wire must decode each of them and encode the same again.
    """

    @abstractmethod
    def frames(self, script: Script) -> list[bytes]:
        """Return the bytes of the script, event by event. Raises NotExpressible."""

    def response(self, script: Script) -> bytes:
        """Return the script as one whole response. Raises NotExpressible."""
        raise NotExpressible("a response that is not streamed")


# -- a script as one response ------------------------------------------------------------------


@dataclass(frozen=True)
class WholeThinking:
    """Thinking with its seal, as a part of a whole response."""

    text: str
    token: str | None = None


ResponsePart: TypeAlias = (
    TextPiece | WholeThinking | RedactedThinking | Refusal | WholeCall | UnknownBlock
)


@dataclass(frozen=True)
class WholeResponse:
    """A script as one response: its parts in order, and its end."""

    parts: tuple[ResponsePart, ...]
    end: TurnEnd

    @property
    def text(self) -> str | None:
        """All text, for protocols that have one member for it."""
        texts = [part.text for part in self.parts if isinstance(part, TextPiece)]
        return "".join(texts) if texts else None

    @property
    def calls(self) -> list[WholeCall]:
        """All calls, in order."""
        return [part for part in self.parts if isinstance(part, WholeCall)]


def build_whole_response(script: Script) -> WholeResponse:
    """Build the response of a script: adjacent pieces joined, each call in one piece.

    Raises ValueError for a line that is not part of a whole response.
    """
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
                raise ValueError(f"{type(line).__name__} is not part of a whole response")
    return WholeResponse(tuple(parts), end)


# -- bytes -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JsonText:
    """JSON text to insert into other JSON unchanged, whitespace included."""

    text: str


def encode_json(value: Any) -> bytes:
    """Encode JSON as servers do: text unescaped, and a lone surrogate as an escape."""
    inserted: list[str] = []

    def insert_later(part: JsonText) -> str:
        inserted.append(part.text)
        return f"\0{len(inserted) - 1}\0"

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=insert_later)
    for number, part in enumerate(inserted):
        text = text.replace(f'"\\u0000{number}\\u0000"', part, 1)
    return _LONE_SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text).encode()


def json_object_text(arguments: str) -> JsonText:
    """Return arguments for a protocol that sends them as an object. Raises NotExpressible."""
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except ValueError:
        is_object = False
    if not is_object:
        raise NotExpressible("arguments that are not an object")
    return JsonText(arguments)


def encode_sse_event(payload: Any, *, event: str | None = None) -> bytes:
    """Encode one server-sent event."""
    name = b"" if event is None else f"event: {event}\n".encode()
    return name + b"data: " + encode_json(payload) + b"\n\n"


def without_none(**members: Any) -> dict[str, Any]:
    """Return the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


# -- scripts, decoded by the wire --------------------------------------------------------------


@dataclass(frozen=True)
class DecodedStream:
    """The events, the message and the error that a wire decoded from some bytes."""

    events: tuple[WireEvent, ...]
    error: ProtocolError | ProviderError | None
    message: AssistantMessage
    """The message of the events, up to the error if there was one."""
    envelope: dict[str, Any]

    @property
    def has_ended(self) -> bool:
        """Whether a `Finished` was decoded."""
        return any(isinstance(event, Finished) for event in self.events)

    @property
    def error_key(self) -> tuple[type, str] | None:
        """The error as a value that can be compared."""
        return None if self.error is None else (type(self.error), str(self.error))

    @property
    def block_types(self) -> list[str]:
        """The class names of the blocks of the message, in order."""
        return [type(block).__name__ for block in self.message.content]

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        """Id, name and arguments of each call."""
        return [(call.id, call.name, call.arguments) for call in self.message.tool_calls]

    def contains(self, token: str) -> bool:
        """Return whether `token` is in the message or in its envelope."""
        return token in encode_message(self.message).decode() + json.dumps(self.envelope)


def decode_pieces(wire: Wire, pieces: Iterable[bytes]) -> DecodedStream:
    """Decode pieces of bytes up to their end, or to the first error that a wire may raise."""
    decoder = wire.StreamDecoder(model=MODEL)
    numbers = count(1)
    assembler = Assembler(new_id=lambda: f"made_up_{next(numbers)}")
    events: list[WireEvent] = []
    error: ProtocolError | ProviderError | None = None

    def take(decoded: Iterator[WireEvent]) -> None:
        for event in decoded:
            events.append(event)
            assembler.feed(event)

    try:
        for piece in pieces:
            take(decoder.feed(piece))
        take(decoder.close())
    except (ProtocolError, ProviderError) as exc:
        error = exc
    return DecodedStream(tuple(events), error, assembler.message(), decoder.envelope)


def decode_script(server: ScriptedServer, *script: ScriptLine) -> DecodedStream:
    """Encode a script and decode it with the wire. Raises CaseFailure for an error or no end."""
    decoded = decode_script_or_error(server, *script)
    if decoded.error is not None:
        raise CaseFailure(f"raised {type(decoded.error).__name__}: {decoded.error}")
    require(decoded.has_ended, "the events contain no Finished")
    return decoded


def decode_script_or_error(server: ScriptedServer, *script: ScriptLine) -> DecodedStream:
    """Encode a script and decode it with the wire, up to an error if there is one."""
    frames = server.frames(script)
    decoded = decode_pieces(server.wire, [b"".join(frames)])
    expect_same_decoding(decode_pieces(server.wire, frames), decoded, "event by event")
    return decoded


def expect_same_decoding(found: DecodedStream, wanted: DecodedStream, how: str) -> None:
    """Raise CaseFailure if the same bytes were decoded differently; `how` is how they arrived."""
    expect(found.error_key, wanted.error_key, f"the error, {how}")
    pairs = zip_longest(found.events, wanted.events)
    place = next((n for n, (one, other) in enumerate(pairs) if one != other), None)
    if place is not None:
        raise CaseFailure(f"different events, {how}: events[{place}] is the first that differs")


# -- what a protocol can express ---------------------------------------------------------------


def is_expressible(server: ScriptedServer, *script: ScriptLine) -> bool:
    """Return whether the protocol can express a script."""
    try:
        server.frames(script)
    except NotExpressible:
        return False
    return True


def usage_if_supported(server: ScriptedServer, end: TurnEnd) -> TurnEnd:
    """Return the end with its usage, or without it if the protocol has no token counts."""
    return end if is_expressible(server, TextPiece("Hi"), end) else replace(end, usage=None)


def supported_lines(server: ScriptedServer, *groups: Script) -> list[ScriptLine]:
    """Return the lines of those groups that the protocol can express. Raises NotExpressible."""
    supported: list[ScriptLine] = []
    for group in groups:
        if is_expressible(server, *supported, *group, TurnEnd()):
            supported += group
    if not supported:
        raise NotExpressible("any line of the script")
    return supported
