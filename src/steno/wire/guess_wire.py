"""Guess the wire of recorded data, by how much of the data each wire can decode.

The data may be a complete response, a request or a stream. No wire decodes a truncated stream
without an error, but only the right wire yields events or finds a model name before the error. This
module writes no messages for users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from steno.assemble import WireEvent
from steno.errors import StenoError
from steno.messages.content import Opaque
from steno.messages.event import BlockAdded, ExtrasAdded
from steno.messages.message import AssistantMessage
from steno.messages.request import Request
from steno.values import FORM_KEY
from steno.wire import WIRES, Wire, load_wire
from steno.wire.extras import get_extras
from steno.wire.tolerant import read_as

STREAM_PREFIXES: Final = (b"data:", b"event:", b":", b"id:", b"retry:")
"""The prefixes of lines of server-sent events; JSON never starts with one of them."""
_CANONICAL_WIRE: Final = "chat"
"""The wire that decodes nearly any JSON and is therefore tried last."""
_WIRE_ORDER: Final = (*(name for name in WIRES if name != _CANONICAL_WIRE), _CANONICAL_WIRE)
_MODEL_MEMBERS: Final = {
    "anthropic_messages": "model",
    "gemini": "modelVersion",
    "openai_chat": "model",
    "openai_responses": "model",
}
"""The member of the envelope that names the model, for wires that send it before the content."""
SAMPLE_BYTES: Final = 1 << 20
"""The number of bytes at the start of a stream that are decoded to guess its wire."""
_Scorer: TypeAlias = Callable[[Wire, bytes], int | None]


class RecordingKind(Enum):
    """The kind of a recorded HTTP body."""

    RESPONSE = "response"
    REQUEST = "request"
    STREAM = "stream"


class WireGuess(NamedTuple):
    """The likely kind of recorded data, and the wires that understand the data best."""

    kind: RecordingKind
    wires: tuple[str, ...]


def guess_wire(data: bytes) -> WireGuess | None:
    """Guess the kind and the wire of recorded data; None if no wire decodes any of it."""
    is_object = read_as(data, dict[str, Any]) is not None
    for kind, score in _SCORERS.items():
        if kind is not RecordingKind.STREAM and not is_object:
            continue
        # A single object may name a model without being a stream.
        is_doubtful = kind is RecordingKind.STREAM and is_object
        names = _best_wires(_score_wires(_score_events if is_doubtful else score, data))
        if names:
            return WireGuess(kind, names)
    return None


def guess_complete_body(data: bytes) -> WireGuess | None:
    """Guess the wire of a complete body; None for a stream or a single event of a stream."""
    guess = guess_wire(data)
    match guess:
        case WireGuess(RecordingKind.REQUEST):
            return guess
        case WireGuess(RecordingKind.RESPONSE, (name, *_)):
            # An event may have the shape of a response, but has no stop reason.
            has_ended = load_wire(name).decode_response(data).raw_stop_reason is not None
            return guess if has_ended else None
        case _:
            return None


def guess_stream_wires(data: bytes) -> tuple[str, ...]:
    """Return the wires that understand the most events of a stream; empty if no wire does."""
    return _best_wires(_score_wires(_score_events, data))


def find_better_wires(data: bytes, request: Request, wire: str) -> tuple[str, ...]:
    """Return the wires with clearly fewer unknown members of a request than `wire`.

    `request` is `data`, decoded by `wire`. The result is empty if no wire is clearly better, or if
    `wire` is `chat` or is not listed in `WIRES`.
    """
    if wire not in WIRES or wire == _CANONICAL_WIRE:
        return ()
    unknown = _count_unknown_members(request, wire)
    if unknown < _CLEAR_MARGIN:
        return ()
    scores = _score_wires(_score_request, data)
    names = _best_wires(scores)
    return names if names and unknown + (scores[names[0]] or 0) >= _CLEAR_MARGIN else ()


def _score_wires(score: _Scorer, data: bytes) -> dict[str, int | None]:
    return {name: score(load_wire(name), data) for name in _WIRE_ORDER}


def _best_wires(scores: dict[str, int | None]) -> tuple[str, ...]:
    """Return the wires with the highest score; empty if no wire has a score."""
    best = max((number for number in scores.values() if number is not None), default=None)
    return tuple(name for name in scores if best is not None and scores[name] == best)


def count_understood(message: AssistantMessage) -> int:
    """Return the number of blocks of a message that are not opaque."""
    return sum(not isinstance(block, Opaque) for block in message.content)


def _score_response(wire: Wire, data: bytes) -> int | None:
    with suppress(StenoError):
        message = wire.decode_response(data)
        facts = (message.usage, message.raw_stop_reason)
        return count_understood(message) + sum(fact is not None for fact in facts) or None
    return None


def _score_request(wire: Wire, data: bytes) -> int | None:
    """Score a request by its unknown members, since most wires read any object with messages."""
    if wire.NAME == _CANONICAL_WIRE:
        return None
    with suppress(StenoError):
        return -_count_unknown_members(wire.decode_request(data), wire.NAME)
    return None


def _score_stream(wire: Wire, data: bytes) -> int | None:
    number, envelope = _count_events(wire, data)
    return number + bool(envelope.get(_MODEL_MEMBERS.get(wire.NAME, ""))) or None


def _score_events(wire: Wire, data: bytes) -> int | None:
    """Score a stream by its events only, because other JSON may also name a model."""
    return _count_events(wire, data)[0] or None


def _count_events(wire: Wire, data: bytes) -> tuple[int, Mapping[str, Any]]:
    """Return the number of understood events of a stream, and its envelope."""
    decoder = wire.StreamDecoder()
    number = 0
    try:
        for event in decoder.feed(data[:SAMPLE_BYTES]):
            number += _is_understood(event)
        for event in decoder.close():
            number += _is_understood(event)
    except StenoError:
        if wire.NAME == _CANONICAL_WIRE:  # its events may be members of other protocols
            return 0, {}
    return number, decoder.envelope


def _is_understood(event: WireEvent) -> bool:
    is_opaque = isinstance(event, BlockAdded) and isinstance(event.block, Opaque)
    return not is_opaque and not isinstance(event, ExtrasAdded)


_SCORERS: Final[dict[RecordingKind, _Scorer]] = {
    RecordingKind.RESPONSE: _score_response,
    RecordingKind.REQUEST: _score_request,
    RecordingKind.STREAM: _score_stream,
}
"""The scorers in the order they are tried; a score of None means that nothing was understood."""


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
"""Members of a protocol that steno has no field for; they do not indicate another protocol."""
_UNUSUAL_FORMS: Final[dict[str, dict[str, object]]] = {
    "anthropic_messages": {"max_tokens": "absent", "in_messages": True},
    "ollama_chat": {"arguments": "string"},
    "openai_chat": {"arguments_are": "object"},
}
"""Notes on recorded forms that are rare in a protocol and suggest another protocol."""
_DISTINCTIVE_MEMBERS: Final = frozenset(
    [
        *("image_url", "images", "input_schema", "max_completion_tokens", "options"),
        *("response_format", "stop_sequences", "system", "tool_name", "tool_use_id"),
    ]
)
"""Members of exactly one protocol, which count twice if a wire does not know them."""
_CLEAR_MARGIN: Final = 2
"""The minimum difference in unknown members; a smaller one may be due to a server's own members."""


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
    """Yield the names of the members of a JSON value at all depths, without recursion."""
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
