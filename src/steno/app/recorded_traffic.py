"""What recorded data looks like, where it cannot be read as what it was said to be.

Every wire of ours tries it: as a whole answer, as a request, as a stream. A stream that was cut is
read by none of them to its end, but only its own yields events, or finds the name of a model.
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
"""How server-sent events begin, and JSON does not."""


_JSON_PREFIXES: Final = (b"{", b"[")


_CANONICAL_WIRE: Final = "chat"
"""The wire that makes something of nearly anything: others go first."""


_WIRE_ORDER: Final = (*(name for name in WIRES if name != _CANONICAL_WIRE), _CANONICAL_WIRE)


_MODEL_MEMBERS: Final = {
    "anthropic_messages": "model",
    "gemini": "modelVersion",
    "openai_chat": "model",
    "openai_responses": "model",
}
"""Under which name an envelope has the model, where that is told before anything is said."""


_SAMPLE_BYTES: Final = 1 << 20
"""So much of a stream tells what it is."""


_HAR_REQUEST: Final = ".request.postData.text"


_HAR_RESPONSE: Final = ".response.content.text"
"""Where in an entry of a HAR file the bodies are."""


_ERROR_MEMBERS: Final = ("message", "detail", "details", "errors", "error_description", "msg")
"""Where servers, and what stands in front of them, say what is wrong, with no `error` around it."""


_DECODE_COMMAND: Final = "steno decode --wire {}"


_CONVERT_COMMAND: Final = "steno convert --from {} --to WIRE"


_Scorer: TypeAlias = Callable[[Wire, bytes], int | None]


class RecordingKind(Enum):
    """What may be recorded."""

    ANSWER = "a whole answer"
    REQUEST = "a request"
    STREAM = "a stream"


class WireGuess(NamedTuple):
    """What data looks like, and to which wires, the likeliest first."""

    kind: RecordingKind
    wires: tuple[str, ...]


def guess_wire(data: bytes) -> WireGuess | None:
    """Return what data looks like to our wires; None if none makes anything of it."""
    is_object = read_as(data, dict[str, Any]) is not None
    for kind, measure in _SCORERS.items():
        if kind is not RecordingKind.STREAM and not is_object:
            continue
        # What names a model may be anything.
        is_doubtful = kind is RecordingKind.STREAM and is_object
        names = _best_wires(_score_wires(_score_events if is_doubtful else measure, data))
        if names:
            return WireGuess(kind, names)
    return None


def _score_wires(measure: _Scorer, data: bytes) -> dict[str, int | None]:
    return {name: measure(load_wire(name), data) for name in _WIRE_ORDER}


def _best_wires(found: dict[str, int | None]) -> tuple[str, ...]:
    """Return the names that have the highest number, if any has one."""
    best = max((number for number in found.values() if number is not None), default=None)
    return tuple(name for name in found if best is not None and found[name] == best)


def count_understood(message: AssistantMessage) -> int:
    """Return how many blocks of a message mean anything to us."""
    return sum(not isinstance(block, Opaque) for block in message.content)


def _score_response(wire: Wire, data: bytes) -> int | None:
    with suppress(StenoError):
        message = wire.decode_response(data)
        said = (message.usage, message.raw_stop_reason)
        return count_understood(message) + sum(one is not None for one in said) or None
    return None


def _score_request(wire: Wire, data: bytes) -> int | None:
    """Measure by what is not understood: most wires read anything that has messages."""
    if wire.NAME == _CANONICAL_WIRE:
        return None
    with suppress(StenoError):
        return -_count_unknown_members(wire.decode_request(data), wire.NAME)
    return None


def _score_stream(wire: Wire, data: bytes) -> int | None:
    number, envelope = _count_events(wire, data)
    return number + bool(envelope.get(_MODEL_MEMBERS.get(wire.NAME, ""))) or None


def _score_events(wire: Wire, data: bytes) -> int | None:
    """Measure a stream by what is said in it: many things name a model."""
    return _count_events(wire, data)[0] or None


def _count_events(wire: Wire, data: bytes) -> tuple[int, Mapping[str, Any]]:
    """Return how many events of a stream mean anything, and what is said beside them."""
    decoder = wire.StreamDecoder()
    number = 0
    try:
        for event in decoder.feed(data[:_SAMPLE_BYTES]):
            number += _is_understood(event)
        for event in decoder.close():
            number += _is_understood(event)
    except StenoError:
        if wire.NAME == _CANONICAL_WIRE:  # which has read members of others' events until then
            return 0, {}
    return number, decoder.envelope


def _is_understood(event: Event) -> bool:
    is_opaque = isinstance(event, BlockAdded) and isinstance(event.block, Opaque)
    return not is_opaque and not isinstance(event, ExtrasAdded)


_SCORERS: Final[dict[RecordingKind, _Scorer]] = {
    RecordingKind.ANSWER: _score_response,
    RecordingKind.REQUEST: _score_request,
    RecordingKind.STREAM: _score_stream,
}
"""How much a wire makes of data, None for nothing; the kinds in the order they are tried."""


# -- what a request has that its wire does not know ------------------------------------------

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
    wire: frozenset(words.split()) for wire, words in _KNOWN_MEMBER_TEXT.items()
}
"""Members that a protocol has, and our vocabulary does not: they are no sign of another one."""


_UNUSUAL_FORMS: Final[dict[str, dict[str, object]]] = {
    "anthropic_messages": {"max_tokens": "absent", "in_messages": True},
    "ollama_chat": {"arguments": "string"},
    "openai_chat": {"arguments_are": "object"},
}
"""Notes on how something was written that hardly anybody writes so in this protocol."""


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
"""Names that one protocol alone has: where a wire does not know them, they count twice."""


_CLEAR_MARGIN: Final = 2
"""By so much another wire has to know more: servers have names of their own."""


def _count_unknown_members(request: Request, wire: str) -> int:
    """Count the names, at all depths, that a wire has kept without knowing them.

    Each counts once: a long history says no more about its protocol than a short one.
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
    odd = {name for name, found in _UNUSUAL_FORMS.get(wire, {}).items() if form.get(name) == found}
    known = {FORM_KEY, *_KNOWN_MEMBERS.get(wire, ())}
    return odd.union(_member_names({name: extras[name] for name in extras if name not in known}))


