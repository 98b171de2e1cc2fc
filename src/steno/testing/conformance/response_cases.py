"""Cases about the response that a wire decodes: text, tool calls, the end, errors, and bytes.

Servers vary in how they send ids, indexes, arguments and usage, and send members that no wire
knows. The message must be the same in every case, and no content may be lost. Chunks, line ends
and escapes must not change it either.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from steno.assemble import WireEvent
from steno.errors import CutShort, ProtocolError, ProviderError
from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall
from steno.messages.content import Opaque, Thinking
from steno.messages.event import Finished, TextDelta
from steno.messages.message import AssistantMessage
from steno.messages.request import Request
from steno.messages.usage import StopReason, Usage
from steno.testing.case_results import CaseFailure, expect, require
from steno.testing.conformance.request_cases import USER
from steno.testing.conformance.scripted_server import (
    MODEL,
    CallFragment,
    DecodedStream,
    KeepAlive,
    NotExpressible,
    RedactedThinking,
    Refusal,
    Script,
    ScriptedServer,
    ScriptLine,
    ServerFailure,
    TextPiece,
    ThinkingPiece,
    ThinkingSeal,
    TurnEnd,
    UnknownBlock,
    UnknownEvent,
    UnknownMember,
    UsageOnly,
    WholeCall,
    decode_pieces,
    decode_script,
    decode_script_or_error,
    expect_same_decoding,
    is_expressible,
    supported_lines,
    usage_if_supported,
)

_SEAL: Final = "c2VhbGVkLWJ5LXRoZS1raXQ="
_UNKNOWN_TOKEN: Final = "hologram-4711"  # noqa: S105 - text that no provider knows
_READ_CALL: Final = ("a", "read", '{"path":"x.py"}')
_WRITE_CALL: Final = ("b", "write", '{"path":"y.py","n":1.50}')
_BOTH_CALLS: Final = [_READ_CALL, _WRITE_CALL]
_TOOL_USE_END: Final = TurnEnd(StopReason.TOOL_USE)
_FRAGMENT_COUNT: Final = 2_000
_STOP_REASONS: Final = (
    StopReason.END_TURN,
    StopReason.LENGTH,
    StopReason.TOOL_USE,
    StopReason.CONTENT_FILTER,
    StopReason.PAUSE,
)
_PLAIN_USAGE: Final = Usage(input_tokens=100, output_tokens=20)
_DETAILED_USAGES: Final = (
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
"""Statuses, and whether a request may be retried after them."""
_UNICODE_LINE_BREAKS: Final = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei"
_ESCAPES: Final = 'NUL \0, tab \t, quote ", slash \\ / , break \r\n, data: {"a": 1}\n\n, 😀 ü'
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_RANDOM_SPLITS: Final = 40
_ERROR_BODIES: Final = (b"", b"<html>no</html>", b'{"error":{"message":"no"}}', b"\xff", b"[]")


# -- text, thinking and refusals ---------------------------------------------------------------


def text(server: ScriptedServer) -> None:
    """Text that arrives in pieces becomes one block."""
    decoded = decode_script(
        server, TextPiece("Hel"), TextPiece("lo"), TextPiece(", world"), TurnEnd()
    )
    _expect_only_text(decoded, "Hello, world")
    expect(decoded.message.stop_reason, StopReason.END_TURN, "stop reason")


def thinking(server: ScriptedServer) -> None:
    """Thinking is a separate block, before the text that follows it."""
    decoded = decode_script(
        server, ThinkingPiece("Let me"), ThinkingPiece(" see."), TextPiece("Four."), TurnEnd()
    )
    thought = _find_thinking(decoded)
    expect((thought.text, thought.redacted), ("Let me see.", False), "thinking")
    expect(decoded.message.text, "Four.", "text")
    expect(decoded.message.content[0], thought, "the first block")


def thinking_with_seal(server: ScriptedServer) -> None:
    """A seal belongs to the thinking it arrived with and names the model that made it."""
    decoded = decode_script(
        server, ThinkingPiece("Let me see."), ThinkingSeal(_SEAL), TextPiece("Four."), TurnEnd()
    )
    thought = _find_thinking(decoded)
    expect(thought.text, "Let me see.", "thinking")
    require(thought.seal is not None, "the thinking has no seal")
    assert thought.seal is not None
    require(_SEAL in thought.seal.data, "the seal does not contain the data of the server")
    expect((thought.seal.api, thought.seal.model), (server.wire.NAME, MODEL), "maker of the seal")
    expect(decoded.message.text, "Four.", "text")


def redacted_thinking(server: ScriptedServer) -> None:
    """Thinking of which the server sends only the seal is kept as thinking, with that seal."""
    decoded = decode_script(server, RedactedThinking(_SEAL), TextPiece("Four."), TurnEnd())
    thought = _find_thinking(decoded)
    expect(thought.text, "", "thinking")
    require(thought.seal is not None and _SEAL in thought.seal.data, "the seal is not kept")
    expect(decoded.message.text, "Four.", "text")


def refusal_or_filter(server: ScriptedServer) -> None:
    """A refusal has the stop reason `content_filter`, and its text is kept."""
    try:
        decoded = decode_script(server, Refusal("I will not."), TurnEnd())
        require(decoded.contains("I will not."), "the text of the refusal is not kept")
    except NotExpressible:
        decoded = decode_script(server, TextPiece("I w"), TurnEnd(StopReason.CONTENT_FILTER))
        expect(decoded.message.text, "I w", "text")
    expect(decoded.message.stop_reason, StopReason.CONTENT_FILTER, "stop reason")


def _expect_only_text(decoded: DecodedStream, wanted: str) -> None:
    expect(decoded.block_types, ["Text"], "types of blocks")
    expect(decoded.message.text, wanted, "text")


def _find_thinking(decoded: DecodedStream) -> Thinking:
    found = [block for block in decoded.message.content if isinstance(block, Thinking)]
    expect(len(found), 1, "number of Thinking blocks")
    return found[0]


# -- tool calls --------------------------------------------------------------------------------


def two_calls(server: ScriptedServer) -> None:
    """Two calls are decoded in order, each with its id, name and exact arguments."""
    decoded = decode_script(
        server, TextPiece("Both."), WholeCall(*_READ_CALL), WholeCall(*_WRITE_CALL), _TOOL_USE_END
    )
    expect(decoded.calls, _BOTH_CALLS, "calls")
    expect(decoded.block_types, ["Text", "ToolCall", "ToolCall"], "types of blocks")
    expect(decoded.message.stop_reason, StopReason.TOOL_USE, "stop reason")


def plain_stop_with_calls(server: ScriptedServer) -> None:
    """A turn with calls has the stop reason `tool_use`, even if the server reports a plain end."""
    # Ollama and Gemini have no other stop reason for it; some servers of OpenAI's protocol send it.
    decoded = decode_script(server, WholeCall(*_READ_CALL), TurnEnd(StopReason.END_TURN))
    expect(decoded.message.stop_reason, StopReason.TOOL_USE, "stop reason")


def interleaved_calls(server: ScriptedServer) -> None:
    """Fragments of two calls alternate; each is added to its own call."""
    _expect_calls(
        server,
        _BOTH_CALLS,
        (0, "a", "read", '{"path"'),
        (1, "b", "write", '{"path":'),
        (0, None, None, ":"),
        (1, None, None, '"y.py","n":'),
        (0, None, None, '"x.py"}'),
        (1, None, None, "1.50}"),
    )


def shared_index(server: ScriptedServer) -> None:
    """Two calls with the same index stay separate, by their ids."""
    # Ollama up to 0.20.4 sends the index 0 for every call.
    _expect_calls(
        server,
        _BOTH_CALLS,
        (0, "a", "read", '{"path":'),
        (0, None, None, '"x.py"}'),
        (0, "b", "write", '{"path":"y.py",'),
        (0, None, None, '"n":1.50}'),
    )


def missing_index(server: ScriptedServer) -> None:
    """Fragments without an index belong to the latest call."""
    # Google's OpenAI-compatible API and some proxies omit the index.
    _expect_calls(
        server,
        _BOTH_CALLS,
        (None, "a", "read", '{"path":'),
        (None, None, None, '"x.py"}'),
        (None, "b", "write", '{"path":"y.py",'),
        (None, None, None, '"n":1.50}'),
    )


def late_name(server: ScriptedServer) -> None:
    """The name of a call may arrive after its arguments, as SGLang sends it."""
    _expect_calls(server, [_READ_CALL], (0, "a", None, _READ_CALL[2]), (0, None, "read", None))


def late_id(server: ScriptedServer) -> None:
    """The id of a call may arrive after its first arguments."""
    begin, end = (0, None, "read", '{"path":'), (0, "a", None, '"x.py"}')
    _expect_calls(server, [_READ_CALL], begin, end)


def empty_ids(server: ScriptedServer) -> None:
    """An id or a name that is the empty string counts as missing."""
    begin, end = (0, "a", "read", '{"path":'), (0, "", "", '"x.py"}')
    _expect_calls(server, [_READ_CALL], begin, end)


def missing_ids(server: ScriptedServer) -> None:
    """Two calls without an id get different ids."""
    nameless = [WholeCall(None, name, arguments) for _, name, arguments in _BOTH_CALLS]
    decoded = decode_script(server, *nameless, _TOOL_USE_END)
    found = [WholeCall(None, name, arguments) for _, name, arguments in decoded.calls]
    expect(found, nameless, "names and arguments")
    require(len({call.id for call in decoded.message.tool_calls}) == 2, "the ids are the same")


def _expect_calls(
    server: ScriptedServer,
    wanted: Sequence[tuple[str, str, str]],
    *fragments: tuple[int | None, str | None, str | None, str | None],
) -> None:
    """Send fragments: index, id, name and arguments of each. Raises CaseFailure."""
    lines = [CallFragment(*fragment) for fragment in fragments]
    expect(decode_script(server, *lines, _TOOL_USE_END).calls, wanted, "calls")


# -- arguments ---------------------------------------------------------------------------------


def no_arguments(server: ScriptedServer) -> None:
    """A call without arguments is valid, with the arguments `{}`."""
    for arguments, call in _decode_each(server, "now", None, "", "{}"):
        require(isinstance(call, ToolCall), f"arguments {arguments!r} make the call invalid")
        expect((call.id, call.name, call.arguments), ("a", "now", "{}"), "the call")


def invalid_json_arguments(server: ScriptedServer) -> None:
    """Arguments that are not a JSON object make an invalid call that keeps their text."""
    for arguments, call in _decode_each(server, "read", '{"path":', "not JSON", "[1]"):
        require(isinstance(call, InvalidToolCall), f"arguments {arguments!r} are accepted as valid")
        expect((call.id, call.name, call.arguments), ("a", "read", arguments), "the call")


def many_fragments(server: ScriptedServer) -> None:
    """Arguments in thousands of fragments are joined without loss."""
    numbers = [f"{number} " for number in range(_FRAGMENT_COUNT)]
    rest = [(0, None, None, text) for text in (*numbers, '"}')]
    arguments = "".join(['{"text":"', *numbers, '"}'])
    _expect_calls(server, [("a", "write", arguments)], (0, "a", "write", '{"text":"'), *rest)


def _decode_each(
    server: ScriptedServer, name: str, *arguments: str | None
) -> Iterator[tuple[str | None, AnyToolCall]]:
    """Yield the call with each of the arguments that the protocol can express.

    It is sent as a fragment, or whole if the protocol has no fragments. Raises NotExpressible.
    """
    has_any = False
    for text in arguments:
        for line in (CallFragment(0, "a", name, text), WholeCall("a", name, text)):
            if is_expressible(server, line, _TOOL_USE_END):
                [call] = decode_script(server, line, _TOOL_USE_END).message.tool_calls
                yield text, call
                has_any = True
                break
    if not has_any:
        raise NotExpressible("any of these arguments")


# -- the end of a turn -------------------------------------------------------------------------


def stop_reasons(server: ScriptedServer) -> None:
    """Every stop reason of the protocol is mapped to ours."""
    for reason in _STOP_REASONS:
        content = WholeCall("a", "now") if reason is StopReason.TOOL_USE else TextPiece("Hi")
        if is_expressible(server, content, TurnEnd(reason)):
            decoded = decode_script(server, content, TurnEnd(reason))
            expect(decoded.message.stop_reason, reason, "stop reason")


def unknown_stop_reason(server: ScriptedServer) -> None:
    """An unknown stop reason is mapped to `unknown`, and the provider's name for it is kept."""
    decoded = decode_script(server, TextPiece("Hi"), TurnEnd(raw="by_the_moon"))
    expect(decoded.message.stop_reason, StopReason.UNKNOWN, "stop reason")
    expect(decoded.message.raw_stop_reason, "by_the_moon", "raw stop reason")


