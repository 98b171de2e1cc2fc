"""The command `steno decode`, which decodes a recorded response of a provider."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

import msgspec
from msgspec.structs import replace

from steno import (
    Assembler,
    AssistantMessage,
    Event,
    InvalidValue,
    ProviderError,
    StenoError,
    StopReason,
)
from steno.app.commands.arguments import UsageError, argument, flag
from steno.cli.arguments import ExitStatus, Subparsers, add_command
from steno.cli.recorded_body import (
    WIRE_NAMES,
    advice_for_decode,
    body_argument,
    parse_wire,
    read_recorded_body,
)
from steno.codec import encode_message
from steno.messages.call import AnyToolCall
from steno.render.output import print_json
from steno.render.quantities import format_count
from steno.render.table_output import print_notice
from steno.wire import StreamDecoder, Wire
from steno.wire.guess_wire import STREAM_PREFIXES, count_understood
from steno.wire.tolerant import read_as

_CHOICE_MEMBERS: Final = ("choices", "candidates")
"""Members that may contain several responses to one request; steno reads the first one."""


def add_commands(commands: Subparsers) -> None:
    """Add the command to the command line."""
    add_command(
        commands,
        "decode",
        _run_decode,
        "decode a recorded response of a provider",
        "Decode a recorded response of a provider and print it as canonical JSON. Calls without "
        "an ID get a deterministic ID. If a stream is cut short, the received part is printed, and "
        "the exit status is 1.",
        arguments=(
            argument(
                "--wire",
                required=True,
                type=parse_wire,
                metavar="WIRE",
                help=f"the protocol of the response: {WIRE_NAMES}",
            ),
            flag("--stream", help="the response is a stream (SSE, NDJSON, or an array)"),
            flag("--events", help="print the events of a stream, one per line"),
            flag(
                "--envelope",
                help="with --stream: also print the data outside the message (id, model, usage, "
                'other choices), as {"message": ..., "envelope": ...}; with --events: print it as '
                "the last event",
            ),
            body_argument("a response"),
        ),
        epilog="example:\n  steno decode --wire anthropic_messages --stream response.sse",
    )


def _run_decode(options: argparse.Namespace) -> int:
    wire: Wire = options.wire
    is_stream = options.stream or options.events
    if options.envelope and not is_stream:
        raise UsageError(
            "requires --stream; the body of a complete response already contains the envelope",
            code="option_needs_stream",
            place="--envelope",
        )
    data = read_recorded_body(options.file)
    if is_stream:
        return _decode_stream(wire, data, options)
    if data.lstrip().startswith(STREAM_PREFIXES):
        raise InvalidValue(
            "the data looks like a stream; add --stream", code="input_is_stream", place="input"
        )
    try:
        message = _decode_whole(wire, data)
    except StenoError as exc:
        _raise_with_advice(exc, data, wire, is_stream=False)
    print_json(encode_message(message), escape=False)
    response = read_as(data, dict[str, msgspec.Raw]) or {}
    _note_ignored_choices(
        sum(len((read_as(response.get(name), list[Any]) or ())[1:]) for name in _CHOICE_MEMBERS)
    )
    return ExitStatus.OK


def _decode_whole(wire: Wire, data: bytes) -> AssistantMessage:
    """Decode a complete response, and replace generated call IDs with reproducible ones.

    The response is decoded twice; an ID that differs between the results was generated.
    """
    message, second = wire.decode_response(data), wire.decode_response(data)
    new_id = _build_id_factory(data)
    content = [
        replace(block, id=new_id()) if isinstance(block, AnyToolCall) and block != twin else block
        for block, twin in zip(message.content, second.content, strict=True)
    ]
    return replace(message, content=tuple(content))


def _decode_stream(wire: Wire, data: bytes, options: argparse.Namespace) -> int:
    decoder, assembler = wire.StreamDecoder(), Assembler(new_id=_build_id_factory(data))
    events: list[Event] = []
    error = _read_stream(decoder, data, assembler, events)
    if error is not None and not count_understood(assembler.message()):
        _raise_with_advice(error, data, wire, is_stream=True)
    envelope = decoder.envelope
    if options.events:
        for event in events:
            print_json(_encode_event(event), escape=False)
        if options.envelope:
            last = {"type": "envelope", "envelope": envelope}
            print_json(msgspec.json.encode(last), escape=False)
    else:
        reason = None if error is None else StopReason.ERROR
        message = encode_message(assembler.message(reason, usage=decoder.usage))
        if options.envelope:
            with_envelope = {"message": msgspec.Raw(message), "envelope": envelope}
            message = msgspec.json.encode(with_envelope)
        print_json(message, escape=False)
    _note_ignored_choices(_count_other_choices(envelope))
    if error is not None:
        raise _reported_error(error)
    return ExitStatus.OK


def _read_stream(
    decoder: StreamDecoder, data: bytes, assembler: Assembler, events: list[Event]
) -> StenoError | None:
    """Append the events of a stream to `events`; return the error that ended it early, if any."""
    try:
        for event in decoder.feed(data):
            events += assembler.feed(event)
        for event in decoder.close():
            events += assembler.feed(event)
    except StenoError as exc:
        return exc
    return None


def _encode_event(event: Event) -> bytes:
    try:
        return msgspec.json.encode(event, enc_hook=dict)
    except UnicodeEncodeError:  # one half of a surrogate pair; the next event has the other half
        return json.dumps(msgspec.to_builtins(event, enc_hook=dict)).encode()


def _count_other_choices(envelope: Mapping[str, Any]) -> int:
    """Return the number of further responses in the envelope, whose members may have any type."""
    values = [envelope.get(f"other_{name}") for name in _CHOICE_MEMBERS]
    others = [other for value in values if isinstance(value, list) for other in value]
    return len({str(other.get("index")) for other in others if isinstance(other, dict)})


def _note_ignored_choices(count: int) -> None:
    if count:
        choices = format_count(count, "further choice is", "further choices are")
        print_notice(f"response: {choices} ignored")


def _build_id_factory(data: bytes) -> Callable[[], str]:
    """Return a function that generates call IDs, which are the same for the same response."""
    digest, numbers = hashlib.sha256(data).hexdigest()[:16], itertools.count(1)
    return lambda: f"call_{digest}_{next(numbers)}"


def _raise_with_advice(error: StenoError, data: bytes, wire: Wire, *, is_stream: bool) -> NoReturn:
    """Raise the error, with advice on how to decode the data if there is any."""
    if not isinstance(error, ProviderError):
        advice = advice_for_decode(data, wire.NAME, is_stream=is_stream)
        if advice is not None:
            raise InvalidValue(
                f"{error.message}; {advice}", code=error.code, place=error.place
            ) from error
    raise _reported_error(error)


def _reported_error(error: StenoError) -> StenoError:
    """Return a ProviderError as an InvalidValue, because its HTTP status is unknown.

    Any other error is returned unchanged.
    """
    if not isinstance(error, ProviderError):
        return error
    kind = error.provider_code or error.provider_type
    reported = error.message + (f" ({kind})" if kind else "")
    return InvalidValue(
        f"the provider reports an error: {reported}", code="provider_error", place="answer"
    )
