"""Scripts of responses, and the servers that encode scripts as the bytes of one protocol.

A script is a list of lines that describe the response of a server, including known faults,
independently of the protocol. A `ScriptedServer` encodes scripts for one protocol and uses no code
of the wire. If the protocol cannot express a line, the server raises `NotExpressible`, and the kit
marks the case as not applicable. `decode_script` decodes the bytes with the wire; the cases define
the expected result.
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
"""The model in the requests of the kit."""


# -- text and thinking -------------------------------------------------------------------------


@dataclass(frozen=True)
class _TextLine:
    text: str


@dataclass(frozen=True)
class _TokenLine:
    token: str


class TextPiece(_TextLine):
    """A piece of the text of the response."""


class ThinkingPiece(_TextLine):
    """A piece of the thinking of the response."""


class ThinkingSeal(_TokenLine):
    """The seal (signature) of the preceding thinking."""


class RedactedThinking(_TokenLine):
    """Thinking without text, for which the server sends only the seal."""


class Refusal(_TextLine):
    """The text of a refusal, for protocols that have a member for refusals."""


# -- tool calls --------------------------------------------------------------------------------


@dataclass(frozen=True)
class CallFragment:
    """A fragment of a tool call. A member that is None is omitted; an empty string is sent."""

    index: int | None
    id: str | None = None
    name: str | None = None
    arguments: str | None = None


@dataclass(frozen=True)
class WholeCall:
    """A whole tool call, in the usual form of the protocol. `arguments` is JSON text."""

    id: str | None
    name: str
    arguments: str | None = "{}"


# -- content that no wire knows ----------------------------------------------------------------


class UnknownEvent(_TokenLine):
    """An event, line or chunk of an unknown type that contains `token`."""


class UnknownMember(_TokenLine):
    """A known event that has an unknown member with the value `token`."""


class UnknownBlock(_TokenLine):
    """A content block of an unknown type that contains `token`."""


# -- ends, errors and connections --------------------------------------------------------------


@dataclass(frozen=True)
class KeepAlive:
    """An event without content that keeps the connection open."""


@dataclass(frozen=True)
class UsageOnly:
    """An event that has only token counts, after a `TurnEnd` without usage."""

    usage: Usage


@dataclass(frozen=True)
class TurnEnd:
    """The end of the turn. `raw`, if set, is a stop reason that the wire does not know."""

    reason: StopReason = StopReason.END_TURN
    usage: Usage | None = None
    raw: str | None = None
    has_end_marker: bool = True
    """Whether the server sends the end marker of the protocol, if the protocol has one."""


@dataclass(frozen=True)
class ServerFailure:
    """An error that the server sends inside a response with status 200."""

    message: str


@dataclass(frozen=True)
class StalledConnection:
    """The end of a script whose server stops sending but keeps the connection open.

    Only the cases for providers use it; a `ScriptedServer` need not encode it.
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
        """Create the error for a line of a script, or for a description of the content."""
        super().__init__(content if isinstance(content, str) else type(content).__name__)


def raise_not_expressible(content: object) -> NoReturn:
    """Raise NotExpressible, where an expression is needed instead of a `raise` statement."""
    raise NotExpressible(content)


def find_stop_reason(end: TurnEnd, known: Mapping[StopReason, str]) -> str:
    """Return the protocol's name for the stop reason of `end`, or `end.raw` if it is set.

    Raises NotExpressible if `known` has no name for the stop reason.
    """
    if end.raw is not None:
        return end.raw
    return known.get(end.reason) or raise_not_expressible(f"stop reason {end.reason}")


class ScriptedServer(ABC):
    """Encodes scripts as the bytes that a server of one protocol sends."""

    wire: Wire
    """The wire that decodes the bytes of this server, as a module or an object."""
    legal_call_id: re.Pattern[str] | None = None
    """A pattern for the call ids that the protocol allows; None if it allows any id."""

    requests: tuple[bytes, ...] = ()
    """Sample requests of clients of the protocol, including unknown members.

    If the wire decodes a request and encodes it again, the result must be equal.
    """

    @abstractmethod
    def frames(self, script: Script) -> list[bytes]:
        """Return the bytes of each event in a stream of the script.

        Raises NotExpressible if the protocol cannot express a line.
        """

    def response(self, script: Script) -> bytes:
        """Return the bytes of the script as a response that is not streamed.

        Raises NotExpressible if the protocol cannot express a line.
        """
        raise NotExpressible("a response that is not streamed")


# -- a script as one response ------------------------------------------------------------------


@dataclass(frozen=True)
class WholeThinking:
    """Thinking as a part of a whole response, with its seal in `token` if it has one."""

    text: str
    token: str | None = None


ResponsePart: TypeAlias = (
    TextPiece | WholeThinking | RedactedThinking | Refusal | WholeCall | UnknownBlock
)


@dataclass(frozen=True)
class WholeResponse:
    """A script as a whole response, with its parts in order and the end of the turn."""

    parts: tuple[ResponsePart, ...]
    end: TurnEnd

    @property
    def text(self) -> str | None:
        """All text joined, for protocols with a single text member; None if there is no text."""
        texts = [part.text for part in self.parts if isinstance(part, TextPiece)]
        return "".join(texts) if texts else None

    @property
    def calls(self) -> list[WholeCall]:
        """All tool calls, in order."""
        return [part for part in self.parts if isinstance(part, WholeCall)]