def usage(server: ScriptedServer) -> None:
    """The message has the token counts."""
    decoded = decode_script(server, TextPiece("Hi"), TurnEnd(usage=_PLAIN_USAGE))
    found = decoded.message.usage
    require(found is not None, "the message has no usage")
    assert found is not None
    expect((found.input_tokens, found.output_tokens), (100, 20), "input and output tokens")


def usage_totals(server: ScriptedServer) -> None:
    """Totals include cached and thinking tokens, however the provider counts them."""
    for full in _DETAILED_USAGES:
        script = (TextPiece("Hi"), TurnEnd(usage=full))
        if is_expressible(server, *script):
            expect(decode_script(server, *script).message.usage, full, "usage")
            return
    raise NotExpressible("cache or thinking tokens")


def usage_after_end(server: ScriptedServer) -> None:
    """Token counts may arrive after the end, in a separate event."""
    decoded = decode_script(server, TextPiece("Hi"), TurnEnd(), UsageOnly(_PLAIN_USAGE))
    expect(decoded.message.usage, _PLAIN_USAGE, "usage")
    expect(decoded.message.stop_reason, StopReason.END_TURN, "stop reason")


def one_finished_event(server: ScriptedServer) -> None:
    """There is one `Finished`, and it is the last event."""
    events = decode_script(
        server, TextPiece("Hi"), usage_if_supported(server, TurnEnd(usage=_PLAIN_USAGE))
    ).events
    ends = [place for place, event in enumerate(events) if isinstance(event, Finished)]
    expect(ends, [len(events) - 1], "positions of Finished")


