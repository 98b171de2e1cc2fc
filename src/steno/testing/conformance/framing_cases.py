"""Cases about bytes: how they are cut, ended and escaped must change nothing."""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from steno.errors import CutShort, ProtocolError
from steno.messages.event import Event
from steno.messages.usage import StopReason, Usage
from steno.testing.case_results import CaseFailure, expect, require
from steno.testing.conformance.script_decoder import (
    MODEL,
    DecodedStream,
    decode_pieces,
    decode_script,
    expect_same_decoding,
    supported_lines,
    usage_if_supported,
)
from steno.testing.conformance.scripted_server import (
    CallFragment,
    KeepAlive,
    NotExpressible,
    ScriptedServer,
    ScriptLine,
    ServerFailure,
    TextPiece,
    ThinkingPiece,
    ThinkingSeal,
    TurnEnd,
    WholeCall,
)

_UNICODE_LINE_BREAKS: Final = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei"
_ESCAPES: Final = 'NUL \0, tab \t, quote ", slash \\ / , break \r\n, data: {"a": 1}\n\n, 😀 ü'
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_RANDOM_SPLITS: Final = 40


def _full_response_frames(speaker: ScriptedServer) -> list[bytes]:
    """Return an answer with as much in it as the protocol can say."""
    end = usage_if_supported(speaker, TurnEnd(StopReason.TOOL_USE, usage=_USAGE))
    return speaker.frames([*_full_response_script(speaker), end])


def _full_response_script(speaker: ScriptedServer) -> list[ScriptLine]:
    return supported_lines(
        speaker,
        [ThinkingPiece("Let me "), ThinkingPiece("see: ü.")],
        [ThinkingSeal("c2VhbA==")],
        [KeepAlive()],
        [TextPiece("Reading "), TextPiece("both 😀.\n")],
        [CallFragment(0, "a", "read", '{"path":'), CallFragment(0, None, None, '"ü.py"}')],
        [WholeCall("b", "write", '{"path":"y.py","n":[1,2.50]}')],
    )


# -- pieces ----------------------------------------------------------------------------------


def one_byte_chunks(speaker: ScriptedServer) -> None:
    """Bytes that come one at a time mean the same."""
    body = b"".join(_full_response_frames(speaker))
    pieces = (body[place : place + 1] for place in range(len(body)))
    _expect_same_as_whole(speaker, pieces, body, "byte by byte")


def any_chunking(speaker: ScriptedServer) -> None:
    """However the bytes are cut, events and errors are the same."""
    bodies = [b"".join(_full_response_frames(speaker))]
    with suppress(NotExpressible):
        bodies.append(
            b"".join(speaker.frames([TextPiece("Hallo"), ServerFailure("the engine died")]))
        )
    for body in [*bodies, bodies[0][:-40], bodies[0][:40] + b"\xff" + bodies[0][40:]]:
        for seed in range(_RANDOM_SPLITS):
            _expect_same_as_whole(
                speaker, _split_at_random(body, seed), body, f"cut at random (seed {seed})"
            )


def cut_at_every_byte(speaker: ScriptedServer) -> None:
    """Wherever the bytes end, what came before stands, and the end is told or missed."""
    frames = _full_response_frames(speaker)
    full = decode_pieces(speaker.wire, frames)
    require(full.error is None and full.has_ended, "the whole of it is not understood")
    said = b""
    for told, frame in zip(_events_before_each_frame(speaker, frames), frames, strict=True):
        for length in range(len(frame)):
            heard = decode_pieces(speaker.wire, [said + frame[:length]])
            _check_partial_stream(heard, told, full, f"after {len(said) + length} bytes")
        said += frame
    expect(type(decode_pieces(speaker.wire, []).error), CutShort, "the error of an empty stream")


def _events_before_each_frame(
    speaker: ScriptedServer, frames: list[bytes]
) -> list[tuple[Event, ...]]:
    """Return what was told for certain before each of the frames came."""
    decoder = speaker.wire.StreamDecoder(model=MODEL)
    told: list[tuple[Event, ...]] = [()]
    for frame in frames[:-1]:
        told.append((*told[-1], *decoder.feed(frame)))
    return told


