"""`steno convert`: a request of one protocol in the words of another, and what got lost."""

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
from steno.cli.commands import Misused
from steno.cli.likeness import advice_for_convert, doubt_about_convert
from steno.cli.output import is_shared, print_json, write_file, writing
from steno.cli.paper import note
from steno.cli.recorded import read_recorded
from steno.message import Message
from steno.order import OrderCode
from steno.printable import on_one_line, printable
from steno.wire import WIRES, Encoded, LossCode, Wire, retell
from steno.wire.extras import is_streamed, take_stream
from steno.wire.gathered import says_anything
from steno.wire.gemini.parts import SENTINEL
from steno.wire.open import Rest, read_as, text_of
from steno.wire.writing import messages_member

LOSSY: Final = 3
"""The exit status where something was lost, and that was forbidden."""
_ADDRESSED: Final = frozenset(WIRES) - {"chat"}
"""The wires that providers speak, each of which wants to know the model."""
_OF_OPENAI: Final = frozenset({"openai_chat", "openai_responses"})
"""The wires of one vendor, between which a model keeps its name."""
_ROLES: Final = frozenset({"assistant", "developer", "function", "model", "system", "tool", "user"})
"""Those that are known: a message of theirs is kept as a whole for another reason."""
_REFUSED: Final = {
    OrderCode.CALL_ID_REPEATED: "has two calls of one id",
    OrderCode.CALL_UNANSWERED: "has a call without a result",
    OrderCode.RESULT_ORPHANED: "is a result without a call",
    OrderCode.RESULT_REPEATED: "is a second result of one call",
    OrderCode.RESULT_EARLY: "is a result before its call",
    OrderCode.RESULT_LATE: "is a result too far behind its call",
}
"""What stands where providers refuse it."""


class _Line(NamedTuple):
    """One line of the report: something that was lost or repaired."""

    code: str
    place: str
    done: str

    def __str__(self) -> str:
        return f"{self.place}: {self.done} ({self.code})"


def convert(options: argparse.Namespace) -> int:
    """Print a request in other words, and tell what got lost."""
    source: Wire = options.source
    target: Wire = options.target
    _check_report(options.report, options.file)
    data = read_recorded(options.file)
    request = _request_in(data, source)
    doubt = doubt_about_convert(data, request, source.NAME)
    if doubt is not None:
        note(doubt)
    report: list[_Line] = []
    if options.repair:
        request, report = _repair(request)
    if options.model is not None:
        request = replace(request, model=options.model)
    encoded = retell(request, source=source, target=target)
    report += _lost(encoded, request)
    _tell(report, options.report)
    if target.NAME in WIRES:
        _print_ours(encoded, request, source=source, target=target)
        if options.model is None and _is_elsewhere(source, target) and request.model:
            kept = on_one_line(request.model)
            note(f"request: the model is {kept}, as it was; --model NAME asks another")
    else:
        _print_theirs(encoded.body)
    return LOSSY if options.strict and report else 0


def _request_in(data: bytes, source: Wire) -> Request:
    try:
        return source.decode_request(data)
    except InvalidValue as exc:
        advice = advice_for_convert(data, source.NAME)
        if advice is None:
            raise
        raise InvalidRequest(f"{exc}; {advice}") from exc


def _print_ours(encoded: Encoded, request: Request, *, source: Wire, target: Wire) -> None:
    """Print a body of a wire of ours, and what has to be known about it."""
    # Only its members: deep inside may be what Python has no value for.
    body = read_as(encoded.body, Rest) or {}
    if source is not target:
        _check_messages(body, target)
    print_json(encoded.body)
    for text in _notes(request, body, source=source, target=target):
        note(on_one_line(text))


def _print_theirs(body: bytes) -> None:
    """Print a body of somebody else's wire: what is in it, and whether it is JSON, it alone knows."""
    if not sys.stdout.isatty() or read_as(body, dict[str, Any]) is not None:
        print_json(body)
        return
    with writing("stdout"):
        sys.stdout.buffer.write(printable(body.decode(errors="replace")).encode() + b"\n")


def _check_messages(body: Rest, target: Wire) -> None:
    """Refuse a body without a message."""
    messages = body.get(messages_member(target.NAME))
    if messages is None or not says_anything(messages):
        raise InvalidRequest(
            "request: nothing is left to send; add a message, beside the system prompt, that "
            f"{target.NAME} has words for"
        )


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