# -- errors ------------------------------------------------------------------------------------


def error_after_200(server: ScriptedServer) -> None:
    """An error inside a response with status 200 is raised, with the provider's message."""
    decoded = decode_script_or_error(server, ServerFailure("the engine died"))
    _expect_provider_error(decoded.error)
    expect(decoded.events, (), "events")


def events_before_error_kept(server: ScriptedServer) -> None:
    """Events before an error are returned before it is raised, even if they arrive together."""
    failure = ServerFailure("the engine died")
    decoded = decode_script_or_error(server, TextPiece("Hal"), TextPiece("lo"), failure)
    _expect_provider_error(decoded.error)
    expect(decoded.message.text, "Hallo", "text")
    expect(decoded.has_ended, False, "whether the turn ended")
    fragment = CallFragment(0, "a", "read", '{"path')
    if is_expressible(server, fragment, failure):
        decoded = decode_script_or_error(server, fragment, failure)
        expect(decoded.calls, [("a", "read", '{"path')], "calls")


def error_status(server: ScriptedServer) -> None:
    """An error status becomes an error that states whether the request may be retried."""
    for status, is_retryable in _STATUSES.items():
        for body in _ERROR_BODIES:
            error = server.wire.decode_error(status, body, {"retry-after": "7"})
            require(isinstance(error, ProviderError), f"status {status} is not a ProviderError")
            expect(error.status, status, "status")
            expect(error.retryable, is_retryable, f"retryable, for status {status}")
            expect(error.retry_after_s, 7, "retry_after_s")


