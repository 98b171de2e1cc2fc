"""Read recorded traffic from a file or stdin, and guess its wire where it cannot be decoded.

Recordings come with things around the body. A byte order mark and the headers that `curl -i` prints
are removed; packed data is refused with advice on how to unpack it. To guess, every wire decodes the
data: as a complete response, as a request, as a stream. No wire reads a truncated stream to its end,
but only the right one yields events, or finds the name of a model.
"""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from steno.errors import InvalidValue, StenoError
from steno.messages.content import Opaque
from steno.messages.event import BlockAdded, Event, ExtrasAdded
from steno.messages.message import AssistantMessage
from steno.messages.request import Request
from steno.render.table_output import print_notice
from steno.wire import WIRES, Wire, load_wire
from steno.wire.errors import decode_error
from steno.wire.extras import FORM_KEY, get_extras
from steno.wire.request_encoder import messages_field
from steno.wire.tolerant import read_as

STREAM_PREFIXES: Final = (b"data:", b"event:", b":", b"id:", b"retry:")
"""The beginnings of server-sent events, and never of JSON."""
_JSON_PREFIXES: Final = (b"{", b"[")
_CANONICAL_WIRE: Final = "chat"
"""The wire that decodes nearly anything: the others are tried first."""
_WIRE_ORDER: Final = (*(name for name in WIRES if name != _CANONICAL_WIRE), _CANONICAL_WIRE)
_MODEL_MEMBERS: Final = {
    "anthropic_messages": "model",
    "gemini": "modelVersion",
    "openai_chat": "model",
    "openai_responses": "model",
}
"""The member of an envelope that names the model, where it comes before the content."""
_SAMPLE_BYTES: Final = 1 << 20
"""How much of a stream is enough to guess its wire."""
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
_Scorer: TypeAlias = Callable[[Wire, bytes], int | None]


# -- reading a body ---------------------------------------------------------------------------


def read_recorded_body(name: str) -> bytes:
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


# -- guessing the wire ------------------------------------------------------------------------


class RecordingKind(Enum):
    """A kind of recorded body."""

    RESPONSE = "a whole answer"
    REQUEST = "a request"
    STREAM = "a stream"


class WireGuess(NamedTuple):
    """The likely kind of some data, and its likely wires, the likeliest first."""

    kind: RecordingKind
    wires: tuple[str, ...]


def guess_wire(data: bytes) -> WireGuess | None:
    """Guess kind and wire of some data; None if no wire decodes anything."""
    is_object = read_as(data, dict[str, Any]) is not None
    for kind, score in _SCORERS.items():
        if kind is not RecordingKind.STREAM and not is_object:
            continue
        # An object that names a model may be anything.
        is_doubtful = kind is RecordingKind.STREAM and is_object
        names = _best_wires(_score_wires(_score_events if is_doubtful else score, data))
        if names:
            return WireGuess(kind, names)
    return None


def _score_wires(score: _Scorer, data: bytes) -> dict[str, int | None]:
    return {name: score(load_wire(name), data) for name in _WIRE_ORDER}


def _best_wires(scores: dict[str, int | None]) -> tuple[str, ...]:
    """Return the wires with the highest score, if any has one."""
    best = max((number for number in scores.values() if number is not None), default=None)
    return tuple(name for name in scores if best is not None and scores[name] == best)


def count_understood(message: AssistantMessage) -> int:
    """Return how many blocks of a message are not opaque."""
    return sum(not isinstance(block, Opaque) for block in message.content)


def _score_response(wire: Wire, data: bytes) -> int | None:
    with suppress(StenoError):
        message = wire.decode_response(data)
        facts = (message.usage, message.raw_stop_reason)
        return count_understood(message) + sum(fact is not None for fact in facts) or None
    return None


def _score_request(wire: Wire, data: bytes) -> int | None:
    """Score by the number of unknown members: most wires read anything that has messages."""
    if wire.NAME == _CANONICAL_WIRE:
        return None
    with suppress(StenoError):
        return -_count_unknown_members(wire.decode_request(data), wire.NAME)
    return None