def _check_partial_stream(
    heard: DecodedStream, told: tuple[Event, ...], full: DecodedStream, place: str
) -> None:
    """Refuse a part of an answer that lost something, or says what the whole does not say."""
    if heard.error is None:
        require(heard.has_ended, f"{place}: neither an end nor an error")
    elif not isinstance(heard.error, ProtocolError):
        raise CaseFailure(f"{place}: raised {type(heard.error).__name__}")
    require(heard.events[: len(told)] == told, f"{place}: lost what had come before")
    text = heard.message.text or ""
    require((full.message.text or "").startswith(text), f"{place}: other text than in the whole")
    require(len(heard.calls) <= len(full.calls), f"{place}: more calls than in the whole")
    for found, wanted in zip(heard.calls, full.calls, strict=False):
        is_beginning = wanted[2].startswith(found[2]) or found[2] == "{}"
        require(is_beginning, f"{place}: other arguments than in the whole")


# -- ends of lines ---------------------------------------------------------------------------


def crlf(speaker: ScriptedServer) -> None:
    """Lines may end in CRLF, even if it is cut in two."""
    body = b"".join(_full_response_frames(speaker))
    changed = body.replace(b"\n", b"\r\n")
    require(changed != body, "there are no lines in this protocol")
    wanted = decode_pieces(speaker.wire, [body])
    expect_same_decoding(decode_pieces(speaker.wire, [changed]), wanted, "with CRLF")
    halves = changed.replace(b"\r\n", b"\r\0\n").split(b"\0")
    expect_same_decoding(decode_pieces(speaker.wire, halves), wanted, "with CRLF cut in two")


def byte_order_mark(speaker: ScriptedServer) -> None:
    """A byte order mark in front is no part of the answer."""
    body = b"".join(_full_response_frames(speaker))
    marked = _BYTE_ORDER_MARK + body
    wanted = decode_pieces(speaker.wire, [body])
    expect_same_decoding(decode_pieces(speaker.wire, [marked]), wanted, "with a byte order mark")
    pieces = [marked[:1], marked[1:2], marked[2:]]
    expect_same_decoding(
        decode_pieces(speaker.wire, pieces), wanted, "with a byte order mark cut in pieces"
    )


def no_last_line_end(speaker: ScriptedServer) -> None:
    """The last line may lack its end."""
    body = b"".join(_full_response_frames(speaker))
    _expect_same_as_whole(speaker, [body.rstrip(b"\r\n")], body, "without the last line end")


def no_final_mark(speaker: ScriptedServer) -> None:
    """The protocol's own sign of the end may be missing, if the model said that it is done."""
    end = usage_if_supported(speaker, TurnEnd(usage=_USAGE))
    marked = decode_script(speaker, TextPiece("Hi"), end)
    bare = decode_script(speaker, TextPiece("Hi"), replace(end, has_end_marker=False))
    expect(bare.message, marked.message, "the message")


# -- characters ------------------------------------------------------------------------------


def unicode_line_separators(speaker: ScriptedServer) -> None:
    """Characters that some take for line ends are text like any other."""
    _expect_text(speaker, _UNICODE_LINE_BREAKS, _UNICODE_LINE_BREAKS)


def nul_and_escapes(speaker: ScriptedServer) -> None:
    """What JSON has to escape, and what looks like framing, comes out as it went in."""
    _expect_text(speaker, _ESCAPES, _ESCAPES)


def lone_surrogates(speaker: ScriptedServer) -> None:
    """Half a character is replaced, since nobody would take it back."""
    _expect_text(speaker, "a\ud83db", "a\ufffdb")


def split_surrogates(speaker: ScriptedServer) -> None:
    """A character that was cut in two halves, one in each event, is whole again."""
    heard = decode_script(speaker, TextPiece("a\ud83d"), TextPiece("\ude00b"), TurnEnd())
    expect(heard.message.text, "a😀b", "text")


def _expect_text(speaker: ScriptedServer, said: str, wanted: str) -> None:
    heard = decode_script(speaker, TextPiece(said), TextPiece("."), TurnEnd())
    expect(heard.message.text, f"{wanted}.", "text")


# -- cutting ---------------------------------------------------------------------------------

_USAGE: Final = Usage(input_tokens=100, output_tokens=20)


def _expect_same_as_whole(
    speaker: ScriptedServer, pieces: Iterable[bytes], body: bytes, how: str
) -> None:
    expect_same_decoding(
        decode_pieces(speaker.wire, pieces), decode_pieces(speaker.wire, [body]), how
    )


def _split_at_random(body: bytes, seed: int) -> list[bytes]:
    chance = random.Random(seed)  # noqa: S311 - the same cuts on every run
    count = chance.choice((1, 2, 5, 30))
    cuts = sorted(chance.randrange(len(body) + 1) for _ in range(count))
    return [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
