"""Benchmarks of the wires: decode streams, with and without HTTP, and encode a late request."""

from __future__ import annotations

from collections.abc import Callable

from bench import wire_encode, wire_http
from bench.findings import Finding, compare
from bench.harness import Case, Stopwatch
from bench.wire_answers import (
    Answer,
    cut,
    in_anthropic_messages,
    in_ollama_chat,
    in_openai_chat,
    make_answer,
)
from bench.wire_bare import dropping_unknown
from bench.wire_floor import Split, split
from steno import Assembler, AssistantMessage
from steno.wire import Wire, WireEvent, load_wire

FEW, SOME, MANY = 500, 2_000, 16_000
FLAT = 1.5
IN_PIECES, ONE_BY_ONE = 1.5, 2.0
WIRES: dict[str, Callable[[Answer], list[bytes]]] = {
    "openai_chat": in_openai_chat,
    "anthropic_messages": in_anthropic_messages,
    "ollama_chat": in_ollama_chat,
}


def run(watch: Stopwatch) -> list[Finding]:
    """Run all benchmarks of the wires."""
    return [
        *wire_http.run(watch),
        *(found for name in WIRES for found in _decode(watch, name)),
        *wire_encode.run(watch),
    ]


def _decode(watch: Stopwatch, name: str) -> list[Finding]:
    """Decode from memory: in pieces of 1 to 4 KB, event by event, and longer responses."""
    wire, floor, untracked = load_wire(name), split(name), split(name, is_tracked=False)
    few, events, many = (WIRES[name](make_answer(count)) for count in (FEW, SOME, MANY))
    pieces, few_pieces, many_pieces = cut(events), cut(few), cut(many)
    _check(name, wire, events, floor)

    def to_message_dropping() -> AssistantMessage:
        with dropping_unknown(name):
            return to_message(wire, pieces)

    count = len(events)
    (
        message,
        no_message,
        least,
        least_untracked,
        lossy,
        message_1,
        no_message_1,
        least_1,
        short,
        long,
    ) = watch.measure(
        f"wires: {name} from memory",
        [
            Case("steno", lambda: to_message(wire, pieces), count),
            Case("steno, no message", lambda: _to_events(wire, pieces), count),
            Case("split lines + msgspec", lambda: floor(pieces), count),
            Case("split lines + msgspec, gc=False", lambda: untracked(pieces), count),
            Case("steno, unknown members dropped", to_message_dropping, count),
            Case("steno", lambda: to_message(wire, events), count),
            Case("steno, no message", lambda: _to_events(wire, events), count),
            Case("split lines + msgspec", lambda: floor(events), count),
            Case(f"steno, {FEW:,} words", lambda: to_message(wire, few_pieces), len(few)),
            Case(f"steno, {MANY:,} words", lambda: to_message(wire, many_pieces), len(many)),
        ],
    )
    work = f"{name}: an event,"
    return [
        *compare(f"{work} to the message, 1 to 4 KB", message, least, slower=IN_PIECES),
        *compare(f"{work} to the message, 1 to 4 KB", message, least_untracked, lossy),
        *compare(f"{work} no message, 1 to 4 KB", no_message, least),
        *compare(f"{work} to the message, one per piece", message_1, least_1, slower=ONE_BY_ONE),
        *compare(f"{work} no message, one per piece", no_message_1, least_1),
        *compare(f"{work} one of {MANY:,}", long, short, slower=FLAT),
    ]


def _check(name: str, wire: Wire, events: list[bytes], floor: Split) -> None:
    """Check that all candidates read the same result from every split."""
    answer, whole = make_answer(SOME), to_message(wire, events)
    assert whole.text == answer.text
    assert len(whole.tool_calls) == len(answer.calls)
    assert to_message(wire, cut(events)) == whole
    assert len(floor(events)) == len(floor(cut(events))) > SOME
    with dropping_unknown(name):
        assert to_message(wire, events).content == whole.content


def to_message(wire: Wire, pieces: list[bytes]) -> AssistantMessage:
    """Decode a response from memory, up to the finished message."""
    decoder, assembler = wire.StreamDecoder(), Assembler()
    for piece in pieces:
        assembler.feed_all(decoder.feed(piece))
    assembler.feed_all(decoder.close())
    return assembler.message()


def _to_events(wire: Wire, pieces: list[bytes]) -> list[WireEvent]:
    decoder = wire.StreamDecoder()
    events: list[WireEvent] = []
    for piece in pieces:
        events += decoder.feed(piece)
    return [*events, *decoder.close()]