def _score_stream(wire: Wire, data: bytes) -> int | None:
    number, envelope = _count_events(wire, data)
    return number + bool(envelope.get(_MODEL_MEMBERS.get(wire.NAME, ""))) or None


def _score_events(wire: Wire, data: bytes) -> int | None:
    """Score a stream by its events: many things name a model."""
    return _count_events(wire, data)[0] or None


def _count_events(wire: Wire, data: bytes) -> tuple[int, Mapping[str, Any]]:
    """Return how many events of a stream are understood, and its envelope."""
    decoder = wire.StreamDecoder()
    number = 0
    try:
        for event in decoder.feed(data[:_SAMPLE_BYTES]):
            number += _is_understood(event)
        for event in decoder.close():
            number += _is_understood(event)
    except StenoError:
        if wire.NAME == _CANONICAL_WIRE:  # it has read members of foreign events until then
            return 0, {}
    return number, decoder.envelope


def _is_understood(event: Event) -> bool:
    is_opaque = isinstance(event, BlockAdded) and isinstance(event.block, Opaque)
    return not is_opaque and not isinstance(event, ExtrasAdded)


_SCORERS: Final[dict[RecordingKind, _Scorer]] = {
    RecordingKind.RESPONSE: _score_response,
    RecordingKind.REQUEST: _score_request,
    RecordingKind.STREAM: _score_stream,
}
"""The scorer of each kind, which returns None for nothing; in the order they are tried."""


# -- members of a request that a wire does not know -------------------------------------------


_KNOWN_MEMBER_TEXT: Final = {
    "anthropic_messages": """
        cache_control citations container context_management mcp_servers metadata output_config
        output_format service_tier stream thinking top_k
    """,
    "ollama_chat": "format keep_alive logprobs options stream think top_logprobs",
    "openai_chat": """
        audio frequency_penalty function_call functions logit_bias logprobs metadata modalities n
        name parallel_tool_calls prediction presence_penalty prompt_cache_key reasoning_effort
        refusal response_format safety_identifier seed service_tier store stream stream_options
        thinking top_logprobs user verbosity web_search_options
    """,
}
_KNOWN_MEMBERS: Final = {
    wire: frozenset(names.split()) for wire, names in _KNOWN_MEMBER_TEXT.items()
}
"""Members that a protocol has and steno does not: they are no sign of another protocol."""
_UNUSUAL_FORMS: Final[dict[str, dict[str, object]]] = {
    "anthropic_messages": {"max_tokens": "absent", "in_messages": True},
    "ollama_chat": {"arguments": "string"},
    "openai_chat": {"arguments_are": "object"},
}
"""Forms that are rare in a protocol."""
_DISTINCTIVE_MEMBERS: Final = frozenset(
    {
        "image_url",
        "images",
        "input_schema",
        "max_completion_tokens",
        "options",
        "response_format",
        "stop_sequences",
        "system",
        "tool_name",
        "tool_use_id",
    }
)
"""Members of exactly one protocol: they count twice where a wire does not know them."""
_CLEAR_MARGIN: Final = 2
"""How many more members another wire has to know: servers have members of their own."""


def _count_unknown_members(request: Request, wire: str) -> int:
    """Count the members, at all depths, that a wire does not know.

    Each name counts once, so that the length of a conversation does not matter.
    """
    blocks = [block for message in request.messages for block in message.content]
    names: set[str] = set()
    for value in (request, *request.tools, *request.messages, *blocks):
        if isinstance(value, Opaque):
            names |= {value.kind, *_member_names(read_as(value.raw.encode(), dict[str, Any]))}
        else:
            names |= _unknown_extras(get_extras(value, wire), wire)
    return len(names) + len(names & _DISTINCTIVE_MEMBERS)