def cut_short(server: ScriptedServer) -> None:
    """A stream that ends too early raises CutShort, after the events before the cut."""
    frames = server.frames([TextPiece("Hal"), TextPiece("lo"), TurnEnd()])
    for count in range(1, len(frames) + 1):
        decoded = decode_pieces(server.wire, frames[:count])
        if any(isinstance(event, TextDelta) and event.text for event in decoded.events):
            expect(type(decoded.error), CutShort, "the error")
            expect(decoded.has_ended, False, "whether the turn ended")
            return
    raise CaseFailure("no part of the stream is decoded to text")


def feed_after_close(server: ScriptedServer) -> None:
    """A closed decoder refuses more bytes, and closing it again has no effect."""
    decoder = server.wire.StreamDecoder()
    frames = server.frames([TextPiece("Hi"), TurnEnd()])
    for frame in frames:
        list(decoder.feed(frame))
    list(decoder.close())
    expect(list(decoder.close()), [], "events of a second close")
    try:
        list(decoder.feed(frames[0]))
    except Exception as exc:  # noqa: BLE001 - the case reports any error
        expect(type(exc).__name__, "ProtocolError", "the error")
    else:
        raise CaseFailure("feed() accepted bytes after close()")


def _expect_provider_error(error: Exception | None) -> None:
    require(isinstance(error, ProviderError), f"raised {type(error).__name__}, not ProviderError")
    assert isinstance(error, ProviderError)
    require("the engine died" in error.message, "the error lacks the provider's message")
    expect(error.status, 200, "status")


