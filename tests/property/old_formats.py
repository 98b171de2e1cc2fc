"""JSON of the two older formats, as text, each with its meaning.

Version 0 is the flat chat list of S0 and of OpenAI's API, version 1 the session file of S4.
Unknown members are mixed in everywhere.
"""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from steno.testing import identifiers, json_object_texts, texts, tool_names, visible_texts
from tests.property.raw_json import KNOWN_NAMES, Array, Node, Object, Raw, quote, strings, values

OLD_NAMES = {
    *("role", "content", "tool_calls", "function", "messages", "version", "timestamp", "thinking"),
    *("is_error", "system_prompt", "created_at", "updated_at", "unknown", "mime_type", "data"),
}


class OldCall(NamedTuple):
    """The meaning of a call in an old format."""

    id: str
    name: str
    arguments: str


class OldMessage(NamedTuple):
    """The meaning of a message in an old format."""

    role: str
    text: str | None = None
    calls: tuple[OldCall, ...] = ()
    call_id: str | None = None
    is_error: bool = False
    thinking: tuple[str, ...] = ()
    images: tuple[bytes, ...] = ()
    stop: str | None = None


class OldDocument(NamedTuple):
    """A document of an older version."""

    tree: Node
    said: tuple[OldMessage, ...]
    unknown: tuple[tuple[str, str], ...]
    """Name and raw text of every member that no format has a name for."""


UNKNOWN_NAMES = strings().filter(lambda raw: json.loads(raw) not in KNOWN_NAMES | OLD_NAMES)
UNKNOWN = st.lists(
    st.tuples(UNKNOWN_NAMES, values()), max_size=1, unique_by=lambda member: json.loads(member[0])
)
CALLS = st.lists(
    st.builds(OldCall, identifiers(), tool_names(), json_object_texts().map(str.strip)),
    max_size=2,
    unique_by=lambda call: call.id,
)
WORDS = st.none() | texts(max_size=12)
VISIBLE = visible_texts()
# Go writes nanoseconds, the zone of the machine, and year 1 for a time that was never set.
GO_TIMES = st.sampled_from(
    (
        "2026-02-18T12:00:00Z",
        "2026-02-18T12:00:00.123456789Z",
        "2026-02-18T12:00:00.5+02:00",
        "0001-01-01T00:00:00Z",
    )
)
GO_STOPS = st.sampled_from(
    ("end_turn", "length", "tool_use", "error", "aborted", "unknown", "", "refusal", "Größe")
)


class _Writer:
    """Writes objects with members that are known, and now and then one that is not."""

    def __init__(self, draw: DrawFn) -> None:
        self.draw = draw
        self.unknown: list[tuple[str, str]] = []

    def write(self, **known: Any) -> Object:
        members = [(quote(name), self._node(part)) for name, part in known.items()]
        names = {json.loads(name) for name, _ in self.unknown}
        for name, raw in self.draw(UNKNOWN):
            # One name, one text: then it can be looked for in what is saved.
            if json.loads(name) not in names:
                self.unknown.append((name, raw))
                place = self.draw(st.integers(0, len(members)))
                members.insert(place, (name, Raw(raw)))
        return Object(members)

    def _node(self, part: Any) -> Node:
        if isinstance(part, (Raw, Array, Object)):
            return part
        return Array(part) if isinstance(part, list) else Raw(json.dumps(part, ensure_ascii=False))


# -- version 0 ---------------------------------------------------------------------------------


@st.composite
def flat_chats(draw: DrawFn) -> OldDocument:
    """Chat lists, bare or in an object, with calls as S0 or as OpenAI writes them."""
    writer = _Writer(draw)
    said: list[OldMessage] = []
    nodes: list[Node] = []
    for _ in range(draw(st.integers(0, 4))):
        message, node = _flat_message(draw, writer)
        said.append(message)
        nodes.append(node)
    shape = draw(st.sampled_from(("bare", "object", "version")))
    if shape == "bare":
        return OldDocument(Array(nodes), tuple(said), tuple(writer.unknown))
    version = {"version": 0} if shape == "version" else {}
    tree = writer.write(**version, messages=nodes)
    return OldDocument(tree, tuple(said), tuple(writer.unknown))


