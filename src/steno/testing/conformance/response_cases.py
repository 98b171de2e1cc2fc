"""Cases about the responses that a wire decodes: text, tool calls, the end, errors, and bytes.

Servers send ids, indexes, arguments and usage in different ways, and add members that no wire
knows. The decoded message must be the same for all of them, and no content may be lost. Chunk
boundaries, line ends and escapes must not change the message either.
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
"""HTTP statuses, each with whether the request may be retried."""
_UNICODE_LINE_BREAKS: Final = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei"
_ESCAPES: Final = 'NUL \0, tab \t, quote ", slash \\ / , break \r\n, data: {"a": 1}\n\n, 😀 ü'
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_RANDOM_SPLITS: Final = 40
_ERROR_BODIES: Final = (b"", b"<html>no</html>", b'{"error":{"message":"no"}}', b"\xff", b"[]")


# -- text, thinking and refusals ---------------------------------------------------------------


def text(server: ScriptedServer) -> None:
    """Check that text in several pieces is decoded to one block."""
    decoded = decode_script(
        server, TextPiece("Hel"), TextPiece("lo"), TextPiece(", world"), TurnEnd()
    )
    _expect_only_text(decoded, "Hello, world")
    expect(decoded.message.stop_reason, StopReason.END_TURN, "stop reason")


def thinking(server: ScriptedServer) -> None:
    """Check that thinking is decoded to a separate block before the text."""
    decoded = decode_script(
        server, ThinkingPiece("Let me"), ThinkingPiece(" see."), TextPiece("Four."), TurnEnd()
    )
    thought = _find_thinking(decoded)
    expect((thought.text, thought.redacted), ("Let me see.", False), "thinking")
    expect(decoded.message.text, "Four.", "text")
    expect(decoded.message.content[0], thought, "the first block")


def thinking_with_seal(server: ScriptedServer) -> None:
    """Check that a seal is stored with its thinking and names the wire and the model."""
    decoded = decode_script(
        server, ThinkingPiece("Let me see."), ThinkingSeal(_SEAL), TextPiece("Four."), TurnEnd()
    )
    thought = _find_thinking(decoded)
    expect(thought.text, "Let me see.", "thinking")
    require(thought.seal is not None, "the thinking has no seal")
    assert thought.seal is not None
    require(_SEAL in thought.seal.data, "the seal does not contain the data of the server")
    expect((thought.seal.api, thought.seal.model), (server.wire.NAME, MODEL), "origin of the seal")
    expect(decoded.message.text, "Four.", "text")


def redacted_thinking(server: ScriptedServer) -> None:
    """Check that thinking without text is decoded to a thinking block with its seal."""
    decoded = decode_script(server, RedactedThinking(_SEAL), TextPiece("Four."), TurnEnd())
    thought = _find_thinking(decoded)
    expect(thought.text, "", "thinking")
    require(thought.seal is not None and _SEAL in thought.seal.data, "the seal is lost")
    expect(decoded.message.text, "Four.", "text")


def refusal_or_filter(server: ScriptedServer) -> None:
    """Check that a refusal has the stop reason `content_filter`, and that its text is preserved."""
    try:
        decoded = decode_script(server, Refusal("I will not."), TurnEnd())
        require(decoded.contains("I will not."), "the text of the refusal is lost")
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
    """Check that two calls are decoded in order, each with its id, name and exact arguments."""
    decoded = decode_script(
        server, TextPiece("Both."), WholeCall(*_READ_CALL), WholeCall(*_WRITE_CALL), _TOOL_USE_END
    )
    expect(decoded.calls, _BOTH_CALLS, "calls")
    expect(decoded.block_types, ["Text", "ToolCall", "ToolCall"], "types of blocks")
    expect(decoded.message.stop_reason, StopReason.TOOL_USE, "stop reason")


def plain_stop_with_calls(server: ScriptedServer) -> None:
    """Check that a turn with calls has the stop reason `tool_use` despite a plain stop."""
    # Ollama and Gemini have only the plain stop, and some OpenAI-compatible servers send it, too.
    decoded = decode_script(server, WholeCall(*_READ_CALL), TurnEnd(StopReason.END_TURN))
    expect(decoded.message.stop_reason, StopReason.TOOL_USE, "stop reason")


def interleaved_calls(server: ScriptedServer) -> None:
    """Check that the interleaved fragments of two calls are added to the right call."""
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
    """Check that two calls with the same index but different ids stay separate."""
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
    """Check that fragments without an index are added to the latest call."""
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
    """Check that the name of a call may arrive after its arguments, as from SGLang."""
    _expect_calls(server, [_READ_CALL], (0, "a", None, _READ_CALL[2]), (0, None, "read", None))


def late_id(server: ScriptedServer) -> None:
    """Check that the id of a call may arrive after the first fragment of its arguments."""
    begin, end = (0, None, "read", '{"path":'), (0, "a", None, '"x.py"}')
    _expect_calls(server, [_READ_CALL], begin, end)


def empty_ids(server: ScriptedServer) -> None:
    """Check that an empty id or name is treated as missing."""
    begin, end = (0, "a", "read", '{"path":'), (0, "", "", '"x.py"}')
    _expect_calls(server, [_READ_CALL], begin, end)


def missing_ids(server: ScriptedServer) -> None:
    """Check that two calls without ids are given different ids."""
    nameless = [WholeCall(None, name, arguments) for _, name, arguments in _BOTH_CALLS]
    decoded = decode_script(server, *nameless, _TOOL_USE_END)
    found = [WholeCall(None, name, arguments) for _, name, arguments in decoded.calls]
    expect(found, nameless, "names and arguments")
    require(len({call.id for call in decoded.message.tool_calls}) == 2, "the ids are the same")


def repeated_ids(server: ScriptedServer) -> None:
    """Check that two calls with the same id stay separate, and that the second gets another id."""
    first, second = _READ_CALL[2], _WRITE_CALL[2]
    scripts: tuple[Script, ...] = (
        (WholeCall("a", "read", first), WholeCall("a", "write", second)),
        (WholeCall("a", "read", first), WholeCall("a", "read", second)),
        (CallFragment(0, "a", "read", first), CallFragment(1, "a", "read", second)),
        (
            *(CallFragment(0, "a", "read", ""), CallFragment(1, "a", "write", "")),
            *(CallFragment(0, None, None, first), CallFragment(1, None, None, second)),
        ),
        (
            *(CallFragment(0, "a", "read", first), CallFragment(1, None, "write", "")),
            CallFragment(1, "a", None, second),
        ),
    )
    sent = [script for script in scripts if is_expressible(server, *script, _TOOL_USE_END)]
    if not sent:
        raise NotExpressible("two calls with the same id")
    for script in sent:
        calls = decode_script(server, *script, _TOOL_USE_END).message.tool_calls
        lines = [line for line in script if isinstance(line, CallFragment | WholeCall)]
        names = [line.name for line in lines if line.name is not None]
        wanted = list(zip(names, (first, second), strict=False))
        expect([(call.name, call.arguments) for call in calls], wanted, "names and arguments")
        expect([call.id == "a" for call in calls], [True, False], "which calls have the id")


def _expect_calls(
    server: ScriptedServer,
    wanted: Sequence[tuple[str, str, str]],
    *fragments: tuple[int | None, str | None, str | None, str | None],
) -> None:
    """Raise CaseFailure unless the fragments are decoded to the wanted calls.

    A fragment is a tuple of index, id, name and arguments.
    """
    lines = [CallFragment(*fragment) for fragment in fragments]
    expect(decode_script(server, *lines, _TOOL_USE_END).calls, wanted, "calls")


# -- arguments ---------------------------------------------------------------------------------


def no_arguments(server: ScriptedServer) -> None:
    """Check that a call without arguments is valid and has the arguments `{}`."""
    for arguments, call in _decode_each(server, "now", None, "", "{}"):
        require(isinstance(call, ToolCall), f"arguments {arguments!r} make the call invalid")
        expect((call.id, call.name, call.arguments), ("a", "now", "{}"), "the call")


def invalid_json_arguments(server: ScriptedServer) -> None:
    """Check that arguments that are not a JSON object become an invalid call with their text."""
    for arguments, call in _decode_each(server, "read", '{"path":', "not JSON", "[1]"):
        require(isinstance(call, InvalidToolCall), f"arguments {arguments!r} are accepted as valid")
        expect((call.id, call.name, call.arguments), ("a", "read", arguments), "the call")


def many_fragments(server: ScriptedServer) -> None:
    """Check that arguments in thousands of fragments are joined without loss."""
    numbers = [f"{number} " for number in range(_FRAGMENT_COUNT)]
    rest = [(0, None, None, text) for text in (*numbers, '"}')]
    arguments = "".join(['{"text":"', *numbers, '"}'])
    _expect_calls(server, [("a", "write", arguments)], (0, "a", "write", '{"text":"'), *rest)


def _decode_each(
    server: ScriptedServer, name: str, *arguments: str | None
) -> Iterator[tuple[str | None, AnyToolCall]]:
    """Yield the decoded call for each of the arguments that the protocol can express.

    The call is sent as a fragment, or whole if the protocol has no fragments.
    Raises NotExpressible if the protocol can express none of the arguments.
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
    """Check that every stop reason of the protocol is mapped to the `StopReason` of steno."""
    for reason in _STOP_REASONS:
        content = WholeCall("a", "now") if reason is StopReason.TOOL_USE else TextPiece("Hi")
        if is_expressible(server, content, TurnEnd(reason)):
            decoded = decode_script(server, content, TurnEnd(reason))
            expect(decoded.message.stop_reason, reason, "stop reason")


