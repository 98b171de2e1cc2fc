"""`steno decode` and `steno convert`: read recorded traffic, and translate requests.

A byte order mark and the headers that `curl -i` prints are removed; packed data is refused with
advice on how to unpack it. Where a wire cannot decode the data, `steno.wire.guess_wire` finds the
wires that can.
"""

from __future__ import annotations

import argparse
import codecs
import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from steno import (
    Assembler,
    AssistantMessage,
    Event,
    InvalidRequest,
    InvalidValue,
    Opaque,
    ProviderError,
    Request,
    StenoError,
    StopReason,
    check_order,
    repair,
)
from steno.app.errors import UsageError
from steno.cli.arguments import ExitStatus, Subparsers
from steno.codec import encode_message
from steno.messages.call import AnyToolCall
from steno.messages.change import ChangeCode
from steno.messages.message import Message
from steno.messages.order import OrderCode
from steno.render.changes import describe_change
from steno.render.output import is_shared_target, print_json, report_write_errors, write_file
from steno.render.table_output import print_notice
from steno.render.terminal_text import terminal_line, terminal_text
from steno.suggest import closest_name
from steno.wire import (
    WIRES,
    EncodedRequest,
    StreamDecoder,
    Wire,
    load_wire,
    translate_request,
)
from steno.wire.errors import decode_error
from steno.wire.extras import is_streamed, pop_stream_flag
from steno.wire.gemini.payload import SIGNATURE_SENTINEL
from steno.wire.guess_wire import (
    SAMPLE_BYTES,
    STREAM_PREFIXES,
    RecordingKind,
    count_understood,
    find_better_wires,
    guess_complete_body,
    guess_stream_wires,
    guess_wire,
)
from steno.wire.merged_extras import is_nonempty_json
from steno.wire.request_encoder import messages_field
from steno.wire.tolerant import RawMembers, raw_text, read_as

_WIRE_NAMES: Final = f"{', '.join(WIRES)}, or a module of yours as package.module"
_PROVIDER_WIRES: Final = frozenset(WIRES) - {"chat"}
"""The wires of providers, each of which needs the name of a model."""
_OPENAI_WIRES: Final = frozenset({"openai_chat", "openai_responses"})
"""The wires of one vendor, between which a model keeps its name."""
_KNOWN_ROLES: Final = frozenset(
    {"assistant", "developer", "function", "model", "system", "tool", "user"}
)
"""Known roles: an opaque message of one of these is opaque for another reason."""
_REFUSED_ORDER: Final = {
    OrderCode.CALL_ID_REPEATED: "has two calls of one id",
    OrderCode.CALL_UNANSWERED: "has a call without a result",
    OrderCode.RESULT_ORPHANED: "is a result without a call",
    OrderCode.RESULT_REPEATED: "is a second result of one call",
    OrderCode.RESULT_EARLY: "is a result before its call",
    OrderCode.RESULT_LATE: "is a result too far behind its call",
}
"""Violations of the order of messages that providers refuse."""
_CHOICE_MEMBERS: Final = ("choices", "candidates")
"""The members that hold several responses to one request; steno reads the first."""
_JSON_PREFIXES: Final = (b"{", b"[")
_KIND_TEXTS: Final = {
    RecordingKind.RESPONSE: "a whole answer",
    RecordingKind.REQUEST: "a request",
    RecordingKind.STREAM: "a stream",
}
_HAR_REQUEST: Final = ".request.postData.text"
_HAR_RESPONSE: Final = ".response.content.text"
"""The bodies of an entry of a HAR file."""
_ERROR_MEMBERS: Final = ("message", "detail", "details", "errors", "error_description", "msg")
"""Members with which servers and proxies report an error, without an `error` around them."""
_DECODE_COMMAND: Final = "steno decode --wire {}"
_CONVERT_COMMAND: Final = "steno convert --from {} --to WIRE"
_MAX_BYTES: Final = 256 * 1024 * 1024
"""No body is larger; it would be held in memory more than once."""
_HTTP_HEADERS: Final = re.compile(
    rb"(?:(?:HTTP/[\d.]+ \d{3}|[A-Z]+ \S+ HTTP/[\d.]+).*\n(?:.+\n)*?\r?(?:\n|\Z))+"
)
"""Headers, up to their empty line, also those of a proxy or of `100 Continue` before them."""
_PACKED_FORMS: Final = {
    b"\x1f\x8b": "it is compressed (gzip); unpack it first: gzip -dc, or curl --compressed",
    b"\x28\xb5\x2f\xfd": "it is compressed (zstd); unpack it first: zstd -dc",
    b"PK\x03\x04": "it is an archive (zip); unpack it first",
    codecs.BOM_UTF16_LE: "it is UTF-16; save it as UTF-8",
    codecs.BOM_UTF16_BE: "it is UTF-16; save it as UTF-8",
    b'"': "it is a JSON string with the body inside; take it out first: jq -r .",
}
"""Advice on data by its first bytes, with which no body begins."""


