"""`steno decode` and `steno convert`: recorded traffic as our values, and as another's words."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
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
from steno.call import AnyToolCall
from steno.cli.commands import Commands, Misused
from steno.cli.likeness import STREAM_STARTS, advice_for_decode, understood
from steno.cli.nearest import meant
from steno.cli.output import print_json
from steno.cli.paper import note
from steno.cli.recorded import read_recorded
from steno.cli.translating import LOSSY, convert
from steno.codec import encode_message
from steno.wire import WIRES, StreamDecoder, Wire, load_wire
from steno.wire.open import read_as

_NAMES: Final = f"{', '.join(WIRES)}, or a module of yours as package.module"
_CHOICES: Final = ("choices", "candidates")
"""Where answers are that a provider gave to one question; we read the first of them."""


def add_commands(commands: Commands) -> None:
    """Add both commands to the command line."""
    _add_decode(commands)
    _add_convert(commands)


def _add_decode(commands: Commands) -> None:
    decode = commands.add_parser(
        "decode",
        help="read a recorded answer of a provider",
        description="Read a recorded answer of a provider and print it as canonical JSON. "
        "Calls without an id get one, the same each time for the same answer. What a stream said "
        "before it broke off is printed all the same, and the exit status is 1.",
        epilog="example: steno decode --wire anthropic_messages --stream answer.sse",
    )
    decode.add_argument(
        "--wire",
        required=True,
        type=_wire,
        metavar="WIRE",
        help=f"the protocol of the answer: {_NAMES}",
    )
    decode.add_argument(
        "--stream", action="store_true", help="the answer came in pieces (SSE, NDJSON, or an array)"
    )
    decode.add_argument(
        "--events", action="store_true", help="print each event of a stream, one a line"
    )
    decode.add_argument(
        "--envelope",
        action="store_true",
        help="of a stream, print also what the provider said beside the message (id, model, "
        'usage, other choices): {"message": ..., "envelope": ...}, or as the last of the events',
    )
    _add_input(decode, "an answer")
    decode.set_defaults(run=_decode)


def _add_convert(commands: Commands) -> None:
    parser = commands.add_parser(
        "convert",
        help="say a request of one protocol in another",
        description="Translate a request. What the other protocol has no words for is listed on "
        "stderr, one line each: where, what was done, and a code. What it has outside of the body "
        "is told behind it. The exit status is 1 if there is nothing to send.",
        epilog="example: steno convert --from openai_chat --to anthropic_messages request.json",
    )
    parser.add_argument(
        "--from", dest="source", required=True, type=_wire, metavar="WIRE", help=_NAMES
    )
    parser.add_argument(
        "--to", dest="target", required=True, type=_wire, metavar="WIRE", help="likewise"
    )
    parser.add_argument(
        "--model",
        type=_model,
        metavar="NAME",
        help="the model to ask, instead of the recorded one (of gemini none is recorded: it has "
        "the model in the address)",
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="first put right what providers refuse: calls without a result, results without a "
        "call or out of order; what was done is listed like the losses",
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write the losses there, as a JSON array"
    )
    parser.add_argument(
        "--strict", action="store_true", help=f"exit with {LOSSY} if anything was lost or repaired"
    )
    _add_input(parser, "a request")
    parser.set_defaults(run=convert)


def _wire(name: str) -> Wire:
    near = None if name in WIRES or "." in name else meant(name, WIRES)
    if near is not None:
        raise argparse.ArgumentTypeError(f"there is no wire of that name; do you mean {near}?")
    try:
        return load_wire(name)
    except InvalidValue as exc:
        # Which option it is about is said before it.
        raise argparse.ArgumentTypeError(str(exc).removeprefix("wire: ")) from exc


def _model(name: str) -> str:
    if not name.strip():
        raise argparse.ArgumentTypeError("must be the name of a model; or leave it out")
    return name


def _add_input(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "file",
        nargs="?",
        default="-",
        metavar="FILE",
        help=f"the body of {what}, as it was sent; - or nothing: stdin",
    )


# -- decode ----------------------------------------------------------------------------------


def _decode(options: argparse.Namespace) -> int:
    wire: Wire = options.wire
    is_stream = options.stream or options.events
    if options.envelope and not is_stream:
        raise Misused("--envelope: goes with --stream; a whole answer shows its own")
    data = read_recorded(options.file)
    if is_stream:
        return _decode_stream(wire, data, options)
    if data.lstrip().startswith(STREAM_STARTS):
        raise InvalidValue("input: it looks like a stream; add --stream")
    try:
        message = _decode_whole(wire, data)
    except StenoError as exc:
        _fail(exc, data, wire, is_stream=False)
    print_json(encode_message(message))
    answer = read_as(data, dict[str, msgspec.Raw]) or {}
    _tell_ignored(sum(len((read_as(answer.get(name), list[Any]) or ())[1:]) for name in _CHOICES))
    return 0


def _decode_whole(wire: Wire, data: bytes) -> AssistantMessage:
    """Decode a whole answer; an id that is another one in each reading is one that was made up."""
    message, again = wire.decode_response(data), wire.decode_response(data)
    new_id = _id_maker(data)
    content = [
        replace(block, id=new_id()) if isinstance(block, AnyToolCall) and block != twin else block
        for block, twin in zip(message.content, again.content, strict=True)
    ]
    return replace(message, content=tuple(content))


def _decode_stream(wire: Wire, data: bytes, options: argparse.Namespace) -> int:
    decoder, assembler = wire.StreamDecoder(), Assembler(new_id=_id_maker(data))
    told: list[Event] = []
    fault = _read_stream(decoder, data, assembler, told)
    if fault is not None and not understood(assembler.message()):
        _fail(fault, data, wire, is_stream=True)
    envelope = decoder.envelope
    if options.events:
        for event in told:
            print_json(_event_json(event))
        if options.envelope:
            print_json(msgspec.json.encode({"type": "envelope", "envelope": envelope}))
    else:
        reason = None if fault is None else StopReason.ERROR
        message = encode_message(assembler.message(reason, usage=decoder.usage))
        if options.envelope:
            both = {"message": msgspec.Raw(message), "envelope": envelope}
            message = msgspec.json.encode(both)
        print_json(message)
    _tell_ignored(_count_others(envelope))
    if fault is not None:
        raise _told(fault)
    return 0


def _count_others(envelope: Mapping[str, Any]) -> int:
    """Return how many other answers were told beside the first; a server may call anything so."""
    found = [envelope.get(f"other_{name}") for name in _CHOICES]
    others = [other for some in found if isinstance(some, list) for other in some]
    return len({str(other.get("index")) for other in others if isinstance(other, dict)})


def _event_json(event: Event) -> bytes:
    try:
        return msgspec.json.encode(event, enc_hook=dict)
    except UnicodeEncodeError:  # half a character: its other half comes with the next event
        return json.dumps(msgspec.to_builtins(event, enc_hook=dict)).encode()


def _read_stream(
    decoder: StreamDecoder, data: bytes, assembler: Assembler, told: list[Event]
) -> StenoError | None:
    """Read all of a stream, and return what ended it too early: what was said before is kept."""
    try:
        for event in decoder.feed(data):
            told += assembler.feed(event)
        for event in decoder.close():
            told += assembler.feed(event)
    except StenoError as exc:
        return exc
    return None


def _fail(fault: StenoError, data: bytes, wire: Wire, *, is_stream: bool) -> NoReturn:
    """Raise why nothing could be read, with what to do about it if that is known."""
    if not isinstance(fault, ProviderError):
        advice = advice_for_decode(data, wire.NAME, is_stream=is_stream)
        if advice is not None:
            raise InvalidValue(f"{fault}; {advice}") from fault
    raise _told(fault)


def _told(fault: StenoError) -> StenoError:
    """Return a fault as it is told: an error of the provider's is no error of ours.

    Which status it came with, a body does not say.
    """
    if not isinstance(fault, ProviderError):
        return fault
    kind = fault.provider_code or fault.provider_type
    reported = fault.message + (f" ({kind})" if kind else "")
    return InvalidValue(f"answer: the provider reports an error: {reported}")


def _id_maker(data: bytes) -> Callable[[], str]:
    """Return what names calls without an id: the same for the same answer, and for no other."""
    digest, numbers = hashlib.sha256(data).hexdigest()[:16], count(1)
    return lambda: f"call_{digest}_{next(numbers)}"


def _tell_ignored(number: int) -> None:
    if number:
        note(f"answer: further choices in it were ignored: {number}")