def _flat_message(draw: DrawFn, writer: _Writer) -> tuple[OldMessage, Object]:
    role = draw(st.sampled_from(("system", "user", "assistant", "tool")))
    written = draw(st.sampled_from((role, role, role.upper(), role.title())))
    if role == "tool":
        text, call_id = draw(texts()), draw(identifiers())
        return OldMessage(role, text, call_id=call_id), writer.write(
            role=written, tool_call_id=call_id, content=_content(draw, writer, text)
        )
    if role != "assistant":
        text = draw(VISIBLE)
        return OldMessage(role, text), writer.write(
            role=written, content=_content(draw, writer, text, is_prompt=True)
        )
    words, calls = draw(WORDS), draw(CALLS)
    if words is None and not calls:
        words = "a"
    members: dict[str, Any] = {"role": written}
    if words is not None:
        members["content"] = _content(draw, writer, words)
    elif draw(st.booleans()):
        members["content"] = None
    has_empty_list = draw(st.booleans())
    if calls or has_empty_list:
        members["tool_calls"] = [_flat_call(draw, writer, call) for call in calls]
    return OldMessage(role, words, tuple(calls)), writer.write(**members)


def _content(draw: DrawFn, writer: _Writer, text: str, *, is_prompt: bool = False) -> Any:
    if draw(st.booleans()):
        return text
    cut = draw(st.integers(0, len(text)))
    parts = [text[:cut], text[cut:]]
    if is_prompt:  # an empty text would become an opaque block, with the white space of its JSON
        parts = [part for part in parts if part]
    return [writer.write(type="text", text=part) for part in parts]


def _flat_call(draw: DrawFn, writer: _Writer, call: OldCall) -> Object:
    shape = draw(st.sampled_from(("openai", "object", "text")))
    if shape == "openai":
        function = writer.write(name=call.name, arguments=call.arguments)
        return writer.write(id=call.id, type="function", function=function)
    arguments = call.arguments if shape == "text" else Raw(call.arguments)
    return writer.write(id=call.id, name=call.name, arguments=arguments)


# -- version 1 ---------------------------------------------------------------------------------


@st.composite
def sessions(draw: DrawFn) -> OldDocument:
    """Session files of version 1."""
    writer = _Writer(draw)
    prompt = draw(st.just("") | VISIBLE)
    said: list[OldMessage] = [OldMessage("system", prompt)] if prompt else []
    nodes: list[Node] = []
    for _ in range(draw(st.integers(0, 4))):
        message, node = _session_message(draw, writer)
        said.append(message)
        nodes.append(node)
    tree = writer.write(
        version=1,
        id=draw(texts()),
        system_prompt=prompt,
        created_at=draw(GO_TIMES),
        updated_at=draw(GO_TIMES),
        messages=nodes,
    )
    return OldDocument(tree, tuple(said), tuple(writer.unknown))


def _session_message(draw: DrawFn, writer: _Writer) -> tuple[OldMessage, Object]:
    match draw(st.sampled_from(("user", "assistant", "tool_result"))):
        case "user":
            text, image = draw(VISIBLE), draw(st.none() | st.binary(min_size=1, max_size=8))
            blocks = [writer.write(type="text", text=text)]
            if image is not None:
                blocks.append(_image(writer, image))
            said = OldMessage("user", text, images=() if image is None else (image,))
            return said, writer.write(type="user", content=blocks, timestamp=draw(GO_TIMES))
        case "assistant":
            return _session_turn(draw, writer)
        case _:
            text, call_id, is_error = draw(texts()), draw(identifiers()), draw(st.booleans())
            return OldMessage("tool", text, call_id=call_id, is_error=is_error), writer.write(
                type="tool_result",
                tool_call_id=call_id,
                tool_name=draw(tool_names()),
                content=[writer.write(type="text", text=text)],
                is_error=is_error,
                timestamp=draw(GO_TIMES),
            )


def _session_turn(draw: DrawFn, writer: _Writer) -> tuple[OldMessage, Object]:
    thought, words, calls = draw(WORDS), draw(WORDS), draw(CALLS)
    if thought is None and words is None and not calls:
        words = "a"
    blocks: list[Object] = []
    if thought is not None:
        blocks.append(writer.write(type="thinking", thinking=thought))
    if words is not None:
        blocks.append(writer.write(type="text", text=words))
    blocks += [
        writer.write(type="tool_call", id=call.id, name=call.name, arguments=Raw(call.arguments))
        for call in calls
    ]
    stop = draw(GO_STOPS)
    said = OldMessage(
        "assistant",
        words,
        tuple(calls),
        thinking=() if thought is None else (thought,),
        stop=stop or None,
    )
    return said, writer.write(
        type="assistant",
        content=blocks,
        stop_reason=stop,
        raw_stop_reason=draw(st.sampled_from(("", stop))),
        usage=writer.write(input_tokens=150, output_tokens=42),
        timestamp=draw(GO_TIMES),
    )


def _image(writer: _Writer, data: bytes) -> Object:
    encoded = base64.b64encode(data).decode()
    return writer.write(type="image", data=encoded, mime_type="image/png")