# -- what is no loss, and has to be known ----------------------------------------------------


def _is_elsewhere(source: Wire, target: Wire) -> bool:
    """Tell whether a model will go by another name, or none of the kind be there."""
    names = {source.NAME, target.NAME}
    return source is not target and names <= _ADDRESSED and not names <= _OF_OPENAI


def _notes(request: Request, body: Rest, *, source: Wire, target: Wire) -> Iterator[str]:
    """Tell what a body does not say although the request does, or says although it does not."""
    if target.NAME == "gemini":
        if "model" not in body and (request.model or source is not target):
            stream = take_stream(request, source.NAME)[1]
            is_stream = is_streamed(stream, source.NAME)
            yield (
                "request: model and streaming are not in the body but in the address: "
                f"POST {_gemini_path(request.model, is_stream=bool(is_stream))}"
            )
        if source is not target and SENTINEL.encode() in bytes(body.get("contents", b"")):
            yield f"request: calls are signed {SENTINEL}, since gemini refuses those without"
    elif not request.model and source is not target and target.NAME in _ADDRESSED:
        yield "request: it names no model; add --model NAME"
    if target.NAME == "anthropic_messages" and source is not target and not request.max_tokens:
        yield (
            f"request: max_tokens is {text_of(body['max_tokens'])}, since it names none and "
            "anthropic_messages wants one"
        )
    if target.NAME in _ADDRESSED:
        yield from _note_order(request, is_translated=source is not target)


def _note_order(request: Request, *, is_translated: bool) -> Iterator[str]:
    """Tell once what providers refuse, and `--repair` puts right.

    Where a request stays what it was, the call of a result may be with the provider.
    """
    issues = [
        issue
        for issue in check_order(request.messages)
        if issue.code in _REFUSED and (is_translated or issue.code is not OrderCode.RESULT_ORPHANED)
    ]
    if issues:
        first = f"messages[{issues[0].position}] {_REFUSED[issues[0].code]}"
        others = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
        yield f"request: {first}{others}; providers refuse that: --repair mends it"


def _gemini_path(model: str, *, is_stream: bool) -> str:
    name = quote(model if "/" in model else f"models/{model or 'MODEL'}")
    method = "streamGenerateContent?alt=sse" if is_stream else "generateContent"
    return f"/v1beta/{name}:{method}"


# -- what got lost ---------------------------------------------------------------------------


def _check_report(report: Path | None, read: str) -> None:
    """Refuse a place for the report where it would do harm."""
    if report is None:
        return
    if str(report) == "-":
        raise Misused("--report: must be a file; without it the losses are told on stderr")
    if not is_shared(report) and not Path(os.path.realpath(report)).parent.is_dir():
        raise Misused("--report: its folder is not there; make it first or write elsewhere")
    if _is_read(report, read):
        raise Misused("--report: is the file that is read; choose another name")


def _is_read(report: Path, read: str) -> bool:
    """Tell whether a report would replace what is read."""
    try:
        source = os.fstat(sys.stdin.fileno()) if read == "-" else Path(read).stat()
        return stat.S_ISREG(source.st_mode) and os.path.samestat(report.stat(), source)
    except (OSError, ValueError):  # one of them is not there, or stdin is closed
        return False


def _lost(encoded: Encoded, request: Request) -> Iterator[_Line]:
    """Yield what got lost; of a message that was not understood, whose it was."""
    roles = {
        f"messages[{number}].content[0]": role
        for number, message in enumerate(request.messages)
        if (role := _strange_role(message)) is not None
    }
    for loss in encoded.losses:
        done = loss.done
        if loss.code is LossCode.OPAQUE and loss.place in roles:
            done = f'left out a message of role "{roles[loss.place]}", which is not understood'
        yield _Line(loss.code, loss.place, done)


def _strange_role(message: Message) -> str | None:
    """Return the role of a message that was kept as a whole, since nobody knows what it says."""
    match message.content:
        case (Opaque() as kept,):
            role = (read_as(kept.raw.encode(), dict[str, Any]) or {}).get("role")
            return role if isinstance(role, str) and role not in _ROLES else None
        case _:
            return None


def _tell(report: list[_Line], file: Path | None) -> None:
    if file is None:
        for line in report:
            print(on_one_line(str(line)), file=sys.stderr)
        return
    write_file(file, msgspec.json.encode([line._asdict() for line in report]) + b"\n")
