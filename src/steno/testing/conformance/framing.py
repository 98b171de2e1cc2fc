"""Cases about bytes: how they are cut, ended and escaped must change nothing."""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from steno.errors import CutShort, ProtocolError
from steno.event import Event
from steno.testing.conformance.hearing import (
    MODEL,
    Heard,
    Unmet,
    counted,
    expect,
    expect_same,
    hear,
    listen,
    require,
    sayable,
)
from steno.testing.conformance.script import (
    CallPart,
    End,
    Fail,
    KeepAlive,
    Line,
    Say,
    SealThinking,
    Think,
    WholeCall,
)
from steno.testing.conformance.speaker import CannotSay, Speaker
from steno.usage import StopReason, Usage

_ODD_BREAKS: Final = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei"
_ESCAPES: Final = 'NUL \0, tab \t, quote ", slash \\ / , break \r\n, data: {"a": 1}\n\n, 😀 ü'
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_CUTTINGS: Final = 40


def _rich(speaker: Speaker) -> list[bytes]:
    """Return an answer with as much in it as the protocol can say."""
    end = counted(speaker, End(StopReason.TOOL_USE, usage=_USAGE))
    return speaker.frames([*_rich_script(speaker), end])


def _rich_script(speaker: Speaker) -> list[Line]:
    return sayable(
        speaker,
        [Think("Let me "), Think("see: ü.")],
        [SealThinking("c2VhbA==")],
        [KeepAlive()],
        [Say("Reading "), Say("both 😀.\n")],
        [CallPart(0, "a", "read", '{"path":'), CallPart(0, None, None, '"ü.py"}')],
        [WholeCall("b", "write", '{"path":"y.py","n":[1,2.50]}')],
    )


# -- pieces ----------------------------------------------------------------------------------


def one_byte_chunks(speaker: Speaker) -> None:
    """Bytes that come one at a time mean the same."""
    body = b"".join(_rich(speaker))
    pieces = (body[place : place + 1] for place in range(len(body)))
    _expect_same(speaker, pieces, body, "byte by byte")


def any_chunking(speaker: Speaker) -> None:
    """However the bytes are cut, events and errors are the same."""
    bodies = [b"".join(_rich(speaker))]
    with suppress(CannotSay):
        bodies.append(b"".join(speaker.frames([Say("Hallo"), Fail("the engine died")])))
    for body in [*bodies, bodies[0][:-40], bodies[0][:40] + b"\xff" + bodies[0][40:]]:
        for seed in range(_CUTTINGS):
            _expect_same(speaker, _cut(body, seed), body, f"cut at random (seed {seed})")


def cut_at_every_byte(speaker: Speaker) -> None:
    """Wherever the bytes end, what came before stands, and the end is told or missed."""
    frames = _rich(speaker)
    full = listen(speaker.wire, frames)
    require(full.error is None and full.has_ended, "the whole of it is not understood")
    said = b""
    for told, frame in zip(_told_before_each(speaker, frames), frames, strict=True):
        for length in range(len(frame)):
            heard = listen(speaker.wire, [said + frame[:length]])
            _check_beginning(heard, told, full, f"after {len(said) + length} bytes")
        said += frame
    expect(type(listen(speaker.wire, []).error), CutShort, "the error of an empty stream")


def _told_before_each(speaker: Speaker, frames: list[bytes]) -> list[tuple[Event, ...]]:
    """Return what was told for certain before each of the frames came."""
    decoder = speaker.wire.StreamDecoder(model=MODEL)
    told: list[tuple[Event, ...]] = [()]
    for frame in frames[:-1]:
        told.append((*told[-1], *decoder.feed(frame)))
    return told


