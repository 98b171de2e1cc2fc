"""What recorded data looks like, where it cannot be read as what it was said to be.

Every wire of ours tries it: as a whole answer, as a request, as a stream. A stream that was cut is
read by none of them to its end, but only its own yields events, or finds the name of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from steno.content import Opaque
from steno.errors import StenoError
from steno.event import BlockAdded, Event, ExtrasAdded
from steno.message import AssistantMessage
from steno.request import Request
from steno.wire import WIRES, Wire, load_wire
from steno.wire.extras import FORM, extras_for
from steno.wire.fault import decode_error
from steno.wire.open import read_as
from steno.wire.writing import messages_member

STREAM_STARTS: Final = (b"data:", b"event:", b":", b"id:", b"retry:")
"""How server-sent events begin, and JSON does not."""
_JSON_STARTS: Final = (b"{", b"[")
_OURS: Final = "chat"
"""The wire that makes something of nearly anything: others go first."""
_NAMES: Final = (*(name for name in WIRES if name != _OURS), _OURS)
_MODEL: Final = {
    "anthropic_messages": "model",
    "gemini": "modelVersion",
    "openai_chat": "model",
    "openai_responses": "model",
}
"""Under which name an envelope has the model, where that is told before anything is said."""
_ENOUGH: Final = 1 << 20
"""So much of a stream tells what it is."""
_REQUEST: Final = ".request.postData.text"
_RESPONSE: Final = ".response.content.text"
"""Where in an entry of a HAR file the bodies are."""
_COMPLAINTS: Final = ("message", "detail", "details", "errors", "error_description", "msg")
"""Where servers, and what stands in front of them, say what is wrong, with no `error` around it."""
_DECODE: Final = "steno decode --wire {}"
_CONVERT: Final = "steno convert --from {} --to WIRE"

_Measure: TypeAlias = Callable[[Wire, bytes], int | None]


class Kind(Enum):
    """What may be recorded."""

    ANSWER = "a whole answer"
    REQUEST = "a request"
    STREAM = "a stream"


class Likeness(NamedTuple):
    """What data looks like, and to which wires, the likeliest first."""

    kind: Kind
    wires: tuple[str, ...]


def likeness_of(data: bytes) -> Likeness | None:
    """Return what data looks like to our wires; None if none makes anything of it."""
    is_object = read_as(data, dict[str, Any]) is not None
    for kind, measure in _MEASURES.items():
        if kind is not Kind.STREAM and not is_object:
            continue
        # What names a model may be anything.
        is_doubtful = kind is Kind.STREAM and is_object
        names = _best(_measured(_spoken if is_doubtful else measure, data))
        if names:
            return Likeness(kind, names)
    return None


def _measured(measure: _Measure, data: bytes) -> dict[str, int | None]:
    return {name: measure(load_wire(name), data) for name in _NAMES}


def _best(found: dict[str, int | None]) -> tuple[str, ...]:
    """Return the names that have the highest number, if any has one."""
    best = max((number for number in found.values() if number is not None), default=None)
    return tuple(name for name in found if best is not None and found[name] == best)


def understood(message: AssistantMessage) -> int:
    """Return how many blocks of a message mean anything to us."""
    return sum(not isinstance(block, Opaque) for block in message.content)


def _answer(wire: Wire, data: bytes) -> int | None:
    with suppress(StenoError):
        message = wire.decode_response(data)
        said = (message.usage, message.raw_stop_reason)
        return understood(message) + sum(one is not None for one in said) or None
    return None


def _request(wire: Wire, data: bytes) -> int | None:
    """Measure by what is not understood: most wires read anything that has messages."""
    if wire.NAME == _OURS:
        return None
    with suppress(StenoError):
        return -_strange(wire.decode_request(data), wire.NAME)
    return None


def _stream(wire: Wire, data: bytes) -> int | None:
    number, envelope = _heard(wire, data)
    return number + bool(envelope.get(_MODEL.get(wire.NAME, ""))) or None


def _spoken(wire: Wire, data: bytes) -> int | None:
    """Measure a stream by what is said in it: many things name a model."""
    return _heard(wire, data)[0] or None


def _heard(wire: Wire, data: bytes) -> tuple[int, Mapping[str, Any]]:
    """Return how many events of a stream mean anything, and what is said beside them."""
    decoder = wire.StreamDecoder()
    number = 0
    try:
        for event in decoder.feed(data[:_ENOUGH]):
            number += _is_understood(event)
        for event in decoder.close():
            number += _is_understood(event)
    except StenoError:
        if wire.NAME == _OURS:  # which has read members of others' events until then
            return 0, {}
    return number, decoder.envelope


def _is_understood(event: Event) -> bool:
    is_opaque = isinstance(event, BlockAdded) and isinstance(event.block, Opaque)
    return not is_opaque and not isinstance(event, ExtrasAdded)


_MEASURES: Final[dict[Kind, _Measure]] = {
    Kind.ANSWER: _answer,
    Kind.REQUEST: _request,
    Kind.STREAM: _stream,
}
"""How much a wire makes of data, None for nothing; the kinds in the order they are tried."""


# -- what a request has that its wire does not know ------------------------------------------

_WORDS: Final = {
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
_KNOWN: Final = {wire: frozenset(words.split()) for wire, words in _WORDS.items()}
"""Members that a protocol has, and our vocabulary does not: they are no sign of another one."""
_ODD: Final[dict[str, dict[str, object]]] = {
    "anthropic_messages": {"max_tokens": "absent", "in_messages": True},
    "ollama_chat": {"arguments": "string"},
    "openai_chat": {"arguments_are": "object"},
}
"""Notes on how something was written that hardly anybody writes so in this protocol."""
_SIGNS: Final = frozenset(
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
_CLEARLY: Final = 2
"""By so much another wire has to know more: servers have names of their own."""


def _strange(request: Request, wire: str) -> int:
    """Count the names, at all depths, that a wire has kept without knowing them.

    Each counts once: a long history says no more about its protocol than a short one.
    """
    blocks = [block for message in request.messages for block in message.content]
    names: set[str] = set()
    for value in (request, *request.tools, *request.messages, *blocks):
        if isinstance(value, Opaque):
            names |= {value.kind, *_names_in(read_as(value.raw.encode(), dict[str, Any]))}
        else:
            names |= _strange_extras(extras_for(value, wire), wire)
    return len(names) + len(names & _SIGNS)


def _strange_extras(extras: Mapping[str, Any], wire: str) -> set[str]:
    form = extras.get(FORM, {})
    odd = {name for name, found in _ODD.get(wire, {}).items() if form.get(name) == found}
    known = {FORM, *_KNOWN.get(wire, ())}
    return odd.union(_names_in({name: extras[name] for name in extras if name not in known}))


def _names_in(value: object) -> Iterator[str]:
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
    several = _advice_on_several(data, wire, _DECODE)
    if several is not None:
        return several
    found = likeness_of(data)
    if found is None:
        return (
            _advice_on_lines(data)
            or _advice_on_file(data, wire, _RESPONSE)
            or _advice_on_error(data)
        )
    kind, names = found
    name = wire if wire in names else names[0]
    if kind is Kind.REQUEST:
        sources = name if wire in names else " or ".join(names)
        return f"this looks like a request: try steno convert --from {sources}"
    options = [] if name == wire else [f"--wire {name}"]
    if kind is Kind.STREAM and not is_stream:
        options.append("--stream")
    if (kind is Kind.STREAM) == is_stream:
        what = name
    else:
        what = kind.value if name == wire else f"{kind.value} of {name}"
    todo = [f"try {' '.join(options)}"] if options else []
    if kind is Kind.ANSWER and is_stream:
        todo.append("leave out --stream")
    return f"this looks like {what}: {' and '.join(todo)}" if todo else None


def advice_for_convert(data: bytes, wire: str) -> str | None:
    """Say how a request can be read that `wire` could not read; None if there is nothing to say."""
    several = _advice_on_several(data, wire, _CONVERT)
    if several is not None:
        return several
    found = likeness_of(data)
    if found is None:
        return _advice_on_list(data, wire) or _advice_on_file(data, wire, _REQUEST)
    kind, names = found
    if kind is not Kind.REQUEST:
        stream = " --stream" if kind is Kind.STREAM else ""
        return f"this looks like {kind.value}: try steno decode --wire {names[0]}{stream}"
    if wire in names:
        return None
    todo = f"try --from {names[0]}" if len(names) == 1 else "say with --from which it is"
    return f"this looks like {' or '.join(names)}: {todo}"


def doubt_about_convert(data: bytes, request: Request, wire: str) -> str | None:
    """Say which wires know clearly more of a request than `wire`, which has read it; None if none.

    One of somebody else's is not doubted: what it knows, it alone can tell.
    """
    if wire not in WIRES or wire == _OURS:
        return None
    strange = _strange(request, wire)
    if strange < _CLEARLY:
        return None
    found = _measured(_request, data)
    names = _best(found)
    if not names or strange + (found[names[0]] or 0) < _CLEARLY:
        return None
    todo = f"--from {names[0]}?" if len(names) == 1 else "--from one of them?"
    return f"this looks like {' or '.join(names)}: {todo}"


def _advice_on_several(data: bytes, wire: str, command: str) -> str | None:
    """Say what to do about bodies that stand one a line, and are no events of one stream."""
    lines = [line for line in data.split(b"\n", 3) if line.strip()][:2]
    if len(lines) < 2 or not all(read_as(line, dict[str, Any]) for line in lines):
        return None
    found = _whole(lines[0])
    if found is not None:
        command = _CONVERT if found.kind is Kind.REQUEST else _DECODE
        if wire not in found.wires:
            wire = found.wires[0] if len(found.wires) == 1 else "WIRE"
    elif _best(_measured(_spoken, data)) or _advice_on_lines(data):
        return None
    one = f"sed -n 1p FILE | {command.format(wire)}"
    return f"these are several values, one a line: give one: {one}"


def _whole(line: bytes) -> Likeness | None:
    """Return what a line looks like that says all there is: an event may have an answer's shape."""
    found = likeness_of(line)
    match found:
        case Likeness(Kind.REQUEST):
            return found
        case Likeness(Kind.ANSWER, (name, *_)):
            has_ended = load_wire(name).decode_response(line).raw_stop_reason is not None
            return found if has_ended else None
        case _:
            return None


def _advice_on_lines(data: bytes) -> str | None:
    """Say what to do about events whose data alone was kept, one a line."""
    if not data.lstrip().startswith(b"{"):
        return None
    framed = b"".join([b"data: %b\n\n" % line for line in data[:_ENOUGH].splitlines() if line])
    names = _best(_measured(_spoken, framed))
    if not names:
        return None
    return (
        f"these are events of {names[0]} without their frame: put it back: sed 's/^/data: /;G' FILE"
    )


def _advice_on_list(data: bytes, wire: str) -> str | None:
    """Say what to do about messages without a request around them."""
    if wire not in WIRES or not read_as(data, list[dict[str, Any]]):
        return None
    return f"this is a list: put it into a request: jq '{{{messages_member(wire)}: .}}'"


def _advice_on_error(data: bytes) -> str | None:
    """Say what a server has to say in place of an answer."""
    body = read_as(data, dict[str, Any]) or {}
    if not any(body.get(name) for name in _COMPLAINTS) or isinstance(body.get("message"), dict):
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
    if wire in WIRES and not data.lstrip().startswith((*STREAM_STARTS, *_JSON_STARTS)):
        return "this is neither JSON nor a stream: give the body, and nothing else"
    return None