def add_commands(commands: Subparsers) -> None:
    """Add both commands to the command line."""
    _add_decode(commands)
    _add_convert(commands)


def _add_decode(commands: Subparsers) -> None:
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
        type=_parse_wire,
        metavar="WIRE",
        help=f"the protocol of the answer: {_WIRE_NAMES}",
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
    _add_file_argument(decode, "an answer")
    decode.set_defaults(run=_run_decode)


def _add_convert(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "convert",
        help="say a request of one protocol in another",
        description="Translate a request. What the other protocol has no words for is listed on "
        "stderr, one line each: where, what was done, and a code. What it has outside of the body "
        "is told behind it. The exit status is 1 if there is nothing to send.",
        epilog="example: steno convert --from openai_chat --to anthropic_messages request.json",
    )
    parser.add_argument(
        "--from", dest="source", required=True, type=_parse_wire, metavar="WIRE", help=_WIRE_NAMES
    )
    parser.add_argument(
        "--to", dest="target", required=True, type=_parse_wire, metavar="WIRE", help="likewise"
    )
    parser.add_argument(
        "--model",
        type=_parse_model,
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
        "--strict",
        action="store_true",
        help=f"exit with {ExitStatus.INCOMPLETE} if anything was lost or repaired",
    )
    _add_file_argument(parser, "a request")
    parser.set_defaults(run=run_convert)


def _parse_wire(name: str) -> Wire:
    near = None if name in WIRES or "." in name else closest_name(name, WIRES)
    if near is not None:
        raise argparse.ArgumentTypeError(f"there is no wire of that name; do you mean {near}?")
    try:
        return load_wire(name)
    except InvalidValue as exc:
        raise argparse.ArgumentTypeError(exc.message) from exc  # argparse names the option


def _parse_model(name: str) -> str:
    if not name.strip():
        raise argparse.ArgumentTypeError("must be the name of a model; or leave it out")
    return name


def _add_file_argument(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "file",
        nargs="?",
        default="-",
        metavar="FILE",
        help=f"the body of {what}, as it was sent; - or nothing: stdin",
    )


# -- decode -----------------------------------------------------------------------------------


def _run_decode(options: argparse.Namespace) -> int:
    wire: Wire = options.wire
    is_stream = options.stream or options.events
    if options.envelope and not is_stream:
        raise UsageError(
            "goes with --stream; a whole answer shows its own",
            code="option_needs_stream",
            place="--envelope",
        )
    data = _read_recorded_body(options.file)
    if is_stream:
        return _decode_stream(wire, data, options)
    if data.lstrip().startswith(STREAM_PREFIXES):
        raise InvalidValue(
            "it looks like a stream; add --stream", code="input_is_stream", place="input"
        )
    try:
        message = _decode_whole(wire, data)
    except StenoError as exc:
        _raise_with_advice(exc, data, wire, is_stream=False)
    print_json(encode_message(message))
    answer = read_as(data, dict[str, msgspec.Raw]) or {}
    _note_ignored_choices(
        sum(len((read_as(answer.get(name), list[Any]) or ())[1:]) for name in _CHOICE_MEMBERS)
    )
    return ExitStatus.OK