def _check_beginning(heard: Heard, told: tuple[Event, ...], full: Heard, place: str) -> None:
    """Refuse a part of an answer that lost something, or says what the whole does not say."""
    if heard.error is None:
        require(heard.has_ended, f"{place}: neither an end nor an error")
    elif not isinstance(heard.error, ProtocolError):
        raise Unmet(f"{place}: raised {type(heard.error).__name__}")
    require(heard.events[: len(told)] == told, f"{place}: lost what had come before")
    text = heard.message.text or ""
    require((full.message.text or "").startswith(text), f"{place}: other text than in the whole")
    require(len(heard.calls) <= len(full.calls), f"{place}: more calls than in the whole")
    for found, wanted in zip(heard.calls, full.calls, strict=False):
        is_beginning = wanted[2].startswith(found[2]) or found[2] == "{}"
        require(is_beginning, f"{place}: other arguments than in the whole")


# -- ends of lines ---------------------------------------------------------------------------


def crlf(speaker: Speaker) -> None:
    """Lines may end in CRLF, even if it is cut in two."""
    body = b"".join(_rich(speaker))
    changed = body.replace(b"\n", b"\r\n")
    require(changed != body, "there are no lines in this protocol")
    wanted = listen(speaker.wire, [body])
    expect_same(listen(speaker.wire, [changed]), wanted, "with CRLF")
    halves = changed.replace(b"\r\n", b"\r\0\n").split(b"\0")
    expect_same(listen(speaker.wire, halves), wanted, "with CRLF cut in two")


def byte_order_mark(speaker: Speaker) -> None:
    """A byte order mark in front is no part of the answer."""
    body = b"".join(_rich(speaker))
    marked = _BYTE_ORDER_MARK + body
    wanted = listen(speaker.wire, [body])
    expect_same(listen(speaker.wire, [marked]), wanted, "with a byte order mark")
    pieces = [marked[:1], marked[1:2], marked[2:]]
    expect_same(listen(speaker.wire, pieces), wanted, "with a byte order mark cut in pieces")


def no_last_line_end(speaker: Speaker) -> None:
    """The last line may lack its end."""
    body = b"".join(_rich(speaker))
    _expect_same(speaker, [body.rstrip(b"\r\n")], body, "without the last line end")


def no_final_mark(speaker: Speaker) -> None:
    """The protocol's own sign of the end may be missing, if the model said that it is done."""
    end = counted(speaker, End(usage=_USAGE))
    marked = hear(speaker, Say("Hi"), end)
    bare = hear(speaker, Say("Hi"), replace(end, has_end_marker=False))
    expect(bare.message, marked.message, "the message")


# -- characters ------------------------------------------------------------------------------


def unicode_line_separators(speaker: Speaker) -> None:
    """Characters that some take for line ends are text like any other."""
    _expect_text(speaker, _ODD_BREAKS, _ODD_BREAKS)


def nul_and_escapes(speaker: Speaker) -> None:
    """What JSON has to escape, and what looks like framing, comes out as it went in."""
    _expect_text(speaker, _ESCAPES, _ESCAPES)


def lone_surrogates(speaker: Speaker) -> None:
    """Half a character is replaced, since nobody would take it back."""
    _expect_text(speaker, "a\ud83db", "a\ufffdb")


def split_surrogates(speaker: Speaker) -> None:
    """A character that was cut in two halves, one in each event, is whole again."""
    heard = hear(speaker, Say("a\ud83d"), Say("\ude00b"), End())
    expect(heard.message.text, "a😀b", "text")


def _expect_text(speaker: Speaker, said: str, wanted: str) -> None:
    heard = hear(speaker, Say(said), Say("."), End())
    expect(heard.message.text, f"{wanted}.", "text")


# -- cutting ---------------------------------------------------------------------------------

_USAGE: Final = Usage(input_tokens=100, output_tokens=20)


def _expect_same(speaker: Speaker, pieces: Iterable[bytes], body: bytes, how: str) -> None:
    expect_same(listen(speaker.wire, pieces), listen(speaker.wire, [body]), how)


def _cut(body: bytes, seed: int) -> list[bytes]:
    chance = random.Random(seed)  # noqa: S311 - the same cuts on every run
    count = chance.choice((1, 2, 5, 30))
    cuts = sorted(chance.randrange(len(body) + 1) for _ in range(count))
    return [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
