"""Functions that read recorded requests and responses for `steno decode` and `steno convert`.

A byte order mark and the headers that `curl -i` prints are removed; compressed data is rejected
with advice on how to unpack it. If a wire cannot decode the data, `steno.wire.guess_wire` finds the
wires that can.
"""

from __future__ import annotations

import argparse
import codecs
import re
import sys
from typing import Any, Final

import msgspec

from steno import InvalidValue, Request
from steno.app.commands.arguments import Argument, argument
from steno.regular_file import open_input
from steno.render.table_output import print_notice
from steno.suggest import closest_name
from steno.wire import WIRES, Wire, load_wire
from steno.wire.errors import decode_error
from steno.wire.guess_wire import (
    SAMPLE_BYTES,
    STREAM_PREFIXES,
    RecordingKind,
    find_better_wires,
    guess_complete_body,
    guess_stream_wires,
    guess_wire,
)
from steno.wire.request_encoder import messages_field
from steno.wire.tolerant import read_as

WIRE_NAMES: Final = f"{', '.join(WIRES)}, or a module such as package.module"
"""The names of wires, for help texts."""
_JSON_PREFIXES: Final = (b"{", b"[")
_KIND_TEXTS: Final = {
    RecordingKind.RESPONSE: "a complete response",
    RecordingKind.REQUEST: "a request",
    RecordingKind.STREAM: "a stream",
}
_HAR_REQUEST: Final = ".request.postData.text"
_HAR_RESPONSE: Final = ".response.content.text"
"""The jq path of the response body in a HAR entry; `_HAR_REQUEST` is that of the request body."""
_ERROR_MEMBERS: Final = ("message", "detail", "details", "errors", "error_description", "msg")
"""Members in which servers and proxies report an error if they send no `error` object."""
_DECODE_COMMAND: Final = "steno decode --wire {}"
_CONVERT_COMMAND: Final = "steno convert --from {} --to WIRE"
_MAX_BYTES: Final = 256 * 1024 * 1024
"""The maximum size of a body, of which several copies are held in memory."""
_HTTP_HEADERS: Final = re.compile(
    rb"(?:(?:HTTP/[\d.]+ \d{3}|[A-Z]+ \S+ HTTP/[\d.]+).*\n(?:.+\n)*?\r?(?:\n|\Z))+"
)
"""Headers up to the empty line, including preceding headers of a proxy or of `100 Continue`."""
_PACKED_FORMS: Final = {
    b"\x1f\x8b": "the data is compressed (gzip); unpack it first: gzip -dc, or curl --compressed",
    b"\x28\xb5\x2f\xfd": "the data is compressed (zstd); unpack it first: zstd -dc",
    b"PK\x03\x04": "the data is a zip archive; unpack it first",
    codecs.BOM_UTF16_LE: "the data is UTF-16; convert it to UTF-8",
    codecs.BOM_UTF16_BE: "the data is UTF-16; convert it to UTF-8",
    b'"': "the data is a JSON string that contains the body; extract it first: jq -r .",
}
"""Advice for data that must be unpacked or converted, by its first bytes."""


# -- options ----------------------------------------------------------------------------------


def parse_wire(name: str) -> Wire:
    """Return the wire that an option names. Raises ArgumentTypeError if it is unknown."""
    closest = None if name in WIRES or "." in name else closest_name(name, WIRES)
    if closest is not None:
        raise argparse.ArgumentTypeError(f"unknown wire; did you mean {closest}?")
    try:
        return load_wire(name)
    except InvalidValue as exc:
        raise argparse.ArgumentTypeError(exc.message) from exc  # argparse names the option


def body_argument(content: str) -> Argument:
    """Return the argument for a file with a body; `content` is "a request" or "a response"."""
    help = f"the recorded body of {content} (default: -, stdin)"
    return argument("file", nargs="?", default="-", metavar="FILE", help=help)


# -- reading a body ---------------------------------------------------------------------------


def read_recorded_body(name: str) -> bytes:
    """Return the body from a file, or from stdin (`-`).

    Raises InvalidValue if the input is empty or too large, or must be unpacked or converted first.
    """
    data = _read_bytes(name).removeprefix(codecs.BOM_UTF8)
    headers = _HTTP_HEADERS.match(data)
    if headers is not None:
        data = data[headers.end() :]
    start = data[:64].lstrip()
    for signature, advice in _PACKED_FORMS.items():
        if start.startswith(signature):
            raise InvalidValue(advice, code="input_packed", place="input")
    if not start and not data.strip():
        raise InvalidValue(
            "the input is empty; name a file or pipe the body in",
            code="input_empty",
            place="input",
        )
    return data


def _read_bytes(name: str) -> bytes:
    if name == "-":
        if sys.stdin.isatty():
            print_notice("reading stdin until Ctrl-D; pass a file name to read a file")
        data = sys.stdin.buffer.read(_MAX_BYTES + 1)
    else:
        with open_input(name) as file:
            data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise InvalidValue(
            f"is larger than {_MAX_BYTES:,} bytes; pass the body of one request or response",
            code="input_too_large",
            place="input",
        )
    return data


# -- advice on data that cannot be decoded ----------------------------------------------------


