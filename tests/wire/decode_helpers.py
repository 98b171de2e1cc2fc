"""Helpers for bytes and events, for the tests of all wires."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from steno import Assembler, AssistantMessage
from steno.assemble import WireEvent
from steno.wire import Wire


def sse(*payloads: Any, done: bool = False) -> bytes:
    """Write payloads as server-sent events."""
    lines = [b"data: " + msgspec.json.encode(payload) + b"\n\n" for payload in payloads]
    return b"".join(lines) + (b"data: [DONE]\n\n" if done else b"")


def decode_events(wire: Wire, *pieces: bytes, **settings: Any) -> list[WireEvent]:
    """Decode a stream to its end."""
    decoder = wire.StreamDecoder(**settings)
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + list(decoder.close())


def assemble_message(events: Iterable[WireEvent]) -> AssistantMessage:
    """Assemble events."""
    assembler = Assembler(new_id=lambda: "made_up")
    for event in events:
        assembler.feed(event)
    return assembler.message()
