"""`steno decode` and `steno convert`: recorded traffic as our values, and as another's words."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec

from steno import Assembler, Event, InvalidValue, StenoError, StopReason
from steno.codec import encode_message
from steno.wire import WIRES, Loss, Wire, load_wire, translate

_LOSSY = 3
_STREAMS = (b"data:", b"event:", b":", b"id:")
"""How server-sent events begin, and JSON does not."""


class Commands(Protocol):
    """Where a command is added: what `add_subparsers` returns, which has no public name."""

    def add_parser(self, name: str, **settings: Any) -> argparse.ArgumentParser:
        """Add a command."""
        ...


def add_commands(commands: Commands) -> None:
    """Add both commands to the command line."""
    decode = commands.add_parser(
        "decode",
        help="read a recorded answer of a provider",
        description="Read a recorded answer of a provider and print it as canonical JSON.",
        epilog="example: steno decode --wire anthropic_messages --stream answer.sse",
    )
    decode.add_argument("--wire", required=True, choices=WIRES, help="the protocol of the answer")
    decode.add_argument(
        "--stream", action="store_true", help="the answer came in pieces (SSE, NDJSON)"
    )
    decode.add_argument(
        "--events", action="store_true", help="print each event of a stream, one a line"
    )
    _add_input(decode)
    decode.set_defaults(run=_decode)

    convert = commands.add_parser(
        "convert",
        help="say a request of one protocol in another",
        description="Translate a request. What the other protocol has no words for is listed on "
        "stderr, one line each: where, what was done, and a code.",
        epilog="example: steno convert --from openai_chat --to anthropic_messages request.json",
    )
    convert.add_argument("--from", dest="source", required=True, choices=WIRES, metavar="WIRE")
    convert.add_argument(
        "--to", dest="target", required=True, choices=WIRES, metavar="WIRE", help=", ".join(WIRES)
    )
    convert.add_argument(
        "--report", type=Path, metavar="FILE", help="write the losses there, as a JSON array"
    )
    convert.add_argument(
        "--strict", action="store_true", help=f"exit with {_LOSSY} if anything was lost"
    )
    _add_input(convert)
    convert.set_defaults(run=_convert)


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="what to read; - or nothing: stdin"
    )


def _read(name: str) -> bytes:
    return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()


# -- decode ----------------------------------------------------------------------------------


def _decode(options: argparse.Namespace) -> int:
    wire, data = load_wire(options.wire), _read(options.file)
    if not (options.stream or options.events):
        if data.lstrip().startswith(_STREAMS):
            raise InvalidValue("input: it looks like a stream; add --stream")
        _print(encode_message(wire.decode_response(data)))
        return 0
    assembler = Assembler()
    fault: StenoError | None = None
    try:
        for event in _events(wire, data):
            for told in assembler.feed(event):
                if options.events:
                    _print(msgspec.json.encode(told, enc_hook=dict))
    except StenoError as exc:
        fault = exc  # what was said before it is worth printing
    if not options.events:
        reason = None if fault is None else StopReason.ERROR
        _print(encode_message(assembler.message(reason)))
    if fault is not None:
        raise fault
    return 0


def _events(wire: Wire, data: bytes) -> Iterator[Event]:
    decoder = wire.StreamDecoder()
    yield from decoder.feed(data)
    yield from decoder.close()


# -- convert ---------------------------------------------------------------------------------


def _convert(options: argparse.Namespace) -> int:
    source, target = load_wire(options.source), load_wire(options.target)
    encoded = translate(_read(options.file), source=source, target=target)
    if options.report is not None:
        options.report.write_bytes(msgspec.json.encode(list(map(_row, encoded.losses))) + b"\n")
    else:
        for loss in encoded.losses:
            print(loss, file=sys.stderr)
    _print(encoded.body)
    return _LOSSY if options.strict and encoded.losses else 0


def _row(loss: Loss) -> dict[str, Any]:
    return {"code": loss.code, "place": loss.place, "done": loss.done}


def _print(data: bytes) -> None:
    """Print JSON: readable on a terminal, one line for a program."""
    if sys.stdout.isatty():
        data = msgspec.json.format(data)
    sys.stdout.buffer.write(data + b"\n")