def advice_for_decode(data: bytes, wire: str, *, is_stream: bool) -> str | None:
    """Return advice on a response that `wire` could not decode; None if there is no advice."""
    advice = _advice_on_several(data, wire, _DECODE_COMMAND)
    if advice is not None:
        return advice
    guess = guess_wire(data)
    if guess is None:
        return (
            _advice_on_lines(data)
            or _advice_on_file(data, wire, _HAR_RESPONSE)
            or _advice_on_error(data)
        )
    kind, names = guess
    name = wire if wire in names else names[0]
    if kind is RecordingKind.REQUEST:
        sources = name if wire in names else " or ".join(names)
        return f"this looks like a request: try steno convert --from {sources}"
    options = [] if name == wire else [f"--wire {name}"]
    if kind is RecordingKind.STREAM and not is_stream:
        options.append("--stream")
    if (kind is RecordingKind.STREAM) == is_stream:
        description = name
    else:
        description = _KIND_TEXTS[kind] if name == wire else f"{_KIND_TEXTS[kind]} of {name}"
    steps = [f"try {' '.join(options)}"] if options else []
    if kind is RecordingKind.RESPONSE and is_stream:
        steps.append("omit --stream")
    return f"this looks like {description}: {' and '.join(steps)}" if steps else None


def advice_for_convert(data: bytes, wire: str) -> str | None:
    """Return advice on a request that `wire` could not decode; None if there is no advice."""
    advice = _advice_on_several(data, wire, _CONVERT_COMMAND)
    if advice is not None:
        return advice
    guess = guess_wire(data)
    if guess is None:
        return _advice_on_list(data, wire) or _advice_on_file(data, wire, _HAR_REQUEST)
    kind, names = guess
    if kind is not RecordingKind.REQUEST:
        stream = " --stream" if kind is RecordingKind.STREAM else ""
        return f"this looks like {_KIND_TEXTS[kind]}: try steno decode --wire {names[0]}{stream}"
    if wire in names:
        return None
    step = f"try --from {names[0]}" if len(names) == 1 else "choose one with --from"
    return f"this looks like {' or '.join(names)}: {step}"


def suggest_other_wire(data: bytes, request: Request, wire: str) -> str | None:
    """Return advice if other wires define considerably more fields of a request than `wire`."""
    names = find_better_wires(data, request, wire)
    if not names:
        return None
    step = f"try --from {names[0]}" if len(names) == 1 else "try --from with one of them"
    return f"this looks like {' or '.join(names)}: {step}"


def _advice_on_several(data: bytes, wire: str, command: str) -> str | None:
    """Return advice if the data is several bodies, one per line, not the events of a stream."""
    lines = [line for line in data.split(b"\n", 3) if line.strip()][:2]
    if len(lines) < 2 or not all(read_as(line, dict[str, Any]) for line in lines):
        return None
    guess = guess_complete_body(lines[0])
    if guess is not None:
        command = _CONVERT_COMMAND if guess.kind is RecordingKind.REQUEST else _DECODE_COMMAND
        if wire not in guess.wires:
            wire = guess.wires[0] if len(guess.wires) == 1 else "WIRE"
    elif guess_stream_wires(data) or _advice_on_lines(data):
        return None
    command_line = f"sed -n 1p FILE | {command.format(wire)}"
    return f"the input has several values, one per line; pass one: {command_line}"


def _advice_on_lines(data: bytes) -> str | None:
    """Return advice if the data is SSE events without their framing, one per line."""
    if not data.lstrip().startswith(b"{"):
        return None
    framed = b"".join([b"data: %b\n\n" % line for line in data[:SAMPLE_BYTES].splitlines() if line])
    names = guess_stream_wires(framed)
    if not names:
        return None
    return f"these are events of {names[0]} without SSE framing; add it: sed 's/^/data: /;G' FILE"


def _advice_on_list(data: bytes, wire: str) -> str | None:
    """Return advice if the data is a bare list of messages, not a request."""
    if wire not in WIRES or not read_as(data, list[dict[str, Any]]):
        return None
    return f"this is a list; wrap it in a request: jq '{{{messages_field(wire)}: .}}'"


def _advice_on_error(data: bytes) -> str | None:
    """Return a note if the data is an error that a server sent instead of a response."""
    body = read_as(data, dict[str, Any]) or {}
    if not any(body.get(name) for name in _ERROR_MEMBERS) or isinstance(body.get("message"), dict):
        return None  # an object is a message, not an error
    match body:
        case {"errors": [dict() as first, *_]}:
            body = first
        case {"errors": found} if "message" not in body:
            body = {"message": found}
        case _:
            pass
    error = decode_error(400, msgspec.json.encode(body))
    kind = error.provider_code or error.provider_type
    return f"this looks like an error: {error.message}" + (f" ({kind})" if kind else "")


def _advice_on_file(data: bytes, wire: str, place: str) -> str | None:
    """Return advice if the data is a HAR file, or neither JSON nor a stream."""
    log = (read_as(data, dict[str, Any]) or {}).get("log")
    if isinstance(log, dict) and "entries" in log:
        return f"this looks like a HAR file; extract one body: jq -r '.log.entries[0]{place}'"
    if wire in WIRES and not data.lstrip().startswith((*STREAM_PREFIXES, *_JSON_PREFIXES)):
        return "the input is neither JSON nor a stream; pass only the body"
    return None
