"""Cases about how a turn ends: its reason, its cost, or an error."""

from __future__ import annotations

from typing import Final

from steno.errors import CutShort, ProviderError
from steno.event import Finished, TextDelta
from steno.testing.conformance.hearing import (
    Unmet,
    counted,
    expect,
    hear,
    hear_all,
    listen,
    require,
)
from steno.testing.conformance.script import CallPart, End, Fail, Say, UsageOnly, WholeCall
from steno.testing.conformance.speaker import CannotSay, Speaker
from steno.usage import StopReason, Usage

_PLAIN: Final = Usage(input_tokens=100, output_tokens=20)
_FULL: Final = (
    Usage(
        input_tokens=100,
        output_tokens=20,
        cache_read_tokens=64,
        cache_write_tokens=16,
        thinking_tokens=5,
    ),
    Usage(input_tokens=100, output_tokens=20, cache_read_tokens=64, thinking_tokens=5),
    Usage(input_tokens=100, output_tokens=20, cache_read_tokens=64),
)
_STATUSES: Final = {400: False, 401: False, 404: False, 429: True, 503: True}
"""Statuses, and whether to try again."""
_BODIES: Final = (b"", b"<html>no</html>", b'{"error":{"message":"no"}}', b"\xff", b"[]")
_REASONS: Final = (
    StopReason.END_TURN,
    StopReason.LENGTH,
    StopReason.TOOL_USE,
    StopReason.CONTENT_FILTER,
    StopReason.PAUSE,
)


def stop_reasons(speaker: Speaker) -> None:
    """Every reason that the protocol knows is mapped to ours, and its own word is kept."""
    for reason in _REASONS:
        words = WholeCall("a", "now") if reason is StopReason.TOOL_USE else Say("Hi")
        try:
            heard = hear(speaker, words, End(reason))
        except CannotSay:
            continue
        expect(heard.message.stop_reason, reason, "stop reason")


def unknown_stop_reason(speaker: Speaker) -> None:
    """A reason that is new is `unknown`, and the provider's own word is kept."""
    heard = hear(speaker, Say("Hi"), End(raw="by_the_moon"))
    expect(heard.message.stop_reason, StopReason.UNKNOWN, "stop reason")
    expect(heard.message.raw_stop_reason, "by_the_moon", "the provider's own word")


def usage(speaker: Speaker) -> None:
    """Tokens are counted with the message."""
    heard = hear(speaker, Say("Hi"), End(usage=_PLAIN))
    found = heard.message.usage
    require(found is not None, "no usage")
    assert found is not None
    expect((found.input_tokens, found.output_tokens), (100, 20), "tokens in and out")


def usage_inclusive(speaker: Speaker) -> None:
    """Totals hold what was cached and what was thought, whatever the provider's habit."""
    for full in _FULL:
        try:
            heard = hear(speaker, Say("Hi"), End(usage=full))
        except CannotSay:
            continue
        expect(heard.message.usage, full, "usage")
        return
    raise CannotSay("tokens of a cache or of thinking")


def usage_alone(speaker: Speaker) -> None:
    """Tokens may come behind the end, in a message of their own."""
    heard = hear(speaker, Say("Hi"), End(), UsageOnly(_PLAIN))
    expect(heard.message.usage, _PLAIN, "usage")
    expect(heard.message.stop_reason, StopReason.END_TURN, "stop reason")


def end_is_told_once(speaker: Speaker) -> None:
    """There is one end, and it is the last event."""
    events = hear(speaker, Say("Hi"), counted(speaker, End(usage=_PLAIN))).events
    ends = [place for place, event in enumerate(events) if isinstance(event, Finished)]
    expect(ends, [len(events) - 1], "places of the end")


# -- errors ----------------------------------------------------------------------------------


def error_after_200(speaker: Speaker) -> None:
    """An error inside an answer is raised, with the provider's own explanation."""
    heard = hear_all(speaker, Fail("the engine died"))
    _expect_fault(heard.error)
    expect(heard.events, (), "events")


def error_keeps_what_came(speaker: Speaker) -> None:
    """What was said before an error is told before it is raised, even in one piece with it."""
    heard = hear_all(speaker, Say("Hal"), Say("lo"), Fail("the engine died"))
    _expect_fault(heard.error)
    expect(heard.message.text, "Hallo", "text")
    expect(heard.has_ended, False, "that the turn ended")
    try:
        heard = hear_all(speaker, CallPart(0, "a", "read", '{"path'), Fail("the engine died"))
    except CannotSay:
        return
    expect(heard.calls, [("a", "read", '{"path')], "calls")


def error_in_place_of_an_answer(speaker: Speaker) -> None:
    """A status that is no success becomes an error which says whether to try again."""
    for status, is_retryable in _STATUSES.items():
        for body in _BODIES:
            error = speaker.wire.decode_error(status, body, {"retry-after": "7"})
            require(isinstance(error, ProviderError), f"status {status} is no ProviderError")
            expect(error.status, status, "status")
            expect(error.retryable, is_retryable, f"retryable, for status {status}")
            expect(error.retry_after_s, 7, "how long to wait")


def cut_short(speaker: Speaker) -> None:
    """A stream that ends before the model did says so, and what came stands."""
    frames = speaker.frames([Say("Hal"), Say("lo"), End()])
    said = [place for place, _ in enumerate(frames) if _text_of(speaker, frames[: place + 1])]
    require(bool(said), "no text after any of the events")
    heard = listen(speaker.wire, frames[: said[0] + 1])
    expect(type(heard.error), CutShort, "the error")
    expect(heard.has_ended, False, "that the turn ended")


def fed_after_end(speaker: Speaker) -> None:
    """A decoder that was closed takes no more, and closing it again does nothing."""
    decoder = speaker.wire.StreamDecoder()
    frames = speaker.frames([Say("Hi"), End()])
    for frame in frames:
        list(decoder.feed(frame))
    list(decoder.close())
    expect(list(decoder.close()), [], "events of a second close")
    try:
        list(decoder.feed(frames[0]))
    except Exception as exc:  # noqa: BLE001 - whatever it is, it is named
        expect(type(exc).__name__, "ProtocolError", "the error")
    else:
        raise Unmet("took more bytes after its end")


def _text_of(speaker: Speaker, frames: list[bytes]) -> str:
    events = listen(speaker.wire, frames).events
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def _expect_fault(error: Exception | None) -> None:
    require(isinstance(error, ProviderError), f"raised {type(error).__name__}, no ProviderError")
    assert isinstance(error, ProviderError)
    require("the engine died" in error.message, "the provider's explanation is lost")
    expect(error.status, 200, "status")
