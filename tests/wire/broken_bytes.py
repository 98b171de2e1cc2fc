"""Strategies for broken responses and requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from steno import StopReason, Usage
from steno.testing import json_values, texts
from steno.testing.conformance import (
    CallFragment,
    KeepAlive,
    NotExpressible,
    RedactedThinking,
    Refusal,
    ScriptedServer,
    ScriptLine,
    ServerFailure,
    TextPiece,
    ThinkingPiece,
    ThinkingSeal,
    TurnEnd,
    UnknownBlock,
    UnknownEvent,
    UnknownMember,
    UsageOnly,
    WholeCall,
    encode_json,
)

# -- responses -----------------------------------------------------------------------------------

SHORT = texts(max_size=8)
HALVES = st.sampled_from(("\ud83d", "\ude00", "a\ud800", "\udc00b"))
IDS = st.none() | st.sampled_from(("", "a", "b"))
NAMES = st.none() | st.sampled_from(("", "read", "write", "fs.read"))
INDEXES = st.none() | st.integers(0, 2)
FRAGMENTS = st.none() | st.sampled_from(("", "{", '{"a":', "1}", "{}", '"', "\\", "]")) | SHORT
USAGES = st.builds(
    Usage,
    input_tokens=st.none() | st.integers(100, 2**60),
    output_tokens=st.none() | st.integers(50, 100),
    cache_read_tokens=st.none() | st.integers(0, 50),
    thinking_tokens=st.none() | st.integers(0, 50),
)
LINES: SearchStrategy[ScriptLine] = st.one_of(
    st.builds(TextPiece, SHORT | HALVES),
    st.builds(ThinkingPiece, SHORT | HALVES),
    st.builds(ThinkingSeal, st.sampled_from(("c2VhbA==", ""))),
    st.builds(RedactedThinking, st.sampled_from(("c2VhbA==", ""))),
    st.builds(Refusal, SHORT),
    st.builds(CallFragment, INDEXES, IDS, NAMES, FRAGMENTS),
    st.builds(WholeCall, IDS, st.sampled_from(("read", "write", "")), FRAGMENTS),
    st.builds(UnknownEvent, SHORT),
    st.builds(UnknownMember, SHORT),
    st.builds(UnknownBlock, SHORT),
    st.just(KeepAlive()),
    st.builds(UsageOnly, USAGES),
    st.builds(TurnEnd, st.sampled_from(StopReason), st.none() | USAGES, st.none() | SHORT),
    st.builds(ServerFailure, SHORT),
)


@st.composite
def response_frames(draw: DrawFn, speaker: ScriptedServer) -> list[bytes]:
    """The frames of whole responses, with their content in any order."""
    said: list[ScriptLine] = []
    frames: list[bytes] = []
    for line in draw(st.lists(LINES, min_size=1, max_size=8)):
        try:
            frames = speaker.frames([*said, line])
        except NotExpressible:
            continue
        said.append(line)
    return frames


# -- faults --------------------------------------------------------------------------------------

DEEP = st.sampled_from((40, 200, 5_000)).map(lambda depth: "[" * depth + "]" * depth)
ODD_JSON = st.one_of(
    json_values(max_leaves=3).map(lambda value: encode_json(value).decode()),
    DEEP,
    st.sampled_from(("1e999", "-1", "99999999999999999999999", '"\\ud800"', "tru", '"', "", "\0")),
)
ODD_BYTES = st.binary(max_size=6) | st.sampled_from(
    (b"\n", b"\r", b"\n\n", b"data:", b"data: ", b"event: error\n", b": ", b"[DONE]", b"{", b"}")
)


_DEEPEST = 100  # a newer Python reads JSON that is nested deeper than functions can be


def replace_json(draw: DrawFn, frame: bytes) -> bytes:
    """Replace one value of the JSON in a frame."""
    start, end = frame.find(b"{"), frame.rfind(b"}") + 1
    try:
        payload = json.loads(frame[start:end])
    except (ValueError, RecursionError):
        return frame  # the frame is broken already
    place = draw(st.sampled_from(_places(payload, ())))
    mark = "\0here\0"
    changed = _with(payload, place, mark)
    text = encode_json(changed).replace(encode_json(mark), draw(ODD_JSON).encode(errors="replace"))
    return frame[:start] + text + frame[end:]


def _places(value: Any, place: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    found = [place]
    if isinstance(value, (dict, list)) and len(place) < _DEEPEST:
        for name, member in value.items() if isinstance(value, dict) else enumerate(value):
            found += _places(member, (*place, name))
    return found


def _with(value: Any, place: tuple[Any, ...], news: Any) -> Any:
    if not place:
        return news
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = _with(value[place[0]], place[1:], news)
    return copy


def insert_bytes(draw: DrawFn, frame: bytes) -> bytes:
    place = draw(st.integers(0, len(frame)))
    return frame[:place] + draw(ODD_BYTES) + frame[place:]


def drop_bytes(draw: DrawFn, frame: bytes) -> bytes:
    start = draw(st.integers(0, len(frame)))
    return frame[:start] + frame[start + draw(st.integers(1, 20)) :]


MUTATIONS: list[Callable[[DrawFn, bytes], bytes]] = [
    replace_json,
    replace_json,
    insert_bytes,
    drop_bytes,
]


@st.composite
def broken_answers(draw: DrawFn, speaker: ScriptedServer) -> bytes:
    """Responses in which frames were changed, removed, repeated or moved."""
    frames = draw(response_frames(speaker))
    for _ in range(draw(st.integers(0, 3))):
        if not frames:
            break
        place = draw(st.integers(0, len(frames) - 1))
        match draw(st.sampled_from(("change", "change", "change", "lose", "repeat", "move"))):
            case "change":
                frames[place] = draw(st.sampled_from(MUTATIONS))(draw, frames[place])
            case "lose":
                del frames[place]
            case "repeat":
                frames.insert(place, frames[place])
            case _:
                frames.append(frames.pop(place))
    return b"".join(frames)


@st.composite
def broken_requests(draw: DrawFn, speaker: ScriptedServer) -> bytes:
    """Recorded requests in which one or two values were replaced."""
    body = draw(st.sampled_from(speaker.requests))
    for _ in range(draw(st.integers(1, 2))):
        body = replace_json(draw, body)
    return body


def cuts(data: bytes) -> SearchStrategy[list[bytes]]:
    """Ways to cut bytes into pieces, some of them empty."""
    places = st.lists(st.integers(0, len(data)), max_size=6).map(sorted)
    return places.map(
        lambda found: [data[a:b] for a, b in zip([0, *found], [*found, len(data)], strict=True)]
    )