def _decode_whole(wire: Wire, data: bytes) -> AssistantMessage:
    """Decode a complete response; a call id that differs between two decodings was made up."""
    message, again = wire.decode_response(data), wire.decode_response(data)
    new_id = _build_id_factory(data)
    content = [
        replace(block, id=new_id()) if isinstance(block, AnyToolCall) and block != twin else block
        for block, twin in zip(message.content, again.content, strict=True)
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
            print_json(_event_as_json(event))
        if options.envelope:
            print_json(msgspec.json.encode({"type": "envelope", "envelope": envelope}))
    else:
        reason = None if error is None else StopReason.ERROR
        message = encode_message(assembler.message(reason, usage=decoder.usage))
        if options.envelope:
            both = {"message": msgspec.Raw(message), "envelope": envelope}
            message = msgspec.json.encode(both)
        print_json(message)
    _note_ignored_choices(_count_other_choices(envelope))
    if error is not None:
        raise _reported_error(error)
    return ExitStatus.OK


def _read_stream(
    decoder: StreamDecoder, data: bytes, assembler: Assembler, events: list[Event]
) -> StenoError | None:
    """Read a stream to its end, and return the error that cut it; earlier events are kept."""
    try:
        for event in decoder.feed(data):
            events += assembler.feed(event)
        for event in decoder.close():
            events += assembler.feed(event)
    except StenoError as exc:
        return exc
    return None


def _event_as_json(event: Event) -> bytes:
    try:
        return msgspec.json.encode(event, enc_hook=dict)
    except UnicodeEncodeError:  # half a character: its other half comes with the next event
        return json.dumps(msgspec.to_builtins(event, enc_hook=dict)).encode()


def _count_other_choices(envelope: Mapping[str, Any]) -> int:
    """Return how many responses besides the first are in the envelope, which may hold anything."""
    values = [envelope.get(f"other_{name}") for name in _CHOICE_MEMBERS]
    others = [other for value in values if isinstance(value, list) for other in value]
    return len({str(other.get("index")) for other in others if isinstance(other, dict)})


def _note_ignored_choices(number: int) -> None:
    if number:
        print_notice(f"answer: further choices in it were ignored: {number}")


def _build_id_factory(data: bytes) -> Callable[[], str]:
    """Return a function that makes ids for calls: the same ids for the same response."""
    digest, numbers = hashlib.sha256(data).hexdigest()[:16], count(1)
    return lambda: f"call_{digest}_{next(numbers)}"


def _raise_with_advice(error: StenoError, data: bytes, wire: Wire, *, is_stream: bool) -> NoReturn:
    """Raise the error, with advice on how to read the data if there is any."""
    if not isinstance(error, ProviderError):
        advice = _advice_for_decode(data, wire.NAME, is_stream=is_stream)
        if advice is not None:
            raise InvalidValue(
                f"{error.message}; {advice}", code=error.code, place=error.place
            ) from error
    raise _reported_error(error)


def _reported_error(error: StenoError) -> StenoError:
    """Return an error of the provider as an InvalidValue; a body does not hold its status."""
    if not isinstance(error, ProviderError):
        return error
    kind = error.provider_code or error.provider_type
    reported = error.message + (f" ({kind})" if kind else "")
    return InvalidValue(
        f"the provider reports an error: {reported}", code="provider_error", place="answer"
    )


# -- convert ----------------------------------------------------------------------------------


class _ReportLine(NamedTuple):
    """One line of the report: something that was lost or repaired."""

    code: str
    place: str
    done: str

    def __str__(self) -> str:
        return f"{self.place}: {self.done} ({self.code})"


def run_convert(options: argparse.Namespace) -> int:
    """Print a request in another protocol, and report the losses."""
    source: Wire = options.source
    target: Wire = options.target
    _check_report_file(options.report, options.file)
    data = _read_recorded_body(options.file)
    request = _decode_request(data, source)
    suggestion = _suggest_other_wire(data, request, source.NAME)
    if suggestion is not None:
        print_notice(suggestion)
    report: list[_ReportLine] = []
    if options.repair:
        request, report = _repair_order(request)
    if options.model is not None:
        request = replace(request, model=options.model)
    encoded = translate_request(request, source=source, target=target)
    report += _report_losses(encoded, request)
    _write_report(report, options.report)
    if target.NAME in WIRES:
        _print_own_body(encoded, request, source=source, target=target)
        if options.model is None and _changes_vendor(source, target) and request.model:
            model = terminal_line(request.model)
            print_notice(f"request: the model is {model}, as it was; --model NAME asks another")
    else:
        _print_foreign_body(encoded.body)
    return ExitStatus.INCOMPLETE if options.strict and report else ExitStatus.OK


def _decode_request(data: bytes, source: Wire) -> Request:
    try:
        return source.decode_request(data)
    except InvalidValue as exc:
        advice = _advice_for_convert(data, source.NAME)
        if advice is None:
            raise
        raise InvalidRequest(f"{exc.message}; {advice}", code=exc.code, place=exc.place) from exc


def _repair_order(request: Request) -> tuple[Request, list[_ReportLine]]:
    """Put the messages in order; places are those of the recording."""
    messages, issues = repair(request.messages)
    if not messages:
        raise InvalidRequest(
            "nothing is left to send after the repair; add a message",
            code="nothing_to_send",
            place="request",
        )
    report = [
        _ReportLine(issue.code, f"messages[{issue.position}]", f"repaired: {issue.remedy}")
        for issue in issues
    ]
    return replace(request, messages=messages), report


def _print_own_body(
    encoded: EncodedRequest, request: Request, *, source: Wire, target: Wire
) -> None:
    """Print a body of a built-in wire, and notes about it."""
    # Only its members: deep inside may be what Python has no value for.
    body = read_as(encoded.body, RawMembers) or {}
    if source is not target:
        _check_messages(body, target)
    print_json(encoded.body)
    for text in _conversion_notes(request, body, source=source, target=target):
        print_notice(terminal_line(text))


def _check_messages(body: RawMembers, target: Wire) -> None:
    """Refuse a body without a message."""
    messages = body.get(messages_field(target.NAME))
    if messages is None or not is_nonempty_json(messages):
        raise InvalidRequest(
            "nothing is left to send; add a message, beside the system prompt, that "
            f"{target.NAME} has words for",
            code="nothing_to_send",
            place="request",
        )


def _conversion_notes(
    request: Request, body: RawMembers, *, source: Wire, target: Wire
) -> Iterator[str]:
    """Yield notes on parts of the request that are not in the body, and the other way round."""
    if target.NAME == "gemini":
        if "model" not in body and (request.model or source is not target):
            stream = pop_stream_flag(request, source.NAME)[1]
            is_stream = is_streamed(stream, source.NAME)
            yield (
                "request: model and streaming are not in the body but in the address: "
                f"POST {_gemini_path(request.model, is_stream=bool(is_stream))}"
            )
        if source is not target and SIGNATURE_SENTINEL.encode() in bytes(body.get("contents", b"")):
            yield f"request: calls are signed {SIGNATURE_SENTINEL}, since gemini refuses those without"
    elif not request.model and source is not target and target.NAME in _PROVIDER_WIRES:
        yield "request: it names no model; add --model NAME"
    if target.NAME == "anthropic_messages" and source is not target and not request.max_tokens:
        yield (
            f"request: max_tokens is {raw_text(body['max_tokens'])}, since it names none and "
            "anthropic_messages wants one"
        )
    if target.NAME in _PROVIDER_WIRES:
        yield from _order_notes(request, is_translated=source is not target)


def _gemini_path(model: str, *, is_stream: bool) -> str:
    name = quote(model if "/" in model else f"models/{model or 'MODEL'}")
    method = "streamGenerateContent?alt=sse" if is_stream else "generateContent"
    return f"/v1beta/{name}:{method}"


def _order_notes(request: Request, *, is_translated: bool) -> Iterator[str]:
    """Yield one note on messages that providers refuse and `--repair` fixes.

    Where a request is not translated, the provider may know the call of an orphaned result.
    """
    issues = [
        issue
        for issue in check_order(request.messages)
        if issue.code in _REFUSED_ORDER
        and (is_translated or issue.code is not OrderCode.RESULT_ORPHANED)
    ]
    if issues:
        first = f"messages[{issues[0].position}] {_REFUSED_ORDER[issues[0].code]}"
        others = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
        yield f"request: {first}{others}; providers refuse that: --repair mends it"


def _changes_vendor(source: Wire, target: Wire) -> bool:
    """Return whether the model has another name at the target, or does not exist there."""
    names = {source.NAME, target.NAME}
    return source is not target and names <= _PROVIDER_WIRES and not names <= _OPENAI_WIRES


def _print_foreign_body(body: bytes) -> None:
    """Print a body of a foreign wire, which need not be JSON."""
    if not sys.stdout.isatty() or read_as(body, dict[str, Any]) is not None:
        print_json(body)
        return
    with report_write_errors("stdout"):
        sys.stdout.buffer.write(terminal_text(body.decode(errors="replace")).encode() + b"\n")


# -- losses -----------------------------------------------------------------------------------


def _check_report_file(report: Path | None, source_file: str) -> None:
    """Refuse a report file that cannot be written or would replace the input."""
    if report is None:
        return
    if str(report) == "-":
        raise UsageError(
            "must be a file; without it the losses are told on stderr",
            code="report_not_a_file",
            place="--report",
        )
    if not is_shared_target(report) and not Path(os.path.realpath(report)).parent.is_dir():
        raise UsageError(
            "its folder is not there; make it first or write elsewhere",
            code="report_folder_missing",
            place="--report",
        )
    if _is_input_file(report, source_file):
        raise UsageError(
            "is the file that is read; choose another name",
            code="report_replaces_file",
            place="--report",
        )


def _is_input_file(report: Path, source_file: str) -> bool:
    """Return whether the report would replace the input."""
    try:
        source = os.fstat(sys.stdin.fileno()) if source_file == "-" else Path(source_file).stat()
        return stat.S_ISREG(source.st_mode) and os.path.samestat(report.stat(), source)
    except (OSError, ValueError):  # one of them is not there, or stdin is closed
        return False


def _report_losses(encoded: EncodedRequest, request: Request) -> Iterator[_ReportLine]:
    """Yield the losses; those of opaque messages name the unknown role."""
    roles = {
        f"messages[{number}].content[0]": role
        for number, message in enumerate(request.messages)
        if (role := _unknown_role(message)) is not None
    }
    for loss in encoded.losses:
        done = describe_change(loss)
        if loss.code is ChangeCode.OPAQUE and loss.place in roles:
            done = f'left out a message of role "{roles[loss.place]}", which is not understood'
        yield _ReportLine(loss.code, loss.place, done)


def _unknown_role(message: Message) -> str | None:
    """Return the unknown role of an opaque message; None for all other messages."""
    match message.content:
        case (Opaque() as block,):
            role = (read_as(block.raw.encode(), dict[str, Any]) or {}).get("role")
            return role if isinstance(role, str) and role not in _KNOWN_ROLES else None
        case _:
            return None


def _write_report(report: list[_ReportLine], file: Path | None) -> None:
    if file is None:
        for line in report:
            print(terminal_line(str(line)), file=sys.stderr)
        return
    write_file(file, msgspec.json.encode([line._asdict() for line in report]) + b"\n")


# -- reading a body ---------------------------------------------------------------------------


def _read_recorded_body(name: str) -> bytes:
    """Return the body in a file, or in stdin (`-`). Raises InvalidValue if it is packed."""
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
            "there is nothing in it; name a file, or pipe the body in",
            code="input_empty",
            place="input",
        )
    return data