def _member_names(value: object) -> Iterator[str]:
    """Yield the names of the members at all depths, however deep that is."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case dict() as members:
                yield from members
                waiting += members.values()
            case list() as items:
                waiting += items
            case _:
                pass


# -- in words --------------------------------------------------------------------------------


def advice_for_decode(data: bytes, wire: str, *, is_stream: bool) -> str | None:
    """Say how an answer can be read that `wire` could not read; None if there is nothing to say."""
    several = _advice_on_several(data, wire, _DECODE_COMMAND)
    if several is not None:
        return several
    found = guess_wire(data)
    if found is None:
        return (
            _advice_on_lines(data)
            or _advice_on_file(data, wire, _HAR_RESPONSE)
            or _advice_on_error(data)
        )
    kind, names = found
    name = wire if wire in names else names[0]
    if kind is RecordingKind.REQUEST:
        sources = name if wire in names else " or ".join(names)
        return f"this looks like a request: try steno convert --from {sources}"
    options = [] if name == wire else [f"--wire {name}"]
    if kind is RecordingKind.STREAM and not is_stream:
        options.append("--stream")
    if (kind is RecordingKind.STREAM) == is_stream:
        what = name
    else:
        what = kind.value if name == wire else f"{kind.value} of {name}"
    todo = [f"try {' '.join(options)}"] if options else []
    if kind is RecordingKind.ANSWER and is_stream:
        todo.append("leave out --stream")
    return f"this looks like {what}: {' and '.join(todo)}" if todo else None


def advice_for_convert(data: bytes, wire: str) -> str | None:
    """Say how a request can be read that `wire` could not read; None if there is nothing to say."""
    several = _advice_on_several(data, wire, _CONVERT_COMMAND)
    if several is not None:
        return several
    found = guess_wire(data)
    if found is None:
        return _advice_on_list(data, wire) or _advice_on_file(data, wire, _HAR_REQUEST)
    kind, names = found
    if kind is not RecordingKind.REQUEST:
        stream = " --stream" if kind is RecordingKind.STREAM else ""
        return f"this looks like {kind.value}: try steno decode --wire {names[0]}{stream}"
    if wire in names:
        return None
    todo = f"try --from {names[0]}" if len(names) == 1 else "say with --from which it is"
    return f"this looks like {' or '.join(names)}: {todo}"


def suggest_other_wire(data: bytes, request: Request, wire: str) -> str | None:
    """Say which wires know clearly more of a request than `wire`, which has read it; None if none.

    One of somebody else's is not doubted: what it knows, it alone can tell.
    """
    if wire not in WIRES or wire == _CANONICAL_WIRE:
        return None
    strange = _count_unknown_members(request, wire)
    if strange < _CLEAR_MARGIN:
        return None
    found = _score_wires(_score_request, data)
    names = _best_wires(found)
    if not names or strange + (found[names[0]] or 0) < _CLEAR_MARGIN:
        return None
    todo = f"--from {names[0]}?" if len(names) == 1 else "--from one of them?"
    return f"this looks like {' or '.join(names)}: {todo}"


def _advice_on_several(data: bytes, wire: str, command: str) -> str | None:
    """Say what to do about bodies that stand one a line, and are no events of one stream."""
    lines = [line for line in data.split(b"\n", 3) if line.strip()][:2]
    if len(lines) < 2 or not all(read_as(line, dict[str, Any]) for line in lines):
        return None
    found = _guess_complete_line(lines[0])
    if found is not None:
        command = _CONVERT_COMMAND if found.kind is RecordingKind.REQUEST else _DECODE_COMMAND
        if wire not in found.wires:
            wire = found.wires[0] if len(found.wires) == 1 else "WIRE"
    elif _best_wires(_score_wires(_score_events, data)) or _advice_on_lines(data):
        return None
    one = f"sed -n 1p FILE | {command.format(wire)}"
    return f"these are several values, one a line: give one: {one}"


def _guess_complete_line(line: bytes) -> WireGuess | None:
    """Return what a line looks like that says all there is: an event may have an answer's shape."""
    found = guess_wire(line)
    match found:
        case WireGuess(RecordingKind.REQUEST):
            return found
        case WireGuess(RecordingKind.ANSWER, (name, *_)):
            has_ended = load_wire(name).decode_response(line).raw_stop_reason is not None
            return found if has_ended else None
        case _:
            return None