def unknown_stop_reason(server: ScriptedServer) -> None:
    """Check that an unknown stop reason is mapped to `unknown` and preserved as raw stop reason."""
    decoded = decode_script(server, TextPiece("Hi"), TurnEnd(raw="by_the_moon"))
    expect(decoded.message.stop_reason, StopReason.UNKNOWN, "stop reason")
    expect(decoded.message.raw_stop_reason, "by_the_moon", "raw stop reason")


def usage(server: ScriptedServer) -> None:
    """Check that the message has the input and output token counts."""
    decoded = decode_script(server, TextPiece("Hi"), TurnEnd(usage=_PLAIN_USAGE))
    found = decoded.message.usage
    require(found is not None, "the message has no usage")
    assert found is not None
    expect((found.input_tokens, found.output_tokens), (100, 20), "input and output tokens")


def usage_totals(server: ScriptedServer) -> None:
    """Check that totals include cached and thinking tokens, however the provider counts them."""
    for full in _DETAILED_USAGES:
        script = (TextPiece("Hi"), TurnEnd(usage=full))
        if is_expressible(server, *script):
            expect(decode_script(server, *script).message.usage, full, "usage")
            return
    raise NotExpressible("cache or thinking tokens")


def usage_after_end(server: ScriptedServer) -> None:
    """Check that token counts may arrive in a separate event after the stop reason."""
    decoded = decode_script(server, TextPiece("Hi"), TurnEnd(), UsageOnly(_PLAIN_USAGE))
    expect(decoded.message.usage, _PLAIN_USAGE, "usage")
    expect(decoded.message.stop_reason, StopReason.END_TURN, "stop reason")