def _read_bytes(name: str) -> bytes:
    if name == "-":
        if sys.stdin.isatty():
            print_notice("reading stdin; Ctrl-D ends it (to read a file, name it)")
        data = sys.stdin.buffer.read(_MAX_BYTES + 1)
    else:
        with Path(name).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise InvalidValue(
            f"more than {_MAX_BYTES:,} bytes; give the body of one answer or request",
            code="input_too_large",
            place="input",
        )
    return data


# -- advice on other data ---------------------------------------------------------------------


def _advice_for_decode(data: bytes, wire: str, *, is_stream: bool) -> str | None:
    """Return how to read a response that `wire` could not decode; None if nothing helps."""
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
        steps.append("leave out --stream")
    return f"this looks like {description}: {' and '.join(steps)}" if steps else None


def _advice_for_convert(data: bytes, wire: str) -> str | None:
    """Return how to read a request that `wire` could not decode; None if nothing helps."""
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
    step = f"try --from {names[0]}" if len(names) == 1 else "say with --from which it is"
    return f"this looks like {' or '.join(names)}: {step}"


def _suggest_other_wire(data: bytes, request: Request, wire: str) -> str | None:
    """Return which wires know clearly more of a request than `wire`, which decoded it, if any."""
    names = find_better_wires(data, request, wire)
    if not names:
        return None
    step = f"--from {names[0]}?" if len(names) == 1 else "--from one of them?"
    return f"this looks like {' or '.join(names)}: {step}"


