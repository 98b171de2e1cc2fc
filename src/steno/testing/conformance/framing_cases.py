"""Cases about bytes: chunks, line ends and escapes must not change the decoded response."""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from steno.assemble import WireEvent
from steno.errors import CutShort, ProtocolError
from steno.messages.usage import StopReason, Usage
from steno.testing.case_results import CaseFailure, expect, require
from steno.testing.conformance.scripted_server import (
    MODEL,
    CallFragment,
    DecodedStream,
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
    decode_pieces,
    decode_script,
    expect_same_decoding,
    supported_lines,
    usage_if_supported,
)

_UNICODE_LINE_BREAKS: Final = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei"
_ESCAPES: Final = 'NUL \0, tab \t, quote ", slash \\ / , break \r\n, data: {"a": 1}\n\n, 😀 ü'
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_RANDOM_SPLITS: Final = 40
_USAGE: Final = Usage(input_tokens=100, output_tokens=20)


# -- chunks ------------------------------------------------------------------------------------


def one_byte_chunks(server: ScriptedServer) -> None:
    """Bytes that arrive one at a time are decoded to the same events."""
    body = b"".join(_full_response_frames(server))
    pieces = (body[place : place + 1] for place in range(len(body)))
    _expect_same_as_whole(server, pieces, body, "byte by byte")


def any_chunking(server: ScriptedServer) -> None:
    """Events and errors are the same however the bytes are cut."""
    bodies = [b"".join(_full_response_frames(server))]
    with suppress(NotExpressible):
        bodies.append(
            b"".join(server.frames([TextPiece("Hallo"), ServerFailure("the engine died")]))
        )
    for body in [*bodies, bodies[0][:-40], bodies[0][:40] + b"\xff" + bodies[0][40:]]:
        for seed in range(_RANDOM_SPLITS):
            _expect_same_as_whole(
                server, _split_at_random(body, seed), body, f"cut at random (seed {seed})"
            )


def cut_at_every_byte(server: ScriptedServer) -> None:
    """Wherever the bytes end, events before stay, and the result is an end or an error."""
    frames = _full_response_frames(server)
    full = decode_pieces(server.wire, frames)
    require(full.error is None and full.has_ended, "the whole of it is not understood")
    received = b""
    for earlier, frame in zip(_events_before_each_frame(server, frames), frames, strict=True):
        for length in range(len(frame)):
            decoded = decode_pieces(server.wire, [received + frame[:length]])
            _check_partial_stream(decoded, earlier, full, f"after {len(received) + length} bytes")
        received += frame
    expect(type(decode_pieces(server.wire, []).error), CutShort, "the error of an empty stream")


def _events_before_each_frame(
    server: ScriptedServer, frames: list[bytes]
) -> list[tuple[WireEvent, ...]]:
    """Return the events that were decoded before each of the frames."""
    decoder = server.wire.StreamDecoder(model=MODEL)
    decoded: list[tuple[WireEvent, ...]] = [()]
    for frame in frames[:-1]:
        decoded.append((*decoded[-1], *decoder.feed(frame)))
    return decoded


def _check_partial_stream(
    decoded: DecodedStream, earlier: tuple[WireEvent, ...], full: DecodedStream, place: str
) -> None:
    """Raise CaseFailure if a part of a response lost events or has other content than the whole."""
    if decoded.error is None:
        require(decoded.has_ended, f"{place}: neither an end nor an error")
    elif not isinstance(decoded.error, ProtocolError):
        raise CaseFailure(f"{place}: raised {type(decoded.error).__name__}")
    require(decoded.events[: len(earlier)] == earlier, f"{place}: lost what had come before")
    text = decoded.message.text or ""
    require((full.message.text or "").startswith(text), f"{place}: other text than in the whole")
    require(len(decoded.calls) <= len(full.calls), f"{place}: more calls than in the whole")
    for found, wanted in zip(decoded.calls, full.calls, strict=False):
        is_beginning = wanted[2].startswith(found[2]) or found[2] == "{}"
        require(is_beginning, f"{place}: other arguments than in the whole")


# -- line ends and marks -----------------------------------------------------------------------