def _unknown_extras(extras: Mapping[str, Any], wire: str) -> set[str]:
    form = extras.get(FORM_KEY, {})
    unusual = {
        name for name, found in _UNUSUAL_FORMS.get(wire, {}).items() if form.get(name) == found
    }
    known = {FORM_KEY, *_KNOWN_MEMBERS.get(wire, ())}
    return unusual.union(
        _member_names({name: extras[name] for name in extras if name not in known})
    )


def _member_names(value: object) -> Iterator[str]:
    """Yield the names of the members at all depths, without recursion."""
    pending = [value]
    while pending:
        match pending.pop():
            case dict() as members:
                yield from members
                pending += members.values()
            case list() as items:
                pending += items
            case _:
                pass


# -- advice -----------------------------------------------------------------------------------


def advice_for_decode(data: bytes, wire: str, *, is_stream: bool) -> str | None:
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
        description = kind.value if name == wire else f"{kind.value} of {name}"
    steps = [f"try {' '.join(options)}"] if options else []
    if kind is RecordingKind.RESPONSE and is_stream:
        steps.append("leave out --stream")
    return f"this looks like {description}: {' and '.join(steps)}" if steps else None


def advice_for_convert(data: bytes, wire: str) -> str | None:
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
        return f"this looks like {kind.value}: try steno decode --wire {names[0]}{stream}"
    if wire in names:
        return None
    todo = f"try --from {names[0]}" if len(names) == 1 else "say with --from which it is"
    return f"this looks like {' or '.join(names)}: {todo}"


def suggest_other_wire(data: bytes, request: Request, wire: str) -> str | None:
    """Return which wires know clearly more of a request than `wire`, which decoded it; None if none.

    A wire that is not built in is never doubted.
    """
    if wire not in WIRES or wire == _CANONICAL_WIRE:
        return None
    unknown = _count_unknown_members(request, wire)
    if unknown < _CLEAR_MARGIN:
        return None
    scores = _score_wires(_score_request, data)
    names = _best_wires(scores)
    if not names or unknown + (scores[names[0]] or 0) < _CLEAR_MARGIN:
        return None
    todo = f"--from {names[0]}?" if len(names) == 1 else "--from one of them?"
    return f"this looks like {' or '.join(names)}: {todo}"


def _advice_on_several(data: bytes, wire: str, command: str) -> str | None:
    """Return advice on bodies that stand one a line, and are not events of one stream."""
    lines = [line for line in data.split(b"\n", 3) if line.strip()][:2]
    if len(lines) < 2 or not all(read_as(line, dict[str, Any]) for line in lines):
        return None
    guess = _guess_complete_line(lines[0])
    if guess is not None:
        command = _CONVERT_COMMAND if guess.kind is RecordingKind.REQUEST else _DECODE_COMMAND
        if wire not in guess.wires:
            wire = guess.wires[0] if len(guess.wires) == 1 else "WIRE"
    elif _best_wires(_score_wires(_score_events, data)) or _advice_on_lines(data):
        return None
    command_line = f"sed -n 1p FILE | {command.format(wire)}"
    return f"these are several values, one a line: give one: {command_line}"


def _guess_complete_line(line: bytes) -> WireGuess | None:
    """Guess the wire of a complete body; an event may have the shape of a response."""
    guess = guess_wire(line)
    match guess:
        case WireGuess(RecordingKind.REQUEST):
            return guess
        case WireGuess(RecordingKind.RESPONSE, (name, *_)):
            has_ended = load_wire(name).decode_response(line).raw_stop_reason is not None
            return guess if has_ended else None
        case _:
            return None


def _advice_on_lines(data: bytes) -> str | None:
    """Return advice on events of which only the data was kept, one a line."""
    if not data.lstrip().startswith(b"{"):
        return None
    framed = b"".join(
        [b"data: %b\n\n" % line for line in data[:_SAMPLE_BYTES].splitlines() if line]
    )
    names = _best_wires(_score_wires(_score_events, framed))
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
