"""Decode the bytes of a scripted server with its wire, for cases to compare."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final

from steno.assemble import Assembler
from steno.codec import encode_message
from steno.errors import ProtocolError, ProviderError
from steno.messages.event import Event, Finished
from steno.messages.message import AssistantMessage
from steno.testing.case_results import CaseFailure, expect, require
from steno.testing.conformance.scripted_server import (
    NotExpressible,
    Script,
    ScriptedServer,
    ScriptLine,
    TextPiece,
    TurnEnd,
)
from steno.wire import Wire

MODEL: Final = "model-1"
"""The model of every request of the kit."""


@dataclass(frozen=True)
class DecodedStream:
    """The events, the message and the error that a wire decoded from some bytes."""

    events: tuple[Event, ...]
    error: ProtocolError | ProviderError | None
    message: AssistantMessage
    """Of the events before the error, if there was one."""
    envelope: dict[str, Any]

    @property
    def has_ended(self) -> bool:
        """Whether a `Finished` was decoded."""
        return any(isinstance(event, Finished) for event in self.events)

    @property
    def error_key(self) -> tuple[type, str] | None:
        """The error in a form that can be compared."""
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
        """Return whether `token` was kept: in the message, or in its envelope."""
        return token in encode_message(self.message).decode() + json.dumps(self.envelope)


def decode_pieces(wire: Wire, pieces: Iterable[bytes]) -> DecodedStream:
    """Decode pieces to their end, or to the first error that a wire may raise."""
    decoder = wire.StreamDecoder(model=MODEL)
    numbers = count(1)
    assembler = Assembler(new_id=lambda: f"made_up_{next(numbers)}")
    events: list[Event] = []
    error: ProtocolError | ProviderError | None = None

    def take(decoded: Iterator[Event]) -> None:
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
    """Encode a script and decode it with the wire. Raises CaseFailure unless it ends well."""
    decoded = decode_script_or_error(server, *script)
    if decoded.error is not None:
        raise CaseFailure(f"raised {type(decoded.error).__name__}: {decoded.error}")
    require(decoded.has_ended, "no end: there is no Finished among the events")
    return decoded


def decode_script_or_error(server: ScriptedServer, *script: ScriptLine) -> DecodedStream:
    """Encode a script and decode it with the wire, up to an error if there is one."""
    frames = server.frames(script)
    decoded = decode_pieces(server.wire, [b"".join(frames)])
    expect_same_decoding(
        decode_pieces(server.wire, frames), decoded, "event by event instead of in one piece"
    )
    return decoded


def expect_same_decoding(found: DecodedStream, wanted: DecodedStream, how: str) -> None:
    """Raise CaseFailure if the same bytes were decoded differently."""
    expect(found.error_key, wanted.error_key, f"the error, {how}")
    if found.events != wanted.events:
        place = _first_different_event(found.events, wanted.events)
        raise CaseFailure(f"other events, {how}: the first difference is events[{place}]")


def _first_different_event(found: tuple[Event, ...], wanted: tuple[Event, ...]) -> int:
    pairs = enumerate(zip(found, wanted, strict=False))
    return next((n for n, (one, other) in pairs if one != other), min(len(found), len(wanted)))


# -- what a protocol can express ---------------------------------------------------------------


def usage_if_supported(server: ScriptedServer, end: TurnEnd) -> TurnEnd:
    """Return an end with its usage, or without it where the protocol has no token counts."""
    try:
        server.frames([TextPiece("Hi"), end])
    except NotExpressible:
        return replace(end, usage=None)
    return end


def supported_lines(server: ScriptedServer, *groups: Script) -> list[ScriptLine]:
    """Return the lines of those groups that the protocol can express. Raises NotExpressible."""
    supported: list[ScriptLine] = []
    for group in groups:
        try:
            server.frames([*supported, *group, TurnEnd()])
        except NotExpressible:
            continue
        supported += group
    if not supported:
        raise NotExpressible("any of it")
    return supported