def _advice_on_lines(data: bytes) -> str | None:
    """Say what to do about events whose data alone was kept, one a line."""
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
    """Say what to do about messages without a request around them."""
    if wire not in WIRES or not read_as(data, list[dict[str, Any]]):
        return None
    return f"this is a list: put it into a request: jq '{{{messages_field(wire)}: .}}'"


def _advice_on_error(data: bytes) -> str | None:
    """Say what a server has to say in place of an answer."""
    body = read_as(data, dict[str, Any]) or {}
    if not any(body.get(name) for name in _ERROR_MEMBERS) or isinstance(body.get("message"), dict):
        return None  # a message with members is somebody's, and no complaint
    match body:
        case {"errors": [dict() as first, *_]}:
            body = first
        case {"errors": found} if "message" not in body:
            body = {"message": found}
        case _:
            pass
    said = decode_error(400, msgspec.json.encode(body))
    kind = said.provider_code or said.provider_type
    return f"this looks like an error: {said.message}" + (f" ({kind})" if kind else "")


def _advice_on_file(data: bytes, wire: str, place: str) -> str | None:
    """Say what to do about data that is no body of anything we know."""
    log = (read_as(data, dict[str, Any]) or {}).get("log")
    if isinstance(log, dict) and "entries" in log:
        return f"this looks like a HAR file: take one body out: jq -r '.log.entries[0]{place}'"
    if wire in WIRES and not data.lstrip().startswith((*STREAM_PREFIXES, *_JSON_PREFIXES)):
        return "this is neither JSON nor a stream: give the body, and nothing else"
    return None


# -- recorded --------------------------------------------------------------------------------------
#
# Read what was recorded: the body of an answer or of a request, from a file or from stdin.
#
# Recordings come with things around the body. What can be left out is: a byte order mark, and the
# headers that `curl -i` prints. What has to be unpacked first is refused with how to do that. This
# file knows no protocol.


_MAX_BYTES: Final = 256 * 1024 * 1024
"""More than this nobody asks or answers; it would be held in memory more than once."""


_HTTP_HEADERS: Final = re.compile(
    rb"(?:(?:HTTP/[\d.]+ \d{3}|[A-Z]+ \S+ HTTP/[\d.]+).*\n(?:.+\n)*?\r?(?:\n|\Z))+"
)
"""Headers, up to their empty line; those of a proxy or of an answer to `100-continue` before."""


_PACKED_FORMS: Final = {
    b"\x1f\x8b": "it is compressed (gzip); unpack it first: gzip -dc, or curl --compressed",
    b"\x28\xb5\x2f\xfd": "it is compressed (zstd); unpack it first: zstd -dc",
    b"PK\x03\x04": "it is an archive (zip); unpack it first",
    codecs.BOM_UTF16_LE: "it is UTF-16; save it as UTF-8",
    codecs.BOM_UTF16_BE: "it is UTF-16; save it as UTF-8",
    b'"': "it is a JSON string with the body inside; take it out first: jq -r .",
}
"""What to do about data that begins with this, which no body does."""


def read_recorded_body(name: str) -> bytes:
    """Return the body in a file, or in stdin (`-`). Raises InvalidValue if it is packed."""
    data = _read_bytes(name).removeprefix(codecs.BOM_UTF8)
    head = _HTTP_HEADERS.match(data)
    if head is not None:
        data = data[head.end() :]
    start = data[:64].lstrip()
    for mark, advice in _PACKED_FORMS.items():
        if start.startswith(mark):
            raise InvalidValue(f"input: {advice}")
    if not start and not data.strip():
        raise InvalidValue("input: there is nothing in it; name a file, or pipe the body in")
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
            f"input: more than {_MAX_BYTES:,} bytes; give the body of one answer or request"
        )
    return data
