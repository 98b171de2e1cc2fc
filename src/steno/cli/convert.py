"""The command `steno convert`, which translates a request between protocols and reports losses."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from steno import InvalidRequest, InvalidValue, Opaque, Request, check_order, repair
from steno.app.commands.arguments import UsageError, argument, flag
from steno.cli.arguments import ExitStatus, Subparsers, add_command
from steno.cli.recorded_body import (
    WIRE_NAMES,
    advice_for_convert,
    body_argument,
    parse_wire,
    read_recorded_body,
    suggest_other_wire,
)
from steno.messages.change import ChangeCode
from steno.messages.message import Message
from steno.messages.order import OrderCode
from steno.render.changes import describe_change
from steno.render.output import (
    STDOUT,
    is_shared_target,
    print_json,
    report_write_errors,
    write_file,
)
from steno.render.table_output import print_notice
from steno.render.terminal_text import terminal_line, terminal_text
from steno.wire import WIRES, EncodedRequest, Wire, translate_request
from steno.wire.extras import is_streamed, pop_stream_flag
from steno.wire.gemini.payload import SIGNATURE_SENTINEL
from steno.wire.request_encoder import messages_field
from steno.wire.tolerant import RawMembers, is_nonempty_json, raw_text, read_as

_PROVIDER_WIRES: Final = frozenset(WIRES) - {"chat"}
"""The wires of providers, whose requests need the name of a model."""
_OPENAI_WIRES: Final = frozenset({"openai_chat", "openai_responses"})
"""The wires of OpenAI, which use the same names for models."""
_KNOWN_ROLES: Final = frozenset(
    {"assistant", "developer", "function", "model", "system", "tool", "user"}
)
"""Roles that steno knows; a message with one of these is opaque for another reason."""
_REFUSED_ORDER: Final = {
    OrderCode.CALL_ID_REPEATED: "has two calls with the same ID",
    OrderCode.CALL_UNANSWERED: "has a call without a result",
    OrderCode.RESULT_ORPHANED: "is a result without a call",
    OrderCode.RESULT_REPEATED: "is a second result for the same call",
    OrderCode.RESULT_EARLY: "is a result before its call",
    OrderCode.RESULT_LATE: "is a result too long after its call",
}
"""Violations of the order of messages that providers reject."""


def add_commands(commands: Subparsers) -> None:
    """Add the command to the command line."""
    wire: dict[str, Any] = {"required": True, "type": parse_wire, "metavar": "WIRE"}
    add_command(
        commands,
        "convert",
        _run_convert,
        "translate a request to another protocol",
        "Translate a request to another protocol. Content that the target protocol cannot "
        "express is listed on stderr, one line per change: the place, the change and a code. "
        "Values that are sent outside the body, such as the model in the URL, are also listed. "
        "The exit status is 1 if no message is left to send.",
        arguments=(
            argument(
                "--from", dest="source", help=f"the protocol of the input: {WIRE_NAMES}", **wire
            ),
            argument("--to", dest="target", help="the protocol of the output; see --from", **wire),
            argument(
                "--model",
                type=_parse_model,
                metavar="NAME",
                help="set the model of the request (default: the recorded model; the body of a "
                "Gemini request contains no model)",
            ),
            flag(
                "--repair",
                help="first repair messages that providers reject: calls without a result, and "
                "results without a call or out of order; repairs are listed like losses",
            ),
            argument(
                "--report",
                type=Path,
                metavar="FILE",
                help="write the losses to FILE as a JSON array instead of to stderr",
            ),
            flag(
                "--strict",
                help=f"exit with {ExitStatus.INCOMPLETE} if anything was lost or repaired",
            ),
            body_argument("a request"),
        ),
        epilog="example:\n  steno convert --from openai_chat --to anthropic_messages request.json",
    )


def _parse_model(name: str) -> str:
    if not name.strip():
        raise argparse.ArgumentTypeError("must not be blank; name a model or omit --model")
    return name


class _ReportLine(NamedTuple):
    """One line of the report: a loss or a repair."""

    code: str
    place: str
    explanation: str

    def __str__(self) -> str:
        return f"{self.place}: {self.explanation} ({self.code})"


def _run_convert(options: argparse.Namespace) -> int:
    """Print a request in another protocol, report the losses, and return the exit status."""
    source: Wire = options.source
    target: Wire = options.target
    _check_report_file(options.report, options.file)
    data = read_recorded_body(options.file)
    request = _decode_request(data, source)
    if suggestion := suggest_other_wire(data, request, source.NAME):
        print_notice(suggestion)
    report: list[_ReportLine] = []
    if options.repair:
        request, report = _repair_order(request)
    if options.model is not None:
        request = replace(request, model=options.model)
    encoded = translate_request(request, source=source, target=target)
    report += _report_losses(encoded, request)
    if options.report is None:
        for line in report:
            print(terminal_line(str(line)), file=sys.stderr)
    else:
        members = [line._asdict() for line in report]
        write_file(options.report, msgspec.json.encode(members) + b"\n")
    if target.NAME in WIRES:
        _print_builtin_body(encoded, request, source=source, target=target)
        names = {source.NAME, target.NAME}
        is_other_vendor = names <= _PROVIDER_WIRES and not names <= _OPENAI_WIRES
        is_model_kept = options.model is None and bool(request.model)
        if source is not target and is_other_vendor and is_model_kept:
            model = terminal_line(request.model)
            print_notice(f"request: the model is still {model}; change it with --model NAME")
    else:
        _print_external_body(encoded.body)
    return ExitStatus.INCOMPLETE if options.strict and report else ExitStatus.OK


def _decode_request(data: bytes, source: Wire) -> Request:
    try:
        return source.decode_request(data)
    except InvalidValue as exc:
        advice = advice_for_convert(data, source.NAME)
        if advice is None:
            raise
        raise InvalidRequest(f"{exc.message}; {advice}", code=exc.code, place=exc.place) from exc


def _repair_order(request: Request) -> tuple[Request, list[_ReportLine]]:
    """Repair the order of the messages; reported places refer to the recorded request.

    Raises InvalidRequest if no message is left.
    """
    messages, issues = repair(request.messages)
    if not messages:
        raise InvalidRequest(
            "the request has no message after the repair; add one",
            code="nothing_to_send",
            place="request",
        )
    report = [
        _ReportLine(issue.code, f"messages[{issue.position}]", f"repaired: {issue.remedy}")
        for issue in issues
    ]
    return replace(request, messages=messages), report


def _print_builtin_body(
    encoded: EncodedRequest, request: Request, *, source: Wire, target: Wire
) -> None:
    """Print a body of a built-in wire, and notes. Raises InvalidRequest if it has no message."""
    # Only the members are read, because Python may not be able to represent nested values.
    body = read_as(encoded.body, RawMembers) or {}
    messages = body.get(messages_field(target.NAME))
    if source is not target and (messages is None or not is_nonempty_json(messages)):
        raise InvalidRequest(
            f"the request has no message that {target.NAME} can express; add one (the system prompt "
            "does not count)",
            code="nothing_to_send",
            place="request",
        )
    print_json(encoded.body, escape=False)
    for text in _conversion_notes(request, body, source=source, target=target):
        print_notice(terminal_line(text))


def _conversion_notes(
    request: Request, body: RawMembers, *, source: Wire, target: Wire
) -> Iterator[str]:
    """Yield notes on values that are sent outside the body, and on values that were added."""
    if target.NAME == "gemini":
        if "model" not in body and (request.model or source is not target):
            stream = pop_stream_flag(request, source.NAME)[1]
            is_stream = is_streamed(stream, source.NAME)
            model = request.model
            name = quote(model if "/" in model else f"models/{model or 'MODEL'}")
            method = "streamGenerateContent?alt=sse" if is_stream else "generateContent"
            yield (
                "request: the URL names the model and the streaming mode: "
                f"POST /v1beta/{name}:{method}"
            )
        if source is not target and SIGNATURE_SENTINEL.encode() in bytes(body.get("contents", b"")):
            yield (
                f"request: calls have the signature {SIGNATURE_SENTINEL}, because gemini rejects "
                "unsigned calls"
            )
    elif not request.model and source is not target and target.NAME in _PROVIDER_WIRES:
        yield "request: no model is set; add --model NAME"
    if target.NAME == "anthropic_messages" and source is not target and not request.max_tokens:
        yield (
            f"request: max_tokens is set to {raw_text(body['max_tokens'])}, because the input has "
            "none and anthropic_messages requires it"
        )
    if target.NAME in _PROVIDER_WIRES:
        yield from _order_notes(request, is_translated=source is not target)


def _order_notes(request: Request, *, is_translated: bool) -> Iterator[str]:
    """Yield one note if the order of the messages is one that providers reject.

    In a request that is not translated, a result without a call is not reported, because the
    provider may have stored the call.
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
        yield f"request: {first}{others}; providers reject this; fix it with --repair"