def crlf(server: ScriptedServer) -> None:
    """Lines may end in CRLF, even if it is cut in two."""
    body = b"".join(_full_response_frames(server))
    changed = body.replace(b"\n", b"\r\n")
    require(changed != body, "there are no lines in this protocol")
    expected = decode_pieces(server.wire, [body])
    expect_same_decoding(decode_pieces(server.wire, [changed]), expected, "with CRLF")
    halves = changed.replace(b"\r\n", b"\r\0\n").split(b"\0")
    expect_same_decoding(decode_pieces(server.wire, halves), expected, "with CRLF cut in two")


def byte_order_mark(server: ScriptedServer) -> None:
    """A byte order mark at the start is not part of the response."""
    body = b"".join(_full_response_frames(server))
    marked = _BYTE_ORDER_MARK + body
    expected = decode_pieces(server.wire, [body])
    expect_same_decoding(decode_pieces(server.wire, [marked]), expected, "with a byte order mark")
    pieces = [marked[:1], marked[1:2], marked[2:]]
    expect_same_decoding(
        decode_pieces(server.wire, pieces), expected, "with a byte order mark cut in pieces"
    )


def no_last_line_end(server: ScriptedServer) -> None:
    """The last line may lack its end."""
    body = b"".join(_full_response_frames(server))
    _expect_same_as_whole(server, [body.rstrip(b"\r\n")], body, "without the last line end")


def no_final_mark(server: ScriptedServer) -> None:
    """The protocol's own end marker may be missing if the stop reason has arrived."""
    end = usage_if_supported(server, TurnEnd(usage=_USAGE))
    marked = decode_script(server, TextPiece("Hi"), end)
    bare = decode_script(server, TextPiece("Hi"), replace(end, has_end_marker=False))
    expect(bare.message, marked.message, "the message")


# -- characters --------------------------------------------------------------------------------


def unicode_line_separators(server: ScriptedServer) -> None:
    """Unicode line separators are text like any other."""
    _expect_text(server, _UNICODE_LINE_BREAKS, _UNICODE_LINE_BREAKS)


def nul_and_escapes(server: ScriptedServer) -> None:
    """Characters that JSON escapes, and text that looks like framing, are decoded unchanged."""
    _expect_text(server, _ESCAPES, _ESCAPES)


def lone_surrogates(server: ScriptedServer) -> None:
    """A lone surrogate is replaced, since no provider accepts it in a request."""
    _expect_text(server, "a\ud83db", "a\ufffdb")


def split_surrogates(server: ScriptedServer) -> None:
    """A surrogate pair that is split over two events is joined."""
    decoded = decode_script(server, TextPiece("a\ud83d"), TextPiece("\ude00b"), TurnEnd())
    expect(decoded.message.text, "a😀b", "text")


def _expect_text(server: ScriptedServer, sent: str, wanted: str) -> None:
    decoded = decode_script(server, TextPiece(sent), TextPiece("."), TurnEnd())
    expect(decoded.message.text, f"{wanted}.", "text")


# -- helpers -----------------------------------------------------------------------------------


def _full_response_frames(server: ScriptedServer) -> list[bytes]:
    """Return a response with everything that the protocol can express."""
    end = usage_if_supported(server, TurnEnd(StopReason.TOOL_USE, usage=_USAGE))
    return server.frames([*_full_response_script(server), end])


def _full_response_script(server: ScriptedServer) -> list[ScriptLine]:
    return supported_lines(
        server,
        [ThinkingPiece("Let me "), ThinkingPiece("see: ü.")],
        [ThinkingSeal("c2VhbA==")],
        [KeepAlive()],
        [TextPiece("Reading "), TextPiece("both 😀.\n")],
        [CallFragment(0, "a", "read", '{"path":'), CallFragment(0, None, None, '"ü.py"}')],
        [WholeCall("b", "write", '{"path":"y.py","n":[1,2.50]}')],
    )


def _expect_same_as_whole(
    server: ScriptedServer, pieces: Iterable[bytes], body: bytes, how: str
) -> None:
    expect_same_decoding(
        decode_pieces(server.wire, pieces), decode_pieces(server.wire, [body]), how
    )


def _split_at_random(body: bytes, seed: int) -> list[bytes]:
    chance = random.Random(seed)  # noqa: S311 - the same cuts on every run
    count = chance.choice((1, 2, 5, 30))
    cuts = sorted(chance.randrange(len(body) + 1) for _ in range(count))
    return [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
