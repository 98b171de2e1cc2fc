"""`steno decode` and `steno convert`: recorded traffic as our values, and as another's words."""

from __future__ import annotations

import argparse
import codecs
import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import msgspec
from msgspec.structs import replace

from steno import (
    Assembler,
    AssistantMessage,
    Event,
    InvalidRequest,
    InvalidValue,
    Request,
    StenoError,
    StopReason,
    repair,
)
from steno.call import AnyToolCall
from steno.cli.commands import Commands
from steno.cli.nearest import meant
from steno.cli.output import print_json, writing
from steno.codec import encode_message
from steno.content import Opaque
from steno.wire import WIRES, Encoded, StreamDecoder, Wire, load_wire, retell
from steno.wire.open import read_as
from steno.wire.writing import messages_member

_LOSSY: Final = 3
_STREAMS: Final = (b"data:", b"event:", b":", b"id:")
"""How server-sent events begin, and JSON does not."""
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
        "Calls without an id get one, the same each time for the same answer.",
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
        "--stream", action="store_true", help="the answer came in pieces (SSE, NDJSON)"
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
    _add_input(decode)
    decode.set_defaults(run=_decode)


def _add_convert(commands: Commands) -> None:
    convert = commands.add_parser(
        "convert",
        help="say a request of one protocol in another",
        description="Translate a request. What the other protocol has no words for is listed on "
        "stderr, one line each: where, what was done, and a code.",
        epilog="example: steno convert --from openai_chat --to anthropic_messages request.json",
    )
    convert.add_argument(
        "--from", dest="source", required=True, type=_wire, metavar="WIRE", help=_NAMES
    )
    convert.add_argument(
        "--to", dest="target", required=True, type=_wire, metavar="WIRE", help="likewise"
    )
    convert.add_argument(
        "--model",
        metavar="NAME",
        help="the model to ask, instead of the recorded one (gemini has it in the address, and "
        "not in the request)",
    )
    convert.add_argument(
        "--repair",
        action="store_true",
        help="first put right what providers refuse: calls without a result, results without a "
        "call or out of order; what was done is listed like the losses",
    )
    convert.add_argument(
        "--report", type=Path, metavar="FILE", help="write the losses there, as a JSON array"
    )
    convert.add_argument(
        "--strict", action="store_true", help=f"exit with {_LOSSY} if anything was lost or repaired"
    )
    _add_input(convert)
    convert.set_defaults(run=_convert)


def _wire(name: str) -> Wire:
    near = None if name in WIRES or "." in name else meant(name, WIRES)
    if near is not None:
        raise argparse.ArgumentTypeError(f"there is no wire of that name; do you mean {near}?")
    try:
        return load_wire(name)
    except InvalidValue as exc:
        raise argparse.ArgumentTypeError(str(exc)) from exc


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="what to read; - or nothing: stdin"
    )


def _read(name: str) -> bytes:
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    return data.removeprefix(codecs.BOM_UTF8)


# -- decode ----------------------------------------------------------------------------------


def _decode(options: argparse.Namespace) -> int:
    wire: Wire = options.wire
    data = _read(options.file)
    if options.stream or options.events:
        return _decode_stream(wire, data, options)
    if data.lstrip().startswith(_STREAMS):
        raise InvalidValue("input: it looks like a stream; add --stream")
    if options.envelope:
        raise InvalidValue("--envelope: goes with --stream; a whole answer shows its own")
    try:
        message = _decode_whole(wire, data)
    except StenoError as exc:
        _fail(exc, wire, lambda other: other.decode_response(data))
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
    fault: StenoError | None = None
    try:
        for event in _events(decoder, data):
            for told in assembler.feed(event):
                if options.events:
                    print_json(msgspec.json.encode(told, enc_hook=dict))
    except StenoError as exc:
        fault = exc  # what was said before it is worth printing
    envelope = decoder.envelope
    if options.events:
        if options.envelope:
            print_json(msgspec.json.encode({"type": "envelope", "envelope": envelope}))
    else:
        reason = None if fault is None else StopReason.ERROR
        message = encode_message(assembler.message(reason))
        if options.envelope:
            both = {"message": msgspec.Raw(message), "envelope": envelope}
            message = msgspec.json.encode(both)
        print_json(message)
    others = [other for name in _CHOICES for other in envelope.get(f"other_{name}", ())]
    _tell_ignored(len({other.get("index") for other in others if isinstance(other, dict)}))
    if fault is not None:
        if _says_anything(assembler.message()):
            raise fault
        _fail(fault, wire, lambda other: _message_of(other, data))
    return 0