def one_finished_event(server: ScriptedServer) -> None:
    """Check that exactly one `Finished` is decoded, and that it is the last event."""
    events = decode_script(
        server, TextPiece("Hi"), usage_if_supported(server, TurnEnd(usage=_PLAIN_USAGE))
    ).events
    ends = [place for place, event in enumerate(events) if isinstance(event, Finished)]
    expect(ends, [len(events) - 1], "positions of Finished")


# -- errors ------------------------------------------------------------------------------------


def error_after_200(server: ScriptedServer) -> None:
    """Check that an error inside a response with status 200 is raised with its message."""
    decoded = decode_script_or_error(server, ServerFailure("the engine died"))
    _expect_provider_error(decoded.error)
    expect(decoded.events, (), "events")


def events_before_error_kept(server: ScriptedServer) -> None:
    """Check that events before an error are returned, even if they arrive in the same chunk."""
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
    """Check that an error status is decoded to an error with the status and retry advice."""
    for status, is_retryable in _STATUSES.items():
        for body in _ERROR_BODIES:
            error = server.wire.decode_error(status, body, {"retry-after": "7"})
            require(isinstance(error, ProviderError), f"status {status} is not a ProviderError")
            expect(error.status, status, "status")
            expect(error.retryable, is_retryable, f"retryable, for status {status}")
            expect(error.retry_after_s, 7, "retry_after_s")


def cut_short(server: ScriptedServer) -> None:
    """Check that a stream that ends too early raises CutShort after the received events."""
    frames = server.frames([TextPiece("Hal"), TextPiece("lo"), TurnEnd()])
    for count in range(1, len(frames) + 1):
        decoded = decode_pieces(server.wire, frames[:count])
        if any(isinstance(event, TextDelta) and event.text for event in decoded.events):
            expect(type(decoded.error), CutShort, "the error")
            expect(decoded.has_ended, False, "whether the turn ended")
            return
    raise CaseFailure("no frame of the stream is decoded to text")


def feed_after_close(server: ScriptedServer) -> None:
    """Check that a closed decoder rejects more bytes, and that closing it again has no effect."""
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
    """Check that an event of an unknown type is preserved and changes no other content."""
    _expect_unknown_kept(server, UnknownEvent(_UNKNOWN_TOKEN))


def unknown_member(server: ScriptedServer) -> None:
    """Check that an unknown member is preserved and changes no other content."""
    _expect_unknown_kept(server, UnknownMember(_UNKNOWN_TOKEN))