# -- unknown events, members and blocks --------------------------------------------------------


def unknown_event(server: ScriptedServer) -> None:
    """An event of an unknown type is kept and changes no other content."""
    _expect_unknown_kept(server, UnknownEvent(_UNKNOWN_TOKEN))


def unknown_member(server: ScriptedServer) -> None:
    """An unknown member is kept and changes no other content."""
    _expect_unknown_kept(server, UnknownMember(_UNKNOWN_TOKEN))


def unknown_block(server: ScriptedServer) -> None:
    """A block of an unknown type is kept at its position and sent back to its provider."""
    decoded = decode_script(server, TextPiece("Look:"), UnknownBlock(_UNKNOWN_TOKEN), TurnEnd())
    expect(decoded.message.text, "Look:", "text")
    expect(decoded.block_types, ["Text", "Opaque"], "types of blocks")
    opaque = decoded.message.content[1]
    assert isinstance(opaque, Opaque)
    expect(opaque.origin, server.wire.NAME, "origin of the block")
    require(_UNKNOWN_TOKEN in opaque.raw, "the block does not contain the data of the server")
    answer = AssistantMessage(content=decoded.message.content)
    body = server.wire.encode_request(Request(model=MODEL, messages=(USER, answer, USER))).body
    require(_UNKNOWN_TOKEN.encode() in body, "the block is not sent back")


def keep_alive(server: ScriptedServer) -> None:
    """Keep-alive events are not decoded to events."""
    decoded = decode_script(
        server, KeepAlive(), TextPiece("Hel"), KeepAlive(), TextPiece("lo"), KeepAlive(), TurnEnd()
    )
    _expect_only_text(decoded, "Hello")
    quiet = decode_script(server, TextPiece("Hel"), TextPiece("lo"), TurnEnd())
    expect(decoded.events, quiet.events, "events")


def _expect_unknown_kept(server: ScriptedServer, unknown: ScriptLine) -> None:
    decoded = decode_script(server, TextPiece("Hel"), unknown, TextPiece("lo"), TurnEnd())
    expect(decoded.message.text, "Hello", "text")
    is_kept = decoded.contains(_UNKNOWN_TOKEN)
    require(is_kept, "the unknown data is neither in the message nor in the envelope")


# -- chunks ------------------------------------------------------------------------------------


def one_byte_chunks(server: ScriptedServer) -> None:
    """Bytes that arrive one at a time are decoded to the same events."""
    body = b"".join(_full_response_frames(server))
    pieces = (body[place : place + 1] for place in range(len(body)))
    _expect_same_as_whole(server, pieces, body, "byte by byte")


def any_chunking(server: ScriptedServer) -> None:
    """Events and errors are the same however the bytes are cut."""
    full = b"".join(_full_response_frames(server))
    bodies = [full, full[:-40], full[:40] + b"\xff" + full[40:]]
    failing: Script = [TextPiece("Hallo"), ServerFailure("the engine died")]
    if is_expressible(server, *failing):
        bodies.append(b"".join(server.frames(failing)))
    for body in bodies:
        for seed in range(_RANDOM_SPLITS):
            pieces = _split_at_random(body, seed)
            _expect_same_as_whole(server, pieces, body, f"cut at random (seed {seed})")


