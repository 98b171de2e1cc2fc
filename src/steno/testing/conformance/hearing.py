"""How cases listen to a wire, and say what they expected to hear.

What a case compares is the kit's own words, so what it says about a difference may show them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final

from steno.assemble import Assembler
from steno.codec import encode_message
from steno.errors import ProtocolError, ProviderError
from steno.event import Event, Finished
from steno.message import AssistantMessage
from steno.testing.conformance.script import End, Line, Say, Script
from steno.testing.conformance.speaker import CannotSay, Speaker
from steno.wire import Wire

MODEL: Final = "model-1"
"""The model that everything in the kit is asked of."""


class Unmet(AssertionError):
    """A wire or a provider did something else than it should."""


def expect(found: object, wanted: object, what: str) -> None:
    """Raise Unmet, with both, unless they are equal."""
    if found != wanted:
        raise Unmet(f"{what}: expected {wanted!r}, got {found!r}")


def require(is_so: bool, rule: str) -> None:
    """Raise Unmet, with the rule, unless it holds."""
    if not is_so:
        raise Unmet(rule)


def expect_json(found: Any, wanted: Any, what: str) -> None:
    """Raise Unmet, with the first place where two JSON values differ, unless they are equal."""
    pointer = _difference(found, wanted)
    if pointer is not None:
        raise Unmet(f"{what}: differs at {pointer or 'its root'}")


def expect_body(found: bytes, wanted: bytes, what: str) -> None:
    """Raise Unmet unless two bodies say the same: as JSON, or to the byte if they are no JSON."""
    try:
        values = json.loads(found), json.loads(wanted)
    except ValueError:
        expect(found, wanted, what)
    else:
        expect_json(*values, what)


def _difference(found: Any, wanted: Any) -> str | None:
    if isinstance(found, dict) and isinstance(wanted, dict):
        for name in dict.fromkeys([*wanted, *found]):
            if (name in found) != (name in wanted):
                return f"/{name} ({'added' if name in found else 'lost'})"
            inner = _difference(found[name], wanted[name])
            if inner is not None:
                return f"/{name}{inner}"
        return None
    if isinstance(found, list) and isinstance(wanted, list):
        if len(found) != len(wanted):
            return f" ({len(found)} instead of {len(wanted)} elements)"
        places = (_difference(one, other) for one, other in zip(found, wanted, strict=True))
        return next((f"/{n}{place}" for n, place in enumerate(places) if place is not None), None)
    is_same = found == wanted and isinstance(found, bool) is isinstance(wanted, bool)
    return None if is_same else f" (expected {wanted!r}, got {found!r})"


# -- listening -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Heard:
    """What a wire made of some bytes."""

    events: tuple[Event, ...]
    error: ProtocolError | ProviderError | None
    message: AssistantMessage
    """Of the events before the error, if there was one."""
    envelope: dict[str, Any]

    @property
    def has_ended(self) -> bool:
        """Whether the model was heard to finish."""
        return any(isinstance(event, Finished) for event in self.events)

    @property
    def error_key(self) -> tuple[type, str] | None:
        """The error in a form that can be compared."""
        return None if self.error is None else (type(self.error), str(self.error))

    @property
    def block_types(self) -> list[str]:
        """What the blocks of the message are, in order."""
        return [type(block).__name__ for block in self.message.content]

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        """Id, name and arguments of each call."""
        return [(call.id, call.name, call.arguments) for call in self.message.tool_calls]

    def contains(self, token: str) -> bool:
        """Tell whether `token` was kept: in the message, or in what was said about it."""
        return token in encode_message(self.message).decode() + json.dumps(self.envelope)


def listen(wire: Wire, pieces: Iterable[bytes]) -> Heard:
    """Decode pieces to their end, or to the first error that a wire may raise."""
    decoder = wire.StreamDecoder(model=MODEL)
    numbers = count(1)
    assembler = Assembler(new_id=lambda: f"made_up_{next(numbers)}")
    events: list[Event] = []
    error: ProtocolError | ProviderError | None = None

    def take(news: Iterator[Event]) -> None:
        for event in news:
            events.append(event)
            assembler.feed(event)

    try:
        for piece in pieces:
            take(decoder.feed(piece))
        take(decoder.close())
    except (ProtocolError, ProviderError) as exc:
        error = exc
    return Heard(tuple(events), error, assembler.message(), decoder.envelope)


def hear(speaker: Speaker, *script: Line) -> Heard:
    """Let a speaker say a script; return what its wire understood, which must be all of it."""
    heard = hear_all(speaker, *script)
    if heard.error is not None:
        raise Unmet(f"raised {type(heard.error).__name__}: {heard.error}")
    require(heard.has_ended, "the end was not told: no Finished among the events")
    return heard


def hear_all(speaker: Speaker, *script: Line) -> Heard:
    """Do the same, and return an error with what came before it."""
    frames = speaker.frames(script)
    heard = listen(speaker.wire, [b"".join(frames)])
    expect_same(listen(speaker.wire, frames), heard, "event by event instead of in one piece")
    return heard


def expect_same(found: Heard, wanted: Heard, how: str) -> None:
    """Raise Unmet if the same bytes were understood differently."""
    expect(found.error_key, wanted.error_key, f"the error, {how}")
    if found.events != wanted.events:
        place = _first_difference(found.events, wanted.events)
        raise Unmet(f"other events, {how}: the first difference is events[{place}]")


def _first_difference(found: tuple[Event, ...], wanted: tuple[Event, ...]) -> int:
    pairs = enumerate(zip(found, wanted, strict=False))
    return next((n for n, (one, other) in pairs if one != other), min(len(found), len(wanted)))


# -- what can be said ------------------------------------------------------------------------


def counted(speaker: Speaker, end: End) -> End:
    """Return an end with its tokens, or without them where the protocol does not count any."""
    try:
        speaker.frames([Say("Hi"), end])
    except CannotSay:
        return replace(end, usage=None)
    return end


def sayable(speaker: Speaker, *groups: Script) -> list[Line]:
    """Return the lines of those groups that the protocol has a way to say. Raises CannotSay."""
    said: list[Line] = []
    for group in groups:
        try:
            speaker.frames([*said, *group, End()])
        except CannotSay:
            continue
        said += group
    if not said:
        raise CannotSay("any of it")
    return said