def _message_of(wire: Wire, data: bytes) -> AssistantMessage:
    """Read all of a stream. Raises StenoError."""
    assembler = Assembler()
    for event in _events(wire.StreamDecoder(), data):
        assembler.feed(event)
    return assembler.message()


def _fail(fault: StenoError, wire: Wire, read: Callable[[Wire], AssistantMessage]) -> NoReturn:
    """Raise why nothing could be read; with the wire that can read it, if there is one."""

    def can_read(name: str) -> bool:
        with suppress(StenoError):
            return _says_anything(read(load_wire(name)))
        return False

    others = [name for name in WIRES if name != wire.NAME]
    other = next(filter(can_read, others), None)
    if other is None:
        raise fault
    raise InvalidValue(f"{fault}; this looks like {other}: try --wire {other}") from fault


def _says_anything(message: AssistantMessage) -> bool:
    """Tell whether anything in a message was understood."""
    return any(not isinstance(block, Opaque) for block in message.content)


def _events(decoder: StreamDecoder, data: bytes) -> Iterator[Event]:
    yield from decoder.feed(data)
    yield from decoder.close()


def _id_maker(data: bytes) -> Callable[[], str]:
    """Return what names calls without an id: the same for the same answer, and for no other."""
    digest, numbers = hashlib.sha256(data).hexdigest()[:16], count(1)
    return lambda: f"call_{digest}_{next(numbers)}"


def _tell_ignored(number: int) -> None:
    if number:
        print(f"steno: answer: further choices in it were ignored: {number}", file=sys.stderr)


# -- convert ---------------------------------------------------------------------------------


class _Line(NamedTuple):
    """One line of the report: something that was lost or repaired."""

    code: str
    place: str
    done: str

    def __str__(self) -> str:
        return f"{self.place}: {self.done} ({self.code})"


def _convert(options: argparse.Namespace) -> int:
    source: Wire = options.source
    target: Wire = options.target
    request = source.decode_request(_read(options.file))
    report: list[_Line] = []
    if options.repair:
        request, report = _repair(request)
    if options.model is not None:
        request = replace(request, model=options.model)
    encoded = retell(request, source=source, target=target)
    report += [_Line(loss.code, loss.place, loss.done) for loss in encoded.losses]
    _tell(report, options.report)
    if source is not target and _is_empty(encoded, target):
        raise InvalidRequest(
            "request: nothing is left to send; add a message, beside the system prompt, that "
            f"{target.NAME} has words for"
        )
    print_json(encoded.body)
    return _LOSSY if options.strict and report else 0


def _is_empty(encoded: Encoded, target: Wire) -> bool:
    """Tell whether no message is left; what somebody else's wire makes of them, it alone knows."""
    return target.NAME in WIRES and not encoded.json.get(messages_member(target.NAME))


def _repair(request: Request) -> tuple[Request, list[_Line]]:
    """Put the messages in order; places are those of the recording."""
    messages, issues = repair(request.messages)
    if not messages:
        raise InvalidRequest("request: nothing is left to send after the repair; add a message")
    report = [
        _Line(issue.code, f"messages[{issue.position}]", f"repaired: {issue.remedy}")
        for issue in issues
    ]
    return replace(request, messages=messages), report


def _tell(report: list[_Line], file: Path | None) -> None:
    if file is None:
        for line in report:
            print(line, file=sys.stderr)
        return
    with writing(str(file)):
        file.write_bytes(msgspec.json.encode([line._asdict() for line in report]) + b"\n")