def cut_at_every_byte(server: ScriptedServer) -> None:
    """Wherever the bytes end, earlier events are kept, and the result is an end or an error."""
    frames = _full_response_frames(server)
    full = decode_pieces(server.wire, frames)
    require(full.error is None and full.has_ended, "the complete stream is not decoded")
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
    """Return the events that were decoded before each frame."""
    decoder = server.wire.StreamDecoder(model=MODEL)
    decoded: list[tuple[WireEvent, ...]] = [()]
    for frame in frames[:-1]:
        decoded.append((*decoded[-1], *decoder.feed(frame)))
    return decoded


def _check_partial_stream(
    decoded: DecodedStream, earlier: tuple[WireEvent, ...], full: DecodedStream, place: str
) -> None:
    """Raise CaseFailure if a partial response lacks events or differs from the whole response."""
    if decoded.error is None:
        require(decoded.has_ended, f"{place}: neither an end nor an error")
    elif not isinstance(decoded.error, ProtocolError):
        raise CaseFailure(f"{place}: raised {type(decoded.error).__name__}")
    require(decoded.events[: len(earlier)] == earlier, f"{place}: earlier events are lost")
    text = decoded.message.text or ""
    is_prefix = (full.message.text or "").startswith(text)
    require(is_prefix, f"{place}: text differs from the whole response")
    require(len(decoded.calls) <= len(full.calls), f"{place}: more calls than the whole response")
    for found, wanted in zip(decoded.calls, full.calls, strict=False):
        is_beginning = wanted[2].startswith(found[2]) or found[2] == "{}"
        require(is_beginning, f"{place}: arguments differ from the whole response")


# -- line ends and marks -----------------------------------------------------------------------


def crlf(server: ScriptedServer) -> None:
    """Lines may end in CRLF, even if it is split over two chunks."""
    body = b"".join(_full_response_frames(server))
    changed = body.replace(b"\n", b"\r\n")
    require(changed != body, "the frames of this server contain no line feed")
    _expect_same_as_whole(server, [changed], body, "with CRLF")
    halves = changed.replace(b"\r\n", b"\r\0\n").split(b"\0")
    _expect_same_as_whole(server, halves, body, "with CRLF cut in two")


def byte_order_mark(server: ScriptedServer) -> None:
    """A byte order mark at the start is not part of the response."""
    body = b"".join(_full_response_frames(server))
    marked = _BYTE_ORDER_MARK + body
    _expect_same_as_whole(server, [marked], body, "with a byte order mark")
    pieces = [marked[:1], marked[1:2], marked[2:]]
    _expect_same_as_whole(server, pieces, body, "with a byte order mark cut in pieces")


def missing_final_newline(server: ScriptedServer) -> None:
    """The last line may lack its line end."""
    body = b"".join(_full_response_frames(server))
    _expect_same_as_whole(server, [body.rstrip(b"\r\n")], body, "without the last line end")


def missing_end_marker(server: ScriptedServer) -> None:
    """The end marker of the protocol may be missing if the stop reason has arrived."""
    end = usage_if_supported(server, TurnEnd(usage=_PLAIN_USAGE))
    marked = decode_script(server, TextPiece("Hi"), end)
    bare = decode_script(server, TextPiece("Hi"), replace(end, has_end_marker=False))
    expect(bare.message, marked.message, "the message")


# -- characters --------------------------------------------------------------------------------


def unicode_line_separators(server: ScriptedServer) -> None:
    """Unicode line separators inside a text do not end a line."""
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


# -- a response with everything ------------------------------------------------------------------


def _full_response_frames(server: ScriptedServer) -> list[bytes]:
    """Return a response with all kinds of content that the protocol can express."""
    script = supported_lines(
        server,
        [ThinkingPiece("Let me "), ThinkingPiece("see: ü.")],
        [ThinkingSeal("c2VhbA==")],
        [KeepAlive()],
        [TextPiece("Reading "), TextPiece("both 😀.\n")],
        [CallFragment(0, "a", "read", '{"path":'), CallFragment(0, None, None, '"ü.py"}')],
        [WholeCall("b", "write", '{"path":"y.py","n":[1,2.50]}')],
    )
    end = usage_if_supported(server, TurnEnd(StopReason.TOOL_USE, usage=_PLAIN_USAGE))
    return server.frames([*script, end])


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