def _print_external_body(body: bytes) -> None:
    """Print a body that was encoded by another package's wire, and may not be JSON."""
    if not sys.stdout.isatty() or read_as(body, dict[str, Any]) is not None:
        print_json(body, escape=False)
        return
    with report_write_errors(STDOUT):
        sys.stdout.buffer.write(terminal_text(body.decode(errors="replace")).encode() + b"\n")


# -- losses -----------------------------------------------------------------------------------


def _check_report_file(report: Path | None, source_file: str) -> None:
    """Raise UsageError if the report file cannot be written or would replace the input."""
    if report is None:
        return
    if str(report) == "-":
        raise UsageError(
            "must be a file; without --report, losses are printed on stderr",
            code="report_not_a_file",
            place="--report",
        )
    if not is_shared_target(report) and not Path(os.path.realpath(report)).parent.is_dir():
        raise UsageError(
            "the folder does not exist; create it or choose another file",
            code="report_folder_missing",
            place="--report",
        )
    if _is_input_file(report, source_file):
        raise UsageError(
            "is the input file; choose another name",
            code="report_replaces_file",
            place="--report",
        )


def _is_input_file(report: Path, source_file: str) -> bool:
    """Return whether the report would replace the input."""
    try:
        source = os.fstat(sys.stdin.fileno()) if source_file == "-" else Path(source_file).stat()
        return stat.S_ISREG(source.st_mode) and os.path.samestat(report.stat(), source)
    except (OSError, ValueError):  # one of them does not exist, or stdin is closed
        return False


def _report_losses(encoded: EncodedRequest, request: Request) -> Iterator[_ReportLine]:
    """Yield a line for each loss; the line of an opaque message names its unknown role."""
    roles = {
        f"messages[{number}].content[0]": role
        for number, message in enumerate(request.messages)
        if (role := _unknown_role(message)) is not None
    }
    for loss in encoded.losses:
        text = describe_change(loss)
        if loss.code is ChangeCode.OPAQUE and loss.place in roles:
            text = f'left out a message with the unknown role "{roles[loss.place]}"'
        yield _ReportLine(loss.code, loss.place, text)


def _unknown_role(message: Message) -> str | None:
    """Return the unknown role of an opaque message; None for any other message."""
    match message.content:
        case (Opaque() as block,):
            role = (read_as(block.raw.encode(), dict[str, Any]) or {}).get("role")
            return role if isinstance(role, str) and role not in _KNOWN_ROLES else None
        case _:
            return None