def _advice_on_several(data: bytes, wire: str, command: str) -> str | None:
    """Return advice on bodies, one a line, and are not events of one stream."""
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
    return f"these are several values, one a line: give one: {command_line}"


def _advice_on_lines(data: bytes) -> str | None:
    """Return advice on events of which only the data was kept, one a line."""
    if not data.lstrip().startswith(b"{"):
        return None
    framed = b"".join([b"data: %b\n\n" % line for line in data[:SAMPLE_BYTES].splitlines() if line])
    names = guess_stream_wires(framed)
    if not names:
        return None
    return (
        f"these are events of {names[0]} without their frame: put it back: sed 's/^/data: /;G' FILE"
    )


def _advice_on_list(data: bytes, wire: str) -> str | None:
    """Return advice on messages without a request around them."""
    if wire not in WIRES or not read_as(data, list[dict[str, Any]]):
        return None
    return f"this is a list: put it into a request: jq '{{{messages_field(wire)}: .}}'"


def _advice_on_error(data: bytes) -> str | None:
    """Return the error that a server sent instead of a response."""
    body = read_as(data, dict[str, Any]) or {}
    if not any(body.get(name) for name in _ERROR_MEMBERS) or isinstance(body.get("message"), dict):
        return None  # a message with members is a message, and no error
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
    """Return advice on data that is no known body."""
    log = (read_as(data, dict[str, Any]) or {}).get("log")
    if isinstance(log, dict) and "entries" in log:
        return f"this looks like a HAR file: take one body out: jq -r '.log.entries[0]{place}'"
    if wire in WIRES and not data.lstrip().startswith((*STREAM_PREFIXES, *_JSON_PREFIXES)):
        return "this is neither JSON nor a stream: give the body, and nothing else"
    return None