def unknown_block(server: ScriptedServer) -> None:
    """Check that a block of an unknown type is preserved in place and sent back to its provider."""
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
    """Check that keep-alive messages produce no events."""
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
    """Check that a response is decoded to the same events if its bytes arrive one at a time."""
    body = b"".join(_full_response_frames(server))
    pieces = (body[place : place + 1] for place in range(len(body)))
    _expect_same_as_whole(server, pieces, body, "byte by byte")


def any_chunking(server: ScriptedServer) -> None:
    """Check that the events and the error do not depend on how the bytes are split."""
    full = b"".join(_full_response_frames(server))
    bodies = [full, full[:-40], full[:40] + b"\xff" + full[40:]]
    failing: Script = [TextPiece("Hallo"), ServerFailure("the engine died")]
    if is_expressible(server, *failing):
        bodies.append(b"".join(server.frames(failing)))
    for body in bodies:
        for seed in range(_RANDOM_SPLITS):
            pieces = _split_at_random(body, seed)
            _expect_same_as_whole(server, pieces, body, f"split at random (seed {seed})")


def cut_at_every_byte(server: ScriptedServer) -> None:
    """Check that a response cut at any byte yields the earlier events, then an end or an error."""
    frames = _full_response_frames(server)
    full = decode_pieces(server.wire, frames)
    require(full.error is None and full.has_ended, "the whole stream cannot be decoded")
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
    """Return, for each frame, the events that the earlier frames are decoded to."""
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
    """Check that lines may end in CRLF, even if CR and LF arrive in different chunks."""
    body = b"".join(_full_response_frames(server))
    changed = body.replace(b"\n", b"\r\n")
    require(changed != body, "the frames of this server contain no line feed")
    _expect_same_as_whole(server, [changed], body, "with CRLF")
    halves = changed.replace(b"\r\n", b"\r\0\n").split(b"\0")
    _expect_same_as_whole(server, halves, body, "with CR and LF in different chunks")


def byte_order_mark(server: ScriptedServer) -> None:
    """Check that a byte order mark at the start of a response is ignored."""
    body = b"".join(_full_response_frames(server))
    marked = _BYTE_ORDER_MARK + body
    _expect_same_as_whole(server, [marked], body, "with a byte order mark")
    pieces = [marked[:1], marked[1:2], marked[2:]]
    _expect_same_as_whole(server, pieces, body, "with a byte order mark in several chunks")


def missing_final_newline(server: ScriptedServer) -> None:
    """Check that the last line need not end with a line feed."""
    body = b"".join(_full_response_frames(server))
    _expect_same_as_whole(server, [body.rstrip(b"\r\n")], body, "without the last line end")


def missing_end_marker(server: ScriptedServer) -> None:
    """Check that the end marker of the protocol may be missing after the stop reason."""
    end = usage_if_supported(server, TurnEnd(usage=_PLAIN_USAGE))
    marked = decode_script(server, TextPiece("Hi"), end)
    bare = decode_script(server, TextPiece("Hi"), replace(end, has_end_marker=False))
    expect(bare.message, marked.message, "the message")


# -- characters --------------------------------------------------------------------------------


def unicode_line_separators(server: ScriptedServer) -> None:
    """Check that Unicode line separators inside a text do not end a line."""
    _expect_text(server, _UNICODE_LINE_BREAKS, _UNICODE_LINE_BREAKS)


def nul_and_escapes(server: ScriptedServer) -> None:
    """Check that escaped characters, and text that looks like framing, are decoded unchanged."""
    _expect_text(server, _ESCAPES, _ESCAPES)


def lone_surrogates(server: ScriptedServer) -> None:
    """Check that a lone surrogate is replaced, because no provider accepts it in a request."""
    _expect_text(server, "a\ud83db", "a\ufffdb")


def split_surrogates(server: ScriptedServer) -> None:
    """Check that a surrogate pair that is split over two events is joined."""
    decoded = decode_script(server, TextPiece("a\ud83d"), TextPiece("\ude00b"), TurnEnd())
    expect(decoded.message.text, "a😀b", "text")


def _expect_text(server: ScriptedServer, sent: str, wanted: str) -> None:
    decoded = decode_script(server, TextPiece(sent), TextPiece("."), TurnEnd())
    expect(decoded.message.text, f"{wanted}.", "text")


# -- a response with all kinds of content --------------------------------------------------------


def _full_response_frames(server: ScriptedServer) -> list[bytes]:
    """Return the frames of a response with all kinds of content that the protocol can express."""
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
    chance = random.Random(seed)  # noqa: S311 - not for secrets; a seed repeats the same cuts
    count = chance.choice((1, 2, 5, 30))
    cuts = sorted(chance.randrange(len(body) + 1) for _ in range(count))
    return [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