def build_whole_response(script: Script) -> WholeResponse:
    """Build the whole response of a script, with adjacent pieces of text or thinking joined.

    Raises ValueError for a line that exists only in streams, such as a `CallFragment`.
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
                raise ValueError(f"{type(line).__name__} is not allowed in a whole response")
    return WholeResponse(tuple(parts), end)


# -- bytes -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JsonText:
    """JSON text that `encode_json` inserts unchanged, including whitespace."""

    text: str


def encode_json(value: Any) -> bytes:
    """Encode JSON as servers do, with unescaped Unicode but lone surrogates as escapes."""
    inserted: list[str] = []

    def insert_later(part: JsonText) -> str:
        inserted.append(part.text)
        return f"\0{len(inserted) - 1}\0"

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=insert_later)
    for number, part in enumerate(inserted):
        text = text.replace(f'"\\u0000{number}\\u0000"', part, 1)
    return _LONE_SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text).encode()


def json_object_text(arguments: str) -> JsonText:
    """Return arguments for a protocol that sends them as a JSON object, not as text.

    Raises NotExpressible if the arguments are not a JSON object.
    """
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except ValueError:
        is_object = False
    if not is_object:
        raise NotExpressible("arguments that are not an object")
    return JsonText(arguments)


def encode_sse_event(payload: Any, *, event: str | None = None) -> bytes:
    """Encode one server-sent event whose data is `payload` as JSON."""
    name = b"" if event is None else f"event: {event}\n".encode()
    return name + b"data: " + encode_json(payload) + b"\n\n"


def without_none(**members: Any) -> dict[str, Any]:
    """Return a dictionary of the members whose value is not None."""
    return {name: value for name, value in members.items() if value is not None}


# -- scripts that the wire decodes -------------------------------------------------------------


@dataclass(frozen=True)
class DecodedStream:
    """The events, the message and the error that a wire decoded from some bytes."""

    events: tuple[WireEvent, ...]
    error: ProtocolError | ProviderError | None
    message: AssistantMessage
    """The message assembled from the events before the error, or from all events."""
    envelope: dict[str, Any]

    @property
    def has_ended(self) -> bool:
        """Whether a `Finished` event was decoded."""
        return any(isinstance(event, Finished) for event in self.events)

    @property
    def error_key(self) -> tuple[type, str] | None:
        """The type and text of the error, for comparison; None if there was no error."""
        return None if self.error is None else (type(self.error), str(self.error))

    @property
    def block_types(self) -> list[str]:
        """The class names of the blocks of the message, in order."""
        return [type(block).__name__ for block in self.message.content]

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        """The id, name and arguments of each call of the message."""
        return [(call.id, call.name, call.arguments) for call in self.message.tool_calls]

    def contains(self, token: str) -> bool:
        """Return whether `token` is in the message or in the envelope."""
        return token in encode_message(self.message).decode() + json.dumps(self.envelope)


def decode_pieces(wire: Wire, pieces: Iterable[bytes]) -> DecodedStream:
    """Decode pieces of bytes until they end or the wire raises a protocol or provider error."""
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
    """Encode a script and decode the bytes with the wire of the server.

    Raises CaseFailure if the wire raises an error or the events contain no `Finished`.
    """
    decoded = decode_script_or_error(server, *script)
    if decoded.error is not None:
        raise CaseFailure(f"raised {type(decoded.error).__name__}: {decoded.error}")
    require(decoded.has_ended, "the events contain no Finished")
    return decoded


def decode_script_or_error(server: ScriptedServer, *script: ScriptLine) -> DecodedStream:
    """Encode a script and decode the bytes with the wire, until an error if there is one.

    Raises CaseFailure if the result depends on the splitting of the bytes.
    """
    frames = server.frames(script)
    decoded = decode_pieces(server.wire, [b"".join(frames)])
    expect_same_decoding(decode_pieces(server.wire, frames), decoded, "event by event")
    return decoded


def expect_same_decoding(found: DecodedStream, wanted: DecodedStream, how: str) -> None:
    """Raise CaseFailure if two decodings of a response have different events or errors.

    `how` describes the decoding `found`, such as "byte by byte".
    """
    expect(found.error_key, wanted.error_key, f"the error, {how}")
    pairs = zip_longest(found.events, wanted.events)
    place = next((n for n, (one, other) in enumerate(pairs) if one != other), None)
    if place is not None:
        raise CaseFailure(f"different events, {how}: events[{place}] is the first that differs")


# -- capabilities of a protocol ----------------------------------------------------------------


def is_expressible(server: ScriptedServer, *script: ScriptLine) -> bool:
    """Return whether the protocol can express a script."""
    try:
        server.frames(script)
    except NotExpressible:
        return False
    return True


def usage_if_supported(server: ScriptedServer, end: TurnEnd) -> TurnEnd:
    """Return `end`, without its usage if the protocol cannot express these token counts."""
    return end if is_expressible(server, TextPiece("Hi"), end) else replace(end, usage=None)


def supported_lines(server: ScriptedServer, *groups: Script) -> list[ScriptLine]:
    """Return the lines of the groups that the protocol can express.

    Raises NotExpressible if the protocol can express none of the groups.
    """
    supported: list[ScriptLine] = []
    for group in groups:
        if is_expressible(server, *supported, *group, TurnEnd()):
            supported += group
    if not supported:
        raise NotExpressible("any line of the script")
    return supported
